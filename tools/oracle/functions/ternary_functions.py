# SPDX-License-Identifier: Apache-2.0
"""Functions of three operands."""

import numpy as np

from ..function import Ternary
from ..pairs import Partial, Sum, decided, leaves
from ..reals import Wide, wide
from .extrema import maximum, minimum


def fma(a, b, c, dtype):
    product = a.astype(Wide) * b
    total = product + c
    hair = (np.abs(product) + np.abs(c)) * Wide(2) ** (-61 if dtype == "f64" else -51)
    hair = np.where(np.isfinite(hair), hair, 0)
    zero = (a == 0) | (b == 0)  # 0 + c is c, and the sign of 0 + 0 is the sum's
    low, high = np.where(zero, total, total - hair), np.where(zero, total, total + hair)
    return decided(low, high, dtype, lambda a, b, c: a * b + c, a, b, c)


def sum_with(a, b, c, dtype, scale):
    a, b, c = wide(a), wide(b), wide(c)
    term = scale * b * c
    return Sum(a + term, term, leaves(dtype, scale * b, scale * c, b * c, term))


def clamp(a, b, c, dtype):
    return minimum(maximum(a, b, dtype), c, dtype)


def clamp_backward(dy, a, b, c, dtype):
    """NaN propagates: the NaN of a before that of b before that of c."""
    from_a = np.isnan(a) | ((a >= b) & (a <= c) & (b <= c))
    from_b = ~np.isnan(a) & (np.isnan(b) | ((a < b) & (b <= c)))
    from_c = ~from_a & ~from_b
    return tuple(Partial(np.where(taken, dy, 0.0)) for taken in (from_a, from_b, from_c))


def fma_backward(dy, a, b, c, dtype):
    return Partial(b * dy), Partial(a * dy), Partial(dy)


def addcmul_backward(dy, a, b, c, dtype, scale):
    b, c, g = b.astype(Wide), c.astype(Wide), dy.astype(Wide)
    return (
        Partial(dy),
        Partial(scale * c * g, 1, leaves(dtype, scale * c, scale * g, c * g)),
        Partial(scale * b * g, 1, leaves(dtype, scale * b, scale * g, b * g)),
    )


def addcdiv_backward(dy, a, b, c, dtype, scale):
    b, c, g = b.astype(Wide), c.astype(Wide), dy.astype(Wide)
    steps = [scale * b, scale * g, b * g, b / c, g / c, scale / c, c * c]
    return (
        Partial(dy),
        Partial(scale * g / c, 1, leaves(dtype, scale * g, g / c, scale / c)),
        Partial(-scale * b * g / (c * c), 5, leaves(dtype, *steps, *(s / c for s in steps[:6]))),
    )


FUNCTIONS = (
    Ternary("clamp", forward=clamp, backward=clamp_backward,
            torch=lambda t, a, b, c: t.minimum(t.maximum(a, b), c)),
    Ternary("fma", forward=fma, backward=fma_backward, torch=lambda t, a, b, c: t.addcmul(c, a, b)),
    Ternary("addcmul", forward=sum_with, backward=addcmul_backward, timed=(0.5,),
            torch=lambda t, a, b, c, scale: t.addcmul(a, b, c, value=scale)),
    Ternary("addcdiv", forward=lambda a, b, c, dtype, scale: sum_with(a, b, 1 / wide(c), dtype, scale),
            backward=addcdiv_backward, timed=(0.5,), torch=lambda t, a, b, c, scale: t.addcdiv(a, b, c, value=scale)),
)  # fmt: skip
