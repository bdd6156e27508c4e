# SPDX-License-Identifier: Apache-2.0
"""Pointwise ops whose operands have a short innermost axis, several rows of which the CPU computes at a time."""

import numpy as np
import pytest

import baracuda as bk

LENGTHS = (2, 4, 16, 17, 63, 64, 65, 255, 256, 257)
RANDOM = np.random.default_rng(31)


def numbers(*shape, dtype):
    return RANDOM.integers(-64, 64, shape).astype(dtype)


def sliced(*shape, dtype):
    """The beginning of an array that is larger by one along every axis."""
    return numbers(*(extent + 1 for extent in shape), dtype=dtype)[tuple(slice(extent) for extent in shape)]


def operands(length, dtype):
    """Arrays that broadcast to (3, rows, length), by name; there are more rows than one buffer takes."""
    lines = 4000 // length + 3
    return {
        "dense": numbers(3, lines, length, dtype=dtype),
        "row": numbers(length, dtype=dtype),
        "row of each": numbers(3, 1, length, dtype=dtype),
        "column": numbers(3, lines, 1, dtype=dtype),
        "one": numbers(1, dtype=dtype),
        "sliced": sliced(3, lines, length, dtype=dtype),
        "transposed": numbers(3, length, lines, dtype=dtype).swapaxes(1, 2),
        "apart": numbers(3, lines, 2 * length, dtype=dtype)[:, :, ::2],
        "reversed": numbers(3, lines, length, dtype=dtype)[:, ::-1, ::-1],
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
    a, b, lines = found["dense"], found["row of each"], found["dense"].shape[1]
    whole = np.full((3, lines + 1, length + 1), 7, dtype)
    for out in (whole[:, :lines, :length], np.full((3, length, lines), 7, dtype).swapaxes(1, 2)):
        bk.add(a, b, out=out)
        np.testing.assert_array_equal(out, a + b)
        expected = out - found["column"]
        bk.sub(out, found["column"], out=out)
        np.testing.assert_array_equal(out, expected)
    assert np.all(whole[:, lines] == 7) and np.all(whole[:, :, length] == 7)
