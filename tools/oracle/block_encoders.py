# SPDX-License-Identifier: Apache-2.0
"""Encoders of GGUF's block formats that formulas define, in f32: those of 32 values, the ternary ones and q8_K."""

import numpy as np

from tools.oracle.block_formats import FORMATS, F, round_away

HALF = F(65504)


def f16_bytes(x: np.ndarray) -> np.ndarray:
    """The bytes of f16 numbers that saturate, (count, 2)."""
    return np.clip(x, -HALF, HALF).astype("<f2").view(np.uint8).reshape(-1, 2)


def inverse_of(scale: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore", over="ignore"):
        inverse = F(1) / scale
    return np.where((scale == 0) | ~np.isfinite(inverse), F(0), inverse)[:, None].astype(F)


def extreme(x: np.ndarray) -> np.ndarray:
    """The value of the largest magnitude, the first of equals."""
    return np.take_along_axis(x, np.abs(x).argmax(1)[:, None], 1)[:, 0]


def nibbles(codes: np.ndarray) -> np.ndarray:
    return (codes[:, :16] & 15) | (codes[:, 16:] & 15) << 4


def fifth_bits(codes: np.ndarray) -> np.ndarray:
    return np.packbits(codes >> 4 & 1, axis=1, bitorder="little").astype(np.int64)


def symmetric(x: np.ndarray, n: int) -> list[np.ndarray]:
    scale = extreme(x) / F(-n)
    codes = np.clip(np.trunc(x * inverse_of(scale) + F(n + 0.5)), 0, 2 * n - 1).astype(np.int64)
    return [f16_bytes(scale), *([fifth_bits(codes)] if n > 8 else []), nibbles(codes)]


def affine(x: np.ndarray, n: int) -> list[np.ndarray]:
    low = x.min(1)
    scale = (x.max(1) - low) / F(n)
    codes = np.clip(np.trunc((x - low[:, None]) * inverse_of(scale) + F(0.5)), 0, n).astype(np.int64)
    return [f16_bytes(scale), f16_bytes(low), *([fifth_bits(codes)] if n > 15 else []), nibbles(codes)]


def nearest(x: np.ndarray, largest: int) -> tuple[np.ndarray, np.ndarray]:
    """Scale and codes, halves away from zero."""
    scale = np.abs(extreme(x)) / F(largest)
    return scale, np.clip(round_away(x * inverse_of(scale)), -largest, largest).astype(np.int64)


def q8_0(x: np.ndarray) -> list[np.ndarray]:
    scale, codes = nearest(x, 127)
    return [f16_bytes(scale), codes & 255]


def base_3(digits: np.ndarray) -> np.ndarray:
    """Five digits (count, 5, bytes) as a fraction of 256, rounded up."""
    number = np.tensordot(digits, 3 ** np.arange(4, -1, -1), (1, 0))
    return (number * 256 + 242) // 243


def tq1_0(x: np.ndarray) -> list[np.ndarray]:
    scale, codes = nearest(x, 1)
    digits, count = codes + 1, len(x)
    last = np.concatenate([digits[:, 240:].reshape(count, 4, 4), np.zeros((count, 1, 4), np.int64)], 1)
    parts = [digits[:, :160].reshape(count, 5, 32), digits[:, 160:240].reshape(count, 5, 16), last]
    return [*map(base_3, parts), f16_bytes(scale)]


def tq2_0(x: np.ndarray) -> list[np.ndarray]:
    scale, codes = nearest(x, 1)
    fields = (codes + 1).reshape(len(x), 2, 4, 32) << np.array([0, 2, 4, 6])[:, None]
    return [fields.sum(2).reshape(len(x), 64), f16_bytes(scale)]


def q8_k(x: np.ndarray) -> list[np.ndarray]:
    most = extreme(x)
    with np.errstate(divide="ignore", over="ignore"):
        inverse = np.where(most == 0, F(0), F(-127) / most).astype(F)
        inverse = np.where(np.isfinite(inverse), inverse, F(0))
        scale = np.where(inverse == 0, F(0), F(1) / inverse).astype(F)
    codes = np.clip(np.rint(x * inverse[:, None]), -127, 127).astype(np.int64)
    sums = codes.reshape(len(x), 16, 16).sum(2).astype("<i2")
    return [scale.view(np.uint8).reshape(-1, 4), codes & 255, sums.view(np.uint8).reshape(-1, 32)]


ENCODERS = {
    "q4_0": lambda x: symmetric(x, 8), "q4_1": lambda x: affine(x, 15), "q5_0": lambda x: symmetric(x, 16),
    "q5_1": lambda x: affine(x, 31), "q8_0": q8_0, "q8_K": q8_k, "tq1_0": tq1_0, "tq2_0": tq2_0,
}  # fmt: skip
SCALE_AT = {"tq1_0": 52, "tq2_0": 64}


def encoded(name: str, x: np.ndarray) -> np.ndarray:
    """The bytes of rows (rows, values); blocks with NaN or an infinity have a NaN scale and zeros."""
    chosen = FORMATS[name]
    blocks = np.ascontiguousarray(x, F).reshape(-1, chosen.values)
    finite = np.isfinite(blocks).all(1)
    with np.errstate(over="ignore"):
        parts = ENCODERS[name](np.where(finite[:, None], blocks, F(0)))
    data = np.concatenate([part.astype(np.int64) for part in parts], 1)
    broken = np.zeros(chosen.bytes, np.int64)
    nan = np.array([np.nan], F if name == "q8_K" else np.float16).view(np.uint8)
    broken[SCALE_AT.get(name, 0) :][: len(nan)] = nan
    return np.where(finite[:, None], data, broken).reshape(len(x), -1)
