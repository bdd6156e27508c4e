# SPDX-License-Identifier: Apache-2.0
"""Top-k of rows, along an axis and of segments, and its gradient.

Of equal elements those with lower indices count first; -0 equals 0, and NaN of either sign counts as larger than all
numbers. TopkAxis takes operands of any strides, and indices are i32 or i64; those of Topk, the last axis of a dense
matrix, are i32.
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

from baracuda import descriptor
from baracuda._call.scalars import INT32_MAX, as_integer
from baracuda.descriptor import Descriptor, product
from baracuda.errors import InvalidProblemError
from baracuda.kinds import OpCategory, SortKind
from baracuda.plan import Plan


def _require_at_most(k: int, name: str, length: int) -> None:
    if k > length:
        raise InvalidProblemError(f"k is {k}, must be <= {name}, {length}")


@dataclasses.dataclass(frozen=True)
class TopkDescriptor(Descriptor):
    """The k largest elements of `batch` rows of row_len, or the smallest, sorted."""

    batch: int = descriptor.extent()
    row_len: int = descriptor.extent()
    k: int = descriptor.extent()
    largest: bool = descriptor.flag(True)

    def validated(self) -> TopkDescriptor:
        valid = super().validated()
        _require_at_most(valid.k, "row_len", valid.row_len)
        return valid


@dataclasses.dataclass(frozen=True)
class TopkBackwardDescriptor(Descriptor):
    batch: int = descriptor.extent()
    row_len: int = descriptor.extent()
    k: int = descriptor.extent()


@dataclasses.dataclass(frozen=True)
class _AxisDescriptor(Descriptor):
    """Fields that all descriptors along an axis have; input_shape is of rank 1 to 8."""

    input_shape: tuple[int, ...] = descriptor.shape()
    axis: int = descriptor.checked(as_integer)
    k: int = descriptor.checked(lambda name, value: as_integer(name, value, 0))

    @property
    def rank(self) -> int:
        return len(self.input_shape)

    @property
    def rows_shape(self) -> tuple[int, ...]:
        return self._with(1)

    @property
    def rows_numel(self) -> int:
        return product("input_shape", self.rows_shape)

    @property
    def axis_len(self) -> int:
        return self.input_shape[self.axis]

    @property
    def result_shape(self) -> tuple[int, ...]:
        return self._with(self.k)

    def _with(self, extent: int) -> tuple[int, ...]:
        return (*self.input_shape[: self.axis], extent, *self.input_shape[self.axis + 1 :])

    def validated(self) -> Any:
        valid = super().validated()
        if not valid.input_shape:
            raise InvalidProblemError("input_shape is (), must have an axis")
        as_integer("axis", valid.axis, 0, len(valid.input_shape) - 1)
        for d, extent in enumerate(valid.input_shape):
            if d != valid.axis:
                as_integer(f"input_shape[{d}]", extent, 0, INT32_MAX)
        _require_at_most(valid.k, f"input_shape[{valid.axis}]", valid.axis_len)
        return valid


@dataclasses.dataclass(frozen=True)
class TopkAxisDescriptor(_AxisDescriptor):
    """The k largest elements along axis, or the smallest: sorted, or in the order of their indices."""

    largest: bool = descriptor.flag(True)
    sorted: bool = descriptor.flag(True)


class TopkAxisBackwardDescriptor(_AxisDescriptor):
    """input_shape is that of the forward op, and of dx."""


@dataclasses.dataclass(frozen=True)
class TopkSegmentsDescriptor(Descriptor):
    """The k largest of the elements offsets[s] to before offsets[s + 1] of n, or the smallest, for each segment s."""

    n: int = descriptor.checked(lambda name, value: as_integer(name, value, 0))
    segments: int = descriptor.checked(lambda name, value: as_integer(name, value, 0))
    k: int = descriptor.checked(lambda name, value: as_integer(name, value, 0))
    largest: bool = descriptor.flag(True)
    sorted: bool = descriptor.flag(True)

    @property
    def offset_count(self) -> int:
        return self.segments + 1


class TopkPlan(Plan):
    __slots__ = ()
    op = "topk_{T}"
    category = OpCategory.SORTING
    kind = SortKind.TOPK
    names: ClassVar = {"x": "input", "y_vals": "values", "y_idx": "indices"}


class TopkBackwardPlan(Plan):
    """dx[b, indices[b, j]] = dy[b, j], else 0."""

    __slots__ = ()
    op = "topk_backward_{T}"
    category = OpCategory.SORTING
    kind = SortKind.TOPK_BACKWARD


class TopkAxisPlan(Plan):
    __slots__ = ()
    op = "topk_axis{I}_{T}"
    category = OpCategory.SORTING
    kind = SortKind.TOPK_AXIS
    names: ClassVar = {"x": "input", "topk_axis": "axis"}
    shapes: ClassVar = {"input": "input_shape", "values": "result_shape", "indices": "result_shape"}


class TopkAxisBackwardPlan(Plan):
    """dx = dy at the indices along the axis, else 0."""

    __slots__ = ()
    op = "topk_axis_backward{I}_{T}"
    category = OpCategory.SORTING
    kind = SortKind.TOPK_AXIS_BACKWARD
    names: ClassVar = {"topk_axis": "axis"}
    shapes: ClassVar = {"dx": "input_shape", "dy": "result_shape", "indices": "result_shape"}


class TopkSegmentsPlan(Plan):
    __slots__ = ()
    op = "topk_segments{I}_{T}"
    category = OpCategory.SORTING
    kind = SortKind.TOPK_SEGMENTS
    names: ClassVar = {"x": "input"}
