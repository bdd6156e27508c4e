# SPDX-License-Identifier: Apache-2.0
"""The formats of tensors in GGUF files, and the values of some by NumPy.

Weights of blocks stay as they are where the library has their product (baracuda.serve.weights). The decoders here serve
vectors, float formats, and libraries of some families that lack the product: a block of q4_0 or q8_0 has values d q of
one scale d, a block of q4_1 d q + m; d and m are f16. The low nibbles of a 4-bit block are its first half.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

import baracuda as bk
from baracuda.serve.errors import ModelFileError

Array = np.ndarray[Any, Any]


@dataclasses.dataclass(frozen=True)
class TensorFormat:
    """`values` of a block in `bytes` bytes. `block` is the library's name of a format of blocks. `decoder` takes (rows,
    bytes of a row) and gives f32 (rows, values), where NumPy decodes it.
    """

    name: str
    values: int
    bytes: int
    block: bk.GgufBlockFormat | None = None
    decoder: Callable[[Array], Array] | None = None

    def decode(self, data: Array) -> Array:
        if self.decoder is None:
            raise ModelFileError(f"this library has no products with {self.name} weights")
        return self.decoder(data)


def _blocks(data: Array, size: int) -> Array:
    return np.ascontiguousarray(data).reshape(-1, size)


def _f16(blocks: Array, at: int) -> Array:
    return _decode_f16(blocks[:, at : at + 2])


def _nibbles(packed: Array) -> Array:
    return np.concatenate([packed & 15, packed >> 4], axis=1).astype(np.float32)


def _decode_f32(data: Array) -> Array:
    return np.ascontiguousarray(data).view("<f4").astype(np.float32, copy=False)


def _decode_f16(data: Array) -> Array:
    return np.ascontiguousarray(data).view("<f2").astype(np.float32)


def _decode_bf16(data: Array) -> Array:
    wide: Array = np.ascontiguousarray(data).view("<u2").astype(np.uint32) << 16
    return wide.view(np.float32)


def _decode_q4_0(data: Array) -> Array:
    blocks = _blocks(data, 18)
    values: Array = _f16(blocks, 0) * (_nibbles(blocks[:, 2:]) - 8)
    return values.reshape(len(data), -1)


def _decode_q4_1(data: Array) -> Array:
    blocks = _blocks(data, 20)
    values: Array = _f16(blocks, 0) * _nibbles(blocks[:, 4:]) + _f16(blocks, 2)
    return values.reshape(len(data), -1)


def _decode_q8_0(data: Array) -> Array:
    blocks = _blocks(data, 34)
    values: Array = _f16(blocks, 0) * blocks[:, 2:].view(np.int8)
    return values.reshape(len(data), -1)


_DECODERS = {"q4_0": _decode_q4_0, "q4_1": _decode_q4_1, "q8_0": _decode_q8_0}
_FLOATS = {0: ("f32", 4, _decode_f32), 1: ("f16", 2, _decode_f16), 30: ("bf16", 2, _decode_bf16)}


def format_of(type_id: int, what: str) -> TensorFormat:
    """The format of a GGML type id; `what` names the tensor in errors."""
    if type_id in _FLOATS:
        name, size, decoder = _FLOATS[type_id]
        return TensorFormat(name, 1, size, None, decoder)
    try:
        block = bk.GgufBlockFormat(type_id)
    except ValueError:
        raise ModelFileError(f"{what} has the GGML type {type_id}, which is not served") from None
    name = block.name.lower()
    return TensorFormat(name, block.block_size, block.type_size, block, _DECODERS.get(name))
