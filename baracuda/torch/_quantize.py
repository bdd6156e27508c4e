# SPDX-License-Identifier: Apache-2.0
"""Affine quantisation and linear_4bit for PyTorch, of operators that torch.compile traces.

fake_quantize and linear_4bit have gradients.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from baracuda._functions.quantize_calls import CALLED, NAMES, QuantizeCalls
from baracuda.dtypes import ElementKind, as_element


class _Tensors:
    def __init__(self, function: Callable[[str], Any]) -> None:
        self._functions = {name: function(name) for name in CALLED}

    def call(self, name: str, *arrays: Any, **numbers: Any) -> Any:
        if "dtype" in numbers:
            numbers["dtype"] = _dtype(as_element(numbers["dtype"]))
        return self._functions[name](*arrays, **numbers)

    def element(self, x: Any, name: str) -> ElementKind:
        return as_element(x.dtype, name)

    def cast(self, x: Any, element: ElementKind) -> Any:
        return x.to(_dtype(element))

    def full(self, value: float, shape: Sequence[int], element: ElementKind, like: Any) -> Any:
        return torch.full(tuple(shape), value, dtype=_dtype(element), device=like.device)

    def reshaped(self, x: Any, shape: Sequence[int]) -> Any:
        return x.reshape(tuple(shape))

    def linear_of(self, x: Any, weight: Callable[..., Any], arrays: Sequence[Any], bias: Any) -> Any:
        decoded = weight(*arrays)
        if not x.requires_grad or torch.compiler.is_compiling():
            return self.call("linear", x, decoded, bias)

        # The codes are kept for the gradient, not the weights.
        def packed(saved: torch.Tensor) -> torch.Tensor | None:
            return None if saved is decoded else saved

        def unpacked(saved: torch.Tensor | None) -> torch.Tensor:
            found: torch.Tensor = weight(*arrays) if saved is None else saved
            return found

        with torch.autograd.graph.saved_tensors_hooks(packed, unpacked):
            return self.call("linear", x, decoded, bias)


def _dtype(element: ElementKind) -> torch.dtype:
    found: torch.dtype = getattr(torch, element.numpy_name)
    return found


def made(name: str, function: Callable[[str], Any]) -> Any:
    """A function of NAMES; `function` makes those of the op table."""
    return getattr(QuantizeCalls(_Tensors(function)), name)


__all__ = ["NAMES", "made"]
