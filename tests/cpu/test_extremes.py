# SPDX-License-Identifier: Apache-2.0
"""Extremes of rows on the CPU, which compares vectors in groups: NaN, infinities and zeros at any position."""

import numpy as np
import pytest

import baracuda as bk

LENGTHS = (1, 15, 16, 17, 32, 33, 127, 128, 129, 255, 257, 1000, 2048, 4097, 70000)


def rows(length, kind, rng):
    x = rng.standard_normal((6, length)).astype(np.float32)
    if kind == "infinite":
        x[rng.random(x.shape) < 0.5] = -np.inf
    if kind == "NaN":
        x[np.arange(5), rng.integers(0, length, 5)] = np.nan
        x[0] = np.nan
    return x


@pytest.mark.parametrize("name", ["max", "min"])
@pytest.mark.parametrize("kind", ["ordinary", "infinite", "NaN"])
def test_extremes(name, kind):
    rng = np.random.default_rng(3)
    for length in LENGTHS:
        x = rows(length, kind, rng)
        for axis, values in ((1, x), (0, np.ascontiguousarray(x.T)), (None, x[1:2])):
            found = getattr(bk, name)(values, axis=axis)
            np.testing.assert_array_equal(found, getattr(np, name)(values, axis=axis), err_msg=f"{length}, {axis}")
