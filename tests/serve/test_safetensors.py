# SPDX-License-Identifier: Apache-2.0
"""A model in a folder of Hugging Face, against the same model in GGUF."""

import json
import struct

import numpy as np
import pytest

import baracuda as bk
from baracuda.serve.config import HALVES
from baracuda.serve.engine import load
from baracuda.serve.errors import ModelFileError
from baracuda.serve.hugging_face import NUMBERS, OTHERS, TENSORS
from baracuda.serve.model import Chunk
from harness.gguf_files import MERGES, SPECIALS, decode, encode, tiny_model, vocabulary
from harness.llama_reference import logits as reference


def folder_of(path, metadata, values, form, **changes):
    """Write a folder with the tensors of a tiny model; returns the values in `form`."""
    kind = metadata["general.architecture"]
    names = {short: long for long, short in TENSORS.items()}
    others = {short: long for long, short in OTHERS.items()}
    head, body, rounded = {}, b"", {}
    for name, array in values.items():
        data = encode(array, form)
        rounded[name] = decode(data, form, array.shape[-1]).reshape(array.shape)
        parts = name.split(".")
        long = others[name] if name in others else f"model.layers.{parts[1]}.{names[parts[2]]}.{parts[3]}"
        offsets = [len(body), len(body) + len(data)]
        head[long] = {"dtype": form.upper(), "shape": list(array.shape), "data_offsets": offsets}
        body += data
    described = json.dumps(head).encode()
    (path / "model.safetensors").write_bytes(struct.pack("<Q", len(described)) + described + body)
    config = {name: metadata[f"{kind}.{key}"] for name, key in NUMBERS.items() if f"{kind}.{key}" in metadata}
    config |= {"model_type": kind, "tie_word_embeddings": True, "bos_token_id": 1, "eos_token_id": [2, 0]} | changes
    (path / "config.json").write_text(json.dumps(config))
    tokens = vocabulary()
    described = {
        "model": {"type": "BPE", "vocab": {text: k for k, text in enumerate(tokens)}, "merges": list(MERGES)},
        "added_tokens": [{"id": k, "content": text} for k, text in enumerate(SPECIALS)],
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [{"type": "Digits", "individual_digits": True}, {"type": "ByteLevel"}],
        },
    }
    (path / "tokenizer.json").write_text(json.dumps(described))
    (path / "chat_template.jinja").write_text(metadata["tokenizer.chat_template"])
    return rounded


@pytest.mark.parametrize("form", ["f32", "f16", "bf16"])
@pytest.mark.parametrize("architecture", ["llama", "qwen2"])
def test_logits_and_tokens(form, architecture, tmp_path, library, prompt, words):
    _, metadata, values = tiny_model(tmp_path / "x.gguf", architecture=architecture)
    rounded = folder_of(tmp_path, metadata, values, form)
    engine = load(tmp_path, library, cache_tokens=256)
    tokens = prompt(20)
    got = bk.download(engine.model.forward([Chunk(tokens, 0, [0, 1], True)]), library=library)[0]
    want = reference(metadata | {HALVES: True}, rounded, tokens)[-1]
    assert np.abs(got - want).max() < 2e-5 * np.abs(want).max()
    assert engine.tokenizer.encode("the hand 12", specials=True) == words.encode("the hand 12")
    assert engine.tokenizer.eos == {0, 2}
    assert engine.chat.encode([{"role": "user", "content": "hi"}])[0] == 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model_type": "mamba"}, "model_type is 'mamba'"),
        ({"rope_scaling": {"type": "yarn"}}, "rope_scaling is"),
        ({"rope_parameters": {"rope_type": "llama3"}}, "rope_type is 'llama3'"),
    ],
)
def test_folders_that_are_not_served(changes, message, tmp_path, library):
    _, metadata, values = tiny_model(tmp_path / "x.gguf")
    folder_of(tmp_path, metadata, values, "f32", **changes)
    with pytest.raises(ModelFileError, match=message):
        load(tmp_path, library)


def test_folders_with_missing_files(tmp_path, library):
    _, metadata, values = tiny_model(tmp_path / "x.gguf")
    folder_of(tmp_path, metadata, values, "f32")
    (tmp_path / "model.safetensors").unlink()
    with pytest.raises(ModelFileError, match=r"has no \*\.safetensors"):
        load(tmp_path, library)
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(ModelFileError, match=r"config\.json is not JSON"):
        load(tmp_path, library)
