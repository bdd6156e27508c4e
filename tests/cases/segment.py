"""Segment sums, sorted and unsorted, and their gradient."""

import numpy as np

from .model import Array, Bad, Case, Expected, Idle, Problem

I32_MAX = 2**31 - 1


def distribution(draw, name, n, segments):
    """n ids, in any order. The distribution is one of DISTRIBUTIONS."""
    rng = draw.rng
    if name == "uniform":
        return rng.integers(0, max(segments, 1), n)
    if name == "hot":  # nine in ten in one segment
        return np.where(rng.random(n) < 0.9, segments // 2, rng.integers(0, max(segments, 1), n))
    if name == "giant":
        return np.full(n, max(segments - 1, 0))
    if name == "tiny":  # at most one row each
        return rng.permutation(max(segments, n))[:n]
    if name == "ends":  # the first and last segment, and none between
        return np.where(rng.random(n) < 0.5, 0, max(segments - 1, 0))
    invalid = [-1, segments, segments + 1, -(2**31), I32_MAX]
    if draw.index == "i64":  # whose low halves would be valid
        invalid += [2**32, 2**32 + segments // 2, -(2**32), 2**63 - 1, -(2**63)]
    if name == "invalid":
        return rng.choice(np.array(invalid, np.int64), n)
    if name == "mixed":
        return np.where(
            rng.random(n) < 0.3, rng.choice(np.array(invalid, np.int64), n), rng.integers(0, max(segments, 1), n)
        )
    raise ValueError(name)


DISTRIBUTIONS = ("uniform", "hot", "giant", "tiny", "ends", "invalid", "mixed")


def segment_sum(draw, n, d, segments, ids="uniform", kind="normal", ordered=True, null=()):
    ids = distribution(draw, ids, n, segments)
    arrays = {
        "input": draw.floats((n, d), kind),
        "segment_ids": draw.indices(np.sort(ids) if ordered else ids),
        "output": draw.output((segments, d)),
    }
    return Problem({"n": n, "d": d, "num_segments": segments}, arrays, null=null)


def segment_sum_reference(problem):
    x, ids = problem.arrays["input"].values, problem.arrays["segment_ids"].values
    segments = problem.scalars["num_segments"]
    kept = (ids >= 0) & (ids < segments)
    total, size = np.zeros((2, segments, x.shape[1]))
    count = np.bincount(ids[kept].astype(np.int64), minlength=segments)[:segments, None]
    with np.errstate(invalid="ignore", over="ignore"):
        np.add.at(total, ids[kept], x[kept])
        np.add.at(size, ids[kept], np.abs(x[kept]))
    return {} if "output" in problem.null else {"output": Expected(total, count, size)}


def backward(draw, n, d, segments, ids="uniform", kind="normal", ordered=True, null=()):
    ids = distribution(draw, ids, n, segments)
    arrays = {
        "d_output": draw.floats((segments, d), kind),
        "segment_ids": draw.indices(np.sort(ids) if ordered else ids),
        "d_input": draw.output((n, d)),
    }
    return Problem({"n": n, "d": d, "num_segments": segments}, arrays, null=null)


def backward_reference(problem):
    d_output, ids = problem.arrays["d_output"].values, problem.arrays["segment_ids"].values
    value = np.zeros((len(ids), d_output.shape[1]))
    kept = (ids >= 0) & (ids < len(d_output))
    value[kept] = d_output[ids[kept]]
    return {"d_input": Expected(value)}


WIDTHS = (1, 2, 3, 4, 5, 8, 12, 16, 31, 32, 33, 64, 100, 128, 130, 256, 257, 512, 1000, 1030)


def problems(make, *, ordered):
    def add(name, *args, **options):
        table[name] = lambda d: make(d, *args, ordered=ordered, **options)

    table = {}
    add("one", 1, 1, 1)
    for width in WIDTHS:
        add(f"d{width}", 61, width, 13)
    for ids in DISTRIBUTIONS:
        add(ids, 301, 6, 23, ids)
    add("one_segment", 777, 5, 1)
    add("rows_short", 3, 40, 100)
    add("long_segment", 20000, 3, 7, "giant")
    add("long_wide", 4000, 260, 5, "giant")
    add("mixed_wide", 2000, 132, 40, "mixed")
    add("many_tiny", 5000, 4, 5000, "tiny")
    add("sparse", 50, 3, 20011)
    add("positive", 4000, 5, 3, kind="positive")
    add("special", 90, 7, 60, kind="special")
    add("large", 3000, 36, 251, "hot")
    return table


def empties(ordered, unsorted):
    """Rows or segments missing: outputs are zeros, or there are none."""
    make = {"no_rows": lambda d: segment_sum(d, 0, 5, 9, null=("input", "segment_ids"), ordered=ordered)}
    if unsorted:
        make["no_segments"] = lambda d: segment_sum(d, 7, 5, 0, null=("output",), ordered=False)
    return make


def bad_calls(arrays, required):
    bad = [Bad(f"negative_{e}", 2, rf"{e} is -4", {e: -4}, can=2) for e in ("n", "d", "num_segments")]
    bad += [Bad(f"negative_beside_0_{e}", 2, rf"{e} is -1", {"d": 0, e: -1}, can=2) for e in ("n", "num_segments")]
    bad += [Bad(f"null_{a}", 2, rf"{a} is NULL", null=(a,)) for a in required]
    return (*bad, *(Bad(f"odd_{a}", 1, rf"{a} is 0x[0-9a-f]+", shift={a: 1}) for a in arrays))


SHORT = Bad("short_workspace", 4, r"workspace_bytes is \d+", short=True)
FORWARD, BACKWARD = ("input", "segment_ids", "output"), ("d_output", "segment_ids", "d_input")
FORWARD_IDLE = (Idle("no_segments", {"num_segments": 0}), Idle("no_columns", {"d": 0}))
BACKWARD_IDLE = (Idle("no_rows", {"n": 0}), Idle("no_columns", {"d": 0}))


CASES = (
    Case(
        row="segment_sum{I}_{T}",
        problems=problems(segment_sum, ordered=True) | empties(True, False),
        reference=segment_sum_reference, tolerance={"output": "total"}, plain="d5", large="large",
        bad=(
            *bad_calls(FORWARD, FORWARD), SHORT,
            Bad("no_rows_null_output", 2, r"output is NULL", {"n": 0}, null=("output",)),
        ),
        idle=FORWARD_IDLE,
    ),
    Case(
        row="unsorted_segment_sum{I}_{T}",
        problems=problems(segment_sum, ordered=False) | empties(False, True),
        reference=segment_sum_reference, tolerance={"output": "total"},
        tolerance_without_workspace={"output": "atomic_total"}, plain="d5", large="large",
        bad=(
            *bad_calls(FORWARD, FORWARD), SHORT,
            Bad("no_rows_null_output", 2, r"output is NULL", {"n": 0}, null=("output",)),
        ),
        idle=FORWARD_IDLE,
    ),
    *(
        Case(
            row=row, problems=problems(backward, ordered=ordered)
            | {"no_segments": lambda d, o=ordered: backward(d, 11, 5, 0, ordered=o),
               "no_segments_null": lambda d, o=ordered: backward(d, 11, 5, 0, null=BACKWARD[:2], ordered=o)},
            reference=backward_reference, tolerance={"d_input": "exact"}, plain="d5", large="large",
            bad=(*bad_calls(BACKWARD, BACKWARD),
                 Bad("no_segments_null", 2, r"d_input is NULL", {"num_segments": 0}, null=("d_input",))),
            idle=BACKWARD_IDLE,
        )
        for row, ordered in (
            ("segment_sum_backward{I}_{T}", True),
            ("unsorted_segment_sum_backward{I}_{T}", False),
        )
    ),
)  # fmt: skip

__all__ = ["CASES", "DISTRIBUTIONS", "Array", "backward", "segment_sum"]
