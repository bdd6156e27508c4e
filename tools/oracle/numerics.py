# SPDX-License-Identifier: Apache-2.0
"""Storage formats on the host: values to the bits of a dtype, and back, with one correct rounding.

Values are float64 for floats (fp8 too) and exact integers for the rest: uint64 for u64, int64 otherwise. A bool is its
byte, so 2 is another value than 1. Those of c32 and c64 are complex128. Bits are unsigned integers, one an element: of
a packed dtype (s4, u4) a nibble, and of c64, for which there are none, 16 bytes.
"""

import ml_dtypes
import numpy as np

FLOATS = ("f32", "f64", "f16", "bf16")
FP8 = ("fp8e4m3", "fp8e5m2")
INTEGERS = ("i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64")
COMPLEX = ("c32", "c64")
PACKED = ("s4", "u4")  # two elements a byte, the first in the low half
STORAGE = {
    "f64": np.float64, "f32": np.float32, "f16": np.uint16, "bf16": np.uint16, "fp8e4m3": np.uint8,
    "fp8e5m2": np.uint8, "bool": np.uint8, "s4": np.uint8, "u4": np.uint8,
    "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64,
    "u8": np.uint8, "u16": np.uint16, "u32": np.uint32, "u64": np.uint64,
    "c32": np.complex64, "c64": np.complex128,
}  # fmt: skip
COMPUTE = {"f64": "f64", "f32": "f32", "f16": "f32", "bf16": "f32", "fp8e4m3": "f32", "fp8e5m2": "f32"}
# digits of the significand, smallest exponents of a subnormal and of a normal value
DIGITS = {"f64": 53, "f32": 24, "f16": 11, "bf16": 8, "fp8e4m3": 4, "fp8e5m2": 3}
LEAST = {"f64": -1074, "f32": -149, "f16": -24, "bf16": -133, "fp8e4m3": -9, "fp8e5m2": -16}
UNIT_ROUNDOFF = {dtype: 2.0**-digits for dtype, digits in DIGITS.items()}
SMALLEST = {dtype: 2.0**least for dtype, least in LEAST.items()}
SMALLEST_NORMAL = {dtype: 2.0 ** (LEAST[dtype] + DIGITS[dtype] - 1) for dtype in DIGITS}
LARGEST = {
    "f64": float(np.finfo(np.float64).max),
    "f32": float(np.finfo(np.float32).max),
    "f16": 65504.0,
    "bf16": (2 - 2.0**-7) * 2.0**127,
    "fp8e4m3": 448.0,
    "fp8e5m2": 57344.0,
}
LIMITS = {  # ranges of the integers, inclusive
    "s4": (-8, 7), "u4": (0, 15), "bool": (0, 1),
    **{f"i{w}": (-(2 ** (w - 1)), 2 ** (w - 1) - 1) for w in (8, 16, 32, 64)},
    **{f"u{w}": (0, 2**w - 1) for w in (8, 16, 32, 64)},
}  # fmt: skip
_BYTES = np.arange(256, dtype=np.uint8)
_FP8 = {
    "fp8e4m3": _BYTES.view(ml_dtypes.float8_e4m3fn).astype(np.float64),
    "fp8e5m2": _BYTES.view(ml_dtypes.float8_e5m2).astype(np.float64),
}


def width(dtype: str) -> int:
    """Bits of an element."""
    return 4 if dtype in PACKED else 8 * itemsize(dtype)


def itemsize(dtype: str) -> int:
    """Bytes of an element; of a packed dtype, bytes of two elements."""
    return np.dtype(STORAGE[dtype]).itemsize


def bits_type(dtype: str) -> type:
    """Unsigned integers as wide as the dtype."""
    return {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64, 16: np.dtype("V16")}[itemsize(dtype)]


def is_float(dtype: str) -> bool:
    return dtype in DIGITS


def _fp8_bits(values: np.ndarray, dtype: str) -> np.ndarray:
    """Rounds to nearest, ties to the even byte; large values saturate, infinity stays if the format has it."""
    positive = _FP8[dtype][:128]
    table = positive[np.isfinite(positive)]  # ascending, the byte is the index
    magnitude = np.abs(values)
    above = np.clip(np.searchsorted(table, np.where(np.isnan(values), 0, magnitude)), 1, len(table) - 1)
    low, high = magnitude - table[above - 1], table[above] - magnitude
    up = (high < low) | ((high == low) & (above % 2 == 0))
    bits = np.where(up, above, above - 1).astype(np.uint8)
    if dtype == "fp8e5m2":
        bits[np.isinf(values)] = 0x7C
    bits[np.isnan(values)] = 0x7F
    return np.where(np.signbit(values), bits | 0x80, bits).astype(np.uint8)


def _bf16_bits(values: np.ndarray) -> np.ndarray:
    """float64 -> bf16 through f32 rounded to odd, so that the double rounding equals a single one."""
    single = values.astype(np.float32)
    back, word = single.astype(np.float64), single.view(np.uint32)
    word -= np.abs(back) > np.abs(values)  # the next number towards 0
    word |= back != values
    high = word >> np.uint32(16)
    rounded = (word + (np.uint32(0x7FFF) + (high & np.uint32(1)))) >> np.uint32(16)
    return np.where(np.isnan(values), high | np.uint32(0x40), rounded).astype(np.uint16)


def encode(values, dtype: str) -> np.ndarray:
    """The bits of each value as unsigned integers; floats round to nearest even, integers wrap."""
    values = np.asarray(values)
    shape = values.shape
    flat = np.ascontiguousarray(np.atleast_1d(values))
    with np.errstate(all="ignore"):
        if dtype == "bf16":
            stored = _bf16_bits(flat.astype(np.float64))
        elif dtype == "f16":
            stored = flat.astype(np.float64).astype(np.float16)
        elif dtype in FP8:
            stored = _fp8_bits(flat.astype(np.float64), dtype)
        elif dtype in PACKED:
            stored = flat.astype(np.int64).astype(np.uint8) & np.uint8(15)
        else:
            stored = flat.astype(STORAGE[dtype])
    return stored.view(bits_type(dtype)).reshape(shape)


def decode(bits: np.ndarray, dtype: str) -> np.ndarray:
    """The values of bits; exact."""
    shape = bits.shape
    bits = np.ascontiguousarray(np.atleast_1d(bits)).reshape(shape or (1,))
    with np.errstate(invalid="ignore"):  # signalling NaN
        if dtype == "bf16":
            values = (bits.astype(np.uint32) << np.uint32(16)).view(np.float32).astype(np.float64)
        elif dtype == "f16":
            values = bits.view(np.float16).astype(np.float64)
        elif dtype in FP8:
            values = _FP8[dtype][bits]
        elif dtype == "s4":
            values = (bits.astype(np.int64) ^ 8) - 8
        elif dtype in FLOATS:
            values = bits.view(STORAGE[dtype]).astype(np.float64)
        elif dtype == "u64":
            values = bits.copy()
        elif dtype in COMPLEX:
            values = bits.view(STORAGE[dtype]).astype(np.complex128)
        else:
            values = bits.view(STORAGE[dtype]).astype(np.int64)
    return values.reshape(shape)


def round_to(values, dtype: str) -> np.ndarray:
    """The values rounded to the dtype."""
    return decode(encode(values, dtype), dtype)


def pack(nibbles: np.ndarray) -> np.ndarray:
    """Bytes of a packed array from nibbles; with an odd count the last high half is 0."""
    padded = np.zeros(nibbles.size + nibbles.size % 2, np.uint8)
    padded[: nibbles.size] = nibbles
    return padded[::2] | (padded[1::2] << np.uint8(4))


def unpack(packed: np.ndarray, numel: int) -> np.ndarray:
    """Nibbles of a packed array, one per element."""
    return np.stack([packed & np.uint8(15), packed >> np.uint8(4)], axis=-1).reshape(-1)[:numel]
