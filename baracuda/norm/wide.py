"""Group and instance norm, channels first, with statistics that are not rounded to 16 bits, and its gradient.

Groups are num_groups equal parts of an item's channels, axis 1, over the axes behind it; with as many groups as
channels it is instance norm. Saved statistics are f32 beside 16-bit data, gamma and beta of the data's dtype.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from baracuda import descriptor
from baracuda.kinds import NormalizationKind, OpCategory
from baracuda.norm.channels import ChannelNormDescriptor
from baracuda.norm.fields import GIVEN, eps_field, shape_field
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
    """A gamma that is not there is 1, a beta 0."""

    __slots__ = ()
    op = "group_norm_wide_{T}"


class GroupNormWideBackwardPlan(_WidePlan):
    __slots__ = ()
    op = "group_norm_wide_backward_{T}"
