# SPDX-License-Identifier: Apache-2.0
"""Cast: y = x converted to another dtype.

Floats round once, to nearest even, and fp8 saturates; floats to integers truncate and saturate, NaN gives 0; integers
wrap, except into 4 bits, where they saturate. bool is 0 or 1. 4-bit operands are contiguous and of an even
number of elements, two a byte; all others have any strides, and x broadcasts along axes of extent 1. y may be x if
elements have one size.
"""

from __future__ import annotations

import dataclasses

from baracuda import descriptor
from baracuda._library.op_table import ops
from baracuda.descriptor import ShapedDescriptor
from baracuda.dtypes import ElementKind, as_element
from baracuda.errors import InvalidProblemError
from baracuda.guarantee import arithmetic_of
from baracuda.kinds import MathPrecision, OpCategory, UnaryKind
from baracuda.plan import Plan

_PACKED = (ElementKind.S4, ElementKind.U4)


@dataclasses.dataclass(frozen=True)
class CastDescriptor(ShapedDescriptor):
    """Cast from element to output_element; shape is a number for rank 1."""

    shape: tuple[int, ...] = descriptor.shape_or_numel()
    output_element: ElementKind = descriptor.checked(lambda name, value: as_element(value, name))


class CastSubByteDescriptor(CastDescriptor):
    """Cast from or to a 4-bit type, then of an even number of elements; or of any pair that CastPlan takes."""

    @property
    def is_packed(self) -> bool:
        return self.element in _PACKED or self.output_element in _PACKED

    def validated(self) -> CastSubByteDescriptor:
        valid = super().validated()
        if valid.is_packed and valid.numel % 2:
            raise InvalidProblemError(
                f"shape is {valid.shape}, of {valid.numel} elements; must be even for 4-bit types"
            )
        return valid


class CastPlan(Plan):
    __slots__ = ()
    op = "cast_{T}_{U}"
    category = OpCategory.UNARY_ELEMENTWISE
    kind = UnaryKind.CAST

    def arithmetic(self) -> tuple[MathPrecision, ElementKind]:
        """Arithmetic of the dtype in which a float is computed, else of the output."""
        ends = (self.descriptor.element, self.descriptor.output_element)
        if ElementKind.F64 in ends:
            return arithmetic_of(ElementKind.F64)
        return arithmetic_of(ElementKind.F32 if any(end.is_float for end in ends) else ends[1])

    def served_elsewhere(self) -> str:
        element, target = self.descriptor.element, self.descriptor.output_element
        if type(self) is CastPlan and (element in _PACKED or target in _PACKED):
            return f"{element} to {target} is served by CastSubBytePlan"
        targets = [kind for kind in ElementKind if f"cast_f32_{kind.symbol}" in ops()]
        if target in targets and target is not ElementKind.F32_STRICT:
            return ""
        return f"output_element is {target}, must be one of {', '.join(dict.fromkeys(kind.symbol for kind in targets))}"


class CastSubBytePlan(CastPlan):
    """An s4 or u4 view has the shape of its elements, two of which share a byte."""

    __slots__ = ()
