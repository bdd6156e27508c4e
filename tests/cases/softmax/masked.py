# SPDX-License-Identifier: Apache-2.0
"""Softmax of masked logits, of 16-bit logits with f32 results, entmax15, and their gradients."""

import math

import numpy as np

from tools.oracle.numerics import round_to

from ..model import Array, Bad, Case, Expected, Problem, strides_for
from .softmax import (
    IDLE,
    LONG,
    SAFE,
    SAVED,
    SHAPES,
    along,
    back,
    bad_calls,
    logits,
    problems,
    softmax,
    softmax_backward_reference,
    softmax_reference,
)  # fmt: skip


def scalars_of(shape, axis):
    return {"numel": math.prod(shape), "rank": len(shape), "softmax_axis": axis}


def hosts_of(shape, strides):
    return {"shape": tuple(shape)} | {f"stride_{name}": steps for name, steps in strides.items()}


def plain_forward(dtype=""):
    """Logits to results of a dtype."""

    def make(draw, shape, axis, kind="normal", x=None, y=None):
        strides = {"x": strides_for(shape, **x or {}), "y": strides_for(shape, **y or {})}
        arrays = {"x": logits(draw, shape, kind, strides["x"]), "y": draw.output(shape, strides["y"], dtype)}
        return Problem(scalars_of(shape, axis), arrays, hosts_of(shape, strides))

    return make


def plain_backward(saved, dtype="", **scalars):
    """dy and the results, of a dtype, of some logits."""

    def make(draw, shape, axis, kind="normal", dy=None, y=None, dx=None):
        strides = {n: strides_for(shape, **o or {}) for n, o in (("dy", dy), ("y", y), ("dx", dx))}
        (value,) = saved(Problem({"softmax_axis": axis}, {"x": logits(draw, shape, kind, None)})).values()
        arrays = {
            "dy": draw.floats(shape, "special" if kind == "lost" else "normal", strides["dy"], dtype),
            "y": draw.array(round_to(value.value, dtype or draw.dtype), dtype, strides["y"]),
            "dx": draw.output(shape, strides["dx"]),
        }
        return Problem(scalars_of(shape, axis) | scalars, arrays, hosts_of(shape, strides))

    return make


# --- masks -----------------------------------------------------------------------------------------------------------


def forward(draw, shape, axis, kind="normal", *, scale=0.5, causal=0, offset=0, null=(), lost=0.0, **views):
    strides = {name: strides_for(shape, **views.get(name) or {}) for name in ("x", "bias", "mask", "y")}
    keeps = draw.rng.integers(1, 256, shape) * (draw.rng.random(shape) < 0.7)
    keeps = np.where(draw.rng.random(shape[:-1])[..., None] < lost, 0, keeps)
    arrays = {
        "x": logits(draw, shape, kind, strides["x"]), "bias": draw.floats(shape, strides=strides["bias"]),
        "mask": draw.array(keeps.astype(np.int64), "u8", strides["mask"]), "y": draw.output(shape, strides["y"]),
    }  # fmt: skip
    scalars = scalars_of(shape, axis) | {"scale": scale, "is_causal": causal, "query_offset": offset}
    return Problem(scalars, arrays, hosts_of(shape, strides), null)


def masked_logits(problem):
    """Returns (scale x + bias where the mask admits it, else -inf; the magnitudes of the summands)."""
    scalars, given = problem.scalars, problem.arrays
    x = given["x"].values.astype(np.float64)
    scale = np.float64(scalars["scale"] if given["x"].dtype == "f64" else np.float32(scalars["scale"]))
    bias = 0.0 if "bias" in problem.null else given["bias"].values
    keeps = np.ones(x.shape, bool) if "mask" in problem.null else given["mask"].values != 0
    if scalars["is_causal"]:
        queries, keys = (np.arange(extent) for extent in x.shape[-2:])
        keeps = keeps & (keys[None] <= queries[:, None] + scalars["query_offset"])
    with np.errstate(all="ignore"):
        v = np.where(keeps, x * scale + bias, -np.inf)
        size = np.where(keeps & np.isfinite(x), np.abs(x * scale) + np.abs(bias), 0)
    axis = scalars["softmax_axis"]
    return np.moveaxis(v, axis, 0), np.moveaxis(np.broadcast_to(size, x.shape), axis, 0)


def forward_reference(log):
    def reference(problem):
        v, added = masked_logits(problem)
        empty = (v == -np.inf).all(0, keepdims=True)
        y, log_y, size = softmax(v)
        y, log_y, size = np.where(empty, 0.0, y), np.where(empty, -np.inf, log_y), np.where(empty, 0.0, size)
        largest = added.max(0, keepdims=True)
        magnitude = np.nan_to_num(size + len(v) + largest, nan=1.0) if log else np.nan_to_num(y)
        scale = 1.0 if log else 3 + size + largest
        value, count, magnitude, scaled = back(
            problem, log_y if log else y, np.float64(len(v)), magnitude, magnitude * scale
        )
        return {"y": Expected(value, count, magnitude, scaled)}

    return reference


def backward(log):
    """Results of masked logits: a third of them are 0."""

    def saved(problem):
        x = problem.arrays["x"].values
        axis = problem.scalars["softmax_axis"]
        hidden = np.random.default_rng(x.size).random(x.shape) < 0.3
        hidden &= ~(np.indices(x.shape)[axis] == 0)
        given = Problem(problem.scalars, {"x": Array("f64", x.shape, np.where(hidden, -np.inf, x))})
        return softmax_reference(log)(given)

    return plain_backward(saved, scale=0.5)


def backward_reference(log):
    """The gradient of softmax, with 0 where it is masked."""
    inner = softmax_backward_reference(log)

    def reference(problem):
        y = problem.arrays["y"].values
        masked = y == (-np.inf if log else 0)
        arrays = {name: array for name, array in problem.arrays.items() if name != "dx"}
        dy = arrays["dy"]
        arrays["dy"] = Array(dy.dtype, dy.shape, np.where(masked, 0, dy.values), dy.strides)
        scale = problem.scalars["scale"]
        expected = inner(Problem({**problem.scalars, "inv_tau": scale}, arrays))["dx"]
        return {
            "dx": Expected(np.where(masked, 0, expected.value), expected.count, expected.magnitude, expected.divided)
        }

    return reference


def masked_problems():
    shapes = {n: s for n, s in SHAPES.items() if n not in ("special", "huge", "broadcast_axis")} | LONG
    table = problems(forward, shapes)

    def add(name, shape, axis=-1, **options):
        table[name] = lambda d: forward(d, shape, axis % len(shape), **options)

    for rows, columns in ((1, 7), (7, 7), (9, 64), (64, 9), (5, 1030), (3, 5000)):
        for offset in dict.fromkeys((0, columns - rows, 3, -2)):
            add(f"causal_{rows}_{columns}_{offset}", (2, rows, columns), causal=1, offset=offset)
    add("causal_far", (3, 4, 33), causal=1, offset=2**32)
    add("causal_permuted", (2, 6, 40), causal=1, x={"order": (1, 0, 2)}, y={"order": (2, 1, 0)})
    add("causal_alone", (2, 3, 6, 40), causal=1, null=("bias", "mask"))
    for null in (("bias",), ("mask",), ("bias", "mask")):
        add(f"without_{'_'.join(null)}", (6, 50), null=null)
        add(f"without_{'_'.join(null)}_wide", (6, 512), null=null)
        add(f"without_{'_'.join(null)}_permuted", (6, 50), null=null, x={"flip": (0, 1), "gap": 2})
    for axes in ((0,), (1,), (0, 1), (2,)):
        name = "_".join(map(str, axes))
        add(f"broadcast_{name}", (3, 5, 64), bias={"broadcast": axes}, mask={"broadcast": axes})
    add("broadcast_mask", (3, 5, 128), mask={"broadcast": (0, 1)})
    add("lost_rows", (19, 70), lost=0.5)
    add("lost_rows_wide", (19, 512), lost=0.5)
    add("scaled", (6, 300), scale=-3.0)
    add("minus_infinity", (12, 70), kind="infinite", null=("mask",))
    add("nan_is_masked", (9, 90), kind="lost")
    return table


def masked_bad():
    strides = ("stride_x", "stride_bias", "stride_mask", "stride_y")
    bad = [call for call in bad_calls(strides, (), ("x", "bias", "mask", "y")) if call.name not in UNREPEATED]
    bad = [call for call in bad if call.name not in ("null_bias", "null_mask", "odd_mask")]
    return (
        *bad,
        Bad("odd_mask", 1, r"mask is 0x", shift={"mask": 1}),  # no shift: bytes are always aligned
        Bad("causal_2", 2, r"is_causal is 2, must be 0 or 1", {"is_causal": 2}, can=2),
        Bad("causal_minus_1", 2, r"is_causal is -1", {"is_causal": -1}, can=2),
        Bad("causal_in_the_middle", 2, r"is_causal is 1, but softmax_axis is 1", {"is_causal": 1}, can=2),
        Bad("offset_far", 2, r"query_offset is 4294967297, must be within", {"query_offset": 2**32 + 1}, can=2),
        Bad("offset_far_back", 2, r"query_offset is -4294967297", {"query_offset": -(2**32) - 1}, can=2),
    )


# These scalars repeat values of the host arrays, which these ops do not have.
UNREPEATED = ("other_extent", "extent_0")


def case(row, make, reference, output, tolerance, shapes, operands, table=None, bad=None):
    gradient = len(operands) == 3
    strides = tuple(f"stride_{name}" for name in operands)
    bad = bad or tuple(call for call in bad_calls(strides, (), operands) if call.name not in UNREPEATED)
    return Case(
        row=row, problems=table or problems(make, shapes, gradient), reference=reference,
        tolerance={output: tolerance}, plain="plain", large="large", bad=bad,
        idle=IDLE_HERE,
    )  # fmt: skip


IDLE_HERE = tuple(
    type(call)(call.name, {name: value for name, value in call.scalars.items() if name != "softmax_extent"}, call.host)
    for call in IDLE
)


# --- entmax ----------------------------------------------------------------------------------------------------------


def entmax_reference(problem):
    """Entmax by sorting, as in the paper (Peters et al. 2019)."""
    (x,) = along(problem, "x")
    with np.errstate(all="ignore"):
        z = (x - x.max(0, keepdims=True)) / 2
        ordered = -np.sort(-z, 0)
        ordered_finite = np.where(np.isfinite(ordered), ordered, -1e6)
        ranks = np.arange(1, len(x) + 1).reshape(-1, *[1] * (x.ndim - 1))
        mean = np.cumsum(ordered_finite, 0) / ranks
        squares = np.cumsum(np.square(ordered_finite), 0) - ranks * np.square(mean)
        tau = mean - np.sqrt(np.maximum((1 - squares) / ranks, 0))
        support = (tau <= ordered).sum(0, keepdims=True)
        tau = np.take_along_axis(tau, np.maximum(support - 1, 0), 0)
        y = np.square(np.maximum(z - tau, 0))
        y = np.where(np.isnan(z).any(0, keepdims=True), np.nan, y)
    value, count, magnitude = back(problem, y, np.float64(len(x)), 2.0)
    return {"y": Expected(value, count, magnitude)}


def entmax_backward_reference(problem):
    dy, y = along(problem, "dy", "y")
    with np.errstate(all="ignore"):
        s, dy = np.sqrt(y), np.where(y == 0, 0, dy)
        total, size = s.sum(0, keepdims=True), np.abs(s * dy).sum(0, keepdims=True)
        value = s * (dy - (s * dy).sum(0, keepdims=True) / total)
        magnitude = s * (np.abs(dy) + size / total)
    value, count, magnitude = back(problem, value, np.float64(len(dy)), np.nan_to_num(magnitude, nan=1.0, posinf=1.0))
    return {"dx": Expected(value, count, magnitude, 2 * magnitude)}


CASES = (
    *(
        case(f"masked_{log}softmax_{{T}}", None, forward_reference(bool(log)), "y", "softmax", None, ("x", "y"),
             table=masked_problems(), bad=masked_bad())
        for log in ("", "log_")
    ),
    *(
        case(f"masked_{log}softmax_backward_{{T}}", backward(bool(log)), backward_reference(bool(log)), "dx", "softmax",
             SAVED | LONG, ("dy", "y", "dx"))
        for log in ("", "log_")
    ),
    *(
        case(f"{log}softmax_to_f32_{{T}}", plain_forward("f32"), softmax_reference(bool(log)), "y", "softmax",
             SHAPES | LONG, ("x", "y"))
        for log in ("", "log_")
    ),
    *(
        case(f"{log}softmax_to_f32_backward_{{T}}", plain_backward(softmax_reference(bool(log)), "f32"),
             softmax_backward_reference(bool(log)), "dx", "softmax", SAVED | LONG, ("dy", "y", "dx"))
        for log in ("", "log_")
    ),
    case("entmax15_{T}", plain_forward(), entmax_reference, "y", "sparsemax", SAFE | LONG, ("x", "y")),
    case("entmax15_backward_{T}", plain_backward(entmax_reference), entmax_backward_reference, "dx", "softmax",
         SAVED | LONG, ("dy", "y", "dx")),
)  # fmt: skip
