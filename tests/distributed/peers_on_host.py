# SPDX-License-Identifier: Apache-2.0
"""The calls of CUDA's runtime that baracuda.distributed.engines.nccl and peers make, on memory that processes share."""

import ctypes
import mmap
import os
import struct
import types

_HANDLE = struct.Struct("<qq48x")  # process and descriptor
_mapped: dict[int, tuple[int, mmap.mmap]] = {}
LINKS = {"access": 1, "opens": True, "bus": ""}  # of the host that is imitated


class Handle:
    reserved = bytes(64)


def _map(file, nbytes):
    mapped = mmap.mmap(file, nbytes)
    address = ctypes.addressof(ctypes.c_char.from_buffer(mapped))
    _mapped[address] = file, mapped
    return address


def malloc(nbytes):
    file = os.memfd_create("peers")
    os.ftruncate(file, nbytes)
    return 0, _map(file, nbytes)


def memset(address, value, nbytes, stream):
    ctypes.memset(address, value, nbytes)
    return (0,)


def get_handle(address):
    handle = Handle()
    handle.reserved = _HANDLE.pack(os.getpid(), _mapped[address][0])
    return 0, handle


def open_handle(handle, flags):
    if not LINKS["opens"]:
        return 217, None
    process, file = _HANDLE.unpack(handle.reserved)
    opened = os.open(f"/proc/{process}/fd/{file}", os.O_RDWR)
    return 0, _map(opened, os.fstat(opened).st_size)


ordered: list[object] = []  # events that streams wait for, and waits of the host


def note(*what):
    ordered.append(what)
    return (0,)


RUNTIME = types.SimpleNamespace(
    cudaMalloc=malloc, cudaHostAlloc=lambda nbytes, flags: malloc(nbytes), cudaMemsetAsync=memset,
    cudaStreamSynchronize=lambda stream: (0,), cudaStreamQuery=lambda stream: (0,), cudaGetLastError=lambda: (0,),
    cudaIpcMemHandle_t=Handle, cudaIpcGetMemHandle=get_handle, cudaIpcOpenMemHandle=open_handle,
    cudaIpcCloseMemHandle=lambda address: (0,),
    cudaDeviceGetPCIBusId=lambda length, device: (0, (LINKS["bus"] or f"0:{os.getpid()}").encode() + b"\0\0"),
    cudaDeviceGetByPCIBusId=lambda bus: (0, 1), cudaDeviceCanAccessPeer=lambda own, other: (0, LINKS["access"]),
    cudaStreamGetCaptureInfo=lambda stream: (0, 0, 0, None, None, None, 0), cudaGetDevice=lambda: (0, 0),
    cudaSetDevice=lambda device: (0,), cudaDeviceSynchronize=lambda: note("device"),
    cudaEventCreateWithFlags=lambda flags: (0, "event"), cudaEventDestroy=lambda event: (0,),
    cudaEventRecord=lambda event, stream: note("record", stream),
    cudaStreamWaitEvent=lambda stream, event, flags: note("wait", stream),
)  # fmt: skip
