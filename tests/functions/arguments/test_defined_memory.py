# SPDX-License-Identifier: Apache-2.0
"""Every byte that a function allocates is defined: results do not depend on what its memory contained before."""

import numpy as np
import pytest

import baracuda as bk
from baracuda import functions
from baracuda._arrays.frameworks import NUMPY
from baracuda._call import checking
from baracuda._functions.spec import specs
from harness.samples import sample

PATTERNS = (0xA5, 0x3C)
REFUSED = (bk.InvalidProblemError, bk.UnsupportedError)


@pytest.fixture
def poison(monkeypatch):
    """Makes NumPy's results and workspaces of memory that contains a pattern."""

    def set_pattern(pattern):
        def empty(shape, dtype, like=None):
            made = np.empty(shape, dtype)
            made.reshape(-1).view(np.uint8)[...] = pattern
            return made

        monkeypatch.setattr(NUMPY, "allocate", empty)
        monkeypatch.setattr(NUMPY, "empty", empty)
        for forget in checking.on_change:  # launchers cache the function that allocates
            forget()

    yield set_pattern
    monkeypatch.undo()
    for forget in checking.on_change:
        forget()


def bits_of(results):
    results = results if isinstance(results, tuple) else (results,)
    return [None if each is None else (each.shape, each.dtype, each.tobytes()) for each in results]


def agree(poison, name, arguments, options):
    """Whether the function serves the call; if so, asserts that its results do not depend on the memory's contents, on
    the first call and the second."""
    found = []
    for pattern in PATTERNS:
        poison(pattern)
        for _ in range(2):
            try:
                found.append(bits_of(getattr(bk, name)(*arguments, **options)))
            except REFUSED:
                return False
    assert all(each == found[0] for each in found), name
    return True


def without(extent, value):
    """An array without elements along axes of the given extent; other values are unchanged."""
    if isinstance(value, np.ndarray):
        return value[tuple([slice(0 if have == extent else None) for have in value.shape])]
    return value


def empties(arguments):
    """The arguments with each of their extents set to 0, and with all."""
    arrays = [each for each in arguments if isinstance(each, np.ndarray)]
    for extent in sorted({extent for each in arrays for extent in each.shape}):
        yield [without(extent, each) for each in arguments]
    for axis in (0, -1):
        yield [np.delete(each, slice(None), axis) if isinstance(each, np.ndarray) and each.ndim else each
               for each in arguments]  # fmt: skip
    for k, each in enumerate(arguments):
        if isinstance(each, np.ndarray) and each.ndim:
            yield [*arguments[:k], each[:0], *arguments[k + 1 :]]


@pytest.mark.parametrize("name", dir(functions))
def test_results_do_not_depend_on_memory(poison, name):
    arguments, options = sample(name).arguments(name)
    assert agree(poison, name, arguments, options)
    for given in empties(arguments):
        agree(poison, name, given, options)


INDEXED = [name for name, spec in specs().items() if any(a.pointer in spec.row.indexes for a in spec.arrays)]


@pytest.mark.parametrize("name", INDEXED)
def test_bad_indices_leave_no_memory(poison, name):
    spec, (arguments, options) = specs()[name], sample(name).arguments(name)
    for k, argument in enumerate(spec.positional):
        if argument.pointer not in spec.row.indexes or not isinstance(arguments[k], np.ndarray):
            continue
        limits = np.iinfo(arguments[k].dtype)
        for bad in (-1, 1000, limits.min, limits.max):
            if not limits.min <= bad:
                continue
            for at in (0, -1, slice(None)):
                wrong = arguments[k].copy()
                wrong.reshape(-1)[at] = bad
                assert agree(poison, name, [*arguments[:k], wrong, *arguments[k + 1 :]], options)


def test_a_bad_index_gives_zero():
    x = np.arange(1, 13, dtype=np.float32).reshape(3, 4)
    bad = np.array([1, -1, 7, 2])
    for index in (bad, bad.astype(np.int32)):
        assert bk.take(x, index).tolist() == [2, 0, 8, 3]
        assert bk.index_select(x, index, axis=1).tolist() == [[2, 0, 0, 3], [6, 0, 0, 7], [10, 0, 0, 11]]
        assert bk.gather(x, index[None], axis=0).tolist() == [[5, 0, 0, 12]]
    out = np.full((1, 4), 9, np.float32)
    assert bk.gather(x, bad[None], axis=0, out=out) is out
    assert out.tolist() == [[5, 9, 9, 12]]  # the caller's elements stay


def test_selections_have_what_there_is():
    x = np.array([[3, 0, 5], [0, 0, 7]], np.float32)
    chosen, count = bk.masked_select(x, x > 0)
    assert (chosen.tolist(), int(count)) == ([3, 5, 7], 3)
    table, count = bk.nonzero(x)
    assert (table.tolist(), int(count)) == ([[0, 0], [0, 2], [1, 2]], 3)
    chosen, count = bk.masked_select(x, x > 0, max_selected=5)
    assert (chosen.tolist(), int(count)) == ([3, 5, 7, 0, 0], 3)
    table, count = bk.nonzero(x, max_nz=4)
    assert (table.tolist(), int(count)) == ([[0, 0], [0, 2], [1, 2], [0, 0]], 3)
    for shape in ((0,), (3, 0)):
        nothing = np.zeros(shape, np.float32)
        assert bk.masked_select(nothing, nothing > 0)[0].shape == (0,)
        assert bk.nonzero(nothing)[0].shape == (0, len(shape))


@pytest.mark.parametrize("name", [n for n, s in specs().items() if s.layout == "norm" and len(s.outputs) > 1])
def test_statistics_of_empty_rows(name):
    """Means and what derives from them are NaN; lengths and gradients of empty rows are sums: 0."""
    spec = specs()[name]
    rows, row = np.ones((2, 0), np.float32), np.ones(0, np.float32)
    given = [row if a.name in ("gamma", "beta") else np.ones((2, 1), np.float32)
             if a.name in ("g", "mean", "inv_std", "rms") else rows for a in spec.arrays]  # fmt: skip
    for output, result in zip(spec.outputs, getattr(bk, name)(*given)):
        if not result.size:
            continue
        is_sum = output.name in ("norm", "dg") or name.endswith("_backward")
        np.testing.assert_array_equal(result, np.full((2, 1), 0 if is_sum else np.nan), output.name)


def test_batch_statistics_of_empty_batches():
    """The running statistics do not change."""
    mean, var = np.arange(4, dtype=np.float32), np.arange(2, 6, dtype=np.float32)
    for shape in ((0, 4), (3, 4, 0)):
        y, *saved, new_mean, new_var = bk.batch_norm_training(np.ones(shape, np.float32), None, None, mean, var)
        assert y.shape == shape
        assert [each.shape for each in saved] == [(4,), (4,)]
        assert np.isnan(saved).all()
        np.testing.assert_array_equal(new_mean, mean)
        np.testing.assert_array_equal(new_var, var)
        *_, new_mean, new_var = bk.batch_norm_training(np.ones(shape, np.float32))
        assert (new_mean.tolist(), new_var.tolist()) == ([0] * 4, [1] * 4)
    y, mean, inv_std = bk.group_norm_forward(np.ones((2, 4, 0), np.float32), num_groups=2)
    assert np.isnan([mean, inv_std]).all() and mean.shape == (2, 2)


@pytest.mark.parametrize("name", ["norm_p", "nanmax", "nanmin", "var_mean", "std_mean", "argmax_with_value",
                                  "argmin_with_value"])  # fmt: skip
@pytest.mark.parametrize("keepdims", [False, True])
def test_empty_reductions_return(name, keepdims):
    """Results without elements, and results of empty rows, are returned without errors."""
    for shape, axis, wanted in (((2, 3, 0), 0, (3, 0)), ((0, 3), 0, (3,)), ((2, 0, 3), 1, (2, 3)), ((2, 0), 0, (0,))):
        options = {"axis": axis, "keepdims": keepdims} | ({"p": 3.0} if name == "norm_p" else {})
        if "arg" in name and 0 not in wanted:
            with pytest.raises(bk.InvalidProblemError, match="of nothing there is no extreme"):
                getattr(bk, name)(np.ones(shape, np.float32), **options)
            continue
        results = getattr(bk, name)(np.ones(shape, np.float32), **options)
        for result in results if isinstance(results, tuple) else (results,):
            whole = tuple([1 if a == axis else e for a, e in enumerate(shape)])
            assert result.shape == (whole if keepdims else wanted)


@pytest.mark.parametrize("name", [name for name in specs() if name.endswith("_to_size_backward")])
def test_empty_gradients_return(name):
    spec = specs()[name]
    for shape, size in (((2, 3, 0), (3, 0)), ((2, 3, 0), (1, 1, 0)), ((0, 3), (3,)), ((0, 3), (0, 1))):
        values = {"x": np.ones(shape), "dy": np.ones(size), "y": np.ones(size)}
        options = {"p": 3.0} if "norm_p" in name else {}
        dx = getattr(bk, name)(*[values[a.name] for a in spec.arrays], **options)
        assert dx.shape == shape
