# SPDX-License-Identifier: Apache-2.0
"""deform_conv2d for PyTorch: gradients of every operand, torch.compile and torch.export with any batch."""

import pytest
import torch

import baracuda.torch as bt


def operands(batch=2, dtype=torch.float64):
    torch.manual_seed(1)
    shapes = ((batch, 4, 5, 6), (batch, 2 * 2 * 6, 5, 5), (6, 2, 3, 2), (6,), (batch, 2 * 6, 5, 5))
    return [torch.randn(shape, dtype=dtype) for shape in shapes]


def convolution(x, offset, weight, bias, mask):
    return bt.deform_conv2d(x, offset, weight, bias, padding=(1, 0), mask=mask)


def reference(x, offset, weight, bias, mask):
    """The convolution by grid_sample, a tap of an offset group at a time."""
    (batch, channels, height, width), (filters, of_group, kernel_h, kernel_w) = x.shape, weight.shape
    taps, groups = kernel_h * kernel_w, mask.shape[1] // (kernel_h * kernel_w)
    rows, columns = (torch.arange(e, dtype=x.dtype) for e in mask.shape[2:])
    sampled = x.new_zeros(batch, channels, taps, *mask.shape[2:])
    for m in range(groups * taps):
        group, tap = divmod(m, taps)
        y = rows[:, None] - 1 + tap // kernel_w + offset[:, 2 * m]
        x_at = columns + tap % kernel_w + offset[:, 2 * m + 1]
        grid = torch.stack([(2 * x_at + 1) / width - 1, (2 * y + 1) / height - 1], -1)
        own = slice(group * (channels // groups), (group + 1) * (channels // groups))
        values = torch.nn.functional.grid_sample(x[:, own], grid, align_corners=False)
        sampled[:, own, tap] = values * mask[:, m, None]
    flat = sampled.reshape(batch, channels // of_group, of_group * taps, -1)
    products = torch.einsum("gok,ngkl->ngol", weight.reshape(channels // of_group, -1, of_group * taps), flat)
    return products.reshape(batch, filters, *mask.shape[2:]) + bias[:, None, None]


def test_it_and_its_gradients_are_those_of_grid_samples():
    given = [each.requires_grad_() for each in operands()]
    got, want = convolution(*given), reference(*given)
    torch.testing.assert_close(got, want)
    dy = torch.randn_like(want)
    for ours, theirs in zip(*(torch.autograd.grad(y, given, dy) for y in (got, want))):
        torch.testing.assert_close(ours, theirs)


class Layer(torch.nn.Module):
    def forward(self, x, offset, weight, bias, mask):
        return convolution(x, offset, weight, bias, mask)


@pytest.mark.parametrize("dtype", [torch.float32])
def test_compile_and_export(dtype):
    given = operands(4, dtype)
    want = convolution(*given)
    compiled = torch.compile(Layer(), fullgraph=True, backend="aot_eager", dynamic=True)
    torch.testing.assert_close(compiled(*given), want)
    batch = torch.export.Dim("batch", min=2)
    dynamic = {"x": {0: batch}, "offset": {0: batch}, "weight": None, "bias": None, "mask": {0: batch}}
    program = torch.export.export(Layer(), tuple(given), dynamic_shapes=dynamic)
    fewer = [given[0][:2], given[1][:2], given[2], given[3], given[4][:2]]
    torch.testing.assert_close(program.module()(*fewer), want[:2])
