# SPDX-License-Identifier: Apache-2.0
"""The normal distribution function, times its argument."""

from .. import arguments
from ..bounds import ACTIVATION, ACTIVATION_GRADIENT
from ..function import Unary
from ..reals import INF, limits
from ..roots import beside_root
from ..special import normal_cdf, normal_density


def gelu(x):
    return limits(x, x * normal_cdf(x), -0.0, INF)


def gelu_slope(x):
    return limits(x, beside_root("gelu", x, normal_cdf(x) + x * normal_density(x)), 0.0, 1.0)


FUNCTIONS = tuple(
    Unary(name, forward=gelu, slope=gelu_slope, edges=(0.7517915246935645,), draw=arguments.tails(2),
          ulps=ACTIVATION, gradient_ulps=ACTIVATION_GRADIENT, torch="gelu",
          torch_backward=lambda t, dy, x: t.ops.aten.gelu_backward(dy, x))
    for name in ("gelu", "gelu_erf")
)  # fmt: skip
