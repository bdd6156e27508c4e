# SPDX-License-Identifier: Apache-2.0
"""Sums, products, roots, and what changes a sign."""

from .. import arguments
from ..bounds import EXACT, LIBRARY, ORDINARY, ROUNDED
from ..function import Binary, Unary
from ..pairs import Partial
from ..reals import cbrt, filled, flat, sqrt, where


def sign(x):
    return where(x > 0, 1.0, where(x < 0, -1.0, 0.0))


FUNCTIONS = (
    Unary("neg", forward=lambda x: -x, slope=lambda x: filled(x, -1), integer=lambda x, _: -x,
          ulps=EXACT, gradient_ulps=EXACT, properties="odd falling"),
    Unary("abs", forward=abs, slope=sign, integer=lambda x, _: abs(x), ulps=EXACT, gradient_ulps=EXACT,
          torch_backward=lambda t, dy, x: dy * x.sgn(), properties="even"),
    Unary("sign", forward=sign, backward=flat,
          integer=lambda x, _: (x > 0) - (x < 0), ulps=EXACT, gradient_ulps=EXACT),
    Unary("reciprocal", forward=lambda x: 1 / x, backward=lambda dy, x: -dy / (x * x), ulps=ROUNDED,
          torch_backward=lambda t, dy, x: -dy / (x * x), properties="odd falling"),
    Unary("square", forward=lambda x: x * x, slope=lambda x: 2 * x, integer=lambda x, _: x * x, ulps=ROUNDED,
          torch_backward=lambda t, dy, x: dy * 2 * x, properties="even"),
    Unary("cube", forward=lambda x: x * x * x, slope=lambda x: 3 * x * x, integer=lambda x, _: x * x * x,
          ulps=ORDINARY, torch=lambda t, x: t.pow(x, 3), properties="odd rising"),
    Unary("sqrt", forward=sqrt, backward=lambda dy, y: dy / (2 * y), domain=(0, float("inf")),
          ulps=ROUNDED, torch_backward=lambda t, dy, y: dy / (2 * y), properties="rising"),
    Unary("rsqrt", forward=lambda x: 1 / sqrt(x), slope=lambda y: -(y * y * y) / 2,
          domain=(0, float("inf")), ulps=ORDINARY, torch_backward=lambda t, dy, y: -0.5 * dy * y * y * y,
          properties="falling"),
    Unary("cbrt", forward=cbrt, backward=lambda dy, y: dy / (3 * y * y), edges=(1, 8, 27),
          draw_y=arguments.around_zero, ulps=LIBRARY, torch=None,
          torch_backward=lambda t, dy, y: dy / (3 * y * y), properties="odd rising"),
    Binary("add", forward=lambda a, b, _: a + b, backward=lambda dy, a, b, _: (Partial(dy), Partial(dy)),
           integer=lambda a, b, _: a + b,
           torch_backward=lambda t, dy: (dy + 0, dy + 0)),
    Binary("sub", forward=lambda a, b, _: a - b, backward=lambda dy, a, b, _: (Partial(dy), Partial(-dy)),
           integer=lambda a, b, _: a - b,
           torch_backward=lambda t, dy: (dy + 0, -dy)),
    Binary("mul", forward=lambda a, b, _: a * b, backward=lambda dy, a, b, _: (Partial(b * dy), Partial(a * dy)),
           integer=lambda a, b, _: a * b,
           torch_backward=lambda t, dy, a, b: (dy * b, dy * a)),
)  # fmt: skip
