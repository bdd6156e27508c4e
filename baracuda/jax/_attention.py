# SPDX-License-Identifier: Apache-2.0
"""scaled_dot_product_attention, flash_attn_varlen and document_offsets for JAX."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from baracuda._functions.attention_calls import CALLED, NAMES, AttentionCalls
from baracuda.errors import InvalidProblemError, UnsupportedError


class _Arrays:
    """JAX arrays; a seed has 64 bits, which JAX has with jax_enable_x64 only."""

    def __init__(self, function: Callable[[str], Any]) -> None:
        self._functions = {name: function(name) for name in CALLED}

    def call(self, name: str, *arrays: Any, **numbers: Any) -> Any:
        return self._functions[name](*arrays, **numbers)

    def is_keep_mask(self, mask: Any) -> bool:
        return jnp.asarray(mask).dtype in (jnp.bool_, jnp.uint8)

    def cast_like(self, mask: Any, like: Any) -> Any:
        return jnp.asarray(mask).astype(like.dtype)

    def as_i32(self, x: Any) -> Any:
        return jnp.asarray(x).astype(jnp.int32)

    def reshaped(self, x: Any, shape: Sequence[Any]) -> Any:
        return jnp.reshape(x, tuple(shape))

    def permuted(self, x: Any, order: Sequence[int]) -> Any:
        return jnp.transpose(x, tuple(order))

    def broadcast(self, bias: Any, shape: Sequence[Any]) -> Any:
        return jnp.broadcast_to(bias, shape)

    def seed(self, seed: Any, like: Any) -> Any:
        if seed is None:
            raise InvalidProblemError("seed is None, but is needed for dropout_p")
        if not jax.config.jax_enable_x64:
            raise UnsupportedError("seed is of i64, which JAX has with jax_enable_x64 only")
        return jnp.asarray(seed, jnp.int64).reshape(1)


def made(name: str, function: Callable[[str], Any]) -> Any:
    """A function of NAMES; `function` makes those of the op table."""
    return getattr(AttentionCalls(_Arrays(function)), name)


__all__ = ["NAMES", "made"]
