# SPDX-License-Identifier: Apache-2.0
"""atan2, hypot, copysign, nextafter and ldexp."""

import numpy as np

from ..bounds import ORDINARY
from ..function import Binary
from ..numerics import SMALLEST, decode, encode
from ..pairs import Partial
from ..reals import Wide


def atan2(a, b, dtype):
    return np.arctan2(a.astype(Wide), b.astype(Wide))


def hypot(a, b, dtype):
    return np.hypot(a.astype(Wide), b.astype(Wide))


def nextafter(a, b, dtype):
    bits = encode(a, dtype)
    away = (b > a) == (a > 0)
    step = decode(np.where(away, bits + bits.dtype.type(1), bits - bits.dtype.type(1)), dtype)
    step = np.where(a == 0, np.copysign(SMALLEST[dtype], b), step)
    return np.where(np.isnan(a) | np.isnan(b), np.nan, np.where(a == b, b, step))


def ldexp(a, b, dtype):
    """b are integers. Beyond +-5000 every dtype overflows or underflows."""
    return np.ldexp(a, np.clip(b, -5000, 5000).astype(np.int32))


def atan2_backward(dy, a, b, dtype):
    x, y = a.astype(Wide), b.astype(Wide)
    square = x * x + y * y
    origin = (a == 0) & (b == 0)
    return Partial(np.where(origin, 0, y * dy / square), 6), Partial(np.where(origin, 0, -x * dy / square), 6)


def hypot_backward(dy, a, b, dtype):
    x, y = a.astype(Wide), b.astype(Wide)
    r = np.hypot(x, y)
    return Partial(np.where(r == 0, 0, x * dy / r), 8), Partial(np.where(r == 0, 0, y * dy / r), 8)


def copysign_backward(dy, a, b, dtype):
    is_negated = np.signbit(a) != np.signbit(b)
    return Partial(np.where(a == 0, 0.0, np.where(is_negated, -dy, dy))), Partial(np.zeros_like(dy))


def ldexp_backward(dy, a, b, dtype):
    return (Partial(np.ldexp(dy, np.clip(b, -5000, 5000).astype(np.int32))),)


FUNCTIONS = (
    Binary("atan2", forward=atan2, backward=atan2_backward, ulps=ORDINARY.cuda(f32=3.0),
           approximate=("cuda",)),
    Binary("hypot", forward=hypot, backward=hypot_backward, ulps=ORDINARY.cuda(f32=3.0),
           approximate=("cuda",)),
    Binary("copysign", forward=lambda a, b, _: np.copysign(a, b), backward=copysign_backward),
    Binary("nextafter", forward=nextafter),
    Binary("ldexp", forward=ldexp, backward=ldexp_backward),
)  # fmt: skip
