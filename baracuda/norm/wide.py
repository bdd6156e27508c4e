# SPDX-License-Identifier: Apache-2.0
"""Group and instance norm, channels first, with f32 statistics for 16-bit data, and its gradient.

Each of num_groups equal groups of an item's channels, axis 1, is normalized over all later axes; with as many groups as
channels it is instance norm. gamma and beta have the data's dtype.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from baracuda import descriptor
from baracuda.kinds import NormalizationKind, OpCategory
from baracuda.norm.channels import ChannelNormDescriptor
from baracuda.norm.norm_operands import GIVEN, eps_field, shape_field
from baracuda.plan import Plan


@dataclasses.dataclass(frozen=True)
class GroupNormWideBackwardDescriptor(ChannelNormDescriptor):
    input_shape: tuple[int, ...] = shape_field()
    num_groups: int = descriptor.extent()


@dataclasses.dataclass(frozen=True)
class GroupNormWideDescriptor(GroupNormWideBackwardDescriptor):
    eps: float = eps_field()


class _WidePlan(Plan):
    __slots__ = ()
    category = OpCategory.NORMALIZATION
    fields = GIVEN
    kind = NormalizationKind.GROUP_NORM
    names: ClassVar = {"c_extent": "num_channels"}
    shapes: ClassVar = dict.fromkeys(("dy", "x", "y", "dx"), "input_shape")


class GroupNormWidePlan(_WidePlan):
    """gamma of None means 1, beta of None means 0."""

    __slots__ = ()
    op = "group_norm_wide_{T}"


class GroupNormWideBackwardPlan(_WidePlan):
    __slots__ = ()
    op = "group_norm_wide_backward_{T}"
