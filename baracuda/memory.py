# SPDX-License-Identifier: Apache-2.0
"""Allocate, upload and download: enough to use the library without another framework.

Memory belongs to the backend of `library` (default: the default library): cudaMalloc on the current device, or 64-byte
aligned host memory. It is freed with the last TensorRef that views it; on CUDA that waits for the device, so keep
tensors alive while a graph is captured. `stream` None is the per-thread default stream, as everywhere.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from baracuda import dtypes
from baracuda._library.loader import Library, default_library
from baracuda.dtypes import ElementKind, as_element
from baracuda.errors import InternalError, InvalidProblemError, UnsupportedError
from baracuda.operands import Args, check_reach
from baracuda.stream import stream_handle
from baracuda.tensor import TensorRef, tensor

if TYPE_CHECKING:
    from baracuda.plan import Plan

_ALIGNMENT = 64
_PER_THREAD_STREAM = 2  # cudaStreamPerThread
Array = np.ndarray[Any, Any]
held: list[object] | None = None  # memory of the graph being captured
_thread = threading.local()  # .shared is the SharedWorkspace that is entered, if any


def empty(shape: int | Iterable[int], dtype: object = ElementKind.F32, *, library: Library | None = None) -> TensorRef:
    """Uninitialised contiguous tensor."""
    library = _library(library)
    dtype = as_element(dtype)
    # the view checks the extents
    view = TensorRef(0, (shape,) if isinstance(shape, (int, np.integer)) else shape, dtype)
    owner: _CudaBuffer | _HostBuffer
    owner = (_CudaBuffer if library.backend == "cuda" else _HostBuffer)(view.nbytes)
    if held is not None:
        held.append(owner)
    return TensorRef(owner.ptr, view.shape, dtype, length=view.numel, device=library.backend, owner=owner)


def zeros(shape: int | Iterable[int], dtype: object = ElementKind.F32, *, library: Library | None = None) -> TensorRef:
    """Contiguous tensor of zeros, complete on return."""
    view = empty(shape, dtype, library=library)
    clear(view)
    synchronize(library=library)
    return view


def upload(
    array: object,
    dtype: object = None,
    *,
    stream: object = None,
    out: object = None,
    library: Library | None = None,
) -> TensorRef:
    """Copy a NumPy array, or what np.asarray takes, converted to `dtype`, into a new tensor or the contiguous `out`.

    `array` may be changed as soon as the call returns. f64 values reach bf16 through f32.
    """
    stream_handle(stream)
    host = _as_array(array)
    target = None if out is None else _target(out, "out")
    kind = as_element(dtype if dtype is not None else host.dtype if target is None else target.dtype)
    data = _as_storage(host, kind)
    if target is None:
        target = empty(data.shape, kind, library=library)
    elif target.dtype is not kind or target.shape != data.shape:
        raise InvalidProblemError(f"out is {target.dtype} {target.shape}, the array is {kind} {data.shape}")
    if target.nbytes:
        if _on_cuda(target, library):
            _cuda_copy(target.ptr, data.ctypes.data, target.nbytes, to_device=True, stream=stream)
        else:
            _host_bytes(target.ptr, target.nbytes)[:] = data.reshape(-1).view(np.uint8)
    return target


asarray = upload


def download(view: object, *, stream: object = None, library: Library | None = None) -> Array:
    """Copy a tensor of any strides to a new NumPy array, after the work enqueued on `stream`.

    bf16 comes as ml_dtypes.bfloat16 where that is installed, else widened to float32 (exact).
    """
    stream_handle(stream)
    view = tensor(view)
    if view.dtype.bits < 8:
        raise UnsupportedError(f"dtype {view.dtype} is packed; download its bytes as u8")
    storage = view.dtype.numpy_dtype
    if not view.numel:
        cells = np.empty(view.shape, storage)
    else:
        start, stop = view.byte_range
        if not view.ptr:
            raise InvalidProblemError("tensor is NULL")
        block = np.empty(stop - start, np.uint8)
        if _on_cuda(view, library):
            _cuda_copy(block.ctypes.data, start, block.nbytes, to_device=False, stream=stream)
        else:
            block[:] = _host_bytes(start, block.nbytes)
        strides = tuple(step * storage.itemsize for step in view.strides)
        cells = np.ndarray(view.shape, storage, block, view.ptr - start, strides).copy()
    if view.dtype is ElementKind.BF16 and storage == np.uint16:
        return dtypes.f32_from_bf16(cells)
    return cells


def clear(view: object, *, stream: object = None, library: Library | None = None) -> None:
    """Set every byte of a contiguous tensor, or of what `tensor` views, to 0, in stream order."""
    stream_handle(stream)
    view = _target(view, "tensor")
    if not view.nbytes:
        return
    if _on_cuda(view, library):
        runtime = cuda_runtime()
        runtime_result(runtime.cudaMemsetAsync(view.ptr, 0, view.nbytes, _cuda_stream(stream)), "cudaMemsetAsync")
    else:
        _host_bytes(view.ptr, view.nbytes)[:] = 0


def workspace(plan: Plan, args: Args | None = None) -> TensorRef | None:
    """Workspace for one plan, on its backend; None where it needs none. Not to be shared by concurrent launches.

    With `args`, what a launch on these operands can use: more where it sums gradients over broadcast axes.
    """
    if not isinstance(getattr(plan, "library", None), Library):
        raise InvalidProblemError(f"plan is of type {type(plan).__name__}, must be a plan")
    size = plan.workspace_size if args is None else max(plan.workspace_size, plan.workspace_size_for(args))
    return empty(size, ElementKind.U8, library=plan.library) if size else None


def synchronize(stream: object = None, *, library: Library | None = None) -> None:
    """Wait for the work enqueued on `stream`; the CPU library has always finished."""
    handle = _cuda_stream(stream)
    if _library(library).backend == "cuda":
        runtime_result(cuda_runtime().cudaStreamSynchronize(handle), "cudaStreamSynchronize")


class SharedWorkspace:
    """Workspace that functions on TensorRefs share, in place of memory of their own for each call.

        with shared:
            bk.linear(x, w, out=y)

    It serves calls of one thread on one stream, which one after another use the same block. The block grows to the
    largest that a call asked for, and is freed with this object; a graph keeps the one that it was captured with.
    """

    def __init__(self) -> None:
        self._blocks: dict[int, list[TensorRef]] = {}  # by device; earlier ones are those of captured calls
        self._before: list[SharedWorkspace | None] = []

    def __enter__(self) -> SharedWorkspace:
        self._before.append(shared_workspace())
        _thread.shared = self
        return self

    def __exit__(self, *_: object) -> None:
        _thread.shared = self._before.pop()

    def take(self, nbytes: int, library: Library) -> TensorRef:
        """At least nbytes bytes, until the next call takes them."""
        blocks = self._blocks.setdefault(current_device() if library.backend == "cuda" else -1, [])
        if not blocks or blocks[-1].nbytes < nbytes:
            blocks.append(empty(1 << (nbytes - 1).bit_length(), ElementKind.U8, library=library))
        return blocks[-1]


def shared_workspace() -> SharedWorkspace | None:
    """The SharedWorkspace that this thread has entered."""
    found: SharedWorkspace | None = getattr(_thread, "shared", None)
    return found


class _HostBuffer:
    """Aligned host memory, of at least one byte."""

    __slots__ = ("block", "ptr")

    def __init__(self, nbytes: int) -> None:
        try:
            self.block = np.empty(nbytes + _ALIGNMENT, np.uint8)
        except (MemoryError, ValueError, OverflowError) as error:
            raise InternalError(f"cannot allocate {nbytes} bytes: {error}") from None
        self.ptr: int = -(-self.block.ctypes.data // _ALIGNMENT) * _ALIGNMENT


class _CudaBuffer:
    """Memory of the current device."""

    __slots__ = ("_free", "ptr")

    def __init__(self, nbytes: int) -> None:
        self.ptr: int = 0
        if nbytes:
            runtime = cuda_runtime()
            self._free = runtime.cudaFree
            self.ptr = int(runtime_result(runtime.cudaMalloc(nbytes), f"cudaMalloc of {nbytes} bytes"))

    def __del__(self) -> None:
        if self.ptr:
            try:
                self._free(self.ptr)
            except Exception:  # the interpreter or the driver is going away, and the memory with it
                self.ptr = 0


def _as_array(obj: object) -> Array:
    try:
        return np.asarray(obj)
    except Exception as error:  # whatever has an __array__ raises what it likes
        raise InvalidProblemError(f"array cannot be read: {type(error).__name__}: {error}") from error


def _as_storage(host: Array, kind: ElementKind) -> Array:
    """`host` as a contiguous array of the storage type of `kind`."""
    if kind.bits < 8:
        raise UnsupportedError(f"dtype {kind} is packed; upload its bytes as u8")
    target = kind.numpy_dtype
    if kind is ElementKind.BF16 and host.dtype.kind in "biuf" and target == np.uint16:
        stored: Array = dtypes.bf16_from_f32(host.astype(np.float32)).reshape(host.shape)
        return stored
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            stored = np.ascontiguousarray(host, target).reshape(host.shape)
    except (TypeError, ValueError) as error:
        raise InvalidProblemError(f"array of dtype {host.dtype} cannot become {kind}: {error}") from None
    return stored


def _target(obj: object, name: str) -> TensorRef:
    """A view that whole bytes can be written to."""
    view = tensor(obj, name)
    if view.readonly:
        raise InvalidProblemError(f"{name} is read-only")
    if not view.is_dense:
        raise UnsupportedError(f"{name} has strides {view.strides} for shape {view.shape}, must be contiguous")
    if view.numel and not view.ptr:
        raise InvalidProblemError(f"{name} is NULL")
    check_reach(name, view)
    return view


def _library(library: object) -> Library:
    if library is None:
        return default_library()
    if not isinstance(library, Library):
        raise InvalidProblemError(f"library is {library!r}, must be a Library")
    return library


def _on_cuda(view: TensorRef, library: Library | None) -> bool:
    return (view.device or _library(library).backend) == "cuda"


def _host_bytes(ptr: int, nbytes: int) -> Array:
    from baracuda._ffi import ffi

    return np.frombuffer(ffi.buffer(ffi.cast("char *", ptr), nbytes), np.uint8)


def _cuda_stream(stream: object) -> int:
    return stream_handle(stream) or _PER_THREAD_STREAM


def _cuda_copy(target: int, source: int, nbytes: int, *, to_device: bool, stream: object) -> None:
    runtime = cuda_runtime()
    direction = runtime.cudaMemcpyKind
    kind = direction.cudaMemcpyHostToDevice if to_device else direction.cudaMemcpyDeviceToHost
    handle = _cuda_stream(stream)
    runtime_result(runtime.cudaMemcpyAsync(target, source, nbytes, kind, handle), "cudaMemcpyAsync")
    runtime_result(runtime.cudaStreamSynchronize(handle), "cudaStreamSynchronize")


def current_device() -> int:
    """The number of the current CUDA device."""
    return int(runtime_result(cuda_runtime().cudaGetDevice(), "cudaGetDevice"))


def cuda_runtime() -> Any:
    """cuda.bindings.runtime."""
    try:
        from cuda.bindings import runtime
    except ImportError as error:
        raise UnsupportedError(f"CUDA memory needs the package cuda-python ({error})") from None
    return runtime


def runtime_result(result: tuple[Any, ...], what: str) -> Any:
    """The value that a CUDA runtime call returned with its status; raises if the call `what` failed."""
    status, *values = result
    if status != 0:
        raise InternalError(f"{what}: {getattr(status, 'name', status)}", symbol=what.split(" ", 1)[0])
    return values[0] if values else None
