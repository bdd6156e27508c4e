# SPDX-License-Identifier: Apache-2.0
"""Zero-copy export of views: DLPack, `__cuda_array_interface__`, `__array_interface__`.

NumPy makes the DLPack capsules, of an array that owns the view; the device, and dtypes that NumPy lacks, are written
into them afterwards. The memory lives until the consumer, or an unconsumed capsule, releases it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from baracuda._arrays import capsules
from baracuda.dtypes import ElementKind
from baracuda.errors import ExportError
from baracuda.stream import stream_handle

if TYPE_CHECKING:
    from baracuda.tensor import TensorRef

_CPU, _CUDA = 1, 2
_SINCE_1_1 = (ElementKind.FP8_E4M3, ElementKind.FP8_E5M2)
_LEGACY_STREAM, _PER_THREAD_STREAM = 1, 2


def dlpack_device(view: TensorRef) -> tuple[int, int]:
    """DLPack's (device type, index) of a view."""
    if view.device is None:
        raise ExportError(f"{view!r} says not on which device it lies: give it one")
    return (_CUDA, _cuda_index(view)) if view.device == "cuda" else (_CPU, 0)


def dlpack(
    view: TensorRef, stream: object, max_version: tuple[int, int] | None, device: object, copy: bool | None
) -> object:
    """A capsule of the newest version that both the consumer and NumPy support."""
    own = dlpack_device(view)
    if device is not None and device != own:
        raise ExportError(f"{view!r} lies on device {own}, and is not copied to {device}")
    if copy:
        raise ExportError(f"{view!r} is exported without a copy alone; download() makes one")
    dtype = ElementKind.F32.dlpack if view.dtype is ElementKind.F32_STRICT else view.dtype.dlpack
    if dtype is None:
        raise ExportError(f"DLPack has no {view.dtype}: export its bytes as u8")
    if own[0] == _CUDA:
        _synchronize(stream)
    elif stream is not None:
        raise ExportError(f"stream is {stream!r}, must be None for memory of the CPU")
    capsule, version = _capsule(np.asarray(_Elements(view)), max_version)
    minor = 1 if view.dtype in _SINCE_1_1 else 0
    if minor and (version < (1, 0) or tuple(max_version or ()) < (1, 1)):
        raise ExportError(f"{view.dtype} is known to DLPack since version 1.1, the consumer reads {max_version or 0}")
    if view.readonly and version < (1, 0):
        raise ExportError(f"{view!r} is read-only, which DLPack tells since version 1.0")
    capsules.rewrite(capsule, own, dtype, minor)
    return capsule


def _capsule(array: np.ndarray[Any, Any], max_version: tuple[int, int] | None) -> tuple[object, tuple[int, int]]:
    """NumPy's capsule of an array, and its version."""
    if max_version is not None and tuple(max_version) >= (1, 0):
        try:
            return array.__dlpack__(max_version=(1, 0)), (1, 0)  # type: ignore[call-arg, unused-ignore]
        except TypeError:  # a NumPy older than 2.1
            pass
    if not array.flags.writeable:
        own: Any = array.base  # the _Elements
        array = np.asarray(_Elements(own.view, writable=True))
    return array.__dlpack__(), (0, 8)


def _cuda_index(view: TensorRef) -> int:
    from baracuda.memory import cuda_runtime, current_device, runtime_result

    runtime = cuda_runtime()
    if not view.numel:
        return current_device()
    attributes = runtime_result(runtime.cudaPointerGetAttributes(view.ptr), "cudaPointerGetAttributes")
    return int(attributes.device)


def _synchronize(stream: object) -> None:
    """Make the consumer's stream wait for the per-thread default stream, on which functions and plans run by default.
    The legacy default stream (None) waits by itself; -1 means no synchronisation.
    """
    from baracuda.memory import cuda_runtime, runtime_result

    if isinstance(stream, int) and stream == -1:
        return
    handle = stream_handle(stream)
    if handle in (0, _LEGACY_STREAM, _PER_THREAD_STREAM):
        return
    runtime = cuda_runtime()
    event = runtime_result(runtime.cudaEventCreateWithFlags(2), "cudaEventCreateWithFlags")  # cudaEventDisableTiming
    try:
        runtime_result(runtime.cudaEventRecord(event, _PER_THREAD_STREAM), "cudaEventRecord")
        runtime_result(runtime.cudaStreamWaitEvent(handle, event, 0), "cudaStreamWaitEvent")
    finally:
        runtime.cudaEventDestroy(event)


def interface(view: TensorRef, device: str) -> dict[str, Any]:
    """NumPy's array interface for "cpu", CUDA's for "cuda". AttributeError for a view without one, so that consumers
    try another protocol.
    """
    attribute = "__array_interface__" if device == "cpu" else "__cuda_array_interface__"
    if view.device != device:
        raise AttributeError(f"no {attribute}: {view!r} lies on {view.device or 'an unknown device'}")
    if not _is_numpy_builtin(view.dtype):
        raise AttributeError(f"no {attribute}: it has no {view.dtype}")
    found = _Elements(view).__array_interface__
    return found | {"stream": _PER_THREAD_STREAM} if device == "cuda" else found


def _is_numpy_builtin(dtype: ElementKind) -> bool:
    """Whether the dtype is built into NumPy."""
    return dtype.bits >= 8 and dtype.numpy_dtype.isbuiltin == 1 and dtype.numpy_dtype.name == dtype.numpy_name


class _Elements:
    """The elements of a view by the array interface, as unsigned integers if NumPy lacks the dtype. NumPy's array owns
    this object, which owns the view.
    """

    def __init__(self, view: TensorRef, *, writable: bool = False) -> None:
        size = view.dtype.itemsize
        self.view = view
        self.__array_interface__ = {
            "version": 3,
            "shape": view.shape,
            "typestr": view.dtype.numpy_dtype.str if _is_numpy_builtin(view.dtype) else f"<u{size}",
            "data": (view.ptr if view.numel else 0, view.readonly and not writable),
            "strides": None if view.is_contiguous else tuple([step * size for step in view.strides]),
        }


def numpy_array(view: TensorRef) -> np.ndarray[Any, Any]:
    """A NumPy array of the same memory, of every dtype of whole bytes."""
    if view.device != "cpu":
        raise ExportError(f"{view!r} lies on {view.device or 'an unknown device'}: download() copies it")
    if view.dtype.bits < 8:
        raise ExportError(f"NumPy has no {view.dtype}: view its bytes as u8")
    return np.asarray(_Elements(view)).view(view.dtype.numpy_dtype)
