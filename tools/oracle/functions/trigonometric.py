# SPDX-License-Identifier: Apache-2.0
"""Functions of angles, and hyperbolic ones."""

import math

from .. import arguments
from ..bounds import COMPOSITE, FACTORS, LIBRARY
from ..function import Unary
from ..reals import acos, acosh, asin, asinh, atan, atanh, cos, cosh, sin, sinh, sqrt, tan, tanh

QUARTERS = tuple(k * math.pi / 4 for k in (1, 2, 3, 4, 6, 8, 22, 710))

FUNCTIONS = (
    Unary("sin", forward=sin, slope=cos, edges=QUARTERS, draw=arguments.angles, ulps=LIBRARY, gradient_ulps=COMPOSITE,
          torch_backward=lambda t, dy, x: dy * x.cos(), properties="odd"),
    Unary("cos", forward=cos, slope=lambda x: -sin(x), edges=QUARTERS, draw=arguments.angles, ulps=LIBRARY,
          gradient_ulps=COMPOSITE, torch_backward=lambda t, dy, x: dy * -x.sin(), properties="even"),
    # 1 + t^2 has twice the error of t: 6.4 ulp for dy = 1 below 300, at most 8 found beyond
    Unary("tan", forward=tan, slope=lambda x: 1 / cos(x) ** 2, edges=QUARTERS, draw=arguments.angles,
          ulps=LIBRARY.cuda(f32=4.0), gradient_ulps=COMPOSITE.but(f64=2 * LIBRARY.f64 + 1).cuda(f32=9.0),
          torch_backward=lambda t, dy, x: dy * (x.tan().square() + 1), properties="odd"),
    Unary("asin", forward=asin, backward=lambda dy, x: dy / sqrt((1 - x) * (1 + x)), domain=(-1, 1), ulps=LIBRARY,
          properties="odd rising"),
    Unary("acos", forward=acos, backward=lambda dy, x: -dy / sqrt((1 - x) * (1 + x)), domain=(-1, 1), ulps=LIBRARY,
          properties="falling"),
    Unary("atan", forward=atan, backward=lambda dy, x: dy / (1 + x * x), ulps=LIBRARY, properties="odd rising"),
    Unary("sinh", forward=sinh, slope=cosh, draw=arguments.exponents(), ulps=LIBRARY.cuda(f32=3.0),
          gradient_ulps=COMPOSITE, properties="odd rising"),
    Unary("cosh", forward=cosh, slope=sinh, draw=arguments.exponents(), ulps=LIBRARY, gradient_ulps=COMPOSITE,
          properties="even"),
    Unary("tanh", forward=tanh, slope=lambda y: (1 - y) * (1 + y), ulps=LIBRARY,
          draw_y=lambda rng, shape: rng.uniform(-1, 1, shape),
          torch_backward=lambda t, dy, y: t.ops.aten.tanh_backward(dy, y), properties="odd rising"),
    Unary("asinh", forward=asinh, backward=lambda dy, x: dy / sqrt(1 + x * x), ulps=LIBRARY.cuda(f32=3.0),
          properties="odd rising"),
    Unary("acosh", forward=acosh, backward=lambda dy, x: dy / sqrt((abs(x) - 1) * (abs(x) + 1)),
          domain=(1, math.inf), ulps=LIBRARY.cuda(f32=4.0), gradient_ulps=FACTORS, properties="rising"),
    Unary("atanh", forward=atanh, backward=lambda dy, x: dy / ((1 - x) * (1 + x)), domain=(-1, 1),
          ulps=LIBRARY.cuda(f32=3.0), gradient_ulps=FACTORS, properties="odd rising"),
)  # fmt: skip
