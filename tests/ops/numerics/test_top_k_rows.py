# SPDX-License-Identifier: Apache-2.0
"""Top-k of many rows of each length that a kernel has its limit at, ties, NaN and both zeros among them."""

import numpy as np
import pytest

import baracuda as bk

LENGTHS = (1, 4, 17, 33, 129, 257, 513, 1537)
MANY = 300  # more than two for each SM


def order(x, largest):
    """Stable: equal elements by index, NaN above all numbers."""
    keys = np.where(np.isnan(x), np.inf, x.astype(np.float64)), np.isnan(x)
    keys = tuple(-k.astype(np.float64) if largest else k for k in keys)
    return np.array([np.lexsort((value, is_nan)) for value, is_nan in zip(*keys)])


def elements(rng, dtype, length):
    x = rng.integers(-60, 60, (MANY if length > 512 else 40, length)).astype(dtype)
    if dtype is np.float32:
        x[rng.random(x.shape) < 0.02] = np.nan
        x[x == 0] *= rng.choice((-1, 1), int(np.sum(x == 0)))
    return x


@pytest.mark.parametrize(
    "dtype",
    [
        pytest.param(t, marks=pytest.mark.needs_ops(f"topk_axis_{name}"))
        for t, name in ((np.float32, "f32"), (np.int8, "i8"), (np.int64, "i64"))
    ],
)
@pytest.mark.parametrize("length", LENGTHS)
def test_rows_of_any_length(dtype, length, rng):
    x = elements(rng, dtype, length)
    for largest in (True, False):
        wanted = order(x, largest)
        for k in {(length + 2) // 3, length} if length < 512 else {20}:
            for is_sorted in (True, False):
                found = bk.topk(bk.upload(x), k, axis=1, largest=largest, sorted=is_sorted)
                values, indices = (bk.download(a) for a in found)
                first = wanted[:, :k] if is_sorted else np.sort(wanted[:, :k], axis=1)
                np.testing.assert_array_equal(indices, first)
                assert values.tobytes() == np.take_along_axis(x, first, 1).tobytes()


@pytest.mark.parametrize(
    "dtype",
    [
        pytest.param(t, marks=pytest.mark.needs_ops(f"topk_axis_{name}"))
        for t, name in ((np.float32, "f32"), (np.int8, "i8"))
    ],
)
@pytest.mark.parametrize("shape", [(2000, 21), (5, 600, 3), (16, 17)])
@pytest.mark.parametrize("kind", ["random", "better", "worse", "equal"])
def test_columns(dtype, shape, kind, rng):
    axis = len(shape) - 2
    x = np.resize(elements(rng, dtype, 500), shape)
    if kind in ("better", "worse"):  # many elements replace results, or none does
        x = np.sort(x, axis)
        x = x if kind == "better" else np.flip(x, axis)
    elif kind == "equal":
        x = np.full(shape, 3, dtype)
    x = np.ascontiguousarray(x)
    rows = np.moveaxis(x, axis, -1)
    flat = rows.reshape(-1, rows.shape[-1])
    for k in {1, min(32, flat.shape[1] // 16)}:
        wanted = order(flat, True)[:, :k]
        for is_sorted in (True, False):
            values, indices = (bk.download(a) for a in bk.topk(bk.upload(x), k, axis=axis, sorted=is_sorted))
            first = wanted if is_sorted else np.sort(wanted, axis=1)
            np.testing.assert_array_equal(np.moveaxis(indices, axis, -1).reshape(first.shape), first)
            found = np.ascontiguousarray(np.moveaxis(values, axis, -1)).reshape(first.shape)
            assert found.tobytes() == np.take_along_axis(flat, first, 1).tobytes()
