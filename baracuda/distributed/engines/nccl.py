# SPDX-License-Identifier: Apache-2.0
"""The engine of collectives on GPUs: NCCL, on the stream of the call, so that graphs capture it.

Uneven all-gathers are a group of broadcasts, uneven reduce-scatters one of reductions, all-to-alls one of sends and
receives.

With deterministic=True, and for dtypes that NCCL cannot add, reductions have two steps of ours (two-shot): each rank
receives everybody's share of the elements that it is to reduce, reduces them with this library's kernel in one launch,
in f32 and rounded once for 16-bit floats, and the results are gathered. The bits then depend neither on the size of the
array nor on the algorithm that NCCL would choose.

Small all-reduces of floats are kernels of ours (baracuda.distributed.engines.peers), where all ranks are on one host
and can write to each other's memory. With deterministic=True and more than two ranks, whose sums depend on the
order, they take larger arrays, too.

A thread watches the other ranks and aborts NCCL's communicator when one dies, so that no stream waits for it for ever.
"""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

from baracuda import memory
from baracuda._library.loader import Library
from baracuda.distributed.arguments import flat
from baracuda.distributed.control import Control, SegmentControl
from baracuda.distributed.engines.nccl_library import BYTES, DTYPES, OPS, Nccl, UniqueId, nccl
from baracuda.distributed.engines.peers import Peers
from baracuda.distributed.errors import DistributedError, NcclError, RankFailedError, RankTimeoutError
from baracuda.distributed.streams import functions_on
from baracuda.dtypes import ElementKind
from baracuda.errors import InvalidProblemError, UnsupportedError
from baracuda.tensor import TensorRef

_NOT_READY = 600  # cudaErrorNotReady
_LOOK = 0.05  # seconds between looks at the other ranks
_KERNELS = {"sum": "sum", "prod": "prod", "min": "min", "max": "max", "avg": "mean"}
_COMPLEX = {ElementKind.COMPLEX32: ElementKind.F32, ElementKind.COMPLEX64: ElementKind.F64}


def unique_id(library: Library) -> bytes:
    """A new ncclUniqueId."""
    if library.backend != "cuda":
        raise UnsupportedError(f"the library {library.path} is of the CPU, NCCL's communicators are of GPUs")
    made = UniqueId()
    nccl().call("ncclGetUniqueId", ctypes.byref(made))
    return bytes(made)


class NcclEngine:
    """NCCL on the device that is current when the engine is made."""

    backend = "cuda"

    def __init__(
        self, api: Nccl, handle: int, rank: int, size: int, timeout: float, library: Library, deterministic: bool,
        control: Control | None, *, is_owner: bool, peers: Peers | None = None,
    ) -> None:  # fmt: skip
        self.api, self.handle, self.rank, self.size = api, ctypes.c_void_p(handle), rank, size
        self.timeout, self.library, self.deterministic = timeout, library, deterministic
        self.control, self._is_owner, self.peers = control, is_owner, peers
        self.error: DistributedError | None = None
        self._scratch: list[TensorRef] = []  # all that were made: graphs may use the smaller ones
        self._closing = threading.Event()
        self._abort_lock = threading.Lock()
        self._device = _current_device()
        self._watcher: threading.Thread | None = None
        if isinstance(control, SegmentControl) and is_owner:
            self._watcher = threading.Thread(target=self._watch, daemon=True, name="baracuda nccl")
            self._watcher.start()

    @classmethod
    def created(
        cls, identity: bytes, rank: int, size: int, timeout: float, library: Library, deterministic: bool,
        control: Control, *, has_peers: bool = True,
    ) -> NcclEngine:  # fmt: skip
        """A communicator of the ranks that have the same ncclUniqueId; all of them call this."""
        api, handle = nccl(), ctypes.c_void_p()
        device = _current_device()

        def make() -> None:
            memory.runtime_result(memory.cuda_runtime().cudaSetDevice(device), "cudaSetDevice")
            unique = UniqueId.from_buffer_copy(identity)
            api.call("ncclCommInitRank", ctypes.byref(handle), size, unique, rank)

        _within(make, timeout, "ncclCommInitRank", control)
        peers = Peers.connected(control, rank, size, timeout, library, device, is_wanted=has_peers)
        return cls(
            api, handle.value or 0, rank, size, timeout, library, deterministic, control, is_owner=True, peers=peers
        )  # fmt: skip

    @classmethod
    def adopted(
        cls, handle: int, rank: int, size: int, timeout: float, library: Library, deterministic: bool
    ) -> NcclEngine:
        """An engine on an ncclComm_t of someone else."""
        api = nccl()
        found = []
        for name in ("ncclCommUserRank", "ncclCommCount"):
            number = ctypes.c_int()
            api.call(name, ctypes.c_void_p(handle), ctypes.byref(number))
            found.append(number.value)
        if found != [rank, size]:
            raise InvalidProblemError(f"the ncclComm_t is of rank {found[0]} of {found[1]}, not of {rank} of {size}")
        return cls(api, handle, rank, size, timeout, library, deterministic, None, is_owner=False)

    # --- collectives ---

    def all_reduce(self, source: TensorRef, target: TensorRef, op: str, stream: int) -> None:
        is_ordered = self.deterministic and self.size > 2
        if self.peers is not None and self.peers.takes(source.dtype, source.nbytes, always=is_ordered):
            self._check()
            self.peers.all_reduce(source, target, op, stream)
            return
        dtype, count = self._number(source.dtype, op), source.numel * (2 if source.dtype in _COMPLEX else 1)
        if dtype is None:
            self._two_shot(source, target, op, stream)
        elif count:
            self._run("ncclAllReduce", source.ptr, target.ptr, count, dtype, OPS[op], self.handle, _stream(stream))

    def all_gather(self, source: TensorRef, target: TensorRef, counts: Sequence[int], stream: int) -> None:
        item, where = source.dtype.itemsize, _stream(stream)
        if len(set(counts)) == 1:
            if counts[0]:
                self._run("ncclAllGather", source.ptr, target.ptr, counts[0] * item, BYTES, self.handle, where)
            return
        start = target.ptr
        with self._group():
            for rank, count in enumerate(counts):
                if count:
                    mine = source.ptr if rank == self.rank else start
                    self._run("ncclBroadcast", mine, start, count * item, BYTES, rank, self.handle, where)
                start += count * item

    def reduce_scatter(self, source: TensorRef, target: TensorRef, counts: Sequence[int], op: str, stream: int) -> None:
        dtype, wide, where = self._number(source.dtype, op), 2 if source.dtype in _COMPLEX else 1, _stream(stream)
        if dtype is None:
            self._reduce_shares(source, target, counts, op, stream)
        elif len(set(counts)) == 1:
            if counts[0]:
                self._run(
                    "ncclReduceScatter", source.ptr, target.ptr, counts[0] * wide, dtype, OPS[op], self.handle, where
                )
        else:
            start = source.ptr
            with self._group():
                for rank, count in enumerate(counts):
                    if count:
                        into = target.ptr if rank == self.rank else start
                        self._run("ncclReduce", start, into, count * wide, dtype, OPS[op], rank, self.handle, where)
                    start += count * source.dtype.itemsize

    def reduce(self, source: TensorRef, target: TensorRef | None, root: int, op: str, stream: int) -> None:
        dtype, count = self._number(source.dtype, op), source.numel * (2 if source.dtype in _COMPLEX else 1)
        if dtype is None:
            counts = [source.numel * (rank == root) for rank in range(self.size)]
            self._reduce_shares(source, flat(source, 0, 0) if target is None else target, counts, op, stream)
        elif count:
            into = source.ptr if target is None else target.ptr
            self._run("ncclReduce", source.ptr, into, count, dtype, OPS[op], root, self.handle, _stream(stream))

    def broadcast(self, data: TensorRef, root: int, stream: int) -> None:
        if data.nbytes:
            self._run("ncclBroadcast", data.ptr, data.ptr, data.nbytes, BYTES, root, self.handle, _stream(stream))

    def all_to_all(
        self, source: TensorRef, target: TensorRef, sent: Sequence[int], received: Sequence[int], stream: int
    ) -> None:
        item, where = source.dtype.itemsize, _stream(stream)
        if source.ptr == target.ptr and source.nbytes:  # a send must not read what a receive has written
            copied = self._memory(source.numel, source.dtype)
            self._copy(source.ptr, copied.ptr, source.nbytes, stream)
            source = copied
        begin, into = source.ptr, target.ptr
        with self._group():
            for rank in range(self.size):
                out, back = sent[rank] * item, received[rank] * item
                if rank == self.rank:
                    self._copy(begin, into, out, stream)
                else:
                    if out:
                        self._run("ncclSend", begin, out, BYTES, rank, self.handle, where)
                    if back:
                        self._run("ncclRecv", into, back, BYTES, rank, self.handle, where)
                begin, into = begin + out, into + back

    def transfer(self, transfers: Sequence[tuple[TensorRef, int, bool]], stream: int) -> None:
        with self._group():
            for view, peer, is_send in transfers:
                name = "ncclSend" if is_send else "ncclRecv"
                if view.nbytes:
                    self._run(name, view.ptr, view.nbytes, BYTES, peer, self.handle, _stream(stream))

    # --- reductions of ours ---

    def _number(self, dtype: ElementKind, op: str) -> int | None:
        """NCCL's dtype for a reduction; None where ours is used."""
        if dtype in _COMPLEX and op in ("sum", "avg") and not self.deterministic:
            return DTYPES[_COMPLEX[dtype]]
        if dtype not in DTYPES:
            return None
        # Minima and maxima of integers have no rounding; NCCL's of floats drop NaN.
        if dtype.integer_range is not None or dtype is ElementKind.BOOL:
            return DTYPES[dtype]
        return None if self.deterministic or op in ("min", "max") else DTYPES[dtype]

    def _two_shot(self, source: TensorRef, target: TensorRef, op: str, stream: int) -> None:
        count, item = source.numel, source.dtype.itemsize
        share = -(-count // self.size)
        share = -(-share * item // 16) * 16 // item  # aligned for vectorised loads
        counts = [max(0, min(share, count - rank * share)) for rank in range(self.size)]
        mine = self._memory(max(counts[self.rank], 1), source.dtype)
        own = flat(mine, 0, counts[self.rank])
        self._reduce_shares(source, own, counts, op, stream)
        self.all_gather(own, target, counts, stream)

    def _reduce_shares(self, source: TensorRef, target: TensorRef, counts: Sequence[int], op: str, stream: int) -> None:
        """Receive everybody's part of this rank's elements, and reduce them over the ranks."""
        import baracuda as bk

        mine = counts[self.rank]
        parts = self._memory(max(self.size * mine, 1), source.dtype)
        received = flat(parts, 0, self.size * mine)
        self.all_to_all(source, received, counts, [mine] * self.size, stream)
        if not mine:
            return
        kernel, dtype = getattr(bk, _KERNELS[op]), source.dtype
        if dtype is ElementKind.F32_STRICT:
            dtype = ElementKind.F32
        rows = received.view(dtype).reshape(self.size, mine)
        with functions_on(stream, is_cuda=True):
            kernel(rows, axis=0, out=target.view(dtype).reshape(mine))

    def _memory(self, count: int, dtype: ElementKind) -> TensorRef:
        """Scratch of this call. Calls of one stream follow each other, but captured ones may run beside others."""
        made = memory.empty((count,), dtype, library=self.library)
        self._scratch.append(made)
        if len(self._scratch) > 64 and memory.held is None:
            del self._scratch[0]
        return made

    def _copy(self, source: int, target: int, nbytes: int, stream: int) -> None:
        if nbytes and source != target:
            runtime = memory.cuda_runtime()
            kind = runtime.cudaMemcpyKind.cudaMemcpyDeviceToDevice
            status = runtime.cudaMemcpyAsync(target, source, nbytes, kind, stream or 2)
            memory.runtime_result(status, "cudaMemcpyAsync")

    # --- calls and faults ---

    @contextmanager
    def _group(self) -> Iterator[None]:
        self._run("ncclGroupStart")
        try:
            yield
        finally:
            self._run("ncclGroupEnd")

    def _check(self) -> None:
        """Raise the error that has been noticed."""
        if self.error is None and self.peers is not None and (error := self.peers.error()) is not None:
            self._abort(self._reason() or error)
        if self.error is not None:
            raise self.error

    def _run(self, name: str, *arguments: object) -> None:
        if self.error is not None:
            raise self.error
        try:
            self.api.call(name, *arguments)
        except NcclError as error:
            raise self._abort(self._reason() or error) from None

    def wait(self, stream: int) -> None:
        """Wait for the stream; an error of another rank, of NCCL, or the time-out ends its work and raises."""
        runtime, end, pause = memory.cuda_runtime(), time.monotonic() + self.timeout, 2e-5
        while True:
            if self.error is not None:
                raise self.error
            status = int(runtime.cudaStreamQuery(stream or 2)[0])
            if status == 0:
                break
            if status != _NOT_READY:
                raise self._abort(NcclError(f"cudaStreamQuery: status {status}"))
            number = ctypes.c_int()
            with self._abort_lock:  # the handle is gone after an abort
                if self.error is None:
                    self.api.call("ncclCommGetAsyncError", self.handle, ctypes.byref(number))
            if number.value not in (0, 7):
                raise self._abort(self._reason() or NcclError(f"NCCL: {self.api.text(number.value)}"))
            if time.monotonic() > end:
                raise self._abort(RankTimeoutError(f"wait: the stream's work was not done within {self.timeout:g} s"))
            time.sleep(pause)
            pause = min(1.5 * pause, 1e-3)
        self._check()

    def _reason(self) -> DistributedError | None:
        """The error of another rank."""
        return self.control.segment.trouble() if isinstance(self.control, SegmentControl) else None

    def _watch(self) -> None:
        memory.runtime_result(memory.cuda_runtime().cudaSetDevice(self._device), "cudaSetDevice")
        while not self._closing.wait(_LOOK):
            reason = self._reason() or (self.peers.error() if self.peers is not None else None)
            if reason is not None:
                self._abort(reason)
                return

    def _abort(self, error: DistributedError) -> DistributedError:
        """End NCCL's kernels and ours, and tell the other ranks."""
        with self._abort_lock:
            if self.error is None:
                self.error = error
                if self.peers is not None:
                    self.peers.abort()
                if self.control is not None:
                    self.control.fail(error)
                if self._is_owner:
                    with suppress(NcclError):
                        self.api.call("ncclCommAbort", self.handle)
        return error

    def close(self) -> None:
        self._closing.set()
        if self._watcher is not None:
            self._watcher.join(self.timeout)  # it reads what is closed next
        if self.peers is not None:
            self.peers.close()
        if self._is_owner and self.error is None:
            with suppress(DistributedError):
                _within(lambda: self.api.call("ncclCommDestroy", self.handle), min(self.timeout, 30.0), "close", None)


def _stream(stream: int) -> ctypes.c_void_p:
    """The handle; None is the per-thread default stream, as everywhere in this package."""
    return ctypes.c_void_p(stream or 2)


def _current_device() -> int:
    return int(memory.runtime_result(memory.cuda_runtime().cudaGetDevice(), "cudaGetDevice"))


def _within(call: Callable[[], None], timeout: float, what: str, control: Control | None) -> None:
    """Make a call that waits for other ranks, in a thread, so that a rank that does not come is noticed."""
    failure: list[BaseException] = []

    def run() -> None:
        try:
            call()
        except BaseException as error:
            failure.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    end = time.monotonic() + timeout
    while thread.is_alive():
        thread.join(_LOOK)
        reason = control.segment.trouble() if isinstance(control, SegmentControl) and thread.is_alive() else None
        if reason is not None:
            raise RankFailedError(f"{what}: {reason.text}", reason.ranks)
        if time.monotonic() > end:
            error = RankTimeoutError(f"{what} was not done within {timeout:g} s")
            raise error if control is None else control.fail(error)
    if failure:
        raise failure[0]
