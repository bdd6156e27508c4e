"""Gradients that PyTorch is told of and the op table has not: of functions that are linear, of products, and of those
gradients whose formula is a line of PyTorch, so that they can be differentiated again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from baracuda._functions.gradients import TRANSPOSED

Operators = Callable[[str], Any]  # by name
Given = Mapping[str, Any]
Own = Callable[[Operators, Any, Given], dict[str, Any]]


def _matmul(operator: Operators, dy: Any, given: Given) -> dict[str, Any]:
    """Summed over the products of a batch in which one matrix took part."""
    a, b = given["a"], given["b"]
    first, second = (a if a.dim() > 1 else a[None]), (b if b.dim() > 1 else b[:, None])
    of_all = dy.unsqueeze(-1) if b.dim() == 1 else dy
    of_all = of_all.unsqueeze(-2) if a.dim() == 1 else of_all
    multiply = operator("matmul")
    da, db = multiply(of_all, second.mT), multiply(first.mT, of_all)
    return {"a": da.sum_to_size(first.shape).reshape(a.shape), "b": db.sum_to_size(second.shape).reshape(b.shape)}


def _linear(operator: Operators, dy: Any, given: Given) -> dict[str, Any]:
    x, weight, rows = given["x"], given["weight"], dy.reshape(-1, dy.shape[-1])
    multiply = operator("matmul")
    of_weight = multiply(rows.mT, x.reshape(-1, x.shape[-1]))
    return {"x": multiply(rows, weight).reshape(x.shape), "weight": of_weight, "bias": rows.sum(0)}


def _of_x(name: str) -> Own:
    def own(operator: Operators, dy: Any, given: Given) -> dict[str, Any]:
        return {"x": TRANSPOSED[name](lambda other, *a, **n: operator(other)(*a, **n), dy, given)}

    return own


def _of_formula(formula: Callable[..., Any], *names: str) -> tuple[Own, tuple[str, ...]]:
    """Of a gradient that is this of its arguments, dy and `names`."""
    arguments = ("dy", *names)

    def own(operator: Operators, grads: Any, given: Given) -> dict[str, Any]:
        results, pull = torch.func.vjp(formula, *[given[name] for name in arguments])
        if isinstance(results, tuple):  # one that was not needed is empty
            pairs = zip(grads, results)
            grads = tuple([g if g.shape == result.shape else torch.zeros_like(result) for g, result in pairs])
        return dict(zip(arguments, pull(grads)))

    return own, arguments


def _bell(x: Any) -> Any:
    return torch.exp(-x * x / 2) * 0.3989422804014327


def _summed(gradient: Callable[[Any, Any, Any], tuple[Any, Any]]) -> Callable[..., Any]:
    """Of two operands, which were broadcast."""

    def formula(dy: Any, a: Any, b: Any) -> tuple[Any, Any]:
        da, db = gradient(dy, a, b)
        return da.expand(dy.shape).sum_to_size(a.shape), db.expand(dy.shape).sum_to_size(b.shape)

    return formula


def _of_sum(operator: Operators, grads: Any, given: Given) -> dict[str, Any]:
    """add: dy took part in both gradients."""
    whole = given["dy"]
    return {"dy": sum([g.expand_as(whole) for g in grads if g.numel() or not whole.numel()])}


def _of_difference(operator: Operators, grads: Any, given: Given) -> dict[str, Any]:
    whole = given["dy"]
    there = [g.expand_as(whole) if g.numel() or not whole.numel() else torch.zeros_like(whole) for g in grads]
    return {"dy": there[0] - there[1]}


# name -> gradients by argument, of the operators, dy and what it reads; and the arrays that it reads
OWN: dict[str, tuple[Own, tuple[str, ...]]] = {
    "cast": (lambda operator, dy, given: {"x": operator("cast")(dy, given["dtype of x"])}, ()),
    "matmul": (_matmul, ("a", "b")),
    "linear": (_linear, ("x", "weight")),
    **{name: (_of_x(name), ("index",) if name in ("index_add", "scatter_add") else ()) for name in TRANSPOSED},
    "add_backward": (_of_sum, ("dy",)),
    "sub_backward": (_of_difference, ("dy",)),
    "neg_backward": (lambda operator, g, given: {"dy": operator("neg")(g)}, ()),
    "mul_backward": _of_formula(_summed(lambda dy, a, b: (dy * b, dy * a)), "a", "b"),
    "div_backward": _of_formula(_summed(lambda dy, a, b: (dy / b, -dy * a / (b * b))), "a", "b"),
    "square_backward": _of_formula(lambda dy, x: 2 * dy * x, "x"),
    "sin_backward": _of_formula(lambda dy, x: dy * torch.cos(x), "x"),
    "cos_backward": _of_formula(lambda dy, x: -dy * torch.sin(x), "x"),
    "log_backward": _of_formula(lambda dy, x: dy / x, "x"),
    "exp_backward": _of_formula(lambda dy, y: dy * y, "y"),
    "sqrt_backward": _of_formula(lambda dy, y: dy / (2 * y), "y"),
    "reciprocal_backward": _of_formula(lambda dy, x: -dy / (x * x), "x"),
    "tanh_backward": _of_formula(lambda dy, y: dy * (1 - y * y), "y"),
    "sigmoid_backward": _of_formula(lambda dy, y: dy * y * (1 - y), "y"),
    "relu_backward": _of_formula(lambda dy, x: dy * (x > 0), "x"),
    "gelu_backward": _of_formula(
        lambda dy, x: dy * (torch.special.ndtr(x) + x * _bell(x)), "x"
    ),
    "silu_backward": _of_formula(
        lambda dy, x: dy * torch.sigmoid(x) * (1 + x * (1 - torch.sigmoid(x))), "x"
    ),
}  # fmt: skip
