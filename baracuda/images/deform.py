# SPDX-License-Identifier: Apache-2.0
"""Deformable convolution: columns whose positions are moved by offsets, their gradients, and the product with filters.

deform_conv2d takes the arrays that `baracuda.functions` takes. Results belong to the framework of the first array and
are on its device and stream.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from baracuda import descriptor, functions
from baracuda._arrays.shaping import given_array
from baracuda._functions import deform_calls
from baracuda.descriptor import Descriptor
from baracuda.errors import naming
from baracuda.kinds import ImageKind, OpCategory
from baracuda.plan import Plan


class _DeformPlan(Plan):
    __slots__ = ()
    category = OpCategory.IMAGE


@dataclasses.dataclass(frozen=True)
class DeformColumnsDescriptor(Descriptor):
    """Windows of kernel_h x kernel_w taps of images of (batch, channels, height, width); out_h x out_w of them.

    Each of offset_groups groups of channels has offsets of its own.
    """

    batch: int = descriptor.extent()
    channels: int = descriptor.extent()
    height: int = descriptor.extent()
    width: int = descriptor.extent()
    kernel_h: int = descriptor.extent()
    kernel_w: int = descriptor.extent()
    out_h: int = descriptor.extent()
    out_w: int = descriptor.extent()
    stride_h: int = descriptor.extent(1, default=1)
    stride_w: int = descriptor.extent(1, default=1)
    pad_h: int = descriptor.extent(default=0)
    pad_w: int = descriptor.extent(default=0)
    dilation_h: int = descriptor.extent(1, default=1)
    dilation_w: int = descriptor.extent(1, default=1)
    offset_groups: int = descriptor.extent(1, default=1)

    @property
    def mask_channels(self) -> int:
        return self.offset_groups * self.kernel_h * self.kernel_w

    @property
    def offset_channels(self) -> int:
        return 2 * self.mask_channels

    @property
    def column_rows(self) -> int:
        return self.channels * self.kernel_h * self.kernel_w


class DeformColumnsPlan(_DeformPlan):
    """columns is (batch, channels kernel_h kernel_w, out_h, out_w); mask may be None."""

    __slots__ = ()
    op = "deform_columns_{T}"
    kind = ImageKind.DEFORM_COLUMNS


class DeformColumnsBackwardPlan(_DeformPlan):
    """Gradients of input, offset and mask, each of which may be None."""

    __slots__ = ()
    op = "deform_columns_backward_{T}"
    descriptor_base = DeformColumnsDescriptor
    kind = ImageKind.DEFORM_COLUMNS_BACKWARD


def _call(name: str, *arrays: Any, **numbers: Any) -> Any:
    return getattr(functions, name)(*arrays, **numbers)


@naming("deform_conv2d")
def deform_conv2d(
    input: Any, offset: Any, weight: Any, bias: Any = None, stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0, dilation: int | Sequence[int] = 1, mask: Any = None,
) -> Any:  # fmt: skip
    """Deformable convolution (Dai et al. 2017; with a mask that of Zhu et al. 2018), as torchvision's function has it.

    input is (batch, channels, height, width), weight (filters, channels / groups, kernel_height, kernel_width), bias
    (filters,). offset is (batch, 2 offset_groups taps, out_height, out_width), pairs (y, x) that move each tap of a
    window, mask (batch, offset_groups taps, out_height, out_width) a factor of each. stride, padding and dilation are
    numbers or pairs (height, width). It calls deform_columns, matmul and add.

    InvalidProblemError for shapes that do not fit, and dtypes that differ.
    """
    input, offset, weight = (
        given_array(each, name) for each, name in ((input, "input"), (offset, "offset"), (weight, "weight"))
    )
    bias, mask = (None if each is None else given_array(each, name) for each, name in ((bias, "bias"), (mask, "mask")))
    return deform_calls.deform_conv2d(_call, input, offset, weight, bias, stride, padding, dilation, mask)
