# SPDX-License-Identifier: Apache-2.0
"""moe for JAX, under jit and grad."""

import jax
import jax.numpy as jnp
import numpy as np

import baracuda.jax as bj

TOP_K = 3


def reference(x, logits, w_gate_up, w_down):
    weights, ids = jax.lax.top_k(jax.nn.softmax(logits, -1), TOP_K)
    weights = weights / weights.sum(-1, keepdims=True)
    gate, up = jnp.split(jnp.einsum("th,eih->tei", x, w_gate_up), 2, -1)
    y = jnp.einsum("tei,ehi->teh", jax.nn.silu(gate) * up, w_down)
    return (jnp.take_along_axis(y, ids[..., None], 1) * weights[..., None]).sum(1)


def test_layer_and_gradients():
    rng = np.random.default_rng(0)
    shapes = ((20, 24), (20, 8), (8, 32, 24), (8, 24, 16))
    operands = [jnp.asarray(rng.standard_normal(shape).astype(np.float32)) for shape in shapes]

    def layer(*given):
        return bj.moe(*given, TOP_K)

    want = reference(*operands)
    np.testing.assert_allclose(jax.jit(layer)(*operands), want, rtol=1e-4, atol=1e-3 * float(jnp.abs(want).max()))
    found, expected = (jax.grad(lambda *a, f=f: f(*a).sum(), (0, 1, 2, 3))(*operands) for f in (layer, reference))
    for ours, theirs in zip(found, expected):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4 * float(jnp.abs(theirs).max()))
