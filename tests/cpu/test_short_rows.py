# SPDX-License-Identifier: Apache-2.0
"""The CPU computes many short dense rows in parallel SIMD lanes: results equal those of few rows, which are not."""

import numpy as np
import pytest

import baracuda as bk

FEW = 8  # so few rows use no lanes
LENGTHS = (1, 2, 3, 4, 7, 8, 15, 16, 17, 24, 31, 32)


def in_batches(call, *arrays):
    return np.concatenate([call(*(x[i : i + FEW] for x in arrays)) for i in range(0, len(arrays[0]), FEW)])


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_softmax(name, length, dtype):
    rng = np.random.default_rng(length)
    for count in (16, 100, 331):
        x, dy = rng.standard_normal((2, count, length)).astype(dtype)
        x[3], x[5, 0], x[7, -1] = -np.inf, np.inf, np.nan
        function, backward = getattr(bk, name), getattr(bk, f"{name}_backward")
        y = function(x)
        np.testing.assert_array_equal(y, in_batches(function, x))
        np.testing.assert_array_equal(backward(dy, y), in_batches(backward, dy, y))
        function(x, out=x)
        np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_rows_with_gaps(name):
    """Only the rows' elements are read and written, for rows with gaps between them."""
    function, rng = getattr(bk, name), np.random.default_rng(0)
    wide = rng.standard_normal((3, 50, 20)).astype(np.float32)
    x, out = wide[:, :, 2:14], np.full((3, 50, 15), 7, np.float32)
    function(x, out=out[:, :, 1:13])
    np.testing.assert_array_equal(out[:, :, 1:13], function(np.ascontiguousarray(x)))
    assert np.all(out[:, :, 0] == 7) and np.all(out[:, :, 13:] == 7)


@pytest.mark.parametrize("is_weighted", [False, True])
def test_cross_entropy(is_weighted):
    rng = np.random.default_rng(1)
    for classes in LENGTHS[1:]:
        x, target = rng.standard_normal((200, classes)).astype(np.float32), rng.integers(0, classes, 200)
        target[::9] = -100
        options = {"weight": rng.random(classes, dtype=np.float32) if is_weighted else None, "reduction": "none"}
        loss = bk.cross_entropy(x, target, **options)
        np.testing.assert_array_equal(loss, in_batches(lambda x, t, o=options: bk.cross_entropy(x, t, **o), x, target))
        dy = rng.standard_normal(200).astype(np.float32)
        back = lambda dy, x, t, o=options: bk.cross_entropy_backward(dy, x, t, divisor=np.ones(1), **o)  # noqa: E731
        np.testing.assert_array_equal(back(dy, x, target), in_batches(back, dy, x, target))
