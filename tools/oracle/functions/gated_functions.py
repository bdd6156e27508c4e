# SPDX-License-Identifier: Apache-2.0
"""The gates of gated units and their derivatives, each with the sum of the magnitudes of its summands."""

import numpy as np

from ..function import Gated
from ..reals import sigmoid, where
from ..special import normal_cdf, normal_density


def times(b, factor):
    """b * factor, where the factor vanishes faster than b grows."""
    return where(np.isinf(b) & (factor == 0), 0.0, b * factor)


def reglu(b):
    """A value as exact as b: a product with it is rounded once."""
    return np.where(b <= 0, b.dtype.type(0), b)


def sum_of(term, other):
    return term + other, term + np.abs(other)


def glu_slope(b):
    return sum_of(sigmoid(b) * sigmoid(-b), 0.0)


def reglu_slope(b):
    return sum_of(np.where(b > 0, b.dtype.type(1), b.dtype.type(0)), 0.0)


def swiglu_slope(b):
    return sum_of(sigmoid(b), times(b, sigmoid(b) * sigmoid(-b)))


def geglu_slope(b):
    return sum_of(normal_cdf(b), times(b, normal_density(b)))


def activated(name):
    """PyTorch's a * activation(b), from rows of both halves."""

    def made(torch, x):
        a, b = x.chunk(2, -1)
        return a * getattr(torch.nn.functional, name)(b)

    return made


FUNCTIONS = (
    Gated("glu", gate=sigmoid, slope=glu_slope, torch=lambda t, x: t.nn.functional.glu(x, -1)),
    Gated("reglu", gate=reglu, slope=reglu_slope, torch=activated("relu")),
    Gated("swiglu", gate=lambda b: times(b, sigmoid(b)), slope=swiglu_slope, torch=activated("silu")),
    Gated("geglu", gate=lambda b: times(b, normal_cdf(b)), slope=geglu_slope, torch=activated("gelu")),
)
