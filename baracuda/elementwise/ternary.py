# SPDX-License-Identifier: Apache-2.0
"""Elementwise ops of three inputs.

CLAMP min(max(a, b), c), FMA a b + c rounded once, ADDCMUL a + scale b c, ADDCDIV a + scale b / c. Operands have any
strides; inputs broadcast along axes of extent 1, and a gradient is summed along them. y may be an input; gradients may
be inputs, unless they are summed; an unwanted gradient is None.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import ClassVar

from baracuda import descriptor
from baracuda.descriptor import ShapedDescriptor
from baracuda.kinds import OpCategory, TernaryKind
from baracuda.plan import Plan

# The ops whose scale is f64.
_SPELLING: Mapping[int, str] = {TernaryKind.ADDCMUL: "addcmul_param", TernaryKind.ADDCDIV: "addcdiv_param"}


@dataclasses.dataclass(frozen=True)
class TernaryDescriptor(ShapedDescriptor):
    """Floats; integers for CLAMP. Only ADDCMUL and ADDCDIV use scale."""

    kind: TernaryKind = descriptor.choice(TernaryKind)
    shape: tuple[int, ...] = descriptor.shape()
    scale: float = descriptor.real(default=1.0)


@dataclasses.dataclass(frozen=True)
class TernaryBackwardDescriptor(TernaryDescriptor):
    """Floats only. a_shape, b_shape, c_shape as in BinaryBackwardDescriptor."""

    a_shape: tuple[int, ...] | None = descriptor.broadcast()
    b_shape: tuple[int, ...] | None = descriptor.broadcast()
    c_shape: tuple[int, ...] | None = descriptor.broadcast()


class TernaryPlan(Plan):
    __slots__ = ()
    op = "ternary_{kind}_{T}"
    spelling = _SPELLING
    category = OpCategory.TERNARY_ELEMENTWISE
    elsewhere: ClassVar[Mapping[int, str]] = {TernaryKind.WHERE: "WherePlan"}


class TernaryBackwardPlan(TernaryPlan):
    """Only the operands that the wanted gradients read are needed, such as b for da of FMA; see the header."""

    __slots__ = ()
    op = "ternary_{kind}_backward_{T}"
    elsewhere: ClassVar[Mapping[int, str]] = {TernaryKind.WHERE: "WhereBackwardPlan"}
