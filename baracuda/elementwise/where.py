"""Where: y = a where cond is not 0, else b; bits are copied.

Operands have any strides; inputs broadcast along axes of extent 1, and a gradient is summed along them. y may be a or
b, and cond where elements are of one size. One of da, db may be dy, unless it is summed; one may be None.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from baracuda import descriptor
from baracuda.descriptor import Descriptor
from baracuda.dtypes import ElementKind
from baracuda.elementwise._pointwise import CONDITION, PointwisePlan, gradient, result, source
from baracuda.kinds import OpCategory, TernaryKind
from baracuda.operands import Args, Viewable, Views

_CONDITIONS = {
    ElementKind.BOOL: "_u8cond", ElementKind.U8: "_u8cond", ElementKind.U32: "_u32cond", ElementKind.I64: "_i64cond",
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class WhereDescriptor(Descriptor):
    """element: any float, integer, bool or fp8."""

    shape: tuple[int, ...] = descriptor.shape()


class WhereBackwardDescriptor(WhereDescriptor):
    """Floats only."""


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class WhereArgs(Args):
    """cond: bool, u8, u32 or i64."""

    cond: Viewable
    a: Viewable
    b: Viewable
    y: Viewable


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class WhereBackwardArgs(Args):
    """cond: bool or u8."""

    cond: Viewable
    dy: Viewable
    da: Viewable | None = None
    db: Viewable | None = None


class WherePlan(PointwisePlan):
    __slots__ = ()
    op = "where{I}_{T}"
    category = OpCategory.TERNARY_ELEMENTWISE
    descriptor_type = WhereDescriptor
    args_type = WhereArgs
    operands = (source("cond", dtype=tuple(_CONDITIONS)), source("a"), source("b"), result("y", "cond", "a", "b"))
    kind: ClassVar[TernaryKind] = TernaryKind.WHERE  # type: ignore[assignment]

    def selector(self, views: Views) -> str:
        cond = views["cond"]
        return "" if cond is None else _CONDITIONS[cond.dtype]

    def _format(self, dtype: str, index: str) -> str:
        """Floats under u8 conditions have the plain name."""
        is_float = dtype in ("f32", "f16", "bf16", "f64")
        return super()._format(dtype, (index or "_u8cond") if dtype and not is_float else index.replace("_u8cond", ""))


class WhereBackwardPlan(PointwisePlan):
    __slots__ = ()
    op = "where_backward_{T}"
    category = OpCategory.TERNARY_ELEMENTWISE
    descriptor_type = WhereBackwardDescriptor
    args_type = WhereBackwardArgs
    operands = (source("cond", dtype=CONDITION), source("dy"), gradient("da", "dy"), gradient("db", "dy"))
    kind: ClassVar[TernaryKind] = TernaryKind.WHERE  # type: ignore[assignment]
