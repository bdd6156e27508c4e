# SPDX-License-Identifier: Apache-2.0
"""What the functions of two and three floats share.

Their forward formulas take float64 arrays that hold values of `dtype`. A value that is to be rounded correctly rounds
to what the true value does: sums, products and quotients of f32, f16 and bf16 may go through float64, which has more
than twice their digits, and what has not is decided with fractions.
"""

import fractions
import math
import typing

import numpy as np

from .numerics import COMPUTE, DIGITS, LARGEST, LEAST, SMALLEST_NORMAL, round_to
from .reals import wide


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


class Partial(typing.NamedTuple):
    """A gradient: its value before any sum; how many roundings of the compute type an evaluation may make before the
    last one (0: the value, rounded once, is the result); and where a plain evaluation leaves the range of the compute
    type although the value may lie in it."""

    value: np.ndarray
    count: np.ndarray | int = 0
    beyond: np.ndarray | bool = False


class Sum(typing.NamedTuple):
    """a + scale b c: the value; the product, two of whose roundings come before the sum's; and where a plain evaluation
    of the product leaves the range of the compute type."""

    value: np.ndarray
    term: np.ndarray
    beyond: np.ndarray | bool


def leaves(dtype, *intermediate):
    """Where one of the intermediate values is too large or too small for the compute type."""
    compute = COMPUTE[dtype]
    low, high = SMALLEST_NORMAL[compute], LARGEST[compute]
    found = False
    for x in np.broadcast_arrays(*intermediate):
        size = np.abs(wide(x))
        found = found | (np.isfinite(size) & (size != 0) & ((size < low) | (size > high)))
    return found
