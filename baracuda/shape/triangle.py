# SPDX-License-Identifier: Apache-2.0
"""Triu and Tril: the upper or lower triangle of the last two axes, zeros elsewhere; gradients likewise.

Strides have any sign; an output may be its input.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from baracuda import descriptor
from baracuda._call.scalars import INT32_MAX, as_integer
from baracuda.descriptor import ShapedDescriptor
from baracuda.errors import InvalidProblemError
from baracuda.kinds import OpCategory, ShapeLayoutKind
from baracuda.plan import Plan


@dataclasses.dataclass(frozen=True)
class TriuDescriptor(ShapedDescriptor):
    """Shapes have at least two axes. Elements at (i, j) with j >= i + diagonal are kept."""

    shape: tuple[int, ...] = descriptor.shape(high=INT32_MAX)
    diagonal: int = descriptor.checked(lambda name, value: as_integer(name, value, -(2**31), INT32_MAX))

    def validated(self) -> TriuDescriptor:
        valid = super().validated()
        if len(valid.shape) < 2:
            raise InvalidProblemError(f"shape is {valid.shape}, must have at least two axes")
        return valid


@dataclasses.dataclass(frozen=True)
class TrilDescriptor(TriuDescriptor):
    """Shapes have at least two axes. Elements at (i, j) with j <= i + diagonal are kept."""


_BACK = {"input": "grad_output", "output": "grad_input"}


class TriuPlan(Plan):
    __slots__ = ()
    op = "triu_{T}"
    category = OpCategory.SHAPE_LAYOUT
    kind = ShapeLayoutKind.TRIU


class TriuBackwardPlan(TriuPlan):
    __slots__ = ()
    names: ClassVar = _BACK


class TrilPlan(Plan):
    __slots__ = ()
    op = "tril_{T}"
    category = OpCategory.SHAPE_LAYOUT
    kind = ShapeLayoutKind.TRIL


class TrilBackwardPlan(TrilPlan):
    __slots__ = ()
    names: ClassVar = _BACK
