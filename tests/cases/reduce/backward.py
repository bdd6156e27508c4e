# SPDX-License-Identifier: Apache-2.0
"""Gradients of reductions: dy and y have a stride of 0 along what was reduced."""

import math

import numpy as np

from tools.oracle.numerics import round_to

from ..model import Bad, Case, Expected, Idle, Problem, strides_for
from .one_axis import FLIPPED, PERMUTED, values
from .references import WIDE, reduced

SAVING = ("max_min", "norm_p", "prod", "norm2", "logsumexp", "var", "std")


def backward(
    draw, name, shape, axes, kind="normal", x=None, dx=None, dy=None, null=(), correction=1, p=3.0, named=True
):
    """x, dx and dy are options of strides_for; y has dy's. Moments have one axis if it is `named`."""
    shape = tuple(shape)
    out = tuple(1 if a in axes else e for a, e in enumerate(shape))
    still = tuple(0 if a in axes else s for a, s in enumerate(strides_for(out, **dy or {})))
    sx, sdx = strides_for(shape, **x or {}), strides_for(shape, **dx or {})
    given, host = {"numel": math.prod(shape), "rank": len(shape)}, {"shape": shape, "stride_dy": still}
    arrays = {"dy": draw.floats(shape, "normal", still)}
    if name in SAVING and not named:
        arrays["x"] = values(draw, shape, kind, sx)
        host["stride_x"] = sx
        given["correction"] = correction
    elif name in SAVING:
        arrays["x"] = operand = values(draw, shape, kind, sx)
        extreme = draw.rng.choice(["max", "min", "fmax", "fmin"])
        forward = {"max_min": extreme, "var": "sum", "std": "sum"}.get(name, name)
        parameters = {"p": p} if name == "norm_p" else {}
        y = np.asarray(reduced(forward, operand.values, axes, draw.dtype, **parameters).value, np.float64)
        with np.errstate(over="ignore"):
            arrays["y"] = draw.array(round_to(np.broadcast_to(y, shape), draw.dtype).reshape(shape), strides=still)
        host |= {"stride_x": sx, "stride_y": still}
    if name in ("var", "std") and named:
        given |= {
            "reduce_axis": axes[0], "reduce_extent": shape[axes[0]], "reduce_stride_x": sx[axes[0]],
            "correction": correction,
        }  # fmt: skip
    if name == "norm_p":
        given["p"] = p
    if name == "mean":
        given["inv_extent"] = 1 / max(math.prod(shape[a] for a in axes), 1)
    host["stride_dx"] = sdx
    arrays["dx"] = draw.output(shape, sdx)
    return Problem(given, arrays, host, null, name)


def times_others(dy, x, axes):
    """dy times the product of the other elements."""
    filled = np.where(x == 0, 1, x)
    product, zeros = filled.prod(axes, keepdims=True), (x == 0).sum(axes, keepdims=True)
    return dy * np.where(zeros == 0, product / filled, np.where((zeros == 1) & (x == 0), product, 0))


def of_power(dy, x, y, axes, p):
    """The gradient of the p-norm, and the size that the power's own errors are proportional to."""
    if p == 0:
        return np.zeros_like(x), 0.0
    if np.isinf(p):
        ties = (np.abs(x) == y) | (np.isnan(x) & np.isnan(y))
        share = np.where(ties, dy / np.maximum(ties.sum(axes, keepdims=True), 1), 0)
        return np.where(np.isnan(x), share, np.sign(x) * share), 0.0
    slope = np.where(np.isnan(x), x, np.sign(x)) * (np.abs(x / y) ** (p - 1) if p != 1 else 1)
    value = np.where(x == 0, 0, dy * slope)
    return value, np.abs(value) * (1 + abs(p - 1) * (1 + np.abs(np.log(np.abs(np.where(x == 0, 1, x / y))))))


def deviations(problem, dy, x, axis, n):
    m = n - problem.scalars["correction"]
    if m <= 0:
        return np.full(x.shape, np.nan), 0.0
    middle = x.mean(axis, keepdims=True)
    factor = WIDE(2) / m
    if problem.function == "std":
        deviation = np.sqrt(np.square(x - middle).sum(axis, keepdims=True) / m)
        factor = np.where(deviation > 0, 1 / (m * np.where(deviation > 0, deviation, 1)), 0)
    value, size = dy * (x - middle) * factor, np.abs(x).max(axis, keepdims=True)
    return value, np.abs(value) + np.abs(dy * factor) * (np.abs(middle) + size)


def reference(problem):
    name, host, arrays = problem.function, problem.host, problem.arrays
    dy = arrays["dy"].values.astype(WIDE)
    x, y = (arrays[key].values.astype(WIDE) if key in arrays else dy for key in ("x", "y"))
    axes = tuple(d for d, s in enumerate(host["stride_dy"]) if s == 0)
    axes = (problem.scalars["reduce_axis"],) if "reduce_axis" in problem.scalars else axes
    n = math.prod(dy.shape[a] for a in axes)
    magnitude, rough = None, 0.0
    with np.errstate(all="ignore"):
        if name == "sum":
            return {"dx": Expected(dy)}
        if name == "mean":
            value = dy * WIDE(problem.scalars["inv_extent"])
        elif name == "max_min":
            ties = (x == y) | (np.isnan(x) & np.isnan(y))
            value = np.where(ties, dy / np.maximum(ties.sum(axes, keepdims=True), 1), 0)
        elif name == "norm_p":
            value, rough = of_power(dy, x, y, axes, problem.scalars["p"])
        elif name == "prod":
            value = times_others(dy, x, axes)
        elif name == "norm2":
            value = np.where(y == 0, 0, dy * (x / np.where(y == 0, 1, y)))
        elif name == "logsumexp":
            value = np.where(np.isneginf(y), 0, dy * np.exp(x - y))
            rough = np.abs(value) * (1 + np.abs(np.where(np.isfinite(x - y), x - y, 0)))
        else:
            value, magnitude = deviations(problem, dy, x, axes, n)
    magnitude = np.abs(value) if magnitude is None else magnitude
    return {"dx": Expected(value, n + 6, np.where(np.isfinite(magnitude), magnitude, 0), divided=rough)}


SHAPES = {  # shape, reduced axes, options
    "plain": ((3, 5, 7), (1,), {}),
    "one": ((1,), (0,), {}),
    "all": ((40, 9), (0, 1), {}),
    "first": ((6, 33), (0,), {}),
    "last": ((6, 64), (1,), {}),
    "ends": ((4, 5, 6), (0, 2), {}),
    "none": ((4, 5), (), {}),
    "single": ((5, 1, 7), (1,), {}),
    "rank8": ((2, 1, 3, 2, 1, 2, 3, 2), (2, 5), {}),
    "permuted": ((6, 40, 7), (1,), {"x": PERMUTED}),
    "permuted_out": ((6, 40, 7), (2,), {"dx": PERMUTED, "dy": {"order": (1, 2, 0)}}),
    "flipped": ((5, 4, 70), (2,), {"x": FLIPPED, "dx": {"flip": (2,)}, "dy": {"flip": (0,)}}),
    "gaps": ((9, 66), (1,), {"x": {"gap": 2, "pad": 3}, "dx": {"gap": 3}, "dy": {"gap": 2}}),
    "still": ((9, 65), (1,), {"x": {"broadcast": (0,)}}),
    **{f"row{n}": ((3, n), (1,), {}) for n in (2, 31, 32, 33, 129, 1000, 1025)},
    "columns": ((37, 64), (0,), {}),
    "long": ((20011,), (0,), {}),
    "large": ((33, 1030), (1,), {}),
}
BRIEF = ("plain", "large", "columns", "row33")


def problems(name, kind, more, moments, **given):
    def made(shape, axes, options):
        return lambda d: backward(d, name or d.function, shape, axes, **{"kind": kind, **given, **options})

    table = {**SHAPES, **more}
    return {key: made(*given) for key, given in table.items() if not moments or len(given[1]) == 1}


def bad_calls(strides, *, needed, moments=False):
    """Variations of "plain": (3, 5, 7) along axis 1."""
    axis = (
        Bad("axis_negative", 2, r"reduce_axis is -1", {"reduce_axis": -1}, can=2),
        Bad("axis_rank", 2, r"reduce_axis is 3", {"reduce_axis": 3}, can=2),
        Bad("extent", 2, r"reduce_extent is 6, but shape\[1\] is 5", {"reduce_extent": 6}, can=2),
        Bad("stride", 2, r"reduce_stride_x is 8, but stride_x\[1\] is 7", {"reduce_stride_x": 8}, can=2),
    )
    return (
        Bad("negative", 2, r"numel is -4", {"numel": -4}, can=2),
        Bad("rank_negative", 2, r"rank is -1", {"rank": -1}, can=2),
        Bad("rank_9", 2, r"rank is 9", {"rank": 9}, can=2),
        Bad("count_wrong", 2, r"numel is 104\b", {"numel": 104}, can=2),
        Bad("shape_negative", 2, r"shape\[2\] is -7", host={"shape": (3, 5, -7)}, can=2),
        Bad("null_shape", 2, r"shape is NULL", host={"shape": None}, can=2),
        *(Bad(f"null_stride_{s}", 2, rf"stride_{s} is NULL", host={f"stride_{s}": None}, can=2) for s in strides),
        Bad("still_output", 2, r"stride_dx\[0\] is 0", host={"stride_dx": (0, 7, 1)}, can=2),
        Bad("far_dy", 2, r"stride_dy\[0\] is", host={"stride_dy": (2**61, 0, 1)}, can=2),
        *(Bad(f"null_{name}", 2, rf"{name} is NULL", null=(name,)) for name in (*needed, "dx")),
        *(Bad(f"odd_{name}", 1, rf"{name} is 0x[0-9a-f]+", shift={name: 1}) for name in (*needed, "dx")),
        *(axis if moments else ()),
    )


IDLE = (Idle("no_elements", {"numel": 0}, {"shape": (3, 5, 0)}),)


def case(
    row,
    name="",
    kind="normal",
    more=None,
    *,
    strides=("dy", "x", "y", "dx"),
    needed=("dy", "x", "y"),
    brief=BRIEF,
    named=True,
):
    one_axis = "moments" in row and named
    return Case(
        row=row, problems=problems(name, kind, more or {}, one_axis, named=named), reference=reference, plain="plain",
        large="large",
        tolerance={"dx": "exact" if name == "sum" else "reduction"}, idle=IDLE, brief=brief,
        bad=bad_calls(strides, needed=needed, moments=one_axis), full=lambda slots: slots["T"] == "f32",
    )  # fmt: skip


TIES = {
    **{f"ties_{n}": ((20, n), (1,), {"kind": "ties"}) for n in (3, 40, 1030)},
    "spiked": ((40, 37), (1,), {"kind": "spiked"}),
    "lowest": ((3, 40), (1,), {"kind": "lowest"}),
}
HOLES = {
    **{f"holes_{n}": ((30, n), (1,), {"kind": "holes"}) for n in (3, 33, 1030)},
    **{f"brink_{n}": ((8, n), (1,), {"kind": "brink_factors"}) for n in (3, 40, 1030)},
    "brink_columns": ((40, 9), (0,), {"kind": "brink_factors"}),
}
ZEROS = {"sparse": ((300, 20), (1,), {"kind": "sparse"}), "lowest": ((3, 40), (1,), {"kind": "lowest"})}
POWERS = {
    **{f"p{p}": ((9, 65), (1,), {"p": p}) for p in (0.0, 0.5, 1.0, 2.0, 7.0)},
    **{f"zeros_p{p}": ((30, 20), (1,), {"p": p, "kind": "sparse"}) for p in (0.5, 1.0, 2.0, 3.0, np.inf)},
    **{f"greatest_{key}": (*given[:2], {**given[2], "p": np.inf}) for key, given in TIES.items()},
    "greatest_permuted": ((6, 40, 7), (1,), {"p": np.inf, "x": PERMUTED}),
}
MOMENTS = {
    "population": ((9, 50), (1,), {"correction": 0}),
    "uncorrected": ((9, 1), (1,), {"correction": 1}),
    "equal": ((9, 65), (1,), {"x": {"broadcast": (1,)}}),
    "far": ((5, 4000), (1,), {"kind": "far"}),
}


SEVERAL = {
    "population": ((9, 5, 10), (1, 2), {"correction": 0}),
    "uncorrected": ((9, 1, 1), (1, 2), {"correction": 1}),
    "equal": ((9, 5, 13), (1, 2), {"x": {"broadcast": (1, 2)}}),
    "far": ((5, 40, 100), (1, 2), {"kind": "far"}),
    "ends_permuted": ((6, 40, 7), (0, 2), {"x": PERMUTED, "dx": {"flip": (1,)}}),
}


def trace(draw, rows, columns, kind="normal"):
    arrays = {"dy": draw.floats((1,), kind), "dx": draw.output((rows, columns))}
    return Problem({"rows": rows, "columns": columns}, arrays)


def trace_reference(problem):
    dx = np.eye(*problem.arrays["dx"].shape, dtype=bool)
    return {"dx": Expected(np.where(dx, problem.arrays["dy"].values[0], 0.0))}


TRACES = {"plain": (7, 7), "one": (1, 1), "wide": (5, 33), "tall": (66, 9), "column": (17, 1), "large": (301, 300)}
CASES = (
    case("reduce_sum_backward_{T}", "sum", strides=("dy", "dx"), needed=("dy",)),
    case("reduce_mean_backward_{T}", "mean", strides=("dy", "dx"), needed=("dy",)),
    case("reduce_{F}_backward_{T}", more=ZEROS),
    case("reduce_max_min_backward_{T}", "max_min", more=TIES),
    case("reduce_norm_p_backward_{T}", "norm_p", more=POWERS),
    case("reduce_prod_backward_{T}", "prod", "factors", HOLES, needed=("dy", "x")),
    case("reduce_{F}_backward_{T} moments", more=MOMENTS, needed=("dy", "x")),
    case("reduce_{F}_axes_backward_{T} moments", more=SEVERAL, strides=("dy", "x", "dx"), needed=("dy", "x"),
         named=False),
    Case(
        row="trace_backward_{T}", reference=trace_reference, tolerance={"dx": "exact"}, plain="plain", large="large",
        problems={name: lambda d, given=given: trace(d, *given) for name, given in TRACES.items()},
        bad=(
            *(Bad(f"negative_{name}", 2, rf"{name} is -3", {name: -3}, can=2) for name in ("rows", "columns")),
            *(Bad(f"null_{name}", 2, rf"{name} is NULL", null=(name,)) for name in ("dy", "dx")),
            *(Bad(f"odd_{name}", 1, rf"{name} is 0x[0-9a-f]+", shift={name: 1}) for name in ("dy", "dx")),
        ),
        idle=(Idle("no_rows", {"rows": 0}), Idle("no_columns", {"columns": 0})),
    ),
)  # fmt: skip
