"""Cast: y = x converted to another dtype.

Floats round once, to nearest even, and fp8 saturates; floats to integers truncate and saturate, NaN gives 0; integers
wrap, except into 4 bits, where the value is bounded. bool is 0 or 1. 4-bit operands are contiguous and of an even
number of elements, two a byte; all others have any strides, and x broadcasts along axes of extent 1. y may be x where
elements are of one size.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from baracuda import descriptor
from baracuda._optable import Row, ops
from baracuda.descriptor import Descriptor, product
from baracuda.dtypes import ElementKind, as_element
from baracuda.elementwise._pointwise import PointwisePlan, result, source
from baracuda.errors import InvalidProblemError, UnsupportedError
from baracuda.kinds import MathPrecision, OpCategory, UnaryKind
from baracuda.operands import Args, Operand, Viewable, Views
from baracuda.plan import KernelSku, arithmetic_of

_PACKED = (ElementKind.S4, ElementKind.U4)


@dataclasses.dataclass(frozen=True)
class CastDescriptor(Descriptor):
    """From element to output_element; shape is a number for rank 1."""

    shape: tuple[int, ...] = descriptor.shape_or_numel()
    output_element: ElementKind = descriptor.checked(lambda name, value: as_element(value, name))


class CastSubByteDescriptor(CastDescriptor):
    """From or to a 4-bit type, then of an even number of elements; or any pair that CastPlan takes."""

    @property
    def is_packed(self) -> bool:
        return self.element in _PACKED or self.output_element in _PACKED

    def validated(self) -> CastSubByteDescriptor:
        valid = super().validated()
        numel = product("shape", valid.shape)
        if valid.is_packed and numel % 2:
            raise InvalidProblemError(f"shape is {valid.shape}, of {numel} elements; must be even for 4-bit types")
        return valid


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class CastArgs(Args):
    x: Viewable
    y: Viewable


class CastSubByteArgs(CastArgs):
    """An s4 or u4 view has the shape of its elements, two of which share a byte."""

    __slots__ = ()


class CastPlan(PointwisePlan):
    __slots__ = ()
    op = "cast_{T}_{U}"
    category = OpCategory.UNARY_ELEMENTWISE
    descriptor_type: ClassVar[type[Descriptor]] = CastDescriptor
    args_type: ClassVar[type[Args]] = CastArgs
    operands: ClassVar[tuple[Operand, ...]] = (source("x"), result("y", "x", dtype="output_element"))
    kind: ClassVar[UnaryKind] = UnaryKind.CAST  # type: ignore[assignment]

    def arithmetic(self) -> tuple[MathPrecision, ElementKind]:
        """Of the dtype in which a float is computed, else of the output."""
        ends = (self.descriptor.element, self.descriptor.output_element)
        if ElementKind.F64 in ends:
            return arithmetic_of(ElementKind.F64)
        return arithmetic_of(ElementKind.F32 if any(end.is_float for end in ends) else ends[1])

    @property
    def sku(self) -> KernelSku:
        return dataclasses.replace(super().sku, aux_element=self.descriptor.output_element)

    def _row(self) -> Row:
        source_element, target = self.descriptor.element, self.descriptor.output_element
        if not isinstance(self, CastSubBytePlan) and (source_element in _PACKED or target in _PACKED):
            raise UnsupportedError(f"{source_element} to {target} is served by CastSubBytePlan")
        targets = [kind for kind in ElementKind if f"cast_f32_{kind.symbol}" in ops()]
        if target not in targets or target is ElementKind.F32_STRICT:
            known = ", ".join(dict.fromkeys(kind.token for kind in targets))
            raise UnsupportedError(f"output_element is {target}, must be one of {known}")
        return super()._row()


class CastSubBytePlan(CastPlan):
    __slots__ = ()
    descriptor_type = CastSubByteDescriptor
    args_type = CastSubByteArgs

    def check(self, views: Views) -> None:
        super().check(views)
        shape = self.descriptor.shape
        for name, view in views.items() if self.descriptor.is_packed else ():
            if view is not None and (not view.is_dense or view.shape != shape):
                raise UnsupportedError(
                    f"{name} has shape {view.shape} and strides {view.strides}, must be contiguous of shape {shape} "
                    f"for 4-bit types"
                )
