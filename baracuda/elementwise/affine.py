"""Affine: y = scale x + offset, rounded once; integers wrap.

Operands have any strides; x broadcasts along axes of extent 1. y may be x, of equal strides, or x None, which says the
same.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar

from baracuda import descriptor
from baracuda._optable import Param
from baracuda._scalars import as_integer, as_real
from baracuda.descriptor import Descriptor
from baracuda.elementwise._pointwise import PointwisePlan, result, source
from baracuda.kinds import OpCategory, UnaryKind
from baracuda.operands import Args, Viewable, Views, identical


@dataclasses.dataclass(frozen=True)
class AffineDescriptor(Descriptor):
    """shape is a number for rank 1. scale and offset are integers in the range of an integer element."""

    shape: tuple[int, ...] = descriptor.shape_or_numel()
    scale: float = descriptor.checked(lambda name, value: value)
    offset: float = descriptor.checked(lambda name, value: value, default=0)

    def validated(self) -> AffineDescriptor:
        valid = super().validated()
        bounds = valid.element.integer_range
        scalars = {name: getattr(valid, name) for name in ("scale", "offset")}
        checked = {n: as_integer(n, v, *bounds) if bounds else as_real(n, v) for n, v in scalars.items()}
        return dataclasses.replace(valid, **checked)


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class AffineArgs(Args):
    """x None: in place."""

    x: Viewable | None
    y: Viewable


class AffinePlan(PointwisePlan):
    __slots__ = ()
    op = "affine{I}_{T}"
    category = OpCategory.UNARY_ELEMENTWISE
    descriptor_type = AffineDescriptor
    args_type = AffineArgs
    operands = (source("x", optional=True), result("y", "x"))
    kind: ClassVar[UnaryKind] = UnaryKind.AFFINE  # type: ignore[assignment]

    def choose_parameters(self, wanted: Sequence[Param]) -> tuple[Any, ...]:
        return self.descriptor.scale, self.descriptor.offset

    def selector(self, views: Views) -> str:
        x, y = views["x"], views["y"]
        return "_inplace" if x is None or (y is not None and identical(x, y)) else ""

    def operand_of(self, pointer: str, views: Views) -> str:
        return "y" if pointer == "x" and views["x"] is None else pointer
