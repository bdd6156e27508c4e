# SPDX-License-Identifier: Apache-2.0
"""Positions in sorted sequences, histograms, and unique elements.

Searchsorted, Bincount, Histogram, UniqueConsecutive and Unique have the operands of the reference ABI. Counts and
positions are i32 or i64 where the op has both. How many unique elements or runs there are is known on the device alone:
values and counts have a capacity of max_unique, further ones are dropped, and counter is the full number.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, ClassVar

from baracuda import descriptor
from baracuda._call.scalars import as_integer
from baracuda.descriptor import Descriptor
from baracuda.errors import InvalidProblemError
from baracuda.kinds import OpCategory, SortKind
from baracuda.plan import Plan


def _extent() -> Any:
    """An extent of 64 bits."""
    return descriptor.checked(lambda name, value: as_integer(name, value, 0))


class _SearchPlan(Plan):
    __slots__ = ()
    category = OpCategory.SORTING


# --- positions --------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class SearchsortedDescriptor(Descriptor):
    """The number of elements of sorted_seq that are less than each value, or with right not greater."""

    num_queries: int = _extent()
    len_sorted: int = descriptor.extent()
    right: bool = descriptor.flag()


class SearchsortedPlan(_SearchPlan):
    __slots__ = ()
    op = "searchsorted_{T}"
    kind = SortKind.SEARCHSORTED


@dataclasses.dataclass(frozen=True)
class SearchsortedRowsDescriptor(Descriptor):
    """Rows of queries, in a sequence for each row, or in one for all."""

    rows: int = _extent()
    queries: int = _extent()
    sequences: int = _extent()
    len_sorted: int = _extent()
    right: bool = descriptor.flag()


class SearchsortedRowsPlan(_SearchPlan):
    """sorter, which may be None, and output have one dtype."""

    __slots__ = ()
    op = "searchsorted_rows{I}_{T}"
    kind = SortKind.SEARCHSORTED_ROWS


@dataclasses.dataclass(frozen=True)
class IsinSortedDescriptor(Descriptor):
    numel: int = _extent()
    len_sorted: int = _extent()
    invert: bool = descriptor.flag()


class IsinSortedPlan(_SearchPlan):
    __slots__ = ()
    op = "isin_sorted_{T}"
    kind = SortKind.ISIN_SORTED


# --- counts -----------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class BincountDescriptor(Descriptor):
    """Elements of [0, num_bins) are counted, others are not."""

    numel: int = _extent()
    num_bins: int = descriptor.extent()


class BincountPlan(_SearchPlan):
    __slots__ = ()
    op = "bincount{I}_{T}"
    kind = SortKind.BINCOUNT
    names: ClassVar = {"n": "numel", "x": "input"}


@dataclasses.dataclass(frozen=True)
class HistogramDescriptor(Descriptor):
    """num_bins bins of equal width from lo to hi; the last one has its right edge too."""

    numel: int = _extent()
    num_bins: int = descriptor.extent()
    lo: float = descriptor.real()
    hi: float = descriptor.real()

    def validated(self) -> HistogramDescriptor:
        valid = super().validated()
        if not (math.isfinite(valid.lo) and math.isfinite(valid.hi) and valid.lo < valid.hi):
            raise InvalidProblemError(f"lo is {valid.lo} and hi {valid.hi}, must be finite, and lo < hi")
        return valid


class HistogramPlan(_SearchPlan):
    __slots__ = ()
    op = "histogram{I}_{T}"
    kind = SortKind.HISTOGRAM
    names: ClassVar = {"n": "numel", "lo_d": "lo", "hi_d": "hi", "x": "input"}


class HistogramBinsDescriptor(HistogramDescriptor):
    """The bin of each element instead of the counts; -1 for one that is in no bin."""


class HistogramBinsPlan(_SearchPlan):
    __slots__ = ()
    op = "histogram_bins_{T}"
    kind = SortKind.HISTOGRAM_BINS
    names: ClassVar = HistogramPlan.names


@dataclasses.dataclass(frozen=True)
class HistogramEdgesDescriptor(Descriptor):
    """Bins between num_bins + 1 edges."""

    numel: int = _extent()
    num_bins: int = descriptor.extent()

    @property
    def num_edges(self) -> int:
        return self.num_bins + 1


class HistogramEdgesPlan(_SearchPlan):
    __slots__ = ()
    op = "histogram_edges{I}_{T}"
    kind = SortKind.HISTOGRAM_EDGES
    names: ClassVar = BincountPlan.names


class HistogramEdgesBinsDescriptor(HistogramEdgesDescriptor):
    """The bin of each element instead of the counts; -1 for one that is in no bin."""


class HistogramEdgesBinsPlan(_SearchPlan):
    __slots__ = ()
    op = "histogram_edges_bins_{T}"
    kind = SortKind.HISTOGRAM_EDGES_BINS
    names: ClassVar = BincountPlan.names


# --- unique elements --------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class UniqueConsecutiveDescriptor(Descriptor):
    """Runs of equal adjacent elements in batch rows of row_len."""

    batch: int = descriptor.extent()
    row_len: int = descriptor.extent()
    max_unique: int = descriptor.extent()


class UniqueConsecutivePlan(_SearchPlan):
    """counts, which may be None, are the lengths of runs; counter has an element a row."""

    __slots__ = ()
    op = "unique_consecutive_{T}"
    kind = SortKind.UNIQUE_CONSECUTIVE
    names: ClassVar = {"x": "input", "y_vals": "values", "y_counts": "counts"}


class UniqueDescriptor(UniqueConsecutiveDescriptor):
    """Unique elements of rows, in ascending order."""


class UniquePlan(_SearchPlan):
    """sorted_scratch and sorted_idx_scratch become the sorted rows and the indices that sort them."""

    __slots__ = ()
    op = "unique_rows_{T}"
    kind = SortKind.UNIQUE
    names: ClassVar = UniqueConsecutivePlan.names


@dataclasses.dataclass(frozen=True)
class UniqueRunsDescriptor(Descriptor):
    """Runs of equal adjacent rows of `width` elements."""

    n: int = _extent()
    width: int = _extent()
    max_unique: int = _extent()
    equal_nan: bool = descriptor.flag()


class UniqueRunsPlan(_SearchPlan):
    """order, first, inverse and counts may be None."""

    __slots__ = ()
    op = "unique_runs{I}_{T}"
    kind = SortKind.UNIQUE_RUNS


@dataclasses.dataclass(frozen=True)
class UniqueElementsDescriptor(Descriptor):
    """Unique elements of n in ascending order, with their first positions, inverse and counts."""

    n: int = _extent()
    max_unique: int = _extent()
    equal_nan: bool = descriptor.flag()


class UniqueElementsPlan(_SearchPlan):
    """first, inverse and counts may be None."""

    __slots__ = ()
    op = "unique{I}_{T}"
    kind = SortKind.UNIQUE_ELEMENTS
