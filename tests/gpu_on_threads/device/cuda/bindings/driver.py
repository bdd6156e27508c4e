# SPDX-License-Identifier: Apache-2.0
"""The functions of cuda.bindings.driver that this project calls, for the device on fibers."""

import enum
import threading

from cuda.bindings._device import DEVICE


class CUresult(enum.IntEnum):
    CUDA_SUCCESS = 0
    CUDA_ERROR_INVALID_CONTEXT = 201
    CUDA_ERROR_INVALID_HANDLE = 400


class CUstreamWaitValue_flags(enum.IntEnum):
    CU_STREAM_WAIT_VALUE_GEQ = 0
    CU_STREAM_WAIT_VALUE_EQ = 1


_OK = CUresult.CUDA_SUCCESS
_contexts = threading.local()


def _stack():
    if not hasattr(_contexts, "stack"):
        _contexts.stack = [1]
        _contexts.made = 1
    return _contexts.stack


def cuInit(flags):
    return (_OK,)


def cuDeviceGetCount():
    return _OK, 1


def cuDeviceGet(ordinal):
    return _OK, ordinal


def cuCtxCreate(parameters, flags, device):
    stack = _stack()
    _contexts.made += 1
    stack.append(_contexts.made)
    return _OK, _contexts.made


def cuCtxDestroy(context):
    return (_OK,)


def cuCtxPushCurrent(context):
    _stack().append(context)
    return (_OK,)


def cuCtxPopCurrent():
    return (_OK, _stack().pop()) if _stack() else (CUresult.CUDA_ERROR_INVALID_CONTEXT, 0)


def cuCtxGetCurrent():
    return _OK, _stack()[-1] if _stack() else 0


def cuStreamWaitValue32(stream, address, value, flags):
    return (CUresult(DEVICE.await_(int(stream), int(address), value)),)
