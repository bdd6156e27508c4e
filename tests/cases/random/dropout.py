# SPDX-License-Identifier: Apache-2.0
"""Dropout by a seed and its gradient, and the reference's ops on a buffer of uniform numbers."""

import math

import numpy as np

from tools.oracle import distributions
from tools.oracle.philox import numbers

from ..elementwise.common import (
    CUBE,
    flat_calls,
    flat_maker,
    flat_problems,
    strided_calls,
    strided_maker,
    strided_problems,
)
from ..model import Bad, Case, Expected
from .common import SEED, STATE, STREAMS, state_of, stream_of

ALPHA = -1.7580993408473766  # -lambda alpha of SELU


def seeded_maker(row, **defaults):
    """make(draw, shape, kind, state, ...) of a strided row with a state and perhaps a residual."""
    plain = strided_maker(row)

    def make(draw, shape, kind="normal", state=None, alone=False, **given):
        scalars = {"seed": SEED, "offset": 0, **defaults}
        scalars |= {k: given.pop(k) for k in tuple(given) if k in scalars}
        problem = plain(draw, shape, kind, **scalars, **given)
        problem.host.pop("stride_state", None)
        arrays, null = state_of(state)
        problem.arrays |= arrays
        if "residual" in problem.arrays and alone:
            null = (*null, "residual")
        problem.null = null
        return problem

    return make


def dropped(problem, shape):
    s = problem.scalars
    count = math.prod(shape) // s["shared"]
    words = numbers(*stream_of(problem, 1), count, 1).astype(np.float64)
    return np.repeat(words < distributions.probability_words(s["p"]), s["shared"]).reshape(shape)


def coefficients(problem, *, gradient):
    """(factor and shift of what is kept, what replaces the rest)"""
    s = problem.scalars
    p, scale = s["p"], s["scale"]
    if p == 1:
        return 0.0, 0.0, 0.0
    if not s["is_alpha"]:
        return scale / (1 - p), 0.0, 0.0
    a = ((1 - p) * (1 + p * ALPHA**2)) ** -0.5
    b = -a * p * ALPHA
    return (scale * a, 0.0, 0.0) if gradient else (scale * a, scale * b, scale * (a * ALPHA + b))


def result(problem, x, residual, *, gradient=False):
    factor, shift, fallback = coefficients(problem, gradient=gradient)
    is_dropped = dropped(problem, x.shape)
    with np.errstate(all="ignore"):
        value = np.where(is_dropped, fallback, x * factor + shift if shift else x * factor)
        size = np.abs(np.where(is_dropped, fallback, np.abs(x * factor) + abs(shift)))
        if residual is not None:
            value, size = value + residual, size + np.abs(residual)
    return Expected(value, 3, np.nan_to_num(size, posinf=0))


def forward(problem):
    residual = None if "residual" in problem.null else problem.arrays["residual"].values
    return {"y": result(problem, problem.arrays["x"].values, residual)}


def backward(problem):
    return {"dx": result(problem, problem.arrays["dy"].values, None, gradient=True)}


def options(make):
    """Problems of every option, on one shape."""
    table = {
        f"p{p}": lambda d, p=p: make(d, (21, 23), "special", p=p) for p in (0.0, 1.0, 0.5, 0.999, 1e-10)
    }  # fmt: skip
    table |= {f"p{p}, dense": lambda d, p=p: make(d, (483,), "special", p=p) for p in (0.0, 1.0)}
    table |= {f"alpha, p{p}": lambda d, p=p: make(d, (21, 23), p=p, is_alpha=1) for p in (0.0, 0.3, 1.0)}
    table |= {f"scale {v}": lambda d, v=v: make(d, (21, 23), scale=v) for v in (0.0, -2.5)}
    for shared in (3, 23, 7 * 23, 483):
        table[f"shared {shared}"] = lambda d, n=shared: make(d, (3, 7, 23), shared=n)
    table["shared, long"] = lambda d: make(d, (5, 3001), shared=3001)
    table["shared, alpha"] = lambda d: make(d, (4, 5, 36), shared=36, is_alpha=1, offset=3)
    for name, stream in STREAMS.items():
        table[name] = lambda d, stream=stream: make(d, (5, 31), **stream)
    table["state"] = lambda d: make(d, (5, 31), state=STATE)
    table["state_offset"] = lambda d: make(d, (5, 31), state=STATE, offset=2**64 - 5)
    for numel in (1, 3, 8, 31, 1000, 4097):
        table[f"n{numel}"] = lambda d, n=numel: make(d, (n,))
        table[f"n{numel}, odd_offset"] = lambda d, n=numel: make(d, (n,), offset=5)
    return table


def wrong():
    return (
        *(Bad(f"p_{p}", 2, r"p is \S+, must be in \[0, 1\]", {"p": p}, can=2) for p in (-0.1, 1.5, math.nan)),
        *(Bad(f"scale_{v}", 2, r"scale is \S+, must be finite", {"scale": v}, can=2) for v in (math.inf, math.nan)),
        *(Bad(f"shared_{n}", 2, rf"shared is {n}, must be", {"shared": n}, can=2) for n in (0, -1, 2)),
    )


def seeded(row, reference, inputs, output):
    make = seeded_maker(row, shared=1, is_alpha=0, p=0.3, scale=1.0)
    problems = strided_problems(make, inputs, (output,)) | options(make)
    if "residual" in inputs:
        without = strided_problems(lambda *a, **k: make(*a, alone=True, **k), inputs, (output,))
        problems |= {f"{name}, alone": problem for name, problem in without.items()}
        problems |= {f"{n}, alone": p for n, p in options(lambda *a, **k: make(*a, alone=True, **k)).items()}
    problems["plain"] = lambda d: make(d, CUBE, state=STATE)  # with every operand
    calls = strided_calls(row)
    calls["bad"] = (*(bad for bad in calls["bad"] if "state" not in bad.name), *wrong(),
                    Bad("odd_state", 1, r"state is 0x[0-9a-f]+", shift={"state": 1}))  # fmt: skip
    calls["brief"] = (*calls["brief"], "p1.0", "alpha, p0.3", "shared 23", "odd_offset", "state")
    calls["idle"] = tuple(calls["idle"])
    return Case(
        row=row, problems=problems, reference=reference, tolerance={output: "pointwise"},
        full=lambda slots: slots["T"] == "f32", **calls,
    )  # fmt: skip


# --- ops on a buffer -------------------------------------------------------------------------------------------------


def buffer_of(draw, param, shape, kind, strides):
    """Uniform numbers, among them 0, 1 and the limits of the tests; masks of 0 and other bytes."""
    if param.name == "rand":
        rand = draw.rng.random(shape, np.float32).astype(np.float64)
        edges = np.array([0.0, 1.0, np.float32(0.3), np.float32(1) - np.float32(0.3)], np.float64)
        return draw.array(np.where(draw.rng.random(shape) < 0.1, draw.rng.choice(edges, shape), rand), "f32")
    if param.name == "mask":
        if param.direction == "out":
            return None
        return draw.array(draw.rng.integers(0, 3, shape), "u8")
    return None


def bernoulli_reference(problem):
    p, rand = np.float32(problem.scalars["p"]), problem.arrays["rand"].values
    return {"y": Expected(((rand < p) | (p == 1)).astype(np.int64))}


def buffer_reference(problem):
    s = problem.scalars
    p = np.float32(s["p"])
    kept = (problem.arrays["rand"].values < np.float32(1) - p) | (p == 0)
    x = problem.arrays["x"].values
    with np.errstate(all="ignore"):
        return {"y": Expected(np.where(kept, x * s["scale"], 0.0)), "mask": Expected(kept.astype(np.int64))}


def mask_reference(problem):
    dy, mask = (problem.arrays[name].values for name in ("dy", "mask"))
    with np.errstate(all="ignore"):
        return {"dx": Expected(np.where(mask != 0, dy * problem.scalars["scale"], 0.0))}


def of_buffer(row, reference, tolerance, **scalars):
    make = flat_maker(row, buffer_of, **scalars)
    problems = flat_problems(make)
    bad = ()
    if "p" in scalars:
        problems |= {f"p{p}": lambda d, p=p: make(d, 500, "special", p=p) for p in (0.0, 1.0, 0.5)}
        bad = tuple(Bad(f"p_{p}", 2, r"p is \S+, must be in \[0, 1\]", {"p": p}, can=2) for p in (-0.1, 1.5, math.nan))
    calls = flat_calls(row)
    kept = tuple(b for b in calls["bad"] if b.name not in ("odd_mask", "odd_y") or row != "bernoulli")
    kept = tuple(b for b in kept if not (b.shift and set(b.shift) & BYTES[row]))
    return Case(row=row, problems=problems, reference=reference, tolerance=tolerance, **calls | {"bad": (*kept, *bad)})


BYTES = {
    "bernoulli": {"y"}, "dropout_{T}": {"mask"}, "dropout_{T} f64": {"mask"}, "dropout_backward_{T}": {"mask"},
    "dropout_backward_{T} f64": {"mask"},
}  # fmt: skip


def cases():
    yield seeded("dropout_seeded_{T}", forward, ("x", "residual"), "y")
    yield seeded("dropout_seeded_backward_{T}", backward, ("dy",), "dx")
    yield of_buffer("bernoulli", bernoulli_reference, {"y": "exact"}, p=float(np.float32(0.3)))
    for suffix in ("", " f64"):
        yield of_buffer(
            f"dropout_{{T}}{suffix}", buffer_reference, {"y": "pointwise", "mask": "exact"}, p=float(np.float32(0.3)),
            scale=1.25,
        )  # fmt: skip
        yield of_buffer(f"dropout_backward_{{T}}{suffix}", mask_reference, {"dx": "pointwise"}, scale=1.25)


CASES = tuple(cases())
