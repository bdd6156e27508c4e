# SPDX-License-Identifier: Apache-2.0
"""scaled_dot_product_attention and flash_attn_varlen for PyTorch: gradients, torch.compile, torch.export, dropout."""

import pytest
import torch

import baracuda.torch as bt

REFERENCE = torch.nn.functional.scaled_dot_product_attention


def leaf(*shape, dtype=torch.float32):
    return torch.randn(*shape, dtype=dtype, requires_grad=True)


@pytest.fixture
def operands():
    torch.manual_seed(0)
    return leaf(2, 4, 33, 16), leaf(2, 4, 40, 16), leaf(2, 4, 40, 16)


def close(got, expected, bound=1e-4):
    torch.testing.assert_close(got, expected, rtol=bound, atol=bound)


@pytest.mark.parametrize("is_causal", [False, True])
def test_gradients(operands, is_causal):
    got = bt.scaled_dot_product_attention(*operands, is_causal=is_causal)
    expected = REFERENCE(*operands, is_causal=is_causal)
    close(got, expected)
    for ours, theirs in zip(*(torch.autograd.grad(y.sin().sum(), operands) for y in (got, expected))):
        close(ours, theirs)


def test_masks(operands):
    keep, bias = torch.rand(33, 40) < 0.7, leaf(4, 1, 40)
    close(bt.scaled_dot_product_attention(*operands, keep), REFERENCE(*operands, keep))
    pair = bt.scaled_dot_product_attention(*operands, bias), REFERENCE(*operands, bias.expand(2, 4, 33, 40))
    close(*(torch.autograd.grad(y.sin().sum(), bias)[0] for y in pair))


def test_grouped_heads_and_gradcheck():
    torch.manual_seed(1)
    q, bias = leaf(1, 4, 5, 6, dtype=torch.float64), leaf(1, 4, 5, 7, dtype=torch.float64)
    k, v = (leaf(1, 2, 7, 6, dtype=torch.float64) for _ in "kv")

    def attend(q, k, v, bias):
        options = {"enable_gqa": True, "softcap": 2.0, "window": (3, 2), "dropout_p": 0.25, "seed": 3}
        return bt.scaled_dot_product_attention(q, k, v, bias, **options)

    assert torch.autograd.gradcheck(attend, (q, k, v, bias))


def test_compiles_with_any_length(operands):
    compiled = torch.compile(
        lambda q, k, v: bt.scaled_dot_product_attention(q, k, v, is_causal=True).sin(),
        fullgraph=True, backend="aot_eager", dynamic=True,
    )  # fmt: skip
    for cut in (33, 17):
        given = [x.detach()[:, :, :cut].contiguous().requires_grad_() for x in operands]
        result = compiled(*given)
        close(result, REFERENCE(*given, is_causal=True).sin())
        result.sum().backward()
        assert all(x.grad.shape == x.shape for x in given)


class Attention(torch.nn.Module):
    def forward(self, q, k, v):
        return bt.scaled_dot_product_attention(q, k, v, is_causal=True)


def test_exports_with_any_batch_and_length():
    batch, length = torch.export.Dim("batch"), torch.export.Dim("length")
    x = torch.randn(2, 4, 33, 16)
    exported = torch.export.export(Attention(), (x, x, x), dynamic_shapes={n: {0: batch, 2: length} for n in "qkv"})
    x = torch.randn(5, 4, 12, 16)
    close(exported.module()(x, x, x), REFERENCE(x, x, x, is_causal=True))


def test_varlen():
    torch.manual_seed(2)
    offsets = torch.tensor([0, 3, 3, 20], dtype=torch.int32)
    given = [leaf(20, 4, 16) for _ in "qkv"]
    y = bt.flash_attn_varlen(*given, offsets, offsets, 17, 17, causal=True)
    gradients = torch.autograd.grad(y.sin().sum(), given)
    for rows in (slice(0, 3), slice(3, 20)):
        one = [x.detach()[rows].transpose(0, 1)[None].requires_grad_() for x in given]
        expected = REFERENCE(*one, is_causal=True)
        close(y[rows].transpose(0, 1)[None], expected)
        for ours, theirs in zip(gradients, torch.autograd.grad(expected.sin().sum(), one)):
            close(ours[rows].transpose(0, 1)[None], theirs)


def test_dropout_follows_the_generator(operands):
    results = []
    for seed in (5, 5, 6):
        torch.manual_seed(seed)
        results.append(bt.scaled_dot_product_attention(*operands, dropout_p=0.5))
    assert torch.equal(results[0], results[1])
    assert not torch.equal(results[0], results[2])


def test_batch_invariance():
    """The keyword reaches C, also through torch.compile, and leaves gradients alone."""
    torch.manual_seed(2)
    q, k, v = leaf(3, 4, 40, 64), leaf(3, 4, 300, 64), leaf(3, 4, 300, 64)

    def attend(q, k, v, **options):
        return bt.scaled_dot_product_attention(q, k, v, is_causal=True, aligns_ends=True, **options)

    y = attend(q, k, v, batch_invariant=True)
    assert torch.equal(attend(q[1:2, :, -1:], k[1:2], v[1:2], batch_invariant=True), y[1:2, :, -1:])
    compiled = torch.compile(attend, fullgraph=True, backend="aot_eager", dynamic=True)
    assert torch.equal(compiled(q, k, v, batch_invariant=True), y)
    for ours, theirs in zip(*(torch.autograd.grad(x.sin().sum(), (q, k, v)) for x in (y, attend(q, k, v)))):
        close(ours, theirs)


IDS = torch.tensor([[3, 3, 3, 8, 8, 3, 3, 3, 3], [3, 3, 5, 6, 6, 6, 6, 6, 6]])
LENGTHS = (3, 2, 4, 2, 1, 6)  # of the documents


def of_each_document(q, k, v):
    """Causal attention of each document alone."""
    parts = [x.transpose(1, 2).flatten(0, 1).split(LENGTHS) for x in (q, k, v)]
    found = [REFERENCE(*[x.transpose(0, 1) for x in part], is_causal=True).transpose(0, 1) for part in zip(*parts)]
    return torch.cat(found).unflatten(0, (2, 9)).transpose(1, 2)


@pytest.mark.parametrize("most", [None, 6, 18])
def test_documents(most):
    torch.manual_seed(4)
    given = [leaf(2, 4, 9, 16) for _ in "qkv"]
    got = bt.scaled_dot_product_attention(*given, is_causal=True, document_ids=IDS, max_documents=most)
    expected = of_each_document(*given)
    close(got, expected)
    for ours, theirs in zip(*(torch.autograd.grad(y.sin().sum(), given) for y in (got, expected))):
        close(ours, theirs)
    offsets = bt.document_offsets(IDS, 8)
    assert offsets.dtype == torch.int32 and offsets.tolist() == [0, 3, 5, 9, 11, 12, 18, 18, 18]


class DocumentAttention(torch.nn.Module):
    def forward(self, q, k, v, ids):
        return bt.scaled_dot_product_attention(q, k, v, is_causal=True, document_ids=ids, max_documents=6)


def test_documents_compile_and_export():
    torch.manual_seed(5)
    given = [leaf(2, 4, 9, 16) for _ in "qkv"]
    compiled = torch.compile(DocumentAttention(), fullgraph=True, backend="aot_eager", dynamic=True)
    got, expected = compiled(*given, IDS), of_each_document(*given)
    close(got, expected)
    for ours, theirs in zip(*(torch.autograd.grad(y.sin().sum(), given) for y in (got, expected))):
        close(ours, theirs)
    detached = [x.detach() for x in given]
    batch, length = torch.export.Dim("batch", min=2), torch.export.Dim("length", min=8)
    shapes = {**{n: {0: batch, 2: length} for n in "qkv"}, "ids": {0: batch, 1: length}}
    program = torch.export.export(DocumentAttention(), (*detached, IDS), dynamic_shapes=shapes)
    close(program.module()(*detached, IDS), expected)
