"""Rows that lie across memory go through tiles on the CPU, with the results of dense rows bit by bit."""

import numpy as np
import pytest

import baracuda as bk

# Within one chunk and beyond; of whole tiles and with some rows left; between other axes.
SHAPES = [(5, 40), (16, 16), (129, 37), (300, 16), (3, 200, 70), (2, 17, 9), (700, 8)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_softmax_as_of_dense_rows(name, shape):
    axis = len(shape) - 2
    x, dy = np.random.default_rng(0).standard_normal((2, *shape)).astype(np.float32)
    dense_x, dense_dy = (np.ascontiguousarray(each.swapaxes(axis, -1)) for each in (x, dy))
    y, dense_y = getattr(bk, name)(x, axis=axis), getattr(bk, name)(dense_x, axis=-1)
    np.testing.assert_array_equal(y, dense_y.swapaxes(axis, -1))
    backward = getattr(bk, f"{name}_backward")
    dx, dense_dx = backward(dy, y, axis=axis), backward(dense_dy, dense_y, axis=-1)
    np.testing.assert_array_equal(dx, dense_dx.swapaxes(axis, -1))


@pytest.mark.parametrize("dtype", ["i1", "i2", "f4", "f8"])
@pytest.mark.parametrize("shape", [(33, 70), (129, 257), (3, 40, 130)], ids=str)
def test_transposed_copies(shape, dtype):
    x = np.random.default_rng(0).integers(-100, 100, shape).astype(dtype)
    order = (*range(len(shape) - 2), len(shape) - 1, len(shape) - 2)
    np.testing.assert_array_equal(bk.permute(x, order), x.transpose(order))
