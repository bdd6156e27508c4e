# SPDX-License-Identifier: Apache-2.0
"""Im2Col: windows of images [N, C, spatial], with one to three spatial axes, as columns of a matrix. Col2Im, its
adjoint, sums each element over the windows that contain it.
"""

from __future__ import annotations

import dataclasses
import math
from typing import ClassVar

from baracuda import descriptor
from baracuda._call.scalars import INT32_MAX
from baracuda.descriptor import Descriptor, product
from baracuda.errors import InvalidProblemError
from baracuda.kinds import OpCategory, ShapeLayoutKind
from baracuda.plan import Plan


@dataclasses.dataclass(frozen=True)
class Im2ColDescriptor(Descriptor):
    """input_shape is that of the images; other fields have an entry for each spatial axis. At least one window fits."""

    input_shape: tuple[int, ...] = descriptor.shape(high=INT32_MAX)
    kernel_size: tuple[int, ...] = descriptor.shape(low=1, high=INT32_MAX)
    dilation: tuple[int, ...] = descriptor.shape(low=1, high=INT32_MAX)
    padding: tuple[int, ...] = descriptor.shape(high=INT32_MAX)
    steps: tuple[int, ...] = descriptor.shape(low=1, high=INT32_MAX)

    @property
    def counts(self) -> tuple[int, ...]:
        """Number of windows along each spatial axis."""
        each = zip(self.input_shape[2:], self.kernel_size, self.dilation, self.padding, self.steps)
        return tuple([(extent + 2 * p - d * (k - 1) - 1) // step + 1 for extent, k, d, p, step in each])

    @property
    def columns_shape(self) -> tuple[int, ...]:
        batch, channels = self.input_shape[:2]
        return (batch, channels * math.prod(self.kernel_size), math.prod(self.counts))

    @property
    def rank(self) -> int:
        return len(self.input_shape)

    @property
    def input_numel(self) -> int:
        return product("dx", self.input_shape)

    @property
    def output_numel(self) -> int:
        return product("y", self.columns_shape)

    def validated(self) -> Im2ColDescriptor:
        valid = super().validated()
        if not 3 <= valid.rank <= 5:
            raise InvalidProblemError(f"input_shape is {valid.input_shape}, must have 3 to 5 axes")
        for name in ("kernel_size", "dilation", "padding", "steps"):
            if len(getattr(valid, name)) != valid.rank - 2:
                raise InvalidProblemError(
                    f"{name} is {getattr(valid, name)}, must have an entry for each spatial axis of {valid.input_shape}"
                )
        if min(valid.counts) < 1:
            raise InvalidProblemError(
                f"kernel_size is {valid.kernel_size}: with dilation {valid.dilation} no window fits into images of "
                f"{valid.input_shape[2:]} and padding {valid.padding}"
            )
        if max(valid.columns_shape) > INT32_MAX:
            raise InvalidProblemError(f"columns have shape {valid.columns_shape}, must stay below 2^31 in every axis")
        return valid


class Im2ColPlan(Plan):
    __slots__ = ()
    op = "im2col_{T}"
    category = OpCategory.SHAPE_LAYOUT
    kind = ShapeLayoutKind.IM2COL
    shapes: ClassVar = {"x": "input_shape", "y": "columns_shape"}


class Col2ImPlan(Plan):
    __slots__ = ()
    descriptor_base = Im2ColDescriptor
    op = "col2im_{T}"
    category = OpCategory.SHAPE_LAYOUT
    kind = ShapeLayoutKind.IM2COL
    shapes: ClassVar = {"dy": "columns_shape", "dx": "input_shape"}
