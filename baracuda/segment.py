"""Segment reductions.

output[s] = sum, mean, max, min or prod of input[i] over segment_ids[i] == s; ids outside [0, num_segments) are
ignored. An empty segment gives 0, of max -inf, of min inf, of prod 1; of max_or_zero and min_or_zero 0 as well. The
plain ops need non-decreasing ids, the unsorted ones do not. Gradients are 0 for an id outside; that of max and min goes
to the first row with the extreme. Ids are i32 or i64.
"""

from __future__ import annotations

import dataclasses
import re
from typing import Any, ClassVar

from baracuda import descriptor
from baracuda.descriptor import Descriptor
from baracuda.kinds import OpCategory, SegmentKind
from baracuda.operands import Args, Viewable
from baracuda.plan import Plan


@dataclasses.dataclass(frozen=True)
class SegmentDescriptor(Descriptor):
    """Base of the descriptors of this module."""

    num_inputs: int = descriptor.extent()
    embedding_dim: int = descriptor.extent()
    num_segments: int = descriptor.extent()


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class SegmentArgs(Args):
    """Of a reduction."""

    input: Viewable
    segment_ids: Viewable
    output: Viewable


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class LinearBackwardArgs(Args):
    """Of sum and mean."""

    d_output: Viewable
    segment_ids: Viewable
    d_input: Viewable


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class ExtremeBackwardArgs(Args):
    """Of max and min."""

    d_output: Viewable
    input: Viewable
    segment_ids: Viewable
    d_input: Viewable


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class ProdBackwardArgs(Args):
    """output is the product that the forward gave."""

    d_output: Viewable
    input: Viewable
    output: Viewable
    segment_ids: Viewable
    d_input: Viewable


class _SegmentPlan(Plan):
    """Base of the plans of this module: UnsortedSegmentMaxPlan is of unsorted_segment_max{I}_{T}, of the kind
    UNSORTED_SEGMENT_MAX, and takes an UnsortedSegmentMaxDescriptor and UnsortedSegmentMaxArgs."""

    __slots__ = ()
    category = OpCategory.SEGMENT_OPS
    names: ClassVar = {"n": "num_inputs", "d": "embedding_dim"}

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        own = cls.__name__.removesuffix("Plan")
        stem = re.sub(r"(?<!^)([A-Z])", r"_\1", own)
        cls.op = stem.lower() + "{I}_{T}"
        cls.kind = SegmentKind[stem.upper()]


class SegmentSumDescriptor(SegmentDescriptor):
    pass


class SegmentSumArgs(SegmentArgs):
    __slots__ = ()


class SegmentSumPlan(_SegmentPlan):
    __slots__ = ()


class SegmentMeanDescriptor(SegmentDescriptor):
    pass


class SegmentMeanArgs(SegmentArgs):
    __slots__ = ()


class SegmentMeanPlan(_SegmentPlan):
    __slots__ = ()


class SegmentMaxDescriptor(SegmentDescriptor):
    pass


class SegmentMaxArgs(SegmentArgs):
    __slots__ = ()


class SegmentMaxPlan(_SegmentPlan):
    __slots__ = ()


class SegmentMinDescriptor(SegmentDescriptor):
    pass


class SegmentMinArgs(SegmentArgs):
    __slots__ = ()


class SegmentMinPlan(_SegmentPlan):
    __slots__ = ()


class SegmentMaxOrZeroDescriptor(SegmentDescriptor):
    """As SegmentMaxDescriptor; empty segments give 0."""


class SegmentMaxOrZeroArgs(SegmentArgs):
    __slots__ = ()


class SegmentMaxOrZeroPlan(_SegmentPlan):
    __slots__ = ()


class SegmentMinOrZeroDescriptor(SegmentDescriptor):
    """As SegmentMinDescriptor; empty segments give 0."""


class SegmentMinOrZeroArgs(SegmentArgs):
    __slots__ = ()


class SegmentMinOrZeroPlan(_SegmentPlan):
    __slots__ = ()


class SegmentProdDescriptor(SegmentDescriptor):
    pass


class SegmentProdArgs(SegmentArgs):
    __slots__ = ()


class SegmentProdPlan(_SegmentPlan):
    __slots__ = ()


class UnsortedSegmentSumDescriptor(SegmentDescriptor):
    pass


class UnsortedSegmentSumArgs(SegmentArgs):
    __slots__ = ()


class UnsortedSegmentSumPlan(_SegmentPlan):
    __slots__ = ()


class UnsortedSegmentMeanDescriptor(SegmentDescriptor):
    pass


class UnsortedSegmentMeanArgs(SegmentArgs):
    __slots__ = ()


class UnsortedSegmentMeanPlan(_SegmentPlan):
    __slots__ = ()


class UnsortedSegmentMaxDescriptor(SegmentDescriptor):
    pass


class UnsortedSegmentMaxArgs(SegmentArgs):
    __slots__ = ()


class UnsortedSegmentMaxPlan(_SegmentPlan):
    __slots__ = ()


class UnsortedSegmentMinDescriptor(SegmentDescriptor):
    pass


class UnsortedSegmentMinArgs(SegmentArgs):
    __slots__ = ()


class UnsortedSegmentMinPlan(_SegmentPlan):
    __slots__ = ()


class UnsortedSegmentProdDescriptor(SegmentDescriptor):
    pass


class UnsortedSegmentProdArgs(SegmentArgs):
    __slots__ = ()


class UnsortedSegmentProdPlan(_SegmentPlan):
    __slots__ = ()


class SegmentSumBackwardDescriptor(SegmentDescriptor):
    pass


class SegmentSumBackwardArgs(LinearBackwardArgs):
    __slots__ = ()


class SegmentSumBackwardPlan(_SegmentPlan):
    __slots__ = ()


class SegmentMeanBackwardDescriptor(SegmentDescriptor):
    pass


class SegmentMeanBackwardArgs(LinearBackwardArgs):
    __slots__ = ()


class SegmentMeanBackwardPlan(_SegmentPlan):
    __slots__ = ()


class SegmentMaxBackwardDescriptor(SegmentDescriptor):
    pass


class SegmentMaxBackwardArgs(ExtremeBackwardArgs):
    __slots__ = ()


class SegmentMaxBackwardPlan(_SegmentPlan):
    __slots__ = ()


class SegmentMinBackwardDescriptor(SegmentDescriptor):
    pass


class SegmentMinBackwardArgs(ExtremeBackwardArgs):
    __slots__ = ()


class SegmentMinBackwardPlan(_SegmentPlan):
    __slots__ = ()


class SegmentProdBackwardDescriptor(SegmentDescriptor):
    pass


class SegmentProdBackwardArgs(ProdBackwardArgs):
    __slots__ = ()


class SegmentProdBackwardPlan(_SegmentPlan):
    __slots__ = ()


class UnsortedSegmentSumBackwardDescriptor(SegmentDescriptor):
    pass


class UnsortedSegmentSumBackwardArgs(LinearBackwardArgs):
    __slots__ = ()


class UnsortedSegmentSumBackwardPlan(_SegmentPlan):
    __slots__ = ()


class UnsortedSegmentMeanBackwardDescriptor(SegmentDescriptor):
    pass


class UnsortedSegmentMeanBackwardArgs(LinearBackwardArgs):
    __slots__ = ()


class UnsortedSegmentMeanBackwardPlan(_SegmentPlan):
    __slots__ = ()


class UnsortedSegmentMaxBackwardDescriptor(SegmentDescriptor):
    pass


class UnsortedSegmentMaxBackwardArgs(ExtremeBackwardArgs):
    __slots__ = ()


class UnsortedSegmentMaxBackwardPlan(_SegmentPlan):
    __slots__ = ()


class UnsortedSegmentMinBackwardDescriptor(SegmentDescriptor):
    pass


class UnsortedSegmentMinBackwardArgs(ExtremeBackwardArgs):
    __slots__ = ()


class UnsortedSegmentMinBackwardPlan(_SegmentPlan):
    __slots__ = ()


class UnsortedSegmentProdBackwardDescriptor(SegmentDescriptor):
    pass


class UnsortedSegmentProdBackwardArgs(ProdBackwardArgs):
    __slots__ = ()


class UnsortedSegmentProdBackwardPlan(_SegmentPlan):
    __slots__ = ()
