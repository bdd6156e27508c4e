# SPDX-License-Identifier: Apache-2.0
"""Domains of the numbers of functions. Plans and functions on arrays raise for numbers outside of them; C computes its
formula with them, which gives NaN or a division by 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

from baracuda._library.op_table import Row
from baracuda.errors import InvalidProblemError


class _Domain(NamedTuple):
    text: str
    holds: Callable[[float], bool]


_NOT_NEGATIVE = _Domain("must be >= 0", lambda value: value >= 0)
_POSITIVE = _Domain("must be > 0", lambda value: value > 0)
_FINITE = _Domain("must be finite and > 0", lambda value: 0 < value < math.inf)
_PROBABILITY = _Domain("must be in [0, 1]", lambda value: 0 <= value <= 1)
# Domains of numbers by their names in C: for all ops, and for ops with a prefix.
_OF_ALL = {"eps": _NOT_NEGATIVE, "base": _FINITE, "label_smoothing": _PROBABILITY}
_OF_OPS = {("loss_huber", "param"): _POSITIVE, ("loss_smooth_l1", "param"): _NOT_NEGATIVE}
_ORDERED = {"hardtanh": ("p0", "p1")}  # function -> two numbers in ascending order


def check(row: Row, function: str, values: Mapping[str, object], names: Mapping[str, str]) -> None:
    """InvalidProblemError for a number outside of its domain. `values` by C's names, `names`: C's -> the caller's."""
    for name, value in values.items():
        domain = _OF_ALL.get(name) or next(
            (found for (stem, of), found in _OF_OPS.items() if of == name and row.pattern.startswith(stem)), None
        )
        if domain is not None and isinstance(value, (int, float)) and not domain.holds(value):
            raise InvalidProblemError(f"{names.get(name, name)} is {value!r}, {domain.text}")
    low, high = _ORDERED.get(function.removesuffix("_backward"), ("", ""))
    if low in values and high in values and values[low] > values[high]:  # type: ignore[operator]
        first, second = names.get(low, low), names.get(high, high)
        raise InvalidProblemError(f"{first} is {values[low]!r} and {second} {values[high]!r}, must be in order")
