# SPDX-License-Identifier: Apache-2.0
"""Errors in units in the last place (ulp) of a storage dtype, on the host.

The ulp is that of the true value's binade, at least the smallest subnormal. Infinity counts as the next power of two
beyond the largest value, so overflow is right if the true value rounds to infinity, and the largest value is then one
ulp off. NaN instead of a number, a number instead of NaN and a distant infinity are counted separately, as `special`.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from tools.oracle.numerics import DIGITS, LARGEST, LEAST

Array = np.ndarray[Any, Any]
FAR = 64.0  # ulp: beyond, an infinity is special, and the mean takes errors as this


@dataclasses.dataclass
class Worst:
    """The largest error and its arguments; `special` counts NaN and infinities, `example` is the first of them."""

    count: int = 0
    max_ulp: float = 0.0
    sum_ulp: float = 0.0
    at: dict[str, float] | None = None
    special: int = 0
    example: dict[str, float] | None = None

    @property
    def mean_ulp(self) -> float:
        return self.sum_ulp / self.count if self.count else 0.0

    def add(self, other: Worst) -> None:
        if self.at is None or other.max_ulp > self.max_ulp:
            self.max_ulp, self.at = other.max_ulp, other.at
        self.count += other.count
        self.sum_ulp += other.sum_ulp
        self.special += other.special
        self.example = self.example or other.example


def errors(got: Array, true: Array, dtype: str) -> tuple[Array, Array]:
    """(errors in ulp, mask of specials) of float64 values `got` of the dtype; the error is 0 for specials."""
    true = np.asarray(true, np.longdouble)
    digits, least, power = DIGITS[dtype], LEAST[dtype], int(np.frexp(LARGEST[dtype])[1])
    end = np.ldexp(np.longdouble(1), power)
    with np.errstate(all="ignore"):
        beyond = np.abs(true) >= end - np.ldexp(np.longdouble(1), power - digits - 1)
        wanted = np.where(beyond, np.copysign(end, true), true)
        clipped = np.clip(np.asarray(got, np.longdouble), -end, end)
        exponent = np.frexp(np.where(np.isfinite(wanted), np.abs(wanted), 0))[1] - digits
        exponent = np.clip(np.where(wanted == 0, least, exponent), least, power - digits)
        ulp = np.abs(clipped - wanted) / np.ldexp(np.longdouble(1), exponent)
        nan = np.isnan(true) | np.isnan(got)
        special = (np.isnan(true) != np.isnan(got)) | ((np.isinf(got) != beyond) & (ulp > FAR) & ~nan)
    return np.where(special | nan, 0, ulp).astype(np.float64), special


def worst_of(got: Array, true: Array, dtype: str, inputs: dict[str, Array]) -> Worst:
    ulp, special = errors(got, true, dtype)

    def operands_at(i: int) -> dict[str, float]:
        return {**{k: float(v[i]) for k, v in inputs.items()}, "got": float(got[i]), "expected": float(true[i])}

    k = int(np.argmax(ulp))
    bad = np.flatnonzero(special)
    first = operands_at(int(bad[0])) if bad.size else None
    return Worst(ulp.size, float(ulp[k]), float(np.minimum(ulp, FAR).sum()), operands_at(k), int(bad.size), first)
