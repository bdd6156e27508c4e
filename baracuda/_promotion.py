# SPDX-License-Identifier: Apache-2.0
"""Promotion of arrays to one dtype, by NumPy's rules and with bf16."""

from __future__ import annotations

from typing import Any

import numpy as np

import baracuda as bk
from baracuda.dtypes import ElementKind, as_element
from baracuda.errors import InvalidProblemError, UnsupportedError

Array = Any
NUMBERS = {bool: "b", int: "i", float: "f"}  # Python's; NumPy's scalars are arrays


def element_of(x: Array) -> ElementKind:
    return as_element(x.dtype)


def promoted(*arrays: Array) -> list[Array]:
    """Arrays promoted to one dtype. Python numbers are left to the functions, which convert them."""
    elements = {element_of(x) for x in arrays if type(x) not in NUMBERS}
    if len(elements) == 1:
        return list(arrays)
    if not elements:
        raise InvalidProblemError("none of the arguments is an array")
    wanted = _common(elements)
    return [x if type(x) in NUMBERS else as_dtype(x, wanted) for x in arrays]


def _common(elements: set[ElementKind]) -> ElementKind:
    if ElementKind.BF16 not in elements:
        return as_element(np.result_type(*[element.numpy_dtype for element in elements]))
    if not all([element.is_float for element in elements]):
        raise UnsupportedError(f"dtypes {' and '.join(sorted(map(str, elements)))} have no common one")
    return ElementKind.F64 if ElementKind.F64 in elements else ElementKind.F32  # has the values of both


def kind_of(x: Array) -> str:
    """NumPy's dtype kind, b, i, u, f or c, also for bf16 and fp8."""
    if type(x) in NUMBERS:
        return NUMBERS[type(x)]
    element = element_of(x)
    if element.integer_range is not None:
        return "i" if element.integer_range[0] else "u"
    known = {ElementKind.BOOL: "b", ElementKind.COMPLEX32: "c", ElementKind.COMPLEX64: "c"}
    return known.get(element, "f")


def as_dtype(x: Array, element: ElementKind) -> Array:
    return x if element_of(x) == element else bk.cast(x, element)


def copied(x: Array) -> Array:
    return bk.cast(x, element_of(x))
