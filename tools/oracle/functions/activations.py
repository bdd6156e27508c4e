# SPDX-License-Identifier: Apache-2.0
"""Smooth activations."""

from .. import arguments
from ..bounds import ACTIVATION, ACTIVATION_GRADIENT, LIBRARY
from ..function import Unary
from ..reals import (
    INF,
    Constant,
    clip,
    cosh,
    exp,
    exp_pair,
    expm1,
    filled,
    keep_nan,
    limits,
    log1p,
    sigmoid,
    tanh,
    two_product,
    where,
)
from ..roots import beside_root

SELU_ALPHA, SELU_SCALE = Constant("1.6732632423543772"), Constant("1.0507009873554805")
GELU_CUBE = Constant("0.044715")
SQRT_TWO_OVER_PI = Constant("0.797884560802865355879892119868763736951717262")
# bf16 gradients are differences in f32, also near the root
ROOTED = ACTIVATION_GRADIENT.but(bf16=0.5 + 2.0**-5)


def silu_slope(x):
    return limits(x, beside_root("silu", x, sigmoid(x) * (1 + x * sigmoid(-x))), 0.0, 1.0)


def twice_gelu_argument(x):
    """2 u with gelu_tanh(x) = x sigmoid(2 u), as a pair: e^2u magnifies what a rounding loses by u."""
    (cube, cube_lost), (factor, factor_lost) = GELU_CUBE.pair(x), SQRT_TWO_OVER_PI.pair(x)
    square, lost = two_product(x, x)
    term, term_lost = two_product(square, cube)
    term_lost = term_lost + lost * cube + square * cube_lost
    total = 1 + term
    total_lost = term_lost + where(term > 1, 1 - (total - term), term - (total - 1))
    product, product_lost = two_product(x, total)
    product_lost = product_lost + x * total_lost
    high, low = two_product(product, 2 * factor)
    return high, low + 2 * (product_lost * factor + product * factor_lost)


def gelu_tanh(x):
    near = clip(x, -1000, 1000)  # beyond, the sigmoid is 0 or 1
    return where(x < -1000, -0.0, x * sigmoid(*twice_gelu_argument(near)))


def gelu_tanh_slope(x):
    near = clip(x, -1000, 1000)
    high, low = twice_gelu_argument(near)
    slope = 2 * (SQRT_TWO_OVER_PI * (1 + 3 * (GELU_CUBE * near * near)))
    return beside_root("gelu_tanh", x, sigmoid(high, low) * (1 + near * slope * sigmoid(-high, -low)))


def mish_parts(x):
    """tanh(ln(1 + e^x)) = n / (n + 2) with n = e^x (e^x + 2); beyond 100 it is 1."""
    e = exp(clip(x, high=100))
    return e, e * (e + 2)


def mish(x):
    _, n = mish_parts(x)
    return limits(x, where(x > 100, x, x * (n / (n + 2))), -0.0, INF)


def mish_slope(x):
    e, n = mish_parts(x)
    slope = (n * (n + 2) + 4 * x * e * (e + 1)) / ((n + 2) * (n + 2))
    return limits(x, beside_root("mish", x, where(x > 100, 1.0, slope)), 0.0, 1.0)


def softplus(x, beta=1, threshold=INF):
    """No threshold by default: a cut-off would cost digits."""
    high, low = two_product(x, beta)
    value = clip(high, 0) + low * where(high > 0, 1.0, 0.0)
    value = value + log1p(exp_pair(-abs(high), where(high < 0, low, -low)))
    value = limits(high, value, 0.0, INF) / beta
    return where(high > threshold, x, keep_nan(x, value))


def softplus_backward(dy, x, beta=1, threshold=INF):
    high, low = two_product(x, beta)
    return where(high > threshold, dy, dy * sigmoid(high, low))


def tanhshrink(x):
    """x - tanh x, for small x (x cosh x - sinh x) / cosh x, whose numerator is the sum of 2k x^(2k+1) / (2k+1)!."""
    size = clip(abs(x), high=1)
    total, term = filled(x, 0), filled(x, 1)
    for k in range(1, 15):
        term = term * size * size / (2 * k * (2 * k + 1))
        total = total + 2 * k * term
    return where(abs(x) < 1, x * (total / cosh(size)), x - tanh(x))


def selu(x, alpha=SELU_ALPHA, scale=SELU_SCALE):
    return scale * where(x > 0, x, alpha * expm1(x))


def selu_backward(dy, x, alpha=SELU_ALPHA, scale=SELU_SCALE):
    return scale * where(x > 0, dy, alpha * exp(x) * dy)


FUNCTIONS = (
    Unary("sigmoid", forward=sigmoid, slope=lambda y: y * (1 - y), draw=arguments.tails(), ulps=LIBRARY,
          draw_y=lambda rng, shape: rng.uniform(0, 1, shape), properties="rising",
          torch_backward=lambda t, dy, y: t.ops.aten.sigmoid_backward(dy, y)),
    Unary("silu", forward=lambda x: limits(x, x * sigmoid(x), -0.0, INF), slope=silu_slope,
          edges=(1.2784645427610738,), draw=arguments.tails(), ulps=ACTIVATION, gradient_ulps=ROOTED,
          torch_backward=lambda t, dy, x: t.ops.aten.silu_backward(dy, x)),
    Unary("gelu_tanh", forward=gelu_tanh, slope=gelu_tanh_slope, edges=(0.7524614220710163,),
          draw=arguments.tails(2), ulps=ACTIVATION, gradient_ulps=ROOTED,
          torch=lambda t, x: t.nn.functional.gelu(x, approximate="tanh"),
          torch_backward=lambda t, dy, x: t.ops.aten.gelu_backward(dy, x, approximate="tanh")),
    Unary("mish", forward=mish, slope=mish_slope, edges=(1.192431214515495, 20), draw=arguments.tails(),
          ulps=ACTIVATION, gradient_ulps=ACTIVATION_GRADIENT,
          torch_backward=lambda t, dy, x: t.ops.aten.mish_backward(dy, x)),
    Unary("softplus", forward=softplus, backward=softplus_backward, edges=(20,), draw=arguments.tails(),
          ulps=ACTIVATION_GRADIENT, gradient_ulps=ACTIVATION, measured=((1.5, 20.0),), properties="rising",
          parameters=((1.0, 20.0), (2.0, 20.0), (0.5, 5.0), (1.0, -1.0), (0.1, 100.0)),
          torch_backward=lambda t, dy, x, *p: t.ops.aten.softplus_backward(dy, x, *(p or (1.0, 20.0)))),
    Unary("softsign", forward=lambda x: limits(x, x / (1 + abs(x)), -1.0, 1.0), ulps=ACTIVATION,
          backward=lambda dy, x: dy / (1 + abs(x)) ** 2, gradient_ulps=ACTIVATION, properties="odd rising"),
    Unary("tanhshrink", forward=tanhshrink, slope=lambda x: tanh(x) ** 2, edges=(0.5, 1), ulps=ACTIVATION_GRADIENT,
          gradient_ulps=ACTIVATION_GRADIENT, properties="rising",
          torch_backward=lambda t, dy, x: dy * x.tanh().square()),
    Unary("selu", forward=selu, backward=selu_backward, ulps=ACTIVATION, gradient_ulps=ACTIVATION,
          parameters=((1.6732632423543772, 1.0507009873554805), (0.3, 2.0), (2.0, -1.0), (1.0, 1.0), (0.0, 0.5)),
          properties="rising"),
    Unary("elu", forward=lambda x, alpha=1: where(x > 0, x, alpha * expm1(x)), ulps=ACTIVATION,
          backward=lambda dy, x, alpha=1: where(x > 0, dy, alpha * exp(x) * dy), gradient_ulps=ACTIVATION,
          parameters=((1.0,), (0.3,), (-2.0,), (0.0,), (5.0,)), measured=((0.75,),), timed=(1.5,)),
)  # fmt: skip
