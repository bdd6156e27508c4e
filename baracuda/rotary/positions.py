# SPDX-License-Identifier: Apache-2.0
"""Rotary position embedding by positions, from which the op computes the angles."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

from baracuda import descriptor
from baracuda._library.op_table import Op
from baracuda.descriptor import Descriptor
from baracuda.errors import InvalidProblemError
from baracuda.kinds import RotaryPairing
from baracuda.rotary.pairs import ROPE_DEFAULT_BASE, RotaryPlan, even, pairing_field, positive


def _base() -> Any:
    return descriptor.checked(positive, default=ROPE_DEFAULT_BASE)


@dataclasses.dataclass(frozen=True)
class RopeDescriptor(Descriptor):
    batch_size: int = descriptor.extent()
    num_heads: int = descriptor.extent()
    seq_len: int = descriptor.extent()
    head_dim: int = descriptor.checked(even)
    base: float = _base()
    pairing: RotaryPairing = pairing_field()

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
        lambda name, value: None if value is None else even(name, value), default=None
    )

    def validated(self) -> RopePositionsDescriptor:
        valid = super().validated()
        if valid.rotary_dim is not None and valid.rotary_dim > valid.head_dim:
            raise InvalidProblemError(f"rotary_dim is {valid.rotary_dim}, must be <= head_dim, {valid.head_dim}")
        return dataclasses.replace(valid, rotary_dim=valid.head_dim) if valid.rotary_dim is None else valid


@dataclasses.dataclass(frozen=True)
class RopeStartsDescriptor(RopePositionsDescriptor):
    """Positions count from a start for each batch."""


class RopePlan(RotaryPlan):
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


class RopePositionsPlan(RotaryPlan):
    """positions: (batch_size, seq_len), i64."""

    __slots__ = ()
    op = "rope_positions_{T}"
    others: ClassVar = ("rope_positions_half_{T}",)
    names: ClassVar = {"batch": "batch_size", "heads": "num_heads", "seq": "seq_len"}


class RopePositionsBackwardPlan(RopePositionsPlan):
    __slots__ = ()
    op = "rope_positions_backward_{T}"
    others: ClassVar = ("rope_positions_half_backward_{T}",)


class RopeStartsPlan(RotaryPlan):
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
