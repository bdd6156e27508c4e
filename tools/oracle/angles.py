# SPDX-License-Identifier: Apache-2.0
"""Cosines and sines of position * frequency for any position: the angle modulo 2 pi is computed in integers."""

import functools

import mpmath as mp
import numpy as np

_BITS = 320  # fraction bits of an angle in units of 2 pi
_SIGNIFICANT = 94  # leading bits that are used
X = np.longdouble


@functools.cache
def frequency(base: float, index: int, pairs: int) -> int:
    """base^(-index / pairs) / (2 pi) in units of 2^-320."""
    with mp.workprec(_BITS + 64):
        return int(mp.floor(mp.ldexp(mp.power(mp.mpf(base), -mp.mpf(index) / pairs) / (2 * mp.pi), _BITS)))


def angle(position: int, base: float, index: int, pairs: int) -> np.longdouble:
    """position * frequency in [-pi, pi)."""
    fraction = position * frequency(base, index, pairs) & ((1 << _BITS) - 1)
    fraction -= (fraction >> (_BITS - 1)) << _BITS
    # Shifted so that the leading bits are kept also for tiny angles.
    down = max(abs(fraction).bit_length() - _SIGNIFICANT, 0)
    significant = fraction >> down
    high, low = significant >> _SIGNIFICANT // 2, significant & ((1 << _SIGNIFICANT // 2) - 1)
    revolutions = np.ldexp(X(high) * X(2) ** (_SIGNIFICANT // 2) + X(low), down - _BITS)
    return revolutions * 2 * X("3.14159265358979323846264338327950288")


def cos_sin(positions, base: float, pairs: int):
    """Cosines and sines in longdouble, of shape (*positions.shape, pairs)."""
    positions = np.asarray(positions)
    angles = [[angle(int(p), base, i, pairs) for i in range(pairs)] for p in positions.ravel()]
    angles = np.array(angles, X).reshape(*positions.shape, pairs)
    return np.cos(angles), np.sin(angles)
