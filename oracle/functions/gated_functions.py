"""Activations of gated units and their derivatives, in 80-bit floats: the true values for every dtype that is tested.

Each derivative comes with the sum of the magnitudes of what cancels in it.
"""

import numpy as np

from ..function import Gated

X = np.longdouble
SQRT_HALF, SQRT_2PI = np.sqrt(X(0.5)), np.sqrt(2 * X("3.14159265358979323846264338327950288"))


def sigmoid(b):
    small = np.exp(-np.abs(b))
    return np.where(b >= 0, 1, small) / (1 + small)


def exp_of_half_square(b):
    """e^(-b^2 / 2). The square of b is taken in two parts, for its rounding error would be an error of the result."""
    b = np.minimum(np.abs(b), X(200))  # beyond, the result is 0 in f64
    high = b.astype(np.float32).astype(X)
    return np.exp(-high * high / 2) * np.exp(-(b - high) * (b + high) / 2)


def upper_tail(z):
    """1 - Phi(z) divided by e^(-z^2 / 2), for z >= 0.

    Up to 1.75 by the series of Phi(z) - 1/2, whose terms are all positive; above by the continued fraction of Mills'
    ratio (Abramowitz and Stegun 26.2.10 and 26.2.14).
    """
    near = np.minimum(z, X(1.75))
    term = total = near
    for k in range(3, 161, 2):
        term = term * near * near / k
        total = total + term
    series = np.exp(near * near / 2) / 2 - total / SQRT_2PI
    far = np.maximum(z, X(1.75))
    fraction = far
    for k in range(200, 0, -1):
        fraction = far + k / fraction
    return np.where(z <= 1.75, series, 1 / (fraction * SQRT_2PI))


def normal(b):
    """Phi and its density."""
    fall = exp_of_half_square(b)
    tail = fall * upper_tail(np.abs(b))
    return np.where(np.isnan(b), b, np.where(b < 0, tail, 1 - tail)), np.where(np.isnan(b), b, fall / SQRT_2PI)


def times(b, factor):
    """b times a factor that vanishes faster than any b grows."""
    return np.where(np.isinf(b) & (factor == 0), X(0), b * factor)


def glu(b):
    return sigmoid(b)


def glu_slope(b):
    slope = sigmoid(b) * sigmoid(-b)
    return slope, np.abs(slope)


def reglu(b):
    return np.where(b <= 0, X(0), b)


def reglu_slope(b):
    slope = np.where(b > 0, X(1), X(0))
    return slope, slope


def swiglu(b):
    return times(b, sigmoid(b))


def swiglu_slope(b):
    s = sigmoid(b)
    curved = times(b, s * sigmoid(-b))
    return s + curved, s + np.abs(curved)


def geglu(b):
    return times(b, normal(b)[0])


def geglu_slope(b):
    below, density = normal(b)
    return below + times(b, density), below + np.abs(times(b, density))


def halves(x):
    """Of rows of both halves."""
    middle = x.shape[1] // 2
    return x[:, :middle], x[:, middle:]


def gated_by(name):
    """PyTorch's a activation(b)."""

    def made(torch, x):
        a, b = halves(x)
        return a * getattr(torch.nn.functional, name)(b)

    return made


FUNCTIONS = (
    Gated("glu", gate=glu, slope=glu_slope, torch=lambda t, x: t.nn.functional.glu(x, -1)),
    Gated("reglu", gate=reglu, slope=reglu_slope, torch=gated_by("relu")),
    Gated("swiglu", gate=swiglu, slope=swiglu_slope, torch=gated_by("silu")),
    Gated("geglu", gate=geglu, slope=geglu_slope, torch=gated_by("gelu")),
)
