"""Is what is timed right? Samples of every output against float64, at the size that is timed.

Inputs are multiples of 1/16 (data.py), so that sums in f32 are exact in any order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from tools.bench.table import Problem


_SAMPLES = 16
_ROUNDED_TERMS = 64  # 16-bit atomics round every addition: rows of more terms are not compared
_ULP = {"f64": 2.0**-52, "f32": 2.0**-23, "f16": 2.0**-10, "bf16": 2.0**-7}


def check(problem: Problem) -> str:
    """What is wrong with the outputs; empty if nothing is."""
    checker = _CHECKS.get(problem.row)
    return checker(problem) if checker else "is not checked: no function for it in tools/bench/check.py"


def _compare(problem: Problem, got: Any, expected: Any, magnitude: Any, steps: str = "f32") -> str:
    """Rounding once to the dtype, and sums in the type `steps` of terms whose absolute values add to `magnitude`."""
    allowed = _ULP[problem.element.token] * np.abs(expected) + 4 * _ULP[steps] * magnitude
    excess = np.abs(got - expected) - allowed
    if np.all(excess <= 0):
        return ""
    worst = np.unravel_index(np.argmax(np.where(np.isnan(excess), np.inf, excess)), excess.shape)
    return f"is {got[worst]:g}, expected {expected[worst]:g} +- {np.broadcast_to(allowed, excess.shape)[worst]:.2g}"


def _picks(problem: Problem, count: int, number: int = _SAMPLES) -> np.ndarray[Any, Any]:
    """Sampled positions, the first and the last among them."""
    return np.concatenate(([0, count - 1], problem.data.rng.integers(0, count, number)))


def _rows(problem: Problem, name: str, index: Any) -> Any:
    return problem.data.rows(problem.buffers[name], np.asarray(index))


def _shape(problem: Problem, name: str) -> tuple[int, ...]:
    return problem.buffers[name].view.shape


def _lerp(problem: Problem) -> str:
    picks = _picks(problem, problem.bench.scalars["numel"], 4096)
    a, b = _rows(problem, "a", picks), _rows(problem, "b", picks)
    expected = a + np.float64(np.float32(problem.bench.scalars["p"])) * (b - a)
    return _compare(problem, _rows(problem, "y", picks), expected, np.abs(a) + np.abs(b))


def _lerp_backward(problem: Problem) -> str:
    picks = _picks(problem, problem.bench.scalars["numel"], 4096)
    dy, p = _rows(problem, "dy", picks), np.float64(np.float32(problem.bench.scalars["p"]))
    wrong = _compare(problem, _rows(problem, "da", picks), (1 - p) * dy, np.abs(dy))
    return wrong or _compare(problem, _rows(problem, "db", picks), p * dy, np.abs(dy))


def _repeat(problem: Problem) -> str:
    (rows, columns), (all_rows, all_columns) = _shape(problem, "x"), _shape(problem, "y")
    picks = _picks(problem, all_rows)
    expected = np.tile(_rows(problem, "x", picks % rows), (1, all_columns // columns))
    return _compare(problem, _rows(problem, "y", picks), expected, 0.0)


def _repeat_backward(problem: Problem) -> str:
    (rows, columns), (all_rows, _) = _shape(problem, "dx"), _shape(problem, "dy")
    picks = _picks(problem, rows)
    parts = [_rows(problem, "dy", picks + first).reshape(len(picks), -1, columns) for first in range(0, all_rows, rows)]
    got = _rows(problem, "dx", picks)
    return _compare(problem, got, np.sum(parts, (0, 2)), np.abs(parts).sum((0, 2)))


def _distance(shape: tuple[int, ...]) -> Any:
    return np.arange(shape[3])[None, :] - np.arange(shape[2])[:, None]


def _alibi(problem: Problem) -> str:
    shape = _shape(problem, "scores")
    picks = _picks(problem, shape[0] * shape[1] * shape[2])
    slopes = _rows(problem, "slopes", picks // shape[2] % shape[1])
    expected = _rows(problem, "scores", picks) + slopes * _distance(shape)[picks % shape[2]]
    return _compare(problem, _rows(problem, "y", picks), expected, np.abs(slopes) * shape[3])


def _alibi_backward(problem: Problem) -> str:
    batch, heads, queries, _ = shape = _shape(problem, "dy")
    picks = _picks(problem, batch * heads * queries)
    wrong = _compare(problem, _rows(problem, "da", picks), _rows(problem, "dy", picks), 0.0)
    for head in (0, heads - 1):
        terms = sum(_rows(problem, "dy", np.arange(queries) + (i * heads + head) * queries) for i in range(batch))
        terms = terms * _distance(shape)
        magnitude = np.sqrt(batch) * np.abs(terms).sum()
        got = _rows(problem, "dslope", [head])
        wrong = wrong or _compare(problem, got, terms.sum().reshape(1, 1), magnitude)
    return wrong


def _gathered(problem: Problem) -> str:
    ids = problem.indices["segment_ids"]
    picks = _picks(problem, len(ids))
    return _compare(problem, _rows(problem, "d_input", picks), _rows(problem, "d_output", ids[picks]), 0.0)


def _segment_sums(problem: Problem) -> str:
    ids, segments = problem.indices["segment_ids"], problem.bench.scalars["num_segments"]
    picks = np.append(_picks(problem, segments), ids[len(ids) // 2])
    counts = np.bincount(ids, minlength=segments)
    return _sums(problem, "output", "input", picks, counts, lambda segment: (np.flatnonzero(ids == segment), 1.0))


def _bags(problem: Problem) -> str:
    indices, offsets = problem.indices["indices"], problem.indices["offsets"]
    ends = np.append(offsets[1:], len(indices))
    lengths = ends - offsets

    def terms(bag: int) -> Any:
        chosen = indices[offsets[bag] : ends[bag]]
        return chosen, 1.0 / max(len(chosen), 1) if problem.bench.scalars["mode"] else 1.0

    return _sums(problem, "out", "weight", _picks(problem, len(offsets)), lengths, terms)


def _bags_backward(problem: Problem) -> str:
    indices, offsets = problem.indices["indices"], problem.indices["offsets"]
    rows = problem.bench.scalars["num_embeddings"]
    lengths = np.diff(np.append(offsets, len(indices)))
    counts = np.bincount(indices, minlength=rows)
    bag_of = np.repeat(np.arange(len(offsets)), lengths)
    scale = 1.0 / lengths[0] if problem.bench.scalars["mode"] else 1.0  # bags of one length
    picks = np.concatenate((_picks(problem, rows), indices[:_SAMPLES], [np.argmax(counts)]))
    return _sums(problem, "dweight", "dout", picks, counts, lambda row: (bag_of[np.flatnonzero(indices == row)], scale))


def _sums(problem: Problem, output: str, source: str, picks: Any, counts: Any, terms: Callable[[int], Any]) -> str:
    """Rows `picks` of the output against the sums of the source's rows that `terms` gives, times its factor."""
    rounds = problem.element.bits < 32 and not problem.bench.workspace and problem.is_deterministic_with_workspace
    for pick in np.unique(picks):
        if rounds and counts[pick] > _ROUNDED_TERMS:
            continue
        index, factor = terms(pick)
        total, magnitude = problem.data.row_sums(problem.buffers[source], index)
        got = _rows(problem, output, [pick])[0]
        steps = problem.element.token if rounds else "f32"
        if wrong := _compare(problem, got, total * factor, magnitude * factor, steps):
            return f"{output}[{pick}] {wrong}"
    return ""


_CHECKS: dict[str, Callable[[Problem], str]] = {
    "binary_lerp_{T}": _lerp,
    "binary_lerp_backward_{T}": _lerp_backward,
    "repeat_{T}": _repeat,
    "repeat_backward_{T}": _repeat_backward,
    "alibi_{T}": _alibi,
    "alibi_backward_{T}": _alibi_backward,
    "segment_sum{I}_{T}": _segment_sums,
    "unsorted_segment_sum{I}_{T}": _segment_sums,
    "segment_sum_backward{I}_{T}": _gathered,
    "unsorted_segment_sum_backward{I}_{T}": _gathered,
    "embedding_bag{I}_{T}": _bags,
    "embedding_bag_backward{I}_{T}": _bags_backward,
}
