"""Elementwise ops of three inputs.

CLAMP min(max(a, b), c), FMA a b + c rounded once, ADDCMUL a + scale b c, ADDCDIV a + scale b / c. Operands have any
strides; inputs broadcast along axes of extent 1, and a gradient is summed along them. y may be an input; gradients may
be inputs, unless they are summed; an unwanted gradient is None.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar

from baracuda import descriptor
from baracuda._optable import Param
from baracuda.descriptor import Descriptor
from baracuda.elementwise._pointwise import PointwisePlan, gradient, result, source
from baracuda.kinds import OpCategory, TernaryKind
from baracuda.operands import Args, Viewable

_SPELLING = {TernaryKind.ADDCMUL: "addcmul_param", TernaryKind.ADDCDIV: "addcdiv_param"}  # where scale is f64


@dataclasses.dataclass(frozen=True)
class TernaryDescriptor(Descriptor):
    """Floats; integers for CLAMP. ADDCMUL and ADDCDIV alone look at scale."""

    kind: TernaryKind = descriptor.choice(TernaryKind)
    shape: tuple[int, ...] = descriptor.shape()
    scale: float = descriptor.real(default=1.0)


class TernaryBackwardDescriptor(TernaryDescriptor):
    """Floats only."""


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class TernaryArgs(Args):
    a: Viewable
    b: Viewable
    c: Viewable
    y: Viewable


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class TernaryBackwardArgs(Args):
    """Only what the wanted gradients read is needed: b for da of FMA. The header says what that is."""

    dy: Viewable
    a: Viewable | None = None
    b: Viewable | None = None
    c: Viewable | None = None
    da: Viewable | None = None
    db: Viewable | None = None
    dc: Viewable | None = None


class TernaryPlan(PointwisePlan):
    __slots__ = ()
    op = "ternary_{kind}_{T}"
    category = OpCategory.TERNARY_ELEMENTWISE
    descriptor_type: ClassVar[type[Descriptor]] = TernaryDescriptor
    args_type: ClassVar[type[Args]] = TernaryArgs
    operands = (source("a"), source("b"), source("c"), result("y", "a", "b", "c"))
    spelling = _SPELLING
    elsewhere: ClassVar[Any] = {TernaryKind.WHERE: "WherePlan"}

    def choose_parameters(self, wanted: Sequence[Param]) -> tuple[float, ...]:
        return (self.descriptor.scale,) if wanted else ()


class TernaryBackwardPlan(TernaryPlan):
    __slots__ = ()
    op = "ternary_{kind}_backward_{T}"
    descriptor_type = TernaryBackwardDescriptor
    args_type = TernaryBackwardArgs
    operands = (
        source("dy"), source("a", optional=True), source("b", optional=True), source("c", optional=True),
        gradient("da", "dy", "a", "b", "c"), gradient("db", "dy", "a", "b", "c"), gradient("dc", "dy", "a", "b", "c"),
    )  # fmt: skip
    elsewhere: ClassVar[Any] = {TernaryKind.WHERE: "WhereBackwardPlan"}
