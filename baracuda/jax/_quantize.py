# SPDX-License-Identifier: Apache-2.0
"""Affine quantisation and linear_4bit for JAX; fake_quantize and linear_4bit have gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from baracuda._functions.quantize_calls import CALLED, NAMES, QuantizeCalls
from baracuda.dtypes import ElementKind, as_element


class _Arrays:
    def __init__(self, function: Callable[[str], Any]) -> None:
        self._functions = {name: function(name) for name in CALLED}

    def call(self, name: str, *arrays: Any, **numbers: Any) -> Any:
        return self._functions[name](*arrays, **numbers)

    def element(self, x: Any, name: str) -> ElementKind:
        return as_element(x.dtype, name)

    def cast(self, x: Any, element: ElementKind) -> Any:
        return jnp.asarray(x).astype(element.numpy_name)

    def full(self, value: float, shape: Sequence[int], element: ElementKind, like: Any) -> Any:
        return jnp.full(tuple(shape), value, element.numpy_name)

    def reshaped(self, x: Any, shape: Sequence[int]) -> Any:
        return jnp.reshape(x, tuple(shape))

    def linear_of(self, x: Any, weight: Callable[..., Any], arrays: Sequence[Any], bias: Any) -> Any:
        # Only arguments are kept for the gradient, not the weights.
        return jax.checkpoint(lambda x, bias, *coded: self.call("linear", x, weight(*coded), bias))(x, bias, *arrays)


def made(name: str, function: Callable[[str], Any]) -> Any:
    """A function of NAMES; `function` makes those of the op table."""
    return getattr(QuantizeCalls(_Arrays(function)), name)


__all__ = ["NAMES", "made"]
