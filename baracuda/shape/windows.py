# SPDX-License-Identifier: Apache-2.0
"""Unfold: sliding windows along an axis, with a new last axis for their elements. Backward: sums over windows."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from baracuda import descriptor
from baracuda._call.scalars import INT32_MAX, as_integer
from baracuda.descriptor import Descriptor, product
from baracuda.errors import InvalidProblemError
from baracuda.kinds import OpCategory, ShapeLayoutKind
from baracuda.plan import Plan


def _axis(name: str, value: object) -> int:
    return as_integer(name, value, 0, descriptor.MAX_RANK - 2)


@dataclasses.dataclass(frozen=True)
class UnfoldDescriptor(Descriptor):
    """input_shape has 1 to 7 axes; window_size is at most the extent along unfold_dim. Elements in no window are
    unused.
    """

    input_shape: tuple[int, ...] = descriptor.shape(high=INT32_MAX)
    unfold_dim: int = descriptor.checked(_axis)
    window_size: int = descriptor.extent()
    window_step: int = descriptor.extent()

    @property
    def output_shape(self) -> tuple[int, ...]:
        axis = self.unfold_dim
        count = (self.input_shape[axis] - self.window_size) // self.window_step + 1
        return (*self.input_shape[:axis], count, *self.input_shape[axis + 1 :], self.window_size)

    @property
    def rank(self) -> int:
        return len(self.input_shape)

    @property
    def input_numel(self) -> int:
        return product("dx", self.input_shape)

    @property
    def output_numel(self) -> int:
        return product("y", self.output_shape)

    def validated(self) -> UnfoldDescriptor:
        valid = super().validated()
        if valid.unfold_dim >= valid.rank or valid.rank >= descriptor.MAX_RANK:
            raise InvalidProblemError(
                f"unfold_dim is {valid.unfold_dim}, must be an axis of input_shape {valid.input_shape}, of at most "
                f"{descriptor.MAX_RANK - 1} axes"
            )
        extent = valid.input_shape[valid.unfold_dim]
        if not 1 <= valid.window_size <= extent:
            raise InvalidProblemError(
                f"window_size is {valid.window_size}, must be in [1, {extent}], the extent along unfold_dim"
            )
        if valid.window_step < 1:
            raise InvalidProblemError("window_step is 0, must be >= 1")
        return valid


class UnfoldPlan(Plan):
    __slots__ = ()
    op = "unfold_{T}"
    category = OpCategory.SHAPE_LAYOUT
    kind = ShapeLayoutKind.UNFOLD
    shapes: ClassVar = {"x": "input_shape", "y": "output_shape"}


class UnfoldBackwardPlan(Plan):
    __slots__ = ()
    descriptor_base = UnfoldDescriptor
    op = "unfold_backward_{T}"
    category = OpCategory.SHAPE_LAYOUT
    kind = ShapeLayoutKind.UNFOLD
    shapes: ClassVar = {"dy": "output_shape", "dx": "input_shape"}
