# SPDX-License-Identifier: Apache-2.0
"""Gradients of composite functions (baracuda/_functions/gradients/composite.py) beside PyTorch's autograd."""

import math

import pytest
import torch

import baracuda as bk
import baracuda.torch as bt


@pytest.fixture(autouse=True)
def _on_the_cpu(library):
    if library.backend == "cuda":
        bk.load(backend="cpu")


def test_gradients_of_skipped_updates():
    """The last of two updates of an element has the gradient; an index out of range has none."""
    index, updates = torch.tensor([2, 0, 2, 7, -1]), torch.rand(5, dtype=torch.float64)
    dy = torch.tensor([1.0, 2.0, 4.0, 8.0], dtype=torch.float64)
    for function, expected in {
        bt.scatter: [0, 1, 4, 0, 0], bt.put: [0, 1, 4, 0, 0], bt.scatter_add: [4, 1, 4, 0, 0],
        bt.put_add: [4, 1, 4, 0, 0], bt.index_add: [4, 1, 4, 0, 0], bt.scatter_reduce: [4, 1, 4, 0, 0],
    }.items():  # fmt: skip
        given = updates.clone().requires_grad_()
        options = {} if function in (bt.put, bt.put_add) else {"axis": 0}
        function(index, given, 4, **options).backward(dy)
        assert given.grad.tolist() == expected, function
    table = torch.rand(4, 2, dtype=torch.float64, requires_grad=True)
    bt.gather_rows(table, torch.tensor([3, 2**32 - 1, 3], dtype=torch.uint32)).backward(torch.ones(3, 2).double())
    assert table.grad.tolist() == [[0, 0]] * 3 + [[2, 2]]
    mask = torch.tensor([True, False, True, False])
    for first in (1.0, math.nan):  # indices decide, whatever the values
        source = torch.rand(4, dtype=torch.float64, requires_grad=True)
        dy[0] = first
        bt.masked_scatter(mask, source).backward(dy)
        torch.testing.assert_close(source.grad.tolist(), [first, 4.0, 0.0, 0.0], equal_nan=True)


@pytest.mark.parametrize("include_self", [False, True])
@pytest.mark.parametrize("reduce", ["sum", "prod", "mean", "amax", "amin"])
def test_gradients_of_scatter_reduce(reduce, include_self):
    x, index = torch.rand(3, 4, dtype=torch.float64), torch.tensor([[3, 1, 1, 0], [0, 2, 0, 2], [2, 1, 3, 0]])
    ours, theirs = x.clone().requires_grad_(), x.clone().requires_grad_()
    numbers = {"reduce": reduce, "include_self": include_self}
    (bt.scatter_reduce(index, ours, 4, axis=1, **numbers) ** 2).sum().backward()
    (torch.zeros(3, 4).double().scatter_reduce(1, index, theirs, **numbers) ** 2).sum().backward()
    torch.testing.assert_close(ours.grad, theirs.grad)


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("axis", [0, -1])
def test_gradients_of_sorts(axis, descending):
    """The gradient goes to that element of a tie which the stable sort took."""
    x, dy = torch.randint(-3, 3, (40, 7)).double(), torch.rand(40, 7, dtype=torch.float64)
    theirs = x.clone().requires_grad_()
    torch.sort(theirs, dim=axis, descending=descending, stable=True).values.backward(dy)
    for name in ("sort", "sort_with_indices"):
        ours = x.clone().requires_grad_()
        found = getattr(bt, name)(ours, axis=axis, descending=descending)
        (found if name == "sort" else found[0]).backward(dy)
        torch.testing.assert_close(ours.grad, theirs.grad, rtol=0, atol=0)


@pytest.mark.parametrize("half", ["", "_half"])
@pytest.mark.parametrize(
    ("name", "shape", "table"),
    [("rope_apply", (2, 3, 4), (3, 2)), ("rope_apply", (5, 2, 3, 4), (5, 2, 3, 2)), ("rope_apply", (3, 4), (3, 2)),
     ("rope_apply_thd", (3, 2, 4), (3, 2)), ("rope_apply_thd", (3, 2, 4), (2,))],
)  # fmt: skip
def test_gradients_of_tables(name, shape, table, half):
    function = getattr(bt, name + half)
    given = [torch.rand(s, dtype=torch.float64, requires_grad=True) for s in (shape, table, table)]
    assert torch.autograd.gradcheck(function, given)
    wide, cos, sin = (torch.rand(s, requires_grad=True) for s in (shape, table, table))
    function(wide.double(), cos, sin).sum().backward()  # f32 tables for f64 data
    assert cos.grad.dtype == torch.float32 and sin.grad.shape == table


def test_tables_without_gradients_hold_no_data():
    x, cos, sin = torch.rand(3, 4, requires_grad=True), torch.rand(3, 2), torch.rand(3, 2)
    y = bt.rope_apply(x, cos, sin)
    assert [saved.shape for saved in y.grad_fn.saved_tensors] == [(3, 2), (3, 2)]


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize(("alpha", "gamma"), [(0.25, 2.0), (-1.0, 0.0), (0.75, 1.5)])
def test_gradients_of_targets(reduction, alpha, gamma):
    given = [torch.randn(3, 4, dtype=torch.float64), torch.rand(3, 4, dtype=torch.float64)]
    given = [each.requires_grad_() for each in given]
    numbers = {"alpha": alpha, "gamma": gamma, "reduction": reduction}
    assert torch.autograd.gradcheck(lambda x, t: bt.sigmoid_focal_loss(x, t, **numbers), given)
    assert torch.autograd.gradcheck(lambda x, t: bt.multilabel_soft_margin_loss(x, t, reduction=reduction), given)
    x, target = torch.tensor([200.0, -200.0, 1.0]).bfloat16(), torch.tensor([1.0, 0.0, 1.0]).bfloat16().requires_grad_()
    bt.sigmoid_focal_loss(x, target).sum().backward()
    assert target.grad.isfinite().all() and target.grad.dtype == torch.bfloat16


def test_gradient_of_a_grid():
    theta = torch.rand(2, 2, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda theta: bt.affine_grid(theta, 3, 2), [theta])
    for shape, extents in (((0, 2, 3), (3, 2)), ((2, 2, 3), (0, 2))):
        theta = torch.rand(shape, dtype=torch.float64, requires_grad=True)
        bt.affine_grid(theta, *extents).sum().backward()
        assert theta.grad.eq(0).all() and theta.grad.shape == shape


@pytest.mark.parametrize("name", ["group_norm", "instance_norm"])
def test_statistics_of_16_bits(name):
    """The statistics that a gradient reads are not rounded: a 16-bit mean of 200 could be off by half a deviation."""
    x, dy = 200.3 + torch.randn(2, 4, 64), torch.randn(2, 4, 64)
    gradients = {}
    groups = () if name == "instance_norm" else (2,)
    for dtype in (torch.bfloat16, torch.float64):
        given = x.bfloat16().to(dtype).requires_grad_()
        getattr(bt, name)(given, *groups).backward(dy.bfloat16().to(dtype))
        gradients[dtype] = given.grad.double()
    torch.testing.assert_close(gradients[torch.bfloat16], gradients[torch.float64], rtol=0.02, atol=0.02)
