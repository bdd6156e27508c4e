# SPDX-License-Identifier: Apache-2.0
"""Scans along an axis and their gradients."""

import dataclasses
import math

import numpy as np

from tools.oracle.numerics import round_to

from .model import Bad, Case, Expected, Idle, Problem, strides_for
from .reduce.one_axis import alternating

SAVES = ("cumprod", "log_cumsum_exp")  # their gradients read y

# --- references: scans over axis 0, forward ---------------------------------------------------------------------------


def running_extreme(x, sign):
    """The largest of sign * x so far, and its index: the first of equals, the first NaN."""
    value, index = np.array(x), np.zeros(x.shape, np.int64)
    for k in range(1, len(x)):
        new, old = x[k], value[k - 1]
        wins = (new > old if sign > 0 else new < old) | (np.isnan(new) & ~np.isnan(old))
        value[k] = np.where(wins, x[k], value[k - 1])
        index[k] = np.where(wins, k, index[k - 1])
    return value, index


def along(axis, reverse, *arrays):
    """The arrays with the axis in front, in the order of the scan; a scalar array has no axis."""
    wide = [a if np.issubdtype(np.asarray(a).dtype, np.integer) else np.asarray(a, np.float64) for a in arrays]
    moved = [np.moveaxis(a, axis, 0) for a in wide]
    return [a[::-1] if reverse else a for a in moved]


def back(axis, reverse, array):
    return np.moveaxis(array[::-1] if reverse else array, 0, axis)


def expected(problem, value, count, magnitude, of_exp):
    """Moved back to the order of the array. Sums and products of f32 accumulate in f64, so their errors are smaller by
    2^-29."""
    if problem.arrays["x"].dtype == "f32" and problem.function in ("cumsum", "cumprod", "cummax", "cummin"):
        magnitude = magnitude * 2.0**-29
    axis, reverse = problem.scalars["scan_axis"], problem.scalars["reverse"]
    arrays = [back(axis, reverse, np.asarray(a, np.float64)) for a in (value, count, magnitude, of_exp)]
    return Expected(*arrays)


def of_integers(problem):
    """Integer scans modulo 2^width."""
    axis, reverse = problem.scalars["scan_axis"], problem.scalars["reverse"]
    x = np.moveaxis(problem.arrays["x"].values.astype(np.int64), axis, 0)
    ufunc = {"cumsum": np.add, "cumprod": np.multiply, "cummax": np.maximum, "cummin": np.minimum}[problem.function]
    with np.errstate(over="ignore"):
        value = ufunc.accumulate(x[::-1] if reverse else x, 0)
    width = np.int32 if problem.arrays["x"].dtype == "i32" else np.int64
    return {"y": Expected(back(axis, reverse, value.astype(width).astype(np.int64)))}


def shifted(array, axis, reverse, first):
    """Each element moved by one index in the order of the scan."""
    moved = np.moveaxis(np.asarray(array), axis, 0)
    ends = np.full_like(moved[:1], first)
    moved = np.concatenate([moved[1:], ends] if reverse else [ends, moved[:-1]])
    return np.moveaxis(moved, 0, axis)


def exclusive_reference(problem):
    """The inclusive result of the previous index."""
    axis, reverse = problem.scalars["scan_axis"], problem.scalars["reverse"]
    whole = forward_reference(problem)["y"]
    start = {"cumsum": 0.0, "cumprod": 1.0, "cummin": np.inf}.get(problem.function, -np.inf)
    fields = (whole.value, whole.count, whole.magnitude, whole.divided)
    return {"y": Expected(*[shifted(a, axis, reverse, start if k == 0 else 0) for k, a in enumerate(fields)])}


def exclusive_integers_reference(problem):
    info = np.iinfo(np.int32 if problem.arrays["x"].dtype == "i32" else np.int64)
    start = {"cumsum": 0, "cumprod": 1, "cummin": info.max, "cummax": info.min}[problem.function]
    whole = of_integers(problem)["y"].value
    return {"y": Expected(shifted(whole, problem.scalars["scan_axis"], problem.scalars["reverse"], start))}


def exclusive_gradient_reference(problem):
    """The gradient of the inclusive scan with dy and y shifted by one index. The total of all elements is no result of
    the exclusive scan, so its dy is 0."""
    axis, reverse = problem.scalars["scan_axis"], problem.scalars["reverse"]
    arrays = {name: problem.arrays[name] for name in ("dy", "x", "y") if name in problem.arrays}
    moved = {
        name: dataclasses.replace(array, values=shifted(array.values, axis, not reverse, 0))
        for name, array in arrays.items()
        if name != "x"
    }
    inclusive = Problem(problem.scalars, arrays | moved, function=problem.function or "cumsum")
    return (cumsum_backward_reference if "x" not in arrays else backward_reference)(inclusive)


def indices_reference(problem):
    axis, reverse = problem.scalars["scan_axis"], problem.scalars["reverse"]
    (x,) = along(axis, reverse, problem.arrays["x"].values)
    value, index = running_extreme(x, 1 if problem.function == "cummax" else -1)
    index = len(x) - 1 - index if reverse else index
    return {"y": Expected(back(axis, reverse, value)), "indices": Expected(back(axis, reverse, index))}


def cumsum_backward_reference(problem):
    """The sum of dy from the other end."""
    scalars = problem.scalars | {"reverse": 1 - problem.scalars["reverse"]}
    sums = Problem(scalars, {"x": problem.arrays["dy"]}, function="cumsum")
    return {"dx": forward_reference(sums)["y"]}


def forward_reference(problem):
    axis, reverse = problem.scalars["scan_axis"], problem.scalars["reverse"]
    (x,) = along(axis, reverse, problem.arrays["x"].values)
    counts = np.arange(1, len(x) + 1).reshape(-1, *[1] * (x.ndim - 1))
    magnitude = of_exp = np.zeros(x.shape)
    with np.errstate(all="ignore"):
        if problem.function == "cumsum":
            value, magnitude = np.cumsum(x, 0, np.longdouble), np.cumsum(np.abs(x), 0)
        elif problem.function == "cumprod":
            value = np.cumprod(x, 0, np.longdouble)
            magnitude = np.abs(value)
        elif problem.function == "log_cumsum_exp":
            value = np.logaddexp.accumulate(x.astype(np.longdouble), 0)
            magnitude, of_exp = np.ones(x.shape), np.abs(value) + 1
        else:
            value, _ = running_extreme(x, 1 if problem.function == "cummax" else -1)
    return {"y": expected(problem, value, np.broadcast_to(counts, x.shape), magnitude, of_exp)}


def product_tails(dy, x, y):
    """Sum over i >= j of dy[i] prod x[k], k <= i, k != j, which is dx divided by y[j - 1]; and the sum of the
    magnitudes."""
    value, size = np.zeros(x.shape, np.longdouble), np.zeros(x.shape, np.longdouble)
    tail, tail_size = (np.zeros(x.shape[1:], np.longdouble) for _ in range(2))
    for j in reversed(range(len(x))):
        before = y[j - 1] if j > 0 else 1.0
        value[j], size[j] = before * (dy[j] + tail), np.abs(before) * (np.abs(dy[j]) + tail_size)
        value[j] = np.where((dy[j] + tail == 0) & np.isinf(before), 0, value[j])  # overflowed, and no result has it
        tail, tail_size = x[j] * (dy[j] + tail), np.abs(x[j]) * (np.abs(dy[j]) + tail_size)
    return value, size


def backward_reference(problem):
    axis, reverse = problem.scalars["scan_axis"], problem.scalars["reverse"]
    names = [name for name in ("dy", "x", "y") if name in problem.arrays]
    dy, x, *y = along(axis, reverse, *(problem.arrays[name].values for name in names))
    left = np.broadcast_to(np.arange(len(x), 0, -1).reshape(-1, *[1] * (x.ndim - 1)), x.shape)
    of_exp = np.zeros(x.shape)
    with np.errstate(all="ignore"):
        if problem.function == "cumprod":
            value, size = product_tails(dy, x, *y)
            left = 3 * left  # a product and a sum for each index, and the product that the summand is
        elif problem.function == "log_cumsum_exp":
            value, size = np.zeros(x.shape), np.zeros(x.shape)
            for j in range(len(x)):
                share = dy[j:] * np.exp(x[j] - y[0][j:])
                value[j], size[j] = np.sum(share, 0), np.sum(np.abs(share), 0)
                of_exp[j] = np.sum(np.abs(share) * (2 + np.abs(x[j]) + np.abs(y[0][j:])), 0)
            value, size, of_exp = (np.where(x == -np.inf, 0, v) for v in (value, size, of_exp))
        else:
            _, index = running_extreme(x, 1 if problem.function == "cummax" else -1)
            value, size = np.zeros(x.shape), np.zeros(x.shape)
            others = np.indices(x.shape)[1:]
            np.add.at(value, (index, *others), dy)
            np.add.at(size, (index, *others), np.abs(dy))
    return {"dx": expected(problem, value, left, size, of_exp)}


# --- problems ---------------------------------------------------------------------------------------------------------


def scalars_of(shape, axis, reverse):
    return {
        "numel": math.prod(shape), "rank": len(shape), "scan_axis": axis, "scan_extent": shape[axis],
        "reverse": int(reverse),
    }  # fmt: skip


def elements(draw, shape, kind, strides):
    """kind is one of draw.floats; or "ties": few values; "zeros": one in ten; "infinite": also NaN; "least": also
    -infinity; "alternating": large values of alternating sign.
    Products of many operands stay in the range of 16 bits, and partial products in that of f64: the operands are near
    1.
    """
    if draw.dtype in ("i32", "i64"):
        return integer_elements(draw, shape, kind, strides)
    product = draw.function == "cumprod"
    x = draw.floats(shape, kind if kind in ("special", "positive") else "normal", strides)
    rng, values = draw.rng, x.values
    if product and kind != "zeros":
        strange = ~np.isfinite(values) | (values == 0)
        values = np.where(strange, values, round_to(1 + np.clip(values, -2, 2) / 64, draw.dtype))
    chosen = rng.random(shape)
    if kind == "ties":
        values = rng.integers(-3, 4, shape).astype(np.float64)
    elif kind == "alternating" and not product:
        values = round_to(alternating(draw, shape), draw.dtype)
    elif kind == "zeros":
        values = np.where(chosen < 0.1, 0, values)
    elif kind == "infinite":
        values = np.where(chosen < 0.2, np.where(chosen < 0.02, np.inf, -np.inf), values)
        values = np.where(chosen > 0.98, np.nan, values)
    elif kind == "least" and not product:
        values = np.where(chosen < 0.2, -np.inf, values)
    return draw.array(values, draw.dtype, strides)


def integer_elements(draw, shape, kind, strides):
    kind = "special" if kind == "special" else "small" if kind in ("ties", "zeros") else "normal"
    return draw.integers(shape, kind, strides)


def forward(draw, shape, axis, reverse=False, kind="normal", x=None, y=None):
    x, y = strides_for(shape, **x or {}), strides_for(shape, **y or {})
    arrays = {"x": elements(draw, shape, kind, x), "y": draw.output(shape, y)}
    scalars = scalars_of(shape, axis, reverse) | {"scan_stride_x": x[axis]}
    return Problem(scalars, arrays, {"shape": tuple(shape), "stride_x": x, "stride_y": y}, function=draw.function)


def with_indices(draw, shape, axis, reverse=False, kind="normal", x=None, y=None):
    x, y = strides_for(shape, **x or {}), strides_for(shape, **y or {})
    arrays = {"x": elements(draw, shape, kind, x), "y": draw.output(shape, y), "indices": draw.output(shape, y, "i64")}
    host = {"shape": tuple(shape), "stride_x": x, "stride_y": y, "stride_indices": y}
    return Problem(scalars_of(shape, axis, reverse), arrays, host, function=draw.function)


def cumsum_backward(draw, shape, axis, reverse=False, kind="normal", x=None, dx=None):
    """x has the layout of dy."""
    dy, dx = strides_for(shape, **x or {}), strides_for(shape, **dx or {})
    kind = kind if kind in ("special", "positive") else "normal"
    arrays = {"dy": draw.floats(shape, kind, dy), "dx": draw.output(shape, dx)}
    host = {"shape": tuple(shape), "stride_dy": dy, "stride_dx": dx}
    return Problem(scalars_of(shape, axis, reverse), arrays, host)


def backward(draw, shape, axis, reverse=False, kind="normal", dy=None, x=None, y=None, dx=None, results=None):
    """results: the reference of the scan whose results are saved; by default the inclusive one's."""
    layouts = {"dy": dy, "x": x, "y": y, "dx": dx}
    strides = {name: strides_for(shape, **layout or {}) for name, layout in layouts.items()}
    saves = draw.function in SAVES
    arrays = {
        "dy": draw.floats(shape, "normal" if kind != "special" else kind, strides["dy"]),
        "x": elements(draw, shape, kind, strides["x"]),
    }
    if saves:
        given = Problem(scalars_of(shape, axis, reverse), {"x": arrays["x"]}, function=draw.function)
        value = (results or forward_reference)(given)["y"].value
        arrays["y"] = draw.array(round_to(value, draw.dtype), draw.dtype, strides["y"])
    else:
        del strides["y"]
    arrays["dx"] = draw.output(shape, strides["dx"])
    host = {"shape": tuple(shape)} | {f"stride_{name}": value for name, value in strides.items()}
    return Problem(scalars_of(shape, axis, reverse), arrays, host, function=draw.function)


def exclusive_backward(draw, shape, axis, **options):
    return backward(draw, shape, axis, results=exclusive_reference, **options)


CUBE = (5, 7, 9)
PERMUTED = {"order": (2, 0, 1)}
SHAPES = {  # shape, axis, options
    "one": ((1,), 0, {}),
    "flat": ((33,), 0, {}),
    "plain": (CUBE, 1, {}),
    "first": (CUBE, 0, {}),
    "last": (CUBE, 2, {}),
    "back": (CUBE, 1, {"reverse": True}),
    "back_first": (CUBE, 0, {"reverse": True}),
    "back_last": (CUBE, 2, {"reverse": True}),
    "vectors": ((6, 64), 1, {}),
    "back_vectors": ((6, 64), 1, {"reverse": True}),
    "short_rows": ((67, 3), 1, {}),
    "short_columns": ((3, 67), 0, {}),
    "single": ((9, 1, 5), 1, {}),
    "columns": ((70, 40), 0, {}),
    "columns_back": ((70, 40), 0, {"reverse": True}),
    **{f"rows_{n}": ((3, n), 1, {}) for n in (31, 32, 1023, 1025)},
    "rows_513": ((3, 513), 1, {}),
    "rows_1024": ((3, 1024), 1, {"reverse": True}),
    "long_columns": ((1030, 5), 0, {}),
    "rank8": ((2, 1, 3, 2, 1, 2, 2, 3), 3, {"y": {"order": (3, 1, 0, 7, 5, 6, 2, 4)}}),
    "permuted_in": (CUBE, 2, {"x": PERMUTED}),
    "permuted_out": (CUBE, 2, {"y": PERMUTED}),
    "flipped": (CUBE, 1, {"x": {"flip": (0, 1, 2)}}),
    "flipped_out": (CUBE, 2, {"y": {"flip": (0, 2)}}),
    "both_flipped": ((3, 64), 1, {"x": {"flip": (1,)}, "y": {"flip": (1,)}}),
    "gaps": ((13, 17), 1, {"x": {"gap": 2, "pad": 1}, "y": {"gap": 3}}),
    "padded": ((7, 64), 1, {"x": {"pad": 8}, "y": {"pad": 16}}),
    "broadcast": ((19, 24), 1, {"x": {"broadcast": (0,)}}),
    "broadcast_axis": ((19, 24), 1, {"x": {"broadcast": (1,)}}),
    "special": ((5, 90), 1, {"kind": "special"}),
    "ties": ((6, 50), 1, {"kind": "ties"}),
    "zeros": ((6, 50), 1, {"kind": "zeros"}),
    "infinite": ((40, 30), 1, {"kind": "infinite"}),
    "infinite_columns": ((30, 40), 0, {"kind": "infinite", "reverse": True}),
    "least": ((40, 30), 1, {"kind": "least"}),
    "positive": ((3, 700), 1, {"kind": "positive"}),
    "alternating": ((3, 1025), 1, {"kind": "alternating"}),
}
ROWS = {
    "long": ((2, 9001), 1, {}), "rows_12001": ((2, 12001), 1, {}), "large": ((37, 1003), 1, {}),
    "tall": ((2100, 33), 0, {}),
}  # fmt: skip
UNSAFE = ("special", "infinite", "infinite_columns")  # infinities and NaN, for which products of sums have no reference


def problems(make, shapes):
    def renamed(options):  # y of the op is dx of its gradient
        if make not in (backward, exclusive_backward, cumsum_backward):
            return options
        return {"dx" if name == "y" else name: value for name, value in options.items()}

    return {n: lambda d, s=s, a=a, o=o: make(d, s, a, **renamed(o)) for n, (s, a, o) in shapes.items()}


def brief(shapes):
    return tuple(name for name in shapes if name in (
        "one", "plain", "back_first", "last", "back_vectors", "rows_513", "columns", "gaps", "flipped",
        "special", "ties", "zeros", "infinite", "infinite_columns", "least", "positive", "long", "large",
    ))  # fmt: skip


def bad_calls(names, arrays):
    """Bad calls of a problem of the shape CUBE along axis 1; the strides are those of `names`."""
    bad = [
        Bad("negative", 2, r"numel is -2", {"numel": -2}, can=2),
        Bad("rank_negative", 2, r"rank is -1", {"rank": -1}, can=2),
        Bad("rank_9", 2, r"rank is 9", {"rank": 9}, can=2),
        Bad("null_shape", 2, r"shape is NULL", host={"shape": None}, can=2),
        Bad("extent_negative", 2, r"shape\[2\] is -9", host={"shape": (5, 7, -9)}, can=2),
        Bad("count_wrong", 2, r"numel is 17\b", {"numel": 17}, can=2),
        Bad("axis_negative", 2, r"scan_axis is -1, must be in \[0, rank\)", {"scan_axis": -1}, can=2),
        Bad("axis_3", 2, r"scan_axis is 3, must be in \[0, rank\)", {"scan_axis": 3}, can=2),
        Bad("rank_0", 2, r"scan_axis is 1, must be in \[0, rank\)", {"rank": 0, "numel": 1}, can=2),
        Bad("other_extent", 2, r"scan_extent is 8, but shape\[1\] is 7", {"scan_extent": 8}, can=2),
        Bad("empty_axis_3", 2, r"scan_axis is 3", {"numel": 0, "scan_axis": 3}, {"shape": (5, 7, 0)}, can=2),
    ]
    for s in names:
        bad.append(Bad(f"null_{s}", 2, rf"{s} is NULL", host={s: None}, can=2))
        bad.append(Bad(f"far_{s}", 2, rf"{s}\[0\] is {2**61}", host={s: (2**61, 9, 1)}, can=2))
    still = names[-1]
    bad.append(Bad("still", 2, rf"{still}\[0\] is 0", host={still: (0, 9, 1)}, can=2))
    bad += [Bad(f"null_{a}", 2, rf"{a} is NULL", null=(a,)) for a in arrays]
    return (*bad, *(Bad(f"odd_{a}", 1, rf"{a} is 0x[0-9a-f]+", shift={a: 1}) for a in arrays))


IDLE = (
    Idle("no_rows", {"numel": 0}, {"shape": (0, 7, 9)}),
    Idle("no_elements", {"numel": 0, "scan_extent": 0}, {"shape": (5, 0, 9)}),
)
FEW = ("plain", "back_last", "long", "large", "columns", "flipped_out", "gaps", "special", "ties", "infinite", "zeros")
FEW = {name: shape for name, shape in (SHAPES | ROWS).items() if name in FEW}
SAVED = {name: shape for name, shape in SHAPES.items() if name not in UNSAFE}
SAVED |= {"long": ((2, 4500), 1, {}), "large": ((11, 503), 1, {}), "tall": ((600, 33), 0, {})}


CASES = (
    Case(
        row="scan_{F}_{T}", problems=problems(forward, SHAPES | ROWS), reference=forward_reference,
        tolerance={"y": "scan"}, plain="plain", large="large", brief=brief(SHAPES | ROWS),
        bad=(
            *bad_calls(("stride_x", "stride_y"), ("x", "y")),
            Bad("other_stride", 2, r"scan_stride_x is 3, but stride_x\[1\] is 9", {"scan_stride_x": 3}, can=2),
        ),
        idle=IDLE,
    ),
    *(
        Case(
            row=row, problems=problems(make, FEW), reference=reference, tolerance={"y": tolerance}, plain="plain",
            large="large", brief=("plain", "back_last", "long", "special", "ties"),
            bad=bad_calls(("stride_x", "stride_y"), ("x", "y")), idle=IDLE,
        )
        for row, make, reference, tolerance in (
            ("scan_{F}_{T} integers", forward, of_integers, "exact"),
            ("scan_exclusive_{F}_{T} integers", forward, exclusive_integers_reference, "exact"),
            ("scan_exclusive_{F}_{T}", forward, exclusive_reference, "scan"),
        )
    ),
    Case(
        row="scan_{F}_indices_{T}", problems=problems(with_indices, SHAPES | ROWS), reference=indices_reference,
        tolerance={"y": "exact", "indices": "exact"}, plain="plain", large="large",
        bad=bad_calls(("stride_x", "stride_y", "stride_indices"), ("x", "y", "indices")), idle=IDLE,
    ),
    *(
        Case(
            row=row, problems=problems(cumsum_backward, FEW), reference=reference, tolerance={"dx": "scan"},
            plain="plain", large="large", bad=bad_calls(("stride_dy", "stride_dx"), ("dy", "dx")), idle=IDLE,
        )
        for row, reference in (
            ("scan_cumsum_backward_{T}", cumsum_backward_reference),
            ("scan_exclusive_cumsum_backward_{T}", exclusive_gradient_reference),
        )
    ),
    *(
        Case(
            row=row, problems=problems(make, SAVED), reference=reference, tolerance={"dx": "scan"}, plain="plain",
            large="large", brief=brief(SAVED), idle=IDLE,
            bad=bad_calls(("stride_dy", "stride_x", "stride_y", "stride_dx"), ("dy", "x", "y", "dx")),
        )
        for row, make, reference in (
            ("scan_{F}_backward_{T} saved", backward, backward_reference),
            ("scan_exclusive_{F}_backward_{T} saved", exclusive_backward, exclusive_gradient_reference),
        )
    ),
    *(
        Case(
            row=row, problems=problems(backward, shapes), reference=reference, tolerance={"dx": "scan"}, plain="plain",
            large="large", brief=brief(shapes), idle=IDLE,
            bad=bad_calls(("stride_dy", "stride_x", "stride_dx"), ("dy", "x", "dx")),
        )
        for row, shapes, reference in (
            ("scan_{F}_backward_{T}", SHAPES | ROWS, backward_reference),
            ("scan_exclusive_{F}_backward_{T}", FEW, exclusive_gradient_reference),
        )
    ),
)  # fmt: skip

# function -> row of the gradient of its exclusive scan, and the maker of its problems
EXCLUSIVE = {
    "cumsum": ("scan_exclusive_cumsum_backward_{T}", cumsum_backward),
    **dict.fromkeys(SAVES, ("scan_exclusive_{F}_backward_{T} saved", exclusive_backward)),
    **dict.fromkeys(("cummax", "cummin"), ("scan_exclusive_{F}_backward_{T}", backward)),
}
