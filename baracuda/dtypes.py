# SPDX-License-Identifier: Apache-2.0
"""Element types, and their names in NumPy, torch, the array interfaces and DLPack.

bf16 and fp8 have NumPy dtypes only if ml_dtypes is installed; otherwise their arrays are unsigned integers of the same
width.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import math
from enum import IntEnum
from typing import Any

import numpy as np

from baracuda._call.scalars import shown
from baracuda.errors import InvalidProblemError, UnsupportedError


class ElementKind(IntEnum):
    """Element type. Persist `token`, not the number."""

    F16 = 0
    BF16 = 1
    F32 = 2
    F32_STRICT = 3  # f32 whose GEMMs do not use TF32
    F64 = 4
    S8 = 5
    U8 = 6
    I32 = 7
    I64 = 8
    BOOL = 9
    FP8_E4M3 = 10
    FP8_E5M2 = 11
    S4 = 12  # two a byte, low nibble first
    U4 = 13
    BIN = 14  # eight a byte, lowest bit first
    COMPLEX32 = 15  # two f32
    COMPLEX64 = 16  # two f64
    U32 = 17
    I16 = 18
    U16 = 19
    U64 = 20

    @property
    def token(self) -> str:
        """Spelling in persisted files."""
        return _TABLE[self][0]

    @property
    def symbol(self) -> str:
        """Spelling in C symbols."""
        return _SYMBOLS.get(self, _TABLE[self][0])

    @property
    def is_float(self) -> bool:
        """Whether it is a real floating type of 16 bits or more, in which arithmetic is done."""
        return self in _FLOATS

    @property
    def integer_range(self) -> tuple[int, int] | None:
        """Smallest and largest value of an integer type of whole bytes; None of other types."""
        if self not in _INTEGERS:
            return None
        signed = _TABLE[self][2].startswith("i")
        return (-(2 ** (self.bits - 1)), 2 ** (self.bits - 1) - 1) if signed else (0, 2**self.bits - 1)

    @property
    def bits(self) -> int:
        return _TABLE[self][1]

    @property
    def itemsize(self) -> int:
        """Bytes of a storage unit: of an element, or of the byte that packed elements share."""
        return max(1, self.bits // 8)

    @property
    def numpy_dtype(self) -> np.dtype[Any]:
        """NumPy dtype of the elements; packed types are bytes."""
        name = _TABLE[self][2]
        if name in _ML_DTYPES:
            return ml_dtype(name) or np.dtype(f"u{self.itemsize}")
        return np.dtype(name)

    @property
    def numpy_name(self) -> str:
        """Name of the NumPy dtype if ml_dtypes is installed."""
        return _TABLE[self][2]

    @property
    def dlpack(self) -> tuple[int, int] | None:
        """Type code and bits in DLPack, where it has the type."""
        return _TABLE[self][3]

    def nbytes(self, count: int) -> int:
        """Bytes that `count` elements occupy."""
        return (count * self.bits + 7) // 8

    def __str__(self) -> str:
        """The symbol, as in C and the documentation; F32_STRICT, which is f32 in C, has its own."""
        return "f32_strict" if self is ElementKind.F32_STRICT else self.symbol


# token, bits, NumPy name, DLPack (type code, bits) where it has one
_TABLE: dict[ElementKind, tuple[str, int, str, tuple[int, int] | None]] = {
    ElementKind.F16: ("f16", 16, "float16", (2, 16)),
    ElementKind.BF16: ("bf16", 16, "bfloat16", (4, 16)),
    ElementKind.F32: ("f32", 32, "float32", (2, 32)),
    ElementKind.F32_STRICT: ("f32", 32, "float32", None),
    ElementKind.F64: ("f64", 64, "float64", (2, 64)),
    ElementKind.S8: ("s8", 8, "int8", (0, 8)),
    ElementKind.U8: ("u8", 8, "uint8", (1, 8)),
    ElementKind.I32: ("i32", 32, "int32", (0, 32)),
    ElementKind.I64: ("i64", 64, "int64", (0, 64)),
    ElementKind.BOOL: ("bool", 8, "bool", (6, 8)),
    ElementKind.FP8_E4M3: ("e4m3fn", 8, "float8_e4m3fn", (10, 8)),
    ElementKind.FP8_E5M2: ("e5m2", 8, "float8_e5m2", (12, 8)),
    ElementKind.S4: ("s4", 4, "uint8", None),
    ElementKind.U4: ("u4", 4, "uint8", None),
    ElementKind.BIN: ("b1", 1, "uint8", None),
    ElementKind.COMPLEX32: ("c32", 64, "complex64", (5, 64)),
    ElementKind.COMPLEX64: ("c64", 128, "complex128", (5, 128)),
    ElementKind.U32: ("u32", 32, "uint32", (1, 32)),
    ElementKind.I16: ("i16", 16, "int16", (0, 16)),
    ElementKind.U16: ("u16", 16, "uint16", (1, 16)),
    ElementKind.U64: ("u64", 64, "uint64", (1, 64)),
}
_SYMBOLS = {ElementKind.S8: "i8", ElementKind.FP8_E4M3: "fp8e4m3", ElementKind.FP8_E5M2: "fp8e5m2"}
_FLOATS = {ElementKind.F16, ElementKind.BF16, ElementKind.F32, ElementKind.F32_STRICT, ElementKind.F64}
_INTEGERS = {
    ElementKind.S8, ElementKind.U8, ElementKind.I16, ElementKind.U16, ElementKind.I32, ElementKind.U32,
    ElementKind.I64, ElementKind.U64,
}  # fmt: skip
_ML_DTYPES = {"bfloat16", "float8_e4m3fn", "float8_e5m2"}
_BY_SPELLING = {name: kind for kind, (_, _, name, dlpack) in _TABLE.items() if dlpack}
_BY_SPELLING |= {kind.symbol: kind for kind in _TABLE if kind is not ElementKind.F32_STRICT}
_BY_SPELLING |= {kind.token: kind for kind in _TABLE if kind is not ElementKind.F32_STRICT}
_BY_DLPACK = {dlpack: kind for kind, (_, _, _, dlpack) in _TABLE.items() if dlpack}

f16 = ElementKind.F16
bf16 = ElementKind.BF16
f32 = ElementKind.F32
f32_strict = ElementKind.F32_STRICT
f64 = ElementKind.F64
s8 = i8 = ElementKind.S8
u8 = ElementKind.U8
i16 = ElementKind.I16
u16 = ElementKind.U16
i32 = ElementKind.I32
i64 = ElementKind.I64
bool_ = ElementKind.BOOL
e4m3fn = fp8e4m3 = ElementKind.FP8_E4M3
e5m2 = fp8e5m2 = ElementKind.FP8_E5M2
s4 = ElementKind.S4
u4 = ElementKind.U4
b1 = ElementKind.BIN
c32 = ElementKind.COMPLEX32
c64 = ElementKind.COMPLEX64
u32 = ElementKind.U32
u64 = ElementKind.U64


@functools.cache
def ml_dtype(name: str) -> np.dtype[Any] | None:
    """NumPy dtype of a type that only ml_dtypes has; None where it is not installed."""
    try:
        found: np.dtype[Any] = np.dtype(getattr(importlib.import_module("ml_dtypes"), name))
    except ImportError:
        return None
    return found


def as_element(value: object, name: str = "dtype") -> ElementKind:
    """ElementKind of a kind, a token ("bf16"), a NumPy or torch dtype, or a name of one; `name` is for the message."""
    if isinstance(value, ElementKind):
        return value
    spelling = _spelling(value)
    if spelling is None:
        raise InvalidProblemError(f"{name} is {shown(value)}, which is no dtype")
    kind = _BY_SPELLING.get(spelling)
    if kind is None:
        raise UnsupportedError(f"{name} is {spelling!r}, which no element type corresponds to")
    return kind


def _spelling(value: object) -> str | None:
    """Name of a dtype; None for other objects."""
    if isinstance(value, str):
        return value
    if type(value).__module__ == "torch":
        return str(value).removeprefix("torch.")
    dtype = _numpy_dtype(value) if isinstance(value, (np.dtype, type)) else None
    return None if dtype is None else _numpy_name(dtype)


def _numpy_dtype(value: object) -> np.dtype[Any] | None:
    with contextlib.suppress(TypeError):
        return np.dtype(value)  # type: ignore[call-overload, no-any-return]
    return None


@functools.lru_cache(maxsize=256)
def _numpy_name(dtype: np.dtype[Any]) -> str:
    """Name of a dtype in native byte order; the type string of another one."""
    found: str = dtype.name if dtype.isnative else dtype.str
    return found


def from_typestr(typestr: object, name: str = "dtype") -> ElementKind:
    """ElementKind of an array-interface type string such as "<f4"."""
    if not isinstance(typestr, str):
        raise InvalidProblemError(f"{name}: typestr is {typestr!r}, must be a string")
    dtype = _numpy_dtype(typestr)
    if dtype is None:
        raise InvalidProblemError(f"{name}: typestr {typestr!r} is no dtype")
    return as_element(dtype, name)


def from_dlpack(code: int, bits: int, lanes: int, name: str = "dtype") -> ElementKind:
    """ElementKind of a DLDataType."""
    kind = _BY_DLPACK.get((code, bits))
    if kind is None or lanes != 1:
        raise UnsupportedError(f"{name}: DLPack type code {code}, {bits} bits, {lanes} lanes has no element type")
    return kind


def bf16_from_f32(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """bf16 bit patterns (uint16) of f32 values, rounded to nearest even; a NaN stays one."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    rounded = ((bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)).astype(np.uint16)
    quiet = ((bits >> np.uint32(16)) | np.uint32(0x40)).astype(np.uint16)
    found: np.ndarray[Any, Any] = np.where(np.isnan(values), quiet, rounded)
    return found


def f32_from_bf16(bits: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """f32 values of bf16 bit patterns (uint16); exact."""
    found: np.ndarray[Any, Any] = (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)
    return found


# exponent bits, mantissa bits, bits of the largest value where overflow saturates, bits of NaN
_FORMATS = {
    ElementKind.F16: (5, 10, None, 0x7E00),
    ElementKind.BF16: (8, 7, None, 0x7FC0),
    ElementKind.FP8_E4M3: (4, 3, 0x7E, 0x7F),
    ElementKind.FP8_E5M2: (5, 2, 0x7B, 0x7F),
}


def float_bits(value: float, kind: ElementKind) -> int:
    """Bit pattern of `value` in f16, bf16 or fp8, rounded once to nearest even; fp8 saturates, infinities too."""
    exponent_bits, mantissa_bits, largest, nan = _FORMATS[kind]
    sign = (math.copysign(1, value) < 0) << (exponent_bits + mantissa_bits)
    if math.isnan(value):
        return sign | nan
    infinity = ((1 << exponent_bits) - 1) << mantissa_bits
    top = infinity if largest is None else largest
    if value == 0 or math.isinf(value):
        return sign | (top if value else 0)
    lowest = 2 - (1 << (exponent_bits - 1)) - mantissa_bits  # exponent of the smallest subnormal
    step = max(math.frexp(value)[1] - 1 - mantissa_bits, lowest)
    units = round(math.ldexp(abs(value), -step))  # ties to even
    return sign | min(units + ((step - lowest) << mantissa_bits), top)
