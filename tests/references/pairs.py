"""Functions of two or three floats, each written from its definition.

They take float64 arrays that hold values of `dtype`. What those of ROUNDED return rounds to what the true value does:
sums, products and quotients of f32, f16 and bf16 may go through float64, which has more than twice their digits, and
what has not is decided with fractions. Those of NEAR return the true value with an error far below float64's own.
"""

import fractions
import math

import numpy as np

from harness.numerics import DIGITS, LARGEST, LEAST, SMALLEST, decode, encode, round_to

X = np.longdouble
assert np.finfo(X).nmant >= 63, "this machine has no float of more digits than float64"


def nearest(value: fractions.Fraction, dtype: str) -> float:
    """A fraction to nearest even."""
    if value == 0:
        return 0.0
    exponent = value.numerator.bit_length() - value.denominator.bit_length()
    exponent -= abs(value) < fractions.Fraction(2) ** exponent  # 2^exponent <= |value| < 2^(exponent + 1)
    step = fractions.Fraction(2) ** max(exponent - DIGITS[dtype] + 1, LEAST[dtype])
    rounded = round(value / step) * step
    magnitude = math.inf if abs(rounded) > LARGEST[dtype] else float(abs(rounded))
    return magnitude if value > 0 else -magnitude


def decided(low, high, dtype, exactly, *operands):
    """The value between low and high, rounded; `exactly` gives it as a fraction where those round differently."""
    shape = np.shape(low)
    values, other = (round_to(np.atleast_1d(x).astype(np.float64), dtype) for x in (low, high))
    same = (values == other) & (np.signbit(values) == np.signbit(other)) | np.isnan(values)
    operands = [np.broadcast_to(x, values.shape) for x in operands]
    for k in zip(*np.nonzero(~same)):
        values[k] = nearest(exactly(*(fractions.Fraction(float(x[k])) for x in operands)), dtype)
    return values.reshape(shape)


def add(a, b, dtype):
    return a + b


def sub(a, b, dtype):
    return a - b


def mul(a, b, dtype):
    return a * b


def div(a, b, dtype):
    return a / b


def pow(a, b, dtype):
    return np.power(a.astype(X), b.astype(X))


def atan2(a, b, dtype):
    return np.arctan2(a.astype(X), b.astype(X))


def hypot(a, b, dtype):
    return np.hypot(a.astype(X), b.astype(X))


def copysign(a, b, dtype):
    return np.copysign(a, b)


def nextafter(a, b, dtype):
    bits = encode(a, dtype)
    away = (b > a) == (a > 0)
    step = decode(np.where(away, bits + bits.dtype.type(1), bits - bits.dtype.type(1)), dtype)
    step = np.where(a == 0, np.copysign(SMALLEST[dtype], b), step)
    return np.where(np.isnan(a) | np.isnan(b), np.nan, np.where(a == b, b, step))


def smaller(a, b):
    """Of two numbers; -0 is smaller than +0."""
    return np.where((a < b) | ((a == b) & np.signbit(a)), a, b)


def larger(a, b):
    return np.where((a > b) | ((a == b) & ~np.signbit(a)), a, b)


def minimum(a, b, dtype):
    return np.where(np.isnan(a) | np.isnan(b), np.nan, smaller(a, b))


def maximum(a, b, dtype):
    return np.where(np.isnan(a) | np.isnan(b), np.nan, larger(a, b))


def fmin(a, b, dtype):
    return np.where(np.isnan(a), b, np.where(np.isnan(b), a, smaller(a, b)))


def fmax(a, b, dtype):
    return np.where(np.isnan(a), b, np.where(np.isnan(b), a, larger(a, b)))


def whole_quotient(a, b, dtype, exactly):
    """(the integer next to a / b towards 0, a less b times it, whether that is all).

    Below 2^60 rounding cannot hide which integer the quotient is. Above, the nearest value of the dtype: `exactly` of
    fractions where the quotient is so near to the middle of two that it matters.
    """
    rest = np.fmod(a, b)
    quotient = a.astype(X) / b
    small = np.isfinite(a) & np.isfinite(b) & (np.abs(quotient) < X(2) ** 60)
    values = np.where(small, np.rint((a.astype(X) - rest) / b), quotient)
    large = ~small & np.isfinite(quotient) & np.isfinite(a) & np.isfinite(b)
    hair = np.abs(quotient[large]) * X(2) ** -58
    low, high = quotient[large] - hair, quotient[large] + hair
    values[large] = decided(low, high, dtype, exactly, a[large], b[large])
    return values, rest, small


def floor_divide(a, b, dtype):
    """The limits: any divisor that is large enough leaves -1 or 0, and an unbounded dividend an unbounded quotient."""
    a, b = np.broadcast_arrays(a, b)
    values, rest, small = whole_quotient(a, b, dtype, lambda a, b: fractions.Fraction(math.floor(a / b)))
    below = (small | (np.isfinite(a) & np.isinf(b))) & (rest != 0) & (np.signbit(rest) != np.signbit(b))
    values = (values - below).astype(np.float64)
    return np.where(values == 0, np.copysign(0.0, a) * np.copysign(1.0, b), values)


def trunc_divide(a, b, dtype):
    a, b = np.broadcast_arrays(a, b)
    values, _, _ = whole_quotient(a, b, dtype, lambda a, b: fractions.Fraction(math.trunc(a / b)))
    return values.astype(np.float64)


def mod(a, b, dtype):
    rest = np.fmod(a, b)
    other_side = (rest != 0) & (np.signbit(rest) != np.signbit(b))
    return np.where(rest == 0, np.copysign(rest, b), np.where(other_side, rest + b, rest))


def remainder(a, b, dtype):
    return np.fmod(a, b)


def ldexp(a, b, dtype):
    """b are integers. Beyond +-5000 nothing is left in any dtype."""
    return np.ldexp(a, np.clip(b, -5000, 5000).astype(np.int32))


def fma(a, b, c, dtype):
    product = a.astype(X) * b
    total = product + c
    hair = (np.abs(product) + np.abs(c)) * X(2) ** (-61 if dtype == "f64" else -51)
    hair = np.where(np.isfinite(hair), hair, 0)
    zero = (a == 0) | (b == 0)  # 0 + c is c, and the sign of 0 + 0 is the sum's
    low, high = np.where(zero, total, total - hair), np.where(zero, total, total + hair)
    return decided(low, high, dtype, lambda a, b, c: a * b + c, a, b, c)


def clamp(a, b, c, dtype):
    return minimum(maximum(a, b, dtype), c, dtype)


ROUNDED = {
    f.__name__: f
    for f in (
        add, sub, mul, div, copysign, nextafter, fmin, fmax, minimum, maximum, floor_divide, mod, remainder,
    )
}  # fmt: skip
NEAR = {f.__name__: f for f in (pow, atan2, hypot)}
