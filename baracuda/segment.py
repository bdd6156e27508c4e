# SPDX-License-Identifier: Apache-2.0
"""Segment reductions.

output[s] = sum, mean, max, min or prod of input[i] over segment_ids[i] == s; ids outside [0, num_segments) are ignored.
An empty segment gives 0, for max -inf, for min inf, for prod 1, for max_or_zero and min_or_zero 0. The plain ops need
non-decreasing ids, the unsorted ones do not. Gradients are 0 for an id outside; that of max and min goes to the first
row with the extreme. Ids are i32 or i64.
"""

from __future__ import annotations

import dataclasses
import re
from typing import Any, ClassVar

from baracuda import descriptor
from baracuda.descriptor import Descriptor
from baracuda.kinds import OpCategory, SegmentKind
from baracuda.plan import Plan


@dataclasses.dataclass(frozen=True)
class SegmentDescriptor(Descriptor):
    """num_inputs rows of embedding_dim elements, which are of num_segments segments."""

    num_inputs: int = descriptor.extent()
    embedding_dim: int = descriptor.extent()
    num_segments: int = descriptor.extent()


class _SegmentPlan(Plan):
    """Base of the plans of this module. The class name gives op, kind and classes: UnsortedSegmentMaxPlan has the op
    unsorted_segment_max{I}_{T}, the kind UNSORTED_SEGMENT_MAX, an UnsortedSegmentMaxDescriptor and its Args."""

    __slots__ = ()
    descriptor_base = SegmentDescriptor
    category = OpCategory.SEGMENT_OPS
    kind: ClassVar[SegmentKind]
    names: ClassVar = {"n": "num_inputs", "d": "embedding_dim"}

    def __init_subclass__(cls, **options: Any) -> None:
        own = cls.__name__.removesuffix("Plan")
        stem = re.sub(r"(?<!^)([A-Z])", r"_\1", own)
        cls.op = stem.lower() + "{I}_{T}"
        cls.kind = SegmentKind[stem.upper()]
        super().__init_subclass__(**options)


class SegmentSumPlan(_SegmentPlan):
    __slots__ = ()


class SegmentMeanPlan(_SegmentPlan):
    __slots__ = ()


class SegmentMaxPlan(_SegmentPlan):
    __slots__ = ()


class SegmentMinPlan(_SegmentPlan):
    __slots__ = ()


class SegmentMaxOrZeroPlan(_SegmentPlan):
    """SegmentMaxPlan; but empty segments give 0."""

    __slots__ = ()


class SegmentMinOrZeroPlan(_SegmentPlan):
    """SegmentMinPlan; but empty segments give 0."""

    __slots__ = ()


class SegmentProdPlan(_SegmentPlan):
    __slots__ = ()


class UnsortedSegmentSumPlan(_SegmentPlan):
    __slots__ = ()


class UnsortedSegmentMeanPlan(_SegmentPlan):
    __slots__ = ()


class UnsortedSegmentMaxPlan(_SegmentPlan):
    __slots__ = ()


class UnsortedSegmentMinPlan(_SegmentPlan):
    __slots__ = ()


class UnsortedSegmentProdPlan(_SegmentPlan):
    __slots__ = ()


class SegmentSumBackwardPlan(_SegmentPlan):
    __slots__ = ()


class SegmentMeanBackwardPlan(_SegmentPlan):
    __slots__ = ()


class SegmentMaxBackwardPlan(_SegmentPlan):
    __slots__ = ()


class SegmentMinBackwardPlan(_SegmentPlan):
    __slots__ = ()


class SegmentProdBackwardPlan(_SegmentPlan):
    __slots__ = ()


class UnsortedSegmentSumBackwardPlan(_SegmentPlan):
    __slots__ = ()


class UnsortedSegmentMeanBackwardPlan(_SegmentPlan):
    __slots__ = ()


class UnsortedSegmentMaxBackwardPlan(_SegmentPlan):
    __slots__ = ()


class UnsortedSegmentMinBackwardPlan(_SegmentPlan):
    __slots__ = ()


class UnsortedSegmentProdBackwardPlan(_SegmentPlan):
    __slots__ = ()
