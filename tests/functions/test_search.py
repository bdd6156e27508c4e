# SPDX-License-Identifier: Apache-2.0
"""Searching, counting and unique elements on arrays, against NumPy."""

import itertools

import ml_dtypes
import numpy as np
import pytest

import baracuda as bk
from baracuda.search import functions

DTYPES = [np.float32, np.float64, np.int32, np.int64]


def test_every_one_is_tried_here():
    tried = {name.removeprefix("test_") for name in globals() if name.startswith("test_")}
    assert set(functions.__all__) <= tried


def numbers(rng, shape, dtype):
    """Few different ones, NaN and both zeros among floats."""
    x = np.round(rng.standard_normal(shape) * 5).astype(dtype)
    if np.dtype(dtype).kind == "f":
        x = np.where(rng.random(shape) < 0.1, np.array(np.nan, dtype), x)
        x = np.where(x == 0, rng.choice(np.array([0.0, -0.0], dtype), shape), x)
    return x


def same(got, expected):
    got, expected = np.asarray(got), np.asarray(expected)
    assert (got.dtype, got.shape) == (expected.dtype, expected.shape)
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("dtype", DTYPES)
def test_searchsorted(rng, dtype):
    ordered, values = np.sort(numbers(rng, 501, dtype)), numbers(rng, (30, 41), dtype)
    order = rng.permutation(501)
    shuffled = np.empty_like(ordered)
    shuffled[order] = ordered
    for right in (False, True):
        expected = np.searchsorted(ordered, values, "right" if right else "left")
        same(bk.searchsorted(ordered, values, right=right), expected)
        same(bk.searchsorted(shuffled, values, order, right=right), expected)
        same(bk.searchsorted(shuffled, values, order.astype(np.int32), right=right), expected.astype(np.int32))
        rows = np.sort(numbers(rng, (30, 17), dtype), axis=1)
        by_row = [np.searchsorted(row, each, "right" if right else "left") for row, each in zip(rows, values)]
        same(bk.searchsorted(rows, values, right=right), by_row)
    same(bk.searchsorted(ordered[:0], values), np.zeros(values.shape, np.int64))
    with pytest.raises(bk.InvalidProblemError, match=r"sorted_seq has shape \(3, 4\)"):
        bk.searchsorted(np.zeros((3, 4), dtype), np.zeros((2, 5), dtype))


@pytest.mark.parametrize("dtype", DTYPES)
def test_bucketize(rng, dtype):
    x, bins = numbers(rng, (9, 30), dtype), np.sort(np.nan_to_num(numbers(rng, 20, dtype)))
    for right in (False, True):  # the sides of PyTorch, which are the other way round than NumPy's
        same(bk.bucketize(x, bins, right=right), np.searchsorted(bins, x, "right" if right else "left"))


@pytest.mark.parametrize("dtype", DTYPES)
def test_digitize(rng, dtype):
    x, bins = np.nan_to_num(numbers(rng, (9, 30), dtype)), np.sort(np.nan_to_num(numbers(rng, 20, dtype)))
    for right, given in itertools.product((False, True), (bins, bins[::-1].copy(), bins[:1], bins[:0])):
        same(bk.digitize(x, given, right=right), np.digitize(x, given, right=right))
    with pytest.raises(bk.InvalidProblemError, match="must have one axis"):
        bk.digitize(x, x)


@pytest.mark.parametrize("dtype", DTYPES)
def test_isin(rng, dtype):
    x, tests = numbers(rng, (9, 30), dtype), numbers(rng, (2, 3), dtype)
    for invert in (False, True):
        same(bk.isin(x, tests, invert=invert), np.isin(x, tests, invert=invert))
        same(bk.isin(x, tests[:0], invert=invert), np.isin(x, tests[:0], invert=invert))
    same(bk.isin(x, tests, assume_unique=True), np.isin(x, tests))


def test_bincount(rng):
    for dtype in (np.int32, np.int64):
        x = rng.integers(0, 50, (40, 25)).astype(dtype)
        same(bk.bincount(x), np.bincount(x.ravel()))
        same(bk.bincount(x, minlength=70), np.bincount(x.ravel(), minlength=70))
        same(bk.bincount(x[:0]), np.bincount(x[:0].ravel()))
        same(bk.bincount(x, num_bins=10), np.bincount(x.ravel())[:10])
        negative = x - 10
        same(bk.bincount(negative), np.bincount(negative[negative >= 0]))
        weights = rng.random(x.shape)
        np.testing.assert_allclose(bk.bincount(x, weights), np.bincount(x.ravel(), weights.ravel()), 1e-13)
        got = bk.bincount(x, weights.astype(np.float32))
        assert got.dtype == np.float32
        np.testing.assert_allclose(got, np.bincount(x.ravel(), weights.ravel()), 1e-5)
    with pytest.raises(bk.InvalidProblemError, match=r"weights has shape \(3,\), expected \(4,\)"):
        bk.bincount(np.zeros(4, np.int32), np.zeros(3))


def in_range(x):
    """NumPy computes edges in the dtype of the data, unless the range is of Python's numbers: then in f64."""
    return float(x.min()), float(x.max())


@pytest.mark.parametrize("dtype", DTYPES)
def test_histogram(rng, dtype):
    x = np.nan_to_num(numbers(rng, (60, 41), dtype))
    edges = np.unique(x)[::2]
    weights = rng.random(x.shape)
    between = edges.astype(np.float64) + 0.5
    for bins, limits in ((10, None), (7, (-3, 5)), (1, (0.1, 0.9)), (edges, None), (between, None)):
        expected, at = np.histogram(x, bins, limits or (in_range(x) if isinstance(bins, int) else None))
        got, found = bk.histogram(x, bins, range=limits)
        same(got, expected)
        same(found, at)
        if expected.any():
            dense, _ = bk.histogram(x, bins, range=limits, density=True)
            np.testing.assert_allclose(dense, np.histogram(x, at, density=True)[0], 1e-5)
        summed, _ = bk.histogram(x, bins, range=limits, weights=weights)
        np.testing.assert_allclose(summed, np.histogram(x, at, weights=weights)[0], 1e-12)
    same(bk.histogram(x[:0])[0], np.zeros(10, np.int64))
    same(bk.histogram(np.ones(5, dtype), 3)[1], np.histogram(np.ones(5, dtype), 3, (1, 1))[1])
    with pytest.raises(bk.InvalidProblemError, match="range is"):
        bk.histogram(x, range=(3, -3))


def test_histogram_counts_beyond_24_bits():
    """Counts in f32 would stop at 2^24."""
    x = np.zeros(2**24 + 3, np.uint8)
    assert bk.histogram_counts(x, num_bins=2, low=0, high=2).tolist() == [2**24 + 3, 0]
    assert bk.bin_counts(x, num_bins=1).tolist() == [2**24 + 3]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_histogram_of_nan_and_edges(dtype):
    x = np.array([np.nan, -np.inf, np.inf, 0, 0.1, 0.2, 0.3, 0.7, 0.9, 1.0, -1e-30, 1.0000001], dtype)
    expected, edges = np.histogram(x[3:], 10, (0.0, 1.0))
    got, found = bk.histogram(x, 10, range=(0.0, 1.0))
    same(got, expected)
    same(found, edges)
    with pytest.raises(bk.InvalidProblemError, match="must be finite"):
        bk.histogram(x)


def test_histc(rng):
    x = rng.standard_normal((30, 40)).astype(np.float32)
    same(bk.histc(x, 20), np.histogram(x, 20, in_range(x))[0])
    same(bk.histc(x, 20, min=-1, max=2), np.histogram(x, 20, (-1.0, 2.0))[0])


@pytest.mark.parametrize("dtype", DTYPES)
def test_histogramdd(rng, dtype):
    x = np.round(rng.standard_normal((500, 3)) * 4).astype(dtype)
    weights = rng.random(500)
    limits = [in_range(column) for column in x.T]
    for bins in (4, [3, 4, 5], [3, np.array([-3, 0, 4], dtype), 2]):
        expected, edges = np.histogramdd(x, bins, limits)
        got, found = bk.histogramdd(x, bins)
        same(got, expected.astype(np.int64))
        for one, other in zip(found, edges):
            np.testing.assert_allclose(one, other, 1e-6, 1e-6)
        summed, _ = bk.histogramdd(x, bins, weights=weights)
        np.testing.assert_allclose(summed, np.histogramdd(x, bins, limits, weights=weights)[0], 1e-12)
        dense, _ = bk.histogramdd(x, bins, density=True)
        np.testing.assert_allclose(dense, np.histogramdd(x, bins, limits, density=True)[0], 1e-5)
    with pytest.raises(bk.InvalidProblemError, match="bins has 2 entries"):
        bk.histogramdd(x, [2, 3])


def test_histogram2d(rng):
    x, y = rng.standard_normal((2, 300))
    expected, *edges = np.histogram2d(x, y, [4, 5])
    got, *found = bk.histogram2d(x, y, [4, 5])
    same(got, expected.astype(np.int64))
    for one, other in zip(found, edges):
        np.testing.assert_allclose(one, other, 1e-12)


EVERYTHING = {"return_index": True, "return_inverse": True, "return_counts": True}


@pytest.mark.parametrize("dtype", DTYPES)
def test_unique(rng, dtype):
    x = numbers(rng, (30, 41), dtype)
    same(bk.unique(x), np.unique(x))
    for equal_nan in (True, False):
        for got, expected in zip(bk.unique(x, equal_nan=equal_nan, **EVERYTHING),
                                 np.unique(x, equal_nan=equal_nan, **EVERYTHING)):  # fmt: skip
            same(got, expected)
    _, counts = bk.unique(x, return_counts=True)
    same(counts, np.unique(x, return_counts=True)[1])
    same(bk.unique(x[:0]), np.unique(x[:0]))
    bits = rng.integers(0, 2, (50, 3, 2)).astype(dtype)
    for axis in (0, 1, -1):
        for got, expected in zip(bk.unique(bits, axis=axis, **EVERYTHING), np.unique(bits, axis=axis, **EVERYTHING)):
            same(got, expected.reshape(np.shape(got)))


def test_unique_of_other_dtypes(rng):
    for dtype in (np.float16, ml_dtypes.bfloat16, np.int8, np.uint8, np.uint16, np.uint32, np.uint64, np.bool_):
        x = (rng.standard_normal(300) * 3).astype(np.int64).astype(dtype)
        values, inverse = bk.unique(x, return_inverse=True)
        assert values.dtype == x.dtype
        exact = x if x.dtype.kind in "iub" else x.astype(np.float64)
        np.testing.assert_array_equal(values.astype(exact.dtype), np.unique(exact))
        np.testing.assert_array_equal(values[inverse], x)


@pytest.mark.parametrize("dtype", DTYPES)
def test_unique_consecutive(rng, dtype):
    x = np.repeat(np.nan_to_num(numbers(rng, 200, dtype)), rng.integers(1, 9, 200))
    values, inverse, counts = bk.unique_consecutive(x, return_inverse=True, return_counts=True)
    heads = np.concatenate([[True], x[1:] != x[:-1]])
    same(values, x[heads])
    same(inverse, np.cumsum(heads) - 1)
    same(counts, np.diff(np.append(np.flatnonzero(heads), len(x))))
    same(bk.unique_consecutive(x.reshape(1, -1)), x[heads])
    rows = np.repeat(rng.integers(0, 2, (20, 3)).astype(dtype), 2, axis=0)
    kept = np.concatenate([[True], (rows[1:] != rows[:-1]).any(1)])
    same(bk.unique_consecutive(rows, axis=0), rows[kept])
    same(bk.unique_consecutive(rows.T.copy(), axis=1), rows[kept].T)
    same(bk.unique_consecutive(x[:0]), x[:0])


def test_unique_consecutive_of_nan():
    x = np.array([1, np.nan, np.nan, -np.nan, 0, -0.0, 2])
    assert len(bk.unique_consecutive(x)) == 4
    assert len(bk.unique_consecutive(x, equal_nan=False)) == 6


def test_results_of_a_capacity(rng):
    """With a capacity nothing waits for the device, and what is behind the last element is 0."""
    x = np.array([3, 1, 3, 2, 1], np.int32)
    values, first, inverse, counts, count = bk.unique_padded(x, max_unique=5)
    assert (values.tolist(), first.tolist(), counts.tolist()) == ([1, 2, 3, 0, 0], [1, 3, 0, 0, 0], [2, 1, 2, 0, 0])
    assert (inverse.tolist(), int(count)) == ([2, 0, 2, 1, 0], 3)
    values, _, _, counts, count = bk.unique_padded(x, max_unique=2)
    assert (values.tolist(), counts.tolist(), int(count)) == ([1, 2], [2, 1], 3)
    assert [len(each) for each in bk.unique_padded(x)[:2]] == [3, 3]  # NumPy arrays are cut to what there is
