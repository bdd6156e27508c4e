# SPDX-License-Identifier: Apache-2.0
"""Pixels: images of bytes to normalised planes and back, colour spaces, and video frames in NV12."""

from __future__ import annotations

import dataclasses
from typing import Any

from baracuda import descriptor
from baracuda._call.scalars import INT32_MAX, as_integer
from baracuda.descriptor import Descriptor
from baracuda.kinds import ColorConversion, ImageKind, OpCategory
from baracuda.plan import Plan


class _PixelPlan(Plan):
    __slots__ = ()
    category = OpCategory.IMAGE


def _index(**options: Any) -> Any:
    return descriptor.checked(lambda name, value: as_integer(name, value, 0, INT32_MAX), **options)


@dataclasses.dataclass(frozen=True)
class PixelsToPlanesDescriptor(Descriptor):
    """batch images of source_h x source_w pixels of channels bytes; the window of height x width at (top, left) is
    taken. `element` is the dtype of the planes.
    """

    batch: int = descriptor.extent()
    source_h: int = descriptor.extent()
    source_w: int = descriptor.extent()
    channels: int = descriptor.extent()
    height: int = descriptor.extent()
    width: int = descriptor.extent()
    top: int = _index(default=0)
    left: int = _index(default=0)
    reverse_channels: bool = descriptor.flag()
    flip_columns: bool = descriptor.flag()
    scale: float = descriptor.real(default=1 / 255)


class PixelsToPlanesPlan(_PixelPlan):
    """y = (x scale - mean) / std, with adjacent channels of u8 to planes; mean and std, of f32, may be None."""

    __slots__ = ()
    op = "pixels_to_planes_{T}"
    kind = ImageKind.PIXELS_TO_PLANES


@dataclasses.dataclass(frozen=True)
class PlanesToPixelsDescriptor(Descriptor):
    """batch images of channels planes of height x width. `element` is the dtype of the planes."""

    batch: int = descriptor.extent()
    channels: int = descriptor.extent()
    height: int = descriptor.extent()
    width: int = descriptor.extent()
    reverse_channels: bool = descriptor.flag()
    flip_columns: bool = descriptor.flag()
    scale: float = descriptor.real(default=255.0)


class PlanesToPixelsPlan(_PixelPlan):
    """x = (y std + mean) scale, rounded to u8 and cut."""

    __slots__ = ()
    op = "planes_to_pixels_{T}"
    kind = ImageKind.PLANES_TO_PIXELS


@dataclasses.dataclass(frozen=True)
class ConvertColorDescriptor(Descriptor):
    """batch images of pixels pixels; channels_last has the channels of a pixel adjacent, else they are planes."""

    conversion: ColorConversion = descriptor.choice(ColorConversion)
    batch: int = descriptor.extent()
    pixels: int = descriptor.extent()
    channels_last: bool = descriptor.flag()

    @property
    def color_code(self) -> int:
        return int(self.conversion)

    @property
    def channels_in(self) -> int:
        return 1 if self.conversion is ColorConversion.GRAY_TO_RGB else 3

    @property
    def channels_out(self) -> int:
        return 1 if self.conversion in (ColorConversion.RGB_TO_GRAY, ColorConversion.BGR_TO_GRAY) else 3


class ConvertColorPlan(_PixelPlan):
    """x is (batch, channels, pixels), or (batch, pixels, channels) in memory with channels_last."""

    __slots__ = ()
    op = "convert_color_{T}"
    kind = ImageKind.CONVERT_COLOR


@dataclasses.dataclass(frozen=True)
class Nv12ToRgbDescriptor(Descriptor):
    """batch frames of even height and width. `element` is the dtype of the result."""

    batch: int = descriptor.extent()
    height: int = descriptor.extent()
    width: int = descriptor.extent()
    is_709: bool = descriptor.flag()
    full_range: bool = descriptor.flag()
    channels_last: bool = descriptor.flag()
    bgr: bool = descriptor.flag()

    @property
    def rows(self) -> int:
        return self.height + self.height // 2


class Nv12ToRgbPlan(_PixelPlan):
    """x is (batch, 3 height / 2, width) of u8; y is (batch, 3, height, width), of this size with channels_last too."""

    __slots__ = ()
    op = "nv12_to_rgb_{T}"
    kind = ImageKind.NV12_TO_RGB
