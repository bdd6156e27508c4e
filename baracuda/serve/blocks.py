# SPDX-License-Identifier: Apache-2.0
"""GGUF's tensor formats, and their values by NumPy.

A block of q4_0 or q8_0 has values d q of one scale d, a block of q4_1 d q + m; d and m are f16. The low nibbles of a
4-bit block are its first half, the high nibbles the second.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from baracuda.serve.errors import ModelFileError

Array = np.ndarray[Any, Any]


@dataclasses.dataclass(frozen=True)
class BlockFormat:
    """`values` of a block in `bytes` bytes; `decode` takes (rows, bytes of a row) and gives f32 (rows, values)."""

    name: str
    values: int
    bytes: int
    decode: Callable[[Array], Array]


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
    values: Array = (np.ascontiguousarray(data).view("<u2").astype(np.uint32) << 16).view(np.float32)
    return values


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


# By GGML type id.
FORMATS = {
    0: BlockFormat("f32", 1, 4, _decode_f32),
    1: BlockFormat("f16", 1, 2, _decode_f16),
    2: BlockFormat("q4_0", 32, 18, _decode_q4_0),
    3: BlockFormat("q4_1", 32, 20, _decode_q4_1),
    8: BlockFormat("q8_0", 32, 34, _decode_q8_0),
    30: BlockFormat("bf16", 1, 2, _decode_bf16),
}
BY_NAME = {each.name: each for each in FORMATS.values()}


def format_of(type_id: int, what: str) -> BlockFormat:
    if type_id not in FORMATS:
        served = ", ".join(each.name for each in FORMATS.values())
        raise ModelFileError(f"{what} has the GGML type {type_id}, served are {served}")
    return FORMATS[type_id]
