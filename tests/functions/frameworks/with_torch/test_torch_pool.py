# SPDX-License-Identifier: Apache-2.0
"""Pooling for PyTorch: results, indices and gradients of torch.nn.functional; torch.compile and torch.export."""

import itertools

import pytest
import torch
import torch.nn.functional as F

import baracuda.torch as bt

SHAPES = {1: (2, 3, 11), 2: (2, 9, 7, 9), 3: (2, 2, 6, 5, 7)}


def images(rank):
    torch.manual_seed(rank)
    return ((torch.randn(SHAPES[rank]) * 2).round() / 2).requires_grad_()  # cells are equal often


def check(ours, theirs, x):
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)
    dy = torch.randn_like(theirs)
    for got, want in zip(*(torch.autograd.grad(y, x, dy, retain_graph=True) for y in (ours, theirs))):
        torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("rank", SHAPES)
def test_windows(rank):
    x = images(rank)
    for kernel, stride, padding, dilation, ceil in itertools.product(
        (2, 3), (1, 2, None), (0, 1), (1, 2), (False, True)
    ):
        numbers = (kernel, stride, padding)
        maxima = getattr(F, f"max_pool{rank}d")(x, *numbers, dilation, ceil, return_indices=True)
        ours = getattr(bt, f"max_pool{rank}d")(x, *numbers, dilation, ceil, True)
        assert torch.equal(ours[1], maxima[1])
        check(ours[0], maxima[0], x)
        check(getattr(bt, f"max_pool{rank}d")(x, *numbers, dilation, ceil), maxima[0], x)
        if dilation == 1:
            for includes in (False, True):
                means = getattr(F, f"avg_pool{rank}d")(x, *numbers, ceil, includes)
                check(getattr(bt, f"avg_pool{rank}d")(x, *numbers, ceil, includes), means, x)


@pytest.mark.parametrize("rank", SHAPES)
def test_sizes(rank):
    x = images(rank)
    for size in (1, 3, *([(None,) * rank] if rank > 1 else [])):
        check(getattr(bt, f"adaptive_avg_pool{rank}d")(x, size), getattr(F, f"adaptive_avg_pool{rank}d")(x, size), x)
        maxima = getattr(F, f"adaptive_max_pool{rank}d")(x, size, return_indices=True)
        ours = getattr(bt, f"adaptive_max_pool{rank}d")(x, size, True)
        assert torch.equal(ours[1], maxima[1])
        check(ours[0], maxima[0], x)
    y, indices = getattr(F, f"max_pool{rank}d")(x, 2, return_indices=True)
    y = y.detach().requires_grad_()
    size = tuple(x.shape[2:])
    wanted = getattr(F, f"max_unpool{rank}d")(y, indices, 2, output_size=size)
    check(getattr(bt, f"max_unpool{rank}d")(y, indices, 2, output_size=size), wanted, y)
    positive = x.detach().abs().add(0.1).requires_grad_()
    for p in (1.0, 2.0, 3.0):
        check(getattr(bt, f"lp_pool{rank}d")(positive, p, 2), getattr(F, f"lp_pool{rank}d")(positive, p, 2), positive)


@pytest.mark.parametrize("rank", [2, 3])
def test_fractional_windows(rank):
    x = images(rank)
    samples = torch.rand(*x.shape[:2], rank)
    theirs = getattr(F, f"fractional_max_pool{rank}d")(
        x, 2, output_size=3, return_indices=True, _random_samples=samples
    )
    ours = getattr(bt, f"fractional_max_pool{rank}d")(x, 2, 3, None, True, random_samples=samples)
    assert torch.equal(ours[1], theirs[1])
    check(ours[0], theirs[0], x)


def test_memory_formats():
    x = images(2)
    last = x.detach().contiguous(memory_format=torch.channels_last).requires_grad_()
    check(bt.max_pool2d(last, 3, 2, 1), F.max_pool2d(last, 3, 2, 1), last)
    moved = x.detach().movedim(1, -1).contiguous()
    torch.testing.assert_close(bt.avg_pool2d(moved, 2, layout="channels_last").movedim(-1, 1), F.avg_pool2d(x, 2))


class Pools(torch.nn.Module):
    def forward(self, x):
        return bt.adaptive_avg_pool2d(bt.avg_pool2d(bt.max_pool2d(x, 3, 2, 1), 2, 1), 2)


def test_compile_and_export():
    x = torch.randn(4, 3, 16, 20)
    want = F.adaptive_avg_pool2d(F.avg_pool2d(F.max_pool2d(x, 3, 2, 1), 2, 1), 2)
    compiled = torch.compile(Pools(), fullgraph=True, backend="aot_eager", dynamic=True)
    torch.testing.assert_close(compiled(x), want)
    program = torch.export.export(Pools(), (x,), dynamic_shapes={"x": {0: torch.export.Dim("images", min=2)}})
    torch.testing.assert_close(program.module()(x[:2]), want[:2])
