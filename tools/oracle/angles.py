# SPDX-License-Identifier: Apache-2.0
"""Cosines and sines of position times frequency, whatever the position: the angle modulo a turn in integers."""

import functools

import mpmath as mp
import numpy as np

_BITS = 320  # of the fraction of a turn
_SIGNIFICANT = 94  # of which these matter
X = np.longdouble


@functools.cache
def frequency(base: float, index: int, pairs: int) -> int:
    """base^(-index / pairs) / (2 pi) in units of 2^-320."""
    with mp.workprec(_BITS + 64):
        return int(mp.floor(mp.ldexp(mp.power(mp.mpf(base), -mp.mpf(index) / pairs) / (2 * mp.pi), _BITS)))


def angle(position: int, base: float, index: int, pairs: int) -> np.longdouble:
    """In [-pi, pi)."""
    fraction = position * frequency(base, index, pairs) & ((1 << _BITS) - 1)
    fraction -= (fraction >> (_BITS - 1)) << _BITS
    # Scaled so that what is kept has few digits in front, also where the angle is tiny.
    down = max(abs(fraction).bit_length() - _SIGNIFICANT, 0)
    significant = fraction >> down
    high, low = significant >> _SIGNIFICANT // 2, significant & ((1 << _SIGNIFICANT // 2) - 1)
    revolutions = np.ldexp(X(high) * X(2) ** (_SIGNIFICANT // 2) + X(low), down - _BITS)
    return revolutions * 2 * X("3.14159265358979323846264338327950288")


def cos_sin(positions, base: float, pairs: int):
    """Of every position and pair: two arrays of the positions' shape and an axis of pairs, in longdouble."""
    positions = np.asarray(positions)
    angles = [[angle(int(p), base, i, pairs) for i in range(pairs)] for p in positions.ravel()]
    angles = np.array(angles, X).reshape(*positions.shape, pairs)
    return np.cos(angles), np.sin(angles)
