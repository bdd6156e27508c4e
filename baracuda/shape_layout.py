"""Repeat: tiles a tensor along every axis.

y[c] = x[c mod input_shape], output_shape = input_shape * repeats. Backward: dx[c] = sum over k in [0, repeats) of
dy[c + k * input_shape], accumulated in f32 for f16 and bf16. Strides of any sign.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from baracuda import descriptor
from baracuda._scalars import INT32_MAX
from baracuda.descriptor import Descriptor, product
from baracuda.errors import InvalidProblemError
from baracuda.kinds import OpCategory, ShapeLayoutKind
from baracuda.operands import Args, Operand, Viewable
from baracuda.plan import Plan


@dataclasses.dataclass(frozen=True)
class RepeatDescriptor(Descriptor):
    """input_shape and repeats have one rank, 0 to 8; repeats are at least 1."""

    input_shape: tuple[int, ...] = descriptor.shape(high=INT32_MAX)
    repeats: tuple[int, ...] = descriptor.shape(low=1, high=INT32_MAX)

    @property
    def output_shape(self) -> tuple[int, ...]:
        return tuple(extent * times for extent, times in zip(self.input_shape, self.repeats))

    def validated(self) -> RepeatDescriptor:
        valid = super().validated()
        if len(valid.repeats) != len(valid.input_shape):
            raise InvalidProblemError(
                f"repeats is {valid.repeats}, must have the rank of input_shape {valid.input_shape}"
            )
        if any(extent > INT32_MAX for extent in valid.output_shape):
            raise InvalidProblemError(f"output_shape is {valid.output_shape}, must stay below 2^31 in every axis")
        return valid


@dataclasses.dataclass(frozen=True)
class RepeatBackwardDescriptor(RepeatDescriptor):
    pass


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class RepeatArgs(Args):
    x: Viewable
    y: Viewable


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class RepeatBackwardArgs(Args):
    dy: Viewable
    dx: Viewable


class RepeatPlan(Plan):
    __slots__ = ()
    op = "repeat_{T}"
    category = OpCategory.SHAPE_LAYOUT
    descriptor_type = RepeatDescriptor
    args_type = RepeatArgs
    operands = (
        Operand("x", "input_shape", strided=True),
        Operand("y", "output_shape", strided=True, output=True),
    )
    kind = ShapeLayoutKind.REPEAT

    def problem(self, strides: Mapping[str, tuple[int, ...]]) -> tuple[Any, ...]:
        inputs, outputs = self.descriptor.input_shape, self.descriptor.output_shape
        return (
            product("y", outputs), len(inputs), self.int32_array(inputs), self.int32_array(outputs),
            self.int64_array(strides["x"]), self.int64_array(strides["y"]),
        )  # fmt: skip


class RepeatBackwardPlan(Plan):
    __slots__ = ()
    op = "repeat_backward_{T}"
    category = OpCategory.SHAPE_LAYOUT
    descriptor_type = RepeatBackwardDescriptor
    args_type = RepeatBackwardArgs
    operands = (
        Operand("dy", "output_shape", strided=True),
        Operand("dx", "input_shape", strided=True, output=True),
    )
    kind = ShapeLayoutKind.REPEAT

    def problem(self, strides: Mapping[str, tuple[int, ...]]) -> tuple[Any, ...]:
        inputs, repeats = self.descriptor.input_shape, self.descriptor.repeats
        return (
            product("dx", inputs), len(inputs), self.int32_array(inputs), self.int32_array(repeats),
            self.int64_array(strides["dy"]), self.int64_array(strides["dx"]),
        )  # fmt: skip
