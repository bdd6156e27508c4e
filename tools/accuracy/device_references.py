"""The functions in PyTorch's float64 on the device: near enough to measure f32, and quick enough for every f32.

Apart from tests/references, which is exact to more digits, and from the kernels. `true` gives the two tables,
of functions (x, *parameters) and (dy, saved, *parameters). A relative error of 2^-36 or less is meant: beside zeros at
irrational arguments, too, since the nearest f32 is some 2^-25 away from them.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from typing import Any

Table = dict[str, Callable[..., Any]]
_LN2, _LN10 = math.log(2), math.log(10)
_ALPHA, _SCALE = 1.6732632423543772, 1.0507009873554805
_C, _CUBE = math.sqrt(2 / math.pi), 0.044715
_INF = math.inf
_gamma = importlib.import_module("references.extended")
_ZERO = float(_gamma.DIGAMMA_ZERO[0])
_ZERO_LOST = float((_gamma.DIGAMMA_ZERO[0] - _ZERO) + _gamma.DIGAMMA_ZERO[1])
_TAYLOR = [float(c) for c in _gamma.DIGAMMA_TAYLOR[:12]]


def true(torch: Any, device: str) -> tuple[Table, Table]:
    zero, one = (torch.tensor(v, dtype=torch.float64, device=device) for v in (0.0, 1.0))
    return _forward(torch, zero, one), _backward(torch, zero, one)


def _forward(torch: Any, zero: Any, one: Any) -> Table:
    where = torch.where
    table: Table = {
        name: getattr(torch, name)
        for name in (
            "neg", "abs", "reciprocal", "square", "sqrt", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p",
            "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "floor",
            "ceil", "round", "trunc", "erf", "erfc", "erfinv",
        )
    }  # fmt: skip
    special = _Special(torch)

    def clip(x: Any, low: float, high: float) -> Any:
        return x.clamp(low, high)  # NaN stays

    def keep_nan(x: Any, value: Any) -> Any:
        return where(x.isnan(), x, value)

    def tail(x: Any, value: Any) -> Any:
        """0 at -inf, where a formula has 0 times infinity."""
        return where(x == -_INF, zero, value)

    def tanhshrink(x: Any) -> Any:
        y = x.clamp(-1, 1)
        square, total, term = y * y, 0.0, 1.0
        for k in range(1, 13):
            term = term * square / (2 * k * (2 * k + 1))
            total = total + 2 * k * term
        return where(x.abs() < 1, x * total / torch.cosh(y), x - torch.tanh(x))

    def mish(x: Any) -> Any:
        e = torch.exp(x.clamp(max=40))
        n = e * (e + 2)
        return tail(x, x * (n / (n + 2)))

    def logit(x: Any, eps: float = 0.0) -> Any:
        y = clip(x, eps, 1 - eps) if eps > 0 else x
        inner = y.clamp(0.2, 0.8)
        near = torch.log1p((2 * inner - 1) / (1 - inner))
        return where((y > 0.25) & (y < 0.75), near, torch.log(y) - torch.log1p(-y))

    def softplus(x: Any, beta: float = 1.0, threshold: float = _INF) -> Any:
        z = beta * x
        value = (z.clamp(min=0) + torch.log1p(torch.exp(-z.abs()))) / beta
        return where(z > threshold, x, value)

    def softshrink(x: Any) -> Any:
        return keep_nan(x, where(x > 0.5, x - 0.5, where(x < -0.5, x + 0.5, zero)))

    table |= {
        "sign": lambda x: where(x > 0, one, where(x < 0, -one, zero)),
        "cube": lambda x: x * x * x,
        "rsqrt": lambda x: 1 / torch.sqrt(x),
        "cbrt": lambda x: _cbrt(torch, x),
        "frac": lambda x: x - torch.trunc(x),
        "lgamma": special.lgamma,
        "digamma": special.digamma,
        "relu": lambda x: where(x > 0, x, zero),
        "relu_propagating": lambda x: where(x < 0, zero, x),
        "gelu": lambda x: tail(x, x * torch.erfc(-x * math.sqrt(0.5)) / 2),
        "gelu_tanh": lambda x: tail(x, x * torch.sigmoid(2 * _C * (x + _CUBE * x * x * x))),
        "silu": lambda x: tail(x, x * torch.sigmoid(x)),
        "mish": mish,
        "sigmoid": torch.sigmoid,
        "logit": logit,
        "softplus": softplus,
        "softsign": lambda x: where(x.isinf(), x.sign(), x / (1 + x.abs())),
        "tanhshrink": tanhshrink,
        "relu6": lambda x: clip(x, 0, 6),
        "hardswish": lambda x: where(x <= -3, zero, x * clip(x + 3, 0, 6) / 6),
        "hardsigmoid": lambda x: clip(x + 3, 0, 6) / 6,
        "hardtanh": lambda x: clip(x, -1, 1),
        "selu": lambda x: _SCALE * where(x > 0, x, _ALPHA * torch.expm1(x)),
        "leaky_relu": lambda x: where(x > 0, x, x * 0.01),
        "elu": lambda x, alpha: where(x > 0, x, alpha * torch.expm1(x)),
        "hardshrink": lambda x: keep_nan(x, where(x.abs() > 0.5, x, zero)),
        "softshrink": softshrink,
        "step": lambda x: where(x > 0, one, zero),
        "powf": torch.pow,
        "powi": torch.pow,
    }
    table["gelu_erf"] = table["gelu"]
    return table


def _backward(torch: Any, zero: Any, one: Any) -> Table:
    where = torch.where
    special = _Special(torch)

    def inside(dy: Any, condition: Any) -> Any:
        return where(condition, dy, zero)

    def limits(x: Any, value: Any) -> Any:
        """0 at -inf and 1 at +inf."""
        return where(x == -_INF, zero, where(x == _INF, one, value))

    def density(x: Any) -> Any:
        return torch.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)

    def cdf(x: Any) -> Any:
        return torch.erfc(-x * math.sqrt(0.5)) / 2

    def gelu_tanh(dy: Any, x: Any) -> Any:
        y = x.clamp(-100, 100)  # beyond, the sigmoid is 0 or 1
        u = 2 * _C * (y + _CUBE * y * y * y)
        slope = 2 * _C * (1 + 3 * _CUBE * y * y)
        return dy * torch.sigmoid(u) * (1 + y * slope * torch.sigmoid(-u))

    def mish(dy: Any, x: Any) -> Any:
        e = torch.exp(x.clamp(max=40))
        n = e * (e + 2)
        y = x.clamp(-1e4, 1e4)
        return dy * limits(x, (n * (n + 2) + 4 * y * e * (e + 1)) / ((n + 2) * (n + 2)))

    def logit(dy: Any, x: Any, eps: float = 0.0) -> Any:
        value = dy / (x * (1 - x))
        return where((x < eps) | (x > 1 - eps), zero, value) if eps > 0 else value

    def softplus(dy: Any, x: Any, beta: float = 1.0, threshold: float = _INF) -> Any:
        return where(beta * x > threshold, dy, dy * torch.sigmoid(beta * x))

    table: Table = {
        "neg": lambda dy, x: -dy,
        "abs": lambda dy, x: dy * where(x > 0, one, where(x < 0, -one, zero)),
        "reciprocal": lambda dy, x: -dy / (x * x),
        "square": lambda dy, x: dy * 2 * x,
        "cube": lambda dy, x: dy * 3 * x * x,
        "sqrt": lambda dy, y: dy / (2 * y),
        "rsqrt": lambda dy, y: dy * -(y * y * y) / 2,
        "cbrt": lambda dy, y: dy / (3 * y * y),
        "exp": lambda dy, y: dy * y,
        "exp2": lambda dy, y: dy * y * _LN2,
        "expm1": lambda dy, y: dy * (y + 1),
        "log": lambda dy, x: dy / x,
        "log2": lambda dy, x: dy / (x * _LN2),
        "log10": lambda dy, x: dy / (x * _LN10),
        "log1p": lambda dy, x: dy / (1 + x),
        "sin": lambda dy, x: dy * torch.cos(x),
        "cos": lambda dy, x: -dy * torch.sin(x),
        "tan": lambda dy, x: dy / torch.cos(x).square(),
        "asin": lambda dy, x: dy / torch.sqrt((1 - x) * (1 + x)),
        "acos": lambda dy, x: -dy / torch.sqrt((1 - x) * (1 + x)),
        "atan": lambda dy, x: dy / (1 + x * x),
        "sinh": lambda dy, x: dy * torch.cosh(x),
        "cosh": lambda dy, x: dy * torch.sinh(x),
        "tanh": lambda dy, y: dy * ((1 - y) * (1 + y)),
        "asinh": lambda dy, x: dy / torch.sqrt(1 + x * x),
        "acosh": lambda dy, x: dy / torch.sqrt((x.abs() - 1) * (x.abs() + 1)),
        "atanh": lambda dy, x: dy / ((1 - x) * (1 + x)),
        "frac": lambda dy, x: dy,
        "erf": lambda dy, x: dy * (2 / math.sqrt(math.pi) * torch.exp(-x * x)),
        "erfc": lambda dy, x: -dy * (2 / math.sqrt(math.pi) * torch.exp(-x * x)),
        "erfinv": lambda dy, y: dy * (math.sqrt(math.pi) / 2 * torch.exp(y * y)),
        "lgamma": lambda dy, x: dy * special.digamma(x),
        "digamma": lambda dy, x: dy * special.trigamma(x),
        "relu": lambda dy, x: inside(dy, x > 0),
        "relu_propagating": lambda dy, x: where(x.isnan(), x, inside(dy, x > 0)),
        "gelu": lambda dy, x: dy * limits(x, cdf(x) + x * density(x)),
        "gelu_tanh": gelu_tanh,
        "silu": lambda dy, x: dy * limits(x, torch.sigmoid(x) * (1 + x * torch.sigmoid(-x))),
        "mish": mish,
        "sigmoid": lambda dy, y: dy * (y * (1 - y)),
        "logit": logit,
        "softplus": softplus,
        "softsign": lambda dy, x: dy / (1 + x.abs()).square(),
        "tanhshrink": lambda dy, x: dy * torch.tanh(x).square(),
        "relu6": lambda dy, x: inside(dy, (x > 0) & (x < 6)),
        "hardswish": lambda dy, x: where(x <= -3, zero, where(x >= 3, dy, dy * (2 * x + 3) / 6)),
        "hardsigmoid": lambda dy, x: inside(dy / 6, (x > -3) & (x < 3)),
        "hardtanh": lambda dy, x: inside(dy, (x > -1) & (x < 1)),
        "selu": lambda dy, x: _SCALE * where(x > 0, dy, _ALPHA * torch.exp(x.clamp(max=0)) * dy),
        "leaky_relu": lambda dy, x: where(x > 0, dy, dy * 0.01),
        "elu": lambda dy, x, alpha=1.0: where(x > 0, dy, alpha * torch.exp(x.clamp(max=0)) * dy),
        "hardshrink": lambda dy, x: inside(dy, x.abs() > 0.5),
        "softshrink": lambda dy, x: inside(dy, x.abs() > 0.5),
        "powf": lambda dy, x, p: p * torch.pow(x, p - 1) * dy,
        "powi": lambda dy, x, n: n * torch.pow(x, n - 1) * dy,
    }
    for name in ("sign", "floor", "ceil", "round", "trunc", "step"):
        table[name] = lambda dy, x: torch.zeros_like(x)
    table["gelu_erf"] = table["gelu"]
    return table


def _cbrt(torch: Any, x: Any) -> Any:
    """By pow, and a step of Newton's, since 1/3 is not a float64."""
    size = x.abs()
    root = torch.pow(size, 1 / 3)
    step = (root - size / (root * root)) / 3
    return torch.copysign(torch.where((size > 0) & (size < _INF), root - step, root), x)


class _Special:
    """Functions about ln Gamma, by PyTorch's on the positive axis, and reflection with an exact fraction."""

    def __init__(self, torch: Any) -> None:
        self.torch = torch

    def _fraction(self, x: Any) -> Any:
        return self.torch.where(x.isfinite(), x - self.torch.round(x), 0.0)

    def lgamma(self, x: Any) -> Any:
        torch = self.torch
        part = self._fraction(x)
        below = torch.log(math.pi / (torch.sin(math.pi * part) * x).abs()) - torch.lgamma(x.abs())
        value = torch.where(x > -20, torch.lgamma(x), below)
        return torch.where((x == -_INF) | ((x <= 0) & (part == 0) & ~x.isnan()), _INF, value)

    def digamma(self, x: Any) -> Any:
        torch = self.torch
        y = torch.where(x > 0, x, 1 - x)
        offset = (y - _ZERO) - _ZERO_LOST
        near_zero = 0.0
        for c in reversed(_TAYLOR):
            near_zero = (near_zero + c) * offset
        positive = torch.where(offset.abs() < 0.05, near_zero, torch.digamma(y))
        part = self._fraction(x)
        near = part.abs() <= 0.25
        tangent = torch.tan(math.pi * torch.where(near, part, torch.copysign(torch.full_like(part, 0.5), part) - part))
        value = torch.where(x > 0, positive, positive - math.pi * torch.where(near, 1 / tangent, tangent))
        value = torch.where((x < 0) & (part == 0), math.nan, value)
        return torch.where(x == 0, torch.copysign(torch.full_like(x, _INF), -x), value)

    def trigamma(self, x: Any) -> Any:
        torch = self.torch
        positive = torch.polygamma(1, torch.where(x > 0, x, 1 - x))
        sine = torch.sin(math.pi * self._fraction(x))
        value = torch.where(x > 0, positive, (math.pi / sine).square() - positive)
        return torch.where(x == -_INF, math.nan, value)
