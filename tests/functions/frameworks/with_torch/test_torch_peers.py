# SPDX-License-Identifier: Apache-2.0
"""Results and gradients of copies and of indexing equal those of PyTorch's own functions."""

import itertools

import pytest
import torch
from torch.nn import functional as F

import baracuda.torch as bt

INDEX = torch.tensor([[2, 0, 4], [1, 1, 3], [0, 2, 2]])
LINE = torch.tensor([3, 0, 0, 2])
WINDOWS = [{"kernel_size": k, "dilation": d, "padding": p, "stride": s}
           for k, d, p, s in itertools.product((2, (3, 2)), (1, (1, 2)), (0, (1, 2)), (1, (2, 1)))]  # fmt: skip


def drawn(*shape, seed=1):
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def agree(mine, theirs, *arrays):
    """Compares results, and the gradients of all arrays for a random gradient of the result."""
    results, gradients = [], []
    for function in (mine, theirs):
        leaves = [array.clone().requires_grad_() for array in arrays]
        result = function(*leaves)
        results.append(result.detach())
        dy = drawn(*result.shape, seed=7)
        gradients.append(torch.autograd.grad(result, leaves, dy) if result.requires_grad else ())
    torch.testing.assert_close(*results, rtol=1e-13, atol=1e-13)
    assert len(gradients[0]) == len(gradients[1]) == len(arrays)
    for got, wanted in zip(*gradients):
        torch.testing.assert_close(got, wanted, rtol=1e-12, atol=1e-12)


MOVES = {
    "flip": (lambda m, x: m.flip(x, axis=(0, 2)), lambda x: torch.flip(x, (0, 2))),
    "roll": (lambda m, x: m.roll(x, (2, -1), axis=(0, 2)), lambda x: torch.roll(x, (2, -1), (0, 2))),
    "permute": (lambda m, x: m.permute(x, (2, 0, 1)), lambda x: torch.permute(x, (2, 0, 1))),
    "triu": (lambda m, x: m.triu(x, diagonal=1), lambda x: torch.triu(x, 1)),
    "tile": (lambda m, x: m.tile(x, (2, 1, 3)), lambda x: torch.tile(x, (2, 1, 3))),
    "repeat_interleave": (
        lambda m, x: m.repeat_interleave(x, 3, axis=1),
        lambda x: torch.repeat_interleave(x, 3, 1),
    ),
    "unfold": (lambda m, x: m.unfold(x, axis=1, size=3, step=2), lambda x: x.unfold(1, 3, 2)),
    **{
        mode: (
            lambda m, x, name=name: getattr(m, name)(x, pad_low=[0, 2, 1], pad_high=[0, 1, 3]),
            lambda x, mode=mode: F.pad(x[None], (1, 3, 2, 1), mode)[0],
        )
        for mode, name in (("reflect", "pad_reflect"), ("replicate", "pad_replicate"), ("circular", "pad_circular"))
    },
    "constant": (
        lambda m, x: m.pad_constant(x, pad_low=[0, 2, 1], pad_high=[1, 1, 3], value=0.5),
        lambda x: F.pad(x, (1, 3, 2, 1, 0, 1), value=0.5),
    ),
}


@pytest.mark.parametrize("name", MOVES)
def test_copies(name):
    mine, theirs = MOVES[name]
    agree(lambda x: mine(bt, x), theirs, drawn(3, 4, 5))


@pytest.mark.parametrize("options", WINDOWS, ids=str)
def test_windows_of_images(options):
    x = drawn(2, 3, 6, 7)
    agree(lambda x: bt.im2col(x, **options), lambda x: F.unfold(x, **options), x)
    columns = F.unfold(x, **options)
    size = (6, 7)
    agree(lambda x: bt.col2im(x, size, **options), lambda x: F.fold(x, output_size=size, **options), columns)


@pytest.mark.parametrize("axis", [0, 1])
def test_gather_and_scatter(axis):
    x, index = drawn(5, 5), INDEX
    agree(lambda x: bt.gather(x, index, axis=axis), lambda x: torch.gather(x, axis, index), x)
    agree(lambda x: bt.index_select(x, LINE, axis=axis), lambda x: torch.index_select(x, axis, LINE), x)
    agree(lambda x: bt.embedding(LINE, x), lambda x: F.embedding(LINE, x), x)


@pytest.mark.parametrize("axis", [0, 1])
def test_sums_by_indices(axis):
    u, index = drawn(3, 3), INDEX
    shape = [5 if d == axis else 3 for d in range(2)]
    agree(
        lambda u: bt.scatter_add(index, u, 5, axis=axis),
        lambda u: torch.zeros(shape).double().scatter_add(axis, index, u),
        u,
    )
    u = drawn(4, 4)
    shape = [6 if d == axis else 4 for d in range(2)]
    agree(
        lambda u: bt.index_add(LINE, u, 6, axis=axis), lambda u: torch.zeros(shape).double().index_add(axis, LINE, u), u
    )


@pytest.mark.parametrize(("mode", "padding"), list(itertools.product(("sum", "mean"), (None, 1))))
def test_bags(mode, padding):
    indices, offsets = torch.tensor([4, 1, 1, 0, 3, 2, 1]), torch.tensor([0, 3, 3, 5])
    agree(
        lambda w: bt.embedding_bag(indices, w, offsets.int(), mode=mode, padding_idx=padding),
        lambda w: F.embedding_bag(indices, w, offsets, mode=mode, padding_idx=padding), drawn(5, 3),
    )  # fmt: skip


@pytest.mark.parametrize("reduce", ["sum", "mean", "max", "min"])
def test_segments(reduce):
    ids, lengths = torch.tensor([0, 0, 2, 2, 2, 3]), torch.tensor([2, 0, 3, 1])
    mine = getattr(bt, f"segment_{reduce}")
    agree(
        lambda x: mine(x, ids, 4)[lengths > 0],  # the libraries differ for empty segments
        lambda x: torch.segment_reduce(x, reduce, lengths=lengths)[lengths > 0], drawn(6, 3),
    )  # fmt: skip


def test_choices():
    x, mask = drawn(3, 4), drawn(3, 4, seed=2) > 0
    count = int(mask.sum())
    agree(lambda x: bt.masked_fill(x, mask, 2.5), lambda x: x.masked_fill(mask, 2.5), x)
    values, found = bt.masked_select(x, mask, max_selected=12)
    assert int(found) == count
    torch.testing.assert_close(values[:count], x.masked_select(mask))
    indices, found = bt.nonzero(mask.double(), max_nz=12)
    assert int(found) == count
    assert torch.equal(indices[:count].long(), mask.nonzero())
    assert torch.equal(bt.one_hot(LINE, 5).long(), F.one_hot(LINE, 5))
