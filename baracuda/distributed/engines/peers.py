# SPDX-License-Identifier: Apache-2.0
"""Small all-reduces of the GPUs of one host by kernels that write to each other's memory (peer_all_reduce in the C
header): in one launch, without NCCL's channels, in the order of the ranks and rounded once.

Each rank has a buffer, which the others map by CUDA's interprocess handles. Calls of a communicator follow each other
on the device: those on another stream than the last wait for it, also within a graph that is captured; after a call on
the default stream of another thread, the host waits for the device. Replays of graphs, and calls beside them, are
ordered by the program, as replays on one stream are.
"""

from __future__ import annotations

import ctypes
import logging
import threading
import time
from typing import Any

from baracuda import memory
from baracuda._library.loader import Library
from baracuda.distributed.control import Control, SegmentControl
from baracuda.distributed.errors import DistributedError, RankTimeoutError
from baracuda.distributed.streams import follow
from baracuda.dtypes import ElementKind
from baracuda.errors import BaracudaError, InternalError, UnsupportedError
from baracuda.tensor import TensorRef

LIMIT = 1 << 19  # bytes of the largest array that is not NCCL's
OPS = {"sum": 0, "prod": 1, "max": 2, "min": 3, "avg": 4}
_SYMBOLS = {
    ElementKind.F32: "f32", ElementKind.F32_STRICT: "f32", ElementKind.F16: "f16", ElementKind.BF16: "bf16",
    ElementKind.F64: "f64",
}  # fmt: skip
_MOST_RANKS = 8
_ABORTED = -1
_MAPPED, _LAZY_PEER_ACCESS = 3, 1  # cudaHostAllocPortable | cudaHostAllocMapped, cudaIpcMemLazyEnablePeerAccess
_STATUS_BYTES = _BUS_ID_BYTES = 64
_PER_THREAD_STREAM = 2
_SHOTS = {"": 0, "one-shot": 1, "two-shot": 2}
_spare: dict[tuple[int, int], list[int]] = {}  # (device, bytes) -> buffers of closed communicators
_log = logging.getLogger("baracuda")


class Peers:
    """The buffers of a group, made by `connected`. `limit` is in bytes; `shots` chooses an algorithm, "one-shot" or
    "two-shot", by default the faster one. Both give the same bits.
    """

    def __init__(self, library: Library, rank: int, size: int, timeout: float, device: int) -> None:
        self.library, self.rank, self.size, self.timeout, self.device = library, rank, size, timeout, device
        self.limit, self.shots = LIMIT, ""
        self._own, self._nbytes, self._status_at, self._opened = 0, 0, 0, [0] * size
        self._table: Any = None
        self._last: tuple[int, int] | None = None  # stream and thread of the last call

    @classmethod
    def connected(
        cls, control: Control | None, rank: int, size: int, timeout: float, library: Library, device: int, *,
        is_wanted: bool = True,
    ) -> Peers | None:  # fmt: skip
        """Buffers that all ranks have mapped, or None on all ranks, if that is impossible on one. All ranks call it."""
        if not isinstance(control, SegmentControl):
            return None
        made, failure, record = cls(library, rank, size, timeout, device), "", {}
        try:
            if not is_wanted:
                raise UnsupportedError("it is switched off")
            record = made._allocate()
        except (BaracudaError, AttributeError) as error:
            failure = str(error)
        records = control.exchange({**record, "failure": failure}, "init")
        if not any(each["failure"] for each in records):
            try:
                made._open(records)
            except (BaracudaError, AttributeError) as error:
                failure = str(error)
            records = control.exchange({"failure": failure}, "init")
        failures = [f"rank {number}: {each['failure']}" for number, each in enumerate(records) if each["failure"]]
        if failures:
            _log.info("small all-reduces are NCCL's: %s", "; ".join(failures))
            made._unmap()
            made._keep()
            return None
        return made

    # --- calls ---

    def takes(self, dtype: ElementKind, nbytes: int, *, always: bool = False) -> bool:
        """Whether an all-reduce of this size is ours; `always` takes those above the limit, too, in parts."""
        return dtype in _SYMBOLS and (always or nbytes <= self.limit)

    def all_reduce(self, source: TensorRef, target: TensorRef, op: str, stream: int) -> None:
        shots, item, cast = _SHOTS[self.shots], source.dtype.itemsize, self.library.ffi.cast
        symbol = f"peer_all_reduce_{_SYMBOLS[source.dtype]}"
        run, handle = self.library.function(symbol), stream or _PER_THREAD_STREAM
        step = int(self.library.function("peer_message", "bytes")(self.size, shots)) // item
        self._follow(handle)
        for start in range(0, source.numel, step):
            status = run(
                min(step, source.numel - start), cast("void*", source.ptr + start * item),
                cast("void*", target.ptr + start * item), self._table, self.rank, self.size, OPS[op], shots,
                int(self.timeout * 1e9), cast("void*", self._status_at), cast("void*", handle),
            )  # fmt: skip
            self.library.check(symbol, status)

    def _follow(self, stream: int) -> None:
        """The call on this stream waits for the last one."""
        last, self._last = self._last, (stream, threading.get_ident())
        if last is None or last == self._last:
            return
        if last[0] == _PER_THREAD_STREAM and last[1] != self._last[1]:  # which has no handle in this thread
            if _capture_of(stream) == 0:
                memory.runtime_result(memory.cuda_runtime().cudaDeviceSynchronize(), "cudaDeviceSynchronize")
        elif last[0] != stream and _capture_of(last[0]) == _capture_of(stream):
            follow(last[0], stream)

    # --- faults ---

    def error(self) -> DistributedError | None:
        """The error that a kernel has noticed: a rank whose data did not come in time."""
        code = ctypes.c_int32.from_address(self._status_at).value if self._status_at else 0
        if code <= 0:
            return None
        return RankTimeoutError(f"all_reduce: rank {code - 1} did not arrive within {self.timeout:g} s", (code - 1,))

    def abort(self) -> None:
        """End kernels that wait."""
        if self._status_at:
            status = ctypes.c_int32.from_address(self._status_at)
            status.value = status.value or _ABORTED

    def close(self) -> None:
        """Unmap the buffers of the others. Memory that they map is kept for the next communicator."""
        if not self._own:
            return
        is_whole = not ctypes.c_int32.from_address(self._status_at).value
        if not is_whole or not self._is_idle():
            self._own = 0  # kernels of this rank or of others may still write to it
            return
        self._unmap()
        self._keep()

    def _is_idle(self) -> bool:
        runtime, end = memory.cuda_runtime(), time.monotonic() + min(self.timeout, 30.0)
        if self._last is None:
            return True
        stream, thread = self._last
        if stream == _PER_THREAD_STREAM and thread != threading.get_ident():
            return False
        while int(runtime.cudaStreamQuery(stream)[0]):
            if time.monotonic() > end:
                return False
            time.sleep(1e-3)
        return True

    # --- memory ---

    def _allocate(self) -> dict[str, Any]:
        """This rank's buffer and status, and what the others need to map it."""
        runtime, result = memory.cuda_runtime(), memory.runtime_result
        if self.size > _MOST_RANKS:
            raise UnsupportedError(f"there are {self.size} ranks, at most {_MOST_RANKS} are served")
        for symbol in _SYMBOLS.values():
            self.library.function(f"peer_all_reduce_{symbol}")
        self._nbytes = int(self.library.function("peer_buffer", "bytes")(self.size))
        self._status_at = int(result(runtime.cudaHostAlloc(_STATUS_BYTES, _MAPPED), "cudaHostAlloc"))
        ctypes.memset(self._status_at, 0, _STATUS_BYTES)
        spare = _spare.get((self.device, self._nbytes))
        self._own = spare.pop() if spare else int(result(runtime.cudaMalloc(self._nbytes), "cudaMalloc"))
        result(runtime.cudaMemsetAsync(self._own, 0, self._nbytes, _PER_THREAD_STREAM), "cudaMemsetAsync")
        result(runtime.cudaStreamSynchronize(_PER_THREAD_STREAM), "cudaStreamSynchronize")
        handle = result(runtime.cudaIpcGetMemHandle(self._own), "cudaIpcGetMemHandle")
        bus = result(runtime.cudaDeviceGetPCIBusId(_BUS_ID_BYTES, self.device), "cudaDeviceGetPCIBusId")
        return {"handle": bytes(handle.reserved).hex(), "bus": bytes(bus).split(b"\0")[0].decode()}

    def _open(self, records: list[dict[str, Any]]) -> None:
        """Map the buffers of the others."""
        runtime = memory.cuda_runtime()
        if len({each["bus"] for each in records}) < self.size:
            raise UnsupportedError("several ranks have one device")
        for rank, record in enumerate(records):
            if rank == self.rank:
                continue
            status, device = runtime.cudaDeviceGetByPCIBusId(record["bus"].encode())
            if status == 0:  # else the device is hidden from this process, which need not keep it from its memory
                reaches = memory.runtime_result(
                    runtime.cudaDeviceCanAccessPeer(self.device, device), "cudaDeviceCanAccessPeer"
                )
                if not reaches:
                    raise UnsupportedError(f"device {self.device} has no access to device {device}")
            handle = runtime.cudaIpcMemHandle_t()
            handle.reserved = bytes.fromhex(record["handle"])
            status, address = runtime.cudaIpcOpenMemHandle(handle, _LAZY_PEER_ACCESS)
            if status != 0:
                runtime.cudaGetLastError()  # it is handled, and not to be reported by a later call
                raise InternalError(f"cudaIpcOpenMemHandle of rank {rank}: {getattr(status, 'name', status)}")
            self._opened[rank] = int(address)
        ffi = self.library.ffi
        addresses = [self._own if rank == self.rank else at for rank, at in enumerate(self._opened)]
        self._table = ffi.new("void*[]", [ffi.cast("void*", at) for at in addresses])

    def _unmap(self) -> None:
        for address in filter(None, self._opened):
            memory.cuda_runtime().cudaIpcCloseMemHandle(address)
        self._opened = [0] * self.size

    def _keep(self) -> None:
        """Memory that another rank has mapped is never freed: it may unmap it later."""
        if self._own:
            _spare.setdefault((self.device, self._nbytes), []).append(self._own)
        self._own = 0


def _capture_of(stream: int) -> int:
    """The number of the capture that the stream is part of; 0 for none."""
    status, is_capturing, number, *_ = memory.cuda_runtime().cudaStreamGetCaptureInfo(stream)
    return -1 if status != 0 else int(number) if int(is_capturing) else 0
