# SPDX-License-Identifier: Apache-2.0
"""Gradients for PyTorch that the op table lacks: of cast, of GEMMs, and composite ones (_functions/gradients)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from baracuda._functions.gradients.composite import COMPOSITE_GRADIENTS
from baracuda._functions.gradients.gemm import GEMM_GRADIENTS, matmul_same_batch
from baracuda._functions.gradients.gemm import GradientRule as GemmGradient
from baracuda.dtypes import ElementKind

Operators = Callable[[str], Any]  # operator by name
Given = Mapping[str, Any]
GradientRule = Callable[[Operators, Any, Given], dict[str, Any]]
_DTYPES = {
    ElementKind.F32: torch.float32, ElementKind.F64: torch.float64, ElementKind.I32: torch.int32,
    ElementKind.I64: torch.int64,
}  # fmt: skip


def _of_gemm(rule: GemmGradient) -> GradientRule:
    return lambda operator, dy, given: rule(calls(operator), dy, given)


def _matmul(operator: Operators, dy: Any, given: Given) -> dict[str, Any]:
    """da = dy b^T and db = a^T dy, summed over broadcast batch axes."""
    a, b = given["a"], given["b"]
    if same_batch := matmul_same_batch(calls(operator), dy, given):
        return same_batch
    a_matrices, b_matrices = (a if a.dim() > 1 else a[None]), (b if b.dim() > 1 else b[:, None])
    dy_matrices = dy.unsqueeze(-1) if b.dim() == 1 else dy
    dy_matrices = dy_matrices.unsqueeze(-2) if a.dim() == 1 else dy_matrices
    multiply = operator("matmul")
    da, db = multiply(dy_matrices, b_matrices.mT), multiply(a_matrices.mT, dy_matrices)
    return {
        "a": da.sum_to_size(a_matrices.shape).reshape(a.shape),
        "b": db.sum_to_size(b_matrices.shape).reshape(b.shape),
    }


def _composite(name: str) -> tuple[GradientRule, tuple[str, ...]]:
    """A composite gradient, and what it reads. It uses the gradient of the first result only."""

    def rule(operator: Operators, grads: Any, given: Given) -> dict[str, Any]:
        dy = grads[0] if isinstance(grads, tuple) else grads
        return {n: each.of(calls(operator), {**given, "dy": dy}) for n, each in COMPOSITE_GRADIENTS[name].items()}

    return rule, tuple([saved for each in COMPOSITE_GRADIENTS[name].values() for saved in each.reads])


def calls(operator: Operators) -> Callable[..., Any]:
    """A function that calls operators by name, and converts dtypes of this package to PyTorch's."""

    def call(name: str, *arguments: Any, **numbers: Any) -> Any:
        given = [_DTYPES[value] if isinstance(value, ElementKind) else value for value in arguments]
        return operator(name)(*given, **numbers)

    return call


# Name -> (function of operators, dy and saved values to gradients by argument, names of the saved values).
VJP_RULES: dict[str, tuple[GradientRule, tuple[str, ...]]] = {
    "cast": (lambda operator, dy, given: {"x": operator("cast")(dy, given["dtype of x"])}, ()),
    "matmul": (_matmul, ("a", "b")),
    **{name: (_of_gemm(rule), reads) for name, (rule, reads) in GEMM_GRADIENTS.items()},
    **{name: _composite(name) for name in COMPOSITE_GRADIENTS},
}
