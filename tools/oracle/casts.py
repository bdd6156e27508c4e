# SPDX-License-Identifier: Apache-2.0
"""Conversions between storage formats, from bits to bits.

Every value passes through x86's 80-bit floats or wider ones, which represent each format exactly, and rounded once.
"""

import ml_dtypes
import numpy as np

from .numerics import DIGITS, INTEGERS, LARGEST, LEAST, LIMITS
from .numerics import FLOATS as SINGLES
from .numerics import FP8 as EIGHTS

DTYPES = (*SINGLES, *INTEGERS, "bool", *EIGHTS)
FLOATS = SINGLES + EIGHTS
NUMPY = {
    "f32": np.float32, "f64": np.float64, "f16": np.float16, "bf16": ml_dtypes.bfloat16,
    "fp8e4m3": ml_dtypes.float8_e4m3fn, "fp8e5m2": ml_dtypes.float8_e5m2, "bool": np.uint8,
    "i8": np.int8, "u8": np.uint8, "i16": np.int16, "u16": np.uint16,
    "i32": np.int32, "u32": np.uint32, "i64": np.int64, "u64": np.uint64,
}  # fmt: skip
# significant bits, least exponent of a normal number, largest finite value
FORMATS = {dtype: (DIGITS[dtype], LEAST[dtype] + DIGITS[dtype] - 1, LARGEST[dtype]) for dtype in DIGITS}
EXACT = np.longdouble
assert np.finfo(EXACT).nmant >= 63, "this machine has no float that holds every 64-bit integer"


def width(dtype: str) -> int:
    """Bytes of an element."""
    return np.dtype(NUMPY[dtype]).itemsize


def unsigned(dtype: str) -> np.dtype:
    return np.dtype(f"u{width(dtype)}")


def exact_values(bits: np.ndarray, dtype: str) -> np.ndarray:
    """Values of bits; integers as np.int64 or np.uint64, floats and bool as EXACT."""
    if dtype == "bool":
        return (bits != 0).astype(EXACT)
    stored = bits.view(NUMPY[dtype])
    if dtype in INTEGERS:
        return stored.astype(np.uint64 if dtype == "u64" else np.int64)
    with np.errstate(invalid="ignore"):  # signalling NaN
        wide = stored if dtype in ("f32", "f64", "f16") else stored.astype(np.float32)
        return wide.astype(EXACT)


def rounded(values: np.ndarray, dtype: str) -> np.ndarray:
    """Rounds to nearest even in a float format; overflow gives infinity, and saturates in fp8."""
    digits, least, largest = FORMATS[dtype]
    with np.errstate(all="ignore"):
        _, exponent = np.frexp(values)  # 2^(exponent - 1) <= |value| < 2^exponent
        step = np.maximum(exponent - 1, least) - (digits - 1)
        near = np.ldexp(np.rint(np.ldexp(values, -step)), step)
    near = np.where(np.isfinite(values), near, values)
    beyond = np.abs(near) > largest
    limit = EXACT(largest) if dtype in EIGHTS else EXACT(np.inf)
    return np.where(beyond, np.copysign(limit, near), near)


def float_bits(values: np.ndarray, dtype: str) -> np.ndarray:
    """Bits of representable values. NaN is 0x7f in fp8 and any NaN elsewhere."""
    with np.errstate(all="ignore"):
        wide = values.astype(np.float64)
        stored = wide if dtype == "f64" else wide.astype(np.float32).astype(NUMPY[dtype])
    bits = np.ascontiguousarray(stored).view(unsigned(dtype))
    return np.where(np.isnan(values), 0x7F, bits).astype(unsigned(dtype)) if dtype in EIGHTS else bits


def clamped(values: np.ndarray, low: int, high: int) -> np.ndarray:
    """Converts integral floats to np.int64, or np.uint64 for u64; NaN becomes 0."""
    values = np.where(np.isnan(values), EXACT(0), values)
    inside = np.minimum(np.maximum(values, EXACT(low)), EXACT(high))
    return inside.astype(np.uint64 if high >= 2**63 else np.int64)


def cast(bits: np.ndarray, source: str, target: str) -> np.ndarray:
    values = exact_values(bits, source)
    if target == "bool":
        return (values != 0).astype(np.uint8)
    if source == target:
        return bits
    if target in FLOATS:
        return float_bits(rounded(values.astype(EXACT), target), target)
    if source in FLOATS:
        info = np.iinfo(NUMPY[target])
        values = clamped(np.trunc(values), info.min, info.max)
    elif source == "bool":
        values = values.astype(np.int64)
    return values.view(np.uint64).astype(unsigned(target))


def nibbles(packed: np.ndarray) -> np.ndarray:
    """Element 2k is the low half of byte k."""
    return np.stack([packed & 15, packed >> 4], axis=-1).reshape(-1)


def packed_pairs(halves: np.ndarray) -> np.ndarray:
    return (halves[0::2] | halves[1::2] << 4).astype(np.uint8)


def unpack(packed: np.ndarray, source: str, target: str) -> np.ndarray:
    """Converts packed elements, two per byte, to a dtype of whole bytes."""
    halves = nibbles(packed).astype(np.int64)
    if source == "s4":
        halves = np.where(halves > 7, halves - 16, halves)
    return cast(halves.view(np.uint64), "i64", target)


def pack(bits: np.ndarray, source: str, target: str) -> np.ndarray:
    """Converts elements to a packed dtype, two per byte."""
    low, high = LIMITS[target]
    values = exact_values(bits, source)
    if source in FLOATS:
        whole = clamped(np.rint(values), low, high)
    elif source == "u64":
        whole = np.minimum(values, np.uint64(high)).astype(np.int64)
    else:
        whole = np.clip(values.astype(np.int64), low, high)
    return packed_pairs((whole & 15).astype(np.uint8))


def repack(packed: np.ndarray, source: str, target: str) -> np.ndarray:
    return pack(unpack(packed, source, "i64"), "i64", target)


def is_nan(bits: np.ndarray, dtype: str) -> np.ndarray:
    if dtype not in FLOATS:
        return np.zeros(bits.shape, bool)
    return np.isnan(exact_values(bits, dtype))


def differ(got: np.ndarray, want: np.ndarray, dtype: str, *, moved: bool) -> np.ndarray:
    """Mask of wrong bits: in formats with many NaNs any NaN is right, unless the op copies bits."""
    wrong = got != want
    if dtype in SINGLES and not moved:
        wrong &= ~(is_nan(got, dtype) & is_nan(want, dtype))
    return wrong
