# SPDX-License-Identifier: Apache-2.0
"""GEMM with large K in every layout: errors grow with the logarithm of K, not with K.

Equal summands are the worst case: the rounding errors of a running sum have one sign, so that a sum of a million of
them, one after another, is off by thousands of units.
"""

import itertools
import math

import numpy as np
import pytest

import baracuda as bk

SIZES = [(1, 1), (1, 2), (2, 1), (3, 40), (40, 3), (8, 8), (8, 200), (12, 20), (70, 50)]
LENGTHS = (1000, 40_000, 300_001)


def stored(x, is_transposed):
    return np.ascontiguousarray(x.T).T if is_transposed else x


def bound(k, dtype):
    return 8 * math.log2(k) * np.finfo(dtype).eps


@pytest.mark.parametrize("k", LENGTHS)
@pytest.mark.parametrize(("m", "n"), SIZES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_equal_summands(m, n, k, dtype):
    a, b = np.full((m, k), 0.1, dtype), np.full((k, n), 0.3, dtype)
    want = np.longdouble(a[0, 0]) * np.longdouble(b[0, 0]) * k
    for transposed in itertools.product((False, True), repeat=2):
        got = np.asarray(bk.matmul(stored(a, transposed[0]), stored(b, transposed[1])))
        assert np.max(np.abs(got - want)) <= bound(k, dtype) * want, transposed


@pytest.mark.parametrize("k", LENGTHS)
@pytest.mark.parametrize(("m", "n"), SIZES)
def test_random_summands(rng, m, n, k):
    a, b = rng.random((m, k), np.float32), rng.random((k, n), np.float32)
    want = a.astype(np.float64) @ b.astype(np.float64)
    for transposed in itertools.product((False, True), repeat=2):
        got = np.asarray(bk.matmul(stored(a, transposed[0]), stored(b, transposed[1])))
        assert np.max(np.abs(got - want) / want) <= bound(k, np.float32), transposed


@pytest.mark.parametrize("features", [1, 2, 8, 20])
def test_gradient_of_weights(features):
    """Many rows and few features make large K and few results."""
    rows = 300_001
    dy, x = np.full((rows, 3), 0.1, np.float32), np.full((rows, features), 0.3, np.float32)
    _, dw, dbias = bk.linear_backward(dy, x, np.ones((3, features), np.float32))
    want = np.longdouble(dy[0, 0]) * np.longdouble(x[0, 0]) * rows
    assert np.max(np.abs(np.asarray(dw) - want)) <= bound(rows, np.float32) * want
    want = np.longdouble(dy[0, 0]) * rows
    assert np.max(np.abs(np.asarray(dbias) - want)) <= bound(rows, np.float32) * want


def test_ones_are_counted():
    """A running f32 sum of ones stops at 2^24."""
    k = 2**24 + 2**21
    a, b = np.ones((1, 1), np.float32), np.ones((1, 1), np.float32)
    a, b = np.broadcast_to(a, (1, k)).copy(), np.broadcast_to(b, (k, 2)).copy()
    np.testing.assert_array_equal(bk.matmul(a, b), np.float32(k))
