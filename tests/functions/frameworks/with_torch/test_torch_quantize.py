# SPDX-License-Identifier: Apache-2.0
"""Affine quantisation against PyTorch's own operators, and its gradients."""

import numpy as np
import pytest
import torch

import baracuda as bk
import baracuda.torch as bt


@pytest.fixture(autouse=True)
def _on_the_cpu(library):
    if library.backend == "cuda":
        bk.load(backend="cpu")


def x_of(*shape):
    return torch.from_numpy(np.random.default_rng(2).standard_normal(shape).astype(np.float32) * 3)


@pytest.mark.filterwarnings("ignore::UserWarning")  # PyTorch deprecates quantised tensors
@pytest.mark.parametrize("dtype, torch_dtype", [("s8", torch.qint8), ("u8", torch.quint8)])
def test_quantize_as_torch(dtype, torch_dtype):
    x = x_of(6, 50)
    theirs = torch.quantize_per_tensor(x, 0.05, 3, torch_dtype)
    ours = bt.quantize_linear(x, 0.05, 3, dtype=dtype)
    assert torch.equal(ours, theirs.int_repr()) and torch.equal(
        bt.dequantize_linear(ours, 0.05, 3), theirs.dequantize()
    )
    scale, zero = torch.linspace(0.02, 0.09, 6), torch.arange(6)
    theirs = torch.quantize_per_channel(x, scale, zero, 0, torch_dtype)
    ours = bt.quantize_linear(x, scale, zero, axis=0, dtype=dtype)
    assert torch.equal(ours, theirs.int_repr())
    assert torch.equal(bt.dequantize_linear(ours, scale, zero, axis=0), theirs.dequantize())


def gradients(function, *arrays):
    given = [array.clone().requires_grad_(array.is_floating_point()) for array in arrays]
    y = function(*given)
    y.backward(torch.linspace(-1, 1, y.numel()).reshape(y.shape))
    return y, [array.grad for array in given if array.requires_grad]


def test_fake_quantize_as_torch():
    x = x_of(7, 40)
    ours = gradients(lambda x: bt.fake_quantize(x, 0.03, 5), x)
    theirs = gradients(lambda x: torch.fake_quantize_per_tensor_affine(x, 0.03, 5, -128, 127), x)
    assert torch.equal(ours[0], theirs[0]) and torch.equal(ours[1][0], theirs[1][0])
    scale, zero = torch.linspace(0.01, 0.04, 7), torch.arange(7, dtype=torch.int32)
    y, grads = gradients(lambda x: bt.fake_quantize(x, scale, zero, axis=0), x)
    theirs = gradients(lambda x: torch.fake_quantize_per_channel_affine(x, scale, zero, 0, -128, 127), x)
    assert torch.equal(y, theirs[0]) and torch.equal(grads[0], theirs[1][0])


def test_learned_scales_as_torch():
    x, scale, zero = x_of(5, 60), torch.linspace(0.05, 0.2, 5), torch.tensor([0.0, 1, -2, 3, 0])
    y, ours = gradients(
        lambda x, s, z: bt.fake_quantize(x, s, z, axis=0, q_min=-8, q_max=7, grad_factor=0.5), x, scale, zero
    )
    z, theirs = gradients(
        lambda x, s, z: torch._fake_quantize_learnable_per_channel_affine(x, s, z, 0, -8, 7, 0.5), x, scale, zero
    )
    torch.testing.assert_close(y, z)
    for a, b in zip(ours, theirs):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)


def test_dynamic_linear():
    x, w = x_of(4, 9, 32), x_of(16, 32)
    codes, scale = bt.dynamic_quantize_linear(w, axis=-1, dtype="s8")
    y = bt.quantized_linear(x, codes, scale, torch.ones(16))
    assert y.shape == (4, 9, 16)
    want = torch.nn.functional.linear(x, w, torch.ones(16))
    assert (y - want).abs().max() < 0.03 * want.abs().max()
    a, b = torch.randint(0, 256, (3, 8), dtype=torch.uint8), torch.randint(-128, 128, (8, 5), dtype=torch.int8)
    assert torch.equal(bt.matmul_integer(a, b, 7), (a.int() - 7) @ b.int())


def four_bits(n, k):
    codes, absmax = bk.quantize_4bit(np.random.default_rng(7).standard_normal((n, k)).astype(np.float32), block_size=64)
    return (
        torch.from_numpy(codes),
        torch.from_numpy(absmax),
        torch.from_numpy(bk.dequantize_4bit(codes, absmax, numel=n * k, block_size=64).reshape(n, k)),
    )


@pytest.mark.parametrize("rows", [3, 40])
@pytest.mark.parametrize("has_bias", [False, True])
def test_gradients_of_linear_4bit(rows, has_bias):
    """Those of a linear layer with the decoded weights, which few rows multiply by their codes."""
    codes, absmax, w = four_bits(24, 64)
    bias = torch.linspace(-1, 1, 24) if has_bias else None
    arrays = (x_of(2, rows, 64), *((bias,) if has_bias else ()))
    ours = gradients(lambda x, *b: bt.linear_4bit(x, codes, absmax, bias=b[0] if b else None, n=24), *arrays)
    theirs = gradients(lambda x, *b: torch.nn.functional.linear(x, w, *b), *arrays)
    torch.testing.assert_close(ours[0], theirs[0], rtol=1e-4, atol=1e-4)
    for a, b in zip(ours[1], theirs[1], strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)


def test_the_gradient_keeps_codes():
    """Nothing as large as the decoded weights is saved."""
    codes, absmax, w = four_bits(96, 64)
    saved = []

    def noted(tensor):
        saved.append(tensor)
        return tensor

    x = x_of(20, 64).requires_grad_()
    with torch.autograd.graph.saved_tensors_hooks(noted, lambda tensor: tensor):
        y = bt.linear_4bit(x, codes, absmax, n=96)
    assert all(tensor is None or tensor.numel() < w.numel() for tensor in saved)
    y.sum().backward()
    torch.testing.assert_close(x.grad, w.sum(0).expand(20, 64), rtol=1e-4, atol=1e-4)


def test_linear_4bit_compiles():
    codes, absmax, w = four_bits(24, 64)
    function = torch.compile(lambda x: bt.linear_4bit(x, codes, absmax, n=24), fullgraph=True, backend="aot_eager")
    for rows in (3, 40):
        x = x_of(rows, 64).requires_grad_()
        function(x).sum().backward()
        torch.testing.assert_close(x.grad, w.sum(0).expand(rows, 64), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("form", ["mxfp4", "mxfp6_e2m3", "mxfp8_e4m3", "nvfp4"])
@pytest.mark.parametrize("layout", ["linear", "swizzled_128x4"])
def test_gradients_of_mx_matmul(form, layout):
    dense = np.random.default_rng(8).standard_normal((20, 64)).astype(np.float32)
    codes, scales = map(torch.from_numpy, bk.quantize_mx(dense, mx_format=form, scale_layout=layout))
    numbers = {"mx_format": form, "scale_layout": layout}
    w = bt.dequantize_mx(codes, scales, **numbers)
    arrays = (x_of(3, 5, 64), torch.linspace(-1, 1, 20))
    ours = gradients(lambda x, b: bt.mx_matmul(x, codes, scales, None, b, **numbers), *arrays)
    theirs = gradients(lambda x, b: torch.nn.functional.linear(x, w, b), *arrays)
    torch.testing.assert_close(ours[0], theirs[0], rtol=1e-4, atol=1e-4)
    for a, b in zip(ours[1], theirs[1], strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)
