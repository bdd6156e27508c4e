# SPDX-License-Identifier: Apache-2.0
"""Weighted minimax polynomials by the Remez exchange algorithm on a grid, in the precision that mpmath is set to."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import mpmath as mp

Function = Callable[[mp.mpf], mp.mpf]
_POINTS = 24  # grid points per coefficient
_ROUNDS = 30


@dataclasses.dataclass(frozen=True)
class Fit:
    """sum of c[i] x^powers[i], and the largest of |weight (sum - function)| on the grid."""

    coefficients: tuple[mp.mpf, ...]
    error: mp.mpf


def grid(low: mp.mpf, high: mp.mpf, count: int) -> list[mp.mpf]:
    """Extrema of a Chebyshev polynomial on [low, high]."""
    middle, half = (low + high) / 2, (high - low) / 2
    return [middle - half * mp.cos(mp.pi * i / (count - 1)) for i in range(count)]


def minimax(xs: Sequence[mp.mpf], values: Sequence[mp.mpf], weights: Sequence[mp.mpf], powers: Sequence[int]) -> Fit:
    """The polynomial of the given powers with the least largest weighted error at xs, which must be in order."""
    n = len(powers)
    # Errors of x P(x) alternate as those of P if their signs are flipped for x < 0.
    weights = [-w if x < 0 and powers[0] % 2 else w for x, w in zip(xs, weights)]
    rows = [[w * x**p for p in powers] for x, w in zip(xs, weights)]
    wanted = [w * v for w, v in zip(weights, values)]
    used = [round(i * (len(xs) - 1) / n) for i in range(n + 1)]
    for _ in range(_ROUNDS):
        matrix = mp.matrix([[*rows[k], (-1) ** i] for i, k in enumerate(used)])
        solution = mp.lu_solve(matrix, mp.matrix([wanted[k] for k in used]))
        c, level = list(solution[:n]), abs(solution[n])
        errors = [mp.fdot(row, c) - want for row, want in zip(rows, wanted)]
        worst = max(abs(e) for e in errors)
        if worst <= level * (1 + mp.mpf(10) ** -9):
            break
        used = _exchanged(errors, n + 1)
    return Fit(tuple(c), worst)


def _exchanged(errors: Sequence[mp.mpf], count: int) -> list[int]:
    """`count` consecutive extrema of alternating sign, with the largest among them."""
    extrema: list[int] = []
    for k, e in enumerate(errors):
        if extrema and (errors[extrema[-1]] > 0) == (e > 0):
            if abs(e) > abs(errors[extrema[-1]]):
                extrema[-1] = k
        else:
            extrema.append(k)

    def size(i: int) -> mp.mpf:
        return abs(errors[extrema[i]])

    while len(extrema) > count:
        last = len(extrema) - 1
        least = min(range(last + 1), key=size)
        if least in (0, last) or last == count:
            extrema.pop(0 if size(0) < size(last) else last)
        else:  # drops a pair of neighbours, so that the signs still alternate
            other = least - 1 if size(least - 1) < size(least + 1) else least + 1
            del extrema[min(least, other) : max(least, other) + 1]
    if len(extrema) < count:
        raise ArithmeticError("the error alternates too rarely: fewer coefficients are enough")
    return extrema


def fit(
    function: Function,
    interval: tuple[float | str, float | str],
    powers: Sequence[int],
    weight: Function,
    digits: int,
    exact: int,
) -> Fit:
    """A minimax polynomial with coefficients of `digits` bits. The first `exact` are rounded one by one, with a new fit
    of the others after each; the others, whose rounding matters less, are rounded at once."""
    low, high = (mp.mpf(end) for end in interval)
    xs = grid(low, high, _POINTS * len(powers) + 1)
    values, weights = [function(x) for x in xs], [abs(weight(x)) for x in xs]
    found: list[mp.mpf] = []
    rest, free = values, list(powers)
    for _ in range(exact):
        first = rounded(minimax(xs, rest, weights, free).coefficients[0], digits)
        found.append(first)
        rest = [v - first * x ** free[0] for x, v in zip(xs, rest)]
        free = free[1:]
        if not free:
            break
    if free:
        found += [rounded(c, digits) for c in minimax(xs, rest, weights, free).coefficients]
    left = [mp.fsum(c * x**p for c, p in zip(found, powers)) - v for x, v in zip(xs, values)]
    return Fit(tuple(found), max(abs(w * e) for w, e in zip(weights, left)))


def rounded(x: mp.mpf, digits: int) -> mp.mpf:
    """Rounds to nearest, to a significand of so many bits."""
    with mp.workprec(digits):
        return +x
