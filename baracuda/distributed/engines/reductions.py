# SPDX-License-Identifier: Apache-2.0
"""Reductions of arrays of several ranks on the host, in the order of the ranks. 16-bit floats are combined in f32 and
rounded once, so that the bits depend neither on how an array is cut nor on which rank computes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from baracuda.dtypes import ElementKind, bf16_from_f32, f32_from_bf16
from baracuda.errors import InvalidProblemError, UnsupportedError

Array = np.ndarray[Any, Any]
REDUCTIONS = ("sum", "prod", "min", "max", "avg")
_UFUNCS: dict[str, Any] = {
    "sum": np.add, "avg": np.add, "prod": np.multiply, "min": np.minimum, "max": np.maximum,
}  # fmt: skip
_COMPLEX = (ElementKind.COMPLEX32, ElementKind.COMPLEX64)
_WITHOUT = (ElementKind.FP8_E4M3, ElementKind.FP8_E5M2, ElementKind.S4, ElementKind.U4, ElementKind.BIN)


def check_reduction(op: str, dtype: ElementKind) -> None:
    """Raise for a reduction that the dtype does not have: averages of integers, the order of complex numbers, any of
    narrow floats, and of bool all but min (and) and max (or).
    """
    if op not in REDUCTIONS:
        raise InvalidProblemError(f"op is {op!r}, must be one of {', '.join(REDUCTIONS)}")
    is_float = dtype.is_float or dtype is ElementKind.F32_STRICT
    wrong = (
        dtype in _WITHOUT
        or (op == "avg" and not is_float and dtype not in _COMPLEX)
        or (op in ("min", "max") and dtype in _COMPLEX)
        or (dtype is ElementKind.BOOL and op not in ("min", "max"))
    )
    if wrong:
        raise UnsupportedError(f"{op} of {dtype} over ranks is not defined")


def reduce_parts(parts: Sequence[Array], op: str, dtype: ElementKind) -> Array:
    """The reduction of byte arrays, one of each rank, as bytes. NaN spreads through min and max."""
    read, write = _conversions(dtype)
    ufunc = _UFUNCS[op]
    total = read(parts[0])
    with np.errstate(all="ignore"):
        for part in parts[1:]:
            total = ufunc(total, read(part))
        if op == "avg":
            total = (total / total.dtype.type(len(parts))).astype(total.dtype, copy=False)
        return write(total)


def _conversions(dtype: ElementKind) -> tuple[Callable[[Array], Array], Callable[[Array], Array]]:
    """Conversions from bytes to numbers of the dtype of the sums, and back."""
    if dtype is ElementKind.BF16:
        return (
            lambda x: f32_from_bf16(x.view(np.uint16)),
            lambda x: bf16_from_f32(x).view(np.uint8),
        )  # fmt: skip
    if dtype is ElementKind.F16:
        return lambda x: x.view(np.float16).astype(np.float32), lambda x: x.astype(np.float16).view(np.uint8)
    native = np.dtype(np.uint8) if dtype is ElementKind.BOOL else dtype.numpy_dtype
    return lambda x: x.view(native), lambda x: np.ascontiguousarray(x).view(np.uint8)
