# SPDX-License-Identifier: Apache-2.0
"""Elementwise ops of one input.

y = f(x); dx = f'(x) dy. Operands have any strides; inputs broadcast along axes of extent 1. y may be x, dx may be dy or
the saved operand, of equal strides. Floats (f32, f16, bf16, f64) for all but the integer kinds NEG, ABS, SIGN, SQUARE,
CUBE, BITWISE_NOT, POPCOUNT, CLZ, CTZ, and LOGICAL_NOT of bool.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import ClassVar

from baracuda import descriptor
from baracuda.descriptor import ShapedDescriptor
from baracuda.kinds import OpCategory, UnaryKind
from baracuda.plan import Plan

_PARAM = "UnaryParamPlan"
_ELSEWHERE: Mapping[int, str] = {
    UnaryKind.THRESHOLD: _PARAM, UnaryKind.POWI: _PARAM, UnaryKind.POWF: _PARAM, UnaryKind.PRELU: "PReluPlan",
    UnaryKind.CAST: "CastPlan", UnaryKind.AFFINE: "AffinePlan",
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class UnaryDescriptor(ShapedDescriptor):
    kind: UnaryKind = descriptor.choice(UnaryKind)
    shape: tuple[int, ...] = descriptor.shape()


class UnaryBackwardDescriptor(UnaryDescriptor):
    """Floats only."""


@dataclasses.dataclass(frozen=True)
class UnaryParamDescriptor(UnaryDescriptor):
    """params: one number, or a sequence of them. C takes them as f64, the exponent of POWI as i64.

    THRESHOLD (threshold, value), POWI (n,), POWF (exponent,), ELU (alpha,), LEAKY_RELU (slope,), HARDTANH (low, high),
    HARDSHRINK (lambda,), SOFTSHRINK (lambda,), SOFTPLUS (beta, threshold), LOGIT (eps,), SELU (alpha, scale).
    """

    params: tuple[float, ...] = descriptor.params()


class UnaryPlan(Plan):
    """ELU has alpha = 1 here; the other constants are those of the op table."""

    __slots__ = ()
    op = "unary_{kind}_{T}"
    category = OpCategory.UNARY_ELEMENTWISE
    elsewhere = _ELSEWHERE


class UnaryBackwardPlan(Plan):
    """Reads x, or y for kinds whose gradient is a function of y (`saved = y` in the header: SQRT, EXP, TANH and more),
    or neither if the gradient is dy, -dy or 0.
    """

    __slots__ = ()
    op = "unary_{kind}_backward_{T}"
    fields: ClassVar = {"dx": "optional"}
    category = OpCategory.UNARY_ELEMENTWISE
    elsewhere = _ELSEWHERE


class UnaryParamPlan(Plan):
    __slots__ = ()
    op = "unary_{kind}_param_{T}"
    category = OpCategory.UNARY_ELEMENTWISE


class UnaryParamBackwardPlan(Plan):
    __slots__ = ()
    descriptor_base = UnaryParamDescriptor
    op = "unary_{kind}_param_backward_{T}"
    category = OpCategory.UNARY_ELEMENTWISE
