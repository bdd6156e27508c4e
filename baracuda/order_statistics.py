# SPDX-License-Identifier: Apache-2.0
"""Top-k of rows, along an axis and of segments; the k-th value, median, mode and quantiles; and gradients.

Of equal elements those with lower indices count first; -0 equals 0, and NaN of either sign counts as larger than all
numbers. Plans along an axis take operands of any strides, and indices are i32 or i64; those of Topk, the last axis of a
dense matrix, are i32.
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

from baracuda import descriptor
from baracuda._call.scalars import INT32_MAX, as_integer
from baracuda.descriptor import Descriptor, product
from baracuda.errors import InvalidProblemError
from baracuda.kinds import OpCategory, QuantileInterpolation, SortKind
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


@dataclasses.dataclass(frozen=True)
class KthvalueDescriptor(Descriptor):
    """The element of each of `batch` rows of row_len that k others precede in ascending order: k counts from 0."""

    batch: int = descriptor.extent()
    row_len: int = descriptor.extent()
    k: int = descriptor.extent()

    rank: ClassVar[int] = 2
    order_axis: ClassVar[int] = 1

    @property
    def input_shape(self) -> tuple[int, ...]:
        return (self.batch, self.row_len)

    @property
    def rows_shape(self) -> tuple[int, ...]:
        return (self.batch, 1)

    @property
    def result_shape(self) -> tuple[int, ...]:
        return (self.batch,)

    @property
    def rows_numel(self) -> int:
        return self.batch

    @property
    def axis_len(self) -> int:
        return self.row_len

    def validated(self) -> Any:
        valid = super().validated()
        if valid.batch and valid.k >= valid.row_len:
            raise InvalidProblemError(f"k is {valid.k}, must be < row_len, {valid.row_len}")
        return valid


class KthvalueBackwardDescriptor(KthvalueDescriptor):
    """The fields of the forward op."""

    one: ClassVar[int] = 1


@dataclasses.dataclass(frozen=True)
class MedianDescriptor(Descriptor):
    """input_shape is of rank 1 to 8; the results have extent 1 along the axis."""

    input_shape: tuple[int, ...] = descriptor.shape()
    axis: int = descriptor.checked(as_integer)

    @property
    def rank(self) -> int:
        return len(self.input_shape)

    @property
    def rows_shape(self) -> tuple[int, ...]:
        return (*self.input_shape[: self.axis], 1, *self.input_shape[self.axis + 1 :])

    @property
    def rows_numel(self) -> int:
        return product("input_shape", self.rows_shape)

    @property
    def axis_len(self) -> int:
        return self.input_shape[self.axis]

    def validated(self) -> Any:
        valid = super().validated()
        if not valid.input_shape:
            raise InvalidProblemError("input_shape is (), must have an axis")
        as_integer("axis", valid.axis, 0, len(valid.input_shape) - 1)
        for d, extent in enumerate(valid.input_shape):
            if d != valid.axis:
                as_integer(f"input_shape[{d}]", extent, 0, INT32_MAX)
        if not valid.axis_len and valid.rows_numel:
            raise InvalidProblemError(f"input_shape[{valid.axis}] is 0, must be >= 1")
        return valid


class NanmedianDescriptor(MedianDescriptor):
    """The median of the numbers, without NaN."""


class ModeDescriptor(MedianDescriptor):
    """The most frequent element, the smallest of equally frequent ones, and the index of its last occurrence."""


@dataclasses.dataclass(frozen=True)
class QuantileDescriptor(MedianDescriptor):
    """q_count quantiles; the results are (q_count, rows), rows in row-major order of the other axes."""

    q_count: int = descriptor.checked(lambda name, value: as_integer(name, value, 0))
    interpolation: QuantileInterpolation = descriptor.choice(QuantileInterpolation)


class NanquantileDescriptor(QuantileDescriptor):
    """Quantiles of the numbers, without NaN."""


@dataclasses.dataclass(frozen=True)
class QuantileBackwardDescriptor(MedianDescriptor):
    """input_shape is that of the forward op, and of dx."""

    q_count: int = descriptor.checked(lambda name, value: as_integer(name, value, 0))


class NanquantileBackwardDescriptor(QuantileBackwardDescriptor):
    """The gradient of quantiles without NaN."""


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


class KthvaluePlan(Plan):
    __slots__ = ()
    op = "kthvalue{I}_{T}"
    category = OpCategory.SORTING
    kind = SortKind.KTHVALUE
    names: ClassVar = {"x": "input"}
    shapes: ClassVar = {"input": "input_shape", "values": "result_shape", "indices": "result_shape"}

    def layout(self, name: str, strides: tuple[int, ...]) -> tuple[int, ...]:
        """C's results have an axis of extent 1."""
        return strides if len(strides) == 2 else (*strides, 1)


class KthvalueBackwardPlan(Plan):
    """dx = dy at the indices of the rows, else 0."""

    __slots__ = ()
    op = "topk_backward_{T}"
    category = OpCategory.SORTING
    kind = SortKind.KTHVALUE_BACKWARD
    names: ClassVar = {"k": "one"}
    shapes: ClassVar = {"dx": "input_shape", "dy": "result_shape", "indices": "result_shape"}


class MedianPlan(Plan):
    __slots__ = ()
    op = "median{I}_{T}"
    category = OpCategory.SORTING
    kind = SortKind.MEDIAN
    names: ClassVar = {"x": "input", "order_axis": "axis"}
    shapes: ClassVar = {"input": "input_shape", "values": "rows_shape", "indices": "rows_shape"}


class NanmedianPlan(Plan):
    __slots__ = ()
    op = "nanmedian{I}_{T}"
    category = OpCategory.SORTING
    kind = SortKind.NANMEDIAN
    names: ClassVar = {"x": "input", "order_axis": "axis"}
    shapes: ClassVar = {"input": "input_shape", "values": "rows_shape", "indices": "rows_shape"}


class ModePlan(Plan):
    __slots__ = ()
    op = "mode{I}_{T}"
    category = OpCategory.SORTING
    kind = SortKind.MODE
    names: ClassVar = {"x": "input", "order_axis": "axis"}
    shapes: ClassVar = {"input": "input_shape", "values": "rows_shape", "indices": "rows_shape"}


class QuantilePlan(Plan):
    __slots__ = ()
    op = "quantile_{T}"
    category = OpCategory.SORTING
    kind = SortKind.QUANTILE
    names: ClassVar = {"x": "input", "order_axis": "axis"}
    shapes: ClassVar = {"input": "input_shape"}


class NanquantilePlan(Plan):
    __slots__ = ()
    op = "nanquantile_{T}"
    category = OpCategory.SORTING
    kind = SortKind.NANQUANTILE
    names: ClassVar = {"x": "input", "order_axis": "axis"}
    shapes: ClassVar = {"input": "input_shape"}


class QuantileBackwardPlan(Plan):
    __slots__ = ()
    op = "quantile_backward_{T}"
    category = OpCategory.SORTING
    kind = SortKind.QUANTILE_BACKWARD
    names: ClassVar = {"order_axis": "axis"}
    shapes: ClassVar = {"dx": "input_shape"}


class NanquantileBackwardPlan(Plan):
    __slots__ = ()
    op = "nanquantile_backward_{T}"
    category = OpCategory.SORTING
    kind = SortKind.NANQUANTILE_BACKWARD
    names: ClassVar = {"order_axis": "axis"}
    shapes: ClassVar = {"dx": "input_shape"}
