# SPDX-License-Identifier: Apache-2.0
"""The functions of cuda.bindings.runtime that this project calls, for the device on fibers."""

import ctypes
import enum
import types

from cuda.bindings._device import DEVICE

_LEGACY = 1
cudaStreamNonBlocking = 1
cudaHostAllocMapped = 2
cudaEventDisableTiming = 2


class cudaError_t(enum.IntEnum):
    cudaSuccess = 0
    cudaErrorInvalidValue = 1
    cudaErrorMemoryAllocation = 2
    cudaErrorInvalidResourceHandle = 400
    cudaErrorNotReady = 600
    cudaErrorStreamCaptureUnsupported = 900


class cudaMemcpyKind(enum.IntEnum):
    cudaMemcpyHostToHost = 0
    cudaMemcpyHostToDevice = 1
    cudaMemcpyDeviceToHost = 2
    cudaMemcpyDeviceToDevice = 3
    cudaMemcpyDefault = 4


class cudaStreamCaptureMode(enum.IntEnum):
    cudaStreamCaptureModeGlobal = 0
    cudaStreamCaptureModeThreadLocal = 1
    cudaStreamCaptureModeRelaxed = 2


class cudaStreamCaptureStatus(enum.IntEnum):
    cudaStreamCaptureStatusNone = 0
    cudaStreamCaptureStatusActive = 1


class cudaMemoryType(enum.IntEnum):
    cudaMemoryTypeUnregistered = 0
    cudaMemoryTypeDevice = 2


class cudaDeviceAttr(enum.IntEnum):
    cudaDevAttrMultiProcessorCount = 16
    cudaDevAttrComputeCapabilityMajor = 75
    cudaDevAttrComputeCapabilityMinor = 76


class cudaStream_t(int):
    pass


class cudaGraph_t(int):
    pass


class cudaGraphExec_t(int):
    pass


class cudaEvent_t(int):
    """A number; behind it the stream that it was recorded on."""


_OK = cudaError_t.cudaSuccess
_PROPERTIES = {
    "name": b"fibers of this CPU",
    "major": 8,
    "minor": 0,
    "multiProcessorCount": 108,
    "totalGlobalMem": 1 << 34,
}
_ATTRIBUTES = {16: 108, 75: 8, 76: 0}
_mode = cudaStreamCaptureMode.cudaStreamCaptureModeGlobal
_recorded: dict[int, int] = {}
_pinned: dict[int, object] = {}


def _stream(handle):
    return int(handle) or _LEGACY


def cudaGetDeviceCount():
    return _OK, 1


def cudaGetDevice():
    return _OK, 0


def cudaSetDevice(device):
    return (_OK if device == 0 else cudaError_t.cudaErrorInvalidValue,)


def cudaGetDeviceProperties(device):
    return _OK, types.SimpleNamespace(**_PROPERTIES)


def cudaDeviceGetAttribute(attribute, device):
    return _OK, _ATTRIBUTES[attribute]


def cudaRuntimeGetVersion():
    return _OK, 13000


def cudaDriverGetVersion():
    return _OK, 13000


def cudaMalloc(nbytes):
    address = DEVICE.allocate(nbytes)
    return (_OK, address) if address else (cudaError_t.cudaErrorMemoryAllocation, 0)


def cudaFree(address):
    return (_OK if not address or DEVICE.free(int(address)) else cudaError_t.cudaErrorInvalidValue,)


def cudaHostAlloc(nbytes, flags):
    block = ctypes.create_string_buffer(nbytes)
    _pinned[ctypes.addressof(block)] = block
    return _OK, ctypes.addressof(block)


def cudaFreeHost(address):
    return (_OK if _pinned.pop(int(address), None) is not None else cudaError_t.cudaErrorInvalidValue,)


def cudaPointerGetAttributes(address):
    of_device = DEVICE.holds(int(address))
    kind = cudaMemoryType.cudaMemoryTypeDevice if of_device else cudaMemoryType.cudaMemoryTypeUnregistered
    return _OK, types.SimpleNamespace(type=kind, device=0 if of_device else -2)


def cudaMemcpyAsync(target, source, nbytes, kind, stream):
    """Memory of the host is pageable: it is read, or written, before the call returns."""
    to_host = kind in (cudaMemcpyKind.cudaMemcpyDeviceToHost, cudaMemcpyKind.cudaMemcpyHostToHost)
    stream = _stream(stream)
    if kind == cudaMemcpyKind.cudaMemcpyHostToDevice and not DEVICE.is_capturing_(stream):
        cudaStreamSynchronize(stream)
    status = DEVICE.copy_(stream, int(target), int(source), nbytes)
    if not status and (to_host or kind == cudaMemcpyKind.cudaMemcpyHostToDevice) and not DEVICE.is_capturing_(stream):
        status = DEVICE.synchronize_(stream)
    return (cudaError_t(status),)


def cudaMemcpy(target, source, nbytes, kind):
    (status,) = cudaMemcpyAsync(target, source, nbytes, kind, _LEGACY)
    return (status or cudaStreamSynchronize(_LEGACY)[0],)


def cudaMemsetAsync(address, value, nbytes, stream):
    return (cudaError_t(DEVICE.set_(_stream(stream), int(address), value, nbytes)),)


def cudaMemset(address, value, nbytes):
    return cudaMemsetAsync(address, value, nbytes, _LEGACY)


def cudaDeviceSynchronize():
    DEVICE.synchronize_all_()
    return (_OK,)


def cudaStreamCreateWithFlags(flags):
    return _OK, cudaStream_t(DEVICE.stream_(flags != cudaStreamNonBlocking))


def cudaStreamCreate():
    return cudaStreamCreateWithFlags(0)


def cudaStreamDestroy(stream):
    return (cudaError_t(DEVICE.close_(_stream(stream))),)


def cudaStreamSynchronize(stream):
    return (cudaError_t(DEVICE.synchronize_(_stream(stream))),)


def cudaStreamQuery(stream):
    return (cudaError_t(DEVICE.query_(_stream(stream))),)


def cudaStreamIsCapturing(stream):
    return _OK, cudaStreamCaptureStatus(DEVICE.is_capturing_(_stream(stream)))


def cudaThreadExchangeStreamCaptureMode(mode):
    global _mode
    before, _mode = _mode, mode
    return _OK, before


def cudaStreamBeginCapture(stream, mode):
    return (cudaError_t(DEVICE.begin_(_stream(stream))),)


def cudaStreamEndCapture(stream):
    graph = DEVICE.end_(_stream(stream))
    return (_OK, cudaGraph_t(graph)) if graph else (cudaError_t.cudaErrorInvalidValue, None)


def cudaGraphInstantiate(graph, flags):
    return _OK, cudaGraphExec_t(DEVICE.instance_(int(graph)))


def cudaGraphLaunch(executable, stream):
    return (cudaError_t(DEVICE.launch_(int(executable), _stream(stream))),)


def cudaGraphDestroy(graph):
    DEVICE.drop_(int(graph))
    return (_OK,)


def cudaGraphExecDestroy(executable):
    DEVICE.drop_(int(executable))
    return (_OK,)


def cudaEventCreateWithFlags(flags):
    event = cudaEvent_t(len(_recorded) + 1)
    _recorded[event] = 0
    return _OK, event


def cudaEventRecord(event, stream):
    _recorded[event] = _stream(stream)
    return (_OK,)


def cudaStreamWaitEvent(stream, event, flags):
    return cudaStreamSynchronize(_recorded[event]) if _recorded[event] else (_OK,)


def cudaEventSynchronize(event):
    return cudaStreamWaitEvent(0, event, 0)


def cudaEventDestroy(event):
    return (_OK,)
