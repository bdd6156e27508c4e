# SPDX-License-Identifier: Apache-2.0
"""Arguments common to rotary ops: which features are a pair, and checks of the numbers that give the angles."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from baracuda import descriptor
from baracuda._call.scalars import INT32_MAX, as_integer, as_real
from baracuda.errors import InvalidProblemError
from baracuda.kinds import AttentionKind, OpCategory, RotaryPairing
from baracuda.plan import Plan

ROPE_DEFAULT_BASE = 10000.0


def positive(name: str, value: object) -> float:
    number = as_real(name, value)
    if not (math.isfinite(number) and number > 0):
        raise InvalidProblemError(f"{name} is {value!r}, must be finite and > 0")
    return number


def even(name: str, value: object, least: int = 0) -> int:
    number = as_integer(name, value, least, INT32_MAX)
    if number % 2:
        raise InvalidProblemError(f"{name} is {number}, must be even")
    return number


def pairing_field() -> Any:
    metadata = descriptor.choice(RotaryPairing).metadata
    return dataclasses.field(default=RotaryPairing.ADJACENT, kw_only=True, metadata=metadata)


class RotaryPlan(Plan):
    """Base of plans with ops for both pairings; `half` is in the names of those for halves."""

    __slots__ = ()
    category = OpCategory.ATTENTION
    kind = AttentionKind.ROPE

    def _served(self) -> tuple[str, ...]:
        is_split = self.descriptor.pairing is RotaryPairing.HALVES
        return tuple([name for name in super()._served() if ("_half" in name) == is_split])
