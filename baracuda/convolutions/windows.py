# SPDX-License-Identifier: Apache-2.0
"""Im2Col1d, Im2Col2d and Col2Im1d: windows of contiguous arrays as columns. Im2ColPlan and Col2ImPlan take one to three
axes and any strides; Col2Im1d adds to its output.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from baracuda import descriptor
from baracuda.descriptor import Descriptor
from baracuda.errors import InvalidProblemError
from baracuda.kinds import ConvKind, OpCategory
from baracuda.plan import Plan


def _windows(name: str, extent: int, taps: int, stride: int, pad: int, dilation: int) -> int:
    slack = extent + 2 * pad - dilation * (taps - 1) - 1
    if slack < 0:
        raise InvalidProblemError(
            f"{name} is {taps}: with dilation {dilation} no window fits into {extent} elements and padding {pad}"
        )
    return slack // stride + 1


@dataclasses.dataclass(frozen=True)
class Im2Col1dDescriptor(Descriptor):
    """Sequences (batch, channels, l_in); columns (batch, channels * kl, l_out), where l_out windows fit."""

    batch: int = descriptor.extent()
    channels: int = descriptor.extent()
    l_in: int = descriptor.extent()
    kl: int = descriptor.extent(1)
    stride_l: int = descriptor.extent(1, default=1)
    pad_l: int = descriptor.extent(default=0)
    dilation_l: int = descriptor.extent(1, default=1)

    @property
    def l_out(self) -> int:
        return _windows("kl", self.l_in, self.kl, self.stride_l, self.pad_l, self.dilation_l)

    @property
    def image_shape(self) -> tuple[int, ...]:
        return (self.batch, self.channels, self.l_in)

    @property
    def columns_shape(self) -> tuple[int, ...]:
        return (self.batch, self.channels * self.kl, self.l_out)

    def validated(self) -> Im2Col1dDescriptor:
        valid = super().validated()
        _ = valid.columns_shape
        return valid


@dataclasses.dataclass(frozen=True)
class Im2Col2dDescriptor(Descriptor):
    """Images (batch, channels, h_in, w_in); columns (batch, channels * kh * kw, h_out * w_out)."""

    batch: int = descriptor.extent()
    channels: int = descriptor.extent()
    h_in: int = descriptor.extent()
    w_in: int = descriptor.extent()
    kh: int = descriptor.extent(1)
    kw: int = descriptor.extent(1)
    stride_h: int = descriptor.extent(1, default=1)
    stride_w: int = descriptor.extent(1, default=1)
    pad_h: int = descriptor.extent(default=0)
    pad_w: int = descriptor.extent(default=0)
    dilation_h: int = descriptor.extent(1, default=1)
    dilation_w: int = descriptor.extent(1, default=1)

    @property
    def h_out(self) -> int:
        return _windows("kh", self.h_in, self.kh, self.stride_h, self.pad_h, self.dilation_h)

    @property
    def w_out(self) -> int:
        return _windows("kw", self.w_in, self.kw, self.stride_w, self.pad_w, self.dilation_w)

    @property
    def image_shape(self) -> tuple[int, ...]:
        return (self.batch, self.channels, self.h_in, self.w_in)

    @property
    def columns_shape(self) -> tuple[int, ...]:
        return (self.batch, self.channels * self.kh * self.kw, self.h_out * self.w_out)

    def validated(self) -> Im2Col2dDescriptor:
        valid = super().validated()
        _ = valid.columns_shape
        return valid


class Im2Col1dPlan(Plan):
    __slots__ = ()
    op = "im2col_1d_{T}"
    category = OpCategory.CONVOLUTION
    kind = ConvKind.IM2COL_1D
    shapes: ClassVar = {"input": "image_shape", "output": "columns_shape"}


class Im2Col2dPlan(Plan):
    __slots__ = ()
    op = "im2col_2d_{T}"
    category = OpCategory.CONVOLUTION
    kind = ConvKind.IM2COL_2D
    shapes: ClassVar = {"input": "image_shape", "output": "columns_shape"}


class Col2Im1dPlan(Plan):
    """Adds to the output, which the caller clears for the adjoint of im2col alone."""

    __slots__ = ()
    descriptor_base = Im2Col1dDescriptor
    op = "col2im_1d_{T}"
    category = OpCategory.CONVOLUTION
    kind = ConvKind.COL2IM_1D
    shapes: ClassVar = {"input": "columns_shape", "output": "image_shape"}
