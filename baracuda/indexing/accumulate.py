# SPDX-License-Identifier: Apache-2.0
"""Scatter-reduce along an axis: scatter_add, index_add, scatter_reduce, put_add, and the gradients of gather.

scatter_add adds updates[c] to out[c with c[dim] = index[c]]; index_add adds slices at one index each; they are the
gradients of gather and of index_select. scatter_reduce also has products, means and extremes, with or without the
elements of out; put_add adds updates[i] to out[index[i]], both flattened. The ops add to their outputs: clear them
first for the sums alone. Indices out of range are skipped. Indices are i32 or i64, for gather_backward also u8.
Operands have any strides, except the indices of index_add and index_select_backward.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from baracuda import descriptor
from baracuda._call.scalars import INT32_MAX, as_integer
from baracuda.descriptor import Descriptor, product
from baracuda.errors import InvalidProblemError
from baracuda.indexing.scatter import PutDescriptor
from baracuda.kinds import IndexingKind, OpCategory, ScatterReduction
from baracuda.plan import Plan


class _AlongDescriptor(Descriptor):
    """Fields: the shape of the updates, of rank 1 to 8; an axis of it; the output's extent along that axis."""

    _fields: ClassVar[tuple[str, str, str]]

    @property
    def source_shape(self) -> tuple[int, ...]:
        shape: tuple[int, ...] = getattr(self, self._fields[0])
        return shape

    @property
    def target_shape(self) -> tuple[int, ...]:
        _, axis, extent = self._fields
        chosen = getattr(self, axis)
        return tuple([getattr(self, extent) if d == chosen else e for d, e in enumerate(self.source_shape)])

    @property
    def selected(self) -> int:
        """Number of slices along the axis."""
        axis: int = getattr(self, self._fields[1])
        return self.source_shape[axis]

    @property
    def rank(self) -> int:
        return len(self.source_shape)

    @property
    def numel(self) -> int:
        return product(self._fields[0].removesuffix("_shape"), self.source_shape)

    def validated(self) -> _AlongDescriptor:
        valid = super().validated()
        if not valid.source_shape:
            raise InvalidProblemError(f"{self._fields[0]} is (), must have an axis")
        as_integer(self._fields[1], getattr(valid, self._fields[1]), 0, valid.rank - 1)
        return valid


@dataclasses.dataclass(frozen=True)
class ScatterAddDescriptor(_AlongDescriptor):
    _fields = ("upd_shape", "scatter_dim", "out_dim_size")
    upd_shape: tuple[int, ...] = descriptor.shape(high=INT32_MAX)
    scatter_dim: int = descriptor.checked(as_integer)
    out_dim_size: int = descriptor.extent()


@dataclasses.dataclass(frozen=True)
class ScatterReduceDescriptor(_AlongDescriptor):
    """include_self: the elements of out take part in the reduction."""

    _fields = ("upd_shape", "scatter_dim", "out_dim_size")
    upd_shape: tuple[int, ...] = descriptor.shape(high=INT32_MAX)
    scatter_dim: int = descriptor.checked(as_integer)
    out_dim_size: int = descriptor.extent()
    reduce: ScatterReduction = descriptor.choice(ScatterReduction)
    include_self: bool = descriptor.flag()


@dataclasses.dataclass(frozen=True)
class GatherBackwardDescriptor(_AlongDescriptor):
    _fields = ("out_shape", "gather_dim", "src_dim_size")
    out_shape: tuple[int, ...] = descriptor.shape(high=INT32_MAX)
    gather_dim: int = descriptor.checked(as_integer)
    src_dim_size: int = descriptor.extent()


@dataclasses.dataclass(frozen=True)
class IndexAddDescriptor(_AlongDescriptor):
    _fields = ("src_shape", "add_dim", "dst_dim_size")
    src_shape: tuple[int, ...] = descriptor.shape(high=INT32_MAX)
    add_dim: int = descriptor.checked(as_integer)
    dst_dim_size: int = descriptor.extent()


@dataclasses.dataclass(frozen=True)
class IndexSelectBackwardDescriptor(_AlongDescriptor):
    _fields = ("out_shape", "select_dim", "src_dim_size")
    out_shape: tuple[int, ...] = descriptor.shape(high=INT32_MAX)
    select_dim: int = descriptor.checked(as_integer)
    src_dim_size: int = descriptor.extent()


class ScatterAddPlan(Plan):
    __slots__ = ()
    op = "scatter_add{I}_{T}"
    category = OpCategory.INDEXING
    kind = IndexingKind.SCATTER_ADD
    names: ClassVar = {"upd_numel": "numel"}
    shapes: ClassVar = {"updates": "source_shape", "index": "source_shape", "out": "target_shape"}


class ScatterReducePlan(Plan):
    """out is added to, multiplied with or compared with the updates, in place."""

    __slots__ = ()
    op = "scatter_reduce{I}_{T}"
    category = OpCategory.INDEXING
    kind = IndexingKind.SCATTER_REDUCE
    names: ClassVar = {"upd_numel": "numel"}
    shapes: ClassVar = {"updates": "source_shape", "index": "source_shape", "out": "target_shape"}


class ScatterReduceBackwardPlan(Plan):
    """x is out before the op, dx its gradient. Either gradient may be None."""

    __slots__ = ()
    descriptor_base = ScatterReduceDescriptor
    op = "scatter_reduce_backward{I}_{T}"
    category = OpCategory.INDEXING
    kind = IndexingKind.SCATTER_REDUCE_BACKWARD
    names: ClassVar = {"upd_numel": "numel"}
    shapes: ClassVar = {
        **dict.fromkeys(("updates", "index", "dupdates"), "source_shape"),
        **dict.fromkeys(("dout", "x", "out", "dx"), "target_shape"),
    }


class PutAddPlan(Plan):
    __slots__ = ()
    descriptor_base = PutDescriptor
    op = "put_add{I}_{T}"
    category = OpCategory.INDEXING
    kind = IndexingKind.PUT_ADD
    shapes: ClassVar = {"updates": "upd_shape", "index": "upd_shape", "out": "out_shape"}


class GatherBackwardPlan(Plan):
    __slots__ = ()
    op = "gather_backward{I}_{T}"
    category = OpCategory.INDEXING
    kind = IndexingKind.GATHER_BACKWARD
    names: ClassVar = {"out_numel": "numel"}
    shapes: ClassVar = {"dout": "source_shape", "index": "source_shape", "dsrc": "target_shape"}


class IndexAddPlan(Plan):
    __slots__ = ()
    op = "index_add{I}_{T}"
    category = OpCategory.INDEXING
    kind = IndexingKind.INDEX_ADD
    names: ClassVar = {"src_numel": "numel"}
    shapes: ClassVar = {"src": "source_shape", "dst": "target_shape"}


class IndexSelectBackwardPlan(Plan):
    __slots__ = ()
    op = "index_select_backward{I}_{T}"
    category = OpCategory.INDEXING
    kind = IndexingKind.INDEX_SELECT_BACKWARD
    names: ClassVar = {"out_numel": "numel"}
    shapes: ClassVar = {"dout": "source_shape", "dsrc": "target_shape"}
