# SPDX-License-Identifier: Apache-2.0
"""The k-th value, median, mode and quantiles along an axis, and the gradient of quantiles."""

import math

import numpy as np

from ..model import Array, Bad, Case, Expected, Idle, Problem, strides_for
from .order import elements, order_of, replaced
from .topk import pointers, problems

KINDS = ("linear", "lower", "higher", "midpoint", "nearest")


def scalars_of(shape, axis):
    one = replaced(shape, axis, 1)
    return {"rows_numel": math.prod(one), "rank": len(shape), "order_axis": axis, "axis_len": shape[axis]}, one


# --- one result a row -------------------------------------------------------------------------------------------------


def one_result(draw, shape, axis, kind="normal", x=None, values=None, indices=None, k=None):
    """x, values and indices are options of strides_for; k: of kthvalue."""
    scalars, one = scalars_of(shape, axis)
    strides = [strides_for(s, **o or {}) for s, o in ((shape, x), (one, values), (one, indices))]
    arrays = {
        "x": elements(draw, shape, kind, axis, strides[0]), "values": draw.output(one, strides[1]),
        "indices": draw.output(one, strides[2], draw.index),
    }  # fmt: skip
    host = {"rows_shape": one} | dict(zip(("stride_x", "stride_values", "stride_indices"), strides))
    return Problem(scalars | ({} if k is None else {"k": k}), arrays, host, function=draw.function)


def kth(draw, shape, axis, kind="normal", x=None, values=None, indices=None, part=0.4):
    """part: of the way through the order."""
    return one_result(draw, shape, axis, kind, x, values, indices, int(part * (shape[axis] - 1)))


def taken(problem, rank):
    """The elements of these ranks, an array with extent 1 along the axis, and their indices."""
    x, axis = problem.arrays["x"], problem.scalars["order_axis"]
    index = np.take_along_axis(order_of(x, axis), rank, axis)
    values = np.take_along_axis(np.asarray(x.values), index, axis)
    return {"values": Expected(values), "indices": Expected(index)}


def numbers_of(x, axis):
    """The number of elements along the axis that are not NaN."""
    values = np.asarray(x.values)
    is_number = ~np.isnan(values) if values.dtype.kind == "f" else np.ones(values.shape, bool)
    return np.sum(is_number, axis, keepdims=True)


def kth_reference(problem):
    return taken(problem, np.full(problem.host["rows_shape"], problem.scalars["k"]))


def median_reference(problem):
    x, axis = problem.arrays["x"], problem.scalars["order_axis"]
    length, numbers = x.shape[axis], numbers_of(x, axis)
    whole = numbers == length
    rank = (numbers - 1) // 2
    if problem.function == "median":
        return taken(problem, np.where(whole, rank, numbers))
    return taken(problem, np.where(numbers == 0, 0, rank))


def mode_reference(problem):
    x, axis = problem.arrays["x"], problem.scalars["order_axis"]
    order = np.moveaxis(order_of(x, axis), axis, -1)
    values = np.moveaxis(np.asarray(x.values), axis, -1)
    known = values != 0 if x.dtype == "bool" else values
    index = np.zeros((*order.shape[:-1], 1), np.int64)
    for row in np.ndindex(order.shape[:-1]):
        ordered = known[row][order[row]]
        ranks = np.unique(ordered, return_inverse=True)[1]
        best = np.bincount(ranks).argmax()
        index[row] = order[row][np.flatnonzero(ranks == best)[-1]]
    index = np.moveaxis(index, -1, axis)
    found = np.take_along_axis(np.asarray(x.values), index, axis)
    return {"values": Expected(found), "indices": Expected(index)}


ONE = {
    "plain": ((3, 9, 5), 1), "last": ((4, 60), 1, "ties"), "first": ((70, 9), 0), "vector": ((300,), 0, "wide"),
    "one": ((5, 1), 1), "special": ((6, 41), 1, "special"), "ties": ((3, 1300), 1, "ties"),
    "equal": ((2, 700), 1, "equal"),
    "nan": ((2, 30), 1, "nan"), "rising": ((2, 2500), 1, "rising"), "close": ((3, 3000), 1, "close"),
    "gaps": ((3, 50), 1, "ties", {"gap": 3, "pad": 5}, {"pad": 1}, {"gap": 2}),
    "flipped": ((5, 80), 1, "special", {"flip": (1,)}, {"flip": (0,)}, {"order": (1, 0)}),
    "permuted": ((3, 4, 50, 2), 2, "ties", {"order": (2, 0, 3, 1)}, {"order": (1, 3, 0, 2)}),
    "broadcast": ((4, 33), 1, "normal", {"broadcast": (0,)}), "long": ((1, 9000), 1, "wide"), "large": ((30, 50, 7), 1),
}  # fmt: skip
ONE_BRIEF = ("plain", "special", "ties", "flipped", "close")


def bad_axes(names, outputs=("stride_values", "stride_indices")):
    bad = [
        Bad("negative_rows", 2, r"rows_numel is -1", {"rows_numel": -1}, can=2),
        Bad("other_rows", 2, r"rows_numel is 16, but rows_shape has 15", {"rows_numel": 16}, can=2),
        Bad("rank_9", 2, r"rank is 9", {"rank": 9}, can=2),
        Bad("axis_3", 2, r"order_axis is 3", {"order_axis": 3}, can=2),
        Bad("axis_of_rows", 2, r"rows_shape\[0\] is 3, must be 1", {"order_axis": 0}, can=2),
        Bad("negative_length", 2, r"axis_len is -4", {"axis_len": -4}, can=2),
        Bad("null_shape", 2, r"rows_shape is NULL", host={"rows_shape": None}, can=2),
    ]
    for name in names:
        bad.append(Bad(f"null_{name}", 2, rf"{name} is NULL", host={name: None}, can=2))
        bad.append(Bad(f"far_{name}", 2, rf"{name}\[0\] is {2**61}", host={name: (2**61, 9, 1)}, can=2))
    bad += [Bad(f"still_{n}", 2, rf"{n}\[0\] is 0, but an output", host={n: (0, 9, 1)}, can=2) for n in outputs]
    return tuple(bad)


EMPTY = Bad("no_elements", 2, r"axis_len is 0, must be >= 1", {"axis_len": 0}, can=2)
IDLE = (Idle("no_rows", {"rows_numel": 0}, {"rows_shape": (0, 1, 5)}),)

# --- quantiles --------------------------------------------------------------------------------------------------------

Q = (0.5, 0.0, 1.0, 0.25, 0.1, 0.9, 1 / 3)


def quantile(draw, shape, axis, q=Q, kind="linear", of="normal", x=None):
    scalars, one = scalars_of(shape, axis)
    strides = strides_for(shape, **x or {})
    table = (len(q), scalars["rows_numel"])
    arrays = {
        "x": elements(draw, shape, of, axis, strides), "q": Array("f64", (len(q),), np.array(q, np.float64)),
        "y": draw.output(table), "lower": draw.output(table, dtype="i64"), "upper": draw.output(table, dtype="i64"),
        "weight": draw.output(table, dtype="f64"),
    }  # fmt: skip
    scalars |= {"q_count": len(q), "interpolation": KINDS.index(kind)}
    return Problem(scalars, arrays, {"rows_shape": one, "stride_x": strides}, function=draw.function)


def position_of(kind, position):
    """Rank below, and the weight of the next one."""
    lower = math.floor(position)
    fraction = position - lower
    if kind == "linear":
        return lower, fraction
    if kind == "midpoint":
        return lower, 0.5 if fraction > 0 else 0.0
    return {"lower": lower, "higher": math.ceil(position), "nearest": round(position)}[kind], 0.0


def between(low, high, weight):
    """Interpolation of two elements, in longdouble."""
    if weight == 0 or low == high:
        return low
    if not np.isfinite([low, high]).all():
        return _far(low, high)
    return low + np.longdouble(weight) * (np.longdouble(high) - low)


def _far(low, high):
    """Interpolation between infinities, or one of them and a number."""
    return np.nan if np.isinf(low) and np.isinf(high) else low if np.isinf(low) else high


def quantile_reference(problem):
    x, s = problem.arrays["x"], problem.scalars
    axis, kind = s["order_axis"], KINDS[s["interpolation"]]
    order = np.moveaxis(order_of(x, axis), axis, -1).reshape(-1, s["axis_len"])
    values = np.moveaxis(np.asarray(x.values), axis, -1).reshape(-1, s["axis_len"])
    shape = (s["q_count"], s["rows_numel"])
    y, weight, size = np.zeros(shape, np.longdouble), np.zeros(shape), np.zeros(shape)
    lower, upper = np.full(shape, -1, np.int64), np.full(shape, -1, np.int64)
    for r in range(shape[1]):
        ordered, numbers = values[r][order[r]], int(np.sum(~np.isnan(values[r])))
        for j, q in enumerate(problem.arrays["q"].values):
            if numbers < s["axis_len"] and (problem.function == "quantile" or not numbers):
                rank, w = numbers, 0.0
            elif not 0 <= q <= 1:
                y[j, r] = np.nan
                continue
            else:
                rank, w = position_of(kind, float(q) * (numbers - 1))
            top = rank + (w > 0)
            lower[j, r], upper[j, r], weight[j, r] = order[r][rank], order[r][top], w
            y[j, r] = between(ordered[rank], ordered[top], w)
            if w > 0 and np.isfinite(y[j, r]):
                size[j, r] = max(abs(ordered[rank]), abs(ordered[top]))
    size *= 1.0 if x.dtype == "f64" else 2.0**-29  # computed in f64
    return {"y": Expected(y, 4, size), "lower": Expected(lower), "upper": Expected(upper), "weight": Expected(weight)}


QUANTILES = {
    "plain": ((3, 9, 5), 1), "last": ((4, 60), 1, Q, "midpoint"), "first": ((70, 9), 0, Q, "lower"),
    "vector": ((300,), 0, Q, "higher", "wide"), "one": ((5, 1), 1), "two": ((5, 2), 1, Q, "nearest"),
    "special": ((6, 41), 1, Q, "linear", "special"), "nan": ((2, 30), 1, Q, "linear", "nan"),
    "ties": ((3, 1300), 1, Q, "linear", "ties"), "outside": ((3, 20), 1, (-0.1, 1.5, math.nan, 0.5)),
    "gaps": ((3, 50), 1, Q, "linear", "normal", {"gap": 3, "pad": 5}),
    "flipped": ((5, 80), 1, Q, "nearest", "normal", {"flip": (0, 1)}),
    "permuted": ((3, 4, 50, 2), 2, Q, "linear", "normal", {"order": (2, 0, 3, 1)}),
    "broadcast": ((4, 33), 1, Q, "linear", "normal", {"broadcast": (0,)}), "no_q": ((3, 20), 1, (0.5,)),
    "long": ((1, 9000), 1, (0.5, 0.999), "linear", "wide"), "large": ((60, 50, 7), 1, (0.1, 0.77)),
}  # fmt: skip
QUANTILE_BRIEF = ("plain", "special", "last", "flipped", "outside")


def gradient(draw, shape, axis, q_count=4, spread="inside", kind="normal", dx=None):
    """spread: "inside"; "mixed": some indices out of range; "one": all at one element."""
    scalars, one = scalars_of(shape, axis)
    table = (q_count, scalars["rows_numel"])
    index = draw.rng.integers(0, shape[axis], (2, *table))
    if spread == "one":
        index[:] = shape[axis] // 2
    elif spread == "mixed":
        outside = draw.rng.choice([-1, shape[axis], 2**40], index.shape)
        index = np.where(draw.rng.random(index.shape) < 0.2, outside, index)
    weight = np.where(draw.rng.random(table) < 0.3, 0.0, np.round(draw.rng.random(table) * 64) / 64)
    strides = strides_for(shape, **dx or {})
    arrays = {
        "dy": draw.values(table, kind), "lower": Array("i64", table, index[0]), "upper": Array("i64", table, index[1]),
        "weight": Array("f64", table, weight), "dx": draw.output(shape, strides),
    }  # fmt: skip
    host = {"rows_shape": one, "stride_dx": strides}
    return Problem(scalars | {"q_count": q_count}, arrays, host, function=draw.function)


def gradient_reference(problem):
    a, s = problem.arrays, problem.scalars
    length, rows = s["axis_len"], s["rows_numel"]
    dx, size, count = (np.zeros((rows, length), np.longdouble) for _ in range(3))
    for name in ("lower", "upper"):
        index, weight = a[name].values, a["weight"].values
        share = 1 - weight if name == "lower" else weight
        for j, r in np.ndindex(index.shape):
            if 0 <= index[j, r] < length and (name == "lower" or weight[j, r] != 0):
                part = np.longdouble(a["dy"].values[j, r]) * share[j, r]
                dx[r, index[j, r]] += part
                size[r, index[j, r]] += abs(part)
                count[r, index[j, r]] += 1
    shape = a["dx"].shape
    moved = replaced(shape, s["order_axis"], length)
    others = [extent for d, extent in enumerate(moved) if d != s["order_axis"]]
    whole = [np.moveaxis(each.reshape((*others, length)), -1, s["order_axis"]) for each in (dx, size, count)]
    if a["dx"].dtype != "f64":  # sums are in f64
        whole[1] = whole[1] * 2.0**-29
    return {"dx": Expected(whole[0], 2 + whole[2].astype(np.float64), whole[1].astype(np.float64))}


GRADIENTS = {
    "plain": ((3, 9, 5), 1), "last": ((4, 60), 1, 9, "mixed"), "first": ((70, 9), 0), "one": ((5, 1), 1, 3),
    "no_q": ((3, 20), 1, 0), "same": ((3, 20), 1, 12, "one"),
    "flipped": ((5, 80), 1, 4, "inside", "normal", {"flip": (0, 1)}),
    "gaps": ((3, 50), 1, 3, "inside", "normal", {"gap": 3, "pad": 5}),
    "permuted": ((3, 4, 50, 2), 2, 4, "inside", "normal", {"order": (2, 0, 3, 1)}), "large": ((30, 50, 7), 1, 3),
}  # fmt: skip

CASES = (
    Case(
        row="kthvalue{I}_{T}", problems=problems(kth, ONE), reference=kth_reference,
        tolerance={"values": "exact", "indices": "exact"}, plain="plain", large="large", brief=ONE_BRIEF,
        full=lambda slots: slots["T"] in ("f32", "f16") and slots["I"] == "i64",
        bad=(
            *bad_axes(("stride_x", "stride_values", "stride_indices")), EMPTY,
            Bad("k_beyond", 2, r"k is 9, must be in \[0, axis_len\), and axis_len is 9", {"k": 9}, can=2),
            Bad("negative_k", 2, r"k is -1, must be in \[0, axis_len\)", {"k": -1}, can=2),
            *pointers("x", "values", "indices"),
        ),
        idle=IDLE,
    ),
    *(
        Case(
            row=row, problems=problems(one_result, ONE), reference=reference,
            tolerance={"values": "exact", "indices": "exact"}, plain="plain", large="large", brief=ONE_BRIEF,
            full=lambda slots: slots["T"] in ("f32", "f16") and slots["I"] == "i64",
            bad=(
                *bad_axes(("stride_x", "stride_values", "stride_indices")), EMPTY, *pointers("x", "values", "indices"),
            ),
            idle=IDLE,
        )
        for row, reference in (("{F}{I}_{T}", median_reference), ("mode{I}_{T}", mode_reference))
    ),
    Case(
        row="{F}_{T}", problems=problems(quantile, QUANTILES), reference=quantile_reference,
        tolerance={"y": "pointwise", "lower": "exact", "upper": "exact", "weight": "exact"}, plain="plain",
        large="large", brief=QUANTILE_BRIEF, full=lambda slots: slots["T"] in ("f32", "f64"),
        bad=(
            *bad_axes(("stride_x",), ()), EMPTY, Bad("negative_q", 2, r"q_count is -2", {"q_count": -2}, can=2),
            *(Bad(f"kind_{n}", 2, rf"interpolation is {n}, must be in \[0, 4\]", {"interpolation": n}, can=2)
              for n in (-1, 5)),
            *pointers("x", "q", "y", "lower", "upper", "weight"),
        ),
        idle=(*IDLE, Idle("no_q", {"q_count": 0})),
    ),
    Case(
        row="{F}_backward_{T}", problems=problems(gradient, GRADIENTS), reference=gradient_reference,
        tolerance={"dx": "total"}, plain="plain", large="large", brief=("plain", "last", "flipped", "same"),
        bad=(
            *bad_axes(("stride_dx",), ("stride_dx",)), Bad("negative_q", 2, r"q_count is -2", {"q_count": -2}, can=2),
            *pointers("dy", "lower", "upper", "weight", "dx"),
        ),
        idle=(*IDLE, Idle("no_elements", {"axis_len": 0})),
    ),
)  # fmt: skip
