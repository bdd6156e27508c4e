# SPDX-License-Identifier: Apache-2.0
"""Runs with new operands each time: checks are cached by what cannot change, and repeated for what can."""

import importlib.util
import weakref

import numpy as np
import pytest

import baracuda as bk

SHAPE = (3, 4)


@pytest.fixture
def add():
    of = bk.BinaryDescriptor(kind=bk.BinaryKind.ADD, shape=SHAPE, element=bk.f32)
    return bk.BinaryPlan.select(None, of, backend="cpu")


def run(plan, a, b, y):
    plan.run(None, None, bk.BinaryArgs(a=a, b=b, y=y))


def array(rng, shape=SHAPE):
    return rng.standard_normal(shape).astype(np.float32)


MAKERS = {
    "numpy": lambda values: values,
    "views": bk.tensor,
    "addresses": lambda v: bk.TensorRef(
        v.ctypes.data, v.shape, bk.f32, [s // 4 for s in v.strides], device="cpu", owner=v
    ),
}
if importlib.util.find_spec("torch"):
    import torch

    MAKERS["torch"] = lambda values: torch.as_tensor(values)


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_every_run_has_its_own_addresses(rng, add, make):
    kept = []
    for _ in range(4):
        for transposed in (False, True):
            a, b, y = array(rng), array(rng, (1, 4)), np.zeros(SHAPE[::-1], np.float32).T
            a = np.asfortranarray(a) if transposed else a
            run(add, make(a), make(b), make(y))
            kept.append((a, b, y))
    for a, b, y in kept:
        np.testing.assert_array_equal(y, a + b)


def test_one_view_for_two_operands(rng, add):
    for _ in range(3):
        a, y = bk.tensor(array(rng)), np.zeros(SHAPE, np.float32)
        run(add, a, a, y)
        np.testing.assert_array_equal(y, 2 * np.asarray(a))
        b = array(rng)
        run(add, a, b, y)
        np.testing.assert_array_equal(y, np.asarray(a) + b)
        expected = np.asarray(a) + b
        run(add, a, b, a)
        np.testing.assert_array_equal(np.asarray(a), expected)


def test_bad_addresses(rng, add):
    """An earlier run with operands of the same layout and dtype does not hide a bad address."""
    good = [array(rng) for _ in range(3)]
    block = np.zeros(40, np.float32)
    shifted = block.view(np.uint8)[1:49].view(np.float32).reshape(SHAPE)
    fixed = np.zeros(SHAPE, np.float32)
    fixed.flags.writeable = False
    null = bk.TensorRef(0, SHAPE, bk.f32, device="cpu")
    for _ in range(2):
        run(add, *good)
        with pytest.raises(bk.InvalidProblemError, match="y overlaps a, must be identical with it or apart"):
            run(add, block[:12].reshape(SHAPE), good[1], block[4:16].reshape(SHAPE))
        with pytest.raises(bk.MisalignedOperandError, match="b is at"):
            run(add, good[0], shifted, good[2])
        with pytest.raises(bk.InvalidProblemError, match="y is read-only"):
            run(add, good[0], good[1], fixed)
        with pytest.raises(bk.InvalidProblemError, match="a is NULL"):
            run(add, null, good[1], good[2])
        with pytest.raises(bk.InvalidProblemError, match="b has dtype f64"):
            run(add, good[0], good[1].astype(np.float64), good[2])
        with pytest.raises(bk.InvalidProblemError, match="a is in cuda memory"):
            run(add, bk.TensorRef(0x1000, SHAPE, bk.f32, device="cuda"), good[1], good[2])
        short = bk.TensorRef(good[0].ctypes.data, SHAPE, bk.f32, length=5, device="cpu", owner=good[0])
        with pytest.raises(bk.BufferTooSmallError):
            run(add, short, good[1], good[2])


def test_the_cache_is_bounded(rng):
    plan = bk.UnaryPlan.select(
        None, bk.UnaryDescriptor(kind=bk.UnaryKind.NEG, shape=(2,), element=bk.f32), backend="cpu"
    )
    for step in range(1, 400):
        x, y = np.ones(2 * step, np.float32)[::step], np.zeros(2, np.float32)
        plan.run(None, None, bk.UnaryArgs(x=x, y=y))
        assert y.tolist() == [-1, -1]
    assert len(plan._known) <= 256


@pytest.mark.parametrize(
    "layout", [lambda v: v, lambda v: v.T, lambda v: v[::-2, 1:], lambda v: v[:0], lambda v: v[:1]]
)
def test_a_second_view_is_like_the_first(rng, layout):
    fields = ("shape", "strides", "dtype", "device", "length", "offset", "numel", "low", "high", "readonly")
    for dtype in (np.float32, np.int8, np.float64):
        seen = []
        for _ in range(3):
            values = layout(rng.integers(0, 9, (4, 5)).astype(dtype))
            view = bk.tensor(values)
            assert (view.ptr, view.owner is values) == (values.ctypes.data, view.owner is values)
            assert view.owner is values or np.shares_memory(view.owner, values) or not values.size
            seen.append([getattr(view, name) for name in fields])
            np.testing.assert_array_equal(bk.download(view), values)
        assert seen[0] == seen[1] == seen[2]


def test_a_second_view_is_as_immutable():
    for _ in range(2):
        view = bk.tensor(np.ones((7, 3), np.float32))
        assert type(view) is bk.TensorRef
        with pytest.raises(AttributeError, match="immutable"):
            view.ptr = 0
        with pytest.raises(AttributeError, match="immutable"):
            del view.shape
        assert weakref.ref(view)() is view
    fixed = np.ones((7, 3), np.float32)
    fixed.flags.writeable = False
    assert bk.tensor(fixed).readonly and not bk.tensor(fixed.copy()).readonly


def test_cached_layouts_hold_no_views():
    values = np.ones((9, 11, 2), np.float32)
    watched = weakref.ref(values)
    bk.tensor(values)
    del values
    assert watched() is None


if importlib.util.find_spec("torch"):

    def test_tensors_of_a_sort_that_is_known():
        for _ in range(2):
            assert bk.tensor(torch.ones(5, 3)).shape == (5, 3)
            with pytest.raises(bk.InvalidProblemError, match="require gradient"):
                bk.tensor(torch.ones(5, 3, requires_grad=True))
            x = torch.ones(5, 3)
            assert bk.tensor(x.T).strides == (1, 3) and bk.tensor(x).ptr == x.data_ptr()
        conjugate = torch.ones(2, dtype=torch.complex64).conj()
        with pytest.raises(bk.InvalidProblemError, match=r"(?i)conj"):
            bk.tensor(conjugate)
