# SPDX-License-Identifier: Apache-2.0
"""Pointwise ops whose operands have a short innermost axis, several rows of which the CPU computes at a time."""

import numpy as np
import pytest

import baracuda as bk

LENGTHS = (2, 4, 16, 17, 63, 64, 65, 255, 256, 257)
RANDOM = np.random.default_rng(31)


def random_values(*shape, dtype):
    return RANDOM.integers(-64, 64, shape).astype(dtype)


def sliced(*shape, dtype):
    """The beginning of an array that is larger by one along every axis."""
    return random_values(*(extent + 1 for extent in shape), dtype=dtype)[tuple(slice(extent) for extent in shape)]


def operands(length, dtype):
    """Arrays that broadcast to (3, rows, length), by name; there are more rows than one buffer takes."""
    rows = 4000 // length + 3
    return {
        "dense": random_values(3, rows, length, dtype=dtype),
        "row": random_values(length, dtype=dtype),
        "row of each": random_values(3, 1, length, dtype=dtype),
        "column": random_values(3, rows, 1, dtype=dtype),
        "one": random_values(1, dtype=dtype),
        "sliced": sliced(3, rows, length, dtype=dtype),
        "transposed": random_values(3, length, rows, dtype=dtype).swapaxes(1, 2),
        "apart": random_values(3, rows, 2 * length, dtype=dtype)[:, :, ::2],
        "reversed": random_values(3, rows, length, dtype=dtype)[:, ::-1, ::-1],
    }


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.float64, np.int32])
@pytest.mark.parametrize("length", LENGTHS)
def test_sums_of_views(length, dtype):
    found = operands(length, dtype)
    for name, b in found.items():
        a = found["dense"]
        np.testing.assert_array_equal(bk.add(a, b), a + b, err_msg=name)
        if b.ndim == 3 and b.shape == a.shape:
            np.testing.assert_array_equal(bk.add(b, found["row"]), b + found["row"], err_msg=name)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("length", LENGTHS)
def test_sums_into_views(length, dtype):
    """Only the output's elements are written; it may alias an input."""
    found = operands(length, dtype)
    a, b, rows = found["dense"], found["row of each"], found["dense"].shape[1]
    whole = np.full((3, rows + 1, length + 1), 7, dtype)
    for out in (whole[:, :rows, :length], np.full((3, length, rows), 7, dtype).swapaxes(1, 2)):
        bk.add(a, b, out=out)
        np.testing.assert_array_equal(out, a + b)
        expected = out - found["column"]
        bk.sub(out, found["column"], out=out)
        np.testing.assert_array_equal(out, expected)
    assert np.all(whole[:, rows] == 7) and np.all(whole[:, :, length] == 7)
