# SPDX-License-Identifier: Apache-2.0
"""Rounding to integers, and fractional parts."""

from ..bounds import EXACT
from ..function import Unary
from ..reals import ceil, filled, flat, floor, rint, trunc

HALVES = (0.5, 1, 1.5, 2, 2.5, 2.0**10, 2.0**23, 2.0**52)


FUNCTIONS = (
    Unary("floor", forward=floor, backward=flat, edges=HALVES, ulps=EXACT, gradient_ulps=EXACT),
    Unary("ceil", forward=ceil, backward=flat, edges=HALVES, ulps=EXACT, gradient_ulps=EXACT),
    Unary("round", forward=rint, backward=flat, edges=HALVES, ulps=EXACT, gradient_ulps=EXACT, properties="odd"),
    Unary("trunc", forward=trunc, backward=flat, edges=HALVES, ulps=EXACT, gradient_ulps=EXACT, properties="odd"),
    Unary("frac", forward=lambda x: x - trunc(x), slope=lambda x: filled(x, 1), edges=HALVES, ulps=EXACT,
          gradient_ulps=EXACT, torch_backward=lambda t, dy, x: dy.clone()),
)  # fmt: skip
