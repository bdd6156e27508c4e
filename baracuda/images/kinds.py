# SPDX-License-Identifier: Apache-2.0
"""Enumerations of operations on images."""

from __future__ import annotations

from baracuda._enumeration import IntEnum


class ImageKind(IntEnum):
    """Numbers from 200 up are ours."""

    INTERPOLATE_BILINEAR_2D = 0
    INTERPOLATE_BILINEAR_2D_BACKWARD = 1
    INTERPOLATE_NEAREST_2D = 2
    INTERPOLATE_NEAREST_2D_BACKWARD = 3
    INTERPOLATE_BICUBIC_2D = 4
    INTERPOLATE_BICUBIC_2D_BACKWARD = 5
    INTERPOLATE_TRILINEAR_3D = 6
    INTERPOLATE_TRILINEAR_3D_BACKWARD = 7
    INTERPOLATE_LINEAR_1D = 8
    INTERPOLATE_LINEAR_1D_BACKWARD = 9
    INTERPOLATE_AREA_2D = 10
    INTERPOLATE_AREA_2D_BACKWARD = 11
    INTERPOLATE = 12  # other modes and numbers of axes
    INTERPOLATE_BACKWARD = 13
    GRID_SAMPLE_2D = 16
    GRID_SAMPLE_2D_BACKWARD = 17
    AFFINE_GRID_2D = 18
    AFFINE_GRID_3D = 19
    AFFINE_GRID_BACKWARD = 20
    GRID_SAMPLE_3D = 21
    GRID_SAMPLE_3D_BACKWARD = 22
    PIXEL_SHUFFLE = 24
    PIXEL_UNSHUFFLE = 25
    ROI_ALIGN = 32
    ROI_ALIGN_BACKWARD = 33
    ROI_POOL = 34
    ROI_POOL_BACKWARD = 35
    NMS = 40
    BOX_IOU = 240
    PIXELS_TO_PLANES = 241
    PLANES_TO_PIXELS = 242
    CONVERT_COLOR = 243
    NV12_TO_RGB = 244
    DEFORM_COLUMNS = 245
    DEFORM_COLUMNS_BACKWARD = 246


class ColorConversion(IntEnum):
    """Conversions between colour spaces: ycc601 and ycc709 are Y'CbCr of ITU-R BT.601 and BT.709 in full range."""

    RGB_TO_BGR = 0
    RGB_TO_GRAY = 1
    BGR_TO_GRAY = 2
    GRAY_TO_RGB = 3
    RGB_TO_YCC601 = 4
    YCC601_TO_RGB = 5
    RGB_TO_YCC709 = 6
    YCC709_TO_RGB = 7
    RGB_TO_HSV = 8
    HSV_TO_RGB = 9


class ResampleMode(IntEnum):
    """Kernels of interpolation."""

    NEAREST = 0
    NEAREST_EXACT = 1
    LINEAR = 2
    CUBIC = 3
    AREA = 4
    LANCZOS = 5
    BOX = 6
    HAMMING = 7


class SampleMode(IntEnum):
    """Kernels of grid_sample."""

    LINEAR = 0
    NEAREST = 1
    CUBIC = 2


class SamplePadding(IntEnum):
    """Values that grid_sample reads outside of an image."""

    ZEROS = 0
    BORDER = 1
    REFLECTION = 2
