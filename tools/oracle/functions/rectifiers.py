# SPDX-License-Identifier: Apache-2.0
"""Piecewise linear functions."""

import math

from ..bounds import EXACT, ORDINARY, ROUNDED
from ..function import Unary
from ..reals import NAN, clip, flat, keep_nan, where


def inside(dy, condition):
    return where(condition, dy, 0.0)


def softshrink(x, by=0.5):
    return keep_nan(x, where(x > by, x - by, where(x < -by, x + by, 0.0)))


def hardswish_backward(dy, x):
    return where(x <= -3, 0.0, where(x >= 3, dy, dy * (2 * x + 3) / 6))


FUNCTIONS = (
    # PyTorch's relu propagates NaN
    Unary("relu", forward=lambda x: where(x > 0, x, 0.0), backward=lambda dy, x: inside(dy, x > 0),
          ulps=EXACT, gradient_ulps=EXACT, torch_backward=lambda t, dy, x: t.ops.aten.threshold_backward(dy, x, 0.0)),
    Unary("relu_propagating", forward=lambda x: where(x < 0, 0.0, x), torch="relu",
          backward=lambda dy, x: keep_nan(x, inside(dy, x > 0)), ulps=EXACT, gradient_ulps=EXACT),
    Unary("relu6", forward=lambda x: clip(x, 0, 6), backward=lambda dy, x: inside(dy, (x > 0) & (x < 6)), edges=(6,),
          ulps=EXACT, gradient_ulps=EXACT),
    Unary("hardtanh", forward=lambda x, low=-1, high=1: clip(x, low, high),
          backward=lambda dy, x, low=-1, high=1: inside(dy, (x > low) & (x < high)), ulps=EXACT, gradient_ulps=EXACT,
          parameters=((-1.0, 1.0), (0.0, 6.0), (-0.3, 2.7), (-math.inf, 1.0), (0.5, 0.5)), properties="odd",
          torch_backward=lambda t, dy, x: t.ops.aten.hardtanh_backward(dy, x, -1.0, 1.0)),
    Unary("hardsigmoid", forward=lambda x: clip(x + 3, 0, 6) / 6, edges=(3,), ulps=ORDINARY,
          backward=lambda dy, x: inside(dy / 6, (x > -3) & (x < 3)),
          torch_backward=lambda t, dy, x: t.ops.aten.hardsigmoid_backward(dy, x)),
    Unary("hardswish", forward=lambda x: where(x <= -3, -0.0, x * clip(x + 3, 0, 6) / 6), edges=(3,), ulps=ORDINARY,
          backward=hardswish_backward, torch_backward=lambda t, dy, x: t.ops.aten.hardswish_backward(dy, x)),
    Unary("leaky_relu", forward=lambda x, slope: where(x > 0, x, slope * x), constants=(0.01,),
          backward=lambda dy, x, slope: where(x > 0, dy, slope * dy), ulps=ROUNDED, gradient_ulps=ROUNDED,
          parameters=((0.2,), (0.0,), (-1.5,), (1e-3,), (1.0,)),
          torch_backward=lambda t, dy, x: t.ops.aten.leaky_relu_backward(dy, x, 0.01, False)),
    Unary("hardshrink", forward=lambda x, size=0.5: keep_nan(x, where(abs(x) > size, x, 0.0)), edges=(0.5, 1),
          backward=lambda dy, x, size=0.5: inside(dy, abs(x) > size), ulps=EXACT, gradient_ulps=EXACT,
          parameters=((0.5,), (0.0,), (1.3,), (1e-3,), (-1.0,)),
          torch_backward=lambda t, dy, x: t.ops.aten.hardshrink_backward(dy, x, 0.5)),
    Unary("softshrink", forward=softshrink, backward=lambda dy, x, by=0.5: inside(dy, abs(x) > by), edges=(0.5, 1),
          ulps=ROUNDED, gradient_ulps=EXACT, parameters=((0.5,), (0.0,), (1.3,), (1e-3,), (2.0,)),
          torch_backward=lambda t, dy, x: t.ops.aten.softshrink_backward(dy, x, 0.5)),
    Unary("threshold", forward=lambda x, by, other: keep_nan(x, where(x > by, x, other)), timed=(0.5, -1.0),
          backward=lambda dy, x, by, _other: inside(dy, x > by), ulps=EXACT, gradient_ulps=EXACT,
          parameters=((0.5, -2.0), (0.0, 0.0), (-1.0, 20.0), (1.0, NAN), (-math.inf, 3.0))),
    Unary("step", forward=lambda x: where(x > 0, 1.0, 0.0), backward=flat, ulps=EXACT,
          gradient_ulps=EXACT, torch=None),
)  # fmt: skip
