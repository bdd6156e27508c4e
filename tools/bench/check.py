# SPDX-License-Identifier: Apache-2.0
"""Checks of results at the size that is timed: samples of every output against float64.

Summands are multiples of 1/16 (data.py), so that sums in f32 are exact in any order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

_SAMPLES = 16
_ROUNDED_SUMMANDS = 64  # 16-bit atomics round every addition: sums of more summands are not compared
ULP = {"f64": 2.0**-52, "f32": 2.0**-23, "f16": 2.0**-10, "bf16": 2.0**-7}


def compare(problem: Any, got: Any, expected: Any, magnitude: Any, steps: str = "f32") -> str:
    """Error bound: a rounding to the dtype, and a sum in `steps` of summands whose |values| add to `magnitude`."""
    problem.errors.append(relative(got, expected) / ULP[problem.dtype])
    allowed = ULP[problem.dtype] * np.abs(expected) + 4 * ULP[steps] * magnitude
    with np.errstate(invalid="ignore"):  # equal infinities
        excess = np.where(got == expected, -1.0, np.abs(got - expected) - allowed)
    if np.all(excess <= 0):
        return ""
    worst = np.unravel_index(np.argmax(np.where(np.isnan(excess), np.inf, excess)), excess.shape)
    got, expected, allowed = (np.broadcast_to(each, excess.shape)[worst] for each in (got, expected, allowed))
    return f"is {got:g}, expected {expected:g} +- {allowed:.2g}"


def relative(got: Any, expected: Any) -> float:
    """max |error| / max |finite value|; NaN if just one of the two is finite anywhere."""
    got, expected = np.broadcast_arrays(np.asarray(got, np.float64), np.asarray(expected, np.float64))
    finite = np.isfinite(expected)
    if not np.array_equal(finite, np.isfinite(got)):
        return np.nan
    error = float(np.max(np.abs(got[finite] - expected[finite]), initial=0.0))
    largest = float(np.max(np.abs(expected[finite]), initial=0.0))
    return error / largest if largest else np.nan if error else 0.0


def sample_indices(problem: Any, count: int, number: int = _SAMPLES) -> np.ndarray[Any, Any]:
    """Random sample of range(count), with the first and the last index."""
    return np.concatenate(([0, count - 1], problem.data.rng.integers(0, count, number)))


def rows(problem: Any, name: str, index: Any) -> Any:
    """Rows of an array as [len(index), last extent], in float64; of one dimension as [len(index), 1]."""
    return problem.data.rows(problem.buffers[name], np.asarray(index))


def cells(problem: Any, name: str, positions: Any) -> Any:
    """Elements at flat row-major positions; integers stay integers."""
    return problem.data.cells(problem.buffers[name], np.asarray(positions, np.int64))


def same(problem: Any, name: str, positions: Any, expected: Any) -> str:
    """Compares elements at flat positions that must be equal: integers, and copies."""
    positions, got = np.asarray(positions), cells(problem, name, positions)
    wrong = np.flatnonzero(got != expected)
    if not len(wrong):
        return ""
    return f"{name}[{positions[wrong[0]]}] is {got[wrong[0]]}, expected {expected[wrong[0]]}"


def shape(problem: Any, name: str) -> tuple[int, ...]:
    return problem.buffers[name].operand.shape


def sums(problem: Any, output: str, source: str, chosen: Any, counts: Any, summands: Callable[[int], Any]) -> str:
    """Compares chosen output rows with scale * sum(source rows); `summands` gives (row indices, scale).

    Without a workspace, ops that need one to be deterministic add by atomics in the output's dtype.
    """
    by_atomics = not problem.bench.workspace and problem.row.deterministic == "workspace"
    rounds = problem.dtype in ("f16", "bf16") and by_atomics
    for row in np.unique(chosen):
        if rounds and counts[row] > _ROUNDED_SUMMANDS:
            continue
        index, scale = summands(row)
        total, magnitude = problem.data.row_sums(problem.buffers[source], index)
        got = rows(problem, output, [row])[0]
        steps = problem.dtype if rounds else "f32"
        if wrong := compare(problem, got, total * scale, magnitude * scale, steps):
            return f"{output}[{row}] {wrong}"
    return ""
