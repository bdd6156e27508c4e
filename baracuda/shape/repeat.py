# SPDX-License-Identifier: Apache-2.0
"""Repeat: tiles a tensor along every axis. RepeatInterleave: repeats each element along one axis.

y[c] = x[c mod input_shape], output_shape = input_shape * repeats. Backward: dx[c] = sum over k in [0, repeats) of
dy[c + k * input_shape], accumulated in f32 for f16 and bf16; for repeat_interleave, the sum over the repeats of x[c].
Strides have any sign.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from baracuda import descriptor
from baracuda._call.scalars import INT32_MAX, as_integer
from baracuda.descriptor import Descriptor, product
from baracuda.errors import InvalidProblemError
from baracuda.kinds import OpCategory, ShapeLayoutKind
from baracuda.plan import Plan


@dataclasses.dataclass(frozen=True)
class RepeatDescriptor(Descriptor):
    """input_shape and repeats have one rank, 0 to 8; repeats are at least 1."""

    input_shape: tuple[int, ...] = descriptor.shape(high=INT32_MAX)
    repeats: tuple[int, ...] = descriptor.shape(low=1, high=INT32_MAX)

    @property
    def output_shape(self) -> tuple[int, ...]:
        return tuple(extent * times for extent, times in zip(self.input_shape, self.repeats))

    @property
    def rank(self) -> int:
        return len(self.input_shape)

    @property
    def input_numel(self) -> int:
        return product("dx", self.input_shape)

    @property
    def output_numel(self) -> int:
        return product("y", self.output_shape)

    def validated(self) -> RepeatDescriptor:
        valid = super().validated()
        if len(valid.repeats) != len(valid.input_shape):
            raise InvalidProblemError(
                f"repeats is {valid.repeats}, must have the rank of input_shape {valid.input_shape}"
            )
        if any(extent > INT32_MAX for extent in valid.output_shape):
            raise InvalidProblemError(f"output_shape is {valid.output_shape}, must stay below 2^31 in every axis")
        return valid


def _axis(name: str, value: object) -> int:
    return as_integer(name, value, 0, descriptor.MAX_RANK - 1)


@dataclasses.dataclass(frozen=True)
class RepeatInterleaveDescriptor(Descriptor):
    """Each element along repeat_dim is repeated `repeats` times in a row."""

    input_shape: tuple[int, ...] = descriptor.shape(high=INT32_MAX)
    repeat_dim: int = descriptor.checked(_axis)
    repeats: int = descriptor.extent()

    @property
    def output_shape(self) -> tuple[int, ...]:
        axis = self.repeat_dim
        return (*self.input_shape[:axis], self.input_shape[axis] * self.repeats, *self.input_shape[axis + 1 :])

    @property
    def rank(self) -> int:
        return len(self.input_shape)

    @property
    def input_numel(self) -> int:
        return product("dx", self.input_shape)

    @property
    def output_numel(self) -> int:
        return product("y", self.output_shape)

    def validated(self) -> RepeatInterleaveDescriptor:
        valid = super().validated()
        if valid.repeat_dim >= valid.rank:
            raise InvalidProblemError(f"repeat_dim is {valid.repeat_dim}, must be an axis of shape {valid.input_shape}")
        if valid.output_shape[valid.repeat_dim] > INT32_MAX:
            raise InvalidProblemError(f"output_shape is {valid.output_shape}, must stay below 2^31 in every axis")
        return valid


class RepeatPlan(Plan):
    __slots__ = ()
    op = "repeat_{T}"
    category = OpCategory.SHAPE_LAYOUT
    kind = ShapeLayoutKind.REPEAT


class RepeatBackwardPlan(Plan):
    __slots__ = ()
    descriptor_base = RepeatDescriptor
    op = "repeat_backward_{T}"
    category = OpCategory.SHAPE_LAYOUT
    kind = ShapeLayoutKind.REPEAT
    shapes: ClassVar = {"dy": "output_shape"}


class RepeatInterleavePlan(Plan):
    __slots__ = ()
    op = "repeat_interleave_{T}"
    category = OpCategory.SHAPE_LAYOUT
    kind = ShapeLayoutKind.REPEAT_INTERLEAVE
    names: ClassVar = {"repeat_count": "repeats"}
    shapes: ClassVar = {"x": "input_shape", "y": "output_shape"}


class RepeatInterleaveBackwardPlan(Plan):
    __slots__ = ()
    descriptor_base = RepeatInterleaveDescriptor
    op = "repeat_interleave_backward_{T}"
    category = OpCategory.SHAPE_LAYOUT
    kind = ShapeLayoutKind.REPEAT_INTERLEAVE
    names: ClassVar = {"repeat_count": "repeats"}
    shapes: ClassVar = {"dy": "output_shape", "dx": "input_shape"}
