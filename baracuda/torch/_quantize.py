# SPDX-License-Identifier: Apache-2.0
"""Affine quantisation for PyTorch, of operators that torch.compile traces; fake_quantize has gradients."""

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


def _dtype(element: ElementKind) -> torch.dtype:
    found: torch.dtype = getattr(torch, element.numpy_name)
    return found


def made(name: str, function: Callable[[str], Any]) -> Any:
    """A function of NAMES; `function` makes those of the op table."""
    return getattr(QuantizeCalls(_Tensors(function)), name)


__all__ = ["NAMES", "made"]
