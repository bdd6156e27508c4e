"""Fill: y = value. y has any strides; cells that they skip are left alone."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from baracuda import descriptor
from baracuda._optable import Param
from baracuda._scalars import as_integer, as_real, is_integer, shown
from baracuda.descriptor import Descriptor
from baracuda.dtypes import ElementKind, float_bits
from baracuda.elementwise._pointwise import PointwisePlan, result
from baracuda.errors import InvalidProblemError
from baracuda.kinds import OpCategory, ShapeLayoutKind
from baracuda.operands import Args, Viewable

_BITS = (ElementKind.F16, ElementKind.BF16, ElementKind.FP8_E4M3, ElementKind.FP8_E5M2)


@dataclasses.dataclass(frozen=True)
class FillDescriptor(Descriptor):
    """shape is a number for rank 1.

    value: a real number for floats, rounded once (fp8 saturates); an integer in range for integers; a bool, 0 or 1 for
    bool.
    """

    shape: tuple[int, ...] = descriptor.shape_or_numel()
    value: float = descriptor.checked(lambda name, value: value)

    def validated(self) -> FillDescriptor:
        valid = super().validated()
        return dataclasses.replace(valid, value=_value(valid.value, valid.element))


def _value(value: object, element: ElementKind) -> float | int:
    if element is ElementKind.BOOL:
        if not (isinstance(value, (bool, np.bool_)) or is_integer(value)) or value not in (0, 1):
            raise InvalidProblemError(f"value is {shown(value)}, must be a bool, 0 or 1")
        return int(value)  # type: ignore[call-overload]
    bounds = element.integer_range
    return as_integer("value", value, *bounds) if bounds else as_real("value", value)


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class FillArgs(Args):
    y: Viewable


class FillPlan(PointwisePlan):
    __slots__ = ()
    op = "fill_{T}"
    category = OpCategory.SHAPE_LAYOUT
    descriptor_type = FillDescriptor
    args_type = FillArgs
    operands = (result("y"),)
    kind: ClassVar[ShapeLayoutKind] = ShapeLayoutKind.FILL  # type: ignore[assignment]

    def choose_parameters(self, wanted: Sequence[Param]) -> tuple[Any, ...]:
        value, element = self.descriptor.value, self.descriptor.element
        return (float_bits(value, element) if element in _BITS else value,)
