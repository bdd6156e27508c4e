# SPDX-License-Identifier: Apache-2.0
"""Bernoulli variables of probabilities and Poisson variables of rates."""

import math

import numpy as np

from tools.oracle import distributions
from tools.oracle.numerics import UNIT_ROUNDOFF, round_to
from tools.oracle.philox import numbers

from ..elementwise.common import CUBE, strided_calls, strided_problems
from ..model import Bad, Case, Expected
from .common import STATE, STREAMS, stream_of
from .dropout import seeded_maker

EDGES = {
    "bernoulli": [0.0, 1.0, -0.5, 1.5, math.nan, math.inf, -math.inf, 2.0**-24, 1 - 2.0**-8],
    "poisson": [0.0, -0.0, -1.0, math.nan, math.inf, 9.75, 10.0, 10.25, 1000.0, 2.0**-24, 20000.0],
}  # fmt: skip


def maker(row, op):
    plain = seeded_maker(row)

    def make(draw, shape, kind="normal", **given):
        problem = plain(draw, shape, **given)
        old = problem.arrays["p"]
        drawn = draw.rng.random(shape) * (1 if op == "bernoulli" else 30)
        if kind == "special":
            drawn = np.where(draw.rng.random(shape) < 0.5, draw.rng.choice(EDGES[op], shape), drawn)
        problem.arrays["p"] = draw.array(round_to(np.asarray(drawn), draw.dtype).reshape(shape), strides=old.strides)
        return problem

    return make


def bernoulli_reference(problem):
    p = problem.arrays["p"].values
    words = numbers(*stream_of(problem, 1), p.size, 1).astype(np.float64).reshape(p.shape)
    return {"y": Expected((words < distributions.probability_words(np.nan_to_num(p, nan=0.0))).astype(np.float64))}


def poisson_reference(problem):
    rates, dtype = problem.arrays["p"].values, problem.arrays["p"].dtype
    seed, offset = stream_of(problem, 2)
    drawn = numbers(seed, offset, rates.size, 2)
    found = [
        (math.inf, False) if rate == math.inf else distributions.poisson(rate, int(number), seed, (offset + k) % 2**64)
        for k, (rate, number) in enumerate(zip(rates.ravel().tolist(), drawn))
    ]
    value = round_to(np.array([v for v, _ in found]), dtype).reshape(rates.shape)
    close = np.array([is_close for _, is_close in found]).reshape(rates.shape)
    return {"y": Expected(value, 1, np.where(close, 1 / UNIT_ROUNDOFF["f64" if dtype == "f64" else "f32"], 0))}


def of_array(row, op, reference):
    make = maker(row, op)
    problems = strided_problems(make, ("p",), ("y",))
    for name, stream in STREAMS.items():
        problems[name] = lambda d, stream=stream: make(d, (5, 31), **stream)
    problems["state"] = lambda d: make(d, (5, 31), state=STATE)
    problems |= {f"n{n}": lambda d, n=n: make(d, (n,), "special") for n in (1, 8, 31, 1000, 4097)}
    problems["plain"] = lambda d: make(d, CUBE, state=STATE)  # with every operand
    calls = strided_calls(row)
    calls["bad"] = (*(bad for bad in calls["bad"] if "state" not in bad.name),
                    Bad("odd_state", 1, r"state is 0x[0-9a-f]+", shift={"state": 1}))  # fmt: skip
    calls["brief"] = (*calls["brief"], "odd_offset", "state")
    return Case(
        row=row, problems=problems, reference=reference, tolerance={"y": "pointwise"},
        full=lambda slots: slots["T"] == "f32", **calls,
    )  # fmt: skip


CASES = (
    of_array("random_bernoulli_of_{T}", "bernoulli", bernoulli_reference),
    of_array("random_poisson_{T}", "poisson", poisson_reference),
)
