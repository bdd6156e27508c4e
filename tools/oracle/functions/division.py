# SPDX-License-Identifier: Apache-2.0
"""Quotients and remainders."""

import fractions
import math

import numpy as np

from ..function import Binary
from ..pairs import Partial, decided, leaves
from ..reals import Wide


def quotient_to_zero(a, b):
    q = abs(a) // abs(b)
    return -q if (a < 0) != (b < 0) else q


def whole_quotient(a, b, dtype, exactly):
    """(the integer next to a / b towards 0, a less b times it, whether that is all).

    Below 2^60 the rounded quotient decides the integer. Above, the result is the nearest value of the dtype, and
    `exactly` computes with fractions if the quotient is close to the midpoint of two values.
    """
    rest = np.fmod(a, b)
    quotient = a.astype(Wide) / b
    small = np.isfinite(a) & np.isfinite(b) & (np.abs(quotient) < Wide(2) ** 60)
    values = np.where(small, np.rint((a.astype(Wide) - rest) / b), quotient)
    large = ~small & np.isfinite(quotient) & np.isfinite(a) & np.isfinite(b)
    hair = np.abs(quotient[large]) * Wide(2) ** -58
    low, high = quotient[large] - hair, quotient[large] + hair
    values[large] = decided(low, high, dtype, exactly, a[large], b[large])
    return values, rest, small


def floor_divide(a, b, dtype):
    """Limits: a large divisor gives -1 or 0, and an infinite dividend an infinite quotient."""
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


def div_backward(dy, a, b, dtype):
    return Partial(dy / b), Partial(-(a.astype(Wide) * dy) / (b.astype(Wide) * b), 3)


def mod_backward(dy, a, b, dtype):
    whole = floor_divide(a, b, "f64")
    return Partial(dy), Partial(-whole.astype(Wide) * dy, 1, leaves(dtype, whole))


def remainder_backward(dy, a, b, dtype):
    whole = trunc_divide(a, b, "f64")
    return Partial(dy), Partial(-whole.astype(Wide) * dy, 1, leaves(dtype, whole))


FUNCTIONS = (
    Binary("div", forward=lambda a, b, _: a / b, backward=div_backward, approximate=("cuda",),
           integer=lambda a, b, _: quotient_to_zero(a, b) if b else 0,
           torch_backward=lambda t, dy, a, b: (dy / b, -dy * a / (b * b))),
    Binary("floor_divide", forward=floor_divide, integer=lambda a, b, _: a // b if b else 0),
    Binary("mod", forward=mod, backward=mod_backward, integer=lambda a, b, _: a % b if b else 0,
           torch="remainder"),
    Binary("remainder", forward=lambda a, b, _: np.fmod(a, b), backward=remainder_backward, torch="fmod",
           integer=lambda a, b, _: a - b * quotient_to_zero(a, b) if b else 0),
)  # fmt: skip
