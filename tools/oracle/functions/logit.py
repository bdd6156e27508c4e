# SPDX-License-Identifier: Apache-2.0
"""ln(x / (1 - x))."""

from ..bounds import LIBRARY
from ..function import Unary
from ..reals import keep_nan, log, log1p, where


def logit(x, eps=0, high=None):
    """Near its zero ln(1 + (2 x - 1) / (1 - x)). `high` is 1 - eps in the compute type, exact by default."""
    if eps > 0:  # in the order of the table: the upper bound wins
        high = 1 - eps if high is None else high
        x = where(x < eps, eps, x)
        x = where(x > high, high, x)
    rest = 1 - x
    middle = (x > 0.25) & (x < 0.75)
    value = where(middle, log1p((x - rest) / rest), log(x) - log(rest))
    return where(x < 0.25, log(x) - log1p(-x), value)


def logit_backward(dy, x, eps=0, high=None):
    value, high = dy / (x * (1 - x)), 1 - eps if high is None else high
    return keep_nan(x, where((x >= eps) & (x <= high), value, 0.0)) if eps > 0 else value


FUNCTIONS = (
    Unary("logit", forward=logit, backward=logit_backward, domain=(0, 1), edges=(0.5, 1), ulps=LIBRARY,
          parameters=((0.1,), (0.0,), (1e-6,), (-1.0,), (0.5,)), measured=((0.125,),),
          torch_backward=lambda t, dy, x: t.ops.aten.logit_backward(dy, x, None), properties="rising"),
)  # fmt: skip
