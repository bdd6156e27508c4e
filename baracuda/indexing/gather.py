# SPDX-License-Identifier: Apache-2.0
"""Gather, IndexSelect, Take and GatherRows: elements and rows by index.

Gather: out[c] = src[c with c[gather_dim] = index[c]]. IndexSelect: out[.., j, ..] = src[.., idx[j], ..] along
select_dim. Both leave elements of out unchanged if their index is outside [0, src_dim_size); operands except idx have
any strides. Take: out[i] = src[index[i]], both flattened. GatherRows: rows of a table, zeros for an index out of range.
Indices are i32 or i64, for Gather also u8, for GatherRows u32.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from baracuda import descriptor
from baracuda._call.scalars import INT32_MAX, as_integer
from baracuda.descriptor import Descriptor, product
from baracuda.errors import InvalidProblemError
from baracuda.kinds import IndexingKind, OpCategory
from baracuda.plan import Plan


def checked_axis(name: str, axis: int, shape_name: str, shape: tuple[int, ...]) -> None:
    if not shape:
        raise InvalidProblemError(f"{shape_name} is (), must have an axis")
    as_integer(name, axis, 0, len(shape) - 1)


def replaced(shape: tuple[int, ...], axis: int, extent: int) -> tuple[int, ...]:
    """The shape with another extent along one axis."""
    return (*shape[:axis], extent, *shape[axis + 1 :])


@dataclasses.dataclass(frozen=True)
class GatherDescriptor(Descriptor):
    """out_shape is of rank 1 to 8; src has src_dim_size along gather_dim. element: any float, integer, bool or fp8."""

    out_shape: tuple[int, ...] = descriptor.shape(high=INT32_MAX)
    gather_dim: int = descriptor.checked(as_integer)
    src_dim_size: int = descriptor.extent()

    @property
    def rank(self) -> int:
        return len(self.out_shape)

    @property
    def out_numel(self) -> int:
        return product("out_shape", self.out_shape)

    @property
    def src_shape(self) -> tuple[int, ...]:
        return replaced(self.out_shape, self.gather_dim, self.src_dim_size)

    def validated(self) -> GatherDescriptor:
        valid = super().validated()
        checked_axis("gather_dim", valid.gather_dim, "out_shape", valid.out_shape)
        return valid


@dataclasses.dataclass(frozen=True)
class IndexSelectDescriptor(Descriptor):
    """out_shape is of rank 1 to 8; src has src_dim_size along select_dim, idx as many elements as out has there."""

    out_shape: tuple[int, ...] = descriptor.shape(high=INT32_MAX)
    select_dim: int = descriptor.checked(as_integer)
    src_dim_size: int = descriptor.extent()

    @property
    def rank(self) -> int:
        return len(self.out_shape)

    @property
    def out_numel(self) -> int:
        return product("out_shape", self.out_shape)

    @property
    def src_shape(self) -> tuple[int, ...]:
        return replaced(self.out_shape, self.select_dim, self.src_dim_size)

    @property
    def selected(self) -> int:
        return self.out_shape[self.select_dim]

    def validated(self) -> IndexSelectDescriptor:
        valid = super().validated()
        checked_axis("select_dim", valid.select_dim, "out_shape", valid.out_shape)
        return valid


@dataclasses.dataclass(frozen=True)
class TakeDescriptor(Descriptor):
    """index and out have out_shape."""

    src_shape: tuple[int, ...] = descriptor.shape()
    out_shape: tuple[int, ...] = descriptor.shape()

    @property
    def numel(self) -> int:
        return product("out_shape", self.out_shape)

    @property
    def src_numel(self) -> int:
        return product("src_shape", self.src_shape)


@dataclasses.dataclass(frozen=True)
class GatherRowsDescriptor(Descriptor):
    """A table of source_rows rows of `columns` elements, at least one of each."""

    rows: int = descriptor.checked(lambda name, value: as_integer(name, value, 0))
    columns: int = descriptor.checked(lambda name, value: as_integer(name, value, 1))
    source_rows: int = descriptor.checked(lambda name, value: as_integer(name, value, 1))


class GatherPlan(Plan):
    __slots__ = ()
    op = "gather{I}_{T}"
    category = OpCategory.INDEXING
    kind = IndexingKind.GATHER
    shapes: ClassVar = {"src": "src_shape"}


class IndexSelectPlan(Plan):
    __slots__ = ()
    op = "index_select{I}_{T}"
    category = OpCategory.INDEXING
    kind = IndexingKind.INDEX_SELECT
    shapes: ClassVar = {"src": "src_shape"}


class TakePlan(Plan):
    __slots__ = ()
    op = "take{I}_{T}"
    category = OpCategory.INDEXING
    kind = IndexingKind.TAKE
    shapes: ClassVar = {"src": "src_shape", "index": "out_shape", "out": "out_shape"}


class GatherRowsPlan(Plan):
    __slots__ = ()
    op = "gather_rows_{T}"
    fields: ClassVar = {"dest": "last"}
    category = OpCategory.INDEXING
    kind = IndexingKind.GATHER_ROWS
    names: ClassVar = {"n": "rows", "h": "columns", "v": "source_rows"}
