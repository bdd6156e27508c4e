# SPDX-License-Identifier: Apache-2.0
"""The CPU computes strided rows in parallel SIMD lanes, with the results of dense rows bit by bit."""

import numpy as np
import pytest

import baracuda as bk

# Shapes within one tile and beyond; whole vectors and a tail of rows; the axis between others; several segments.
SHAPES = [(5, 40), (16, 16), (129, 37), (300, 16), (3, 200, 70), (2, 17, 9), (700, 8), (40, 300), (33000, 8)]


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


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_strided_lanes_and_in_place(name):
    """Lanes that are strided in one operand or in both, and results that alias their input."""
    x = np.random.default_rng(0).standard_normal((50, 80)).astype(np.float32)
    function = getattr(bk, name)
    expected = function(np.ascontiguousarray(x.T), axis=-1).T
    wide = np.repeat(x, 3, axis=1)
    np.testing.assert_array_equal(function(wide[:, ::3], axis=0), expected)
    function(wide[:, ::3], axis=0, out=wide[:, ::3])
    np.testing.assert_array_equal(wide[:, ::3], expected)
    function(x, axis=0, out=wide[:, 1::3])
    np.testing.assert_array_equal(wide[:, 1::3], expected)
    np.testing.assert_array_equal(wide[:, 2::3], x)
    function(x, axis=0, out=x)
    np.testing.assert_array_equal(x, expected)


@pytest.mark.parametrize("is_weighted", [False, True])
def test_cross_entropy_of_positions(is_weighted):
    """[N, C, d] equals [N d, C], and so does its gradient."""
    rng = np.random.default_rng(0)
    x, dy = rng.standard_normal((3, 21, 35)).astype(np.float32), rng.standard_normal((3, 35)).astype(np.float32)
    target = rng.integers(0, 21, (3, 35))
    options = {"weight": rng.random(21, dtype=np.float32) if is_weighted else None, "reduction": "none"}
    one = np.ones(1)  # only a mean divides by it
    dense, rows = np.ascontiguousarray(x.transpose(0, 2, 1)).reshape(-1, 21), target.reshape(-1)
    expected = bk.cross_entropy(dense, rows, **options)
    np.testing.assert_array_equal(bk.cross_entropy(x, target, **options).reshape(-1), expected)
    dx = bk.cross_entropy_backward(dy, x, target, divisor=one, **options)
    dense_dx = bk.cross_entropy_backward(dy.reshape(-1), dense, rows, divisor=one, **options)
    np.testing.assert_array_equal(dx, dense_dx.reshape(3, 35, 21).transpose(0, 2, 1))


@pytest.mark.parametrize("dtype", ["i1", "i2", "f4", "f8"])
@pytest.mark.parametrize("shape", [(33, 70), (129, 257), (3, 40, 130)], ids=str)
def test_transposed_copies(shape, dtype):
    x = np.random.default_rng(0).integers(-100, 100, shape).astype(dtype)
    order = (*range(len(shape) - 2), len(shape) - 1, len(shape) - 2)
    np.testing.assert_array_equal(bk.permute(x, order), x.transpose(order))
