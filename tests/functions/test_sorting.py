# SPDX-License-Identifier: Apache-2.0
"""Sorts as functions: bits of NaN and zeros, ties, and the functions that are made of sorts."""

import itertools

import ml_dtypes
import numpy as np
import pytest

import baracuda as bk
from baracuda.sorting import functions as sorting

LENGTHS = (7, 32, 100, 600, 20_000)  # sorted by lanes, by a warp, by a block, and with a workspace
FLOATS = {
    np.float32: 32, np.float64: 64, np.float16: 16, ml_dtypes.bfloat16: 16, ml_dtypes.float8_e4m3fn: 8,
    ml_dtypes.float8_e5m2: 8,
}  # fmt: skip


def stable_order(keys, descending):
    """The order of Python's sort, which is stable in both directions."""
    is_nan, value = np.isnan(keys), np.where(np.isnan(keys), 0, keys)
    return np.array(sorted(range(len(keys)), key=lambda i: (is_nan[i], value[i]), reverse=descending), np.int64)


def sorted_on_device(x, descending):
    values, indices = bk.sort_with_indices(bk.upload(x), descending=descending)
    return bk.download(values), bk.download(indices)


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("dtype", FLOATS)
def test_every_bit_moves(rng, dtype, length, descending):
    """NaN of either sign and any payload is behind all numbers, or before them, in its order; zeros of either sign are
    equal, and keep theirs."""
    word = np.dtype(f"u{FLOATS[dtype] // 8}")
    x = rng.integers(0, 2 ** FLOATS[dtype], length, word, endpoint=False).view(dtype)
    nan, zero = np.array([np.nan], dtype).view(word), word.type(0)
    sign = word.type(1 << (FLOATS[dtype] - 1))
    few = np.array([nan[0], nan[0] | sign, zero, sign], word).view(dtype)
    x = np.where(rng.random(length) < 0.4, rng.choice(few, length), x)
    with np.errstate(invalid="ignore"):  # signalling NaN
        order = stable_order(x.astype(np.float64), descending)
    values, indices = sorted_on_device(x, descending)
    np.testing.assert_array_equal(indices, order)
    np.testing.assert_array_equal(np.asarray(values).view(word), x[order].view(word))


def test_a_sort_that_is_not_stable_would_be_noticed(rng):
    """The comparison above tells equal elements apart: their order reversed is another one."""
    x = rng.choice(np.array([0.0, -0.0, 1.0], np.float32), 64)
    order = stable_order(x.astype(np.float64), False)
    backwards = len(x) - 1 - stable_order(x[::-1].astype(np.float64), False)
    assert not np.array_equal(order, backwards)


@pytest.mark.parametrize("length", LENGTHS)
def test_true_is_any_byte(rng, length):
    x = rng.integers(0, 256, length, np.uint8) * rng.integers(0, 2, length, np.uint8)
    values, indices = bk.sort_with_indices(bk.tensor(bk.upload(x.view(bool))))
    order = np.argsort(x != 0, kind="stable")
    np.testing.assert_array_equal(bk.download(indices), order)
    np.testing.assert_array_equal(np.asarray(bk.download(values)), x[order] != 0)


@pytest.mark.parametrize("length", [9, 300, 5000, 40_000])
def test_in_place(rng, length):
    for dtype in (np.float32, np.int8):
        x = rng.integers(-50, 50, (2, length)).astype(dtype)
        up = bk.upload(x)
        assert bk.sort(up, out=up) is up
        np.testing.assert_array_equal(bk.download(up), np.sort(x, -1))


def test_rows_do_not_depend_on_others(rng):
    """A row's bits are the same alone and among others."""
    for length in LENGTHS:
        x = rng.integers(-9, 9, (5, length)).astype(np.float32)
        values, indices = sorted_on_device(x, False)
        alone = sorted_on_device(x[3], False)
        np.testing.assert_array_equal(values[3], alone[0])
        np.testing.assert_array_equal(indices[3], alone[1])


def test_every_one_is_tried_here():
    assert {f"test_{name}" for name in sorting.__all__} <= set(globals())


def test_msort(rng):
    x = rng.standard_normal((6, 3, 2)).astype(np.float32)
    np.testing.assert_array_equal(bk.msort(x), np.sort(x, 0))
    np.testing.assert_array_equal(bk.msort(x, descending=True), np.sort(x, 0)[::-1])
    assert bk.msort(x, out=x) is x
    with pytest.raises(bk.InvalidProblemError, match="axis is 0"):
        bk.msort(np.float32(1).reshape(()))


def test_sort_by_key(rng):
    for axis in (0, 1, -1):
        keys = rng.integers(0, 4, (7, 9)).astype(np.int32)
        for values in (rng.standard_normal((7, 9)).astype(np.float32), rng.integers(0, 9, (7, 9)).astype(np.uint8)):
            order = np.argsort(keys, axis, kind="stable")
            found = bk.sort_by_key(keys, values, axis=axis)
            np.testing.assert_array_equal(found[0], np.take_along_axis(keys, order, axis))
            np.testing.assert_array_equal(found[1], np.take_along_axis(values, order, axis))
    rows = rng.standard_normal((9, 5)).astype(np.float32)
    order = np.argsort(-keys[0], kind="stable")
    np.testing.assert_array_equal(bk.sort_by_key(keys[0], rows, descending=True)[1], rows[order])
    with pytest.raises(bk.InvalidProblemError, match=r"sort_by_key: values has shape \(9, 7\), expected \(7, 9\)"):
        bk.sort_by_key(keys, keys.T)


def test_lexsort(rng):
    keys = [rng.integers(0, 3, (5, 40)).astype(dtype) for dtype in (np.int32, np.float32, np.uint8)]
    for axis in (0, 1):
        np.testing.assert_array_equal(bk.lexsort(keys, axis=axis), np.lexsort(keys, axis=axis))
    np.testing.assert_array_equal(bk.lexsort(keys[:1]), np.argsort(keys[0], kind="stable"))
    with pytest.raises(bk.InvalidProblemError, match="lexsort: keys is empty"):
        bk.lexsort([])
    with pytest.raises(bk.InvalidProblemError, match=r"lexsort: keys\[1\] has shape \(5,\)"):
        bk.lexsort([keys[0], keys[1][:, 0]])


OFFSETS = [[0, 0, 3, 3, 20, 50, 50], [0, 50], [0, 0, 50], [0, 50, 50], [0, *range(1, 51)]]


def test_segmented_sort(rng):
    x = rng.integers(-9, 9, 50).astype(np.float32)
    for offsets in OFFSETS:
        parts = np.split(x, offsets[1:-1])
        for dtype in (np.int32, np.int64):
            got = bk.segmented_sort(x, np.array(offsets, dtype))
            np.testing.assert_array_equal(got, np.concatenate([np.sort(part) for part in parts]))
        got = bk.segmented_sort(x, np.array(offsets), descending=True)
        np.testing.assert_array_equal(got, np.concatenate([np.sort(part)[::-1] for part in parts]))
    with pytest.raises(bk.InvalidProblemError, match=r"offsets has shape \(1, 2\), must have one axis"):
        bk.segmented_sort(x, np.array([[0, 50]]))


def test_segmented_argsort(rng):
    x = rng.integers(-3, 3, 50).astype(np.int32)
    for offsets in OFFSETS:
        ends = itertools.pairwise(offsets)
        want = [first + np.argsort(x[first:last], kind="stable") for first, last in ends]
        np.testing.assert_array_equal(bk.segmented_argsort(x, np.array(offsets)), np.concatenate(want))
    assert bk.segmented_argsort(x[:0], np.array([0, 0, 0])).shape == (0,)


@pytest.mark.parametrize("name", ["percentile", "nanpercentile"])
def test_percentiles(rng, name):
    x = rng.standard_normal((5, 7, 9))
    x[rng.random(x.shape) < 0.1] = np.nan
    ours, numpys = getattr(bk, name), getattr(np, name)
    with np.errstate(invalid="ignore"):
        for axis in (None, 0, -1, (0, 2)):
            for q in (25, 62.5, [0, 50, 100], np.array([12.5, 80])):
                for interpolation in ("linear", "lower", "higher", "midpoint", "nearest"):
                    expected = numpys(x, q, axis, method=interpolation)
                    found = ours(x, q, axis=axis, interpolation=interpolation)
                    np.testing.assert_allclose(found, expected, rtol=1e-13)
    kept = ours(x, 50, axis=1, keepdims=True)
    np.testing.assert_allclose(kept, numpys(x, 50, 1, keepdims=True), rtol=1e-13)
    np.testing.assert_array_equal(ours(x, [[10, 20], [30, 99]]), ours(x, [10, 20, 30, 99]).reshape(2, 2))
    of_integers = ours(np.arange(10), [25, 50])
    assert of_integers.dtype == np.float64
    np.testing.assert_array_equal(of_integers, [2.25, 4.5])
    assert ours(x, [], axis=0).shape == (0, 7, 9)
    np.testing.assert_array_equal(ours(x.astype(np.float32), np.float32(50)).dtype, np.float32)
    with pytest.raises(
        bk.InvalidProblemError, match=f"{name}: q is .*, must be a number, a list of numbers or an array"
    ):
        ours(x, ["half"])
