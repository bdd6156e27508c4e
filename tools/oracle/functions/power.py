# SPDX-License-Identifier: Apache-2.0
"""Powers. If one leaves the range of f64, or of f32 on a GPU, gradients compute it as the fourth power of its fourth
root, so the error of the root counts four times."""

import math

import numpy as np

from .. import arguments
from ..bounds import COMPOSITE, LIBRARY, ORDINARY
from ..function import Binary, Unary
from ..numerics import COMPUTE
from ..pairs import Partial
from ..reals import INF, Wide, filled, plain_power, power, where

GRADIENT = COMPOSITE.but(f64=8.0).cuda(f32=17.0)


def powf_backward(dy, x, p):
    return where(filled(x, p) == 0, 0.0, p * power(x, p - 1) * dy)


def powi_backward(dy, x, n):
    return powf_backward(dy, x, int(n))


def integer_power(a, b, width):
    if b >= 0:
        return pow(a, b, 2**width)
    return {1: 1, -1: 1 - 2 * (b % 2)}.get(a, 0)


def power_of(a, b, dtype):
    return np.power(a.astype(Wide), b.astype(Wide))


def power_less_one(x, y, less):
    """x^(y - 1), where y - 1 may have too many digits: computed from x^y.

    For x = 0 and infinity it is the power `less`, y - 1 rounded to the compute type, which decides the sign only.
    """
    exact = np.isinf(y) | (((y - 1) + 1 == y) & (y - (y - 1) == 1))
    general = np.where(exact, power(x, y - 1), power(x, y) / x)
    return np.where((x == 0) | np.isinf(x), power(x, less), general)


def power_backward(dy, a, b, dtype):
    """The error of rounding b - 1 is multiplied by ln a. db has its limit, 0, for a = inf, b < 0."""
    x, y, g = a.astype(Wide), b.astype(Wide), dy.astype(Wide)
    compute = {"f32": np.float32, "f64": np.float64}[COMPUTE[dtype]]
    rounded = (b.astype(compute) - compute(1)).astype(Wide)
    less, same, log = power_less_one(x, y, rounded), power(x, y), np.log(x)
    slip = np.abs(rounded - (y - 1)) * np.abs(np.log(np.abs(x)))
    slip = np.where(np.isfinite(slip), slip, 0) / Wide(np.finfo(compute).eps / 2)
    da = np.where(b == 0, 0, y * less * g)
    db = np.where((a == np.inf) & (b < 0), 0 * g, same * log * g)
    db = np.where((a == 0) & (b >= 0), 0, db)
    return Partial(da, 13 + slip), Partial(db, 13)


FUNCTIONS = (
    Unary("powf", forward=plain_power, backward=powf_backward, domain=(0, INF), edges=(1, 2), draw=arguments.anywhere,
          ulps=LIBRARY.cuda(f32=4.0), gradient_ulps=GRADIENT,
          parameters=((1.7,), (2.0,), (0.5,), (-1.0,), (0.0,), (3.0,), (-0.5,), (math.inf,), (-math.inf,), (math.nan,),
                      (31.0,)),
          measured=((2.5,), (-0.3125,)), timed=(1.5,), torch="pow"),
    Unary("powi", forward=lambda x, n: plain_power(x, int(n)), backward=powi_backward, edges=(1, 2),
          ulps=LIBRARY, gradient_ulps=GRADIENT, measured=((5,), (-3,)), torch=lambda t, x, n: t.pow(x, int(n)),
          parameters=((3,), (2,), (0,), (1,), (-1,), (-3,), (10,), (-2,), (63,), (1024,), (-(2**20) - 1,))),
    Binary("pow", forward=power_of, backward=power_backward, integer=integer_power, base=True,
           ulps=ORDINARY.cuda(f32=4.0), approximate=("cpu", "cuda")),
)  # fmt: skip
