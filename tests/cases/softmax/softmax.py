# SPDX-License-Identifier: Apache-2.0
"""Softmax, log-softmax, gumbel softmax, sparsemax and their gradients."""

import math

import numpy as np

from tools.oracle.numerics import round_to

from ..model import Bad, Case, Expected, Idle, Problem, strides_for

# --- references, in float64 over the axis in front -------------------------------------------------------------------


def along(problem, *names):
    axis = problem.scalars["softmax_axis"]
    return [np.moveaxis(problem.arrays[name].values.astype(np.float64), axis, 0) for name in names]


def back(problem, *arrays):
    axis = problem.scalars["softmax_axis"]
    return [np.moveaxis(np.broadcast_to(array, arrays[0].shape), 0, axis) for array in arrays]


def softmax(x):
    """Values, their logarithms, and the distance of each logit from the largest, which scales the exponential's
    rounding."""
    with np.errstate(all="ignore"):
        distance = x - x.max(0, keepdims=True)
        e = np.exp(distance)
        total = e.sum(0, keepdims=True)
        size = np.where(np.isfinite(distance), np.abs(distance), 0)
        return e / total, distance - np.log(total), size


def softmax_reference(log):
    def reference(problem):
        (x,) = along(problem, "x")
        y, log_y, size = softmax(x)
        magnitude = np.nan_to_num(size + len(x), nan=1.0) if log else np.nan_to_num(y)
        scale = 1.0 if log else 3 + size + np.abs(np.where(np.isfinite(x), x, 0)).max(0, keepdims=True)
        value, count, magnitude, scaled = back(
            problem, log_y if log else y, np.float64(len(x)), magnitude, magnitude * scale
        )
        return {"y": Expected(value, count, magnitude, scaled)}

    return reference


def softmax_backward_reference(log):
    def reference(problem):
        dy, y = along(problem, "dy", "y")
        dy = dy * problem.scalars.get("inv_tau", 1.0)
        with np.errstate(all="ignore"):
            factor = np.exp(y) if log else y
            product = dy if log else y * dy
            total, size = product.sum(0, keepdims=True), np.abs(product).sum(0, keepdims=True)
            value = dy - factor * total if log else y * (dy - total)
            magnitude = np.abs(dy) + factor * size if log else np.abs(y) * (np.abs(dy) + size)
            scaled = factor * size * (3 + np.abs(np.where(np.isfinite(y), y, 0))) if log else 2 * magnitude
        magnitude, scaled = (np.nan_to_num(v, nan=1.0, posinf=1.0) for v in (magnitude, scaled))
        value, count, magnitude, scaled = back(problem, value, np.float64(len(dy)), magnitude, scaled)
        return {"dx": Expected(value, count, magnitude, scaled)}

    return reference


def noisy(problem):
    """Logits plus noise, scaled by the inverse temperature."""
    x, u = along(problem, "x", "u_rand")
    least = 1e-30 if problem.arrays["x"].dtype == "f64" else float(np.float32(1e-20))
    with np.errstate(all="ignore"):
        return (x - np.log(-np.log(np.clip(u, least, 1 - 2.0**-24)))) * problem.scalars["inv_tau"]


def gumbel_reference(problem):
    v = noisy(problem)
    if problem.scalars["hard"]:
        best = np.argmax(v, 0)
        (value,) = back(problem, (np.arange(len(v)).reshape(-1, *[1] * (v.ndim - 1)) == best).astype(np.float64))
        return {"y": Expected(value)}
    y, _, size = softmax(v)
    # The noise's two logarithms have an error of a few units each, which as exponents they pass on to the result.
    scaled = y * (8 + size + 4 * np.abs(np.where(np.isfinite(v), v, 0)).max(0, keepdims=True))
    value, count, magnitude, scaled = back(problem, y, np.float64(len(v)), np.nan_to_num(y), np.nan_to_num(scaled))
    return {"y": Expected(value, count, magnitude, scaled)}


def sparsemax_reference(problem):
    """Sparsemax by sorting, as in the paper (Martins and Astudillo 2016)."""
    (x,) = along(problem, "x")
    with np.errstate(all="ignore"):
        z = x - x.max(0, keepdims=True)
        ordered = -np.sort(-z, 0)
        ranks = np.arange(1, len(x) + 1).reshape(-1, *[1] * (x.ndim - 1))
        sums = np.cumsum(ordered, 0)
        support = (1 + ranks * ordered > sums).sum(0, keepdims=True)
        tau = (np.take_along_axis(sums, np.maximum(support - 1, 0), 0) - 1) / support
        y = np.maximum(z - tau, 0)
        y = np.where(np.isnan(z).any(0, keepdims=True), np.nan, y)
    value, count, magnitude = back(problem, y, np.float64(len(x)), 2.0)
    return {"y": Expected(value, count, magnitude)}


def sparsemax_backward_reference(problem):
    dy, y = along(problem, "dy", "y")
    with np.errstate(all="ignore"):
        active = y > 0
        count = active.sum(0, keepdims=True)
        mean = np.where(active, dy, 0).sum(0, keepdims=True) / count
        size = np.where(active, np.abs(dy), 0).sum(0, keepdims=True) / count
        value, magnitude = np.where(active, dy - mean, 0), np.where(active, np.abs(dy) + size, 0)
    value, count, magnitude = back(problem, value, count.astype(np.float64), np.nan_to_num(magnitude, posinf=1.0))
    return {"dx": Expected(value, count, magnitude, 2 * magnitude)}


# --- problems --------------------------------------------------------------------------------------------------------


def scalars_of(shape, axis, **strides):
    scalars = {"numel": math.prod(shape), "rank": len(shape), "softmax_axis": axis, "softmax_extent": shape[axis]}
    return scalars | {f"softmax_stride_{name}": steps[axis] for name, steps in strides.items()}


def logits(draw, shape, kind, strides):
    """kind is one of draw.floats; or "infinite": some -inf, and rows of nothing else; "lost": some +inf and NaN."""
    x = draw.floats(shape, kind if kind in ("special", "positive") else "normal", strides)
    values, chosen = x.values, draw.rng.random(shape)
    if kind == "infinite":
        values = np.where(chosen < 0.2, -np.inf, values)
        values[..., 0] = -np.inf
    elif kind == "lost":
        values = np.where(chosen < 0.01, np.inf, np.where(chosen > 0.99, np.nan, values))
    elif kind == "equal":
        values = np.full(shape, 1.5)
    elif kind == "huge":
        values = values * (3e4 if draw.dtype == "f16" else 1e8)
    elif kind == "alternating":
        values = np.abs(values + 1) * (1e4 if draw.dtype == "f16" else 1e8) * (1 - 2 * (np.indices(shape).sum(0) % 2))
    elif kind == "spread":
        values = values * 6
    return draw.array(round_to(values, draw.dtype), draw.dtype, strides)


def forward(draw, shape, axis, kind="normal", x=None, y=None):
    x, y = strides_for(shape, **x or {}), strides_for(shape, **y or {})
    arrays = {"x": logits(draw, shape, kind, x), "y": draw.output(shape, y)}
    return Problem(scalars_of(shape, axis, x=x, y=y), arrays, {"shape": tuple(shape), "stride_x": x, "stride_y": y})


def gumbel(hard, inv_tau=1.0):
    def make(draw, shape, axis, kind="normal", x=None, y=None):
        problem = forward(draw, shape, axis, kind, x, y)
        u = draw.rng.random(shape)
        if kind == "special":
            u = np.where(draw.rng.random(shape) < 0.1, draw.rng.choice([0.0, 1.0, 1e-30, 1 - 2.0**-24], shape), u)
        arrays = {"x": problem.arrays["x"], "u_rand": draw.array(round_to(u, "f32"), "f32"), "y": problem.arrays["y"]}
        scalars = problem.scalars | {"inv_tau": inv_tau, "hard": hard}
        result = Problem(scalars, arrays, problem.host)
        if hard:  # the largest must stand out, whatever the rounding of the noise
            v = noisy(result)
            first = np.argmax(v, 0)
            values = np.array(np.moveaxis(arrays["x"].values, axis, 0))
            raised = np.take_along_axis(values, first[None], 0) + 4
            np.put_along_axis(values, first[None], round_to(raised, draw.dtype), 0)
            arrays["x"] = draw.array(np.moveaxis(values, 0, axis), draw.dtype, arrays["x"].strides)
        return result

    return make


def backward(saved, **scalars):
    def make(draw, shape, axis, kind="normal", dy=None, y=None, dx=None):
        strides = {n: strides_for(shape, **o or {}) for n, o in (("dy", dy), ("y", y), ("dx", dx))}
        given = Problem({"softmax_axis": axis}, {"x": logits(draw, shape, kind, None)})
        (value,) = saved(given).values()
        arrays = {
            "dy": draw.floats(shape, "special" if kind == "lost" else "normal", strides["dy"]),
            "y": draw.array(round_to(value.value, draw.dtype), draw.dtype, strides["y"]),
            "dx": draw.output(shape, strides["dx"]),
        }
        host = {"shape": tuple(shape)} | {f"stride_{name}": steps for name, steps in strides.items()}
        return Problem(scalars_of(shape, axis, dy=strides["dy"], y=strides["y"]) | scalars, arrays, host)

    return make


CUBE = (5, 7, 9)
PERMUTED = {"order": (2, 0, 1)}
SHAPES = {  # shape, axis, options
    "one": ((1,), 0, {}),
    "flat": ((33,), 0, {}),
    "plain": (CUBE, 1, {}),
    "first": (CUBE, 0, {}),
    "last": (CUBE, 2, {}),
    "single": ((9, 1, 5), 1, {}),
    "short_rows": ((67, 3), 1, {}),
    "vectors": ((6, 64), 1, {}),
    **{f"row_{n}": ((3, n), 1, {}) for n in (1, 31, 32, 33, 1024)},
    "row_128": ((9, 128), 1, {}),
    "row_257": ((3, 257), 1, {}),
    "row_1023": ((5, 1023), 1, {}),
    "row_1025": ((2, 1025), 1, {}),
    "columns": ((70, 40), 0, {}),
    "long_columns": ((1030, 5), 0, {}),
    "rank8": ((2, 1, 3, 2, 1, 2, 2, 3), 3, {"out": {"order": (3, 1, 0, 7, 5, 6, 2, 4)}}),
    "permuted_in": (CUBE, 2, {"x": PERMUTED}),
    "permuted_out": (CUBE, 2, {"out": PERMUTED}),
    "flipped": (CUBE, 1, {"x": {"flip": (0, 1, 2)}}),
    "flipped_out": (CUBE, 2, {"out": {"flip": (0, 2)}}),
    "gaps": ((13, 17), 1, {"x": {"gap": 2, "pad": 1}, "out": {"gap": 3}}),
    "padded": ((7, 64), 1, {"x": {"pad": 8}, "out": {"pad": 16}}),
    "padded_batch": ((3, 4, 64), 2, {"x": {"order": (1, 0, 2)}}),
    "broadcast": ((19, 24), 1, {"x": {"broadcast": (0,)}}),
    "broadcast_axis": ((19, 24), 1, {"x": {"broadcast": (1,)}}),
    "special": ((40, 9), 1, {"kind": "special"}),
    "lost": ((9, 90), 1, {"kind": "lost"}),
    "infinite": ((9, 40), 0, {"kind": "infinite"}),
    "infinite_rows": ((12, 70), 1, {"kind": "infinite"}),
    "equal": ((4, 100), 1, {"kind": "equal"}),
    "huge": ((6, 50), 1, {"kind": "huge"}),
    "alternating": ((6, 90), 1, {"kind": "alternating"}),
    "spread": ((6, 300), 1, {"kind": "spread"}),
}
LONG = {
    "row_5000": ((3, 5000), 1, {}), "row_12001": ((2, 12001), 1, {}), "row_40000": ((2, 40001), 1, {}),
    "long": ((1, 140000), 1, {}),
    "longest": ((1, 600001), 1, {}), "tall": ((2100, 33), 0, {}), "large": ((37, 1003), 1, {}),
}  # fmt: skip
BRIEF = ("plain", "last", "columns", "row_257", "gaps", "infinite_rows", "large")


def problems(make, shapes, gradient=False):
    def named(options):
        names = {"out": "dx", "x": "dy"} if gradient else {"out": "y"}
        return {names.get(name, name): value for name, value in options.items()}

    return {n: lambda d, s=s, a=a, o=o: make(d, s, a, **named(o)) for n, (s, a, o) in shapes.items()}


def bad_calls(strides, repeated, arrays):
    """Bad calls of a problem of the shape CUBE along axis 1."""
    bad = [
        Bad("negative", 2, r"numel is -2", {"numel": -2}, can=2),
        Bad("rank_negative", 2, r"rank is -1", {"rank": -1}, can=2),
        Bad("rank_9", 2, r"rank is 9", {"rank": 9}, can=2),
        Bad("null_shape", 2, r"shape is NULL", host={"shape": None}, can=2),
        Bad("extent_negative", 2, r"shape\[2\] is -9", host={"shape": (5, 7, -9)}, can=2),
        Bad("count_wrong", 2, r"numel is 17\b", {"numel": 17}, can=2),
        Bad("axis_negative", 2, r"softmax_axis is -1, must be in \[0, rank\)", {"softmax_axis": -1}, can=2),
        Bad("axis_3", 2, r"softmax_axis is 3, must be in \[0, rank\)", {"softmax_axis": 3}, can=2),
        Bad("rank_0", 2, r"softmax_axis is 1, must be in \[0, rank\)", {"rank": 0, "numel": 1}, can=2),
        Bad("other_extent", 2, r"softmax_extent is 8, but shape\[1\] is 7", {"softmax_extent": 8}, can=2),
        Bad("extent_0", 2, r"softmax_extent is 0, but shape\[1\] is 7", {"softmax_extent": 0}, can=2),
        Bad("empty_axis_3", 2, r"softmax_axis is 3", {"numel": 0, "softmax_axis": 3}, {"shape": (5, 7, 0)}, can=2),
    ]
    for s in strides:
        bad.append(Bad(f"null_{s}", 2, rf"{s} is NULL", host={s: None}, can=2))
        bad.append(Bad(f"far_{s}", 2, rf"{s}\[0\] is {2**61}", host={s: (2**61, 9, 1)}, can=2))
    for s in repeated:
        bad.append(Bad(f"other_{s}", 2, rf"softmax_{s} is 3, but {s}\[1\] is 9", {f"softmax_{s}": 3}, can=2))
    still = strides[-1]
    bad.append(Bad("still", 2, rf"{still}\[0\] is 0", host={still: (0, 9, 1)}, can=2))
    bad += [Bad(f"null_{a}", 2, rf"{a} is NULL", null=(a,)) for a in arrays]
    return (*bad, *(Bad(f"odd_{a}", 1, rf"{a} is 0x[0-9a-f]+", shift={a: 1}) for a in arrays))


IDLE = (
    Idle("no_rows", {"numel": 0}, {"shape": (0, 7, 9)}),
    Idle("no_columns", {"numel": 0, "softmax_extent": 0}, {"shape": (5, 0, 9)}),
)
FORWARD = bad_calls(("stride_x", "stride_y"), ("stride_x", "stride_y"), ("x", "y"))
BACKWARD = bad_calls(("stride_dy", "stride_y", "stride_dx"), ("stride_dy", "stride_y"), ("dy", "y", "dx"))
BAD_TEMPERATURE = tuple(
    Bad(f"inv_tau_{v}", 2, r"inv_tau is \S+, must be finite and > 0", {"inv_tau": v}, can=2)
    for v in (0.0, -1.0, math.inf, math.nan)
)
SAFE = {name: shape for name, shape in SHAPES.items() if name not in ("special", "huge")}
# Gradients of rows that are NaN are NaN, which "lost" tries.
SAVED = {name: shape for name, shape in SAFE.items() if not name.startswith("infinite")}


def case(row, make, reference, output, tolerance, shapes, bad, gradient=False):
    return Case(
        row=row, problems=problems(make, shapes, gradient), reference=reference, tolerance={output: tolerance},
        plain="plain", large="large", bad=bad, idle=IDLE,
        brief=tuple(name for name in BRIEF if name in shapes), full=lambda slots: not row.endswith("_strided"),
    )  # fmt: skip


def gumbel_cases(wide=False):
    """`wide`: the row whose temperature is f64."""
    cold = 10 / 3 if wide else 2.5  # not exact in f32
    shapes = {n: s for n, s in (SHAPES | LONG).items() if n not in ("huge", "longest")}
    make = problems(gumbel(0), shapes)
    make |= {
        f"{n}, hard": p
        for n, p in problems(
            gumbel(1), {n: s for n, s in shapes.items() if n not in ("special", "lost", "infinite", "infinite_rows")}
        ).items()
    }
    make |= {f"{n}, cold": p for n, p in problems(gumbel(0, cold), {n: shapes[n] for n in ("plain", "large")}).items()}
    bad = [*bad_calls(("stride_x", "stride_y"), ("stride_x", "stride_y"), ("x", "u_rand", "y")), *BAD_TEMPERATURE]
    return Case(
        row=f"gumbel_softmax{'_param' * wide}_{{T}}", problems=make, reference=gumbel_reference,
        tolerance={"y": "softmax"}, plain="plain", large="large", bad=tuple(bad), idle=IDLE,
    )  # fmt: skip


CASES = (
    *(
        case(f"{log}softmax_{{T}}{form}", forward, softmax_reference(bool(log)), "y", "softmax", SHAPES | LONG, FORWARD)
        for log in ("", "log_") for form in ("", "_strided")
    ),
    *(
        case(f"{log}softmax_backward_{{T}}{form}", backward(softmax_reference(bool(log))),
             softmax_backward_reference(bool(log)), "dx", "softmax", SAVED | LONG, BACKWARD, gradient=True)
        for log in ("", "log_") for form in ("", "_strided")
    ),
    gumbel_cases(),
    gumbel_cases(wide=True),
    *(
        case(f"gumbel_softmax{form}_backward_{{T}}", backward(softmax_reference(False), inv_tau=inv_tau),
             softmax_backward_reference(False), "dx", "softmax", SAVED | LONG, (*BACKWARD, *BAD_TEMPERATURE),
             gradient=True)
        for form, inv_tau in (("", 2.5), ("_param", 10 / 3))
    ),
    case("sparsemax_{T}", forward, sparsemax_reference, "y", "sparsemax", SAFE | LONG, FORWARD),
    case("sparsemax_backward_{T}", backward(sparsemax_reference), sparsemax_backward_reference, "dx", "softmax",
         SAVED | LONG, BACKWARD, gradient=True),
)  # fmt: skip
