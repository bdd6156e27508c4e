# SPDX-License-Identifier: Apache-2.0
"""Functions that are compositions of others, against NumPy in float64."""

import inspect

import ml_dtypes
import numpy as np
import pytest

import baracuda as bk
from baracuda import composites

FLOATS = [np.float32, np.float64, np.float16, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2]


def test_every_one_is_tried_here():
    assert {f"test_{name}" for name in composites.__all__} <= set(globals())


def compared(name):
    for dtype in FLOATS:
        x = np.array([[0, -1.5, np.nan], [np.inf, -np.inf, 3]], np.float32).astype(dtype)
        got = getattr(bk, name)(x.T)
        assert got.dtype == bool
        np.testing.assert_array_equal(got, getattr(np, name)(x.T.astype(np.float64)))
    for dtype in (np.int32, np.uint8, np.bool_):
        x = np.array([0, 1, 1], dtype)
        np.testing.assert_array_equal(getattr(bk, name)(x), getattr(np, name)(x))
    out = np.zeros(3, bool)
    assert getattr(bk, name)(np.ones(3, np.float32), out=out) is out


def test_isnan():
    compared("isnan")


def test_isinf():
    compared("isinf")


def test_isfinite():
    compared("isfinite")


def product(name, x, a, b, rng):
    for dtype in (np.float32, np.float64):
        given = [rng.standard_normal(shape).astype(dtype) for shape in (x, a, b)]
        wide = [each.astype(np.float64) for each in given]
        bound = 1e-5 if dtype == np.float32 else 1e-13
        for beta, alpha in ((1.0, 1.0), (0.5, -2.0), (0.0, 3.0)):
            expected = beta * wide[0] + alpha * (wide[1] @ wide[2])
            got = getattr(bk, name)(*given, beta=beta, alpha=alpha)
            assert got.dtype == dtype
            np.testing.assert_allclose(got, expected, bound, bound)
            out = np.broadcast_to(given[0], expected.shape).copy()
            assert getattr(bk, name)(out, *given[1:], beta=beta, alpha=alpha, out=out) is out
            np.testing.assert_allclose(out, expected, bound, bound)
        unread = np.full(x, np.nan, dtype)
        assert np.isfinite(getattr(bk, name)(unread, *given[1:], beta=0)).all()


def test_addmm(rng):
    for x, a, b in (((3, 5), (3, 4), (4, 5)), ((5,), (3, 4), (4, 5)), ((3, 1), (3, 4), (4, 5)), ((), (3, 0), (0, 5))):
        product("addmm", x, a, b, rng)
    with pytest.raises(bk.InvalidProblemError, match=r"addmm: a has shape .*must be a matrix"):
        bk.addmm(np.ones(3), np.ones((2, 3, 4)), np.ones((4, 3)))
    with pytest.raises(bk.InvalidProblemError, match=r"addmm: x has shape .*must broadcast"):
        bk.addmm(np.ones(4), np.ones((3, 4)), np.ones((4, 3)))


def test_baddbmm(rng):
    for x, a, b in (((2, 3, 5), (2, 3, 4), (2, 4, 5)), ((5,), (2, 1, 3, 4), (6, 4, 5)), ((3, 5), (2, 3, 4), (4, 5))):
        product("baddbmm", x, a, b, rng)


EINSUMS = [
    ("ij,jk->ik", (3, 4), (4, 5)),
    ("ij,jk", (3, 4), (4, 5)),
    ("ij,kj->ki", (3, 4), (5, 4)),
    ("bij,bjk->bik", (2, 3, 4), (2, 4, 5)),
    ("bhqd,bhkd->bhqk", (2, 3, 4, 5), (2, 3, 6, 5)),
    ("i,j->ij", (3,), (4,)),
    ("i,i->", (5,), (5,)),
    ("i,i->i", (5,), (5,)),
    ("ijk,j->ki", (2, 3, 4), (3,)),
    ("ij,ij->", (3, 4), (3, 4)),
    ("ab,cd->dbca", (2, 3), (4, 5)),
    ("ij,k->k", (2, 3), (4,)),
    ("ij,jk->k", (3, 4), (4, 5)),
    ("ij,jk->ik", (3, 0), (0, 5)),
    ("ij,jk->ik", (0, 3), (3, 5)),
    ("ji,jk -> ik", (4, 3), (4, 5)),
]


def test_einsum(rng):
    for subscripts, *shapes in EINSUMS:
        a, b = map(rng.standard_normal, shapes)
        for first, second in ((a, b), (np.asfortranarray(a), b[::-1][::-1])):
            got, expected = bk.einsum(subscripts, first, second), np.einsum(subscripts, a, b)
            assert got.shape == expected.shape
            np.testing.assert_allclose(got, expected, 1e-12, 1e-12, err_msg=subscripts)
    for subscripts, error in (("ij,jk->iq", "of no operand"), ("ij->ji", "of two operands"), ("ij,kk->ik", "twice"),
                              ("...i,i->...", "ellipsis"), ("i,jk->ik", "2 letters|1 letters"),
                              ("ij,ik->jk", "axis 'i' has 3 elements in a and 4 in b")):  # fmt: skip
        with pytest.raises(bk.BaracudaError, match=error):
            bk.einsum(subscripts, np.ones((3, 4)), np.ones((4, 5)))


def test_index_fill():
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    for axis, index in ((0, [2, 0]), (1, [3, 3, 1]), (-1, []), (1, [-1, 9, 0])):
        expected = x.copy()
        for at in index:
            if 0 <= at < x.shape[axis]:
                np.swapaxes(expected, 0, axis)[at] = 7
        got = bk.index_fill(x, np.array(index, np.int64), 7, axis=axis)
        np.testing.assert_array_equal(got, expected)
    np.testing.assert_array_equal(x, np.arange(12).reshape(3, 4))
    out = x.copy()
    assert bk.index_fill(out, np.array([0]), -1, axis=0, out=out) is out
    assert out[0].tolist() == [-1] * 4
    with pytest.raises(bk.InvalidProblemError, match="index_fill: index has shape"):
        bk.index_fill(x, np.zeros((1, 1), np.int64), 7)


def test_index_copy(rng):
    x = rng.standard_normal((3, 4, 2))
    for axis, index in ((0, [2, 0]), (1, [3, 0, 1]), (-1, [1])):
        source = rng.standard_normal([len(index) if a == axis % 3 else e for a, e in enumerate(x.shape)])
        expected = x.copy()
        np.swapaxes(expected, 0, axis)[index] = np.swapaxes(source, 0, axis)
        np.testing.assert_array_equal(bk.index_copy(x, np.array(index), source, axis=axis), expected)
    with pytest.raises(bk.InvalidProblemError, match="index_copy: source has shape"):
        bk.index_copy(x, np.array([0]), x, axis=0)


def test_write_slice(rng):
    x = rng.standard_normal((4, 5, 3))
    for start, shape in (
        ((1, 2, 0), (2, 3, 3)),
        ((0, 0, 0), (4, 5, 3)),
        ((4, 0, 0), (0, 5, 3)),
        ((3, 4, 2), (1, 1, 1)),
    ):
        source = rng.standard_normal(shape)
        expected = x.copy()
        expected[tuple([slice(low, low + extent) for low, extent in zip(start, shape)])] = source
        for given in (x, np.asfortranarray(x)):
            np.testing.assert_array_equal(bk.write_slice(given, source, start), expected)
    out = np.asfortranarray(x)
    assert bk.write_slice(out, np.ones((1, 1, 1)), (0, 0, 0), out=out) is out
    assert out[0, 0, 0] == 1
    with pytest.raises(bk.InvalidProblemError, match=r"write_slice: source of shape .* is not within x"):
        bk.write_slice(x, np.ones((2, 5, 3)), (3, 0, 0))
    with pytest.raises(bk.InvalidProblemError, match="write_slice: source has dtype f32"):
        bk.write_slice(x, np.ones((1, 1, 1), np.float32), (0, 0, 0))


@pytest.mark.parametrize("name", ["sum", "prod", "cumsum", "cumprod"])
def test_sums_in_another_dtype(name):
    """Sums of small integers do not wrap."""
    x = np.full(300, 1 if "sum" in name else -1, np.int8)
    for dtype in (np.int64, bk.i64, "i64"):
        got = getattr(bk, name)(x, dtype=dtype)
        assert got.dtype == np.int64
        np.testing.assert_array_equal(got, getattr(np, name)(x, dtype=np.int64))
    y = np.arange(12, dtype=np.float32).reshape(3, 4)
    got = getattr(bk, name)(y, axis=1, dtype=np.float64)
    np.testing.assert_array_equal(got, getattr(np, name)(y, axis=1, dtype=np.float64))
    assert "dtype=None" in str(inspect.signature(getattr(bk, name)))
