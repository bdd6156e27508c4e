# SPDX-License-Identifier: Apache-2.0
"""Helpers of the functions of two and three floats.

Forward formulas take float64 arrays with values of `dtype`. A correctly rounded value must round as the true value
does: sums, products and quotients of f32, f16 and bf16 may go through float64, which has more than twice their digits;
other cases are decided with fractions.
"""

import fractions
import math
import typing

import numpy as np

from .numerics import COMPUTE, DIGITS, LARGEST, LEAST, SMALLEST_NORMAL, round_to
from .reals import wide


def nearest(value: fractions.Fraction, dtype: str) -> float:
    """Rounds a fraction to nearest even."""
    if value == 0:
        return 0.0
    exponent = value.numerator.bit_length() - value.denominator.bit_length()
    exponent -= abs(value) < fractions.Fraction(2) ** exponent  # 2^exponent <= |value| < 2^(exponent + 1)
    step = fractions.Fraction(2) ** max(exponent - DIGITS[dtype] + 1, LEAST[dtype])
    rounded = round(value / step) * step
    magnitude = math.inf if abs(rounded) > LARGEST[dtype] else float(abs(rounded))
    return magnitude if value > 0 else -magnitude


def decided(low, high, dtype, exactly, *operands):
    """The rounded value, known to lie in [low, high]; `exactly` gives it as a fraction if those round differently."""
    shape = np.shape(low)
    values, other = (round_to(np.atleast_1d(x).astype(np.float64), dtype) for x in (low, high))
    same = (values == other) & (np.signbit(values) == np.signbit(other)) | np.isnan(values)
    operands = [np.broadcast_to(x, values.shape) for x in operands]
    for k in zip(*np.nonzero(~same)):
        values[k] = nearest(exactly(*(fractions.Fraction(float(x[k])) for x in operands)), dtype)
    return values.reshape(shape)


class Partial(typing.NamedTuple):
    """A gradient: its value before any sum; the roundings to the compute type before the last one (0: the value
    is rounded once); and a mask of elements whose plain evaluation may overflow or underflow the compute type."""

    value: np.ndarray
    count: np.ndarray | int = 0
    beyond: np.ndarray | bool = False


class Sum(typing.NamedTuple):
    """a + scale b c: the value; the product, rounded twice before the sum; and a mask of elements whose product
    overflows or underflows the compute type."""

    value: np.ndarray
    term: np.ndarray
    beyond: np.ndarray | bool


def leaves(dtype, *intermediate):
    """Mask of elements with an intermediate value outside of the range of the compute type."""
    compute = COMPUTE[dtype]
    low, high = SMALLEST_NORMAL[compute], LARGEST[compute]
    found = False
    for x in np.broadcast_arrays(*intermediate):
        size = np.abs(wide(x))
        found = found | (np.isfinite(size) & (size != 0) & ((size < low) | (size > high)))
    return found
