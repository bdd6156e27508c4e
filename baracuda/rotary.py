# SPDX-License-Identifier: Apache-2.0
"""Rotary position embedding (Su et al. 2021): pairs of features are rotated by angles proportional to the position.

y_a = x_a cos - x_b sin, y_b = x_b cos + x_a sin of the angle pos base^(-2i / head_dim), where the pair i is features 2i
and 2i + 1, or i and i + head_dim / 2. Rope takes positions, RopePositions positions for each batch and rotary_dim,
RopeStarts the first position of each batch, RopeApply tables of cosines and sines. Gradients are the inverse rotation.
y may be x, dx may be dy.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from baracuda import descriptor
from baracuda._call.scalars import INT32_MAX, as_integer, as_real
from baracuda._library.op_table import Op
from baracuda.descriptor import Descriptor
from baracuda.errors import InvalidProblemError
from baracuda.kinds import AttentionKind, OpCategory, RotaryPairing
from baracuda.plan import Plan

ROPE_DEFAULT_BASE = 10000.0


def _positive(name: str, value: object) -> float:
    number = as_real(name, value)
    if not (math.isfinite(number) and number > 0):
        raise InvalidProblemError(f"{name} is {value!r}, must be finite and > 0")
    return number


def _even(name: str, value: object, least: int = 0) -> int:
    number = as_integer(name, value, least, INT32_MAX)
    if number % 2:
        raise InvalidProblemError(f"{name} is {number}, must be even")
    return number


def _base() -> Any:
    return descriptor.checked(_positive, default=ROPE_DEFAULT_BASE)


def _pairing() -> Any:
    metadata = descriptor.choice(RotaryPairing).metadata
    return dataclasses.field(default=RotaryPairing.ADJACENT, kw_only=True, metadata=metadata)


@dataclasses.dataclass(frozen=True)
class RopeDescriptor(Descriptor):
    batch_size: int = descriptor.extent()
    num_heads: int = descriptor.extent()
    seq_len: int = descriptor.extent()
    head_dim: int = descriptor.checked(_even)
    base: float = _base()
    pairing: RotaryPairing = _pairing()

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.batch_size, self.num_heads, self.seq_len, self.head_dim)

    @property
    def pos_default_flag(self) -> int:
        """C's flag for launches without positions."""
        return 1


@dataclasses.dataclass(frozen=True)
class RopePositionsDescriptor(RopeDescriptor):
    """The first rotary_dim features are rotated, with frequencies base^(-2i / rotary_dim); None means all."""

    rotary_dim: int | None = descriptor.checked(
        lambda name, value: None if value is None else _even(name, value), default=None
    )

    def validated(self) -> RopePositionsDescriptor:
        valid = super().validated()
        if valid.rotary_dim is not None and valid.rotary_dim > valid.head_dim:
            raise InvalidProblemError(f"rotary_dim is {valid.rotary_dim}, must be <= head_dim, {valid.head_dim}")
        return dataclasses.replace(valid, rotary_dim=valid.head_dim) if valid.rotary_dim is None else valid


@dataclasses.dataclass(frozen=True)
class RopeStartsDescriptor(RopePositionsDescriptor):
    """Positions count from a start for each batch."""


@dataclasses.dataclass(frozen=True)
class RopeApplyInterleavedDescriptor(Descriptor):
    """num_rows = batch * heads rows share tables of shape (seq_len, head_dim / 2), or with own_tables each has its own,
    of shape (num_rows, seq_len, head_dim / 2).
    """

    num_rows: int = descriptor.extent()
    seq_len: int = descriptor.extent()
    head_dim: int = descriptor.checked(lambda name, value: _even(name, value, 2))
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

    pairing: RotaryPairing = _pairing()


@dataclasses.dataclass(frozen=True)
class RopeApplyThdDescriptor(Descriptor):
    """The heads of each token, whose tables have the shape (num_tokens, head_dim / 2)."""

    num_tokens: int = descriptor.extent()
    num_heads: int = descriptor.extent()
    head_dim: int = descriptor.checked(lambda name, value: _even(name, value, 2))
    pairing: RotaryPairing = _pairing()

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
    head_dim: int = descriptor.checked(lambda name, value: _even(name, value, 2))
    pairing: RotaryPairing = _pairing()

    @property
    def table_shape(self) -> tuple[int, ...]:
        return (self.num_places, self.head_dim // 2)

    @property
    def is_half(self) -> int:
        return int(self.pairing is RotaryPairing.HALVES)


class _RotaryPlan(Plan):
    """Base of plans with ops for both pairings; `half` is in the names of those for halves."""

    __slots__ = ()
    category = OpCategory.ATTENTION
    kind = AttentionKind.ROPE

    def _served(self) -> tuple[str, ...]:
        is_split = self.descriptor.pairing is RotaryPairing.HALVES
        return tuple([name for name in super()._served() if ("_half" in name) == is_split])


class RopePlan(_RotaryPlan):
    """Features must be contiguous. positions: seq_len positions, i64; without them 0, 1, 2 ..."""

    __slots__ = ()
    op = "rope_{T}"
    others: ClassVar = ("rope_half_{T}",)
    names: ClassVar = {"batch": "batch_size", "heads": "num_heads", "seq": "seq_len"}

    def step(self, name: str, strides: tuple[int, ...]) -> int:
        if strides[3] != 1 and self.descriptor.head_dim > 1:
            raise InvalidProblemError(f"{name.split('_')[1]} has stride {strides[3]} along head_dim, must be 1")
        return strides["bhs".index(name[-1])]

    def _operand_call(self, args: Any) -> tuple[Op, tuple[Any, ...]]:
        op, call = super()._operand_call(args)
        if args.positions is None:
            return op, call
        flag = next((k for k, param in enumerate(op.row.params) if param.name == "pos_default_flag"), None)
        return op, call if flag is None else (*call[:flag], 0, *call[flag + 1 :])


class RopeBackwardPlan(RopePlan):
    __slots__ = ()
    op = "rope_backward_{T}"
    others: ClassVar = ("rope_half_backward_{T}",)


class RopePositionsPlan(_RotaryPlan):
    """positions: (batch_size, seq_len), i64."""

    __slots__ = ()
    op = "rope_positions_{T}"
    others: ClassVar = ("rope_positions_half_{T}",)
    names: ClassVar = {"batch": "batch_size", "heads": "num_heads", "seq": "seq_len"}


class RopePositionsBackwardPlan(RopePositionsPlan):
    __slots__ = ()
    op = "rope_positions_backward_{T}"
    others: ClassVar = ("rope_positions_half_backward_{T}",)


class RopeStartsPlan(_RotaryPlan):
    """starts: (batch_size,), i64; the position of token s is starts[b] + s."""

    __slots__ = ()
    op = "rope_starts_{T}"
    fields: ClassVar = {"starts": "last"}
    others: ClassVar = ("rope_starts_half_{T}",)
    names: ClassVar = {"batch": "batch_size", "heads": "num_heads", "seq": "seq_len"}


class RopeStartsBackwardPlan(RopeStartsPlan):
    __slots__ = ()
    op = "rope_starts_backward_{T}"
    others: ClassVar = ("rope_starts_half_backward_{T}",)


class RopeApplyPlan(_RotaryPlan):
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


class RopeApplyThdPlan(_RotaryPlan):
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


# --- tables ----------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class LinearScaling:
    """Positions divided by factor (Chen et al. 2023); by default they are not scaled."""

    factor: float = 1.0


@dataclasses.dataclass(frozen=True)
class YaRNScaling:
    """Peng et al. 2023. A pair that rotates r times within original_max_seq_len keeps its frequency for r >= beta, has
    it divided by scale for r <= alpha, and a mean of both between. Cosines and sines are multiplied by 0.1 ln(scale) +
    1 where scale > 1.
    """

    scale: float
    alpha: float
    beta: float
    original_max_seq_len: int


@dataclasses.dataclass(frozen=True)
class LongRoPEScaling:
    """Ding et al. 2024: the frequency of each pair divided by its factor. If original_max_seq_len is given, cosines
    and sines are multiplied by sqrt(1 + ln(s) / ln(original_max_seq_len)), s = max_seq_len / original_max_seq_len > 1.
    """

    per_dim_factors: Sequence[float]
    original_max_seq_len: int | None = None


class RopeScaledTableBuilder:
    """Tables for rope_apply, of shape (max_seq_len, head_dim / 2), by a scaling of the frequencies."""

    def __init__(
        self, head_dim: int, max_seq_len: int, base: float = ROPE_DEFAULT_BASE,
        scaling: LinearScaling | YaRNScaling | LongRoPEScaling | None = None,
    ) -> None:  # fmt: skip
        self.head_dim = _even("head_dim", head_dim, 2)
        self.max_seq_len = as_integer("max_seq_len", max_seq_len, 1, INT32_MAX)
        self.base = _positive("base", base)
        self.scaling = LinearScaling() if scaling is None else scaling
        if not isinstance(self.scaling, (LinearScaling, YaRNScaling, LongRoPEScaling)):
            raise InvalidProblemError(
                f"scaling is {scaling!r}, must be a LinearScaling, YaRNScaling or LongRoPEScaling"
            )
        self.inverse_frequencies, self.amplitude = self._scaled()

    def _scaled(self) -> tuple[np.ndarray[Any, Any], float]:
        """(radians per position of each pair, factor of cosines and sines)"""
        pairs, scaling = self.head_dim // 2, self.scaling
        plain = np.float64(self.base) ** (-np.arange(pairs) / pairs)
        if isinstance(scaling, LinearScaling):
            return plain / _positive("factor", scaling.factor), 1.0
        if isinstance(scaling, YaRNScaling):
            scale, length = (
                _positive("scale", scaling.scale),
                as_integer("original_max_seq_len", scaling.original_max_seq_len, 1),
            )
            alpha, beta = as_real("alpha", scaling.alpha), as_real("beta", scaling.beta)
            if not alpha < beta:
                raise InvalidProblemError(f"alpha is {alpha}, must be < beta, {beta}")
            share = np.clip((beta - length * plain / (2 * math.pi)) / (beta - alpha), 0, 1)
            return plain * (1 - share) + plain * share / scale, 0.1 * math.log(scale) + 1 if scale > 1 else 1.0
        factors = [_positive(f"per_dim_factors[{i}]", factor) for i, factor in enumerate(scaling.per_dim_factors)]
        if len(factors) != pairs:
            raise InvalidProblemError(f"per_dim_factors has {len(factors)} numbers, must have head_dim / 2 = {pairs}")
        amplitude = 1.0
        if scaling.original_max_seq_len is not None:
            length = as_integer("original_max_seq_len", scaling.original_max_seq_len, 2)
            amplitude = math.sqrt(1 + max(math.log(self.max_seq_len / length), 0) / math.log(length))
        return plain / np.array(factors), amplitude

    def build(self, dtype: Any = np.float32) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """(cos, sin) of all positions, rounded from f64."""
        angles = np.arange(self.max_seq_len)[:, None] * self.inverse_frequencies
        return (self.amplitude * np.cos(angles)).astype(dtype), (self.amplitude * np.sin(angles)).astype(dtype)
