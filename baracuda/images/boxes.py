# SPDX-License-Identifier: Apache-2.0
"""Regions of interest and boxes: RoIAlign, RoIPool, non-maximum suppression, and intersection over union.

Boxes are (x1, y1, x2, y2); rows of rois have the index of their image before these. Gradients of images are added in a
fixed order, without atomics.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from baracuda import descriptor
from baracuda._call.scalars import as_integer
from baracuda.descriptor import Descriptor
from baracuda.kinds import ImageKind, OpCategory
from baracuda.plan import Plan


class _BoxPlan(Plan):
    __slots__ = ()
    category = OpCategory.IMAGE


# --- pooling over regions --------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class _RegionDescriptor(Descriptor):
    """Images of (batch, channels, height, width), num_rois regions of pooled_h x pooled_w bins."""

    batch: int = descriptor.extent()
    channels: int = descriptor.extent()
    height: int = descriptor.extent()
    width: int = descriptor.extent()
    num_rois: int = descriptor.extent()
    pooled_h: int = descriptor.extent()
    pooled_w: int = descriptor.extent()


@dataclasses.dataclass(frozen=True)
class RoiAlignDescriptor(_RegionDescriptor):
    """Images of (batch, channels, height, width), num_rois regions of pooled_h x pooled_w bins.

    Coordinates are multiplied by spatial_scale; aligned subtracts half a cell. sampling_ratio samples of a bin along
    each axis, or as many as it has cells if it is not positive.
    """

    spatial_scale: float = descriptor.real(default=1.0)
    sampling_ratio: int = descriptor.checked(
        lambda name, value: as_integer(name, value, -(2**31), 2**31 - 1), default=-1
    )
    aligned: bool = descriptor.flag()


class RoiAlignPlan(_BoxPlan):
    """input is (batch, channels, height, width), rois (num_rois, 5), and output has the bins of each region."""

    __slots__ = ()
    op = "roi_align_{T}"
    kind = ImageKind.ROI_ALIGN


class RoiAlignBackwardPlan(_BoxPlan):
    """Adds the gradient of input to dinput."""

    __slots__ = ()
    op = "roi_align_backward_{T}"
    descriptor_base = RoiAlignDescriptor
    kind = ImageKind.ROI_ALIGN_BACKWARD


@dataclasses.dataclass(frozen=True)
class RoiPoolDescriptor(_RegionDescriptor):
    """Images of (batch, channels, height, width), num_rois regions of pooled_h x pooled_w bins. Coordinates are
    multiplied by spatial_scale.
    """

    spatial_scale: float = descriptor.real(default=1.0)


class RoiPoolPlan(_BoxPlan):
    """The maxima of bins, and in argmax their cells y * width + x, -1 for a bin without cells."""

    __slots__ = ()
    op = "roi_pool_{T}"
    kind = ImageKind.ROI_POOL


class RoiPoolBackwardPlan(_BoxPlan):
    """Adds dout to dinput at argmax."""

    __slots__ = ()
    op = "roi_pool_backward_{T}"
    descriptor_base = _RegionDescriptor
    kind = ImageKind.ROI_POOL_BACKWARD


# --- suppression -----------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class NmsDescriptor(Descriptor):
    """num_boxes boxes in falling order of their scores; a kept one suppresses those that overlap it by more than
    iou_threshold.
    """

    num_boxes: int = descriptor.extent()
    iou_threshold: float = descriptor.real()


class NmsPlan(_BoxPlan):
    """keep_mask has a 1 for each kept box, count_out their number."""

    __slots__ = ()
    op = "nms_{T}"
    kind = ImageKind.NMS
    names: ClassVar = {"iou_thresh": "iou_threshold"}


@dataclasses.dataclass(frozen=True)
class BatchedNmsDescriptor(Descriptor):
    """num_boxes boxes in any order."""

    num_boxes: int = descriptor.extent()
    iou_threshold: float = descriptor.real()


class BatchedNmsPlan(_BoxPlan):
    """indices of the kept boxes by falling score, then -1; count is their number. Boxes of different classes do not
    suppress each other; without classes all are of one.
    """

    __slots__ = ()
    op = "batched_nms{I}_{T}"
    kind = ImageKind.NMS
    names: ClassVar = {"iou_thresh": "iou_threshold"}


@dataclasses.dataclass(frozen=True)
class BoxIouDescriptor(Descriptor):
    """rows boxes with each of columns boxes."""

    rows: int = descriptor.extent()
    columns: int = descriptor.extent()


class BoxIouPlan(_BoxPlan):
    """iou[i, j] of boxes1[i] and boxes2[j]."""

    __slots__ = ()
    op = "box_iou_{T}"
    kind = ImageKind.BOX_IOU
