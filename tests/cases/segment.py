# SPDX-License-Identifier: Apache-2.0
"""Segment sums, means, extremes and products, sorted and unsorted, and their gradients."""

import functools

import numpy as np

from tools.oracle.numerics import LIMITS, is_float, round_to

from .model import Array, Bad, Case, Expected, Idle, Problem

I32_MAX = 2**31 - 1


def distribution(draw, name, n, segments):
    """n ids, in any order, with one of DISTRIBUTIONS."""
    rng = draw.rng
    if name == "uniform":
        return rng.integers(0, max(segments, 1), n)
    if name == "hot":  # nine in ten in one segment
        return np.where(rng.random(n) < 0.9, segments // 2, rng.integers(0, max(segments, 1), n))
    if name == "giant":
        return np.full(n, max(segments - 1, 0))
    if name == "tiny":  # at most one row each
        return rng.permutation(max(segments, n))[:n]
    if name == "zipf":  # the k-th segment about 1 / k^1.2 times as often as the first
        return np.minimum(rng.zipf(1.2, n) - 1, max(segments - 1, 0))
    if name in ("rising", "falling"):
        ids = np.sort(rng.integers(0, max(segments, 1), n))
        return ids if name == "rising" else ids[::-1]
    if name == "ends":  # the first and last segment, and none between
        return np.where(rng.random(n) < 0.5, 0, max(segments - 1, 0))
    invalid = [-1, segments, segments + 1, -(2**31), I32_MAX]
    if draw.index == "i64":  # their low halves would be valid
        invalid += [2**32, 2**32 + segments // 2, -(2**32), 2**63 - 1, -(2**63)]
    if name == "invalid":
        return rng.choice(np.array(invalid, np.int64), n)
    if name == "mixed":
        return np.where(
            rng.random(n) < 0.3, rng.choice(np.array(invalid, np.int64), n), rng.integers(0, max(segments, 1), n)
        )
    raise ValueError(name)


DISTRIBUTIONS = ("uniform", "hot", "giant", "tiny", "zipf", "rising", "falling", "ends", "invalid", "mixed")


def operand(draw, shape, kind="normal"):
    """kind, beside those of a Draw: "factors": a product of thousands of them stays in range; "holes": these, and some
    zeros; "spiked": these, and some infinities and NaN; "ties": few values, each often; "lowest": the lowest finite
    value."""
    if not is_float(draw.dtype):
        own = {"factors": "normal", "holes": "small", "ties": "small", "spiked": "special", "lowest": "small"}
        return draw.integers(shape, own.get(kind, kind))
    rng = draw.rng
    x = np.exp(rng.standard_normal(shape) / 64) * rng.choice([1, -1], shape)
    if kind == "holes":
        x = np.where(rng.random(shape) < 0.1, rng.choice([0.0, -0.0], shape), x)
    elif kind == "spiked":
        x = np.where(rng.random(shape) < 0.05, rng.choice([np.nan, np.inf, -np.inf], shape), x)
    elif kind == "ties":
        x = rng.choice([-1.0, 0.0, 1.0, 2.0], shape)
    elif kind == "lowest":
        x = np.full(shape, -np.inf)
    elif kind != "factors":
        return draw.floats(shape, kind)
    return draw.array(round_to(x, draw.dtype).reshape(shape))


def segment_sum(draw, n, d, segments, ids="uniform", kind="normal", ordered=True, null=()):
    ids = distribution(draw, ids, n, segments)
    arrays = {
        "input": operand(draw, (n, d), kind),
        "segment_ids": draw.indices(np.sort(ids) if ordered else ids),
        "output": draw.output((segments, d)),
    }
    return Problem({"n": n, "d": d, "num_segments": segments}, arrays, null=null)


def valid_of(problem):
    ids = problem.arrays["segment_ids"].values
    valid = (ids >= 0) & (ids < problem.scalars["num_segments"])
    return valid, ids[valid].astype(np.int64)


def counts_of(problem):
    return np.bincount(valid_of(problem)[1], minlength=problem.scalars["num_segments"])[:, None]


def identity_of(reduction, dtype):
    low, high = (-np.inf, np.inf) if is_float(dtype) else LIMITS[dtype]
    return {"prod": 1, "max": low, "min": high}.get(reduction, 0)


UFUNCS = {"sum": np.add, "mean": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}


def reduced_segments(reduction, problem):
    x = problem.arrays["input"]
    valid, ids = valid_of(problem)
    whole = np.float64 if is_float(x.dtype) else np.int64
    reduction, _, or_zero = reduction.partition("_")
    value = np.full((problem.scalars["num_segments"], x.shape[1]), identity_of(reduction, x.dtype), whole)
    with np.errstate(all="ignore"):
        UFUNCS[reduction].at(value, ids, x.values[valid].astype(whole))
        if reduction == "mean":
            value = value / np.maximum(counts_of(problem), 1)
    if or_zero:
        value = np.where(counts_of(problem) == 0, 0, value)
    return value.astype(np.int32).astype(np.int64) if x.dtype == "i32" else value


def reduction_reference(reduction, problem):
    if "output" in problem.null:
        return {}
    x, value = problem.arrays["input"], reduced_segments(reduction, problem)
    if not is_float(x.dtype) or reduction.startswith(("max", "min")):
        return {"output": Expected(value)}
    count = counts_of(problem)
    if reduction == "prod":
        magnitude = np.where(np.isfinite(value), np.abs(value), 0)
        return {"output": Expected(value, np.maximum(count - 1, 0), magnitude)}
    valid, ids = valid_of(problem)
    size = np.zeros(value.shape)
    with np.errstate(over="ignore", invalid="ignore"):
        np.add.at(size, ids, np.abs(x.values[valid]))
        size = size / np.maximum(count, 1) if reduction == "mean" else size
    return {"output": Expected(value, count, size)}


def backward(draw, n, d, segments, ids="uniform", kind="normal", ordered=True, null=()):
    ids = distribution(draw, ids, n, segments)
    arrays = {
        "d_output": draw.floats((segments, d), kind if kind in FLOATS else "normal"),
        "segment_ids": draw.indices(np.sort(ids) if ordered else ids),
        "d_input": draw.output((n, d)),
    }
    return Problem({"n": n, "d": d, "num_segments": segments}, arrays, null=null)


def backward_reference(problem):
    d_output, ids = problem.arrays["d_output"].values, problem.arrays["segment_ids"].values
    value = np.zeros((len(ids), d_output.shape[1]))
    valid = (ids >= 0) & (ids < len(d_output))
    value[valid] = d_output[ids[valid]]
    return {"d_input": Expected(value)}


def mean_backward_reference(problem):
    value = backward_reference(problem)["d_input"].value
    valid, ids = valid_of(problem)
    value[valid] = value[valid] / counts_of(problem)[ids] if len(ids) else value[valid]
    return {"d_input": Expected(value, 0, np.where(np.isfinite(value), np.abs(value), 0))}


def of_input(draw, n, d, segments, ids="uniform", kind="ties", ordered=True, null=(), saves=False):
    """The gradient of a reduction that reads its input, and where it `saves`, its output."""
    problem = backward(draw, n, d, segments, ids, ordered=ordered, null=null)
    arrays = {"d_output": problem.arrays["d_output"], "input": operand(draw, (n, d), kind)}
    if saves:
        arrays["output"] = draw.output((segments, d))
    problem.arrays = arrays | {name: problem.arrays[name] for name in ("segment_ids", "d_input")}
    if saves:
        arrays = problem.arrays
        arrays["output"] = draw.array(round_to(reduced_segments("prod", problem), draw.dtype).reshape((segments, d)))
    return problem


def extreme_backward_reference(reduction, problem):
    x, dy = problem.arrays["input"].values, problem.arrays["d_output"].values
    valid, ids = valid_of(problem)
    value, rows = np.zeros(x.shape), np.flatnonzero(valid)
    best = reduced_segments(reduction, problem)
    hit = (x[rows] == best[ids]) | (np.isnan(x[rows]) & np.isnan(best[ids]))
    first = np.full(dy.shape, len(x))
    np.minimum.at(first, ids, np.where(hit, rows[:, None], len(x)))
    value[rows] = np.where(first[ids] == rows[:, None], dy[ids], 0) if len(rows) else 0
    return {"d_input": Expected(value)}


def prod_backward_reference(problem):
    """dx from the saved product; where that is 0, only the zero element has a gradient, the product of the others."""
    x, dy, y = (problem.arrays[name].values for name in ("input", "d_output", "output"))
    valid, ids = valid_of(problem)
    zeros, others = np.zeros(dy.shape), np.ones(dy.shape)
    np.add.at(zeros, ids, x[valid] == 0)
    value = np.zeros(x.shape)
    with np.errstate(all="ignore"):
        np.multiply.at(others, ids, np.where(x[valid] == 0, 1, x[valid]))
        only = np.where(zeros == 1, others, 0)
        if len(ids):
            x, y = x[valid], y[ids]
            value[valid] = dy[ids] * np.where(y != 0, y / x, np.where(x == 0, only[ids], 0))
    count = np.zeros(value.shape)
    count[valid] = 3 + counts_of(problem)[ids] * (y == 0) if len(ids) else 0
    return {"d_input": Expected(value, count, np.where(np.isfinite(value), np.abs(value), 0))}


WIDTHS = (1, 2, 3, 4, 5, 8, 12, 16, 31, 32, 33, 64, 100, 128, 130, 256, 257, 512, 1000, 1030)


FLOATS = ("normal", "positive", "special")


def problems(make, *, ordered, kinds=FLOATS, **given):
    """`kinds`: of most operands, of those that are like one another, and of those with rare values."""
    usual, alike, rare = kinds

    def add(name, *args, **options):
        options = {"kind": usual, **given, **options}
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
    add("positive", 4000, 5, 3, kind=alike)
    add("special", 90, 7, 60, kind=rare)
    add("large", 3000, 36, 251, "hot")
    return table


def empties(ordered, unsorted):
    """Missing rows or segments: outputs are zeros, or there are none."""
    make = {"no_rows": lambda d: segment_sum(d, 0, 5, 9, null=("input", "segment_ids"), ordered=ordered)}
    if unsorted:
        make["no_segments"] = lambda d: segment_sum(d, 7, 5, 0, null=("output",), ordered=False)
    return make


def bad_calls(arrays, required):
    bad = [Bad(f"negative_{e}", 2, rf"{e} is -4", {e: -4}, can=2) for e in ("n", "d", "num_segments")]
    bad += [Bad(f"negative_beside_0_{e}", 2, rf"{e} is -1", {"d": 0, e: -1}, can=2) for e in ("n", "num_segments")]
    bad += [Bad(f"null_{a}", 2, rf"{a} is NULL", null=(a,)) for a in required]
    return (*bad, *(Bad(f"odd_{a}", 1, rf"{a} is 0x[0-9a-f]+", shift={a: 1}) for a in arrays))


FORWARD, BACKWARD = ("input", "segment_ids", "output"), ("d_output", "segment_ids", "d_input")
FORWARD_IDLE = (Idle("no_segments", {"num_segments": 0}), Idle("no_columns", {"d": 0}))
BACKWARD_IDLE = (Idle("no_rows", {"n": 0}), Idle("no_columns", {"d": 0}))
KINDS = {
    "sum": FLOATS, "mean": FLOATS, "prod": ("factors", "factors", "spiked"), "max": ("normal", "ties", "special"),
    "min": ("normal", "ties", "special"),
}  # fmt: skip
KINDS |= {f"{reduction}_or_zero": KINDS[reduction] for reduction in ("max", "min")}
TOLERANCE = {"prod": "pointwise"}
BY_ATOMICS = {"sum": "atomic_total", "mean": "atomic_total", "prod": "atomic_product"}


def forward_case(reduction, *, ordered):
    tolerance = TOLERANCE.get(reduction, "total")
    lowest = {"lowest": lambda d: segment_sum(d, 40, 5, 9, kind="lowest", ordered=ordered)}
    return Case(
        row=f"{'' if ordered else 'unsorted_'}segment_{reduction}{{I}}_{{T}}",
        problems=problems(segment_sum, ordered=ordered, kinds=KINDS[reduction]) | empties(ordered, not ordered)
        | (lowest if reduction.startswith("max") else {}),
        reference=functools.partial(reduction_reference, reduction), tolerance={"output": tolerance},
        tolerance_without_workspace=None if ordered else {"output": BY_ATOMICS.get(reduction, tolerance)},
        plain="d5", large="large",
        bad=(
            *bad_calls(FORWARD, FORWARD),
            Bad("no_rows_null_output", 2, r"output is NULL", {"n": 0}, null=("output",)),
        ),
        idle=FORWARD_IDLE,
    )  # fmt: skip


def backward_case(reduction, reference, tolerance, make, pointers, *, ordered, kinds=FLOATS, **given):
    null = tuple(name for name in pointers if name != "d_input")
    return Case(
        row=f"{'' if ordered else 'unsorted_'}segment_{reduction}_backward{{I}}_{{T}}",
        problems=problems(make, ordered=ordered, kinds=kinds, **given)
        | {"no_segments": lambda d: make(d, 11, 5, 0, ordered=ordered, **given),
           "no_segments_null": lambda d: make(d, 11, 5, 0, null=null, ordered=ordered, **given)},
        reference=reference, tolerance={"d_input": tolerance}, plain="d5", large="large",
        bad=(*bad_calls(pointers, pointers),
             Bad("no_segments_null", 2, r"d_input is NULL", {"num_segments": 0}, null=("d_input",))),
        idle=BACKWARD_IDLE,
    )  # fmt: skip


OF_INPUT = ("d_output", "input", "segment_ids", "d_input")
OF_BOTH = ("d_output", "input", "output", "segment_ids", "d_input")


def cases():
    for ordered in (True, False):
        for reduction in ("sum", "mean", "max", "min", "prod"):
            yield forward_case(reduction, ordered=ordered)
        for reduction in ("max_or_zero", "min_or_zero") if ordered else ():
            yield forward_case(reduction, ordered=True)
        yield backward_case("sum", backward_reference, "exact", backward, BACKWARD, ordered=ordered)
        mean = backward_case("mean", mean_backward_reference, "total", backward, BACKWARD, ordered=ordered)
        if not ordered:  # segments that exceed a GPU's L2 cache, which are reduced in column tiles
            mean.problems["beyond_cache"] = lambda d: backward(d, 41001, 128, 41000, ordered=False)
        yield mean
        for reduction in ("max", "min"):
            reference = functools.partial(extreme_backward_reference, reduction)
            yield backward_case(
                reduction, reference, "exact", of_input, OF_INPUT, ordered=ordered,
                kinds=("ties", "normal", "special"),
            )  # fmt: skip
        yield backward_case(
            "prod", prod_backward_reference, "pointwise", of_input, OF_BOTH, ordered=ordered, saves=True,
            kinds=("holes", "factors", "spiked"),
        )  # fmt: skip


CASES = tuple(cases())

__all__ = ["CASES", "DISTRIBUTIONS", "Array", "backward", "segment_sum"]
