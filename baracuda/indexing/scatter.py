# SPDX-License-Identifier: Apache-2.0
"""Scatter and Put: write elements by index, i32 or i64.

Scatter: out[c with c[scatter_dim] = index[c]] = updates[c]; Put: out[index[i]] = updates[i], both flattened. Other
elements of out are unchanged, and indices out of range are skipped. Among updates of one target a deterministic plan
writes the last one, other plans any of them.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from baracuda import descriptor
from baracuda._call.scalars import INT32_MAX, as_integer
from baracuda.descriptor import Descriptor, product
from baracuda.indexing.gather import checked_axis, replaced
from baracuda.kinds import IndexingKind, OpCategory
from baracuda.plan import Plan


@dataclasses.dataclass(frozen=True)
class ScatterDescriptor(Descriptor):
    """upd_shape, of rank 1 to 8, is that of updates and index; out has out_dim_size along scatter_dim."""

    upd_shape: tuple[int, ...] = descriptor.shape(high=INT32_MAX)
    scatter_dim: int = descriptor.checked(as_integer)
    out_dim_size: int = descriptor.extent()

    @property
    def rank(self) -> int:
        return len(self.upd_shape)

    @property
    def upd_numel(self) -> int:
        return product("upd_shape", self.upd_shape)

    @property
    def out_shape(self) -> tuple[int, ...]:
        return replaced(self.upd_shape, self.scatter_dim, self.out_dim_size)

    def validated(self) -> ScatterDescriptor:
        valid = super().validated()
        checked_axis("scatter_dim", valid.scatter_dim, "upd_shape", valid.upd_shape)
        return valid


@dataclasses.dataclass(frozen=True)
class PutDescriptor(Descriptor):
    """updates and index have the shape upd_shape."""

    upd_shape: tuple[int, ...] = descriptor.shape()
    out_shape: tuple[int, ...] = descriptor.shape()

    @property
    def numel(self) -> int:
        return product("upd_shape", self.upd_shape)

    @property
    def out_numel(self) -> int:
        return product("out_shape", self.out_shape)


class ScatterPlan(Plan):
    __slots__ = ()
    op = "scatter{I}_{T}"
    category = OpCategory.INDEXING
    kind = IndexingKind.SCATTER
    shapes: ClassVar = {"out": "out_shape"}

    def _choose_workspace(self) -> tuple[int, bool]:
        """Only deterministic plans need a workspace; the default is meant for distinct targets."""
        return super()._choose_workspace() if self.preference.is_ordered else (0, False)


class PutPlan(ScatterPlan):
    __slots__ = ()
    op = "put{I}_{T}"
    kind = IndexingKind.PUT
    shapes: ClassVar = {"updates": "upd_shape", "index": "upd_shape", "out": "out_shape"}
