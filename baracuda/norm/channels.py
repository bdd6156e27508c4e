# SPDX-License-Identifier: Apache-2.0
"""Batch, group and instance norm, and their gradients.

Channels are axis 1. BatchNorm normalizes a channel over the batch and all later axes, InstanceNorm a channel of an
item, GroupNorm each of num_groups equal groups of an item's channels; gamma and beta have an element for each channel.
The forward op outputs the statistics that the gradient reads, in the data's dtype; deviations include eps.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, ClassVar

from baracuda import descriptor
from baracuda._call.scalars import INT32_MAX
from baracuda.descriptor import Descriptor
from baracuda.errors import InvalidProblemError, UnsupportedError
from baracuda.kinds import NormalizationKind, OpCategory
from baracuda.norm.norm_operands import GIVEN, axis_field, eps_field, flag_field, require_together, shape_field
from baracuda.operands import Args
from baracuda.plan import ParamPlan
from baracuda.tensor import TensorRef

_OF_BATCH, _OF_ITEM = 0, 1  # C's values of group_kind


class ChannelNormDescriptor(Descriptor):
    """Base: channels are axis 1; a field channel_axis must be 1."""

    input_shape: Any

    def validated(self) -> Any:
        valid = super().validated()
        if len(valid.input_shape) < 2:
            raise InvalidProblemError(f"input_shape is {valid.input_shape}, must have two axes or more")
        if (axis := getattr(valid, "channel_axis", 1)) != 1:
            raise UnsupportedError(f"channel_axis is {axis}, must be 1")
        if valid.spatial_extent > INT32_MAX:
            raise UnsupportedError(
                f"input_shape is {valid.input_shape}: {valid.spatial_extent} elements a channel of an item"
            )
        groups, channels = valid.num_groups, valid.num_channels
        if valid.group_kind == _OF_ITEM and (groups < 1 or channels % groups):
            raise InvalidProblemError(f"num_groups is {groups}, must divide the {channels} channels")
        return valid

    @property
    def num_channels(self) -> int:
        return int(self.input_shape[1])

    @property
    def n_extent(self) -> int:
        return int(self.input_shape[0])

    @property
    def spatial_extent(self) -> int:
        return math.prod(self.input_shape[2:])

    @property
    def group_kind(self) -> int:
        return _OF_ITEM

    @property
    def group_count(self) -> int:
        """Number of groups with statistics."""
        return self.num_channels if self.group_kind == _OF_BATCH else self.n_extent * int(self.num_groups)

    num_groups: Any


class _OneGroupPerChannel(ChannelNormDescriptor):
    @property
    def num_groups(self) -> int:
        return max(self.num_channels, 1)


@dataclasses.dataclass(frozen=True)
class InstanceNormDescriptor(_OneGroupPerChannel):
    """channel_axis is 1. gamma and beta are there if has_affine says so."""

    input_shape: tuple[int, ...] = shape_field()
    channel_axis: int = axis_field()
    eps: float = eps_field()
    has_affine: bool = flag_field()


@dataclasses.dataclass(frozen=True)
class InstanceNormBackwardDescriptor(_OneGroupPerChannel):
    input_shape: tuple[int, ...] = shape_field()
    channel_axis: int = axis_field()
    has_affine: bool = flag_field()


class BatchStatistics(_OneGroupPerChannel):
    @property
    def group_kind(self) -> int:
        return _OF_BATCH


@dataclasses.dataclass(frozen=True)
class BatchNormDescriptor(BatchStatistics):
    """channel_axis is 1. gamma and beta are there if has_affine says so."""

    input_shape: tuple[int, ...] = shape_field()
    channel_axis: int = axis_field()
    eps: float = eps_field()
    has_affine: bool = flag_field()


@dataclasses.dataclass(frozen=True)
class BatchNormBackwardDescriptor(BatchStatistics):
    input_shape: tuple[int, ...] = shape_field()
    channel_axis: int = axis_field()
    has_affine: bool = flag_field()


@dataclasses.dataclass(frozen=True)
class GroupNormDescriptor(ChannelNormDescriptor):
    """channel_axis is 1. gamma and beta are there if has_affine says so."""

    input_shape: tuple[int, ...] = shape_field()
    channel_axis: int = axis_field()
    num_groups: int = descriptor.extent()
    eps: float = eps_field()
    has_affine: bool = flag_field()


@dataclasses.dataclass(frozen=True)
class GroupNormBackwardDescriptor(ChannelNormDescriptor):
    input_shape: tuple[int, ...] = shape_field()
    channel_axis: int = axis_field()
    num_groups: int = descriptor.extent()
    has_affine: bool = flag_field()


class _ChannelNormPlan(ParamPlan):
    __slots__ = ()
    category = OpCategory.NORMALIZATION
    fields = GIVEN
    names: ClassVar = {"c_extent": "num_channels"}
    shapes: ClassVar = dict.fromkeys(("dy", "x", "y", "dx"), "input_shape")

    def views(self, args: Args) -> dict[str, TensorRef | None]:
        views = super().views(args)
        affine = [name for name in ("gamma", "beta", "dgamma", "dbeta") if name in views]
        require_together(views, self.descriptor.has_affine, "has_affine", *affine)
        return views


class BatchNormPlan(_ChannelNormPlan):
    __slots__ = ()
    op = "batch_norm_{T}"
    others = ("batch_norm_param_{T}",)
    kind = NormalizationKind.BATCH_NORM


class BatchNormBackwardPlan(_ChannelNormPlan):
    """dgamma and dbeta are there if the descriptor's has_affine says so."""

    __slots__ = ()
    op = "batch_norm_backward_{T}"
    kind = NormalizationKind.BATCH_NORM


class GroupNormPlan(_ChannelNormPlan):
    __slots__ = ()
    op = "group_norm_{T}"
    others = ("group_norm_param_{T}",)
    kind = NormalizationKind.GROUP_NORM


class GroupNormBackwardPlan(_ChannelNormPlan):
    __slots__ = ()
    op = "group_norm_backward_{T}"
    kind = NormalizationKind.GROUP_NORM


class InstanceNormPlan(GroupNormPlan):
    __slots__ = ()
    kind = NormalizationKind.INSTANCE_NORM


class InstanceNormBackwardPlan(GroupNormBackwardPlan):
    __slots__ = ()
    kind = NormalizationKind.INSTANCE_NORM
