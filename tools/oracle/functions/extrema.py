# SPDX-License-Identifier: Apache-2.0
"""Minimum and maximum: NaN if an operand is NaN; fmin and fmax give the other operand."""

import numpy as np

from ..function import Binary
from ..pairs import Partial


def smaller(a, b):
    """Minimum or maximum of two numbers; -0 is smaller than +0."""
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


def chosen(dy, a_counts, b_counts):
    half = np.where(a_counts & b_counts, 0.5, 1.0)
    return Partial(np.where(a_counts, half * dy, 0.0)), Partial(np.where(b_counts, half * dy, 0.0))


def propagating(dy, a, b, a_counts, b_counts):
    da, db = chosen(dy, a_counts, b_counts)
    nan = np.isnan(a) | np.isnan(b)
    return Partial(np.where(nan, dy, da.value)), Partial(np.where(nan, dy, db.value))


def fmin_backward(dy, a, b, dtype):
    return chosen(dy, (a <= b) | np.isnan(b), (b <= a) | np.isnan(a))


def fmax_backward(dy, a, b, dtype):
    return chosen(dy, (a >= b) | np.isnan(b), (b >= a) | np.isnan(a))


def minimum_backward(dy, a, b, dtype):
    return propagating(dy, a, b, a <= b, b <= a)


def maximum_backward(dy, a, b, dtype):
    return propagating(dy, a, b, a >= b, b >= a)


FUNCTIONS = (
    Binary("fmin", forward=fmin, backward=fmin_backward),
    Binary("fmax", forward=fmax, backward=fmax_backward),
    Binary("maximum", forward=maximum, backward=maximum_backward, integer=lambda a, b, _: max(a, b)),
    Binary("minimum", forward=minimum, backward=minimum_backward, integer=lambda a, b, _: min(a, b)),
)
