# SPDX-License-Identifier: Apache-2.0
"""Order statistics of rows of each length that a kernel has its limit at, ties, NaN and both zeros among them."""

import numpy as np
import pytest

import baracuda as bk

LENGTHS = (1, 2, 4, 5, 17, 33, 128, 129, 256, 257, 512, 513)
ROWS = 37


def elements(rng, dtype, length):
    x = rng.integers(-60, 60, (ROWS, length)).astype(dtype)
    if dtype is np.float32:
        x[rng.random(x.shape) < 0.02] = np.nan
        x[x == 0] *= rng.choice((-1, 1), int(np.sum(x == 0)))
    return x


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize(
    "dtype",
    [
        pytest.param(t, marks=pytest.mark.needs_ops(f"kthvalue_{name}"))
        for t, name in ((np.float32, "f32"), (np.int8, "i8"), (np.int64, "i64"))
    ],
)
@pytest.mark.parametrize("length", LENGTHS)
def test_ranks(dtype, length, axis, rng):
    x = elements(rng, dtype, length)
    order = np.argsort(x, 1, kind="stable")  # NaN is last
    for k in {0, length // 3, length - 1}:
        found = bk.kthvalue(bk.upload(np.ascontiguousarray(x if axis else x.T)), k, axis=axis)
        values, indices = (bk.download(a) for a in found)
        np.testing.assert_array_equal(indices, order[:, k])
        assert values.tobytes() == x[np.arange(ROWS), order[:, k]].tobytes()


@pytest.mark.needs_ops("nanquantile_f32")
@pytest.mark.parametrize("length", LENGTHS)
def test_many_quantiles(length, rng):
    x, q = elements(rng, np.float32, length), np.linspace(0, 1, 40)
    x[0] = np.nan
    found = bk.download(bk.nanquantile(bk.upload(x), bk.upload(q), axis=1))
    wanted = np.full((q.size, ROWS), np.nan)
    for r, row in enumerate(x.astype(np.float64)):
        if not np.isnan(row).all():
            wanted[:, r] = np.quantile(row[~np.isnan(row)], q)
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-5)
