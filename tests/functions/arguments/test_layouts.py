# SPDX-License-Identifier: Apache-2.0
"""Memory layout changes no result: each function on strided arrays, and into strided results, equals that on dense
ones."""

import itertools

import numpy as np
import pytest

import baracuda as bk
from baracuda import functions
from baracuda._functions.spec import specs
from harness.samples import sample

# elements behind their results are not written
PARTS = ("masked_select", "nonzero")


def every_second(shape, dtype):
    return np.zeros([2 * extent for extent in shape], dtype)[(..., *[slice(None, None, 2) for _ in shape])]


def backward(shape, dtype):
    return np.zeros(shape, dtype)[(..., *[slice(None, None, -1) for _ in shape])]


def columns(shape, dtype):
    return np.zeros(shape[::-1], dtype).T


def middle(shape, dtype):
    """Rows with a gap between them."""
    return np.zeros([extent + 3 for extent in shape], dtype)[(..., *[slice(1, -2) for _ in shape])]


LAYOUTS = (every_second, backward, columns, middle)


def laid(layout, array):
    if not isinstance(array, np.ndarray):
        return array
    made = layout(array.shape, array.dtype)
    made[...] = array
    return made


def agree(got, want):
    bound = 1e-12 if want.dtype == np.float64 else 2e-3
    assert (got.shape, got.dtype) == (want.shape, want.dtype)
    wide = np.complex128 if want.dtype.kind == "c" else np.float64
    np.testing.assert_allclose(got.astype(wide), want.astype(wide), rtol=bound, atol=bound)


@pytest.mark.parametrize("name", [name for name in dir(functions) if name not in PARTS])
def test_strided_arrays(name):
    spec, function = specs()[name], getattr(bk, name)
    arguments, options = sample(name).arguments(name)

    def results(given, **out):
        found = function(*given, **options, **out)
        return found if isinstance(found, tuple) else (found,)

    want = [each.copy() for each in results(arguments)]
    for layout in LAYOUTS:
        given = [laid(layout, each) for each in arguments]
        for got, expected in zip(results(given), want):
            agree(got, expected)
        for k in range(len(given)):  # one alone, as rows of two operands may have to have one layout
            mixed = [each if j != k else given[k] for j, each in enumerate(arguments)]
            for got, expected in zip(results(mixed), want):
                agree(got, expected)
    for layout, lying in itertools.product(LAYOUTS, (arguments, given)):
        into = [layout(each.shape, each.dtype) for each in want]
        try:
            results(lying, out=into[0] if len(spec.outputs) == 1 else tuple(into))
        except bk.UnsupportedError as error:  # an op that accumulates into an operand takes no copy
            assert "must be contiguous" in str(error)
            assert any(param.direction == "inout" for param in spec.row.params)
            continue
        for got, expected in zip(into, want):
            agree(got, expected)
