# SPDX-License-Identifier: Apache-2.0
"""Decoders of GGUF's block formats in NumPy, element by element: a value is scale * code + offset, in f32.

The formats are those of ggml-common.h (llama.cpp); element e of a block reads the bytes that each function here names.
"""

import functools
import pathlib
import re
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


# --- codebooks -------------------------------------------------------------------------------------------------------

TABLES = pathlib.Path(__file__).resolve().parents[2] / "native" / "core" / "codec" / "iq_grids.h"
IQ4 = np.array([-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113])
IQ2_LEVELS, IQ3_XXS_LEVELS = np.array([8, 25, 43, 0]), np.array([4, 12, 20, 28, 36, 44, 52, 62, *[0] * 8])


@functools.cache
def grid(name: str) -> np.ndarray:
    """The codebook of the C header: its entries, as rows of digits."""
    text = re.search(rf"BK_GRID\({name}, (\d+),([^)]*)\)", TABLES.read_text())
    assert text is not None
    digits = "".join(re.findall(r'"(\w+)"', text[2]))
    entries = np.array([int(digits[i : i + 4], 16) for i in range(0, len(digits), 4)])
    assert len(entries) == int(text[1])
    width, count = (4, 4) if name.startswith("Iq3") else (2, 8)
    return entries[:, None] >> width * np.arange(count) & ((1 << width) - 1)


def minus_signs(seven: np.ndarray) -> np.ndarray:
    """-1 or 1 for each of eight values, (..., 8); the number of minus signs is even."""
    seven = seven & 127
    eighth = sum(seven >> k & 1 for k in range(7)) % 2
    return signs_of(seven | eighth << 7)


def signs_of(eight: np.ndarray) -> np.ndarray:
    return 1 - 2 * (eight[..., None] >> np.arange(8) & 1)


def words(b: np.ndarray, at: int, count: int, dtype: str) -> np.ndarray:
    size = np.dtype(dtype).itemsize * count
    return np.ascontiguousarray(b[:, at : at + size]).view(dtype).astype(np.int64)


def nibble_scales(b: np.ndarray, at: int, count: int) -> np.ndarray:
    g = np.arange(count)
    return bits(b, at + g // 2, g % 2 * 4, 4).repeat(256 // count, 1).astype(F)


def iq2_xxs(b: np.ndarray) -> Parts:
    pairs = words(b, 2, 16, "<u4").reshape(-1, 8, 2)
    entries = pairs[..., :1] >> 8 * np.arange(4) & 255
    signs = minus_signs(pairs[..., 1:] >> 7 * np.arange(4))
    codes = IQ2_LEVELS[grid("Iq2Xxs")[entries]] * signs
    scale = (pairs[..., 1] >> 28).repeat(32, 1).astype(F)
    return half(b, 0) * (F(0.5) + scale) * F(0.25), codes.reshape(-1, 256), 0.0


def iq2_xs(b: np.ndarray) -> Parts:
    packed = words(b, 2, 32, "<u2")
    codes = IQ2_LEVELS[grid("Iq2Xs")[packed & 511]] * minus_signs(packed >> 9)
    return half(b, 0) * (F(0.5) + nibble_scales(b, 66, 16)) * F(0.25), codes.reshape(-1, 256), 0.0


def iq2_s(b: np.ndarray) -> Parts:
    k = np.arange(32)
    entries = b[:, 2 + k].astype(np.int64) + 256 * bits(b, 66 + k // 4, k % 4 * 2, 2)
    codes = IQ2_LEVELS[grid("Iq2S")[entries]] * signs_of(b[:, 34 + k].astype(np.int64))
    return half(b, 0) * (F(0.5) + nibble_scales(b, 74, 16)) * F(0.25), codes.reshape(-1, 256), 0.0


def iq3_xxs(b: np.ndarray) -> Parts:
    packed = words(b, 66, 8, "<u4")
    signs = minus_signs(packed[..., None] >> 7 * np.arange(4)).reshape(-1, 256)
    codes = IQ3_XXS_LEVELS[grid("Iq3Xxs")[b[:, 2:66].astype(np.int64)]].reshape(-1, 256)
    return half(b, 0) * (F(0.5) + (packed >> 28).repeat(32, 1).astype(F)) * F(0.5), codes * signs, 0.0


def iq3_s(b: np.ndarray) -> Parts:
    k = np.arange(64)
    entries = b[:, 2 + k].astype(np.int64) + 256 * bits(b, 66 + k // 8, k % 8, 1)
    codes = (2 * grid("Iq3S")[entries] + 1).reshape(-1, 256)
    signs = signs_of(b[:, 74:106].astype(np.int64)).reshape(-1, 256)
    return half(b, 0) * (1 + 2 * nibble_scales(b, 106, 8)), codes * signs, 0.0


def iq1_s(b: np.ndarray) -> Parts:
    high = words(b, 34, 8, "<u2")
    entries = b[:, 2:34].astype(np.int64) + 256 * (high[..., None] >> 3 * np.arange(4) & 7).reshape(-1, 32)
    delta = np.where(high >> 15, -1, 1).repeat(32, 1)
    codes = 8 * (grid("Iq1")[entries].reshape(-1, 256) - 1) + delta
    return half(b, 0) * (2 * (high >> 12 & 7) + 1).repeat(32, 1).astype(F) * F(0.125), codes, 0.0


def iq1_m(b: np.ndarray) -> Parts:
    k, scales = np.arange(32), words(b, 48, 4, "<u2")
    high = bits(b, 32 + k // 2, k % 2 * 4, 4)
    entries = b[:, k].astype(np.int64) + 256 * (high & 7)
    codes = 8 * (grid("Iq1")[entries] - 1) + np.where(high & 8, -1, 1)[..., None]
    whole = np.sum((scales >> 12) << 4 * np.arange(4), 1).astype(np.uint16).view(np.float16).astype(F)[:, None]
    each = (scales[..., None] >> 3 * np.arange(4) & 7).reshape(-1, 16).repeat(16, 1)
    return whole * (2 * each + 1).astype(F) * F(0.125), codes.reshape(-1, 256), 0.0


def iq4_nl(b: np.ndarray) -> Parts:
    return half(b, 0), IQ4[nibbles32(b, 2)], 0.0


def iq4_xs(b: np.ndarray) -> Parts:
    g = np.arange(8)
    scale = bits(b, 4 + g // 2, g % 2 * 4, 4) + 16 * (word(b, 2, "<u2") >> 2 * g & 3) - 32
    codes = IQ4[bits(b, 8 + E256 // 32 * 16 + E256 % 16, E256 % 32 // 16 * 4, 4)]
    return half(b, 0) * scale.repeat(32, 1).astype(F), codes, 0.0


def tq1_0(b: np.ndarray) -> Parts:
    first, second, last = E256[:160], E256[160:240] - 160, E256[240:] - 240
    at = np.concatenate([first % 32, 32 + second % 16, 48 + last % 4])
    position = np.concatenate([first // 32, second // 16, last // 4])
    fraction = b[:, at].astype(np.int64) * 3**position & 255
    return half(b, 52), (fraction * 3 >> 8) - 1, 0.0


def tq2_0(b: np.ndarray) -> Parts:
    return half(b, 64), bits(b, 32 * N + L, 2 * J, 2) - 1, 0.0


# --- elements of e2m1 -------------------------------------------------------------------------------------------------

DOUBLED_E2M1 = np.array([0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12], np.int64)


def mxfp4(b: np.ndarray) -> Parts:
    return np.exp2(b[:, :1].astype(np.float64) - 128).astype(F), DOUBLED_E2M1[nibbles32(b, 1)], 0.0


def nvfp4(b: np.ndarray) -> Parts:
    e = np.arange(64)
    code = bits(b, e // 16, np.array(0), 8)
    exponent, mantissa = code >> 3 & 15, code & 7
    scale = np.where(exponent == 0, np.ldexp(mantissa / 8, -6), np.ldexp(1 + mantissa / 8, exponent - 7)) / 2
    codes = DOUBLED_E2M1[bits(b, 4 + e // 16 * 8 + e % 8, e % 16 // 8 * 4, 4)]
    return np.where(code == 127, 0, scale).astype(F), codes, 0.0


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
        Format("iq2_xxs", 16, 256, 66, iq2_xxs),
        Format("iq2_xs", 17, 256, 74, iq2_xs),
        Format("iq3_xxs", 18, 256, 98, iq3_xxs),
        Format("iq1_s", 19, 256, 50, iq1_s),
        Format("iq4_nl", 20, 32, 18, iq4_nl),
        Format("iq3_s", 21, 256, 110, iq3_s),
        Format("iq2_s", 22, 256, 82, iq2_s),
        Format("iq4_xs", 23, 256, 136, iq4_xs),
        Format("iq1_m", 29, 256, 56, iq1_m),
        Format("tq1_0", 34, 256, 54, tq1_0),
        Format("tq2_0", 35, 256, 66, tq2_0),
        Format("mxfp4", 39, 32, 17, mxfp4),
        Format("nvfp4", 40, 64, 36, nvfp4),
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


def tree_sum(x: np.ndarray) -> np.ndarray:
    """f32 sums along the last axis, of 2^k values: of neighbours, then of neighbouring sums."""
    x = np.asarray(x, F)
    while x.shape[-1] > 1:
        x = x[..., ::2] + x[..., 1::2]
    return x[..., 0]


def round_away(x: np.ndarray) -> np.ndarray:
    whole = np.trunc(x)
    return whole + (np.abs(x - whole) >= 0.5) * np.sign(x)


def q8_1_blocks(x: np.ndarray, *, wide: bool = False) -> np.ndarray:
    """Rows (rows, values) as q8_1 blocks, padded with zeros; `wide` has an f32 scale instead of f16 scale and sum."""
    rows, columns = x.shape
    count = -(-columns // 32)
    padded = np.zeros((rows, 32 * count), F)
    padded[:, :columns] = x
    padded = padded.reshape(-1, 32)
    with np.errstate(all="ignore"):
        largest = np.abs(padded).max(1, initial=0)
        scale = np.where(np.isfinite(largest), largest / F(127), F(np.nan)).astype(F)
        exact = np.where(scale[:, None] > 0, padded / scale[:, None], F(0))
        codes = np.clip(round_away(exact), -127, 127).astype(np.int8)
        sums = tree_sum(padded)
        pairs = np.stack([scale, np.where(np.isnan(sums), F(np.nan), sums)], 1)
        head = scale.view(np.uint8) if wide else pairs.astype("<f2").view(np.uint8)
    return np.concatenate([head.reshape(-1, 4), codes.view(np.uint8)], 1).reshape(rows, 36 * count)
