# SPDX-License-Identifier: Apache-2.0
"""Pooling for JAX, under jit and grad, against lax.reduce_window."""

import jax
import jax.numpy as jnp
import numpy as np

import baracuda.jax as bj

WINDOW, STRIDES, PADDING = (1, 1, 3, 3), (1, 1, 2, 2), ((0, 0), (0, 0), (1, 1), (1, 1))


def maxima(x):
    return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, WINDOW, STRIDES, PADDING)


def means(x):
    return jax.lax.reduce_window(x, 0.0, jax.lax.add, WINDOW, STRIDES, PADDING) / 9


def test_windows_and_gradients():
    x = jnp.asarray(np.random.default_rng(0).standard_normal((2, 3, 8, 10)).astype(np.float32))
    weights = jnp.arange(2 * 3 * 4 * 5, dtype=jnp.float32).reshape(2, 3, 4, 5)
    pools = ((lambda x: bj.max_pool2d(x, 3, 2, 1), maxima), (lambda x: bj.avg_pool2d(x, 3, 2, 1), means))
    for ours, theirs in pools:
        np.testing.assert_allclose(jax.jit(ours)(x), theirs(x), rtol=1e-5, atol=1e-5)
        got, want = (jax.grad(lambda x, f=f: (f(x) * weights).sum())(x) for f in (ours, theirs))
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-4)


def test_indices_and_unpooling():
    x = jnp.arange(16, dtype=jnp.float32).reshape(1, 1, 4, 4)
    y, indices = jax.jit(lambda x: bj.max_pool2d(x, 2, return_indices=True))(x)
    np.testing.assert_array_equal(indices, [[[[5, 7], [13, 15]]]])
    np.testing.assert_array_equal(bj.max_unpool2d(y, indices, 2), np.where(np.isin(x, [5, 7, 13, 15]), x, 0))
    np.testing.assert_array_equal(bj.adaptive_avg_pool2d(x, 1), [[[[7.5]]]])
