# SPDX-License-Identifier: Apache-2.0
"""Pooling of images [N, C, spatial axes] of one to three spatial axes, any strides and all options.

Operands are given in this order of axes; images with channels behind the spatial axes are views with such strides.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar, TypeVar

from baracuda import descriptor
from baracuda._call.scalars import INT32_MAX, as_integer
from baracuda._functions.shape_rules.pooling import window_count
from baracuda.descriptor import Descriptor
from baracuda.errors import InvalidProblemError
from baracuda.kinds import OpCategory, PoolKind
from baracuda.plan import Plan

M = TypeVar("M", bound="MaxPoolNdDescriptor")
A = TypeVar("A", bound="AdaptiveMaxPoolNdDescriptor")
F = TypeVar("F", bound="FractionalMaxPoolNdDescriptor")


class _PoolPlan(Plan):
    __slots__ = ()
    category = OpCategory.POOLING


@dataclasses.dataclass(frozen=True)
class _ImageDescriptor(Descriptor):
    input_shape: tuple[int, ...] = descriptor.shape(high=INT32_MAX)

    @property
    def rank(self) -> int:
        return len(self.input_shape)

    def _check(self, *names: str) -> None:
        """The image has spatial axes, and the fields an entry for each."""
        if not 3 <= self.rank <= 5:
            raise InvalidProblemError(f"input_shape is {self.input_shape}, must have 3 to 5 axes")
        if 0 in self.input_shape[2:]:
            raise InvalidProblemError(f"input_shape is {self.input_shape}, must have cells along the spatial axes")
        for name in names:
            if len(getattr(self, name)) != self.rank - 2:
                raise InvalidProblemError(
                    f"{name} is {getattr(self, name)}, must have an entry for each spatial axis of {self.input_shape}"
                )


@dataclasses.dataclass(frozen=True)
class MaxPoolNdDescriptor(_ImageDescriptor):
    """input_shape is that of the images; other fields have an entry for each spatial axis. At least one window fits."""

    kernel_size: tuple[int, ...] = descriptor.shape(low=1, high=INT32_MAX)
    steps: tuple[int, ...] = descriptor.shape(low=1, high=INT32_MAX)
    padding_low: tuple[int, ...] = descriptor.shape(high=INT32_MAX)
    padding_high: tuple[int, ...] = descriptor.shape(high=INT32_MAX)
    dilation: tuple[int, ...] = descriptor.shape(low=1, high=INT32_MAX)
    ceil_mode: bool = descriptor.flag()

    @property
    def windows_shape(self) -> tuple[int, ...]:
        each = zip(
            self.input_shape[2:], self.kernel_size, self.steps, self.dilation, self.padding_low, self.padding_high
        )
        return (*self.input_shape[:2], *[window_count(*numbers, ceil=self.ceil_mode) for numbers in each])

    def validated(self: M) -> M:
        valid = super().validated()
        valid._check("kernel_size", "steps", "padding_low", "padding_high", "dilation")
        for name in ("padding_low", "padding_high"):
            reach = tuple([d * (k - 1) + 1 for k, d in zip(valid.kernel_size, valid.dilation)])
            if any([padding >= extent for padding, extent in zip(getattr(valid, name), reach)]):
                raise InvalidProblemError(f"{name} is {getattr(valid, name)}, must be less than the windows, {reach}")
        valid.windows_shape  # noqa: B018  # raises if no window fits
        return valid


@dataclasses.dataclass(frozen=True)
class AvgPoolNdDescriptor(MaxPoolNdDescriptor):
    """The fields of MaxPoolNdDescriptor, and what sums are divided by: divisor_override if it is not 0, else the
    cells of
    the padded image or of the image."""

    count_include_pad: bool = descriptor.flag(True)
    divisor_override: int = descriptor.checked(as_integer, default=0)


@dataclasses.dataclass(frozen=True)
class LpPoolNdDescriptor(MaxPoolNdDescriptor):
    """The fields of MaxPoolNdDescriptor, and norm_p, a positive number or infinity."""

    norm_p: float = descriptor.real(default=2.0)


@dataclasses.dataclass(frozen=True)
class AdaptiveMaxPoolNdDescriptor(_ImageDescriptor):
    """output_size has the number of outputs along each spatial axis."""

    output_size: tuple[int, ...] = descriptor.shape(high=INT32_MAX)

    @property
    def outputs_shape(self) -> tuple[int, ...]:
        return (*self.input_shape[:2], *self.output_size)

    def validated(self: A) -> A:
        valid = super().validated()
        valid._check("output_size")
        return valid


@dataclasses.dataclass(frozen=True)
class FractionalMaxPoolNdDescriptor(AdaptiveMaxPoolNdDescriptor):
    """The extents of windows and the number of outputs along each spatial axis."""

    kernel_size: tuple[int, ...] = descriptor.shape(low=1, high=INT32_MAX, default=())

    @property
    def spatial(self) -> int:
        return len(self.output_size)

    @property
    def planes(self) -> int:
        return self.input_shape[0] * self.input_shape[1]

    def validated(self: F) -> F:
        valid = super().validated()
        valid._check("output_size", "kernel_size")
        if any([k > extent for k, extent in zip(valid.kernel_size, valid.input_shape[2:])]):
            raise InvalidProblemError(
                f"kernel_size is {valid.kernel_size}, must be at most {valid.input_shape[2:]}, axis by axis"
            )
        return valid


_BY_WINDOWS = {"x": "input_shape", "dx": "input_shape", "y": "windows_shape", "dy": "windows_shape",
               "indices": "windows_shape"}  # fmt: skip
_BY_OUTPUTS = {"x": "input_shape", "dx": "input_shape", "y": "outputs_shape", "dy": "outputs_shape",
               "indices": "outputs_shape"}  # fmt: skip


class MaxPoolNdPlan(_PoolPlan):
    """The maximum of each window; indices may be None."""

    __slots__ = ()
    op = "max_pool_{T}"
    kind = PoolKind.MAX
    shapes: ClassVar = _BY_WINDOWS


class MaxPoolNdBackwardPlan(_PoolPlan):
    """dy goes to the first cell of its window that equals y."""

    __slots__ = ()
    descriptor_base = MaxPoolNdDescriptor
    op = "max_pool_backward_{T}"
    kind = PoolKind.MAX
    shapes: ClassVar = _BY_WINDOWS


class MaxPoolNdIndicesBackwardPlan(_PoolPlan):
    """dy goes to the cell that the index names."""

    __slots__ = ()
    descriptor_base = MaxPoolNdDescriptor
    op = "max_pool_indices_backward_{T}"
    kind = PoolKind.MAX
    shapes: ClassVar = _BY_WINDOWS


class AvgPoolNdPlan(_PoolPlan):
    """The mean of each window."""

    __slots__ = ()
    op = "avg_pool_{T}"
    kind = PoolKind.AVG
    shapes: ClassVar = _BY_WINDOWS


class AvgPoolNdBackwardPlan(_PoolPlan):
    """dx is the sum of dy / divisor over the windows of a cell."""

    __slots__ = ()
    descriptor_base = AvgPoolNdDescriptor
    op = "avg_pool_backward_{T}"
    kind = PoolKind.AVG
    shapes: ClassVar = _BY_WINDOWS


class LpPoolNdPlan(_PoolPlan):
    """The p-norm of each window."""

    __slots__ = ()
    op = "lp_pool_{T}"
    kind = PoolKind.LP
    shapes: ClassVar = _BY_WINDOWS


class LpPoolNdBackwardPlan(_PoolPlan):
    """Gradient of LpPoolNd, from its input and its result."""

    __slots__ = ()
    descriptor_base = LpPoolNdDescriptor
    op = "lp_pool_backward_{T}"
    kind = PoolKind.LP
    shapes: ClassVar = _BY_WINDOWS


class AdaptiveMaxPoolNdPlan(_PoolPlan):
    """The maximum of each window; indices may be None."""

    __slots__ = ()
    op = "adaptive_max_pool_{T}"
    kind = PoolKind.ADAPTIVE_MAX
    shapes: ClassVar = _BY_OUTPUTS


class AdaptiveMaxPoolNdBackwardPlan(_PoolPlan):
    """dy goes to the first cell of its window that equals y."""

    __slots__ = ()
    descriptor_base = AdaptiveMaxPoolNdDescriptor
    op = "adaptive_max_pool_backward_{T}"
    kind = PoolKind.ADAPTIVE_MAX
    shapes: ClassVar = _BY_OUTPUTS


class AdaptiveMaxPoolNdIndicesBackwardPlan(_PoolPlan):
    """dy goes to the cell that the index names."""

    __slots__ = ()
    descriptor_base = AdaptiveMaxPoolNdDescriptor
    op = "adaptive_max_pool_indices_backward_{T}"
    kind = PoolKind.ADAPTIVE_MAX
    shapes: ClassVar = _BY_OUTPUTS


class AdaptiveAvgPoolNdPlan(_PoolPlan):
    """The mean of each window."""

    __slots__ = ()
    descriptor_base = AdaptiveMaxPoolNdDescriptor
    op = "adaptive_avg_pool_{T}"
    kind = PoolKind.ADAPTIVE_AVG
    shapes: ClassVar = _BY_OUTPUTS


class AdaptiveAvgPoolNdBackwardPlan(_PoolPlan):
    """dx is the sum of dy / cells over the windows of a cell."""

    __slots__ = ()
    descriptor_base = AdaptiveMaxPoolNdDescriptor
    op = "adaptive_avg_pool_backward_{T}"
    kind = PoolKind.ADAPTIVE_AVG
    shapes: ClassVar = _BY_OUTPUTS


class FractionalMaxPoolNdPlan(_PoolPlan):
    """The maximum of windows that samples, (planes, spatial axes), spread over the image; indices may be None."""

    __slots__ = ()
    op = "fractional_max_pool_{T}"
    kind = PoolKind.FRACTIONAL_MAX
    shapes: ClassVar = _BY_OUTPUTS


class FractionalMaxPoolNdBackwardPlan(_PoolPlan):
    """dy goes to the cell that the index names."""

    __slots__ = ()
    descriptor_base = AdaptiveMaxPoolNdDescriptor
    op = "fractional_max_pool_backward_{T}"
    kind = PoolKind.FRACTIONAL_MAX
    shapes: ClassVar = _BY_OUTPUTS


class MaxUnpoolNdPlan(_PoolPlan):
    """x at the cells of y that indices name, and 0 elsewhere; input_shape is that of x."""

    __slots__ = ()
    descriptor_base = AdaptiveMaxPoolNdDescriptor
    op = "max_unpool_{T}"
    kind = PoolKind.MAX_UNPOOL
    shapes: ClassVar = {"x": "input_shape", "indices": "input_shape", "y": "outputs_shape", "dy": "outputs_shape",
                        "dx": "input_shape"}  # fmt: skip


class MaxUnpoolNdBackwardPlan(_PoolPlan):
    """dy at the indices; input_shape is that of dx."""

    __slots__ = ()
    descriptor_base = AdaptiveMaxPoolNdDescriptor
    op = "max_unpool_backward_{T}"
    kind = PoolKind.MAX_UNPOOL
    shapes: ClassVar = {"x": "input_shape", "indices": "input_shape", "y": "outputs_shape", "dy": "outputs_shape",
                        "dx": "input_shape"}  # fmt: skip
