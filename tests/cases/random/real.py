# SPDX-License-Identifier: Apache-2.0
"""Arrays of real random numbers."""

import functools
import math

import numpy as np

from tools.oracle import distributions
from tools.oracle.numerics import COMPUTE, round_to

from ..model import Case, Expected
from .common import BRIEF, IDLE, NO_NUMBERS, bad_calls, problems, stream_of


def located(name, problem, t, is_upper):
    s = problem.scalars
    z = distributions.LOCATED[name](t, is_upper)
    with np.errstate(over="ignore"):
        return s["location"] + s["scale"] * z, np.abs(s["location"]) + s["scale"] * (np.abs(z) + 1)


def normal(problem, t, is_upper):
    s = problem.scalars
    z = distributions.quantile(t, is_upper)
    return s["mean"] + s["stddev"] * z, np.abs(s["mean"]) + s["stddev"] * np.abs(z)


def log_normal(problem, t, is_upper):
    exponent, size = normal(problem, t, is_upper)
    return np.exp(exponent), np.exp(exponent) * (1 + size)


def truncated_normal(problem, t, is_upper):
    """The error is that of z, whose derivative by the probability grows to its tail, relative to which p is rounded."""
    s = problem.scalars
    y = distributions.truncated_normal(s["low"], s["high"], s["mean"], s["stddev"], t, is_upper)
    return y, np.abs(s["mean"]) + s["stddev"] * (3 + np.abs((y - s["mean"]) / s["stddev"]))


def exponential(problem, t, is_upper):
    e = distributions.exponential(t, is_upper) / problem.scalars["rate"]
    return e, e


def reference(transform, problem):
    y = problem.arrays["y"]
    with np.errstate(divide="ignore"):
        value, magnitude = transform(
            problem, *distributions.tails(*stream_of(problem, distributions.words_of(y.dtype)), y.shape[0], y.dtype)
        )
    return {"y": Expected(value, 8, magnitude)}


def geometric_reference(problem):
    """Accepts both integers next to a quotient that rounding may move across one."""
    y = problem.arrays["y"]
    trials = distributions.trials(
        problem.scalars["p"],
        *distributions.tails(*stream_of(problem, distributions.words_of(y.dtype)), y.shape[0], y.dtype),
    )
    close = np.abs(trials - np.round(trials)) < np.maximum(trials, 1) * (2e-6 if COMPUTE[y.dtype] == "f32" else 1e-14)
    unit = 2.0**-24 if COMPUTE[y.dtype] == "f32" else 2.0**-53
    value = round_to(np.maximum(np.ceil(trials), 1), y.dtype)
    return {"y": Expected(value, 1, np.where(close, 1 / unit, 0))}


def uniform_reference(problem, *, includes_high=False):
    s, y = problem.scalars, problem.arrays["y"]
    value = distributions.uniform(
        s["low"],
        s["high"],
        *stream_of(problem, distributions.words_of(y.dtype)),
        y.shape[0],
        y.dtype,
        includes_high=includes_high,
    )
    return {"y": Expected(value.astype(np.float64), 1, abs(s["low"]) + abs(s["high"]))}


def spread(name):
    return [
        ({name: -1.0}, rf"{name} is -1, must be finite"),
        *(({name: v}, rf"{name} is \S+, must be finite") for v in NO_NUMBERS),
    ]


def unbounded(name):
    return [({name: v}, rf"{name} is \S+, must be finite") for v in NO_NUMBERS]


def positive(name):
    return [({name: v}, rf"{name} is \S+, must be positive") for v in (0.0, -1.0, *NO_NUMBERS)]


INTERVALS = [
    ({"low": 2.0, "high": 2.0}, "low is 2, must be below high, 2"), ({"low": 3.0}, "low is 3, must be below high"),
    ({"low": math.nan}, "low is -?nan"), ({"high": math.nan}, "low is "),
    ({"low": -math.inf}, "low is -inf"), ({"high": math.inf}, "low is "),
]  # fmt: skip
WIDE = {
    "wide": {"low": -3.0, "high": 7.0}, "narrow": {"low": 100.0, "high": 101.0}, "small": {"low": -1e-3, "high": 0.0},
}  # fmt: skip
CUTS = {
    "one_sided": {"low": 1.0, "high": math.inf}, "other_side": {"low": -math.inf, "high": 0.5},
    "whole": {"low": -math.inf, "high": math.inf}, "tail": {"low": 4.0, "high": 6.0},
    "lower_tail": {"low": -9.0, "high": -8.5}, "moved": {"mean": 3.0, "stddev": 0.5, "low": 3.25, "high": 3.5},
}  # fmt: skip


def case(name, scalars, make_reference, wrong, variants, tolerance="pointwise"):
    return Case(
        row=f"random_{name}_{{T}}", problems=problems(scalars, variants), reference=make_reference,
        tolerance={"y": tolerance}, plain="state", large="n20011", brief=(*BRIEF, *list(variants)[:1]), idle=IDLE,
        full=lambda slots: slots["T"] == "f32", bad=bad_calls(*wrong),
    )  # fmt: skip


def cases():
    moved = {"moved": {"mean": 5.0, "stddev": 2.5}, "constant": {"mean": -1.5, "stddev": 0.0}}
    standard = {"mean": 0.0, "stddev": 1.0}
    wrong = [*unbounded("mean"), *spread("stddev")]
    yield case("uniform", {"low": 0.0, "high": 1.0}, uniform_reference, INTERVALS, WIDE)
    yield case("normal", standard, functools.partial(reference, normal), wrong, moved)
    yield case(
        "log_normal", standard, functools.partial(reference, log_normal), wrong,
        {"moved": {"mean": 1.0, "stddev": 0.25}, "constant": {"mean": 0.5, "stddev": 0.0}},
    )  # fmt: skip
    yield case(
        "truncated_normal", standard | {"low": -2.0, "high": 2.0}, functools.partial(reference, truncated_normal),
        [*unbounded("mean"), *positive("stddev"), ({"low": 2.0}, "low is 2, must be below high, 2"),
         ({"low": math.nan}, "low is "), ({"low": 13.0, "high": 14.0}, "low is 13 and high 14, more than 12 stddev")],
        CUTS,
    )  # fmt: skip
    yield case(
        "exponential", {"rate": 1.0}, functools.partial(reference, exponential), positive("rate"),
        {"fast": {"rate": 7.5}, "slow": {"rate": 1 / 128}},
    )  # fmt: skip
    for name in distributions.LOCATED:
        yield case(
            name, {"location": 0.0, "scale": 1.0}, functools.partial(reference, functools.partial(located, name)),
            [*unbounded("location"), *spread("scale")],
            {"moved": {"location": 3.0, "scale": 0.5}, "constant": {"location": 2.0, "scale": 0.0}},
        )  # fmt: skip
    yield case(
        "geometric", {"p": 0.25}, geometric_reference,
        [({"p": p}, r"p is \S+, must be in \(0, 1\]") for p in (0.0, -0.5, 1.5, math.nan)],
        {"often": {"p": 0.9}, "always": {"p": 1.0}, "rarely": {"p": 1e-3}},
    )  # fmt: skip


CASES = tuple(cases())
