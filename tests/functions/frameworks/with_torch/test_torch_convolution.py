# SPDX-License-Identifier: Apache-2.0
"""conv1d to conv3d and their transposes for PyTorch: results and gradients of every operand, compile and export."""

import pytest
import torch

import baracuda.torch as bt

SPATIAL = {1: (19,), 2: (9, 10), 3: (5, 6, 7)}
OPTIONS = {
    "plain": {}, "padded": {"padding": 1}, "steps": {"stride": 2, "padding": 1, "dilation": 2},
    "groups": {"groups": 2, "padding": 1}, "depthwise": {"groups": 4, "padding": 1, "stride": 2},
}  # fmt: skip


def operands(rank, groups, dtype=torch.float32, transposed=False):
    torch.manual_seed(0)
    x = torch.randn(2, 4, *SPATIAL[rank], dtype=dtype)
    shape = (4, 8 // groups) if transposed else (8, 4 // groups)
    return x, torch.randn(*shape, *(3,) * rank, dtype=dtype), torch.randn(8, dtype=dtype)


def of(module, name, rank):
    return getattr(module, name.format(rank))


def gradients(function, *given):
    given = [each.detach().clone().requires_grad_() for each in given]
    y = function(*given)
    return y, torch.autograd.grad(y, given, torch.linspace(-1, 1, y.numel(), dtype=y.dtype).reshape(y.shape))


def near(ours, theirs):
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=2e-4)


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_convolution(rank, name):
    options = OPTIONS[name]
    given = operands(rank, options.get("groups", 1))
    ours = gradients(lambda *a: of(bt, "conv{}d", rank)(*a, **options), *given)
    theirs = gradients(lambda *a: of(torch.nn.functional, "conv{}d", rank)(*a, **options), *given)
    near(ours[0], theirs[0])
    for one, other in zip(ours[1], theirs[1]):
        near(one, other)


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_transpose(rank, name):
    options = OPTIONS[name]
    if options.get("dilation", 1) > 1:
        options = options | {"output_padding": 1}
    given = operands(rank, options.get("groups", 1), transposed=True)
    ours = gradients(lambda *a: of(bt, "conv_transpose{}d", rank)(*a, **options), *given)
    theirs = gradients(lambda *a: of(torch.nn.functional, "conv_transpose{}d", rank)(*a, **options), *given)
    near(ours[0], theirs[0])
    for one, other in zip(ours[1], theirs[1]):
        near(one, other)


@pytest.mark.parametrize("activation", ["relu", "silu", "gelu"])
def test_activation(activation):
    given = operands(2, 1)
    ours = gradients(lambda *a: bt.conv2d(*a, padding="same", activation=activation), *given)
    act = getattr(torch.nn.functional, activation)
    theirs = gradients(lambda *a: act(torch.nn.functional.conv2d(*a, padding="same")), *given)
    near(ours[0], theirs[0])
    for one, other in zip(ours[1], theirs[1]):
        near(one, other)


def test_channels_last_memory():
    """Such tensors need no copy, and results and gradients are of that format."""
    x, weight, bias = operands(2, 2)
    x = x.to(memory_format=torch.channels_last)
    y = bt.conv2d(x, weight, bias, padding=1, groups=2)
    assert y.is_contiguous(memory_format=torch.channels_last)
    near(y, torch.nn.functional.conv2d(x, weight, bias, padding=1, groups=2))


def test_second_derivatives():
    given = [each.requires_grad_() for each in operands(2, 2, torch.float64)]
    small = [given[0][:1, :, :4, :5].detach().requires_grad_(), *given[1:]]
    assert torch.autograd.gradgradcheck(lambda *a: bt.conv2d(*a, stride=2, padding=1, groups=2), small)
    weight = torch.randn(4, 2, 3, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradgradcheck(
        lambda x, w: bt.conv_transpose2d(x, w, stride=2, padding=1, groups=2), (small[0], weight)
    )


class Layer(torch.nn.Module):
    def forward(self, x, weight, bias):
        return bt.conv2d(x, weight, bias, stride=2, padding=(1, 0), activation="relu")


def test_compile_and_export():
    given = operands(2, 1)
    want = torch.relu(torch.nn.functional.conv2d(*given, stride=2, padding=(1, 0)))
    compiled = torch.compile(Layer(), fullgraph=True, backend="aot_eager", dynamic=True)
    near(compiled(*given), want)
    batch = torch.export.Dim("batch", min=2)
    program = torch.export.export(Layer(), given, dynamic_shapes={"x": {0: batch}, "weight": None, "bias": None})
    more = torch.cat([given[0]] * 3)
    near(program.module()(more, *given[1:]), torch.cat([want] * 3))
