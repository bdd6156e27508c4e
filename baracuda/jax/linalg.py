# SPDX-License-Identifier: Apache-2.0
"""The functions of baracuda.linalg for JAX, under jit, grad and vmap."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax.numpy as jnp

import baracuda.jax as functions
from baracuda.linalg.arrays import described, function_of
from baracuda.linalg.names import NAMES


class _Arrays:
    functions = functions

    def given(self, x: Any, name: str) -> Any:
        return jnp.asarray(x)

    def is_complex(self, x: Any) -> bool:
        return bool(jnp.iscomplexobj(x))

    def conjugate(self, x: Any) -> Any:
        return jnp.conj(x)

    def modulus(self, x: Any) -> Any:
        return jnp.abs(x)

    def total(self, x: Any, axis: int) -> Any:
        return jnp.sum(x, axis)

    def converted(self, x: Any, like: Any) -> Any:
        return x.astype(like.dtype)

    def reshaped(self, x: Any, shape: tuple[int, ...]) -> Any:
        return x.reshape(shape)

    def permuted(self, x: Any, order: tuple[int, ...]) -> Any:
        return x.transpose(order)

    def broadcast(self, x: Any, shape: tuple[int, ...]) -> Any:
        return jnp.broadcast_to(x, shape)

    def empty(self, like: Any, shape: tuple[int, ...]) -> Any:
        return jnp.zeros(shape, like.dtype)

    def added(self, x: Any, a: Any, b: Any, beta: float, alpha: float) -> Any:
        return beta * x + alpha * functions.matmul(a, b)


__all__ = list(NAMES)


if TYPE_CHECKING:
    from baracuda._linalg import *  # noqa: F403  (written by tools/gen_stub.py)
else:

    def __getattr__(name: str) -> Any:
        if name not in NAMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = described(function_of(_Arrays(), name), name, __name__)
        return value


def __dir__() -> list[str]:
    return sorted(__all__)
