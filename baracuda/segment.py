"""Segment reductions.

output[s] = sum of input[i] over segment_ids[i] == s; an empty segment gives 0, ids outside [0, num_segments) are
ignored. The plain ops need non-decreasing ids, the unsorted ones do not. Backward: d_input[i] =
d_output[segment_ids[i]], 0 for an id outside. Ids are i32 or i64.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from baracuda import descriptor
from baracuda.descriptor import Descriptor
from baracuda.kinds import OpCategory, SegmentKind
from baracuda.operands import Args, Viewable
from baracuda.plan import Plan


@dataclasses.dataclass(frozen=True)
class SegmentSumDescriptor(Descriptor):
    num_inputs: int = descriptor.extent()
    embedding_dim: int = descriptor.extent()
    num_segments: int = descriptor.extent()


@dataclasses.dataclass(frozen=True)
class SegmentSumBackwardDescriptor(SegmentSumDescriptor):
    pass


@dataclasses.dataclass(frozen=True)
class UnsortedSegmentSumDescriptor(SegmentSumDescriptor):
    pass


@dataclasses.dataclass(frozen=True)
class UnsortedSegmentSumBackwardDescriptor(SegmentSumDescriptor):
    pass


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class SegmentSumArgs(Args):
    input: Viewable
    segment_ids: Viewable
    output: Viewable


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class UnsortedSegmentSumArgs(SegmentSumArgs):
    pass


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class SegmentSumBackwardArgs(Args):
    d_output: Viewable
    segment_ids: Viewable
    d_input: Viewable


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class UnsortedSegmentSumBackwardArgs(SegmentSumBackwardArgs):
    pass


class SegmentSumPlan(Plan):
    __slots__ = ()
    op = "segment_sum{I}_{T}"
    category = OpCategory.SEGMENT_OPS
    kind = SegmentKind.SEGMENT_SUM
    descriptor_type: ClassVar[type[Descriptor]] = SegmentSumDescriptor
    args_type: ClassVar[type[Args]] = SegmentSumArgs
    names: ClassVar = {"n": "num_inputs", "d": "embedding_dim"}


class SegmentSumBackwardPlan(SegmentSumPlan):
    __slots__ = ()
    op = "segment_sum_backward{I}_{T}"
    kind = SegmentKind.SEGMENT_SUM_BACKWARD
    descriptor_type: ClassVar[type[Descriptor]] = SegmentSumBackwardDescriptor
    args_type: ClassVar[type[Args]] = SegmentSumBackwardArgs


class UnsortedSegmentSumPlan(SegmentSumPlan):
    __slots__ = ()
    op = "unsorted_segment_sum{I}_{T}"
    kind = SegmentKind.UNSORTED_SEGMENT_SUM
    descriptor_type = UnsortedSegmentSumDescriptor
    args_type = UnsortedSegmentSumArgs


class UnsortedSegmentSumBackwardPlan(SegmentSumPlan):
    __slots__ = ()
    op = "unsorted_segment_sum_backward{I}_{T}"
    kind = SegmentKind.UNSORTED_SEGMENT_SUM_BACKWARD
    descriptor_type = UnsortedSegmentSumBackwardDescriptor
    args_type = UnsortedSegmentSumBackwardArgs
