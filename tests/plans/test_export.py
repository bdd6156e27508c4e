# SPDX-License-Identifier: Apache-2.0
"""Views exported to other packages by DLPack, the array interfaces and NumPy's `__array__` share and keep memory."""

import gc
import importlib.util
import weakref

import ml_dtypes
import numpy as np
import pytest

import baracuda as bk
from baracuda import memory
from baracuda._arrays import capsules

NUMPY = [bk.f32, bk.f64, bk.f16, bk.i8, bk.u8, bk.i16, bk.u16, bk.i32, bk.u32, bk.i64, bk.u64, bk.bool_, bk.c32, bk.c64]
ELSEWHERE = [bk.bf16, bk.e4m3fn, bk.e5m2]
PACKED = [bk.s4, bk.u4, bk.b1]
LAYOUTS = {
    "rows": lambda a: a,
    "columns": lambda a: a.T,
    "backwards": lambda a: a[::-1, ::-2],
    "broadcast": lambda a: np.broadcast_to(a[0], (4, 5)),
    "nothing": lambda a: a[:0],
    "scalar": lambda a: a[1, 2],
}


def host_view(values, **options):
    """A TensorRef of an array's memory that does not refer to the array but keeps it alive."""
    steps = [step // values.itemsize for step in values.strides]
    of = bk.tensor(values)
    return bk.TensorRef(of.ptr, values.shape, of.dtype, steps, device="cpu", owner=values, **options)


@pytest.mark.parametrize("dtype", NUMPY, ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("take", [np.from_dlpack, np.asarray, np.array], ids=["dlpack", "interface", "copy"])
def test_numpy_reads_a_view(rng, dtype, layout, take):
    values = np.asarray(LAYOUTS[layout](rng.integers(0, 2, (4, 5)).astype(dtype.numpy_dtype)))
    got = take(host_view(values))
    assert (got.dtype, got.shape) == (values.dtype, values.shape)
    np.testing.assert_array_equal(got, values)
    if values.size:
        assert np.shares_memory(got, values) == (take is not np.array)


@pytest.mark.parametrize("dtype", ELSEWHERE, ids=str)
def test_dtypes_of_ml_dtypes_come_through_numpys_own_method(dtype):
    values = np.arange(6).reshape(2, 3).astype(dtype.numpy_dtype)
    view = host_view(values)
    assert not hasattr(view, "__array_interface__")
    got = np.asarray(view)
    assert got.dtype == values.dtype
    assert np.shares_memory(got, values)
    assert np.asarray(view, np.float32).tolist() == [[0, 1, 2], [3, 4, 5]]
    assert not np.shares_memory(np.array(view), values)


@pytest.mark.parametrize("dtype", PACKED, ids=str)
def test_packed_dtypes_have_no_export(dtype):
    view = bk.TensorRef(0x1000, (8,), dtype, device="cpu")
    with pytest.raises(bk.ExportError, match=f"DLPack has no {dtype}: export its bytes as u8"):
        view.__dlpack__(max_version=(1, 1))
    with pytest.raises(bk.ExportError, match=f"NumPy has no {dtype}: view its bytes as u8"):
        np.asarray(view)
    with pytest.raises(AttributeError, match=f"it has no {dtype}"):
        _ = view.__array_interface__
    assert issubclass(bk.ExportError, BufferError)


@pytest.mark.parametrize("dtype", [*NUMPY, *ELSEWHERE], ids=str)
@pytest.mark.parametrize("version", [None, (1, 0), (1, 1), (2, 3)], ids=str)
def test_capsules_say_what_the_view_is(dtype, version):
    view = bk.TensorRef(0x1000, (4, 3), dtype, (1, -8), device="cpu")
    if dtype in (bk.e4m3fn, bk.e5m2) and version in (None, (1, 0)):
        with pytest.raises(bk.ExportError, match=r"known to DLPack since version 1\.1"):
            view.__dlpack__(max_version=version)
        return
    read = capsules.read(view.__dlpack__(max_version=version))
    assert (read.address, read.shape, read.strides, read.readonly) == (0x1000, (4, 3), (1, -8), False)
    assert bk.dtypes.from_dlpack(*read.dtype) is dtype
    assert view.__dlpack_device__() == (1, 0)


def test_strict_f32_is_f32_elsewhere():
    view = bk.TensorRef(0x1000, (4,), bk.f32_strict, device="cpu")
    assert capsules.read(view.__dlpack__()).dtype == (2, 32, 1)
    assert view.__array_interface__["typestr"] == "<f4"


def test_what_is_read_only_stays_so():
    values = np.arange(3.0)
    view = host_view(values, readonly=True)
    assert not np.asarray(view).flags.writeable
    assert not np.from_dlpack(view).flags.writeable
    assert capsules.read(view.__dlpack__(max_version=(1, 0))).readonly
    with pytest.raises(bk.ExportError, match=r"is read-only, which DLPack tells since version 1\.0"):
        view.__dlpack__()


def test_unsupported_requests():
    view = host_view(np.arange(3.0))
    with pytest.raises(bk.ExportError, match="is exported without a copy"):
        np.from_dlpack(view, copy=True)
    with pytest.raises(bk.ExportError, match=r"lies on device \(1, 0\), and is not copied to \(2, 0\)"):
        view.__dlpack__(dl_device=(2, 0))
    with pytest.raises(bk.ExportError, match="stream is 1, must be None"):
        view.__dlpack__(stream=1)
    nowhere = bk.TensorRef(0x1000, (3,), bk.f32)
    for call in (nowhere.__dlpack_device__, nowhere.__dlpack__):
        with pytest.raises(bk.ExportError, match="says not on which device"):
            call()
    with pytest.raises(bk.ExportError, match="an unknown device: download"):
        np.asarray(nowhere)
    assert not hasattr(nowhere, "__array_interface__") and not hasattr(nowhere, "__cuda_array_interface__")
    assert not hasattr(view, "__cuda_array_interface__")


@pytest.mark.parametrize("take", [np.from_dlpack, np.asarray], ids=["dlpack", "interface"])
def test_memory_lives_as_long_as_an_array_of_it(take):
    block = memory._HostBuffer(64)
    view = bk.TensorRef(block.ptr, (16,), bk.f32, device="cpu", owner=block)
    watched = weakref.ref(view)
    array = take(view)
    array[:] = range(16)
    del view, block
    gc.collect()
    assert watched() is not None
    assert array.sum() == 120
    del array
    gc.collect()
    assert watched() is None


def test_a_capsule_that_nobody_takes_lets_go():
    def refuse(view):
        capsule = view.__dlpack__(max_version=(1, 0))
        assert capsule is not None
        raise KeyError("an exception destroys the capsule on its way")

    for version in (None, (1, 0)):
        view = host_view(np.arange(3.0))
        watched = weakref.ref(view)
        view.__dlpack__(max_version=version)
        with pytest.raises(KeyError, match="on its way"):
            refuse(view)
        with pytest.raises(Exception, match=r"(?i)dtype|type"):
            np.from_dlpack(host_view(np.arange(3).astype(ml_dtypes.bfloat16)))  # NumPy does not know bf16
        del view
        gc.collect()
        assert watched() is None


def test_memory_of_this_package(library):
    """Memory of `empty` can be used by others, with and without elements."""
    if library.backend == "cpu":
        view = bk.upload(np.arange(6.0).reshape(2, 3))
        assert np.from_dlpack(view)[1].tolist() == np.asarray(view)[1].tolist() == [3, 4, 5]
        assert np.from_dlpack(bk.empty((0, 2))).shape == np.asarray(bk.empty((0, 2))).shape == (0, 2)
        assert bk.upload(view, bk.f32).dtype is bk.f32
    assert view_of_interface(bk.zeros((2, 3)), library.backend) == ((2, 3), None)


def view_of_interface(view, backend):
    found = view.__array_interface__ if backend == "cpu" else view.__cuda_array_interface__
    return found["shape"], found["strides"]


class Runtime:
    """Stands for cuda.bindings.runtime in exports."""

    def __init__(self):
        self.calls = []

    def __getattr__(self, name):
        def call(*arguments):
            self.calls.append((name, *arguments))
            answers = {"cudaPointerGetAttributes": type("Attributes", (), {"device": 3}), "cudaGetDevice": 1,
                       "cudaEventCreateWithFlags": "event"}  # fmt: skip
            return (0, answers[name]) if name in answers else (0,)

        return call


@pytest.fixture
def runtime(monkeypatch):
    runtime = Runtime()
    monkeypatch.setattr(memory, "cuda_runtime", lambda: runtime)
    return runtime


@pytest.mark.parametrize(("stream", "waits"), [(None, []), (-1, []), (1, []), (2, []), (77, [77])])
def test_a_consumers_stream_waits(runtime, stream, waits):
    view = bk.TensorRef(0x1000, (4,), bk.f32, device="cuda")
    assert view.__dlpack_device__() == (2, 3)
    assert capsules.read(view.__dlpack__(stream=stream)).shape == (4,)
    assert [call[1] for call in runtime.calls if call[0] == "cudaStreamWaitEvent"] == waits
    assert [call[1:] for call in runtime.calls if call[0] == "cudaEventRecord"] == [("event", 2)] * len(waits)
    assert [call[1:] for call in runtime.calls if call[0] == "cudaEventDestroy"] == [("event",)] * len(waits)


def test_the_interface_of_cuda(runtime):
    view = bk.TensorRef(0x1000, (4, 2), bk.f16, (4, 1), device="cuda", readonly=True)
    expected = {"version": 3, "shape": (4, 2), "typestr": "<f2", "data": (0x1000, True), "strides": (8, 2), "stream": 2}
    assert view.__cuda_array_interface__ == expected
    assert not hasattr(view, "__array_interface__")
    assert not hasattr(bk.TensorRef(0x1000, (4,), bk.bf16, device="cuda"), "__cuda_array_interface__")
    with pytest.raises(bk.ExportError, match="lies on cuda: download"):
        np.asarray(view)
    assert bk.empty(0, bk.f32).numel == 0
    assert bk.TensorRef(0, (0,), bk.f32, device="cuda").__dlpack_device__() == (2, 1)


if importlib.util.find_spec("torch"):
    import torch

    @pytest.mark.parametrize("dtype", [bk.f32, bk.bf16, bk.i64, bk.bool_, bk.c32, bk.f16], ids=str)
    def test_torch_shares_the_memory(dtype):
        values = np.array([[1, 0, 1], [0, 1, 1]]).astype(dtype.numpy_dtype)
        view = host_view(values)
        got = torch.from_dlpack(view)
        assert bk.dtypes.as_element(got.dtype) is dtype
        assert got.data_ptr() == values.ctypes.data
        assert got.tolist() == values.tolist()
        del view
        gc.collect()
        values[0, 1] = 1
        assert got.tolist() == values.tolist()
