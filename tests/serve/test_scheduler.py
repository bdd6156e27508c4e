# SPDX-License-Identifier: Apache-2.0
"""Requests through the scheduler: batches, chunks, prefixes, preemption, cancelling, stop strings and samplers."""

import numpy as np
import pytest

from baracuda.serve.errors import RequestError
from baracuda.serve.request import Options
from baracuda.serve.scheduler import Scheduler
from baracuda.serve.sequence import Request, StopStrings
from harness.llama_reference import logits as reference


class Reader:
    """Collects what a request gets."""

    def __init__(self):
        self.text, self.tokens, self.logprobs, self.finish, self.error = "", [], [], None, None

    def __call__(self, delta):
        assert self.finish is None, "a delta after the last one"
        self.text += delta.text
        self.tokens += delta.tokens
        self.logprobs += delta.logprobs
        self.finish, self.error = delta.finish, delta.error


@pytest.fixture
def serve(tiny, words, make_model):
    """Run requests of (prompt, options) to their ends on a new scheduler, `arrivals` of them before each step."""

    def run(given, arrivals=1000, steps=2000, **limits):
        scheduler = Scheduler(make_model(tiny[0], **limits))
        readers = [Reader() for _ in given]
        requests = [Request(prompt, options, words, reader) for (prompt, options), reader in zip(given, readers)]
        left = list(requests)
        for _ in range(steps):
            for request in left[:arrivals]:
                scheduler.submit(request)
            left = left[arrivals:]
            scheduler.step()
            if not (left or scheduler.has_work):
                break
        assert scheduler.pool.used == 0
        assert all(reader.finish for reader in readers)
        return readers, requests, scheduler

    return run


def greedy(count, **options):
    return Options(max_tokens=count, temperature=0, ignore_eos=True, **options)


def test_greedy_tokens_are_those_of_float64(tiny, serve, prompt):
    _, metadata, values = tiny
    given = [(prompt(n), greedy(12)) for n in (3, 20)]
    readers, _, _ = serve(given)
    for (tokens, _), reader in zip(given, readers):
        expected = list(tokens)
        for _ in range(12):
            expected.append(int(reference(metadata, values, expected)[-1].argmax()))
        assert reader.tokens == expected[len(tokens) :]
        assert reader.finish == "length"


@pytest.mark.parametrize("limits", [{}, {"tokens": 9}, {"pages": 8, "page_size": 4}, {"page_size": 1, "pages": 40}])
def test_batch_invariant_requests_alone_and_among_others(limits, serve, prompt):
    """Tokens and log probabilities are equal whatever runs beside a request, also where it is preempted."""
    given = [(prompt(n), Options(max_tokens=9, seed=n, logprobs=2, ignore_eos=True)) for n in (5, 17, 1, 22, 9, 13)]
    together, _, scheduler = serve(given, arrivals=2, batch_invariant=True, sequences=4, **limits)
    if limits.get("pages") == 8:
        assert scheduler.preempted
    for each, reader in zip(given, together):
        (alone,), _, _ = serve([each], batch_invariant=True)
        assert reader.tokens == alone.tokens
        assert reader.logprobs == alone.logprobs


def test_a_prompt_is_computed_in_chunks_beside_generation(serve, prompt):
    given = [(prompt(4), greedy(20)), (prompt(60), greedy(2))]
    readers, _, _ = serve(given, tokens=8, sequences=8)
    assert [len(reader.tokens) for reader in readers] == [20, 2]


def test_a_prefix_that_is_cached_is_not_computed_again(serve, prompt):
    common = prompt(50)
    given = [(common + prompt(5), greedy(4)), (common + prompt(7), greedy(4)), (common[:48], greedy(4))]
    readers, requests, _ = serve(given, arrivals=1, batch_invariant=True)
    assert [request.reused for request in requests] == [0, 48, 32]  # the last token is computed, for its logits
    for each, reader in zip(given, readers):
        (alone,), _, _ = serve([each], batch_invariant=True)
        assert reader.tokens == alone.tokens


def test_more_requests_than_memory_wait(serve, prompt):
    given = [(prompt(20), greedy(10)) for _ in range(12)]
    readers, _, scheduler = serve(given, pages=5, page_size=8)
    assert all(len(reader.tokens) == 10 for reader in readers)
    assert scheduler.pool.count == 5


def test_the_oldest_request_is_never_preempted(tiny, words, make_model, prompt):
    scheduler = Scheduler(make_model(tiny[0], pages=6, page_size=4))
    readers = [Reader() for _ in range(3)]
    for reader in readers:
        scheduler.submit(Request(prompt(4), greedy(18), words, reader))
    counts = []
    while scheduler.has_work:
        scheduler.step()
        counts.append([len(reader.tokens) for reader in readers])
    firsts = [count[0] for count in counts[:18]]
    assert firsts == list(range(1, 19))
    assert scheduler.preempted
    assert counts[-1] == [18] * 3


def test_a_cancelled_request_frees_its_pages(tiny, words, make_model, prompt):
    scheduler = Scheduler(make_model(tiny[0]))
    running, waiting = (Request(prompt(30), greedy(100), words, Reader()) for _ in range(2))
    scheduler.submit(running)
    scheduler.step()
    assert scheduler.pool.used == 2
    scheduler.submit(waiting)
    running.is_cancelled = waiting.is_cancelled = True
    scheduler.step()
    assert scheduler.pool.used == 0
    assert not scheduler.has_work


def test_requests_that_could_never_be_served(tiny, words, make_model, prompt):
    scheduler = Scheduler(make_model(tiny[0], pages=4))
    with pytest.raises(RequestError, match="max_tokens is 60") as caught:
        scheduler.submit(Request(prompt(5), greedy(60), words, Reader()))
    assert caught.value.parameter == "max_tokens"
    with pytest.raises(RequestError, match="no tokens"):
        scheduler.submit(Request([], greedy(1), words, Reader()))


def test_logits_that_are_not_numbers_end_one_request(tiny, words, make_model, prompt, monkeypatch):
    import baracuda.serve.scheduler as module

    scheduler = Scheduler(make_model(tiny[0]))
    readers = [Reader(), Reader()]
    for reader in readers:
        scheduler.submit(Request(prompt(3), greedy(3), words, reader))
    sample = module.sample
    monkeypatch.setattr(module, "sample", lambda *given: [(-1, None), *sample(*given)[1:]])
    scheduler.step()
    monkeypatch.undo()
    while scheduler.has_work:
        scheduler.step()
    assert (readers[0].finish, readers[0].error) == ("error", "the logits are not numbers")
    assert len(readers[1].tokens) == 3


def test_sampling_draws_by_seed_and_step(serve, prompt):
    text = prompt(6)
    given = [(text, Options(max_tokens=20, seed=seed, ignore_eos=True)) for seed in (7, 7, 8)]
    readers, _, _ = serve(given, batch_invariant=True)
    assert readers[0].tokens == readers[1].tokens != readers[2].tokens


def test_frequencies_of_sampled_tokens(tiny, serve, prompt):
    """First tokens of many seeds against their probabilities at a temperature: chi-squared over frequent tokens."""
    _, metadata, values = tiny
    text = prompt(8)
    count, temperature = 600, 0.7
    given = [(text, Options(max_tokens=1, seed=seed, temperature=temperature)) for seed in range(count)]
    readers, _, _ = serve(given, sequences=64)
    logits = reference(metadata, values, text)[-1] / temperature
    p = np.exp(logits - logits.max())
    p /= p.sum()
    frequent = np.flatnonzero(count * p >= 8)
    seen = np.bincount([reader.tokens[0] for reader in readers], minlength=len(p))
    expected = np.append(count * p[frequent], count * (1 - p[frequent].sum()))
    observed = np.append(seen[frequent], count - seen[frequent].sum())
    statistic = ((observed - expected) ** 2 / expected).sum()
    degrees = len(frequent)
    assert statistic < degrees + 5 * np.sqrt(2 * degrees)


def test_logprobs_are_those_of_the_distribution(tiny, serve, prompt):
    _, metadata, values = tiny
    text = prompt(8)
    ((reader,), _, _) = serve([(text, greedy(1, logprobs=3, frequency_penalty=1.0))])
    logits = reference(metadata, values, text)[-1]
    logs = logits - logits.max() - np.log(np.exp(logits - logits.max()).sum())
    (logprob,) = reader.logprobs
    best = np.argsort(-logs)[:3].tolist()
    assert [token for token, _ in logprob.top] == best
    np.testing.assert_allclose([value for _, value in logprob.top], logs[best], atol=1e-4)
    np.testing.assert_allclose(logprob.logprob, logs[logprob.token], atol=1e-4)


def test_penalties_and_biases(tiny, serve, prompt):
    _, metadata, values = tiny
    text = prompt(8)
    order = np.argsort(-reference(metadata, values, text)[-1]).tolist()
    cases = {
        "bias": (greedy(1, logit_bias=((order[0], -100.0), (order[1], -100.0))), order[2]),
        "wanted": (greedy(1, logit_bias=((77, 100.0),)), 77),
        "outside": (greedy(1, logit_bias=((10**6, 100.0),)), order[0]),
        "plain": (greedy(1), order[0]),
    }
    readers, _, _ = serve([(text, options) for options, _ in cases.values()])
    assert [reader.tokens[0] for reader in readers] == [token for _, token in cases.values()]
    ((reader,), _, _) = serve([(text, greedy(40, frequency_penalty=2.0, presence_penalty=2.0, repetition_penalty=4.0))])
    ((plain,), _, _) = serve([(text, greedy(40))])
    assert len(set(reader.tokens)) > len(set(plain.tokens))


def test_the_end_token_ends_a_request(words, serve, prompt):
    (reader,), _, _ = serve([(prompt(4), Options(max_tokens=9, temperature=0, logit_bias=((2, 100.0),)))])
    assert (reader.tokens, reader.text, reader.finish) == ([2], "", "stop")


def test_stop_strings_end_a_text_before_them(words, serve, prompt):
    text = prompt(6)
    (whole,), _, _ = serve([(text, greedy(30))])
    stop = whole.text[9:12]
    (reader,), _, _ = serve([(text, greedy(30, stop=(stop, "never seen")))])
    assert reader.text == whole.text[: whole.text.index(stop)]
    assert reader.finish == "stop"


def test_held_text_goes_out_with_the_last_token(words, serve, prompt):
    text = prompt(6)
    (whole,), _, _ = serve([(text, greedy(12))])
    (reader,), _, _ = serve([(text, greedy(12, stop=(whole.text[-2:] + "?",)))])
    assert (reader.text, reader.finish) == (whole.text, "length")


def test_stop_strings_across_additions():
    stops = StopStrings(["abcd", "x"])
    assert [stops.add(part) for part in ("ab", "c", "ab", "cd")] == [
        ("", False),
        ("", False),
        ("abc", False),
        ("", True),
    ]
    stops = StopStrings(["aab"])
    assert [stops.add(part) for part in ("aa", "a", "b tail")] == [("", False), ("a", False), ("", True)]
    stops = StopStrings(["ab", "b"])
    assert stops.add("1ab") == ("1", True)
    stops = StopStrings([])
    assert (stops.add("text"), stops.finish()) == (("text", False), "")


@pytest.mark.parametrize(
    ("options", "parameter"),
    [
        ({"max_tokens": 0}, "max_tokens"), ({"temperature": -0.1}, "temperature"), ({"temperature": float("nan")},
        "temperature"), ({"top_p": 1.5}, "top_p"), ({"min_p": -1.0}, "min_p"), ({"top_k": -2}, "top_k"),
        ({"seed": 2**64}, "seed"), ({"repetition_penalty": 0.0}, "repetition_penalty"),
        ({"frequency_penalty": 3.0}, "frequency_penalty"), ({"presence_penalty": -3.0}, "presence_penalty"),
        ({"logit_bias": ((1, 101.0),)}, "logit_bias"), ({"stop": ("",)}, "stop"), ({"logprobs": 21}, "logprobs"),
    ],
)  # fmt: skip
def test_options_out_of_range(options, parameter):
    with pytest.raises(RequestError, match=parameter) as caught:
        Options(**options)
    assert caught.value.parameter == parameter
