# SPDX-License-Identifier: Apache-2.0
"""Selection: y = a where cond is not 0, else b; bits are copied.

Operands have any strides; inputs broadcast along axes of extent 1, and a gradient is summed along them. y may be a or
b, and cond if elements have one size. One of da, db may be dy, unless it is summed; one may be None.
"""

from __future__ import annotations

import dataclasses

from baracuda import descriptor
from baracuda.descriptor import ShapedDescriptor
from baracuda.kinds import OpCategory, TernaryKind
from baracuda.plan import Plan


@dataclasses.dataclass(frozen=True)
class WhereDescriptor(ShapedDescriptor):
    """element: any float, integer, bool or fp8."""

    shape: tuple[int, ...] = descriptor.shape()


@dataclasses.dataclass(frozen=True)
class WhereBackwardDescriptor(WhereDescriptor):
    """Floats only. a_shape and b_shape as in BinaryBackwardDescriptor."""

    a_shape: tuple[int, ...] | None = descriptor.broadcast()
    b_shape: tuple[int, ...] | None = descriptor.broadcast()


class WherePlan(Plan):
    """cond: bool, u8, u32 or i64."""

    __slots__ = ()
    op = "where_{T}"
    others = ("where_u8cond_{T}", "where_u32cond_{T}", "where_i64cond_{T}")
    category = OpCategory.TERNARY_ELEMENTWISE
    kind = TernaryKind.WHERE


class WhereBackwardPlan(Plan):
    """cond: bool or u8."""

    __slots__ = ()
    op = "where_backward_{T}"
    category = OpCategory.TERNARY_ELEMENTWISE
    kind = TernaryKind.WHERE
