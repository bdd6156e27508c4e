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
        np.testing.assert_allclose(ours, theirs, rtol=1e-5)  # sums in another order


def test_products():
    rng = np.random.default_rng(4)
    a, b = rng.integers(0, 256, (3, 8)).astype(np.uint8), rng.integers(-128, 128, (8, 5)).astype(np.int8)
    np.testing.assert_array_equal(bj.matmul_integer(a, b, 7), (a.astype(np.int32) - 7) @ b.astype(np.int32))


def test_gradients_of_coded_weights():
    """Those of a linear layer with the decoded weights."""
    dense = np.random.default_rng(7).standard_normal((24, 64)).astype(np.float32)
    codes, absmax = bk.quantize_4bit(dense)
    w = bk.dequantize_4bit(codes, absmax, numel=24 * 64).reshape(24, 64)
    blocks, scales = bk.quantize_mx(dense)
    layers = [
        (lambda x: bj.linear_4bit(x, codes, absmax, n=24), w),
        (lambda x: bj.mx_matmul(x, blocks, scales), bk.dequantize_mx(blocks, scales)),
    ]
    for function, weights in layers:
        for rows in (3, 40):
            x, dy = x_of(rows, 64), x_of(rows, 24)
            y, vjp = jax.vjp(jax.jit(function), jnp.asarray(x))
            np.testing.assert_allclose(y, x @ weights.T, rtol=1e-3, atol=1e-3)
            np.testing.assert_allclose(vjp(jnp.asarray(dy))[0], dy @ weights, rtol=1e-3, atol=1e-3)


def test_subnormal_numbers_are_kept():
    """XLA's threads flush them to zero, but kernels make other numbers of them."""
    codes, scales = np.arange(256, dtype=np.uint8).reshape(1, 256), np.array([[0, 1, 127, 3, 0, 9, 12, 0]], np.uint8)
    for form in ("mxfp8_e4m3", "mxfp8_e5m2"):
        want = bk.dequantize_mx(codes, scales, mx_format=form)
        np.testing.assert_array_equal(bj.dequantize_mx(codes, scales, mx_format=form), want)
