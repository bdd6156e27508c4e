# SPDX-License-Identifier: Apache-2.0
"""conv1d to conv3d and their transposes for JAX, under jit and grad."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import baracuda.jax as bj

LAYOUTS = {1: ("NCH", "OIH", "NCH"), 2: ("NCHW", "OIHW", "NCHW"), 3: ("NCDHW", "OIDHW", "NCDHW")}


def operands(rank, groups):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, 4, *(9, 8, 7)[:rank])).astype(np.float32)
    weight = rng.standard_normal((6, 4 // groups, *(3, 2, 3)[:rank])).astype(np.float32)
    return jnp.asarray(x), jnp.asarray(weight), jnp.asarray(rng.standard_normal(6).astype(np.float32))


def reference(rank, stride, padding, groups):
    def layer(x, weight, bias):
        y = jax.lax.conv_general_dilated(
            x, weight, (stride,) * rank, [(padding, padding)] * rank, dimension_numbers=LAYOUTS[rank],
            feature_group_count=groups, precision="highest",
        )  # fmt: skip
        return jax.nn.relu(y + bias.reshape(-1, *[1] * rank))

    return layer


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_layer_and_gradients(rank, groups):
    given, convolve = operands(rank, groups), getattr(bj, f"conv{rank}d")

    def layer(*a):
        return convolve(*a, stride=2, padding=1, groups=groups, activation="relu")

    want = reference(rank, 2, 1, groups)
    np.testing.assert_allclose(jax.jit(layer)(*given), want(*given), rtol=1e-4, atol=1e-4)
    found, expected = (
        jax.grad(lambda *a, f=f: (f(*a) * jnp.cos(f(*a))).sum(), (0, 1, 2))(*given) for f in (layer, want)
    )
    for ours, theirs in zip(found, expected):
        np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-3 * float(jnp.abs(theirs).max()))


def test_transpose_is_the_gradient_of_a_convolution():
    x, weight, _ = operands(2, 2)

    def layer(x):
        return bj.conv2d(x, weight, stride=2, padding=1, groups=2)

    y, pull = jax.vjp(layer, x)
    more = [(x.shape[d] + 2 - weight.shape[d]) % 2 for d in (2, 3)]
    spread = bj.conv_transpose2d(y, weight, stride=2, padding=1, output_padding=tuple(more), groups=2)
    np.testing.assert_allclose(spread, pull(y)[0], rtol=1e-4, atol=1e-4)
    gradient = jax.grad(lambda w: bj.conv_transpose2d(y, w, stride=2, padding=1, groups=2).sum())(weight)
    assert gradient.shape == weight.shape
