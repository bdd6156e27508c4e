# SPDX-License-Identifier: Apache-2.0
"""Views of views: what NumPy's basic indexing, reshape, transpose and view give, on the same memory."""

import gc
import itertools
import weakref

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import baracuda as bk

SHAPES = arrays.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)


def same(view, array):
    """The view has the extents, elements and memory of NumPy's view."""
    assert view.shape == array.shape
    np.testing.assert_array_equal(np.asarray(view), array)
    if array.size:
        assert view.ptr == array.ctypes.data
        steps = [step for step, extent in zip(array.strides, array.shape) if extent > 1]
        assert [step * 4 for step, extent in zip(view.strides, view.shape) if extent > 1] == steps


def numbered(shape):
    return np.arange(np.prod(shape, dtype=int), dtype=np.float32).reshape(shape)


@given(data=st.data(), shape=SHAPES)
def test_indexing_is_that_of_numpy(data, shape):
    array = numbered(shape)
    key = data.draw(arrays.basic_indices(shape, allow_newaxis=True, max_dims=6))
    same(
        bk.tensor(array)[key], np.asarray(array[key]) if np.ndim(array[key]) else array[key].reshape(())
    ) if False else check_index(array, key)


def check_index(array, key):
    got, want = bk.tensor(array)[key], array[key]
    if isinstance(want, np.ndarray):
        same(got, want)
    else:  # NumPy copies a single element
        assert got.shape == () and np.asarray(got) == want
        assert array.ctypes.data <= got.ptr < array.ctypes.data + array.nbytes


@pytest.mark.parametrize("order", [None, *itertools.permutations(range(3))])
def test_reshape_is_a_view_where_numpy_has_one(order):
    array = numbered((4, 1, 6))
    array = array if order is None else array.transpose(order)
    for wanted in [
        (24,),
        (-1,),
        (4, 6),
        (6, 4),
        (2, 2, 6),
        (4, 2, 3),
        (2, 2, 2, 3),
        (1, 24, 1),
        (3, 2, 2, -1),
        (24, 1),
    ]:
        try:
            expected = np.reshape(array, wanted, copy=False)
        except ValueError:
            with pytest.raises(bk.InvalidProblemError, match=r"cannot be viewed as .* without a copy"):
                bk.tensor(array).reshape(*wanted)
        else:
            same(bk.tensor(array).reshape(*wanted), expected)
            same(bk.tensor(array).reshape(wanted), expected)


def test_reshape_of_broadcast_and_empty_views():
    ones = np.broadcast_to(np.float32(1), (2, 3))
    assert (bk.tensor(ones).reshape(6).shape, bk.tensor(ones).reshape(6).strides) == ((6,), (0,))
    assert bk.tensor(numbered((0, 3))).reshape(3, 0, 7).shape == (3, 0, 7)
    single = numbered(())
    same(bk.tensor(single).reshape(1, 1), single.reshape(1, 1))


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ((5,), r"shape \(5,\) for 6 elements of shape \(2, 3\)"),
        ((-1, -1), "for 6 elements"),
        ((4, -1), "for 6 elements"),
        ((-2,), "-2"),
    ],
)
def test_bad_shapes(wanted, message):
    with pytest.raises(bk.InvalidProblemError, match=message):
        bk.tensor(numbered((2, 3))).reshape(wanted)


def test_transpose():
    array = numbered((2, 3, 4))
    same(bk.tensor(array).T, array.T)
    for axes in [(0, 1, 2), (2, 0, 1), (-1, 0, -2)]:
        same(bk.tensor(array).transpose(*axes), array.transpose(axes))
    for axes in [(0, 1), (0, 0, 1), (0, 1, 3)]:
        with pytest.raises(bk.InvalidProblemError, match="axes"):
            bk.tensor(array).transpose(*axes)


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.float32, np.float64])
def test_bytes_as_another_dtype(dtype):
    array = numbered((4, 6))[::2, :4]
    view = bk.tensor(array).view(dtype)
    assert view.ptr == array.ctypes.data
    np.testing.assert_array_equal(np.asarray(view), array.view(dtype))


def test_bytes_that_are_no_elements():
    array = numbered((4, 6))
    for bad in (array[:, ::2], array[:, :3]):
        with pytest.raises(bk.InvalidProblemError, match="view"):
            bk.tensor(bad).view(bk.f64)
    with pytest.raises(bk.UnsupportedError, match="dtype"):
        bk.tensor(array).view("f33")


def test_half_bytes():
    packed = bk.TensorRef(4096, (4, 6), bk.s4)
    assert packed[1:, 2:].ptr == 4096 + 4
    assert packed.view(bk.u8).shape == (4, 3)
    assert bk.TensorRef(4096, (4, 3), bk.u8).view(bk.s4).shape == (4, 6)
    with pytest.raises(bk.InvalidProblemError, match="does not begin a byte"):
        packed[:, 1:]


@pytest.mark.parametrize(
    ("key", "message"),
    [
        (2, "index 2 of axis 0, which has extent 2"),
        ((0, -4), "index -4 of axis 1"),
        ((0, 0, 0), "3 indices for 2 axes"),
    ],
)
def test_indices_outside(key, message):
    with pytest.raises(bk.ViewIndexError, match=message) as caught:
        bk.tensor(numbered((2, 3)))[key]
    assert isinstance(caught.value, IndexError)
    assert isinstance(caught.value, bk.InvalidProblemError)


@pytest.mark.parametrize("key", [1.0, True, "a", [0, 1], np.array([0, 1]), slice("a"), slice(0, 2, 0), (..., ...)])
def test_indices_of_other_kinds(key):
    with pytest.raises(bk.InvalidProblemError):
        bk.tensor(numbered((2, 3)))[key]


def test_parts_know_their_buffer():
    view = bk.TensorRef(4096, (4, 6), bk.f32, length=24, device="cpu", readonly=True)
    part = view[2:, ::-1]
    assert (part.length, part.offset, part.device, part.readonly) == (24, 12 + 5, "cpu", True)
    assert (part.offset + part.low, part.offset + part.high) == (12, 23)


def test_parts_keep_the_memory_alive():
    array = numbered((4, 6))
    alive = weakref.ref(array)
    part = bk.tensor(array)[1:].T[0].reshape(1, -1)
    del array
    gc.collect()
    assert alive() is not None
    del part
    gc.collect()
    assert alive() is None


def test_a_view_is_not_iterated():
    with pytest.raises(TypeError):
        iter(bk.tensor(numbered((2, 3))))


def test_functions_take_parts():
    x = bk.upload(numbered((4, 6)), bk.f32)
    out = bk.zeros((6, 4), bk.f32)
    bk.exp(x[1:3, ::-2].T, out=out[::-2, 1:3])
    want = np.zeros((6, 4), np.float32)
    want[::-2, 1:3] = np.exp(numbered((4, 6))[1:3, ::-2].T)
    np.testing.assert_allclose(bk.download(out), want, rtol=1e-6)
