# SPDX-License-Identifier: Apache-2.0
"""Convolutions for JAX, with gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp

from baracuda._functions.conv_calls import CALLED, NAMES, ConvCalls, bound


class _Arrays:
    """JAX arrays, whose layout in memory is XLA's affair."""

    def __init__(self, function: Callable[[str], Any]) -> None:
        self._functions = {name: function(name) for name in CALLED}

    def call(self, name: str, *arrays: Any, **numbers: Any) -> Any:
        return self._functions[name](*arrays, **numbers)

    def permuted(self, x: Any, order: Sequence[int]) -> Any:
        return jnp.transpose(x, tuple(order))

    def has_channels_last(self, x: Any) -> bool:
        return False


def made(name: str, function: Callable[[str], Any]) -> Any:
    """A function of NAMES; `function` makes those of the op table."""
    return bound(ConvCalls(_Arrays(function)), name)


__all__ = ["NAMES", "made"]
