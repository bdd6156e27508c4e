"""Storage formats on the host: float64 or integers to the bits of a dtype, and back, with one correct rounding."""

import numpy as np

FLOATS = ("f32", "f64", "f16", "bf16")
STORAGE = {
    "f64": np.float64, "f32": np.float32, "f16": np.uint16, "bf16": np.uint16,
    "i64": np.int64, "i32": np.int32, "u8": np.uint8,
}  # fmt: skip
COMPUTE = {"f64": "f64", "f32": "f32", "f16": "f32", "bf16": "f32"}
UNIT_ROUNDOFF = {"f64": 2.0**-53, "f32": 2.0**-24, "f16": 2.0**-11, "bf16": 2.0**-8}
SMALLEST = {"f64": 2.0**-1074, "f32": 2.0**-149, "f16": 2.0**-24, "bf16": 2.0**-133}
SMALLEST_NORMAL = {"f64": 2.0**-1022, "f32": 2.0**-126, "f16": 2.0**-14, "bf16": 2.0**-126}
LARGEST = {
    "f64": float(np.finfo(np.float64).max),
    "f32": float(np.finfo(np.float32).max),
    "f16": 65504.0,
    "bf16": (2 - 2.0**-7) * 2.0**127,
}


def itemsize(dtype: str) -> int:
    return np.dtype(STORAGE[dtype]).itemsize


def bits_type(dtype: str) -> type:
    """Unsigned integers as wide as the dtype."""
    return {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}[itemsize(dtype)]


def _bf16_bits(values: np.ndarray) -> np.ndarray:
    """float64 -> bf16. Goes through f32 rounded to odd, so that the two roundings amount to one."""
    single = values.astype(np.float32)
    too_far = np.abs(single.astype(np.float64)) > np.abs(values)
    single = np.where(too_far, np.nextafter(single, np.float32(0)), single)
    inexact = (single.astype(np.float64) != values) & ~np.isnan(values)
    word = single.view(np.uint32) | inexact.astype(np.uint32)
    rounded = (word + np.uint32(0x7FFF) + ((word >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
    quiet = (word >> np.uint32(16)) | np.uint32(0x40)
    return np.where(np.isnan(values), quiet, rounded).astype(np.uint16)


def encode(values, dtype: str) -> np.ndarray:
    """The bits of each value as unsigned integers, rounded to nearest even."""
    values = np.asarray(values)
    shape = values.shape
    with np.errstate(all="ignore"):
        if dtype == "bf16":
            stored = _bf16_bits(np.atleast_1d(values.astype(np.float64)))
        elif dtype == "f16":
            stored = np.ascontiguousarray(np.atleast_1d(values).astype(np.float64)).astype(np.float16)
        else:
            stored = np.ascontiguousarray(np.atleast_1d(values).astype(STORAGE[dtype]))
    return stored.view(bits_type(dtype)).reshape(shape)


def decode(bits: np.ndarray, dtype: str) -> np.ndarray:
    """float64 values of float bits, int64 of integer bits; exact."""
    shape = bits.shape
    bits = np.ascontiguousarray(np.atleast_1d(bits)).reshape(shape or (1,))
    with np.errstate(invalid="ignore"):  # signalling NaN
        if dtype == "bf16":
            values = (bits.astype(np.uint32) << np.uint32(16)).view(np.float32).astype(np.float64)
        elif dtype == "f16":
            values = bits.view(np.float16).astype(np.float64)
        elif dtype in FLOATS:
            values = bits.view(STORAGE[dtype]).astype(np.float64)
        else:
            values = bits.view(STORAGE[dtype]).astype(np.int64)
    return values.reshape(shape)


def round_to(values, dtype: str) -> np.ndarray:
    return decode(encode(values, dtype), dtype)
