# SPDX-License-Identifier: Apache-2.0
"""matmul and its gradients take whatever shapes numpy.matmul takes."""

import numpy as np
import pytest

import baracuda as bk

SHAPES = [
    ((2, 1, 3, 4), (5, 4, 2)), ((2, 3, 3, 4), (3, 4, 2)), ((3, 3, 4), (2, 1, 4, 2)), ((2, 1, 3, 4), (2, 6, 4, 2)),
    ((1, 3, 4), (5, 4, 2)), ((5, 3, 4), (1, 4, 2)), ((3, 4), (2, 2, 4, 5)), ((2, 2, 3, 4), (4, 5)),
    ((2, 1, 1, 3, 4), (3, 1, 4, 2)), ((1, 1, 3, 4), (4, 2)), ((3, 4), (1, 1, 4, 2)), ((5, 3, 4), (5, 4, 2)),
    ((4,), (4,)), ((4,), (4, 2)), ((3, 4), (4,)), ((4,), (2, 3, 4, 5)), ((2, 3, 5, 4), (4,)), ((2, 1, 4), (4,)),
    ((5, 0, 3), (3, 4)), ((5, 2, 0), (0, 3)), ((0, 2, 3), (3, 4)), ((0, 2, 3), (0, 3, 4)), ((2, 3), (0, 3, 4)),
    ((0, 1, 2, 3), (5, 3, 4)), ((2, 3, 0), (2, 0, 4)), ((2, 3, 4), (2, 4, 0)), ((0,), (0,)), ((0,), (0, 3)),
    ((2, 1, 3, 0), (4, 0, 2)), ((3, 0), (0,)),
]  # fmt: skip


def columns(array):
    """Column-major matrices, with gaps in memory."""
    wide = np.zeros((*array.shape, 2), array.dtype)
    wide[..., 0] = array
    return np.swapaxes(np.swapaxes(wide[..., 0], -1, 0).copy(), 0, -1) if array.ndim > 1 else wide[..., 0]


LAYOUTS = {"dense": lambda a: a, "columns": columns, "backwards": lambda a: np.flip(np.flip(a).copy()) if a.ndim else a}


def summed(gradient, shape):
    gradient = gradient.sum(tuple(range(gradient.ndim - len(shape))))
    return gradient.sum(tuple([k for k, e in enumerate(shape) if e != gradient.shape[k]]), keepdims=True)


def gradients(dy, a, b):
    """The gradients of the sum of dy * (a @ b), by NumPy."""
    rows, others = (a if a.ndim > 1 else a[None]), (b if b.ndim > 1 else b[:, None])
    whole = dy.reshape(np.matmul(rows, others).shape)
    da, db = np.matmul(whole, np.swapaxes(others, -1, -2)), np.matmul(np.swapaxes(rows, -1, -2), whole)
    return summed(da, rows.shape).reshape(a.shape), summed(db, others.shape).reshape(b.shape)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_matmul(rng, shapes, layout):
    a, b = (LAYOUTS[layout](rng.standard_normal(shape)) for shape in shapes)
    expected = np.matmul(a, b)
    got = bk.matmul(a, b)
    assert got.shape == expected.shape
    np.testing.assert_allclose(got, expected, 1e-13, 1e-13)
    out = np.full_like(expected, 9)
    assert bk.matmul(a, b, out=out) is out
    np.testing.assert_array_equal(out, got)
    views = bk.matmul(bk.tensor(a), bk.tensor(b))
    np.testing.assert_array_equal(bk.download(views), got)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_gradients(rng, shapes, layout):
    a, b = (LAYOUTS[layout](rng.standard_normal(shape)) for shape in shapes)
    dy = rng.standard_normal(np.matmul(a, b).shape)
    wanted = gradients(dy, a, b)
    for needs in (None, (True, False), (False, True)):
        for k, (got, expected) in enumerate(zip(bk.matmul_backward(dy, a, b, needs=needs), wanted)):
            if needs is not None and not needs[k]:
                assert got is None
                continue
            assert got.shape == expected.shape
            np.testing.assert_allclose(got, expected, 1e-12, 1e-12)
    out = tuple([np.full_like(each, 9) for each in wanted])
    assert bk.matmul_backward(dy, a, b, out=out) is out
    for got, expected in zip(out, wanted):
        np.testing.assert_allclose(got, expected, 1e-12, 1e-12)
    views = bk.matmul_backward(*map(bk.tensor, (dy, a, b)))
    for got, expected in zip(views, wanted):
        np.testing.assert_allclose(bk.download(got), expected, 1e-12, 1e-12)


@pytest.mark.parametrize(("shapes", "wrong"), [
    (((2, 3, 4), (3, 4, 5)), "do not broadcast"), (((3, 4), (3, 4)), "4 and 3 summands"),
    (((), (3, 4)), "must have an axis"),
])  # fmt: skip
def test_shapes_that_do_not_fit(shapes, wrong):
    a, b = map(np.ones, shapes)
    with pytest.raises(bk.InvalidProblemError, match=f"^matmul: .*{wrong}"):
        bk.matmul(a, b)
    with pytest.raises(bk.InvalidProblemError, match=r"^matmul_backward: "):
        bk.matmul_backward(np.ones((3, 4)), a, b)
