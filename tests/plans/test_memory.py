# SPDX-License-Identifier: Apache-2.0
"""Allocation and copies on the default library's backend."""

import gc
import weakref

import ml_dtypes
import numpy as np
import pytest

import baracuda as bk
from baracuda import dtypes, memory
from naming import describe


@pytest.mark.parametrize("dtype", ["f16", "f32", "f64", "s8", "u8", "i32", "i64", "u32", "bool", "c32", "c64", "bf16"])
@pytest.mark.parametrize("shape", [(), (0,), (7,), (3, 0, 2), (3, 5, 2)])
def test_round_trip(rng, dtype, shape):
    kind = dtypes.as_element(dtype)
    array = rng.integers(0, 2, shape).astype(kind.numpy_dtype)
    view = bk.upload(array)
    assert (view.dtype, view.shape, view.device) == (kind, shape, bk.default_library().backend)
    assert view.is_contiguous
    got = bk.download(view)
    assert (got.dtype, got.shape) == (array.dtype, shape)
    assert got.tobytes() == array.tobytes()


def test_empty_and_zeros():
    view = bk.empty((3, 4), bk.f16)
    assert (view.shape, view.dtype, view.length) == ((3, 4), bk.f16, 12)
    assert view.ptr % 64 == 0
    assert bk.empty(5).shape == (5,)
    assert bk.empty(np.int64(5)).dtype is bk.f32
    assert not bk.download(bk.zeros((100,), bk.i64)).any()
    assert bk.empty((0, 3)).numel == 0


@pytest.mark.parametrize("shape", ["3", -1, (2, -1), (1.5,), None], ids=describe)
def test_bad_shapes(shape):
    with pytest.raises(bk.InvalidProblemError):
        bk.empty(shape)


def test_impossible_size():
    with pytest.raises(bk.InternalError, match="bytes"):
        bk.empty((2**61,), bk.f32)


def test_conversion_and_target(rng):
    values = rng.standard_normal(1000)
    view = bk.upload(values, bk.f32)
    assert (bk.download(view) == values.astype(np.float32)).all()
    assert bk.upload(values + 1, out=view) is view
    assert (bk.download(view) == (values + 1).astype(np.float32)).all()
    assert (bk.download(bk.upload([[1, 2], [3, 4]], bk.f64)) == [[1, 2], [3, 4]]).all()
    assert (bk.download(bk.upload(values[::-2])) == values[::-2]).all()
    assert (bk.download(bk.asarray(values, bk.bf16)) == values.astype(np.float32).astype(ml_dtypes.bfloat16)).all()


def test_refused_uploads(library):
    view = bk.empty((3,), bk.f32)
    with pytest.raises(bk.InvalidProblemError, match=r"out is f32 \(3,\), the array is f32 \(4,\)"):
        bk.upload(np.zeros(4), out=view)
    with pytest.raises(bk.InvalidProblemError, match="out is f32"):
        bk.upload(np.zeros(3), bk.f64, out=view)
    strided = bk.TensorRef(view.ptr, (2,), bk.f32, (2,), device=library.backend)
    with pytest.raises(bk.UnsupportedError, match="contiguous"):
        bk.upload(np.zeros(2), out=strided)
    fixed = bk.TensorRef(view.ptr, (3,), bk.f32, device=library.backend, readonly=True)
    with pytest.raises(bk.InvalidProblemError, match="read-only"):
        bk.upload(np.zeros(3), out=fixed)
    with pytest.raises(bk.InvalidProblemError, match="read-only"):
        bk.clear(fixed)
    with pytest.raises(bk.UnsupportedError, match="contiguous"):
        bk.clear(strided)
    with pytest.raises(bk.UnsupportedError):
        bk.upload(np.zeros(3), bk.s4)
    with pytest.raises(bk.UnsupportedError):
        bk.upload(np.array(["a"]))
    with pytest.raises(bk.InvalidProblemError):
        bk.upload(np.array(["a"]), bk.f32)


def test_strided_download(rng):
    array = rng.standard_normal((4, 6)).astype(np.float32)
    base = bk.upload(array)
    reversed_rows = bk.TensorRef(base.ptr + 18 * 4, (4, 3), bk.f32, (-6, 2), device=base.device, owner=base)
    assert (bk.download(reversed_rows) == array[::-1, ::2]).all()
    broadcast = bk.TensorRef(base.ptr, (5, 6), bk.f32, (0, 1), device=base.device, owner=base)
    assert (bk.download(broadcast) == np.broadcast_to(array[0], (5, 6))).all()


def test_download_refusals():
    with pytest.raises(bk.InvalidProblemError, match="NULL"):
        bk.download(bk.TensorRef(0, (3,), bk.f32))
    with pytest.raises(bk.UnsupportedError, match="packed"):
        bk.download(bk.TensorRef(4096, (3,), bk.u4))
    with pytest.raises(bk.InvalidProblemError):
        bk.download("x")


def test_clear():
    view = bk.upload(np.ones(9))
    bk.clear(view)
    bk.synchronize()
    assert not bk.download(view).any()
    bk.clear(bk.empty((0,)))


@pytest.mark.parametrize("stream", ["x", True, -1, object()], ids=describe)
def test_streams_are_checked(stream):
    view = bk.zeros((3,))
    for call in (lambda: bk.synchronize(stream), lambda: bk.download(view, stream=stream),
                 lambda: bk.clear(view, stream=stream), lambda: bk.upload(np.zeros(3), stream=stream)):  # fmt: skip
        with pytest.raises(bk.InvalidProblemError, match=r"which is no stream|stream handle"):
            call()


def test_bf16_without_ml_dtypes(monkeypatch, rng):
    values = rng.standard_normal((4, 5)).astype(np.float32)
    monkeypatch.setattr(dtypes, "ml_dtype", lambda name: None)
    view = bk.upload(values, bk.bf16)
    assert view.dtype is bk.bf16
    got = bk.download(view)
    assert got.dtype == np.float32
    assert (got == values.astype(ml_dtypes.bfloat16).astype(np.float32)).all()


def test_memory_goes_with_the_last_view(library):
    buffer_type = memory._CudaBuffer if library.backend == "cuda" else memory._HostBuffer
    view = bk.empty((1000,))
    assert isinstance(view.owner, buffer_type)
    second = bk.TensorRef(view.ptr, (10,), bk.f32, owner=view)
    watcher = weakref.ref(view)
    del view
    gc.collect()
    assert watcher() is not None
    del second
    gc.collect()
    assert watcher() is None


class FakeRuntime:
    """Stands for cuda.bindings.runtime in memory.py, on host memory."""

    class cudaMemcpyKind:
        cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost = 1, 2

    def __init__(self):
        self.blocks, self.streams = {}, []

    def cudaMalloc(self, size):
        block = np.zeros(size, np.uint8)
        self.blocks[block.ctypes.data] = block
        return 0, block.ctypes.data

    def cudaFree(self, ptr):
        del self.blocks[ptr]
        return (0,)

    def cudaMemcpyAsync(self, target, source, nbytes, kind, stream):
        self.streams.append(stream)
        memory._host_bytes(target, nbytes)[:] = memory._host_bytes(source, nbytes)
        return (0,)

    def cudaMemsetAsync(self, target, value, nbytes, stream):
        self.streams.append(stream)
        memory._host_bytes(target, nbytes)[:] = value
        return (0,)

    def cudaStreamSynchronize(self, stream):
        self.streams.append(stream)
        return (0,)


def test_cuda_path(monkeypatch, rng):
    runtime = FakeRuntime()
    monkeypatch.setattr(memory, "cuda_runtime", lambda: runtime)
    cuda = bk.Library(None, None, "fake", {"backend": "cuda"})
    values = rng.standard_normal(10)
    view = bk.upload(values, stream=7, library=cuda)
    assert view.device == "cuda"
    assert (bk.download(view) == values).all()
    bk.clear(view)
    assert not bk.download(view).any()
    assert runtime.streams[:2] == [7, 7]
    assert set(runtime.streams[2:]) == {2}  # cudaStreamPerThread
    assert not bk.download(bk.zeros((3,), library=cuda)).any()
    assert len(runtime.blocks) == 1
    del view
    gc.collect()
    assert not runtime.blocks


def test_cuda_failures_name_the_call(monkeypatch):
    runtime = FakeRuntime()
    runtime.cudaMalloc = lambda size: (2, 0)
    monkeypatch.setattr(memory, "cuda_runtime", lambda: runtime)
    cuda = bk.Library(None, None, "fake", {"backend": "cuda"})
    with pytest.raises(bk.InternalError, match=r"cudaMalloc of 12 bytes: 2"):
        bk.empty((3,), library=cuda)


def test_arrays_of_others_as_targets(library):
    """`clear` and `upload(out=)` take any array that `tensor` views."""
    if library.backend == "cpu":
        array = np.ones((3, 4), np.float32)
        bk.clear(array)
        assert not array.any()
        assert bk.upload(np.arange(12).reshape(3, 4), out=array).ptr == array.ctypes.data
        assert array.ravel().tolist() == list(range(12))
        array.flags.writeable = False
        with pytest.raises(bk.InvalidProblemError, match="tensor is read-only"):
            bk.clear(array)
        with pytest.raises(bk.UnsupportedError, match="contiguous"):
            bk.clear(np.ones((3, 4), np.float32).T)


@pytest.mark.parametrize("target", [None, 5, "x", [1.0, 2.0], object()])
def test_invalid_targets(target):
    with pytest.raises(bk.InvalidProblemError, match=r"tensor is of type"):
        bk.clear(target)
    if target is not None:
        with pytest.raises(bk.InvalidProblemError, match=r"out is of type"):
            bk.upload(np.zeros(2, np.float32), out=target)
    for call in (bk.empty, bk.zeros):
        if target is not None:
            with pytest.raises(bk.InvalidProblemError, match=r"library is .*, must be a Library"):
                call((3,), library=target)


def test_targets_without_memory():
    with pytest.raises(bk.InvalidProblemError, match="tensor is NULL"):
        bk.clear(bk.TensorRef(0, (3,), bk.f32))
    with pytest.raises(bk.InvalidProblemError, match="out is NULL"):
        bk.upload(np.zeros(3, np.float32), out=bk.TensorRef(0, (3,), bk.f32))
    short = np.zeros(2, np.float32)
    view = bk.TensorRef(short.ctypes.data, (3,), bk.f32, length=2, device="cpu", owner=short)
    with pytest.raises(bk.BufferTooSmallError):
        bk.clear(view)
