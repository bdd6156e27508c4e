# SPDX-License-Identifier: Apache-2.0
"""Gumbel softmax with noise from a seed and an offset (Philox), and its gradient."""

import math

import numpy as np

from tools.oracle.numerics import COMPUTE, round_to
from tools.oracle.philox import uniform

from ..model import Case, Expected, Problem, strides_for
from .softmax import (
    BAD_TEMPERATURE,
    BRIEF,
    IDLE,
    LONG,
    SHAPES,
    along,
    back,
    bad_calls,
    logits,
    problems,
    scalars_of,
    softmax,
)

SEED = 0x123456789ABCDEF


def made(*, gradient=False, hard=0, inv_tau=1.0, seed=SEED, offset=0):
    def make(draw, shape, axis, kind="normal", **layouts):
        names = ("dy", "x", "dx") if gradient else ("x", "y")
        strides = {name: strides_for(shape, **layouts.get(name) or {}) for name in names}
        arrays = {"x": logits(draw, shape, kind, strides["x"])}
        given = ("dy", "x") if gradient else ("x", "y")
        scalars = scalars_of(shape, axis, **{name: strides[name] for name in given}) | {"inv_tau": inv_tau}
        scalars |= {"seed": seed, "offset": offset} | ({} if gradient else {"hard": hard})
        host = {"shape": tuple(shape)} | {f"stride_{name}": steps for name, steps in strides.items()}
        result = Problem(scalars, arrays, host)
        if gradient:
            dy = draw.floats(shape, "normal", strides["dy"])
            return Problem(scalars, {"dy": dy, **arrays, "dx": draw.output(shape, strides["dx"])}, host)
        if hard:  # the largest must stand out, whatever the rounding of the noise
            first = np.argmax(noisy(result), 0)
            values = np.array(np.moveaxis(arrays["x"].values, axis, 0))
            raised = np.take_along_axis(values, first[None], 0) + 4
            np.put_along_axis(values, first[None], round_to(raised, draw.dtype), 0)
            arrays["x"] = draw.array(np.moveaxis(values, 0, axis), draw.dtype, strides["x"])
        return Problem(scalars, arrays | {"y": draw.output(shape, strides["y"])}, host)

    return make


def noisy(problem):
    """Logits plus noise, scaled by the inverse temperature, with the axis in front."""
    scalars, x = problem.scalars, problem.arrays["x"]
    count = math.prod(x.shape)
    u = uniform(scalars["seed"], scalars["offset"], count, COMPUTE[x.dtype]).reshape(x.shape)
    given, u = (np.moveaxis(values, scalars["softmax_axis"], 0) for values in (x.values, u))
    with np.errstate(all="ignore"):
        return (given - np.log(-np.log1p(-u))) * scalars["inv_tau"]


def forward(problem):
    v = noisy(problem)
    if problem.scalars["hard"]:
        best = np.argmax(v, 0)
        (value,) = back(problem, (np.arange(len(v)).reshape(-1, *[1] * (v.ndim - 1)) == best).astype(np.float64))
        return {"y": Expected(value)}
    y, scaled = of_logits(v)
    value, count, magnitude, scaled = back(problem, y, np.float64(len(v)), np.nan_to_num(y), np.nan_to_num(scaled))
    return {"y": Expected(value, count, magnitude, scaled)}


def of_logits(v):
    """Returns (softmax, the size that the errors of the noise's two logarithms are proportional to)."""
    y, _, size = softmax(v)
    return y, y * (8 + size + 4 * np.abs(np.where(np.isfinite(v), v, 0)).max(0, keepdims=True))


def backward(problem):
    (dy,) = along(problem, "dy")
    v, inv_tau = noisy(problem), problem.scalars["inv_tau"]
    with np.errstate(all="ignore"):
        y, scaled = of_logits(v)
        mean = (y * dy).sum(0, keepdims=True)
        size, rough = np.abs(dy) + (y * np.abs(dy)).sum(0, keepdims=True), (scaled * np.abs(dy)).sum(0, keepdims=True)
        value, magnitude = inv_tau * y * (dy - mean), inv_tau * y * size
        scaled = inv_tau * (scaled * size + y * rough)
    found = back(problem, value, np.float64(len(v)), np.nan_to_num(magnitude), np.nan_to_num(scaled))
    value, count, magnitude, scaled = found
    return {"dx": Expected(value, count, magnitude, scaled)}


def cases():
    shapes = {n: s for n, s in (SHAPES | LONG).items() if n not in ("huge", "longest", "special")}
    unlike = ("lost", "infinite", "infinite_rows", "equal")
    some = {n: shapes[n] for n in ("plain", "vectors", "row_257", "gaps")}
    make = problems(made(), shapes)
    make |= {f"{n}, hard": p for n, p in problems(made(hard=1), shapes).items() if n not in unlike}
    for label, options in {
        "cold": {"inv_tau": 2.5}, "odd_offset": {"offset": 7}, "offset": {"offset": 2**40 + 4},
        "wrapped": {"offset": 2**64 - 20}, "other_seed": {"seed": 2**64 - 1},
    }.items():  # fmt: skip
        make |= {f"{n}, {label}": p for n, p in problems(made(**options), some).items()}
        make |= {f"{n}, hard, {label}": p for n, p in problems(made(hard=1, **options), some).items()}
    of_gradient = {n: (s, a, {k: v for k, v in o.items() if k != "y"}) for n, (s, a, o) in shapes.items()}
    gradients = problems(made(gradient=True, inv_tau=2.5), of_gradient, gradient=True)
    gradients |= {
        f"{n}, odd_offset": p for n, p in problems(made(gradient=True, offset=7), some, gradient=True).items()
    }
    brief = tuple(name for name in BRIEF if name in shapes)
    yield Case(
        row="gumbel_softmax_seeded_{T}", problems=make, reference=forward, tolerance={"y": "softmax"}, plain="plain",
        large="large", idle=IDLE, brief=(*brief, "plain, hard", "vectors, odd_offset", "vectors, offset"),
        full=lambda slots: slots["T"] == "f32",
        bad=(*bad_calls(("stride_x", "stride_y"), ("stride_x", "stride_y"), ("x", "y")), *BAD_TEMPERATURE),
    )  # fmt: skip
    yield Case(
        row="gumbel_softmax_seeded_backward_{T}", problems=gradients, reference=backward, tolerance={"dx": "softmax"},
        plain="plain", large="large", idle=IDLE, brief=(*brief, "vectors, odd_offset"),
        full=lambda slots: slots["T"] == "f32",
        bad=(
            *bad_calls(("stride_dy", "stride_x", "stride_dx"), ("stride_dy", "stride_x"), ("dy", "x", "dx")),
            *BAD_TEMPERATURE,
        ),
    )  # fmt: skip


CASES = tuple(cases())
