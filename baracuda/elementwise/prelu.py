# SPDX-License-Identifier: Apache-2.0
"""PReLU: y = x for x > 0, else w x, w one number or one for each channel (He et al. 2015).

Backward: dx = dy for x > 0, else w dy; dweight[c] = sum of dy x over the elements of channel c that are negative or
NaN, in f32 (f64 for f64) and in a fixed order. One of dx, dweight may be None. Operands have any strides; x and dy
broadcast along axes of extent 1. y may be x; dx may be dy or x.
"""

from __future__ import annotations

import dataclasses
import math
from typing import ClassVar

from baracuda import descriptor
from baracuda._call.scalars import INT32_MAX, as_integer
from baracuda.descriptor import ShapedDescriptor
from baracuda.errors import InvalidProblemError
from baracuda.kinds import OpCategory, UnaryKind
from baracuda.plan import Plan


@dataclasses.dataclass(frozen=True)
class PReluDescriptor(ShapedDescriptor):
    """channel_axis: the axis of shape for weight; negative: weight has one element."""

    shape: tuple[int, ...] = descriptor.shape()
    channel_axis: int = descriptor.checked(as_integer)

    @property
    def weight_shape(self) -> tuple[int, ...]:
        return (1,) if self.channel_axis < 0 else (self.shape[self.channel_axis],)

    @property
    def channel_extent(self) -> int:
        return max(1, self.weight_shape[0])

    @property
    def channel_stride(self) -> int:
        """Elements from one channel to the next."""
        inner = self.shape[self.channel_axis + 1 :] if self.channel_axis >= 0 else ()
        return max(1, math.prod(inner))

    @property
    def scalar_weight(self) -> int:
        return int(self.channel_axis < 0)

    def validated(self) -> PReluDescriptor:
        valid = super().validated()
        if valid.channel_axis >= len(valid.shape):
            raise InvalidProblemError(
                f"channel_axis is {valid.channel_axis}, must be an axis of shape {valid.shape}, or negative"
            )
        if max(valid.weight_shape) > INT32_MAX:
            raise InvalidProblemError(f"shape is {valid.shape}, must have at most {INT32_MAX} channels")
        return valid


class PReluPlan(Plan):
    __slots__ = ()
    op = "prelu_{T}"
    category = OpCategory.UNARY_ELEMENTWISE
    kind = UnaryKind.PRELU
    shapes: ClassVar = {"weight": "weight_shape", "dweight": "weight_shape"}

    def layout(self, name: str, strides: tuple[int, ...]) -> tuple[int, ...]:
        """Strides for C's strided form, which takes weights broadcast to the shape."""
        if name not in self.shapes:
            return strides
        axis = self.descriptor.channel_axis
        return tuple(strides[0] if d == axis else 0 for d in range(self.descriptor.rank))


class PReluBackwardPlan(PReluPlan):
    """weight may be None if only dweight is wanted."""

    __slots__ = ()
    op = "prelu_backward_{T}"
    fields: ClassVar = {"x": "given", "weight": "given"}
