# SPDX-License-Identifier: Apache-2.0
"""Unary functions on floats, integers and bool, and their gradients."""

import functools
import re

import numpy as np

import baracuda as bk
from harness.launch import ROWS
from tools.oracle import UNARY
from tools.oracle.arguments import both_signs
from tools.oracle.numerics import LARGEST, bits_type, decode, encode, is_float, round_to

from ..model import Case, Expected, special_floats
from .common import (
    FLAT_BRIEF,
    flat_calls,
    flat_maker,
    flat_problems,
    strided_calls,
    strided_maker,
    strided_problems,
)


def function_of(problem, row):
    """The table's function name: slot F, or part of the row's own."""
    return problem.function or re.match(r"unary_(\w+?)(_param)?(_backward)?_{T}", row)[1]


# --- Inputs ----------------------------------------------------------------------------------------------------------


def neighbours(points, dtype):
    """The points rounded to the dtype, with their neighbours."""
    bits = encode(np.asarray(points, np.float64), dtype).astype(np.int64)
    return decode(np.concatenate([bits - 1, bits, bits + 1])[np.tile(bits > 0, 3)].astype(bits_type(dtype)), dtype)


@functools.cache
def special_pool(function, dtype):
    points = both_signs(UNARY[function].edges)
    return np.concatenate([special_floats(dtype), neighbours(points, dtype), [LARGEST[dtype], -LARGEST[dtype]]])


def argument(draw, function, shape, backward=False):
    """Values of the input x, or of the output y where the gradient takes that."""
    entry = UNARY[function]
    if backward and entry.saves == "y":
        return entry.draw_y(draw.rng, shape)
    return entry.arguments(draw.rng, shape, draw.dtype)


def with_special(draw, values, pool, share=0.4):
    return np.where(draw.rng.random(values.shape) < share, draw.rng.choice(pool, values.shape), values)


def fill(row):
    """Inputs of a float row, for common.make_array; integers are drawn as usual.

    Only one input of a gradient is extreme at a time: a product of a huge and a tiny operand may leave the range of the
    arithmetic on the way, whatever its order.
    """

    def make(draw, param, shape, kind, strides):
        if param.is_output or not is_float(draw.dtype):
            return None
        function, backward = function_of(draw, row), param.name != "x" or "_backward" in row
        is_dy, pool = param.name == "dy", special_pool(function, draw.dtype)
        if kind == "wide" and (is_dy or not backward):
            return None
        values = draw.rng.standard_normal(shape) if is_dy else argument(draw, function, shape, backward)
        if kind == "special" and backward:
            # elements 3k of dy, 3k + 1 of x, and 3k + 2 of both are special along the last axis, broadcast or not
            slot = np.broadcast_to(np.arange(shape[-1]) % 3, shape)
            tame = pool[~np.isfinite(pool) | (np.abs(pool) <= 1) & ((np.abs(pool) >= 0.01) | (pool == 0))]
            # an infinite dy times a derivative that underflows, as many do at infinity, may be NaN or infinite
            tame = tame if is_dy else tame[~np.isinf(tame)]
            values = values if is_dy else np.where(slot == 1, values, np.clip(values, -8, 8))
            values = np.where(slot == (0 if is_dy else 1), with_special(draw, values, pool), values)
            values = np.where(slot == 2, with_special(draw, values, tame), values)
        elif kind == "special":
            values = with_special(draw, values, pool)
        return draw.array(round_to(values, draw.dtype).reshape(shape), draw.dtype, strides)

    return make


def maker(row, **scalars):
    return (strided_maker if "_strided" in row else flat_maker)(row, fill(row), **scalars)


# --- References ------------------------------------------------------------------------------------------------------


def cancelled(function, x, dtype, backward):
    """The magnitude of summands that cancel, for functions that f64 must compute without a wider type.

    lgamma and digamma of negative arguments are differences of two functions by the reflection formula. So is CUDA's
    lgamma of f32 next to its roots between -10.001 and -2.264; digamma, the gradient of lgamma, is f32 there.
    """
    if dtype != "f64" and bk.default_library().backend == "cuda":
        if function == "lgamma" and not backward:
            return np.where((x > -10.01) & (x < -2.26), 8.0, 0.0)
        if (function, backward) in (("lgamma", True), ("digamma", False)):
            negative = (x < 0) & np.isfinite(x)
            return np.where(negative, 16.0 * (1 + np.log1p(np.where(negative, -x, 0.0))), 0.0)
    if dtype != "f64":
        return 0.0
    if function == "lgamma" or (function == "digamma" and not backward):
        with np.errstate(all="ignore"):
            size = 1 + np.log1p(np.abs(x)) * (np.abs(x) if function == "lgamma" and not backward else 1)
        return np.where((x < 0) & np.isfinite(size), size, 0.0)
    return 0.0


def reference_of(row):
    backward = "_backward" in row

    def reference(problem):
        function, arrays = function_of(problem, row), problem.arrays
        entry = UNARY[function]
        if backward:
            dx, saved = arrays["dx"], arrays.get("saved", arrays.get("x"))
            value = entry.gradient(arrays["dy"].values, saved.values, *entry.seen(dx.dtype))
            dy = np.abs(arrays["dy"].values)
            with np.errstate(all="ignore"):
                magnitude = dy * cancelled(function, saved.values, dx.dtype, True)
            magnitude = np.where(np.isfinite(magnitude), magnitude, 0.0)
            return {"dx": Expected(value, magnitude=magnitude, divided=dy, op=f"{function}_backward")}
        x = arrays["x"]
        if not is_float(x.dtype):
            return {"y": Expected(entry.of_integers(x.values, x.dtype))}
        value = entry.value(x.values, *entry.seen(x.dtype))
        return {"y": Expected(value, magnitude=cancelled(function, x.values, x.dtype, False), op=function)}

    return reference


# --- Cases -----------------------------------------------------------------------------------------------------------


def unary_case(row, reference, brief=(), extra=None, **scalars):
    """A case by the row's operands, for unary_param.py, too.

    extra   flat maker -> further problems of a flat row, those named in `brief` for every function
    """
    pointers = [p.name for p in ROWS[row].pointers]
    inputs, (output,) = pointers[:-1], pointers[-1:]
    common = {
        "row": row, "reference": reference, "tolerance": {output: "ulp"},
    }  # fmt: skip
    make = maker(row, **scalars)
    if "_strided" in row:
        return Case(problems=strided_problems(make, inputs, (output,)), **common, **strided_calls(row))
    problems = flat_problems(make) | (extra(make) if extra else {})
    return Case(problems=problems, **common, **flat_calls(row, brief=(*FLAT_BRIEF, "n1000", *brief)))


CASES = tuple(
    unary_case(name, reference_of(name))
    for name, row in ROWS.items()
    if name.startswith("unary_") and not any(p.role == "parameter" for p in row.params)
)
