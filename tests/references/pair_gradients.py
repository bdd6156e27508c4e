"""Gradients of functions of two and three floats, each by the formula of its op table, in 80-bit floats.

A gradient is Partial: the value before any sum; how many roundings of the compute type an evaluation may make before
the last one (0: the value, rounded once, is the result); and where a plain evaluation leaves the range of the compute
type although the value may lie in it.
"""

import typing

import numpy as np

from harness.numerics import COMPUTE, LARGEST, SMALLEST_NORMAL

from .extended import power
from .pairs import X, floor_divide, trunc_divide


class Partial(typing.NamedTuple):
    value: np.ndarray
    count: np.ndarray | int = 0
    beyond: np.ndarray | bool = False


def leaves(dtype, *intermediate):
    """Where one of the intermediate values is too large or too small for the compute type."""
    compute = COMPUTE[dtype]
    low, high = SMALLEST_NORMAL[compute], LARGEST[compute]
    found = False
    for x in np.broadcast_arrays(*intermediate):
        size = np.abs(x.astype(X))
        found = found | (np.isfinite(size) & (size != 0) & ((size < low) | (size > high)))
    return found


def add(dy, a, b, dtype):
    return Partial(dy), Partial(dy)


def sub(dy, a, b, dtype):
    return Partial(dy), Partial(-dy)


def mul(dy, a, b, dtype):
    return Partial(b * dy), Partial(a * dy)


def div(dy, a, b, dtype):
    return Partial(dy / b), Partial(-(a.astype(X) * dy) / (b.astype(X) * b), 3)


def power_less_one(x, y, less):
    """x^(y - 1), where y - 1 may have too many digits: by x^y, whose factor x has the sign that is wanted.

    Of 0 and infinity it is the power `less`, y - 1 rounded to the compute type, which decides the sign alone.
    """
    exact = np.isinf(y) | (((y - 1) + 1 == y) & (y - (y - 1) == 1))
    general = np.where(exact, power(x, y - 1), power(x, y) / x)
    return np.where((x == 0) | np.isinf(x), power(x, less), general)


def pow(dy, a, b, dtype):
    """b - 1 is rounded, an error that a logarithm away from 0 makes larger. db has its limit, 0, for a = inf, b < 0."""
    x, y, g = a.astype(X), b.astype(X), dy.astype(X)
    compute = {"f32": np.float32, "f64": np.float64}[COMPUTE[dtype]]
    rounded = (b.astype(compute) - compute(1)).astype(X)
    less, same, log = power_less_one(x, y, rounded), power(x, y), np.log(x)
    slip = np.abs(rounded - (y - 1)) * np.abs(np.log(np.abs(x)))
    slip = np.where(np.isfinite(slip), slip, 0) / X(np.finfo(compute).eps / 2)
    da = np.where(b == 0, 0, y * less * g)
    db = np.where((a == np.inf) & (b < 0), 0 * g, same * log * g)
    db = np.where((a == 0) & (b >= 0), 0, db)
    return Partial(da, 13 + slip), Partial(db, 13)


def atan2(dy, a, b, dtype):
    x, y = a.astype(X), b.astype(X)
    square = x * x + y * y
    origin = (a == 0) & (b == 0)
    return Partial(np.where(origin, 0, y * dy / square), 6), Partial(np.where(origin, 0, -x * dy / square), 6)


def hypot(dy, a, b, dtype):
    x, y = a.astype(X), b.astype(X)
    r = np.hypot(x, y)
    return Partial(np.where(r == 0, 0, x * dy / r), 8), Partial(np.where(r == 0, 0, y * dy / r), 8)


def copysign(dy, a, b, dtype):
    turned = np.signbit(a) != np.signbit(b)
    return Partial(np.where(a == 0, 0.0, np.where(turned, -dy, dy))), Partial(np.zeros_like(dy))


def chosen(dy, a_counts, b_counts):
    half = np.where(a_counts & b_counts, 0.5, 1.0)
    return Partial(np.where(a_counts, half * dy, 0.0)), Partial(np.where(b_counts, half * dy, 0.0))


def fmin(dy, a, b, dtype):
    return chosen(dy, (a <= b) | np.isnan(b), (b <= a) | np.isnan(a))


def fmax(dy, a, b, dtype):
    return chosen(dy, (a >= b) | np.isnan(b), (b >= a) | np.isnan(a))


def propagating(dy, a, b, a_counts, b_counts):
    da, db = chosen(dy, a_counts, b_counts)
    nan = np.isnan(a) | np.isnan(b)
    return Partial(np.where(nan, dy, da.value)), Partial(np.where(nan, dy, db.value))


def minimum(dy, a, b, dtype):
    return propagating(dy, a, b, a <= b, b <= a)


def maximum(dy, a, b, dtype):
    return propagating(dy, a, b, a >= b, b >= a)


def mod(dy, a, b, dtype):
    whole = floor_divide(a, b, "f64")
    return Partial(dy), Partial(-whole.astype(X) * dy, 1, leaves(dtype, whole))


def remainder(dy, a, b, dtype):
    whole = trunc_divide(a, b, "f64")
    return Partial(dy), Partial(-whole.astype(X) * dy, 1, leaves(dtype, whole))


def ldexp(dy, b, dtype):
    return (Partial(np.ldexp(dy, np.clip(b, -5000, 5000).astype(np.int32))),)


def clamp(dy, a, b, c, dtype):
    """A NaN is taken as a value, that of a before that of b before that of c."""
    from_a = np.isnan(a) | ((a >= b) & (a <= c) & (b <= c))
    from_b = ~np.isnan(a) & (np.isnan(b) | ((a < b) & (b <= c)))
    from_c = ~from_a & ~from_b
    return tuple(Partial(np.where(taken, dy, 0.0)) for taken in (from_a, from_b, from_c))


def fma(dy, a, b, c, dtype):
    return Partial(b * dy), Partial(a * dy), Partial(dy)


def addcmul(dy, a, b, c, dtype, scale):
    b, c, g = b.astype(X), c.astype(X), dy.astype(X)
    return (
        Partial(dy),
        Partial(scale * c * g, 1, leaves(dtype, scale * c, scale * g, c * g)),
        Partial(scale * b * g, 1, leaves(dtype, scale * b, scale * g, b * g)),
    )


def addcdiv(dy, a, b, c, dtype, scale):
    b, c, g = b.astype(X), c.astype(X), dy.astype(X)
    steps = [scale * b, scale * g, b * g, b / c, g / c, scale / c, c * c]
    return (
        Partial(dy),
        Partial(scale * g / c, 1, leaves(dtype, scale * g, g / c, scale / c)),
        Partial(-scale * b * g / (c * c), 5, leaves(dtype, *steps, *(s / c for s in steps[:6]))),
    )


LINEAR = {f.__name__: f for f in (add, sub)}
BINARY = {
    f.__name__: f
    for f in (mul, div, pow, atan2, hypot, copysign, fmin, fmax, minimum, maximum, mod, remainder)
}  # fmt: skip
TERNARY = {f.__name__: f for f in (clamp, fma)}
SCALED = {f.__name__: f for f in (addcmul, addcdiv)}
