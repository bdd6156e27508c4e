# SPDX-License-Identifier: Apache-2.0
"""Random integers, bits and Bernoulli variables."""

import math

import numpy as np

from tools.oracle import distributions
from tools.oracle.numerics import LIMITS, STORAGE
from tools.oracle.philox import numbers

from ..model import Array, Bad, Case, Expected, Problem
from .common import BRIEF, IDLE, bad_calls, made, problems, signed, stream_of


def integers_reference(problem):
    s, y = problem.scalars, problem.arrays["y"]
    stream = stream_of(problem, distributions.words_of(y.dtype))
    value = distributions.integers(s["low"], s["high"], *stream, y.shape[0], y.dtype)
    return {"y": Expected(value)}


def bits_reference(problem):
    y = problem.arrays["y"]
    each, width = distributions.words_of(y.dtype), 8 * np.dtype(STORAGE[y.dtype]).itemsize
    value = numbers(*stream_of(problem, each), y.shape[0], each) >> np.uint64(32 * each - width)
    if y.dtype.startswith("i"):
        value = value.astype(np.int64) if width == 64 else value.astype(f"u{width // 8}").astype(f"i{width // 8}")
    return {"y": Expected(value if y.dtype == "u64" else value.astype(np.int64))}


def bernoulli_reference(problem):
    y = problem.arrays["y"]
    words = numbers(*stream_of(problem, 1), y.shape[0], 1).astype(np.float64)
    value = words < distributions.probability_words(problem.scalars["p"])
    return {"y": Expected(value.astype(np.float64 if y.dtype[0] in "fb" and y.dtype != "bool" else np.int64))}


def whole_range(draw):
    """All numbers of the dtype; of i64 all but the last one, since `high` is not included."""
    low, high = LIMITS[draw.dtype]
    return made(draw, 1003, low=low, high=min(high + 1, 2**63 - 1))


def rejecting(draw):
    """A range in which a number is rejected as often as possible."""
    low, high = LIMITS[draw.dtype]
    span = 2**63 - 2**61 if high >= 2**62 else min(2**31 + 1, high - low)
    return made(draw, 1003, low=low, high=low + span)


def advanced(blocks, block):
    state = Array("i64", (2,), np.array([signed(2**64 - 3), signed(block)], np.int64))
    return Problem({"blocks": blocks}, {"state": state})


def advance_reference(problem):
    seed, block = (int(v) for v in problem.arrays["state"].values)
    return {"state": Expected(np.array([seed, signed((block + problem.scalars["blocks"]) % 2**64)], np.int64))}


CASES = (
    Case(
        row="random_advance",
        problems={
            f"{blocks} from {block}": lambda d, blocks=blocks, block=block: advanced(blocks, block)
            for blocks, block in ((1, 0), (0, 5), (2**40, 2**33), (7, 2**64 - 3), (-2, 2**63), (2**63 - 1, 2**63))
        },
        reference=advance_reference, tolerance={"state": "exact"}, plain="1 from 0", large="1 from 0", idle=(),
        bad=(Bad("null_state", 2, r"state is NULL", null=("state",)),
             Bad("odd_state", 1, r"state is 0x[0-9a-f]+", shift={"state": 1})),
    ),
    Case(
        row="random_integers_{T}",
        problems=problems({"low": 3, "high": 10}, {"one": {"low": 5, "high": 6}, "odd": {"low": 0, "high": 101}})
        | {"whole_range": whole_range, "rejecting": rejecting},
        reference=integers_reference, tolerance={"y": "exact"}, plain="state", large="n20011", idle=IDLE,
        brief=(*BRIEF, "whole_range", "rejecting"), full=lambda slots: slots["T"] in ("i32", "i64"),
        bad=bad_calls(
            ({"low": 10}, "low is 10, must be below high, 10"), ({"high": -5}, "low is 3, must be below high, -5"),
        ),
    ),
    Case(
        row="random_bits_{T}", problems=problems({}), reference=bits_reference, tolerance={"y": "exact"}, plain="state",
        large="n20011", brief=BRIEF, idle=IDLE, full=lambda slots: slots["T"] in ("u32", "u64"), bad=bad_calls(),
    ),
    Case(
        row="random_bernoulli_{T}",
        problems=problems({"p": 0.3}, {f"p{p}": {"p": p} for p in (0.0, 1.0, 0.5, 1e-10, 2.0**-33, 1 - 2.0**-32)}),
        reference=bernoulli_reference, tolerance={"y": "exact"}, plain="state", large="n20011", idle=IDLE,
        brief=(*BRIEF, "p0.0", "p1.0"), full=lambda slots: slots["T"] == "u8",
        bad=bad_calls(*(({"p": p}, r"p is \S+, must be in \[0, 1\]") for p in (-0.1, 1.1, math.nan, math.inf))),
    ),
)  # fmt: skip
