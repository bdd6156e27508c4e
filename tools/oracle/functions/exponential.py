# SPDX-License-Identifier: Apache-2.0
"""Exponentials and logarithms."""

import math

from .. import arguments
from ..bounds import LIBRARY, ROUNDED
from ..function import Unary
from ..reals import INF, LN2, LN10, exp, exp2, expm1, log, log1p, log2, log10

FUNCTIONS = (
    Unary("exp", forward=exp, slope=lambda y: y, draw=arguments.exponents(), ulps=LIBRARY,
          gradient_ulps=ROUNDED, torch_backward=lambda t, dy, y: dy * y, properties="rising"),
    Unary("exp2", forward=exp2, slope=lambda y: y * LN2, draw=arguments.exponents(2), ulps=LIBRARY,
          torch_backward=lambda t, dy, y: dy * y * math.log(2), properties="rising"),
    Unary("expm1", forward=expm1, slope=lambda y: y + 1, draw=arguments.exponents(), ulps=LIBRARY,
          draw_y=lambda rng, shape: math.e ** (3 * rng.standard_normal(shape)) - 1,
          torch_backward=lambda t, dy, y: dy * (y + 1), properties="rising"),
    Unary("log", forward=log, backward=lambda dy, x: dy / x, domain=(0, INF), ulps=LIBRARY, gradient_ulps=ROUNDED,
          torch_backward=lambda t, dy, x: dy / x, properties="rising"),
    Unary("log2", forward=log2, backward=lambda dy, x: dy / (x * LN2), domain=(0, INF), ulps=LIBRARY,
          properties="rising"),
    Unary("log10", forward=log10, backward=lambda dy, x: dy / (x * LN10), domain=(0, INF), ulps=LIBRARY,
          properties="rising"),
    Unary("log1p", forward=log1p, backward=lambda dy, x: dy / (1 + x), domain=(-1, INF), ordinary=(0, INF),
          ulps=LIBRARY, properties="rising"),
)  # fmt: skip
