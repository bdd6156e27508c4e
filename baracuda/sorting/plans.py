# SPDX-License-Identifier: Apache-2.0
"""Sorts of rows and along an axis, and their gradients.

Sort, Msort and Argsort take dense rows with i32 indices; SortWide has 64-bit extents and indices, SortByKey carries
values of 4 or 8 bytes along, and SortAxis, SortValuesAxis and ArgsortAxis take arrays of any strides. All are stable in
both directions, with NaN behind all numbers, or before them if descending. Rows that do not fit on the chip need a
workspace.
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

from baracuda import descriptor
from baracuda._call.scalars import INT32_MAX, as_integer
from baracuda.descriptor import Descriptor, ShapedDescriptor
from baracuda.dtypes import ElementKind, as_element
from baracuda.errors import InvalidProblemError
from baracuda.kinds import OpCategory, SortKind
from baracuda.plan import Plan


@dataclasses.dataclass(frozen=True)
class SortDescriptor(Descriptor):
    """batch rows of row_len elements."""

    batch: int = descriptor.extent()
    row_len: int = descriptor.extent()
    descending: bool = descriptor.flag()


class MsortDescriptor(SortDescriptor):
    """Fields of SortDescriptor: every sort is stable."""


class ArgsortDescriptor(SortDescriptor):
    """Indices alone."""


@dataclasses.dataclass(frozen=True)
class SortBackwardDescriptor(Descriptor):
    """batch rows of row_len elements; indices are those of the sort."""

    batch: int = descriptor.extent()
    row_len: int = descriptor.extent()


class MsortBackwardDescriptor(SortBackwardDescriptor):
    """Fields of SortBackwardDescriptor."""


def _wide() -> Any:
    return descriptor.checked(lambda name, value: as_integer(name, value, 0))


@dataclasses.dataclass(frozen=True)
class SortWideDescriptor(Descriptor):
    """batch rows of row_len elements, as many as there is memory for."""

    batch: int = _wide()
    row_len: int = _wide()
    descending: bool = descriptor.flag()


@dataclasses.dataclass(frozen=True)
class SortByKeyDescriptor(Descriptor):
    """element is the dtype of the keys; that of the values is i32 or i64, and stands for any of its width."""

    batch: int = _wide()
    row_len: int = _wide()
    output_element: ElementKind = descriptor.checked(lambda name, value: as_element(value, name))
    descending: bool = descriptor.flag()


@dataclasses.dataclass(frozen=True)
class SortAxisDescriptor(ShapedDescriptor):
    """input_shape is of rank 1 to 8."""

    input_shape: tuple[int, ...] = descriptor.shape(high=INT32_MAX)
    sort_axis: int = descriptor.checked(as_integer)
    descending: bool = descriptor.flag()

    @property
    def shape(self) -> tuple[int, ...]:
        return self.input_shape

    def validated(self) -> SortAxisDescriptor:
        valid = super().validated()
        if not valid.input_shape:
            raise InvalidProblemError("input_shape is (), must have an axis to sort")
        as_integer("sort_axis", valid.sort_axis, 0, len(valid.input_shape) - 1)
        return valid


class SortValuesAxisDescriptor(SortAxisDescriptor):
    """Values alone."""


class ArgsortAxisDescriptor(SortAxisDescriptor):
    """Indices alone."""


class SortPlan(Plan):
    __slots__ = ()
    op = "sort_{T}"
    kind = SortKind.SORT
    category = OpCategory.SORTING
    names: ClassVar = {"x": "input", "y_vals": "values", "y_idx": "indices"}


class MsortPlan(SortPlan):
    __slots__ = ()
    op = "msort_{T}"
    kind = SortKind.MSORT


class ArgsortPlan(SortPlan):
    __slots__ = ()
    op = "argsort_{T}"
    kind = SortKind.ARGSORT


class SortWidePlan(SortPlan):
    __slots__ = ()
    op = "sort_wide_{T}"
    kind = SortKind.SORT_WIDE


class SortByKeyPlan(Plan):
    __slots__ = ()
    op = "sort_by_key_{T}_{U}"
    kind = SortKind.SORT_BY_KEY
    category = OpCategory.SORTING


class SortBackwardPlan(Plan):
    __slots__ = ()
    op = "sort_backward_{T}"
    kind = SortKind.SORT_BACKWARD
    category = OpCategory.SORTING


class MsortBackwardPlan(SortBackwardPlan):
    __slots__ = ()
    op = "msort_backward_{T}"
    kind = SortKind.MSORT_BACKWARD


class SortAxisPlan(Plan):
    __slots__ = ()
    op = "sort_axis_{T}"
    kind = SortKind.SORT_AXIS
    category = OpCategory.SORTING


class SortValuesAxisPlan(SortAxisPlan):
    __slots__ = ()
    op = "sort_values_axis_{T}"
    kind = SortKind.SORT_VALUES_AXIS


class ArgsortAxisPlan(SortAxisPlan):
    __slots__ = ()
    op = "argsort_axis_{T}"
    kind = SortKind.ARGSORT_AXIS
