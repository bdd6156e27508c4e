"""Gradients that PyTorch is told of and the op table has not: of functions that are linear, of products, and of those
gradients whose formula is a line of PyTorch, so that they can be differentiated again.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from typing import Any

import torch

from baracuda._functions.gradients import CTC, FORMULAS, TRANSPOSED, read_by_formula

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


def _ctc(operator: Operators, dy: Any, given: Given) -> dict[str, Any]:
    """From the loss of each sample, not rounded to 16 bits, which is computed again."""
    log_probs, *others = [given[name] for name in CTC]
    wide = log_probs.to(torch.promote_types(log_probs.dtype, torch.float32))
    losses, alpha = operator("ctc_loss_forward")(wide, *others, blank=given["blank"], reduction="none")
    if given["reduction"] == "mean":
        dy = dy / given["target_lengths"].clamp(0, given["targets"].shape[1]).sum().clamp(min=1)
    dy = dy.to(log_probs.dtype).expand(losses.shape).contiguous()
    numbers = {"blank": given["blank"], "zero_infinity": given["zero_infinity"]}
    return {
        "log_probs": operator("ctc_loss_backward")(dy, log_probs, *others, alpha, losses, reduction="none", **numbers)
    }


def _of_x(name: str) -> Own:
    def own(operator: Operators, dy: Any, given: Given) -> dict[str, Any]:
        return {"x": TRANSPOSED[name](lambda other, *a, **n: operator(other)(*a, **n), dy, given)}

    return own


_TORCH = types.SimpleNamespace(
    exp=torch.exp, sin=torch.sin, cos=torch.cos, sigmoid=torch.sigmoid, ndtr=torch.special.ndtr
)


def _of_formula(name: str) -> tuple[Own, tuple[str, ...]]:
    names = read_by_formula(name)

    def formula(*values: Any) -> Any:
        results = FORMULAS[name](_TORCH, *values)
        if not isinstance(results, tuple):
            return results
        return tuple([r.expand(values[0].shape).sum_to_size(v.shape) for r, v in zip(results, values[1:])])

    def own(operator: Operators, grads: Any, given: Given) -> dict[str, Any]:
        results, pull = torch.func.vjp(formula, *[given[each] for each in names])
        if isinstance(results, tuple):  # one that was not needed is empty
            pairs = zip(grads, results)
            grads = tuple([g if g.shape == result.shape else torch.zeros_like(result) for g, result in pairs])
        return dict(zip(names, pull(grads)))

    return own, names


# name -> gradients by argument, of the operators, dy and what it reads; and the arrays that it reads
OWN: dict[str, tuple[Own, tuple[str, ...]]] = {
    "cast": (lambda operator, dy, given: {"x": operator("cast")(dy, given["dtype of x"])}, ()),
    "matmul": (_matmul, ("a", "b")),
    "linear": (_linear, ("x", "weight")),
    "ctc_loss": (_ctc, CTC),
    **{name: (_of_x(name), ("index",) if name in ("index_add", "scatter_add") else ()) for name in TRANSPOSED},
    **{f"{name}_backward": _of_formula(name) for name in FORMULAS},
}
