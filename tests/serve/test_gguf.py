# SPDX-License-Identifier: Apache-2.0
"""Reading GGUF files, and the errors of damaged ones."""

import struct

import numpy as np
import pytest

from baracuda.serve import config, gguf
from baracuda.serve.errors import ModelFileError
from harness import gguf_files
from harness.gguf_files import decode, encode, tiny_model, write


def test_metadata_of_every_type(tmp_path):
    metadata = {
        "a": 7, "b": 0.5, "c": True, "d": "text \u00e9", "e": ["x", ""], "f": [1, -2, 3], "general.alignment": 64,
    }  # fmt: skip
    path = write(tmp_path / "x.gguf", metadata, {})
    assert gguf.read(path).metadata == metadata


@pytest.mark.parametrize("form", gguf_files.TYPE_IDS)
def test_values_of_each_format(form, tmp_path, rng):
    values = rng.standard_normal((6, 96))
    data = encode(values, form)
    path = write(tmp_path / "x.gguf", {"name": "x"}, {"odd": ((3,), "f32", bytes(12)), "w": ((2, 3, 96), form, data)})
    tensor = gguf.read(path).tensors["w"]
    assert tensor.shape == (2, 3, 96)
    got = tensor.format.decode(tensor.data)
    want = decode(data, form, 96)
    np.testing.assert_allclose(got, want, rtol=2e-7, atol=1e-7)  # one rounding of f32 for the product, one for the sum
    assert np.abs(want - values).max() < {"f32": 1e-6, "f16": 2e-3, "bf16": 2e-2, "q8_0": 3e-2}.get(form, 0.5)


def test_every_truncation_is_an_error(tiny, tmp_path):
    data = tiny[0].read_bytes()
    path = tmp_path / "cut.gguf"
    for length in [*range(0, 400, 7), 5000, len(data) // 2, len(data) - 1]:
        path.write_bytes(data[:length])
        with pytest.raises(ModelFileError, match=r"cut\.gguf"):
            gguf.read(path)


@pytest.mark.parametrize(
    ("at", "replaced", "message"),
    [
        (0, b"GGML", "begins with b'GGML'"),
        (4, struct.pack("<I", 1), "GGUF version 1"),
        (16, struct.pack("<Q", 2**60), "ends within its metadata"),
        (24, struct.pack("<Q", 2**63), "ends within its metadata"),
    ],
)
def test_damaged_heads(at, replaced, message, tiny, tmp_path):
    data = bytearray(tiny[0].read_bytes())
    data[at : at + len(replaced)] = replaced
    (tmp_path / "x.gguf").write_bytes(data)
    with pytest.raises(ModelFileError, match=message):
        gguf.read(tmp_path / "x.gguf")


def test_damaged_tensors(tmp_path):
    cases = {
        "type 99, which is not served": ({"w": ((1, 32), "f32", bytes(128))}, struct.pack("<I", 99)),
        "must be 1 to 4": ({"w": ((1, 1, 1, 1, 32), "f32", bytes(128))}, None),
        "rows of 33 values": ({"w": ((1, 33), "q8_0", bytes(34))}, None),
        "of a file of": ({"w": ((4, 32), "f32", bytes(128))}, None),
    }
    for message, (tensors, type_id) in cases.items():
        path = write(tmp_path / "x.gguf", {}, tensors)
        if type_id:
            data = bytearray(path.read_bytes())
            at = 24 + 8 + 1 + 4 + 16  # behind the counts, the name and the extents
            data[at : at + 4] = type_id
            path.write_bytes(data)
        with pytest.raises(ModelFileError, match=message):
            gguf.read(path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"general.architecture": "mamba"}, "general.architecture is 'mamba'"),
        ({"llama.block_count": "two"}, "llama.block_count is 'two'"),
        ({"llama.block_count": 0}, "layers is 0"),
        ({"llama.attention.head_count": 0}, "head_count is 0"),
        ({"llama.attention.head_count_kv": 3}, "do not share 3 heads"),
        ({"llama.attention.key_length": 15}, "head_dim is 15"),
        ({"llama.rope.scaling.type": "yarn"}, "rope.scaling.type is 'yarn'"),
        ({"llama.rope.dimension_count": 8}, "rope of 8 of 16"),
    ],
)
def test_models_that_are_not_served(changes, message, tmp_path):
    path, _, _ = tiny_model(tmp_path / "x.gguf", **changes)
    with pytest.raises(ModelFileError, match=message):
        config.from_gguf(gguf.read(path).metadata, 266)


def test_missing_and_misshapen_tensors(tmp_path, make_model):
    for name, value in {"llama.block_count": 3, "llama.feed_forward_length": 128}.items():
        path, _, _ = tiny_model(tmp_path / "x.gguf", **{name: value})
        with pytest.raises(ModelFileError, match=r"blk\.(2|0)\.\w+"):
            make_model(path)
