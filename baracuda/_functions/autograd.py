"""Gradients that PyTorch is told of and the op table has not: of functions that are linear, and of products."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from baracuda._functions.composed import WHOLE
from baracuda._functions.product_gradients import OF_PRODUCTS, matmul_at_once
from baracuda._functions.product_gradients import Own as OfProducts
from baracuda.dtypes import ElementKind

Operators = Callable[[str], Any]  # by name
Given = Mapping[str, Any]
Own = Callable[[Operators, Any, Given], dict[str, Any]]
_DTYPES = {
    ElementKind.F32: torch.float32, ElementKind.F64: torch.float64, ElementKind.I32: torch.int32,
    ElementKind.I64: torch.int64,
}  # fmt: skip


def _of_products(own: OfProducts) -> Own:
    return lambda operator, dy, given: own(calls(operator), dy, given)


def _matmul(operator: Operators, dy: Any, given: Given) -> dict[str, Any]:
    """Summed over the products of a batch in which one matrix took part."""
    a, b = given["a"], given["b"]
    if at_once := matmul_at_once(calls(operator), dy, given):
        return at_once
    first, second = (a if a.dim() > 1 else a[None]), (b if b.dim() > 1 else b[:, None])
    of_all = dy.unsqueeze(-1) if b.dim() == 1 else dy
    of_all = of_all.unsqueeze(-2) if a.dim() == 1 else of_all
    multiply = operator("matmul")
    da, db = multiply(of_all, second.mT), multiply(first.mT, of_all)
    return {"a": da.sum_to_size(first.shape).reshape(a.shape), "b": db.sum_to_size(second.shape).reshape(b.shape)}


def _composed(name: str) -> tuple[Own, tuple[str, ...]]:
    """Of functions of this package, which all read the gradient of the first result alone."""

    def own(operator: Operators, grads: Any, given: Given) -> dict[str, Any]:
        dy = grads[0] if isinstance(grads, tuple) else grads
        return {n: each.of(calls(operator), {**given, "dy": dy}) for n, each in WHOLE[name].items()}

    return own, tuple([read for each in WHOLE[name].values() for read in each.reads])


def calls(operator: Operators) -> Callable[..., Any]:
    """Operators by name, which take dtypes of this package as well."""

    def call(name: str, *arguments: Any, **numbers: Any) -> Any:
        given = [_DTYPES[value] if isinstance(value, ElementKind) else value for value in arguments]
        return operator(name)(*given, **numbers)

    return call


# name -> gradients by argument, of the operators, dy and what it reads; and the arrays and results that it reads
OWN: dict[str, tuple[Own, tuple[str, ...]]] = {
    "cast": (lambda operator, dy, given: {"x": operator("cast")(dy, given["dtype of x"])}, ()),
    "matmul": (_matmul, ("a", "b")),
    **{name: (_of_products(own), reads) for name, (own, reads) in OF_PRODUCTS.items()},
    **{name: _composed(name) for name in WHOLE},
}
