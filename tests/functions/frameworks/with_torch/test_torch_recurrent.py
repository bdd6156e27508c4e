# SPDX-License-Identifier: Apache-2.0
"""Recurrent layers for PyTorch: gradients of every operand, PyTorch's own layers, torch.compile and torch.export."""

import pytest
import torch

import baracuda.torch as bt

TOKENS, HEADS, KEYS, VALUES = 21, 2, 6, 5


def gated(q, k, v, g, state):
    out = []
    for t in range(q.shape[1]):
        state = g[:, t].exp()[..., None] * state + k[:, t, :, :, None] * v[:, t, :, None]
        out.append(torch.einsum("bhk,bhkv->bhv", q[:, t], state) * KEYS**-0.5)
    return torch.stack(out, 1), state


def delta(q, k, v, beta, g, state):
    out = []
    for t in range(q.shape[1]):
        state = g[:, t].exp()[..., None, None] * state
        error = beta[:, t, :, None] * (v[:, t] - torch.einsum("bhk,bhkv->bhv", k[:, t], state))
        state = state + k[:, t, :, :, None] * error[:, :, None]
        out.append(torch.einsum("bhk,bhkv->bhv", q[:, t], state) * KEYS**-0.5)
    return torch.stack(out, 1), state


def rwkv7(r, w, k, v, a, b, state):
    out = []
    for t in range(r.shape[1]):
        removed = torch.einsum("bhk,bhkv->bhv", a[:, t], state)
        state = w[:, t].exp()[..., None] * state + b[:, t, :, :, None] * removed[:, :, None]
        state = state + k[:, t, :, :, None] * v[:, t, :, None]
        out.append(torch.einsum("bhk,bhkv->bhv", r[:, t], state))
    return torch.stack(out, 1), state


def operands(name):
    torch.manual_seed(0)
    shape = (2, TOKENS, HEADS, KEYS)
    q, k, x, b = (torch.randn(shape) for _ in range(4))
    v, state = torch.randn(2, TOKENS, HEADS, VALUES), torch.randn(2, HEADS, KEYS, VALUES)
    k, x, g = (torch.nn.functional.normalize(each, dim=-1) for each in (k, x, b))
    g = -g.abs()
    given = {
        "gated_linear_attention": [q, k, v, g, state],
        "gated_delta_rule": [q, k, v, torch.rand(shape[:3]), g[..., 0].contiguous(), state],
        "rwkv7": [q, g, k, v, -x, x * torch.rand(shape), state],
    }[name]
    return [each.requires_grad_() for each in given]


REFERENCES = {"gated_linear_attention": gated, "gated_delta_rule": delta, "rwkv7": rwkv7}


@pytest.mark.parametrize("name", REFERENCES)
def test_gradients(name):
    """Gradients of both results with respect to all operands agree with PyTorch."""
    given = operands(name)
    *arrays, state = given
    got, want = getattr(bt, name)(*arrays, initial_state=state), REFERENCES[name](*given)
    incoming = [torch.randn_like(each) for each in want]
    for ours, theirs in zip(got, want):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)
    found = [torch.autograd.grad(results, given, incoming) for results in (got, want)]
    for ours, theirs in zip(*found):
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-3)


class Attention(torch.nn.Module):
    def forward(self, q, k, v, g):
        return bt.gated_linear_attention(q, k, v, g)[0]


def test_compile_and_export():
    *given, _ = [each.detach() for each in operands("gated_linear_attention")]
    want = gated(*given, torch.zeros(2, HEADS, KEYS, VALUES))[0]
    compiled = torch.compile(Attention(), fullgraph=True, backend="aot_eager", dynamic=True)
    torch.testing.assert_close(compiled(*given), want, rtol=1e-4, atol=1e-4)
    tokens = torch.export.Dim("tokens", min=2)
    program = torch.export.export(
        Attention(), tuple(given), dynamic_shapes={name: {1: tokens} for name in ("q", "k", "v", "g")}
    )
    fewer = [each[:, :7] for each in given]
    torch.testing.assert_close(program.module()(*fewer), want[:, :7], rtol=1e-4, atol=1e-4)


@pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN")
@pytest.mark.parametrize("name", ["LSTM", "GRU", "RNN"])
@pytest.mark.parametrize("bidirectional", [False, True])
def test_layers_of_pytorch(name, bidirectional):
    """Results and gradients of torch.nn's layers, of their own weights."""
    torch.manual_seed(0)
    options = {"proj_size": 3} if name == "LSTM" else {}
    layer = getattr(torch.nn, name)(4, 5, num_layers=2, bidirectional=bidirectional, **options)
    x = torch.randn(7, 3, 4, requires_grad=True)
    weights = list(layer._flat_weights)
    more = {"has_projections": True} if name == "LSTM" else {}
    got = getattr(bt, name.lower())(x, weights, bidirectional=bidirectional, **more)
    y, state = layer(x)
    want = (y, *(state if name == "LSTM" else (state,)))
    for ours, theirs in zip(got, want):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
    incoming = [torch.randn_like(each) for each in want]
    given = [x, *weights]
    for ours, theirs in zip(*(torch.autograd.grad(each, given, incoming) for each in (got, want))):
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-4)


def test_lengths_are_those_of_packed_sequences():
    torch.manual_seed(0)
    layer, x = torch.nn.GRU(4, 5, bidirectional=True), torch.randn(6, 3, 4)
    lengths = torch.tensor([6, 2, 4])
    packed = torch.nn.utils.rnn.pack_padded_sequence(x, lengths, enforce_sorted=False)
    y, h_n = layer(packed)
    y = torch.nn.utils.rnn.pad_packed_sequence(y, total_length=6)[0]
    got = bt.gru(x, list(layer._flat_weights), lengths=lengths.int(), bidirectional=True)
    torch.testing.assert_close(got[0], y, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(got[1], h_n, rtol=1e-4, atol=1e-5)


class Layers(torch.nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.w_ih, self.w_hh, self.b_ih, self.b_hh = (torch.nn.Parameter(each) for each in layer._flat_weights)

    def forward(self, x):
        return bt.lstm(x, [self.w_ih, self.w_hh, self.b_ih, self.b_hh])[0]


def test_compile_and_export_of_layers():
    torch.manual_seed(0)
    layer, x = torch.nn.LSTM(4, 5), torch.randn(7, 3, 4)
    module, want = Layers(layer), layer(x)[0]
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager", dynamic=True)
    torch.testing.assert_close(compiled(x), want, rtol=1e-4, atol=1e-5)
    tokens = torch.export.Dim("tokens", min=2)
    program = torch.export.export(module, (x,), dynamic_shapes={"x": {0: tokens}})
    torch.testing.assert_close(program.module()(x[:4]), want[:4], rtol=1e-4, atol=1e-5)
