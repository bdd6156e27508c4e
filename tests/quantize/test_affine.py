# SPDX-License-Identifier: Apache-2.0
"""Affine quantisation by known answers: every code, every tie, and the examples of ONNX's operators."""

import numpy as np
import pytest

import baracuda as bk
from baracuda.errors import InvalidProblemError, UnsupportedError

RANGES = {"s8": (-128, 127), "u8": (0, 255), "s4": (-8, 7), "u4": (0, 15)}


def packed(codes):
    """Codes of 4 bits, two a byte."""
    return ((codes[0::2] & 15) | (codes[1::2] & 15) << 4).astype(np.uint8)


def stored(codes, code):
    return packed(codes) if code in ("s4", "u4") else codes.astype(np.int8 if code == "s8" else np.uint8)


@pytest.mark.parametrize("code", RANGES)
@pytest.mark.parametrize("zero", [0, 3, -7])
def test_every_code_survives(code, zero):
    low, high = RANGES[code]
    codes = np.arange(low, high + 1)
    q = stored(codes, code)
    for scale in (0.25, 0.0371, 3.0):
        x = bk.dequantize_linear(q, scale, zero, q_dtype=code)
        np.testing.assert_array_equal(x, np.float32(scale) * (codes - zero).astype(np.float32))
        np.testing.assert_array_equal(bk.quantize_linear(x, scale, zero, dtype=code), q)
        rows = np.tile(x, (3, 1))
        scales = np.full(3, scale, np.float32)
        np.testing.assert_array_equal(bk.quantize_linear(rows, scales, zero, dtype=code), np.tile(q, (3, 1)))
        np.testing.assert_array_equal(bk.dequantize_linear(np.tile(q, (3, 1)), scales, zero, q_dtype=code), rows)


@pytest.mark.parametrize("zero", [0, 1, -3])
def test_every_tie(zero):
    """The zero point is added behind rounding per tensor and per channel, before it per token and per group."""
    steps = np.arange(-131, 132) + 0.5
    x = (steps * 0.25).astype(np.float32)
    after = np.clip(np.rint(steps) + zero, -128, 127)
    before = np.clip(np.rint(steps + zero), -128, 127)
    one, rows = np.array([0.25], np.float32), x[None, :-1]
    np.testing.assert_array_equal(bk.quantize_linear(x, 0.25, zero), after)
    np.testing.assert_array_equal(bk.quantize_linear(x, np.full(x.shape, one[0]), zero, axis=0), after)
    np.testing.assert_array_equal(bk.quantize_linear(rows, one, zero), after[None, :-1])  # one scale for all
    np.testing.assert_array_equal(bk.quantize_linear(rows, np.full((1, 131), one[0]), zero), before[None, :-1])
    np.testing.assert_array_equal(bk.quantize_linear(np.stack([x, x]), np.repeat(one, 2), zero), [before, before])


def test_special_values():
    x = np.array([np.nan, np.inf, -np.inf, 1e38, -1e38, 0.0], np.float32)
    for zero in (0, 5, 100):
        want = [zero, 127, -128, 127, -128, zero]
        np.testing.assert_array_equal(bk.quantize_linear(x, 0.5, zero), want)
        np.testing.assert_array_equal(
            bk.quantize_linear(x[None].repeat(2, 0), np.full(2, 0.5, np.float32), zero), [want] * 2
        )
    # A scale of 0: quotients are infinite per tensor, and 0 per token.
    np.testing.assert_array_equal(bk.quantize_linear(np.array([-1, 0, 2], np.float32), 0.0, 7), [-128, 7, 127])
    rows = bk.quantize_linear(np.array([[-1, 0, 2]] * 2, np.float32), np.zeros(2, np.float32), 7)
    np.testing.assert_array_equal(rows, [[7, 7, 7]] * 2)


def test_dynamic_quantize_linear_of_onnx():
    q, scale, zero = bk.dynamic_quantize_linear(np.array([0, 2, -3, -2.5, 1.34, 0.5], np.float32))
    np.testing.assert_array_equal(q, [153, 255, 0, 26, 221, 179])
    assert float(scale) == np.float32(5 / 255) and int(zero) == 153
    q, scale, zero = bk.dynamic_quantize_linear(np.array([-1.0, -2.1, -1.3, -2.5, -3.34, -4.0], np.float32))
    np.testing.assert_array_equal(q, [191, 121, 172, 96, 42, 0])
    assert int(zero) == 255


def test_matmul_integer_of_onnx():
    a = np.array([[11, 7, 3], [10, 6, 2], [9, 5, 1], [8, 4, 0]], np.uint8)
    b = np.array([[1, 4], [2, 5], [3, 6]], np.uint8)
    np.testing.assert_array_equal(bk.matmul_integer(a, b, 12, 0), [[-38, -83], [-44, -98], [-50, -113], [-56, -128]])


def test_qlinear_matmul_of_onnx():
    a = np.array([[208, 236, 0, 238], [3, 214, 255, 29]], np.uint8)
    b = np.array([[152, 51, 244], [60, 26, 255], [0, 127, 246], [127, 254, 247]], np.uint8)
    y = bk.qlinear_matmul(a, 0.0066, 113, b, 0.00705, 114, 0.0107, 118)
    np.testing.assert_array_equal(y, [[168, 115, 255], [1, 66, 151]])


@pytest.mark.parametrize("k", [1, 33, 131071])
def test_integer_products_are_exact_at_the_ends(k):
    """Sums of the largest products, of both signs, which f32 would round."""
    for low in (0, 255):
        a, b = np.full((2, k), low, np.uint8), np.full((k, 3), -128, np.int8)
        np.testing.assert_array_equal(bk.matmul_integer(a, b), np.clip(low * -128 * k, -(2**31), 2**31 - 1))
        np.testing.assert_array_equal(bk.matmul_integer(a, b, low, -128), 0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_dynamic_linear_layer(dtype):
    rng = np.random.default_rng(3)
    x, w = rng.standard_normal((2, 9, 64)).astype(dtype), rng.standard_normal((32, 64)).astype(dtype)
    bias = rng.standard_normal(32).astype(np.float32)
    codes, scale = bk.dynamic_quantize_linear(w, axis=-1, dtype="s8")
    y = bk.quantized_linear(x, codes, scale, bias)
    want = x @ w.T + bias
    assert y.dtype == dtype and np.abs(y - want).max() < 0.03 * np.abs(want).max()
    relu = bk.quantized_linear(x, codes, scale, bias, activation="relu")
    np.testing.assert_array_equal(relu, np.maximum(y, 0))
    asymmetric, own, zero = bk.dynamic_quantize_linear(x, axis=-1)
    y = bk.quantized_linear(asymmetric, codes, scale, bias, x_scale=own, x_zero_point=zero, dtype=dtype)
    assert np.abs(y - want).max() < 0.03 * np.abs(want).max()


@pytest.mark.parametrize("name", ["QuantizedLinear", "SmoothQuantLinear"])
def test_plans_of_two_launches(library, name):
    rng = np.random.default_rng(5)
    m, n, k = 5, 7, 40
    x, w = rng.standard_normal((m, k)).astype(np.float32), rng.integers(-127, 128, (n, k)).astype(np.int8)
    scale = (rng.random(n) * 0.01 + 0.005).astype(np.float32)
    given = {"weight_q": bk.upload(w, library=library), "weight_scale": bk.upload(scale, library=library)}
    given |= {
        "output": bk.empty((m, n), bk.f32, library=library),
        "act_scale_scratch": bk.empty((m,), bk.f32, library=library),
    }
    if name == "QuantizedLinear":
        descriptor = bk.QuantizedLinearDescriptor(m, n, k, element=bk.f32)
        given |= {
            "activation": bk.upload(x, library=library),
            "act_q_scratch": bk.empty((m, k), bk.s8, library=library),
        }
        own = (np.abs(x).max(1) / np.float32(127)).astype(np.float32)
        codes = np.clip(np.rint(x * (1 / own)[:, None]), -128, 127)
    else:
        descriptor = bk.SmoothQuantLinearDescriptor(m, n, k, 0.03, element=bk.f32)
        codes = rng.integers(-127, 128, (m, k))
        own = np.full(m, 0.03, np.float32)
        given |= {"act_q": bk.upload(codes.astype(np.int8), library=library)}
    plan = getattr(bk, f"{name}Plan").select(None, descriptor, library=library)
    args = getattr(bk, f"{name}Args")(**given)
    plan.can_implement(args)
    plan.run(None, bk.workspace(plan) if plan.workspace_size else None, args)
    want = (own[:, None] * scale) * (codes.astype(np.int64) @ w.T.astype(np.int64)).astype(np.float32)
    np.testing.assert_array_equal(bk.download(given["output"]), want)
    with pytest.raises(UnsupportedError, match="element is f16"):
        getattr(bk, f"{name}Plan").select(None, type(descriptor)(m, n, k, element=bk.f16), library=library)


def test_gradients():
    """Straight-through estimators: ends included per tensor and per channel, not per token and per group."""
    rng = np.random.default_rng(8)
    x = (rng.integers(-160, 160, (6, 8)) / 4).astype(np.float32)
    dy = rng.standard_normal((6, 8)).astype(np.float32)
    codes = np.rint(x / np.float32(0.25)) + 2
    inside, within = (codes >= -128) & (codes <= 127), (codes > -128) & (codes < 127)
    rows, groups = np.full(6, 0.25, np.float32), np.full((6, 2), 0.25, np.float32)
    zeros = {each.shape: np.full(each.shape, 2, np.int32) for each in (rows, groups)}
    scaled, kept = np.where(inside, dy * 4, 0), np.where(inside, dy, 0)
    same = np.testing.assert_array_equal
    same(bk.quantize_per_tensor_backward(dy, x, 0.25, zero_point=2), scaled)
    same(bk.quantize_per_channel_backward(dy, x, rows, zeros[6,], axis=0), scaled)
    same(bk.quantize_per_token_backward(dy, x, rows, zeros[6,]), np.where(within, dy * 4, 0))
    same(bk.quantize_per_group_backward(dy, x, groups, zeros[6, 2]), np.where(within, dy * 4, 0))
    same(bk.fake_quantize_per_tensor_backward(dy, x, 0.25, zero_point=2), kept)
    same(bk.fake_quantize_per_channel_backward(dy, x, rows, zeros[6,], axis=0), kept)
    same(bk.dequantize_per_tensor_backward(dy, 0.25), dy / 4)
    same(bk.dequantize_per_channel_backward(dy, rows, axis=0), dy / 4)
    same(bk.dequantize_per_token_backward(dy, rows), dy / 4)
    same(bk.dequantize_per_group_backward(dy, groups), dy / 4)
    dx, dscale, dzero = bk.fake_quantize_learnable_backward(dy, x, rows, np.full(6, 2, np.float32), axis=0)
    same(dx, kept)
    steps = x.astype(np.float64) * 4
    slope = np.where(inside, np.rint(steps) - steps, np.clip(codes, -128, 127) - 2)
    np.testing.assert_allclose(dscale, (dy * slope).sum(1), rtol=1e-5, atol=1e-4)
    np.testing.assert_allclose(dzero, -np.where(inside, 0, dy * 0.25).sum(1), rtol=1e-5, atol=1e-5)


def test_refusals():
    x = np.zeros((4, 6), np.float32)
    with pytest.raises(InvalidProblemError, match="scale has shape"):
        bk.quantize_linear(x, np.ones((3,), np.float32))
    with pytest.raises(InvalidProblemError, match="group_size is 4"):
        bk.quantize_linear(x, np.ones((4, 2), np.float32), group_size=4)
    with pytest.raises(UnsupportedError, match="dtype is i32"):
        bk.quantize_linear(x, 1.0, dtype="i32")
    with pytest.raises(InvalidProblemError, match="even along the last axis"):
        bk.quantize_linear(np.zeros((4, 5), np.float32), 1.0, dtype="s4")
    with pytest.raises(UnsupportedError, match="have no signs"):
        bk.dynamic_quantize_linear(x, symmetric=True)
    with pytest.raises(InvalidProblemError, match="x_scale is None"):
        bk.quantized_linear(x.astype(np.int8), np.zeros((3, 6), np.int8), 1.0)
    with pytest.raises(InvalidProblemError, match="activation is 'tanh'"):
        bk.quantized_linear(x, np.zeros((3, 6), np.int8), 1.0, activation="tanh")


def test_empty_arrays():
    x = np.zeros((0, 6), np.float32)
    assert bk.quantize_linear(x, 1.0).shape == (0, 6)
    assert bk.quantize_linear(x, np.ones(0, np.float32)).shape == (0, 6)
    q, scale, zero = bk.dynamic_quantize_linear(x, axis=-1)
    assert q.shape == (0, 6) and scale.shape == (0,) and zero.shape == (0,)
    assert bk.matmul_integer(np.zeros((0, 4), np.uint8), np.zeros((4, 3), np.int8)).shape == (0, 3)
    np.testing.assert_array_equal(bk.matmul_integer(np.zeros((2, 0), np.uint8), np.zeros((0, 3), np.int8)), 0)
