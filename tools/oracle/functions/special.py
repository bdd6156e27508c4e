# SPDX-License-Identifier: Apache-2.0
"""The error function and the logarithm of the gamma function, with their relatives."""

import math

from .. import arguments
from ..bounds import COMPOSITE, LIBRARY
from ..function import Unary
from ..reals import HALF_SQRT_PI, INF, TWO_OVER_SQRT_PI, erf, erfc, exp_minus_square, lgamma
from ..special import digamma, erfinv, trigamma

# f32 has too few digits for f16 results near the roots of lgamma and digamma at irrational arguments.
FUNCTIONS = (
    Unary("erf", forward=erf, slope=lambda x: TWO_OVER_SQRT_PI * exp_minus_square(x), draw=arguments.tails(2),
          ulps=LIBRARY, gradient_ulps=COMPOSITE, properties="odd rising"),
    Unary("erfc", forward=erfc, slope=lambda x: -TWO_OVER_SQRT_PI * exp_minus_square(x), draw=arguments.tails(2),
          ulps=LIBRARY.cuda(f32=4.0, f64=5.0), gradient_ulps=COMPOSITE, properties="falling"),
    Unary("erfinv", forward=erfinv, slope=lambda y: HALF_SQRT_PI * exp_minus_square(y, -1.0),
          domain=(-1, 1), draw_y=lambda rng, shape: rng.uniform(-4, 4, shape), ulps=LIBRARY.cuda(f32=3.0, f64=5.0),
          gradient_ulps=COMPOSITE, properties="odd rising",
          torch_backward=lambda t, dy, y: dy * (y * y).exp() * (math.sqrt(math.pi) / 2)),
    # the f16 gradient has an error of 1.24 ulp at x = -16.734375 over all dy
    Unary("lgamma", forward=lgamma, slope=digamma, ordinary=(0, INF), edges=(0.5, 1, 2, 3), draw=arguments.of_gamma,
          ulps=LIBRARY.but(f16=1.5).cuda(f32=6.0), gradient_ulps=COMPOSITE.but(f16=1.3).cuda(f32=4.0)),
    Unary("digamma", forward=digamma, slope=trigamma, ordinary=(0, INF), edges=(1, 1.4616321449683622, 2),
          draw=arguments.of_gamma, ulps=LIBRARY.but(f16=1.05).cuda(f32=3.0), gradient_ulps=COMPOSITE),
)  # fmt: skip
