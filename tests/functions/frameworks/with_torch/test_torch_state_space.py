# SPDX-License-Identifier: Apache-2.0
"""State-space layers for PyTorch: gradients against autograd of the recurrence, torch.compile and torch.export."""

import pytest
import torch

import baracuda.torch as bt

TOKENS = 37
F = torch.nn.functional


def conv_reference(x, weight, bias, state):
    whole = torch.cat([state, x], -1)
    return F.silu(F.conv1d(whole, weight[:, None], bias, groups=x.shape[1])), whole[..., -(weight.shape[1] - 1) :]


def conv(x, weight, bias, state):
    return bt.causal_conv1d_forward(x, weight, bias, state, silu=True)


def scan_reference(u, delta, a, b, c, d, z, bias, h):
    step, rows = F.softplus(delta + bias[:, None]), []
    share = u.shape[1] // b.shape[1]
    b, c = (each.repeat_interleave(share, 1) for each in (b, c))
    for t in range(u.shape[-1]):
        s = step[..., t, None]
        h = torch.exp(s * a) * h + s * u[..., t, None] * b[..., t]
        rows.append((h * c[..., t]).sum(-1))
    return (torch.stack(rows, -1) + d[:, None] * u) * F.silu(z), h


def scan(u, delta, a, b, c, d, z, bias, state):
    return bt.selective_scan_forward(u, delta, a, b, c, d, z, bias, state, delta_softplus=True)


def ssd_reference(x, dt, a, b, c, d, z, bias, h):
    step, rows = F.softplus(dt + bias), []
    share = x.shape[2] // b.shape[2]
    b, c = (each.repeat_interleave(share, 2) for each in (b, c))
    for t in range(x.shape[1]):
        s = step[:, t, :, None, None]
        h = torch.exp(s * a[:, None, None]) * h + s * x[:, t, ..., None] * b[:, t, :, None]
        rows.append((h * c[:, t, :, None]).sum(-1))
    return (torch.stack(rows, 1) + d[:, None] * x) * F.silu(z), h


def ssd(x, dt, a, b, c, d, z, bias, state):
    return bt.ssd_scan_forward(x, dt, a, b, c, d, z, bias, state, dt_softplus=True)


SHAPES = {
    conv: [(2, 6, TOKENS), (6, 4), (6,), (2, 6, 3)],
    scan: [*[(2, 6, TOKENS)] * 2, (6, 5), *[(2, 2, 5, TOKENS)] * 2, (6,), (2, 6, TOKENS), (6,), (2, 6, 5)],
    ssd: [
        (2, TOKENS, 4, 3),
        (2, TOKENS, 4),
        (4,),
        *[(2, TOKENS, 2, 5)] * 2,
        (4,),
        (2, TOKENS, 4, 3),
        (4,),
        (2, 4, 3, 5),
    ],
}
LAYERS = [(conv, conv_reference), (scan, scan_reference), (ssd, ssd_reference)]
WITH_TIME = {conv: {0: 2}, scan: {0: 2, 1: 2, 3: 3, 4: 3, 6: 2}, ssd: {0: 1, 1: 1, 3: 1, 4: 1, 6: 1}}


def operands_of(layer):
    torch.manual_seed(0)
    made = [torch.randn(shape) for shape in SHAPES[layer]]
    if layer is not conv:
        made[2] = -made[2].exp()
    return [each.requires_grad_() for each in made]


@pytest.mark.parametrize(("layer", "reference"), LAYERS)
def test_gradients(layer, reference):
    """Gradients of the results and of the last state agree with the reference."""
    operands = operands_of(layer)
    got, want = layer(*operands), reference(*operands)
    for ours, theirs in zip(got, want, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)
    incoming = [torch.randn_like(each) for each in want]
    gradients = [torch.autograd.grad(each, operands, incoming) for each in (got, want)]
    for ours, theirs in zip(*gradients, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(("layer", "reference"), LAYERS)
def test_compile_and_export(layer, reference):
    given = [each.detach() for each in operands_of(layer)]
    want = reference(*given)[0]
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager", dynamic=True)
    torch.testing.assert_close(compiled(*given)[0], want, rtol=1e-4, atol=1e-4)

    class Layer(torch.nn.Module):
        def forward(self, *operands):
            return layer(*operands)

    tokens = torch.export.Dim("tokens", min=2)
    axes = WITH_TIME[layer]
    dynamic = (tuple([{axes[k]: tokens} if k in axes else None for k in range(len(given))]),)
    program = torch.export.export(Layer(), tuple(given), dynamic_shapes=dynamic)
    fewer = [each.narrow(axes[k], 0, 9) if k in axes else each for k, each in enumerate(given)]
    torch.testing.assert_close(program.module()(*fewer)[0], reference(*fewer)[0], rtol=1e-4, atol=1e-4)
