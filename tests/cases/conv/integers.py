# SPDX-License-Identifier: Apache-2.0
"""Convolution of 8-bit integers: exact sums, and sums scaled to floats or to 8 bits."""

import numpy as np

from tools.oracle.numerics import LIMITS, is_float

from ..gemm.gemm import ACTIVATIONS
from ..model import Case, Expected, Idle, Problem
from .general import General, bad_calls, numbers_of, read, shapes_of
from .references import convolve

NAMES = ("", "relu", "gelu", "silu", "gelu_tanh")
CALLS = {
    "one": General(1, 1, 1, (1,), (1,)),
    "plain": General(2, 3, 4, (5, 7), (3, 2), bias=True),
    "bare": General(2, 3, 4, (5, 7), (3, 2)),
    "last": General(2, 7, 6, (5, 7), (3, 2), layout=1, bias=True),
    "padded": General(2, 5, 3, (9, 8), (3, 3), (2, 1), (1, 2), (0, 1), (1, 2), groups=2, bias=True, activation=1),
    "padded_last": General(2, 5, 3, (9, 8), (3, 3), (2, 1), (1, 2), (0, 1), (1, 2), groups=2, layout=1, activation=1),
    "depthwise": General(1, 1, 1, (12, 20), (3, 3), (1, 1), (1, 1), (1, 1), groups=18),
    "depthwise_last": General(1, 1, 1, (12, 20), (3, 3), (1, 1), (1, 1), (1, 1), groups=18, layout=1),
    "volume": General(1, 4, 6, (4, 5, 6), (3, 2, 3), (1, 2, 1), (1, 0, 2), (1, 1, 0)),
    "deep": General(1, 300, 9, (4, 4), (3, 3), layout=1, bias=True),
    "very_deep": General(1, 4000, 2, (3, 3), (3, 3)),
    "no_summands": General(2, 0, 4, (5, 7), (3, 2), bias=True),
    "large": General(2, 16, 24, (20, 33), (3, 3), before=(1, 1), after=(1, 1), bias=True),
}  # fmt: skip


def problem_of(draw, call, result, scaled):
    x, w, spatial = shapes_of(call, False)
    scalars, host = numbers_of(draw, call, False)
    channels = call.outputs * call.groups
    y = call.in_memory(call.batch, spatial, channels)
    scalars = {name: scalars[name] for name in ("rank", "groups", "channels_last")}
    arrays = {"x": draw.integers(x), "w": draw.integers(w, dtype="i8"), "y": draw.output(y, dtype=result)}
    if not scaled:
        return Problem(scalars, arrays, host)
    # Powers of two and multiples of 2^-6, so that products and sums of f32 are exact.
    spread = float(2.0 ** -np.ceil(np.log2(max(call.inputs * np.prod(call.taps), 1) * 100)))
    scale = np.ldexp(1.0, draw.rng.integers(-2, 2, channels)) * spread
    bias = draw.rng.integers(-64, 64, channels) / 64
    arrays |= {"scale": draw.array(scale, "f32"), "bias": draw.array(bias, "f32")}
    null = () if call.bias else ("bias",)
    activation = call.activation if is_float(result) or call.activation < 2 else 1
    return Problem(scalars | {"activation": activation, "alpha": 2.0}, arrays, host, null=null)


def sums_of(problem):
    arrays, entries, groups, restore = read(problem)
    sums = convolve(arrays["x"].astype(np.int64), arrays["w"].astype(np.int64), *entries, groups)
    return np.clip(sums, *LIMITS["i32"]), restore


def exact_reference(problem):
    sums, restore = sums_of(problem)
    return {"y": Expected(restore(sums))}


def scaled_reference(problem):
    sums, restore = sums_of(problem)
    shape = (1, -1, *[1] * (sums.ndim - 2))
    z = problem.scalars["alpha"] * problem.arrays["scale"].values.reshape(shape) * sums
    magnitude = np.abs(z)
    if "bias" not in problem.null:
        z = z + problem.arrays["bias"].values.reshape(shape)
        magnitude = magnitude + np.abs(problem.arrays["bias"].values).reshape(shape)
    z = ACTIVATIONS[NAMES[problem.scalars["activation"]]](z)
    result = problem.arrays["y"].dtype
    if not is_float(result):
        return {"y": Expected(restore(np.clip(np.rint(z), *LIMITS[result]).astype(np.int64)))}
    return {"y": Expected(restore(z), 4, restore(magnitude))}


def sums_problems():
    return {name: lambda draw, call=call: problem_of(draw, call, "i32", False) for name, call in CALLS.items()}


def scaled_problems():
    more = {
        "silu": General(2, 3, 4, (5, 7), (3, 2), activation=3),
        "gelu": General(2, 3, 4, (5, 7), (3, 2), activation=2),
    }
    return {
        name: lambda draw, call=call: problem_of(draw, call, draw.other, True) for name, call in (CALLS | more).items()
    }


IDLE = (Idle("no_images", {}, {"input_shape": (0, 3, 5, 7)}),)
CASES = (
    Case(
        row="convolution_{T}_sums", problems=sums_problems(), reference=exact_reference, tolerance={"y": "exact"},
        plain="plain", large="large", bad=bad_calls(activation=False), idle=IDLE,
    ),
    Case(
        row="convolution_{T}_{U}", problems=scaled_problems(), reference=scaled_reference, tolerance={"y": "gemm"},
        plain="plain", large="large", bad=bad_calls(), idle=IDLE,
        brief=("plain", "padded", "last"), full=lambda slots: slots["U"] in ("f32", "i8"),
    ),
)  # fmt: skip
