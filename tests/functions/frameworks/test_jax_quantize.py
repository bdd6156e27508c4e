# SPDX-License-Identifier: Apache-2.0
"""Affine quantisation for JAX, against the functions on NumPy arrays, and its gradients."""

import jax
import jax.numpy as jnp
import numpy as np

import baracuda as bk
import baracuda.jax as bj


def x_of(*shape):
    return np.random.default_rng(2).standard_normal(shape).astype(np.float32) * 3


def test_codes():
    x = x_of(6, 50)
    scale, zero = np.linspace(0.02, 0.09, 6, dtype=np.float32), np.arange(6, dtype=np.int32)
    for numbers in ((0.05, 3), (scale, zero)):
        ours = jax.jit(lambda x, numbers=numbers: bj.quantize_linear(x, *numbers))(x)
        np.testing.assert_array_equal(ours, bk.quantize_linear(x, *numbers))
        np.testing.assert_array_equal(
            bj.dequantize_linear(ours, *numbers), bk.dequantize_linear(np.asarray(ours), *numbers)
        )


def test_gradients():
    x, scale = x_of(5, 60), np.linspace(0.05, 0.2, 5, dtype=np.float32)
    zero, dy = np.array([0.0, 1, -2, 3, 0], np.float32), x_of(5, 60)
    numbers = {"axis": 0, "q_min": -8, "q_max": 7}
    _, vjp = jax.vjp(lambda *a: bj.fake_quantize(*a, **numbers), jnp.asarray(x), jnp.asarray(scale), jnp.asarray(zero))
    for ours, theirs in zip(vjp(jnp.asarray(dy)), bk.fake_quantize_learnable_backward(dy, x, scale, zero, **numbers)):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)


def test_products():
    rng = np.random.default_rng(4)
    a, b = rng.integers(0, 256, (3, 8)).astype(np.uint8), rng.integers(-128, 128, (8, 5)).astype(np.int8)
    np.testing.assert_array_equal(bj.matmul_integer(a, b, 7), (a.astype(np.int32) - 7) @ b.astype(np.int32))
