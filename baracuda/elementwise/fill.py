# SPDX-License-Identifier: Apache-2.0
"""Fill: output = value. output has any strides; elements that they skip are unchanged."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import numpy as np

from baracuda import descriptor
from baracuda._call.scalars import as_complex, as_integer, as_real, is_integer, shown
from baracuda.descriptor import ShapedDescriptor
from baracuda.dtypes import ElementKind, float_bits
from baracuda.errors import InvalidProblemError
from baracuda.kinds import OpCategory, ShapeLayoutKind
from baracuda.plan import Plan

_BITS = (ElementKind.F16, ElementKind.BF16, ElementKind.FP8_E4M3, ElementKind.FP8_E5M2)


@dataclasses.dataclass(frozen=True)
class FillDescriptor(ShapedDescriptor):
    """shape is a number for rank 1.

    value: a real number for floats, rounded once (fp8 saturates); an integer in range for integers; a bool, 0 or 1 for
    bool.
    """

    shape: tuple[int, ...] = descriptor.shape_or_numel()
    value: float = descriptor.checked(lambda name, value: value)

    @property
    def stored_value(self) -> float | int:
        return stored_value(self.value, self.element)

    def validated(self) -> FillDescriptor:
        valid = super().validated()
        value: Any = element_value(valid.value, valid.element)  # complex for complex elements
        return dataclasses.replace(valid, value=value)


def stored_value(value: complex, element: ElementKind) -> float | int:
    """A value as C takes it: bits for f16, bf16, fp8 and c32, bits of the real part for c64."""
    if element is ElementKind.COMPLEX32:
        return int(np.array(value, np.complex64).view(np.uint64))
    if element is ElementKind.COMPLEX64:
        return int(np.array(value.real, np.float64).view(np.uint64))
    real: Any = value
    return float_bits(real, element) if element in _BITS else real


def stored_high(value: complex, element: ElementKind) -> int:
    """The bits of the imaginary part for c64; 0 for other types."""
    if element is not ElementKind.COMPLEX64:
        return 0
    return int(np.array(value.imag, np.float64).view(np.uint64))


def element_value(value: object, element: ElementKind) -> float | int | complex:
    """A value that the element type has, or that is rounded to one of it."""
    if element is ElementKind.BOOL:
        if not (isinstance(value, (bool, np.bool_)) or is_integer(value)) or value not in (0, 1):
            raise InvalidProblemError(f"value is {shown(value)}, must be a bool, 0 or 1")
        return int(value)
    if element in (ElementKind.COMPLEX32, ElementKind.COMPLEX64):
        return as_complex("value", value)
    bounds = element.integer_range
    return as_integer("value", value, *bounds) if bounds else as_real("value", value)


class FillPlan(Plan):
    __slots__ = ()
    op = "fill_{T}"
    category = OpCategory.SHAPE_LAYOUT
    kind = ShapeLayoutKind.FILL
    names: ClassVar = {"value": "stored_value", "y": "output"}
