# SPDX-License-Identifier: Apache-2.0
"""Array frameworks: cache keys, data pointers and streams of their arrays, and allocation of results.

NumPy, PyTorch and CuPy arrays and TensorRefs are read directly. Other arrays with DLPack or an array interface are read
through a TensorRef; results then belong to their array namespace or, if they have none, are TensorRefs.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable, Hashable
from typing import Any

import numpy as np

from baracuda import memory
from baracuda._call import checking
from baracuda._call.scalars import as_integer
from baracuda._ffi import ffi
from baracuda._library.loader import Library, default_library, load
from baracuda.dtypes import ElementKind
from baracuda.errors import InvalidProblemError, UnsupportedError, naming
from baracuda.tensor import TensorRef, contiguous_stride, tensor

_VOID = ffi.typeof("void *")
_WORDS = ffi.typeof("void **")
SCALARS = (bool, int, float)
Allocator = Callable[[int, str], object]
_allocator: Allocator | None = None


def set_allocator(allocate: Allocator | None) -> None:
    """Have `allocate(nbytes, backend)`, backend being "cpu" or "cuda", make workspaces and the results of functions on
    arrays that no framework allocates for. It returns anything that `tensor` can view, of at least that many bytes,
    aligned to 16 or more. None restores the frameworks' own allocators.
    """
    global _allocator
    if allocate is not None and not callable(allocate):
        raise InvalidProblemError(f"allocate is {allocate!r}, must be callable or None")
    _allocator = allocate
    for forget in checking.on_change:  # launchers, whose workspaces are of another allocator
        forget()


class Framework:
    """One array framework. `key` is all that a call depends on of an array, except its address.

    These class attributes are source text for the generated launch functions (launch.py), in which `framework` is this
    object:

    address       C pointer of the array {0}
    make          allocates an array; the text calls `allocate` by the name `empty`
    make_scratch  allocates a workspace
    stream_now    handle of the framework's current stream on the device of {like}
    is_elsewhere  whether {like} is on another device than the current one
    """

    address = "framework.pointer({0})"
    make = "framework.empty({shape}, {native}, {like})"
    make_scratch = ""  # as `make` does
    stream_now = ""
    is_elsewhere = ""
    allocate: Callable[..., Any] | None = None

    def on(self, backend: str) -> Framework:
        """The framework of results of a call to this backend's library."""
        return self

    def key(self, array: Any) -> Hashable:
        raise NotImplementedError

    def pointer(self, array: Any) -> Any:
        raise NotImplementedError

    def view(self, array: Any, name: str) -> TensorRef:
        return tensor(array, name)

    def native(self, dtype: ElementKind, like: Any) -> Any:
        """The framework's dtype."""
        return dtype.numpy_dtype

    def empty(self, shape: tuple[int, ...], native: Any, like: Any) -> Any:
        raise NotImplementedError

    def make_argument(self, shape: tuple[int, ...], native: Any, like: Any) -> Any:
        """The argument for {native} in `make`."""
        return native

    def bytes(self, count: int, like: Any) -> Any:
        """`count` bytes on the device of `like`."""
        return self.empty((count,), self.native(ElementKind.U8, like), like)

    def scratch(self, count: int, like: Any) -> Any:
        """The workspace of a call."""
        return self.bytes(count, like)

    def scalar(self, value: Any, dtype: ElementKind, like: Any) -> Any:
        """An array of rank 0 on the device of `like`."""
        with np.errstate(over="ignore"):  # infinity, as NumPy's own conversions give it
            return np.array(value, dtype.numpy_dtype)

    def constant(self, value: Any, dtype: ElementKind, like: Any) -> Any:
        """A scalar that is only read."""
        return self.scalar(value, dtype, like)

    def contiguous(self, array: Any) -> Any:
        """The array, or a copy of it, in row-major order."""
        raise UnsupportedError("operands of this function must be contiguous")

    def permuted(self, array: Any, order: tuple[int, ...]) -> Any:
        """A view of the array with permuted axes."""
        return array.transpose(order)

    def broadcast_to(self, array: Any, shape: tuple[int, ...]) -> Any:
        """A view of the array that is broadcast to a shape."""
        return np.broadcast_to(array, shape)

    def reshaped(self, array: Any, shape: tuple[int, ...]) -> Any:
        """The array in another shape, row-major; a copy if no view has that shape."""
        return array.reshape(shape)

    def copy(self, target: Any, source: Any) -> None:
        """Refresh a copy that `contiguous` made, when a graph replays."""
        target[...] = source

    def zero(self, array: Any) -> None:
        """Set every element to 0, in stream order."""
        raise NotImplementedError

    def fill(self, array: Any, value: float) -> None:
        """Set every element to a number, in stream order."""
        array[...] = value

    def stream(self, like: Any) -> int:
        """Handle of the framework's current stream."""
        return 0

    def guard(self, like: Any) -> contextlib.AbstractContextManager[Any]:
        """Makes the array's device the current one."""
        return contextlib.nullcontext()

    def finish(self, result: Any) -> Any:
        """The caller's array for one that `empty` made."""
        return result


class _NumPy(Framework):
    address = "cast(WORDS, id({0}))[2]"  # PyArrayObject: object header, then char *data
    make = "empty({shape}, {native})"
    allocate = staticmethod(np.empty)

    def key(self, array: Any) -> Hashable:
        return array.dtype, array.shape, array.strides

    def pointer(self, array: Any) -> Any:
        return ffi.cast(_WORDS, id(array))[2]

    def empty(self, shape: tuple[int, ...], native: Any, like: Any) -> Any:
        return np.empty(shape, native)

    def contiguous(self, array: Any) -> Any:
        return np.ascontiguousarray(array).reshape(array.shape)

    def zero(self, array: Any) -> None:
        array[...] = 0


class _SafeNumPy(_NumPy):
    """NumPy in interpreters whose object header differs, such as a debug build of Python."""

    address = "cast(VOID, {0}.ctypes.data)"

    def pointer(self, array: Any) -> Any:
        return ffi.cast(_VOID, array.ctypes.data)


def _numpy_framework() -> Framework:
    probe = np.zeros(3, np.float32)[1:]
    fast = _NumPy()
    has_header = sys.implementation.name == "cpython" and object.__basicsize__ == 16
    return fast if has_header and int(ffi.cast("uintptr_t", fast.pointer(probe))) == probe.ctypes.data else _SafeNumPy()


class _Torch(Framework):
    address = "cast(VOID, {0}.data_ptr())"
    make = "{native}()"
    stream_now = "framework.raw_stream({like}.get_device())"
    is_elsewhere = "framework.current_device() != {like}.get_device()"

    def __init__(self, torch: Any) -> None:
        self.torch = torch
        self.current_device = torch.cuda.current_device
        self.raw_stream = getattr(torch._C, "_cuda_getCurrentRawStream", None) or self._slow_stream
        self.grad = torch.is_grad_enabled
        self.dtypes = {
            ElementKind.F16: torch.float16, ElementKind.BF16: torch.bfloat16, ElementKind.F32: torch.float32,
            ElementKind.F64: torch.float64, ElementKind.S8: torch.int8, ElementKind.U8: torch.uint8,
            ElementKind.I16: torch.int16, ElementKind.I32: torch.int32, ElementKind.I64: torch.int64,
            ElementKind.BOOL: torch.bool, ElementKind.COMPLEX32: torch.complex64,
            ElementKind.COMPLEX64: torch.complex128,
        }  # fmt: skip
        for element in (ElementKind.U16, ElementKind.U32, ElementKind.U64, ElementKind.FP8_E4M3, ElementKind.FP8_E5M2):
            if (
                found := getattr(torch, element.numpy_dtype.name if element.bits > 8 else _FP8[element], None)
            ) is not None:
                self.dtypes[element] = found
        self.elements = {native: element for element, native in self.dtypes.items()}

    def key(self, array: Any) -> Hashable:
        try:
            return (
                array.dtype, array.shape, array.stride(), array.device, array.is_neg() or array.is_conj(),
                array.requires_grad and self.grad(),
            )  # fmt: skip
        except RuntimeError:  # sparse and nested tensors have no strides; `view` raises the error
            raise KeyError(type(array)) from None

    def key_of_wrapper(self, array: Any) -> Hashable:
        """Subclasses with __torch_dispatch__ have no key: they may lack memory, and are checked in each call."""
        raise KeyError(type(array))

    def unreadable(self, array: Any) -> str:
        """Why C cannot read a tensor; empty where it can."""
        if self.torch._C._functorch.is_functorch_wrapped_tensor(array):
            return "is under a transform of torch.func (vmap, grad, jvp): call the function of baracuda.torch"
        if array.is_nested:
            return "is a nested tensor, must be a dense one: torch.nested.to_padded_tensor makes one"
        if array.layout is not self.torch.strided:
            return f"has layout {array.layout}, must be dense: call to_dense() first"
        if is_wrapper(array):
            of = "has no memory" if type(array).__name__ == "FakeTensor" else "wraps other tensors"
            return f"is a {type(array).__name__}, which {of}: call the function of baracuda.torch"
        if array.device.type != "meta" and array.numel() and not array.untyped_storage().size():
            return "has no memory: its storage was freed"
        return ""

    def pointer(self, array: Any) -> Any:
        return ffi.cast(_VOID, array.data_ptr())

    def view(self, array: Any, name: str) -> TensorRef:
        if wrong := self.unreadable(array):
            raise InvalidProblemError(f"{name} {wrong}")
        if array.requires_grad and self.grad():
            raise InvalidProblemError(
                f"{name} requires grad, which baracuda.torch records: call its functions, or detach {name}"
            )
        if array.is_neg():
            raise UnsupportedError(f"{name} stands for the negative of what lies in memory: call resolve_neg() first")
        if array.is_conj():
            raise UnsupportedError(f"{name} stands for the conjugate of what lies in memory: call resolve_conj() first")
        if array.dtype not in self.elements:
            return tensor(array, name)  # raises the reason
        device = "cuda" if array.device.type == "cuda" else array.device.type
        if device not in ("cpu", "cuda"):
            raise InvalidProblemError(f"{name} is in {device} memory")
        return TensorRef(
            array.data_ptr(), tuple(array.shape), self.elements[array.dtype], array.stride(), device=device, owner=array
        )

    def native(self, dtype: ElementKind, like: Any) -> Any:
        if dtype not in self.dtypes:
            raise InvalidProblemError(f"{dtype} is no dtype of this PyTorch")
        return self.dtypes[dtype]

    def empty(self, shape: tuple[int, ...], native: Any, like: Any) -> Any:
        return self.torch.empty(shape, dtype=native, device=like.device)

    def make_argument(self, shape: tuple[int, ...], native: Any, like: Any) -> Any:
        options = {"dtype": native, "device": like.device}
        return functools.partial(self.torch.empty_strided, shape, contiguous_stride(shape), **options)

    def scalar(self, value: Any, dtype: ElementKind, like: Any) -> Any:
        return self.torch.full(
            (), value, dtype=self.native(dtype, like), device=like.device
        )  # fills by a kernel, which graph captures record

    def contiguous(self, array: Any) -> Any:
        return array.contiguous()

    def permuted(self, array: Any, order: tuple[int, ...]) -> Any:
        return array.permute(order)

    def broadcast_to(self, array: Any, shape: tuple[int, ...]) -> Any:
        return array.expand(shape)

    def zero(self, array: Any) -> None:
        array.zero_()

    def guard(self, like: Any) -> contextlib.AbstractContextManager[Any]:
        return self.torch.cuda.device(like.device) if like.is_cuda else contextlib.nullcontext()

    def stream(self, like: Any) -> int:
        return int(self.raw_stream(like.get_device())) if like.is_cuda else 0

    def _slow_stream(self, device: int) -> int:
        return int(self.torch.cuda.current_stream(device).cuda_stream)


_FP8 = {ElementKind.FP8_E4M3: "float8_e4m3fn", ElementKind.FP8_E5M2: "float8_e5m2"}


class _CuPy(Framework):
    address = "cast(VOID, {0}.data.ptr)"
    make = "empty({shape}, {native})"
    stream_now = "framework.current_stream().ptr"
    is_elsewhere = "framework.current_device() != {like}.device.id"

    def __init__(self, cupy: Any) -> None:
        self.cupy = cupy
        self.allocate = cupy.empty
        self.current_stream, self.current_device = cupy.cuda.get_current_stream, cupy.cuda.runtime.getDevice

    def key(self, array: Any) -> Hashable:
        return array.dtype, array.shape, array.strides, array.device.id

    def pointer(self, array: Any) -> Any:
        return ffi.cast(_VOID, array.data.ptr)

    def empty(self, shape: tuple[int, ...], native: Any, like: Any) -> Any:
        with like.device:
            return self.cupy.empty(shape, native)

    def scalar(self, value: Any, dtype: ElementKind, like: Any) -> Any:
        with like.device:
            return self.cupy.array(value, dtype.numpy_dtype)

    def contiguous(self, array: Any) -> Any:
        return self.cupy.ascontiguousarray(array)

    def broadcast_to(self, array: Any, shape: tuple[int, ...]) -> Any:
        return self.cupy.broadcast_to(array, shape)

    def zero(self, array: Any) -> None:
        array.fill(0)

    def guard(self, like: Any) -> contextlib.AbstractContextManager[Any]:
        return like.device  # type: ignore[no-any-return]

    def stream(self, like: Any) -> int:
        return int(self.current_stream().ptr)


_MOST_CONSTANTS = 4096
_device_constants: dict[tuple[bytes, ElementKind, int], TensorRef] = {}


def _device_constant(host: Any, dtype: ElementKind) -> TensorRef:
    """A number on the current device, copied there once: a capture of a graph admits no copy from pageable memory."""
    key = host.tobytes(), dtype, memory.current_device()
    found = _device_constants.get(key)
    if found is None:
        if len(_device_constants) == _MOST_CONSTANTS:
            _device_constants.clear()
        found = _device_constants[key] = memory.upload(host, dtype, library=library_for("cuda"))
    if memory.held is not None:
        memory.held.append(found)
    return found


class _Views(Framework):
    """TensorRefs, and views of other arrays. `backend` allocates new ones, since a view may not know its device."""

    address = "{0}.pointer"
    make_scratch = "framework.scratch({shape}[0], {like})"

    def __init__(self, backend: str = "cpu") -> None:
        self.backend = backend

    def on(self, backend: str) -> Framework:
        return _VIEWS_ON[backend]

    def backend_of(self, like: Any) -> str:
        """The backend whose memory new arrays use."""
        return self.backend

    def key(self, array: TensorRef) -> Hashable:
        return array.dtype, array.shape, array.strides, array.device, array.readonly

    def pointer(self, array: TensorRef) -> Any:
        return array.pointer

    def native(self, dtype: ElementKind, like: Any) -> Any:
        return dtype

    def permuted(self, array: Any, order: tuple[int, ...]) -> Any:
        shape, strides = (tuple([each[axis] for axis in order]) for each in (array.shape, array.strides))
        return TensorRef(
            array.ptr, shape, array.dtype, strides, device=array.device, readonly=array.readonly, owner=array
        )  # fmt: skip

    def broadcast_to(self, array: Any, shape: tuple[int, ...]) -> Any:
        strides = (0,) * (len(shape) - len(array.shape)) + array.strides
        steps = [s if have == want else 0 for s, have, want in zip(strides[::-1], array.shape[::-1], shape[::-1])]
        strides = strides[: len(shape) - len(steps)] + tuple(steps[::-1])
        return TensorRef(array.ptr, shape, array.dtype, strides, device=array.device, readonly=True, owner=array)

    def reshaped(self, array: Any, shape: tuple[int, ...]) -> Any:
        dense = self.contiguous(array)
        return TensorRef(dense.ptr, shape, dense.dtype, device=dense.device, readonly=dense.readonly, owner=dense)

    def contiguous(self, array: Any) -> Any:
        from baracuda import functions  # imports this module

        return array if array.is_dense else functions.cast(array, array.dtype)

    def copy(self, target: Any, source: Any) -> None:
        from baracuda import functions

        functions.cast(source, source.dtype, out=target)

    def empty(self, shape: tuple[int, ...], native: Any, like: Any) -> Any:
        return allocated(shape, native, self.backend_of(like))

    def scratch(self, count: int, like: Any) -> Any:
        shared = memory.shared_workspace()
        return self.bytes(count, like) if shared is None else shared.take(count, library_for(self.backend_of(like)))

    def scalar(self, value: Any, dtype: ElementKind, like: Any) -> Any:
        host = super().scalar(value, dtype, like)
        return memory.upload(host, dtype, library=library_for("cuda")) if self.backend_of(like) == "cuda" else host

    def constant(self, value: Any, dtype: ElementKind, like: Any) -> Any:
        host = super().scalar(value, dtype, like)
        return _device_constant(host, dtype) if self.backend_of(like) == "cuda" else host

    def zero(self, array: Any) -> None:
        memory.clear(array)

    def fill(self, array: Any, value: float) -> None:
        from baracuda import functions

        memory.clear(array)
        functions.add(array, value, out=array)


class _Namespace(_Views):
    """Arrays of a library that follows the array API standard, such as JAX. They may be immutable: results are
    allocated by this package, and handed over by DLPack.
    """

    def __init__(self, namespace: Any) -> None:
        super().__init__()
        self.namespace = namespace

    def on(self, backend: str) -> Framework:
        return self

    def backend_of(self, like: Any) -> str:
        return "cuda" if like.device == "cuda" else "cpu"

    def empty(self, shape: tuple[int, ...], native: Any, like: Any) -> Any:
        if like.device == "cuda":
            return super().empty(shape, native, like)
        return np.empty(shape, native.numpy_dtype)

    def broadcast_to(self, array: Any, shape: tuple[int, ...]) -> Any:
        return self.namespace.broadcast_to(array, shape)

    def reshaped(self, array: Any, shape: tuple[int, ...]) -> Any:
        return self.namespace.reshape(array, shape)

    def finish(self, result: Any) -> Any:
        if not isinstance(result, (np.ndarray, TensorRef)):
            return result
        try:
            return self.namespace.from_dlpack(result)
        except (TypeError, ValueError, BufferError, RuntimeError):  # NumPy or the library lacks the dtype
            return result if isinstance(result, TensorRef) else self.namespace.asarray(result)


def scalar_array(framework: Framework, function: str, name: str, dtype: ElementKind, value: Any, like: Any) -> Any:
    """A Python number as an array of rank 0, for an operand of a function."""
    try:
        return framework.constant(checked_scalar(name, dtype, value), dtype, like)
    except InvalidProblemError:
        with naming(function):
            raise


def checked_scalar(name: str, dtype: ElementKind, value: Any) -> Any:
    """A Python number for an operand, checked against the range of its dtype."""
    bounds = dtype.integer_range
    if bounds is not None:
        return as_integer(name, int(value) if type(value) is bool else value, *bounds)
    if dtype is ElementKind.BOOL and type(value) is not bool:
        raise InvalidProblemError(f"{name} is {value!r}, must be a bool or an array")
    return value


def library_for(backend: str | None) -> Library:
    """The default library if its backend matches or `backend` is None, else the library of `backend`."""
    found = default_library()
    return found if backend in (None, found.backend) else load(backend=backend)


def allocated(shape: tuple[int, ...], dtype: ElementKind, backend: str) -> TensorRef:
    """Memory from the allocator of `set_allocator`, or from this package."""
    if _allocator is None:
        return memory.empty(shape, dtype, library=library_for(backend))
    wanted = TensorRef(0, shape, dtype)
    block = tensor(_allocator(wanted.nbytes, backend), "allocated memory")
    if block.nbytes < wanted.nbytes or not block.is_dense or block.readonly:
        raise InvalidProblemError(f"the allocator gave {block!r} for {wanted.nbytes} bytes")
    return TensorRef(block.ptr, shape, dtype, device=backend, owner=block)


NUMPY = _numpy_framework()
VIEWS = _Views()
_VIEWS_ON = {backend: _Views(backend) for backend in ("cpu", "cuda")}
FRAMEWORKS: dict[type, Framework] = {np.ndarray: NUMPY, TensorRef: VIEWS}
# Functions by the type of an argument: KEYS gives its part of a cache key, POINTERS its address.
KEYS: dict[type, Callable[[Any], Any]] = {
    **{cls: (lambda value: type(value)) for cls in (*SCALARS, type(None))},
    **{cls: found.key for cls, found in FRAMEWORKS.items()},
}
POINTERS: dict[type, Callable[[Any], Any]] = {
    type(None): lambda value: ffi.NULL, **{cls: found.pointer for cls, found in FRAMEWORKS.items()},
}  # fmt: skip


def framework_of(array: object) -> Framework | None:
    """The framework that reads an object directly; None if it must be viewed first."""
    found = FRAMEWORKS.get(type(array))
    if found is None:
        name = type(array).__module__.partition(".")[0]
        module = sys.modules.get("torch")
        if module is not None and isinstance(array, module.Tensor):
            found = next(
                (framework for framework in FRAMEWORKS.values() if isinstance(framework, _Torch)), None
            ) or _Torch(module)
        elif name == "cupy":
            found = _CuPy(sys.modules["cupy"])
        if found is not None:
            key = found.key_of_wrapper if isinstance(found, _Torch) and is_wrapper(array) else found.key
            FRAMEWORKS[type(array)], KEYS[type(array)], POINTERS[type(array)] = found, key, found.pointer
    return found


def is_wrapper(tensor: Any) -> bool:
    """Whether a PyTorch tensor belongs to a subclass with its own __torch_dispatch__."""
    own = getattr(type(tensor), "__torch_dispatch__", None)
    return (
        own is not None
        and own is not sys.modules["torch"]._C._disabled_torch_dispatch_impl
        and (own is not sys.modules["torch"].Tensor.__torch_dispatch__)
    )


def as_array(array: Any, name: str) -> Any:
    """An argument as an array that a framework reads: itself, a NumPy array (buffer protocol), or a TensorRef."""
    if type(array) in KEYS or framework_of(array) is not None:
        return array
    if isinstance(array, np.generic):
        copy = np.asarray(array)
        copy.flags.writeable = False  # the caller would not see what is written to the copy
        return copy
    speaks = any(hasattr(array, each) for each in ("__dlpack__", "__cuda_array_interface__", "__array_interface__"))
    if not speaks:
        with contextlib.suppress(TypeError, ValueError):
            return np.asarray(memoryview(array))
    if hasattr(array, "block_until_ready"):  # JAX computes asynchronously, and its arrays are immutable
        array.block_until_ready()
        view = tensor(array, name)
        return TensorRef(view.ptr, view.shape, view.dtype, view.strides, device=view.device, readonly=True, owner=view)
    return tensor(array, name)


def result_framework(array: object) -> Framework:
    """The framework of results of a function of this argument."""
    found = framework_of(array)
    if found is not None:
        return found
    if hasattr(array, "__array_namespace__") and not isinstance(array, (np.ndarray, np.generic)):
        return _Namespace(array.__array_namespace__())
    return VIEWS if isinstance(as_array(array, "array"), TensorRef) and not isinstance(array, np.ndarray) else NUMPY


def uses_allocator() -> bool:
    """Whether `set_allocator` has set one."""
    return _allocator is not None
