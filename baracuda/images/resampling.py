# SPDX-License-Identifier: Apache-2.0
"""Plans of interpolation, for images [N, C, spatial] of one to three spatial axes, and of pixel shuffle.

Output o of an axis lies at position (o + 1/2) step - 1/2 of the input, or o step with aligned corners; step is
in / out, (in - 1) / (out - 1) with aligned corners, or the inverse of a scale that is not 0.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from baracuda import descriptor
from baracuda._call.scalars import INT32_MAX
from baracuda.descriptor import Descriptor, product
from baracuda.errors import InvalidProblemError
from baracuda.kinds import ImageKind, OpCategory, ResampleMode
from baracuda.plan import Plan

# The kinds of the reference, by mode and number of spatial axes; that of a gradient follows.
_KINDS = {
    (ResampleMode.LINEAR, 1): ImageKind.INTERPOLATE_LINEAR_1D,
    (ResampleMode.LINEAR, 2): ImageKind.INTERPOLATE_BILINEAR_2D,
    (ResampleMode.LINEAR, 3): ImageKind.INTERPOLATE_TRILINEAR_3D,
    (ResampleMode.NEAREST, 2): ImageKind.INTERPOLATE_NEAREST_2D,
    (ResampleMode.CUBIC, 2): ImageKind.INTERPOLATE_BICUBIC_2D,
    (ResampleMode.AREA, 2): ImageKind.INTERPOLATE_AREA_2D,
}


@dataclasses.dataclass(frozen=True)
class InterpolateDescriptor(Descriptor):
    """input_shape and output_shape are [N, C, spatial]; scales are those of the last three axes, 0 for the ratio of the
    extents.
    """

    input_shape: tuple[int, ...] = descriptor.shape(high=INT32_MAX)
    output_shape: tuple[int, ...] = descriptor.shape(high=INT32_MAX)
    resample_mode: ResampleMode = descriptor.choice(ResampleMode)
    align_corners: bool = descriptor.flag()
    antialias: bool = descriptor.flag()
    cubic_a: float = descriptor.real(default=-0.75)
    scale_z: float = descriptor.real(default=0.0)
    scale_y: float = descriptor.real(default=0.0)
    scale_x: float = descriptor.real(default=0.0)

    @property
    def rank(self) -> int:
        return len(self.input_shape)

    @property
    def input_numel(self) -> int:
        return product("dx", self.input_shape)

    @property
    def output_numel(self) -> int:
        return product("y", self.output_shape)

    def validated(self) -> InterpolateDescriptor:
        valid = super().validated()
        if not 3 <= valid.rank <= 5:
            raise InvalidProblemError(f"input_shape is {valid.input_shape}, must have 3 to 5 axes")
        if len(valid.output_shape) != valid.rank or valid.output_shape[:2] != valid.input_shape[:2]:
            raise InvalidProblemError(
                f"output_shape is {valid.output_shape}, must be that of the input, {valid.input_shape}, but for its "
                "spatial axes"
            )
        return valid


class InterpolatePlan(Plan):
    """Needs a workspace with antialias, for LANCZOS, BOX and HAMMING, and for bytes that are not copied."""

    __slots__ = ()
    op = "interpolate_{T}"
    category = OpCategory.IMAGE
    shapes: ClassVar = {"x": "input_shape", "y": "output_shape"}

    @property
    def kind(self) -> ImageKind:
        return _KINDS.get((self.descriptor.resample_mode, self.descriptor.rank - 2), ImageKind.INTERPOLATE)


class InterpolateBackwardPlan(Plan):
    __slots__ = ()
    descriptor_base = InterpolateDescriptor
    op = "interpolate_backward_{T}"
    category = OpCategory.IMAGE
    shapes: ClassVar = {"dy": "output_shape", "dx": "input_shape"}

    @property
    def kind(self) -> ImageKind:
        forward = _KINDS.get((self.descriptor.resample_mode, self.descriptor.rank - 2), ImageKind.INTERPOLATE)
        return ImageKind(forward + 1)


@dataclasses.dataclass(frozen=True)
class UpsampleNearest2dDescriptor(Descriptor):
    """Images [n, c, ih, iw] and [n, c, oh, ow], dense."""

    n: int = descriptor.extent()
    c: int = descriptor.extent()
    ih: int = descriptor.extent()
    iw: int = descriptor.extent()
    oh: int = descriptor.extent()
    ow: int = descriptor.extent()


class UpsampleNearest2dPlan(Plan):
    """output[y, x] = input[floor(y ih / oh), floor(x iw / ow)]."""

    __slots__ = ()
    op = "upsample_nearest_2d_fw_{T}"
    category = OpCategory.IMAGE
    kind = ImageKind.INTERPOLATE_NEAREST_2D


class UpsampleNearest2dBackwardPlan(Plan):
    __slots__ = ()
    descriptor_base = UpsampleNearest2dDescriptor
    op = "upsample_nearest_2d_bw_{T}"
    category = OpCategory.IMAGE
    kind = ImageKind.INTERPOLATE_NEAREST_2D_BACKWARD


@dataclasses.dataclass(frozen=True)
class PixelShuffleDescriptor(Descriptor):
    """c, h and w are the extents of the smaller planes, of which there are c r^2: blocks of the larger ones are
    r x r pixels.
    """

    n: int = descriptor.extent()
    c: int = descriptor.extent()
    h: int = descriptor.extent()
    w: int = descriptor.extent()
    r: int = descriptor.extent(1)

    @property
    def small_channels(self) -> int:
        return self.c * self.r * self.r

    @property
    def big_height(self) -> int:
        return self.h * self.r

    @property
    def big_width(self) -> int:
        return self.w * self.r


class PixelShufflePlan(Plan):
    """output[n, c, h r + i, w r + j] = input[n, c r^2 + i r + j, h, w]."""

    __slots__ = ()
    op = "pixel_shuffle_{T}"
    category = OpCategory.IMAGE
    kind = ImageKind.PIXEL_SHUFFLE


class PixelUnshufflePlan(Plan):
    """output[n, c r^2 + i r + j, h, w] = input[n, c, h r + i, w r + j]."""

    __slots__ = ()
    descriptor_base = PixelShuffleDescriptor
    op = "pixel_unshuffle_{T}"
    category = OpCategory.IMAGE
    kind = ImageKind.PIXEL_UNSHUFFLE
