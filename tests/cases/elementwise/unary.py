"""Unary functions on floats, integers and bool, and their gradients."""

import functools
import re

import numpy as np

import baracuda as bk
from harness.launch import ROWS
from harness.numerics import LARGEST, bits_type, decode, encode, is_float, round_to
from references.unary import BACKWARD, FORWARD, INTEGER, SAVES_OUTPUT

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

TABLES = ("unary", "unary_backward", "unary_integer")
# ln of the largest value, which exponential functions reach
REACH = {"f16": 11.1, "bf16": 88.8, "f32": 88.8, "f64": 709.8}
# where a function's formula or its domain changes, or its gradient has a root, beside 0
EDGES = {
    **dict.fromkeys(("asin", "acos", "acosh", "atanh", "erfinv", "hardtanh", "log", "log2", "log10", "softsign"), (1,)),
    **dict.fromkeys(("hardswish", "hardsigmoid"), (3,)),
    **dict.fromkeys(("hardshrink", "softshrink"), (0.5, 1)),
    **dict.fromkeys(("floor", "ceil", "round", "trunc", "frac"), (0.5, 1, 1.5, 2, 2.5, 2.0**10, 2.0**23, 2.0**52)),
    **dict.fromkeys(("sin", "cos", "tan"), tuple(k * np.pi / 4 for k in (1, 2, 3, 4, 6, 8, 22, 710))),
    "relu6": (6,), "log1p": (1,), "logit": (0.5, 1), "lgamma": (0.5, 1, 2, 3), "digamma": (1, 1.4616321449683622, 2),
    **dict.fromkeys(("gelu", "gelu_erf"), (0.7517915246935645,)), "gelu_tanh": (0.7524614220710163,),
    "silu": (1.2784645427610738,), "mish": (1.192431214515495, 20), "softplus": (20,), "tanhshrink": (0.5, 1),
    "powf": (1, 2), "powi": (1, 2), "cbrt": (1, 8, 27),
}  # fmt: skip


def function_of(problem, row):
    """The table's name of what is computed: slot F, or part of the row's own."""
    return problem.function or re.match(r"unary_(\w+?)(_param)?(_backward)?_{T}", row)[1]


# --- Inputs ----------------------------------------------------------------------------------------------------------


def mixture(draw, shape, *samples):
    """Each cell from one of the arrays."""
    return np.choose(draw.rng.integers(0, len(samples), shape), [np.broadcast_to(s, shape) for s in samples])


def near(draw, shape, points):
    """The points, and within a part in a hundred of them."""
    points = draw.rng.choice(np.asarray(points, np.float64), shape)
    return mixture(draw, shape, points, points * (1 + 0.01 * draw.rng.standard_normal(shape)))


def domain(draw, function, shape):
    """Finite arguments within the domain, more of them where the function is interesting."""
    rng = draw.rng
    normal, tiny = rng.standard_normal(shape), np.ldexp(rng.standard_normal(shape), -rng.integers(0, 24, shape))
    reach = REACH[draw.dtype]
    if function in ("log", "log2", "log10", "sqrt", "rsqrt"):
        return mixture(draw, shape, np.exp(4 * normal), 1 + 0.01 * normal)
    if function in ("asin", "acos", "atanh", "erfinv"):
        edge = np.copysign(1 - np.abs(tiny) / 4, normal)
        return np.clip(mixture(draw, shape, rng.uniform(-1, 1, shape), tiny, edge), -1, 1)
    if function in ("exp", "expm1", "sinh", "cosh"):
        return mixture(draw, shape, rng.uniform(-1.2 * reach, reach, shape), 3 * normal, tiny)
    if function == "exp2":
        return mixture(draw, shape, rng.uniform(-1.2 * reach, reach, shape) / np.log(2), 3 * normal, tiny)
    if function == "acosh":
        return mixture(draw, shape, 1 + np.abs(tiny), 1 + np.exp(4 * normal))
    if function == "log1p":
        return mixture(draw, shape, tiny, np.exp(4 * normal), np.abs(tiny) / 4 - 1)
    if function == "logit":
        return np.clip(mixture(draw, shape, rng.uniform(0, 1, shape), np.abs(tiny) / 4, 0.5 + tiny / 8), 0, 1)
    if function in ("sin", "cos", "tan"):
        return mixture(draw, shape, 3 * normal, 1000 * normal, tiny, near(draw, shape, EDGES["sin"]))
    if function in ("lgamma", "digamma"):
        return mixture(draw, shape, np.abs(3 * normal), 50 * normal, tiny, near(draw, shape, EDGES[function]))
    if function in ("erf", "erfc", "gelu", "gelu_erf", "gelu_tanh", "silu", "mish", "sigmoid", "softplus"):
        wing = {"silu": reach, "mish": reach, "sigmoid": reach, "softplus": reach}.get(function, (2 * reach) ** 0.5)
        edge = near(draw, shape, [s * e for e in edges(function) for s in (1, -1)])
        return mixture(draw, shape, rng.uniform(-1.1 * wing, 1.1 * wing, shape), 3 * normal, tiny, edge)
    return mixture(draw, shape, 3 * normal, tiny, near(draw, shape, [s * e for e in edges(function) for s in (1, -1)]))


def edges(function):
    return EDGES.get(function, (1,))


OUTPUTS = {  # of functions whose gradient takes them
    "tanh": lambda rng, shape: rng.uniform(-1, 1, shape), "sigmoid": lambda rng, shape: rng.uniform(0, 1, shape),
    "expm1": lambda rng, shape: np.exp(3 * rng.standard_normal(shape)) - 1,
    "cbrt": lambda rng, shape: 3 * rng.standard_normal(shape), "erfinv": lambda rng, shape: rng.uniform(-4, 4, shape),
}  # fmt: skip


def neighbours(points, dtype):
    """The points as the dtype has them, with the values next to them."""
    bits = encode(np.asarray(points, np.float64), dtype).astype(np.int64)
    return decode(np.concatenate([bits - 1, bits, bits + 1])[np.tile(bits > 0, 3)].astype(bits_type(dtype)), dtype)


@functools.cache
def special_pool(function, dtype):
    points = [s * e for e in edges(function) for s in (1, -1)]
    return np.concatenate([special_floats(dtype), neighbours(points, dtype), [LARGEST[dtype], -LARGEST[dtype]]])


def argument(draw, function, shape, backward=False):
    """Values of the input x, or of the output y where the gradient takes that."""
    if backward and function in SAVES_OUTPUT:
        positive = lambda rng, shape: np.exp(2 * rng.standard_normal(shape))  # noqa: E731
        return OUTPUTS.get(function, positive)(draw.rng, shape)
    return domain(draw, function, shape)


def with_special(draw, values, pool, share=0.4):
    return np.where(draw.rng.random(values.shape) < share, draw.rng.choice(pool, values.shape), values)


def fill(row):
    """Inputs of a float row, for common.make_array; integers are left to draw.

    Of a gradient's two inputs one is extreme at a time: a product of a huge and a tiny factor may leave the range of
    the arithmetic on the way, whatever its order.
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
            # the same cells for both inputs, broadcast ones too: their places alternate along the last axis
            place = np.broadcast_to(np.arange(shape[-1]) % 3, shape)
            tame = pool[~np.isfinite(pool) | (np.abs(pool) <= 1) & ((np.abs(pool) >= 0.01) | (pool == 0))]
            # an infinite dy times a derivative that underflows, as many do at infinity, may be NaN or infinite
            tame = tame if is_dy else tame[~np.isinf(tame)]
            values = values if is_dy else np.where(place == 1, values, np.clip(values, -8, 8))
            values = np.where(place == (0 if is_dy else 1), with_special(draw, values, pool), values)
            values = np.where(place == 2, with_special(draw, values, tame), values)
        elif kind == "special":
            values = with_special(draw, values, pool)
        return draw.array(round_to(values, draw.dtype).reshape(shape), draw.dtype, strides)

    return make


def maker(row, **scalars):
    return (strided_maker if "_strided" in row else flat_maker)(row, fill(row), **scalars)


# --- References ------------------------------------------------------------------------------------------------------


def constants(function, dtype):
    """Parameters that a kernel holds rounded to its compute type and the table gives as decimals."""
    if function != "leaky_relu":
        return ()
    return (np.float64(0.01) if dtype == "f64" else np.float64(np.float32(0.01)),)


def cancelled(function, x, dtype, backward):
    """Size of terms that cancel where they need not do so without a loss: f64 has no wider type to be computed in.

    lgamma and digamma of negative arguments are differences of two functions by the reflection formula. CUDA's lgamma
    of f32 is that beside its roots, too, between -10.001 and -2.264; digamma, the gradient of lgamma, is f32 there.
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
        if backward:
            dx, saved = arrays["dx"], arrays.get("saved", arrays.get("x"))
            value = BACKWARD[function](arrays["dy"].values, saved.values, *constants(function, dx.dtype))
            dy = np.abs(arrays["dy"].values)
            with np.errstate(all="ignore"):
                terms = dy * cancelled(function, saved.values, dx.dtype, True)
            terms = np.where(np.isfinite(terms), terms, 0.0)
            return {"dx": Expected(value, terms=terms, divided=dy, op=f"{function}_backward")}
        x = arrays["x"]
        if not is_float(x.dtype):
            return {"y": Expected(INTEGER[function](x.values, x.dtype))}
        value = FORWARD[function](x.values, *constants(function, x.dtype))
        return {"y": Expected(value, terms=cancelled(function, x.values, x.dtype, False), op=function)}

    return reference


# --- Cases -----------------------------------------------------------------------------------------------------------


def unary_case(row, reference, brief=(), extra=None, **scalars):
    """A case by the row's operands, for unary_param.py, too.

    extra   flat maker -> further problems of a flat row, those named in `brief` for every function
    """
    pointers = [p.name for p in ROWS[row].pointers]
    inputs, (output,) = pointers[:-1], pointers[-1:]
    common = {
        "row": row, "reference": reference, "tolerance": {output: "ulp"}, "aliases": tuple((output, i) for i in inputs),
    }  # fmt: skip
    make = maker(row, **scalars)
    if "_strided" in row:
        return Case(problems=strided_problems(make, inputs, (output,)), **common, **strided_calls(row))
    problems = flat_problems(make) | (extra(make) if extra else {})
    return Case(problems=problems, **common, **flat_calls(row, brief=(*FLAT_BRIEF, "n1000", *brief)))


CASES = tuple(
    unary_case(name, reference_of(name))
    for name, row in ROWS.items()
    if row.family == "elementwise" and row.table in TABLES
)
