# SPDX-License-Identifier: Apache-2.0
"""Decoders of GGUF's block formats in NumPy, element by element: a value is scale * code + offset, in f32.

The formats are those of ggml-common.h (llama.cpp); element e of a block reads the bytes that each function here names.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

F = np.float32
Parts = tuple[np.ndarray, np.ndarray, np.ndarray | float]  # scale, code and offset of each value


class Format(NamedTuple):
    """A block format: its GGML type id, values and bytes of a block, and the decoder of blocks (count, bytes)."""

    name: str
    id: int
    values: int
    bytes: int
    parts: Callable[[np.ndarray], Parts]


def half(blocks: np.ndarray, at: int) -> np.ndarray:
    """The f16 at a byte of each block."""
    return np.ascontiguousarray(blocks[:, at : at + 2]).view("<f2").astype(F)


def word(blocks: np.ndarray, at: int, dtype: str = "<u4") -> np.ndarray:
    """The integer at a byte of each block."""
    return np.ascontiguousarray(blocks[:, at : at + np.dtype(dtype).itemsize]).view(dtype).astype(np.int64)


def bits(blocks: np.ndarray, at: np.ndarray, shift: np.ndarray, count: int) -> np.ndarray:
    """`count` bits from bit `shift` of the bytes `at`."""
    return blocks[:, at].astype(np.int64) >> shift & ((1 << count) - 1)


def signed(blocks: np.ndarray, at: np.ndarray) -> np.ndarray:
    return blocks[:, at].view(np.int8).astype(np.int64)


E32, E256 = np.arange(32), np.arange(256)


def nibbles32(blocks: np.ndarray, at: int) -> np.ndarray:
    return bits(blocks, at + E32 % 16, E32 // 16 * 4, 4)


def q4_0(b: np.ndarray) -> Parts:
    return half(b, 0), nibbles32(b, 2) - 8, 0.0


def q4_1(b: np.ndarray) -> Parts:
    return half(b, 0), nibbles32(b, 4), half(b, 2)


def q5_0(b: np.ndarray) -> Parts:
    return half(b, 0), nibbles32(b, 6) + 16 * (word(b, 2) >> E32 & 1) - 16, 0.0


def q5_1(b: np.ndarray) -> Parts:
    return half(b, 0), nibbles32(b, 8) + 16 * (word(b, 4) >> E32 & 1), half(b, 2)


def q8_0(b: np.ndarray) -> Parts:
    return half(b, 0), signed(b, 2 + E32), 0.0


def q8_1(b: np.ndarray) -> Parts:
    return half(b, 0), signed(b, 4 + E32), 0.0


# --- blocks of 256, with element e = 128 n + 32 j + l -----------------------------------------------------------------

N, J, L = E256 // 128, E256 % 128 // 32, E256 % 32


def q2_k(b: np.ndarray) -> Parts:
    scale, minimum = bits(b, E256 // 16, np.array(0), 4), bits(b, E256 // 16, np.array(4), 4)
    return half(b, 80) * scale.astype(F), bits(b, 16 + 32 * N + L, 2 * J, 2), -(half(b, 82) * minimum.astype(F))


def q3_k(b: np.ndarray) -> Parts:
    s = E256 // 16
    scale = bits(b, 96 + s % 8, s // 8 * 4, 4) + 16 * bits(b, 104 + s % 4, s // 4 * 2, 2) - 32
    code = bits(b, 32 + 32 * N + L, 2 * J, 2) - 4 * (1 - bits(b, L, 4 * N + J, 1))
    return half(b, 108) * scale.astype(F), code, 0.0


def packed_scales(b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Scale and minimum of q4_K and q5_K, by group of 32: six bits each in the twelve bytes from byte 4."""
    pairs = []
    for g in range(8):
        if g < 4:
            scale, minimum = b[:, 4 + g] & 63, b[:, 8 + g] & 63
        else:
            scale = (b[:, 8 + g] & 15) | (b[:, g] >> 6 << 4)
            minimum = (b[:, 8 + g] >> 4) | (b[:, 4 + g] >> 6 << 4)
        pairs.append((scale, minimum))
    scales, minima = (np.stack(each, 1).repeat(32, 1).astype(F) for each in zip(*pairs))
    return scales, minima


def nibbles256(b: np.ndarray, at: int) -> np.ndarray:
    return bits(b, at + 32 * (E256 // 64) + L, E256 % 64 // 32 * 4, 4)


def q4_k(b: np.ndarray) -> Parts:
    scales, minima = packed_scales(b)
    return half(b, 0) * scales, nibbles256(b, 16), -(half(b, 2) * minima)


def q5_k(b: np.ndarray) -> Parts:
    scales, minima = packed_scales(b)
    return half(b, 0) * scales, nibbles256(b, 48) + 16 * bits(b, 16 + L, E256 // 32, 1), -(half(b, 2) * minima)


def q6_k(b: np.ndarray) -> Parts:
    low = bits(b, 64 * N + L + 32 * (J & 1), J // 2 * 4, 4)
    scale = signed(b, 192 + E256 // 16).astype(F)
    return half(b, 208) * scale, low + 16 * bits(b, 128 + 32 * N + L, 2 * J, 2) - 32, 0.0


def q8_k(b: np.ndarray) -> Parts:
    return word(b, 0).astype(np.uint32).view(F), signed(b, 4 + E256), 0.0


FORMATS = {
    each.name: each
    for each in (
        Format("q4_0", 2, 32, 18, q4_0),
        Format("q4_1", 3, 32, 20, q4_1),
        Format("q5_0", 6, 32, 22, q5_0),
        Format("q5_1", 7, 32, 24, q5_1),
        Format("q8_0", 8, 32, 34, q8_0),
        Format("q8_1", 9, 32, 36, q8_1),
        Format("q2_K", 10, 256, 84, q2_k),
        Format("q3_K", 11, 256, 110, q3_k),
        Format("q4_K", 12, 256, 144, q4_k),
        Format("q5_K", 13, 256, 176, q5_k),
        Format("q6_K", 14, 256, 210, q6_k),
        Format("q8_K", 15, 256, 292, q8_k),
    )
}


def decoded(chosen: Format, data: np.ndarray) -> np.ndarray:
    """The values, f32 (..., values), of bytes (..., bytes)."""
    blocks = np.ascontiguousarray(data, np.uint8).reshape(-1, chosen.bytes)
    with np.errstate(all="ignore"):
        scale, code, offset = chosen.parts(blocks)
        values = scale * code.astype(F)
        if not isinstance(offset, float):
            values = values + offset
    return values.reshape(*data.shape[:-1], data.shape[-1] // chosen.bytes * chosen.values)
