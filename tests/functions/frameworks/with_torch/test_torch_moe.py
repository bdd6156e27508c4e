# SPDX-License-Identifier: Apache-2.0
"""moe for PyTorch: gradients of every operand, torch.compile and torch.export with any number of tokens."""

import pytest
import torch

import baracuda.torch as bt

TOKENS, EXPERTS, HIDDEN, INNER, TOP_K = 50, 8, 24, 16, 3


def reference(x, logits, w_gate_up, w_down):
    weights, ids = torch.softmax(logits, -1).topk(TOP_K, -1)
    weights = weights / weights.sum(-1, keepdim=True)
    gate, up = torch.einsum("th,eih->tei", x, w_gate_up).chunk(2, -1)
    y = torch.einsum("tei,ehi->teh", torch.nn.functional.silu(gate) * up, w_down)
    chosen = torch.gather(y, 1, ids[..., None].expand(-1, -1, HIDDEN))
    return (chosen * weights[..., None]).sum(1)


@pytest.fixture
def operands():
    torch.manual_seed(0)
    shapes = ((TOKENS, HIDDEN), (TOKENS, EXPERTS), (EXPERTS, 2 * INNER, HIDDEN), (EXPERTS, HIDDEN, INNER))
    return [torch.randn(shape, requires_grad=True) for shape in shapes]


def test_gradients(operands):
    got, want = bt.moe(*operands, TOP_K), reference(*operands)
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-3)
    dy = torch.randn_like(want)
    for ours, theirs in zip(*(torch.autograd.grad(y, operands, dy) for y in (got, want))):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=2e-3)


def test_an_expert_without_tokens_has_gradients_of_zero(operands):
    x, logits, *weights = operands
    masked = logits.detach().clone()
    masked[:, 2] = -torch.inf
    out = bt.moe(x, masked, *weights, TOP_K)
    for gradient in torch.autograd.grad(out.sum(), weights):
        assert gradient.isfinite().all() and not gradient[2].any()


class Layer(torch.nn.Module):
    def forward(self, x, logits, w_gate_up, w_down):
        return bt.moe(x, logits, w_gate_up, w_down, TOP_K)


def test_compile_and_export(operands):
    given = [each.detach() for each in operands]
    want = reference(*given)
    compiled = torch.compile(Layer(), fullgraph=True, backend="aot_eager", dynamic=True)
    torch.testing.assert_close(compiled(*given), want, rtol=1e-4, atol=1e-3)
    tokens = torch.export.Dim("tokens", min=2)
    dynamic = {"x": {0: tokens}, "logits": {0: tokens}, "w_gate_up": None, "w_down": None}
    program = torch.export.export(Layer(), tuple(given), dynamic_shapes=dynamic)
    fewer = [given[0][:7], given[1][:7], *given[2:]]
    torch.testing.assert_close(program.module()(*fewer), want[:7], rtol=1e-4, atol=1e-3)
