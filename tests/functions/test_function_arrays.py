# SPDX-License-Identifier: Apache-2.0
"""Functions on arrays of various libraries: results are of the kind of the first array.

PyTorch and JAX are tried where they can be imported. Stand-ins speak DLPack and the array interfaces as they do, so
that framework-independent behaviour is tried everywhere.
"""

import array
import importlib.util

import numpy as np
import pytest

import baracuda as bk
from baracuda._arrays import frameworks as kinds
from plan_tools import odd


class Namespace:
    """The functions of an array API module that Exported needs."""

    @staticmethod
    def from_dlpack(values):
        return Exported(np.from_dlpack(values))

    @staticmethod
    def asarray(values):
        return Exported(np.asarray(values))


class Exported:
    """An array of an unknown library: DLPack, and a namespace of its own."""

    def __init__(self, values):
        self.values = values

    def __dlpack_device__(self):
        return (1, 0)

    def __dlpack__(self, **options):
        return self.values.__dlpack__(**options)

    def __array_namespace__(self):
        return Namespace


class Interfaced:
    """An array with the NumPy interface only."""

    def __init__(self, values):
        self.__array_interface__ = values.__array_interface__ | {"held": values}


def numpy_of(value):
    if isinstance(value, bk.TensorRef):
        return bk.download(value)
    if isinstance(value, Exported):
        return value.values
    return np.asarray(value)


def libraries():
    """Yields (name, constructor from NumPy values, type of results)."""
    yield "numpy", lambda values: values, np.ndarray
    yield "view", bk.tensor, bk.TensorRef
    yield "namespace", Exported, Exported
    yield "interface", Interfaced, bk.TensorRef
    yield "buffer", lambda values: memoryview(values), np.ndarray
    if importlib.util.find_spec("torch"):
        import torch

        yield "torch", lambda values: torch.as_tensor(values), torch.Tensor
    if importlib.util.find_spec("jax"):
        import jax

        jax.config.update("jax_enable_x64", True)
        yield "jax", lambda values: jax.device_put(values, jax.devices("cpu")[0]), jax.Array


LIBRARIES = list(libraries())


def each():
    return pytest.mark.parametrize(
        ("make", "result"), [about[1:] for about in LIBRARIES], ids=[name for name, *_ in LIBRARIES]
    )


@pytest.fixture(autouse=True)
def _on_the_cpu(library):
    """Arrays of this file are in host memory, for which functions find the CPU library."""
    if library.backend == "cuda":
        bk.load(backend="cpu")


@each()
def test_results_are_of_the_kind_of_the_first_array(rng, make, result):
    a, b = odd(rng, (3, 4), -2, 2).astype(np.float32), odd(rng, (4,), -2, 2).astype(np.float32)
    for _ in range(2):
        got = bk.add(make(a), make(b))
        assert isinstance(got, result)
        np.testing.assert_array_equal(numpy_of(got), a + b)
    np.testing.assert_array_equal(numpy_of(bk.add(make(a), 2)), a + 2)
    np.testing.assert_array_equal(numpy_of(bk.add(2.5, make(a))), a + np.float32(2.5))
    got = bk.gt(make(a), make(b))
    assert isinstance(got, result)
    np.testing.assert_array_equal(numpy_of(got).astype(bool), a > b)


@each()
def test_strides_and_sums(rng, make, result):
    a, dy = odd(rng, (4, 3), -2, 2).T, odd(rng, (3, 4), -2, 2)[:, ::-1]
    a, dy = (np.ascontiguousarray(v) for v in (a, dy)) if result.__module__.startswith("jax") else (a, dy)
    np.testing.assert_array_equal(numpy_of(bk.neg(make(a))), -a) if not is_buffer(make) else None
    row = np.ascontiguousarray(a[0])
    da, db = bk.mul_backward(make(np.ascontiguousarray(dy)), make(np.ascontiguousarray(a)), make(row))
    assert isinstance(da, result)
    np.testing.assert_allclose(numpy_of(da), dy * row, 1e-14)
    np.testing.assert_allclose(numpy_of(db), (dy * a).sum(0), 1e-13, 1e-13)


def is_buffer(make):
    return isinstance(make(np.zeros(1)), memoryview)


@each()
def test_a_copy_and_a_cleared_result(rng, make, result):
    """C requires contiguous indices and accumulates into dweight."""
    dout, indices, offsets = odd(rng, (2, 3), -2, 2), np.array([1, 0, 1]), np.array([0, 2], np.int32)
    for _ in range(2):
        got = bk.embedding_bag_backward(make(dout), make(indices), make(offsets), 4, mode="sum")
        assert isinstance(got, result)
        assert (numpy_of(got) == np.stack([dout[0], dout[0] + dout[1], 0 * dout[0], 0 * dout[0]])).all()


@each()
def test_out(rng, make, result):
    a = odd(rng, (3, 4), -2, 2)
    out = make(np.ones((3, 4)))
    if result.__module__.startswith("jax"):
        with pytest.raises(bk.InvalidProblemError, match="out is read-only"):
            bk.neg(make(a), out=out)
        return
    for _ in range(2):
        assert bk.neg(make(a), out=out) is out
        np.testing.assert_array_equal(numpy_of(out) if not isinstance(out, Interfaced) else np.asarray(out), -a)


@each()
def test_out_of_any_strides(rng, make, result):
    """`out` may have any strides: where the op requires dense rows the result is copied there."""
    if result.__module__.startswith("jax") or is_buffer(make):
        return
    x, index = odd(rng, (12,), -2, 2), np.array([[0, 3], [11, 1]])
    whole = np.zeros((4, 6))
    out = make(whole[::2, ::3])
    for _ in range(2):
        assert bk.take(make(x), make(index), out=out) is out
        np.testing.assert_array_equal(whole[::2, ::3], x[index])
        assert np.count_nonzero(whole) <= 4
    a = odd(rng, (3, 4), -2, 2)
    out = make(np.zeros((8, 6))[::2, ::2][:3])
    assert bk.matmul(make(a), make(np.eye(4)[:, :3].copy()), out=out) is out
    np.testing.assert_allclose(numpy_of(out) if not isinstance(out, Interfaced) else np.asarray(out), a[:, :3])
    bk.nonzero(make(a), max_nz=8, out=(make(np.zeros((8, 4), np.int32)[:, ::2]), make(np.zeros((), np.int32))))
    with pytest.raises(bk.UnsupportedError, match="must be contiguous"):
        bk.put(make(index[0]), make(x[:2]), 8, out=make(np.zeros(16)[::2]))  # it keeps the other elements
    with pytest.raises(bk.InvalidProblemError, match="out"):
        both = odd(rng, (24,), -2, 2)
        bk.take(make(both), make(index), out=make(both.reshape(4, 6)[::2, ::3]))


@each()
def test_a_dtype_that_does_not_fit(make, result):
    for _ in range(2):
        with pytest.raises(bk.InvalidProblemError, match="add: b has dtype f64, expected f32"):
            bk.add(make(np.ones(3, np.float32)), make(np.ones(3)))


def test_mixed_libraries(rng):
    """Arrays of two libraries may be operands of one call if they are in memory of one device."""
    a, b = odd(rng, (3, 4), -2, 2), odd(rng, (4,), -2, 2)
    for _, first, result in LIBRARIES:
        for _, second, _ in LIBRARIES:
            got = bk.add(first(a), second(b))
            assert isinstance(got, result)
            np.testing.assert_array_equal(numpy_of(got), a + b)


def test_buffers():
    assert bk.add(array.array("f", [1, 2]), 1).tolist() == [2, 3]
    with pytest.raises(bk.InvalidProblemError, match="neg: out is read-only"):
        bk.neg(np.ones(2, np.int8), out=b"ab"[:2] and memoryview(b"ab").cast("b"))


def test_scalars_of_numpy_keep_their_dtype():
    got = bk.add(np.float32(1), np.float32([1, 2]))
    assert (got.dtype, got.tolist()) == (np.float32, [2, 3])
    with pytest.raises(bk.InvalidProblemError, match="neg: out is read-only"):
        bk.neg(np.float32(1), out=np.float32(2))


def test_the_allocator_makes_results_and_workspaces():
    taken = []

    def allocate(nbytes, backend):
        taken.append((nbytes, backend))
        return np.zeros(nbytes + 64, np.uint8)

    bk.set_allocator(allocate)
    try:
        x = bk.tensor(np.ones((4096, 8), np.float32))
        assert bk.download(bk.neg(x)).sum() == -4096 * 8
        assert taken == [(4096 * 8 * 4, "cpu")]
        frames = np.zeros((6, 2, 3), np.float32)  # NumPy makes the results and a workspace
        given = frames, np.array([[1, 2], [2, 1]]), np.array([6, 6]), np.array([2, 2])
        loss, *saved = bk.ctc_loss_forward(*given)
        assert loss < np.inf and len(taken) == 1
        assert np.isfinite(bk.ctc_loss_backward(np.ones((), np.float32), *given, *saved)).all()
        assert len(taken) == 2
    finally:
        bk.set_allocator(None)
    bk.neg(x)
    assert len(taken) == 2
    with pytest.raises(bk.InvalidProblemError, match="allocate is 5"):
        bk.set_allocator(5)


def test_an_allocator_that_gives_too_little():
    bk.set_allocator(lambda nbytes, backend: np.zeros(nbytes - 1, np.uint8))
    try:
        with pytest.raises(bk.InvalidProblemError, match="the allocator gave"):
            bk.neg(bk.tensor(np.ones(3, np.float32)))
    finally:
        bk.set_allocator(None)


def test_memory_of_several_devices():
    there = bk.TensorRef(1 << 20, (3,), bk.f32, device="cuda")
    with pytest.raises(bk.InvalidProblemError, match="add: a is in cpu memory, b is in cuda memory"):
        bk.add(np.ones(3, np.float32), there)


def test_views_that_do_not_know_their_device(library):
    """Such views belong to the default library, as do the results and numbers that become operands."""
    x = bk.upload(np.arange(3, dtype=np.float32))
    view = bk.TensorRef(x.ptr, x.shape, x.dtype, owner=x)
    for result, expected in (
        (bk.neg(view), [0, -1, -2]), (bk.add(view, 2), [2, 3, 4]), (bk.sum(view), 3),
        (bk.concatenate([view, view]), [0, 1, 2, 0, 1, 2]), (bk.repeat_interleave(view, 2), [0, 0, 1, 1, 2, 2]),
    ):  # fmt: skip
        assert result.device == library.backend
        np.testing.assert_array_equal(bk.download(result), expected)


def test_numbers_become_arrays_of_the_operands_library(library):
    """A number that becomes an operand is an array of the operands' library. JAX's have no kind of their own."""
    like = bk.upload(np.arange(3, dtype=np.float32))
    scalar = bk.tensor(kinds._Namespace(Namespace).scalar(2.5, bk.f32, like))
    assert (scalar.device, scalar.shape, scalar.dtype) == (library.backend, (), bk.f32)
    assert bk.download(scalar) == 2.5


def test_addresses_of_numpy_arrays():
    """Addresses are read from the object where its header is known, else from NumPy."""
    for kind in (kinds._NumPy(), kinds._SafeNumPy()):
        for values in (np.arange(6.0), np.arange(6.0)[::-1], np.arange(6.0)[2:].reshape(2, 2).T, np.zeros(0)):
            assert int(kinds.ffi.cast("uintptr_t", kind.pointer(values))) == values.ctypes.data
