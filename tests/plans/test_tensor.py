# SPDX-License-Identifier: Apache-2.0
"""Views: which arrays can be viewed, what a view knows, and what it refuses."""

import gc
import weakref

import ml_dtypes
import numpy as np
import pytest

import baracuda as bk
from baracuda.dtypes import as_element, bf16_from_f32, f32_from_bf16, float_bits, from_dlpack, from_typestr
from naming import describe


class CudaArray:
    """An array of another framework that claims to be on the GPU."""

    def __init__(self, **changes):
        self.__cuda_array_interface__ = {
            "version": 3, "shape": (2, 3), "typestr": "<f4", "data": (4096, False), "strides": None, **changes,
        }  # fmt: skip


class DLPack:
    """Exports a NumPy array as another framework would; `device` is what it claims."""

    def __init__(self, array, device=(1, 0), versioned=True):
        self.array, self.device, self.versioned = array, device, versioned

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, *, stream=None, max_version=None):
        if max_version is not None and not self.versioned:
            raise TypeError("unexpected keyword argument 'max_version'")
        if self.device[0] == 2:
            assert stream == -1
        return self.array.__dlpack__(max_version=max_version) if self.versioned else self.array.__dlpack__()


def test_raw_pointer():
    view = bk.TensorRef(4096, shape=(2, 3), dtype=bk.f32)
    assert (view.ptr, view.shape, view.strides, view.dtype) == (4096, (2, 3), (3, 1), bk.f32)
    assert (view.numel, view.rank, view.nbytes, view.length, view.device) == (6, 2, 24, None, None)
    assert view.byte_range == (4096, 4120)
    assert bk.tensor(view) is view
    assert bk.TensorMut is bk.TensorRef


def test_immutable():
    view = bk.TensorRef(4096, (2,), bk.f32)
    for name in ("ptr", "shape", "color"):
        with pytest.raises(AttributeError):
            setattr(view, name, 1)
    with pytest.raises(AttributeError):
        del view.ptr


def test_cells_below_the_pointer():
    view = bk.TensorRef(4096, (3, 4), bk.f64, strides=(-4, 1))
    assert (view.low, view.high) == (-8, 3)
    assert view.byte_range == (4096 - 64, 4096 + 32)


def test_scalar_and_empty():
    assert bk.TensorRef(4096, (), bk.f32).numel == 1
    empty = bk.TensorRef(0, (2, 0, 3), bk.f32)
    assert (empty.numel, empty.byte_range, empty.is_contiguous, empty.is_dense) == (0, (0, 0), True, True)
    assert int(bk.default_library().ffi.cast("uintptr_t", empty.pointer)) != 0
    assert bk.TensorRef(4096, (1,), bk.f32).pointer is not None


@pytest.mark.parametrize(
    ("shape", "strides"), [((), ()), ((5,), (1,)), ((4, 8), (8, 1)), ((2, 0, 3), (0, 3, 1)), ((0,), (1,))]
)
def test_contiguous_stride(shape, strides):
    assert bk.contiguous_stride(shape) == strides
    assert bk.TensorRef(0, shape, bk.f32, strides).is_contiguous


def test_contiguous_is_exact_dense_is_not():
    view = bk.TensorRef(4096, (1, 4), bk.f32, strides=(0, 1))
    assert not view.is_contiguous
    assert view.is_dense
    for strides in ((4, 2), (1, 4), (8, 1), (-4, 1), (0, 1)):
        assert not bk.TensorRef(4096, (4, 4), bk.f32, strides=strides).is_dense


@pytest.mark.parametrize(
    "arguments",
    [
        {"ptr": -1}, {"ptr": 2**64}, {"ptr": "4096"}, {"ptr": None}, {"ptr": 1.0}, {"ptr": True}, {"shape": 3},
        {"shape": "23"}, {"shape": (2, -3)}, {"shape": (2, 3.0)}, {"shape": (True,)}, {"shape": (2**63,)},
        {"strides": (1,)}, {"strides": (1, "1")}, {"strides": (2**63, 1)}, {"length": -1}, {"length": 1.5},
        {"offset": -1}, {"device": "tpu"}, {"dtype": 7}, {"dtype": None},
    ],
    ids=describe,
)  # fmt: skip
def test_malformed(arguments):
    with pytest.raises(bk.InvalidProblemError):
        bk.TensorRef(**{"ptr": 4096, "shape": (2, 3), "dtype": bk.f32, **arguments})


def test_numpy_view():
    array = np.arange(24, dtype=np.float32).reshape(4, 6)
    view = bk.tensor(array)
    assert (view.ptr, view.shape, view.strides, view.dtype) == (array.ctypes.data, (4, 6), (6, 1), bk.f32)
    assert (view.device, view.readonly) == ("cpu", False)
    flipped = bk.tensor(array[::-2, 1::3])
    assert flipped.ptr == array[::-2, 1::3].ctypes.data
    assert flipped.strides == (-12, 3)
    assert bk.tensor(array[:, :0]).numel == 0
    assert bk.tensor(np.float32(3).reshape(())).shape == ()


def test_read_only_numpy():
    array = np.zeros(3, np.float32)
    array.flags.writeable = False
    assert bk.tensor(array).readonly


def test_axes_of_extent_one_do_not_spoil_contiguity():
    array = np.lib.stride_tricks.as_strided(np.zeros(8, np.float32), (1, 8), (12, 4))
    assert bk.tensor(array).is_contiguous


def test_view_keeps_the_array_alive():
    array = np.zeros(1000, np.float32)
    watcher = weakref.ref(array)
    view = bk.tensor(array)
    del array
    gc.collect()
    assert watcher() is not None
    del view
    gc.collect()
    assert watcher() is None


def test_cuda_array_interface():
    view = bk.tensor(CudaArray(data=(8192, True), strides=(4, 8), typestr="<f2"))
    assert (view.ptr, view.strides, view.dtype, view.device, view.readonly) == (8192, (2, 4), bk.f16, "cuda", True)
    assert bk.tensor(CudaArray(shape=(0, 3), data=(0, False))).numel == 0


@pytest.mark.parametrize(
    "changes",
    [
        {"data": None}, {"data": (1,)}, {"data": ("a", False)}, {"shape": None}, {"shape": (-1,)}, {"typestr": None},
        {"typestr": "??"}, {"strides": 5}, {"strides": (8,)}, {"strides": ("a", "b")},
    ],
    ids=describe,
)  # fmt: skip
def test_malformed_interface(changes):
    with pytest.raises(bk.InvalidProblemError):
        bk.tensor(CudaArray(**changes), "x")


@pytest.mark.parametrize("changes", [{"typestr": ">f4"}, {"typestr": "|O"}, {"strides": (13, 4)}, {"mask": object()}])
def test_unsupported_interface(changes):
    with pytest.raises(bk.UnsupportedError, match=r"^x"):
        bk.tensor(CudaArray(**changes), "x")


@pytest.mark.parametrize("versioned", [True, False])
@pytest.mark.parametrize(
    "dtype", ["f2", "f4", "f8", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "bool", "c8", "c16"]
)
def test_dlpack(dtype, versioned):
    array = np.zeros((4, 6), dtype)[:, ::2]
    view = bk.tensor(DLPack(array, versioned=versioned))
    assert (view.ptr, view.shape, view.device) == (array.ctypes.data, (4, 3), "cpu")
    assert view.strides == (6, 2)
    assert view.dtype.numpy_dtype == array.dtype
    assert not view.readonly


def test_dlpack_keeps_memory_and_read_only_flag():
    array = np.zeros(1000, np.float32)
    watcher = weakref.ref(array)
    view = bk.tensor(DLPack(array))
    del array
    gc.collect()
    assert watcher() is not None
    del view
    gc.collect()
    assert watcher() is None
    array = np.zeros(3, np.float32)
    array.flags.writeable = False
    assert bk.tensor(DLPack(array)).readonly


@pytest.mark.parametrize(("device", "name"), [((2, 0), "cuda"), ((3, 0), None), ((13, 0), None), ((1, 0), "cpu")])
def test_dlpack_devices(device, name):
    assert bk.tensor(DLPack(np.zeros(3), device)).device == name


def test_dlpack_failures():
    with pytest.raises(bk.UnsupportedError, match=r"x: DLPack device 10"):
        bk.tensor(DLPack(np.zeros(3), (10, 0)), "x")

    class Broken(DLPack):
        def __dlpack__(self, **_):
            return object()

    class Refusing(DLPack):
        def __dlpack__(self, **_):
            raise BufferError("requires grad")

    with pytest.raises(
        bk.InvalidProblemError, match=r"x cannot be viewed: ValueError: __dlpack__ gave no DLPack capsule"
    ):
        bk.tensor(Broken(np.zeros(3)), "x")
    with pytest.raises(bk.InvalidProblemError, match=r"x cannot be viewed: BufferError: requires grad"):
        bk.tensor(Refusing(np.zeros(3)), "x")


@pytest.mark.parametrize("obj", [None, 5, "x", [1.0], object(), b"x", memoryview(b"x")], ids=describe)
def test_not_viewable(obj):
    with pytest.raises(bk.InvalidProblemError, match="x is of type"):
        bk.tensor(obj, "x")


def test_foreign_byte_order_and_objects():
    for dtype in (">f4", "O", "S3", "M8[s]", "f4,i4", "longdouble"):
        with pytest.raises(bk.UnsupportedError, match="x: dtype"):
            bk.tensor(np.zeros(3, dtype), "x")


def test_element_names():
    for kind in bk.ElementKind:
        if kind is not bk.f32_strict:
            assert as_element(kind.token) is as_element(kind.symbol) is kind
        if kind not in (bk.f32_strict, bk.s4, bk.u4, bk.b1):
            assert as_element(kind.numpy_dtype) is kind
        assert kind.nbytes(16) == 2 * kind.bits
    assert as_element(np.float16) is bk.f16
    assert as_element(ml_dtypes.bfloat16) is bk.bf16
    assert as_element("bfloat16") is bk.bf16
    assert from_typestr("<i8") is bk.i64
    assert from_dlpack(4, 16, 1) is bk.bf16
    with pytest.raises(bk.UnsupportedError):
        from_dlpack(2, 32, 4)
    assert bk.tensor(np.zeros(3, ml_dtypes.bfloat16)).dtype is bk.bf16


def test_spelling_in_symbols():
    spelled = {kind.token: kind.symbol for kind in bk.ElementKind if kind.symbol != kind.token}
    assert spelled == {"s8": "i8", "e4m3fn": "fp8e4m3", "e5m2": "fp8e5m2"}
    assert all(getattr(bk, token) is getattr(bk, symbol) for token, symbol in spelled.items())
    assert bk.i8 is bk.s8


@pytest.mark.parametrize("kind", bk.ElementKind)
def test_integer_range(kind):
    dtype = kind.numpy_dtype
    if dtype.kind in "iu" and kind not in (bk.s4, bk.u4, bk.b1):
        assert kind.integer_range == (np.iinfo(dtype).min, np.iinfo(dtype).max)
    else:
        assert kind.integer_range is None


@pytest.mark.parametrize("kind", [bk.f16, bk.bf16, bk.e4m3fn, bk.e5m2])
def test_float_bits(rng, kind):
    """Conversions of f32 values round once, as ml_dtypes does; infinities and overflow saturate in fp8."""
    random = rng.integers(0, 2**32, 5000, dtype=np.uint32).view(np.float32)
    near = (rng.standard_normal(5000) * 10.0 ** rng.integers(-8, 8, 5000)).astype(np.float32)
    special = [
        0,
        -0.0,
        np.inf,
        -np.inf,
        65504,
        65519.99,
        65520,
        448,
        464,
        480,
        57344,
        61440,
        2.0**-24,
        2.0**-25,
        2.0**-10,
    ]
    values = np.concatenate([random[~np.isnan(random)], near, np.array(special, np.float32)])
    largest = {bk.e4m3fn: 448, bk.e5m2: 57344}.get(kind, np.inf)
    with np.errstate(over="ignore"):
        expected = values.clip(-largest, largest).astype(kind.numpy_dtype).view(f"u{kind.itemsize}")
    assert [float_bits(float(value), kind) for value in values] == expected.tolist()
    nan = np.array([float_bits(float("nan"), kind)], f"u{kind.itemsize}").view(kind.numpy_dtype)
    assert np.isnan(nan.astype(np.float32)).all()


def test_float_bits_rounds_once():
    assert float_bits(1 + 2.0**-11 + 2.0**-40, bk.f16) == 0x3C01
    assert float_bits(1 + 2.0**-8 + 2.0**-40, bk.bf16) == 0x3F81
    assert float_bits(1 + 2.0**-8, bk.bf16) == 0x3F80
    assert float_bits(5e-324, bk.f16) == 0


def test_torch_dtypes_go_by_name():
    torch_dtype = type("dtype", (), {"__module__": "torch", "__str__": lambda self: "torch.bfloat16"})()
    assert as_element(torch_dtype) is bk.bf16


def test_bf16_conversion_matches_ml_dtypes(rng):
    bits = rng.integers(0, 2**32, 100_000, dtype=np.uint32)
    special = np.array([0, 0x80000000, 0x7F800000, 0xFF800000, 0x3F808000, 0x3F818000, 0x7F7FFFFF], np.uint32)
    values = np.concatenate([bits, special]).view(np.float32)
    with np.errstate(invalid="ignore"):
        expected = values.astype(ml_dtypes.bfloat16)
    got = bf16_from_f32(values)
    is_nan = np.isnan(values)
    assert (got[~is_nan] == expected.view(np.uint16)[~is_nan]).all()
    assert np.isnan(f32_from_bf16(got[is_nan])).all()
    assert (f32_from_bf16(got)[~is_nan] == expected.astype(np.float32)[~is_nan]).all()
