# SPDX-License-Identifier: Apache-2.0
"""Recurrent layers for JAX, under jit and grad."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import baracuda.jax as bj


def gated(q, k, v, g):
    def step(state, given):
        q, k, v, g = given
        state = jnp.exp(g)[..., None] * state + k[..., None] * v[..., None, :]
        return state, jnp.einsum("bhk,bhkv->bhv", q, state) * q.shape[-1] ** -0.5

    first = jnp.zeros((q.shape[0], q.shape[2], q.shape[3], v.shape[3]))
    state, y = jax.lax.scan(step, first, tuple(jnp.swapaxes(each, 0, 1) for each in (q, k, v, g)))
    return jnp.swapaxes(y, 0, 1), state


@pytest.mark.parametrize("tokens", [5, 40])
def test_gated_linear_attention(rng, tokens):
    q, k, v, g = (rng.standard_normal((2, tokens, 2, 6)).astype(np.float32) * 0.5 for _ in range(4))
    g = -np.abs(g)

    def total(function):
        return lambda *given: sum((each * each).sum() for each in function(*given))

    got = jax.jit(jax.grad(total(bj.gated_linear_attention), argnums=(0, 1, 2, 3)))(q, k, v, g)
    want = jax.grad(total(gated), argnums=(0, 1, 2, 3))(q, k, v, g)
    for ours, theirs in zip(got, want):
        np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-3 * np.abs(theirs).max())


def test_lstm(rng):
    x = rng.standard_normal((6, 3, 4)).astype(np.float32)
    shapes = ((20, 4), (20, 5), (20,), (20,))
    weights = [(rng.standard_normal(shape) * 0.5).astype(np.float32) for shape in shapes]

    def reference(x, w_ih, w_hh, b_ih, b_hh):
        def step(state, x):
            h, c = state
            i, f, g, o = jnp.split(x @ w_ih.T + h @ w_hh.T + b_ih + b_hh, 4, -1)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            h = jax.nn.sigmoid(o) * jnp.tanh(c)
            return (h, c), h

        zeros = jnp.zeros((x.shape[1], 5))
        return jax.lax.scan(step, (zeros, zeros), x)[1]

    def ours(x, *weights):
        return bj.lstm(x, list(weights))[0]

    got = jax.jit(jax.grad(lambda *a: (ours(*a) ** 2).sum(), argnums=(0, 1, 2, 3, 4)))(x, *weights)
    want = jax.grad(lambda *a: (reference(*a) ** 2).sum(), argnums=(0, 1, 2, 3, 4))(x, *weights)
    for one, other in zip(got, want):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-4)
