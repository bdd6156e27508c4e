# SPDX-License-Identifier: Apache-2.0
"""Sorts made of other functions for PyTorch: NumPy's orders, gradients, torch.compile, torch.export of any length."""

import numpy as np
import pytest
import torch

import baracuda as bk
import baracuda.torch as bt


def tensors(rows=7, length=50):
    rng = np.random.default_rng(3)
    keys = [rng.integers(0, 4, (rows, length)).astype(np.int32), rng.integers(-3, 3, (rows, length)) / 2]
    return [torch.from_numpy(key) for key in keys], torch.from_numpy(rng.standard_normal((rows, length)))


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_orders_are_those_of_numpy(axis):
    keys, values = tensors()
    np.testing.assert_array_equal(bt.lexsort(keys, axis=axis), np.lexsort([key.numpy() for key in keys], axis))
    for key in keys:
        for descending in (False, True):
            order = np.argsort(-key.numpy() if descending else key.numpy(), axis, kind="stable")
            found = bt.sort_by_key(key, values, axis=axis, descending=descending)
            for got, of in zip(found, (key, values)):
                np.testing.assert_array_equal(got, np.take_along_axis(of.numpy(), order, axis))
    np.testing.assert_array_equal(bt.msort(values, descending=True), np.sort(values.numpy(), 0)[::-1])


def test_rows_follow_keys_of_one_axis():
    keys, values = tensors()
    order = np.argsort(keys[1][:, 0].numpy(), kind="stable")
    np.testing.assert_array_equal(bt.sort_by_key(keys[1][:, 0], values)[1], values.numpy()[order])
    with pytest.raises(bk.InvalidProblemError, match=r"values has shape \(50, 7\), expected \(7, 50\)"):
        bt.sort_by_key(keys[0], values.T)
    with pytest.raises(bk.InvalidProblemError, match="keys is empty"):
        bt.lexsort([])


def test_segments():
    x, offsets = tensors()[1].flatten(), torch.tensor([0, 0, 3, 20, 20, 350])
    parts = np.split(x.numpy(), offsets[1:-1].tolist())
    np.testing.assert_array_equal(bt.segmented_sort(x, offsets), np.concatenate([np.sort(part) for part in parts]))
    order = bt.segmented_argsort(x, offsets, descending=True)
    np.testing.assert_array_equal(x[order], np.concatenate([np.sort(part)[::-1] for part in parts]))


def test_gradients_return_to_their_elements():
    """Gradients of both results: those of keys and values are the incoming ones, in the order from before."""
    x = tensors()[1]
    keys, values = x[:3].requires_grad_(), x[3:6].requires_grad_()
    found = bt.sort_by_key(keys, values, axis=1)
    rng = np.random.default_rng(4)
    incoming = [rng.standard_normal(keys.shape) for _ in found]
    got = torch.autograd.grad(found, (keys, values), [torch.from_numpy(each) for each in incoming])
    positions = np.argsort(np.argsort(keys.detach().numpy(), 1, kind="stable"), 1)
    for ours, each in zip(got, incoming):
        np.testing.assert_array_equal(ours, np.take_along_axis(each, positions, 1))
    row = x[6].requires_grad_()
    found = bt.segmented_sort(row, torch.tensor([0, 9, 50]))
    (dx,) = torch.autograd.grad(found, row, torch.arange(50.0, dtype=row.dtype))
    positions = np.concatenate([np.argsort(np.argsort(part)) for part in np.split(row.detach().numpy(), [9])])
    np.testing.assert_array_equal(dx, positions + np.repeat([0, 9], [9, 41]))


class Sorts(torch.nn.Module):
    def forward(self, first, second, values):
        return bt.lexsort([first, second]), *bt.sort_by_key(second, values), bt.msort(values)


def test_compile_and_export():
    (first, second), values = tensors()
    want = Sorts()(first, second, values)
    compiled = torch.compile(Sorts(), fullgraph=True, backend="aot_eager", dynamic=True)
    for ours, each in zip(compiled(first, second, values), want):
        torch.testing.assert_close(ours, each, rtol=0, atol=0)
    length = torch.export.Dim("length", min=2)
    program = torch.export.export(Sorts(), (first, second, values), dynamic_shapes=({1: length},) * 3)
    fewer = [each[:, :9].contiguous() for each in (first, second, values)]
    for ours, each in zip(program.module()(*fewer), Sorts()(*fewer)):
        torch.testing.assert_close(ours, each, rtol=0, atol=0)
