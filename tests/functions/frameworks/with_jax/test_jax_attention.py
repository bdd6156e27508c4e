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


def test_documents():
    """Under jit the ids may change, and gradients are those of each document alone."""
    given = normal(2, 4, 9, 16), normal(2, 4, 9, 16), normal(2, 4, 9, 16)
    for rows in ([[3, 3, 3, 8, 8, 3, 3, 3, 3], [3, 3, 5, 6, 6, 6, 6, 6, 6]], [[1] * 9, [1] * 5 + [2] * 4]):
        ids = np.array(rows)
        number = np.cumsum(np.diff(ids, axis=1, prepend=ids[:, :1] - 1) != 0).reshape(2, 9)
        keep = (number[:, None, :, None] == number[:, None, None, :]) & np.tri(9, dtype=bool)

        def reference(q, k, v, keep=keep):
            scores = jnp.where(keep, q @ k.swapaxes(-1, -2) / 4, -jnp.inf)
            return jax.nn.softmax(scores, -1) @ v

        for most in (None, 6):

            def attend(q, k, v, ids, most=most):
                options = {"is_causal": True, "document_ids": ids, "max_documents": most}
                return bj.scaled_dot_product_attention(q, k, v, **options)

            np.testing.assert_allclose(jax.jit(attend)(*given, ids), reference(*given), rtol=1e-4, atol=1e-4)
            ours = jax.jit(jax.grad(lambda q, k, v, ids, f=attend: jnp.sin(f(q, k, v, ids)).sum(), (0, 1, 2)))
            theirs = jax.grad(lambda *x, f=reference: jnp.sin(f(*x)).sum(), (0, 1, 2))
            for got, expected in zip(ours(*given, ids), theirs(*given)):
                np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4)
        begins = np.flatnonzero(np.diff(number.reshape(-1), prepend=0))
        offsets = jax.jit(bj.document_offsets, static_argnums=1)(ids, 7)
        np.testing.assert_array_equal(offsets, [*begins, *[18] * 8][:8])
