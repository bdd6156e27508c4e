# SPDX-License-Identifier: Apache-2.0
"""Rotary position embedding by tables of cosines and sines, and the gradients of the tables."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from baracuda import descriptor
from baracuda._call.scalars import INT32_MAX, as_integer
from baracuda.descriptor import Descriptor
from baracuda.kinds import AttentionKind, OpCategory, RotaryPairing
from baracuda.plan import Plan
from baracuda.rotary.pairs import RotaryPlan, even, pairing_field


@dataclasses.dataclass(frozen=True)
class RopeApplyInterleavedDescriptor(Descriptor):
    """num_rows = batch * heads rows share tables of shape (seq_len, head_dim / 2), or with own_tables each has its own,
    of shape (num_rows, seq_len, head_dim / 2).
    """

    num_rows: int = descriptor.extent()
    seq_len: int = descriptor.extent()
    head_dim: int = descriptor.checked(lambda name, value: even(name, value, 2))
    own_tables: bool = descriptor.flag()

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.num_rows, self.seq_len, self.head_dim)

    @property
    def table_shape(self) -> tuple[int, ...]:
        table = (self.seq_len, self.head_dim // 2)
        return (self.num_rows, *table) if self.own_tables else table

    @property
    def td(self) -> int:
        return as_integer("seq_len * head_dim", self.seq_len * self.head_dim, 0, INT32_MAX)

    @property
    def stride_b(self) -> int:
        return self.td // 2 if self.own_tables else 0


@dataclasses.dataclass(frozen=True)
class RopeApplyDescriptor(RopeApplyInterleavedDescriptor):
    """The tables are those of RopeApplyInterleavedDescriptor."""

    pairing: RotaryPairing = pairing_field()


@dataclasses.dataclass(frozen=True)
class RopeApplyThdDescriptor(Descriptor):
    """The heads of each token, whose tables have the shape (num_tokens, head_dim / 2)."""

    num_tokens: int = descriptor.extent()
    num_heads: int = descriptor.extent()
    head_dim: int = descriptor.checked(lambda name, value: even(name, value, 2))
    pairing: RotaryPairing = pairing_field()

    @property
    def table_row(self) -> int:
        return self.head_dim // 2

    @property
    def stride_b(self) -> int:
        return self.table_row


@dataclasses.dataclass(frozen=True)
class RopeTablesBackwardDescriptor(Descriptor):
    """Rows of (outer, num_places, inner, head_dim); the rows of a position share its table entries."""

    outer: int = descriptor.extent()
    num_places: int = descriptor.extent()
    inner: int = descriptor.extent()
    head_dim: int = descriptor.checked(lambda name, value: even(name, value, 2))
    pairing: RotaryPairing = pairing_field()

    @property
    def table_shape(self) -> tuple[int, ...]:
        return (self.num_places, self.head_dim // 2)

    @property
    def is_half(self) -> int:
        return int(self.pairing is RotaryPairing.HALVES)


class RopeApplyPlan(RotaryPlan):
    """cos and sin are f32, for f64 elements also f64."""

    __slots__ = ()
    op = "rope_apply_{T}"
    others: ClassVar = ("rope_apply_f64tab_{T}", "rope_apply_half_{T}", "rope_apply_half_f64tab_{T}")
    names: ClassVar = {"bh": "num_rows", "d": "head_dim", "cos_tab": "cos", "sin_tab": "sin"}
    shapes: ClassVar = {"x": "shape", "y": "shape", "cos": "table_shape", "sin": "table_shape"}


class RopeApplyBackwardPlan(RopeApplyPlan):
    __slots__ = ()
    op = "rope_apply_backward_{T}"
    others: ClassVar = (
        "rope_apply_f64tab_backward_{T}", "rope_apply_half_backward_{T}", "rope_apply_half_f64tab_backward_{T}",
    )  # fmt: skip
    shapes: ClassVar = {"dy": "shape", "dx": "shape", "cos": "table_shape", "sin": "table_shape"}


class RopeApplyInterleavedPlan(Plan):
    """RopeApplyPlan with interleaved pairs, by the op's other name. cos and sin are f32."""

    __slots__ = ()
    op = "rope_apply_interleaved_{T}"
    category = OpCategory.ATTENTION
    kind = AttentionKind.ROPE
    names: ClassVar = RopeApplyPlan.names
    shapes: ClassVar = RopeApplyPlan.shapes


class RopeApplyInterleavedBackwardPlan(RopeApplyInterleavedPlan):
    __slots__ = ()
    op = "rope_apply_interleaved_backward_{T}"
    shapes: ClassVar = RopeApplyBackwardPlan.shapes


class RopeApplyThdPlan(RotaryPlan):
    __slots__ = ()
    op = "rope_apply_thd_{T}"
    others: ClassVar = ("rope_apply_thd_f64tab_{T}", "rope_apply_thd_half_{T}", "rope_apply_thd_half_f64tab_{T}")
    names: ClassVar = {
        "t_outer": "num_tokens", "h_heads": "num_heads", "d": "head_dim", "cos_tab": "cos", "sin_tab": "sin",
    }  # fmt: skip


class RopeApplyThdBackwardPlan(RopeApplyThdPlan):
    __slots__ = ()
    op = "rope_apply_thd_backward_{T}"
    others: ClassVar = (
        "rope_apply_thd_f64tab_backward_{T}", "rope_apply_thd_half_backward_{T}",
        "rope_apply_thd_half_f64tab_backward_{T}",
    )  # fmt: skip


class RopeTablesBackwardPlan(Plan):
    """Gradients of the tables that the RopeApply plans take, summed over the rows that share them. dcos and dsin are
    f32, of f64 elements f64. Either may be None.
    """

    __slots__ = ()
    op = "rope_tables_backward_{T}"
    fields: ClassVar = {"x": "given"}
    category = OpCategory.ATTENTION
    kind = AttentionKind.ROPE
    names: ClassVar = {"places": "num_places", "d": "head_dim"}
    shapes: ClassVar = {"dcos": "table_shape", "dsin": "table_shape"}
