# SPDX-License-Identifier: Apache-2.0
"""The functions of baracuda.fft for JAX, under jit, grad and vmap.

Integers become JAX's default float, f16 and bf16 f32.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

import baracuda.jax as functions
from baracuda._functions.fft_calls import FREQUENCIES, NAMES, FftCalls, bound

fftfreq, rfftfreq = jnp.fft.fftfreq, jnp.fft.rfftfreq


class _Arrays:
    def call(self, name: str, *arrays: Any, **numbers: Any) -> Any:
        return getattr(functions, name)(*arrays, **numbers)

    def floating(self, x: Any) -> Any:
        x = jnp.asarray(x)
        if jnp.iscomplexobj(x):
            return x
        if not jnp.issubdtype(x.dtype, jnp.floating):
            return x.astype(float)
        return x if x.dtype.itemsize >= 4 else x.astype(jnp.float32)

    def is_complex(self, x: Any) -> bool:
        return bool(jnp.iscomplexobj(x))

    def as_complex(self, x: Any) -> Any:
        return x.astype(jnp.result_type(x.dtype, jnp.complex64))

    def alike(self, a: Any, b: Any) -> Any:
        dtype = jnp.result_type(a.dtype, b.dtype)
        return a.astype(dtype), b.astype(dtype)


_CALLS = FftCalls(_Arrays())
__all__ = [*NAMES, *FREQUENCIES]


def __getattr__(name: str) -> Any:
    if name not in NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = bound(_CALLS, name)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
