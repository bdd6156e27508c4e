# SPDX-License-Identifier: Apache-2.0
"""Pooling of dense images with a fixed number of axes: max and average by windows, p-norms, adaptive and fractional
windows.

Descriptors have an entry for each spatial axis; extents of the outputs follow from them.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from baracuda import descriptor
from baracuda._call.scalars import INT32_MAX
from baracuda.descriptor import Descriptor
from baracuda.errors import InvalidProblemError
from baracuda.kinds import OpCategory, PoolKind, PoolMode
from baracuda.plan import Plan


class _PoolPlan(Plan):
    __slots__ = ()
    category = OpCategory.POOLING


def _windows(extent: int, window: int, step: int, padding: int) -> int:
    return (extent + 2 * padding - window) // step + 1


class _Windows(Descriptor):
    """Fields common to descriptors of windows."""

    @property
    def count_include_pad(self) -> int:
        return int(self.mode is PoolMode.AVG_INCLUDE_PAD)  # type: ignore[attr-defined]


class _MaxPlan(_PoolPlan):
    __slots__ = ()
    kind = PoolKind.MAX

    def __init__(self, descriptor, preference, library) -> None:  # type: ignore[no-untyped-def]
        if descriptor.mode is not PoolMode.MAX:
            raise InvalidProblemError(f"mode is {descriptor.mode!r}, must be PoolMode.MAX")
        super().__init__(descriptor, preference, library)


class _AvgPlan(_PoolPlan):
    __slots__ = ()
    kind = PoolKind.AVG

    def __init__(self, descriptor, preference, library) -> None:  # type: ignore[no-untyped-def]
        if descriptor.mode is PoolMode.MAX:
            raise InvalidProblemError(f"mode is {descriptor.mode!r}, must be one of averages")
        super().__init__(descriptor, preference, library)


# --- 1 spatial axis
# -----------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Pool1dDescriptor(_Windows):
    """Padding is at most half of a window, and at least one window fits."""

    mode: PoolMode = descriptor.choice(PoolMode)
    batch: int = descriptor.extent()
    channels: int = descriptor.extent()
    l_in: int = descriptor.extent(1)
    window_l: int = descriptor.extent(1)
    stride_l: int = descriptor.extent(1)
    pad_l: int = descriptor.extent(default=0)

    @property
    def l_out(self) -> int:
        return _windows(self.l_in, self.window_l, self.stride_l, self.pad_l)


_NAMES_1D = {"kl": "window_l", "sl": "stride_l", "pl": "pad_l"}


class MaxPool1dPlan(_MaxPlan):
    """The maximum of each window."""

    __slots__ = ()
    descriptor_base = Pool1dDescriptor
    op = "max_pool_1d_fw_{T}"
    names: ClassVar = _NAMES_1D


class MaxPool1dBackwardPlan(_MaxPlan):
    """dy goes to the first cell of its window that equals y."""

    __slots__ = ()
    descriptor_base = Pool1dDescriptor
    op = "max_pool_1d_bw_{T}"
    names: ClassVar = _NAMES_1D


class AvgPool1dPlan(_AvgPlan):
    """The mean of each window, over all its cells or those in the image."""

    __slots__ = ()
    descriptor_base = Pool1dDescriptor
    op = "avg_pool_1d_fw_{T}"
    names: ClassVar = _NAMES_1D


class AvgPool1dBackwardPlan(_AvgPlan):
    """dx is the sum of dy / divisor over the windows of a cell."""

    __slots__ = ()
    descriptor_base = Pool1dDescriptor
    op = "avg_pool_1d_bw_{T}"
    names: ClassVar = _NAMES_1D


# --- 2 spatial axes
# -----------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Pool2dDescriptor(_Windows):
    """Padding is at most half of a window, and at least one window fits."""

    mode: PoolMode = descriptor.choice(PoolMode)
    batch: int = descriptor.extent()
    channels: int = descriptor.extent()
    h_in: int = descriptor.extent(1)
    w_in: int = descriptor.extent(1)
    window_h: int = descriptor.extent(1)
    window_w: int = descriptor.extent(1)
    stride_h: int = descriptor.extent(1)
    stride_w: int = descriptor.extent(1)
    pad_h: int = descriptor.extent(default=0)
    pad_w: int = descriptor.extent(default=0)

    @property
    def h_out(self) -> int:
        return _windows(self.h_in, self.window_h, self.stride_h, self.pad_h)

    @property
    def w_out(self) -> int:
        return _windows(self.w_in, self.window_w, self.stride_w, self.pad_w)


_NAMES_2D = {"kh": "window_h", "kw": "window_w", "sh": "stride_h", "sw": "stride_w", "ph": "pad_h", "pw": "pad_w"}


class MaxPool2dPlan(_MaxPlan):
    """The maximum of each window."""

    __slots__ = ()
    descriptor_base = Pool2dDescriptor
    op = "max_pool_2d_fw_{T}"
    names: ClassVar = _NAMES_2D


class MaxPool2dBackwardPlan(_MaxPlan):
    """dy goes to the first cell of its window that equals y."""

    __slots__ = ()
    descriptor_base = Pool2dDescriptor
    op = "max_pool_2d_bw_{T}"
    names: ClassVar = _NAMES_2D


class AvgPool2dPlan(_AvgPlan):
    """The mean of each window, over all its cells or those in the image."""

    __slots__ = ()
    descriptor_base = Pool2dDescriptor
    op = "avg_pool_2d_fw_{T}"
    names: ClassVar = _NAMES_2D


class AvgPool2dBackwardPlan(_AvgPlan):
    """dx is the sum of dy / divisor over the windows of a cell."""

    __slots__ = ()
    descriptor_base = Pool2dDescriptor
    op = "avg_pool_2d_bw_{T}"
    names: ClassVar = _NAMES_2D


# --- 3 spatial axes
# -----------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Pool3dDescriptor(_Windows):
    """Padding is at most half of a window, and at least one window fits."""

    mode: PoolMode = descriptor.choice(PoolMode)
    batch: int = descriptor.extent()
    channels: int = descriptor.extent()
    d_in: int = descriptor.extent(1)
    h_in: int = descriptor.extent(1)
    w_in: int = descriptor.extent(1)
    window_d: int = descriptor.extent(1)
    window_h: int = descriptor.extent(1)
    window_w: int = descriptor.extent(1)
    stride_d: int = descriptor.extent(1)
    stride_h: int = descriptor.extent(1)
    stride_w: int = descriptor.extent(1)
    pad_d: int = descriptor.extent(default=0)
    pad_h: int = descriptor.extent(default=0)
    pad_w: int = descriptor.extent(default=0)

    @property
    def d_out(self) -> int:
        return _windows(self.d_in, self.window_d, self.stride_d, self.pad_d)

    @property
    def h_out(self) -> int:
        return _windows(self.h_in, self.window_h, self.stride_h, self.pad_h)

    @property
    def w_out(self) -> int:
        return _windows(self.w_in, self.window_w, self.stride_w, self.pad_w)


_NAMES_3D = {
    "kd": "window_d",
    "kh": "window_h",
    "kw": "window_w",
    "sd": "stride_d",
    "sh": "stride_h",
    "sw": "stride_w",
    "pd": "pad_d",
    "ph": "pad_h",
    "pw": "pad_w",
}


class MaxPool3dPlan(_MaxPlan):
    """The maximum of each window."""

    __slots__ = ()
    descriptor_base = Pool3dDescriptor
    op = "max_pool_3d_fw_{T}"
    names: ClassVar = _NAMES_3D


class MaxPool3dBackwardPlan(_MaxPlan):
    """dy goes to the first cell of its window that equals y."""

    __slots__ = ()
    descriptor_base = Pool3dDescriptor
    op = "max_pool_3d_bw_{T}"
    names: ClassVar = _NAMES_3D


class AvgPool3dPlan(_AvgPlan):
    """The mean of each window, over all its cells or those in the image."""

    __slots__ = ()
    descriptor_base = Pool3dDescriptor
    op = "avg_pool_3d_fw_{T}"
    names: ClassVar = _NAMES_3D


class AvgPool3dBackwardPlan(_AvgPlan):
    """dx is the sum of dy / divisor over the windows of a cell."""

    __slots__ = ()
    descriptor_base = Pool3dDescriptor
    op = "avg_pool_3d_bw_{T}"
    names: ClassVar = _NAMES_3D


# --- p-norms ----------------------------------------------------------------------------------------------------------


def _cut_windows(extent: int, window: int, step: int, ceil_mode: bool) -> int:
    return (extent - window + (step - 1 if ceil_mode else 0)) // step + 1


def _check_window(name: str, window: int, extent: int) -> None:
    if window > extent:
        raise InvalidProblemError(f"{name} is {window}, must be at most the extent of the input, {extent}")


@dataclasses.dataclass(frozen=True)
class LpPool1dDescriptor(Descriptor):
    """norm_p is positive, or infinite; with ceil_mode the last window may be cut at the end of the input."""

    batch: int = descriptor.extent()
    channels: int = descriptor.extent()
    l_in: int = descriptor.extent(1)
    kernel: int = descriptor.extent(1)
    stride: int = descriptor.extent(1)
    norm_p: float = descriptor.real()
    ceil_mode: bool = descriptor.flag()

    @property
    def l_out(self) -> int:
        return _cut_windows(self.l_in, self.kernel, self.stride, self.ceil_mode)

    def validated(self) -> LpPool1dDescriptor:
        valid = super().validated()
        _check_window("kernel", valid.kernel, valid.l_in)
        return valid


class LpPool1dPlan(_PoolPlan):
    """y = (sum of abs(x)^norm_p)^(1 / norm_p) over each window."""

    __slots__ = ()
    op = "lp_pool_1d_{T}"
    kind = PoolKind.LP


class LpPool1dBackwardPlan(_PoolPlan):
    """Adds the gradient to dx."""

    __slots__ = ()
    descriptor_base = LpPool1dDescriptor
    op = "lp_pool_1d_{T}_backward"
    kind = PoolKind.LP


@dataclasses.dataclass(frozen=True)
class LpPool2dDescriptor(Descriptor):
    """norm_p is positive, or infinite; with ceil_mode the last windows may be cut at the end of the input."""

    batch: int = descriptor.extent()
    channels: int = descriptor.extent()
    h_in: int = descriptor.extent(1)
    w_in: int = descriptor.extent(1)
    kh: int = descriptor.extent(1)
    kw: int = descriptor.extent(1)
    sh: int = descriptor.extent(1)
    sw: int = descriptor.extent(1)
    norm_p: float = descriptor.real()
    ceil_mode: bool = descriptor.flag()

    @property
    def h_out(self) -> int:
        return _cut_windows(self.h_in, self.kh, self.sh, self.ceil_mode)

    @property
    def w_out(self) -> int:
        return _cut_windows(self.w_in, self.kw, self.sw, self.ceil_mode)

    def validated(self) -> LpPool2dDescriptor:
        valid = super().validated()
        _check_window("kh", valid.kh, valid.h_in)
        _check_window("kw", valid.kw, valid.w_in)
        return valid


class LpPool2dPlan(_PoolPlan):
    """y = (sum of abs(x)^norm_p)^(1 / norm_p) over each window."""

    __slots__ = ()
    op = "lp_pool_2d_{T}"
    kind = PoolKind.LP


class LpPool2dBackwardPlan(_PoolPlan):
    """Adds the gradient to dx."""

    __slots__ = ()
    descriptor_base = LpPool2dDescriptor
    op = "lp_pool_2d_{T}_backward"
    kind = PoolKind.LP


# --- adaptive windows -------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class AdaptivePoolDescriptor(Descriptor):
    """input_shape is (batch, channels, 1 to 3 spatial extents), output_size at most as large along each spatial
    axis."""

    input_shape: tuple[int, ...] = descriptor.shape(high=INT32_MAX)
    output_size: tuple[int, ...] = descriptor.shape(low=1, high=INT32_MAX)

    def validated(self) -> AdaptivePoolDescriptor:
        valid = super().validated()
        spatial = valid.input_shape[2:]
        if not 1 <= len(spatial) <= 3 or min(spatial) < 1:
            raise InvalidProblemError(
                f"input_shape is {valid.input_shape}, must have one to three spatial axes with cells"
            )
        if len(valid.output_size) != len(spatial) or any([o > e for o, e in zip(valid.output_size, spatial)]):
            raise InvalidProblemError(f"output_size is {valid.output_size}, must be at most {spatial}, axis by axis")
        return valid

    @property
    def output_shape(self) -> tuple[int, ...]:
        return (*self.input_shape[:2], *self.output_size)

    @property
    def nc(self) -> int:
        return self.input_shape[0] * self.input_shape[1]

    @property
    def spatial_rank(self) -> int:
        return len(self.output_size)

    def _extent(self, extents: tuple[int, ...], axis: int) -> int:
        return extents[axis - 3 + len(extents)] if axis >= 3 - len(extents) else 1

    @property
    def in_d(self) -> int:
        return self._extent(self.input_shape[2:], 0)

    @property
    def in_h(self) -> int:
        return self._extent(self.input_shape[2:], 1)

    @property
    def in_w(self) -> int:
        return self._extent(self.input_shape[2:], 2)

    @property
    def out_d(self) -> int:
        return self._extent(self.output_size, 0)

    @property
    def out_h(self) -> int:
        return self._extent(self.output_size, 1)

    @property
    def out_w(self) -> int:
        return self._extent(self.output_size, 2)


class AdaptiveAvgPoolPlan(_PoolPlan):
    """Means of windows that tile the image."""

    __slots__ = ()
    descriptor_base = AdaptivePoolDescriptor
    op = "adaptive_avg_pool_{T}_fw"
    kind = PoolKind.ADAPTIVE_AVG
    shapes: ClassVar = {"x": "input_shape", "y": "output_shape"}


class AdaptiveAvgPoolBackwardPlan(_PoolPlan):
    """dx is the sum of dy / cells over the windows of a cell."""

    __slots__ = ()
    descriptor_base = AdaptivePoolDescriptor
    op = "adaptive_avg_pool_{T}_bw"
    kind = PoolKind.ADAPTIVE_AVG
    shapes: ClassVar = {"x": "input_shape", "dx": "input_shape", "dy": "output_shape"}


class AdaptiveMaxPoolPlan(_PoolPlan):
    """Maxima of windows that tile the image."""

    __slots__ = ()
    descriptor_base = AdaptivePoolDescriptor
    op = "adaptive_max_pool_{T}_fw"
    kind = PoolKind.ADAPTIVE_MAX
    shapes: ClassVar = {"x": "input_shape", "y": "output_shape"}


class AdaptiveMaxPoolBackwardPlan(_PoolPlan):
    """dy goes to the first greatest cell of its window."""

    __slots__ = ()
    descriptor_base = AdaptivePoolDescriptor
    op = "adaptive_max_pool_{T}_bw"
    kind = PoolKind.ADAPTIVE_MAX
    shapes: ClassVar = {"x": "input_shape", "dx": "input_shape", "dy": "output_shape"}


# --- fractional windows -----------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class FractionalMaxPool2dDescriptor(Descriptor):
    """random_samples of the launch decide where windows begin; seed is not used."""

    batch: int = descriptor.extent()
    channels: int = descriptor.extent()
    h_in: int = descriptor.extent(1)
    w_in: int = descriptor.extent(1)
    h_out: int = descriptor.extent(1)
    w_out: int = descriptor.extent(1)
    kh: int = descriptor.extent(1)
    kw: int = descriptor.extent(1)
    seed: int = descriptor.extent(default=0)

    @property
    def random_count(self) -> int:
        return self.batch * self.channels * 2

    def validated(self) -> FractionalMaxPool2dDescriptor:
        valid = super().validated()
        _check_window("kh", valid.kh, valid.h_in)
        _check_window("kw", valid.kw, valid.w_in)
        return valid


class FractionalMaxPool2dPlan(_PoolPlan):
    """Maxima of windows that random_samples (batch, channels, 2) spread over the image; indices count from the first
    image."""

    __slots__ = ()
    op = "fractional_max_pool_2d_fw_{T}"
    kind = PoolKind.FRACTIONAL_MAX


@dataclasses.dataclass(frozen=True)
class FractionalMaxPool2dBackwardDescriptor(Descriptor):
    """Extents of the input and the output."""

    batch: int = descriptor.extent()
    channels: int = descriptor.extent()
    h_in: int = descriptor.extent(1)
    w_in: int = descriptor.extent(1)
    h_out: int = descriptor.extent(1)
    w_out: int = descriptor.extent(1)


class FractionalMaxPool2dBackwardPlan(_PoolPlan):
    """Adds dy to the cells of dx that indices name."""

    __slots__ = ()
    op = "fractional_max_pool_2d_bw_{T}"
    kind = PoolKind.FRACTIONAL_MAX


@dataclasses.dataclass(frozen=True)
class FractionalMaxPool3dDescriptor(Descriptor):
    """random_samples of the launch decide where windows begin; seed is not used."""

    batch: int = descriptor.extent()
    channels: int = descriptor.extent()
    d_in: int = descriptor.extent(1)
    h_in: int = descriptor.extent(1)
    w_in: int = descriptor.extent(1)
    d_out: int = descriptor.extent(1)
    h_out: int = descriptor.extent(1)
    w_out: int = descriptor.extent(1)
    kd: int = descriptor.extent(1)
    kh: int = descriptor.extent(1)
    kw: int = descriptor.extent(1)
    seed: int = descriptor.extent(default=0)

    @property
    def random_count(self) -> int:
        return self.batch * self.channels * 3

    def validated(self) -> FractionalMaxPool3dDescriptor:
        valid = super().validated()
        _check_window("kd", valid.kd, valid.d_in)
        _check_window("kh", valid.kh, valid.h_in)
        _check_window("kw", valid.kw, valid.w_in)
        return valid


class FractionalMaxPool3dPlan(_PoolPlan):
    """Maxima of windows that random_samples (batch, channels, 3) spread over the image; indices count from the first
    image."""

    __slots__ = ()
    op = "fractional_max_pool_3d_fw_{T}"
    kind = PoolKind.FRACTIONAL_MAX


@dataclasses.dataclass(frozen=True)
class FractionalMaxPool3dBackwardDescriptor(Descriptor):
    """Extents of the input and the output."""

    batch: int = descriptor.extent()
    channels: int = descriptor.extent()
    d_in: int = descriptor.extent(1)
    h_in: int = descriptor.extent(1)
    w_in: int = descriptor.extent(1)
    d_out: int = descriptor.extent(1)
    h_out: int = descriptor.extent(1)
    w_out: int = descriptor.extent(1)


class FractionalMaxPool3dBackwardPlan(_PoolPlan):
    """Adds dy to the cells of dx that indices name."""

    __slots__ = ()
    op = "fractional_max_pool_3d_bw_{T}"
    kind = PoolKind.FRACTIONAL_MAX
