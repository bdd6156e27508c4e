# SPDX-License-Identifier: Apache-2.0
"""JAX functions for the gradient formulas of _functions/gradients/formulas.py."""

from __future__ import annotations

import types
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp

from baracuda._functions.gradients.formulas import FORMULAS
from baracuda._functions.spec import Spec


def _one_hot(index: Any, count: int, axis: int) -> Any:
    shape = [count if a == axis else 1 for a in range(index.ndim + 1)]
    return (jnp.expand_dims(index, axis) == jnp.arange(count).reshape(shape)).astype(jnp.float32)


M = types.SimpleNamespace(
    **{name: getattr(jnp, name) for name in (
        "exp", "log", "sin", "cos", "sinh", "cosh", "tanh", "sqrt", "abs", "sign", "floor", "trunc", "isnan",
        "copysign", "where", "power",
    )},
    erf=jax.scipy.special.erf, ndtr=jax.scipy.special.ndtr, digamma=jax.scipy.special.digamma,
    trigamma=lambda x: jax.scipy.special.polygamma(1, x), sigmoid=jax.nn.sigmoid, stop=jax.lax.stop_gradient,
    sum=lambda x, axes: jnp.sum(x, axes, keepdims=True), mean=lambda x, axes: jnp.mean(x, axes, keepdims=True),
    max=lambda x, axis: jnp.max(x, axis, keepdims=True), halves=lambda x, axis: jnp.split(x, 2, axis),
    concat=lambda a, b, axis: jnp.concatenate([a, b], axis), one_hot=_one_hot,
)  # fmt: skip


def evaluated(spec: Spec, arrays: Mapping[str, Any], numbers: Mapping[str, Any]) -> tuple[Any, ...]:
    """The results of a gradient by its formula; 16-bit arrays are computed in f32."""
    given = [_as_f32(arrays.get(argument.name)) for argument in spec.arrays]
    found = FORMULAS[spec.name](M, *given, **numbers)
    results = found if isinstance(found, tuple) else (found,)
    if spec.layout in ("pointwise", "masked"):
        shapes = {a.name: arrays[a.name].shape for a in spec.arrays if arrays.get(a.name) is not None}
        broadcast = jnp.broadcast_shapes(*shapes.values())
        wanted = [shapes.get(output.name[1:], broadcast) for output in spec.outputs]
        results = tuple(
            [sum_to_shape(jnp.broadcast_to(each, broadcast), shape) for each, shape in zip(results, wanted)]
        )
    return results


def sum_to_shape(gradient: Any, shape: tuple[int, ...]) -> Any:
    """A gradient summed over the axes along which its operand was broadcast."""
    gradient = gradient.sum(tuple(range(gradient.ndim - len(shape))))
    return gradient.sum([a for a, extent in enumerate(shape) if extent == 1 and gradient.shape[a] != 1], keepdims=True)


def _as_f32(array: Any) -> Any:
    is_narrow = array is not None and array.dtype in (jnp.float16, jnp.bfloat16)
    return array.astype(jnp.float32) if is_narrow else array
