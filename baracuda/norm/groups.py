# SPDX-License-Identifier: Apache-2.0
"""Group and instance norm with channels last, and their gradients.

Channels are the last axis. Each of num_groups equal groups of an item's channels is normalized over all spatial axes;
with as many groups as channels it is instance norm. Parameters, statistics and their gradients are f32 for 16-bit
activations.
"""

from __future__ import annotations

import dataclasses
import math
from typing import ClassVar

from baracuda import descriptor
from baracuda._call.scalars import INT32_MAX
from baracuda.descriptor import Descriptor
from baracuda.errors import InvalidProblemError, UnsupportedError
from baracuda.kinds import NormalizationKind, OpCategory
from baracuda.norm.norm_operands import GIVEN, eps_field, shape_field
from baracuda.plan import ParamPlan


@dataclasses.dataclass(frozen=True)
class GroupNormChannelsLastBackwardDescriptor(Descriptor):
    input_shape: tuple[int, ...] = shape_field()
    num_groups: int = descriptor.extent()

    def validated(self) -> GroupNormChannelsLastBackwardDescriptor:
        valid = super().validated()
        if len(valid.input_shape) < 2:
            raise InvalidProblemError(f"input_shape is {valid.input_shape}, must have two axes or more")
        if valid.spatial_extent > INT32_MAX:
            raise UnsupportedError(
                f"input_shape is {valid.input_shape}: {valid.spatial_extent} elements a channel of an item"
            )
        groups, channels = valid.num_groups, valid.num_channels
        if groups < 1 or channels % groups:
            raise InvalidProblemError(f"num_groups is {groups}, must divide the {channels} channels")
        return valid

    @property
    def num_channels(self) -> int:
        return int(self.input_shape[-1])

    @property
    def n_extent(self) -> int:
        return int(self.input_shape[0])

    @property
    def spatial_extent(self) -> int:
        return math.prod(self.input_shape[1:-1])

    @property
    def group_count(self) -> int:
        """Groups with statistics: 0 for an empty input."""
        return 0 if 0 in self.input_shape else self.n_extent * self.num_groups


@dataclasses.dataclass(frozen=True)
class GroupNormChannelsLastDescriptor(GroupNormChannelsLastBackwardDescriptor):
    eps: float = eps_field()


class _GroupPlan(ParamPlan):
    __slots__ = ()
    category = OpCategory.NORMALIZATION
    fields = GIVEN
    kind = NormalizationKind.GROUP_NORM
    names: ClassVar = {"c_extent": "num_channels"}
    shapes: ClassVar = dict.fromkeys(("dy", "x", "y", "dx"), "input_shape")


class GroupNormChannelsLastPlan(_GroupPlan):
    """gamma of None means 1, beta of None means 0."""

    __slots__ = ()
    op = "group_norm_channels_last_{T}"
    others = ("group_norm_channels_last_param_{T}",)


class GroupNormChannelsLastBackwardPlan(_GroupPlan):
    __slots__ = ()
    op = "group_norm_channels_last_backward_{T}"
