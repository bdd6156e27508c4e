# SPDX-License-Identifier: Apache-2.0
"""scaled_dot_product_attention and flash_attn_varlen for JAX: under jit, grad and vmap."""

import jax
import jax.numpy as jnp
import numpy as np

import baracuda.jax as bj

RNG = np.random.default_rng(3)


def normal(*shape):
    return jnp.asarray(RNG.standard_normal(shape).astype(np.float32))


def reference(q, k, v, bias):
    k, v = jnp.repeat(k, 2, 1), jnp.repeat(v, 2, 1)
    return jax.nn.softmax(q @ k.swapaxes(-1, -2) / 4 + bias, -1) @ v


def attend(q, k, v, bias):
    return bj.scaled_dot_product_attention(q, k, v, bias, enable_gqa=True)


def test_gradients():
    given = normal(2, 4, 9, 16), normal(2, 2, 13, 16), normal(2, 2, 13, 16), normal(4, 1, 13)
    np.testing.assert_allclose(attend(*given), reference(*given), rtol=1e-4, atol=1e-4)
    ours, theirs = (
        jax.jit(jax.grad(lambda *x, f=f: jnp.sin(f(*x)).sum(), argnums=(0, 1, 2, 3)))(*given)
        for f in (attend, reference)
    )
    for got, expected in zip(ours, theirs):
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4)


def test_vmap():
    q, k, v = normal(3, 4, 9, 16), normal(3, 4, 9, 16), normal(3, 4, 9, 16)
    whole = bj.scaled_dot_product_attention(q, k, v, is_causal=True)
    each = jax.vmap(lambda q, k, v: bj.scaled_dot_product_attention(q, k, v, is_causal=True))(q, k, v)
    np.testing.assert_allclose(each, whole, rtol=1e-5, atol=1e-5)


def test_varlen():
    offsets, x = jnp.array([0, 3, 9], jnp.int32), normal(9, 4, 16)
    y = bj.flash_attn_varlen(x, x, x, offsets, offsets, 6, 6, causal=True)
    one = x[3:].swapaxes(0, 1)
    expected = bj.scaled_dot_product_attention(one, one, one, is_causal=True)
    np.testing.assert_allclose(y[3:].swapaxes(0, 1), expected, rtol=1e-5, atol=1e-5)
    gradient = jax.grad(lambda x: bj.flash_attn_varlen(x, x, x, offsets, offsets, 6, 6, causal=True).sum())(x)
    assert gradient.shape == x.shape and bool(jnp.isfinite(gradient).all())


def test_batch_invariance():
    q, k, v = normal(3, 4, 40, 64), normal(3, 4, 300, 64), normal(3, 4, 300, 64)

    @jax.jit
    def attend(q, k, v):
        return bj.scaled_dot_product_attention(q, k, v, is_causal=True, aligns_ends=True, batch_invariant=True)

    y = attend(q, k, v)
    np.testing.assert_array_equal(attend(q[1:2, :, -1:], k[1:2], v[1:2]), y[1:2, :, -1:])
    np.testing.assert_array_equal(attend(q[::-1], k[::-1], v[::-1]), y[::-1])
