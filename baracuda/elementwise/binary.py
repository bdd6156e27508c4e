# SPDX-License-Identifier: Apache-2.0
"""Elementwise ops of two inputs.

y = f(a, b). Operands have any strides; inputs broadcast along axes of extent 1, and a gradient is summed along them: in
f32 (f64 for f64), in a fixed order. y may be a or b; da and db may each be an input, unless it is summed; an unwanted
gradient is None. What ops do on integers, at NaN and at ties is in the op table.
"""

from __future__ import annotations

import dataclasses

from baracuda import descriptor
from baracuda.descriptor import ShapedDescriptor
from baracuda.kinds import BinaryCmpKind, BinaryKind, OpCategory
from baracuda.plan import Plan

_ELSEWHERE: dict[int, str] = {kind: "BinaryCmpPlan" for kind in BinaryKind if BinaryKind.EQ <= kind <= BinaryKind.LE}
_ELSEWHERE[BinaryKind.LERP] = "BinaryParamPlan"


@dataclasses.dataclass(frozen=True)
class BinaryDescriptor(ShapedDescriptor):
    """Floats; integers for the arithmetic kinds, MINIMUM, MAXIMUM and BITWISE_*; bool for LOGICAL_*."""

    kind: BinaryKind = descriptor.choice(BinaryKind)
    shape: tuple[int, ...] = descriptor.shape()


@dataclasses.dataclass(frozen=True)
class BinaryBackwardDescriptor(BinaryDescriptor):
    """Floats only. a_shape and b_shape are those of a and da, b and db, if they broadcast to shape and `workspace_size`
    must include the sums; None leaves them to each launch.
    """

    a_shape: tuple[int, ...] | None = descriptor.broadcast()
    b_shape: tuple[int, ...] | None = descriptor.broadcast()


@dataclasses.dataclass(frozen=True)
class BinaryCmpDescriptor(ShapedDescriptor):
    """element is the dtype of a and b: any float, integer or bool."""

    kind: BinaryCmpKind = descriptor.choice(BinaryCmpKind)
    shape: tuple[int, ...] = descriptor.shape()


@dataclasses.dataclass(frozen=True)
class BinaryParamDescriptor(ShapedDescriptor):
    """LERP: y = a + p (b - a), params = (p,); p = 0 gives a and p = 1 gives b exactly. C takes p as f64."""

    kind: BinaryKind = descriptor.choice(BinaryKind)
    shape: tuple[int, ...] = descriptor.shape()
    params: tuple[float, ...] = descriptor.params()


@dataclasses.dataclass(frozen=True)
class BinaryParamBackwardDescriptor(BinaryParamDescriptor):
    """LERP: da = (1 - p) dy, db = p dy. a_shape and b_shape as in BinaryBackwardDescriptor."""

    a_shape: tuple[int, ...] | None = descriptor.broadcast()
    b_shape: tuple[int, ...] | None = descriptor.broadcast()


class BinaryPlan(Plan):
    __slots__ = ()
    op = "binary_{kind}_{T}"
    category = OpCategory.BINARY_ELEMENTWISE
    elsewhere = _ELSEWHERE


class BinaryBackwardPlan(Plan):
    """Only the operands that the wanted gradients read are needed: b for da of MUL, none for ADD and SUB; see the
    header. LDEXP needs b (i32) and has no gradient for it.
    """

    __slots__ = ()
    op = "binary_{kind}_backward_{T}"
    category = OpCategory.BINARY_ELEMENTWISE
    elsewhere = _ELSEWHERE


class BinaryCmpPlan(Plan):
    """y is u8 or bool, and holds 0 or 1."""

    __slots__ = ()
    op = "binary_cmp_{kind}_{T}"
    category = OpCategory.BINARY_ELEMENTWISE


class BinaryParamPlan(Plan):
    __slots__ = ()
    op = "binary_{kind}_param_{T}"
    category = OpCategory.BINARY_ELEMENTWISE


class BinaryParamBackwardPlan(Plan):
    __slots__ = ()
    op = "binary_{kind}_param_backward_{T}"
    category = OpCategory.BINARY_ELEMENTWISE
