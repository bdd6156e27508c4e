# SPDX-License-Identifier: Apache-2.0
"""A file in shared memory, by which the ranks of a group on one host agree on calls and exchange bytes.

Layout: 128 KiB for each rank, with its counter of rounds, its error and its two records; then the slots of the ranks,
two each; then the channels (baracuda.distributed.engines.channels).

A round k is: each rank writes its record and its slot of phase k % 2, sets its counter to k, and waits until all
counters have reached k. It then reads the records and slots of all ranks. A rank sets its counter to k + 1 after it has
read, so that a slot is written again, in round k + 2, when all ranks have read it: two phases suffice, and no counter
ever falls.

A waiting rank looks at the errors of the others and, by the lock that each rank holds on a byte of the file, whether
they live. The file has no name: ranks open it by its descriptor in the process that made it, so that nothing is left of
a run that is killed.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import mmap
import os
import struct
import tempfile
import threading
import time
from collections.abc import Callable
from typing import IO, Any

import numpy as np

from baracuda.distributed.errors import DistributedError, RankFailedError, RankTimeoutError
from baracuda.errors import InternalError, InvalidProblemError

Array = np.ndarray[Any, Any]
Address = tuple[str, int, int]  # path, device and inode: descriptors are used again
PAGE = 1 << 17  # bytes of a rank
RECORD_BYTES = (PAGE >> 1) - 4096
_RECORDS = PAGE - 2 * RECORD_BYTES  # offset of two records
_ERROR = 128  # offset of the text of an error
_ERROR_BYTES = 4096
_LOCK = struct.Struct("hhqqi")  # struct flock
_LIVE_AT, _STATE = 1 << 40, {0: "", 1: "timeout", 2: "failed", 3: "closed"}  # locks lie behind the end of the file
_STATE_OF = {name: number for number, name in _STATE.items()}
_YIELDS = 400  # before a waiting rank sleeps
_LOOK = 0.05  # seconds between looks at the other ranks


class Segment:
    """Rank `rank` of `size` in a file at `address`, to which rank 0 gives its size."""

    def __init__(
        self, address: Address, rank: int, size: int, slot_bytes: int, channel_bytes: int, timeout: float
    ) -> None:
        self.rank, self.size, self.timeout = rank, size, timeout
        self.slot_bytes, self.channel_bytes = slot_bytes, channel_bytes
        self.channels_at = PAGE * size + 2 * size * slot_bytes
        total = segment_bytes(size, slot_bytes, channel_bytes)
        try:
            self._file = os.open(address[0], os.O_RDWR | os.O_CLOEXEC)
            if tuple(address) != _address(address[0], self._file):
                os.close(self._file)
                raise ValueError("the process that made it has closed it")
            if rank == 0:
                os.ftruncate(self._file, total)
            self._map = mmap.mmap(self._file, total)
        except (OSError, ValueError) as error:
            raise InternalError(f"shared memory of {total} bytes at {address[0]}: {error}") from error
        self.bytes = np.frombuffer(self._map, np.uint8)
        words = self.bytes[: PAGE * size].view(np.uint64).reshape(size, PAGE // 8)
        self._counters, self._states = words[:, 0], words[:, 8]
        self.round = 0
        self.error: DistributedError | None = None
        self._fence = threading.Lock()
        fcntl.fcntl(self._file, fcntl.F_OFD_SETLK, _lock(fcntl.F_WRLCK, rank))

    # --- rounds ---

    def exchange(self, record: bytes, write: Callable[[Array], object] | None, what: str) -> list[bytes]:
        """A round: the records of all ranks, once each has called `write` with its slot. `what` names the operation."""
        self.check(what)
        self.round += 1
        phase = self.round % 2
        if write is not None:
            write(self.slot(self.rank))
        self._put_record(phase, record)
        self.publish(self._counters, self.rank, self.round)
        self.wait(lambda: bool((self._counters >= self.round).all()), what, self._late)
        return [self._record(rank, phase) for rank in range(self.size)]

    def slot(self, rank: int) -> Array:
        """The slot of a rank in the current round."""
        start = PAGE * self.size + (2 * rank + self.round % 2) * self.slot_bytes
        return self.bytes[start : start + self.slot_bytes]

    def publish(self, words: Array, at: Any, value: int) -> None:
        """Store a counter after all that was written before."""
        with self._fence:  # a barrier for processors that reorder stores
            pass
        words[at] = value

    def _put_record(self, phase: int, record: bytes) -> None:
        if len(record) > RECORD_BYTES - 4:
            raise InvalidProblemError(f"a record has {len(record)} bytes, at most {RECORD_BYTES - 4} can be exchanged")
        at = PAGE * self.rank + _RECORDS + phase * RECORD_BYTES
        self._map[at : at + 4 + len(record)] = struct.pack("<I", len(record)) + record

    def _record(self, rank: int, phase: int) -> bytes:
        at = PAGE * rank + _RECORDS + phase * RECORD_BYTES
        (length,) = struct.unpack_from("<I", self._map, at)
        return self._map[at + 4 : at + 4 + length]

    def _late(self) -> tuple[int, ...]:
        return tuple(int(r) for r in np.flatnonzero(self._counters < self.round))

    # --- waiting ---

    def wait(self, is_done: Callable[[], bool], what: str, late: Callable[[], tuple[int, ...]]) -> None:
        """Return once is_done(). An error of another rank, its death or the time-out raise; late() is missing."""
        try:
            for _ in range(_YIELDS):
                if is_done():
                    return self._arrived()
                os.sched_yield()
            start = look = time.monotonic()
            pause = 2e-5
            while not is_done():
                time.sleep(pause)
                pause = min(1.5 * pause, 1e-3)
                now = time.monotonic()
                if now - look > _LOOK:
                    look = now
                    self.check(what, set(late()))
                if now - start > self.timeout:
                    ranks = late()
                    raise self.fail(
                        RankTimeoutError(f"{what}: {_named(ranks)} did not arrive within {self.timeout:g} s", ranks)
                    )
        except BaseException as error:
            if self.error is None:  # an interrupt
                self.fail(RankFailedError(f"{what}: {type(error).__name__} in rank {self.rank}", (self.rank,)))
            raise
        self._arrived()

    def _arrived(self) -> None:
        with self._fence:
            pass

    def check(self, what: str, awaited: set[int] | None = None) -> None:
        """Raise what another rank has reported, or that a rank is dead. A rank that has closed its communicator is an
        error where it is awaited.
        """
        if self.error is not None:
            raise self.error
        for rank in np.flatnonzero(self._states).tolist():
            state = _STATE[int(self._states[rank])]
            if rank == self.rank or (state == "closed" and rank not in (awaited or ())):
                continue
            kind = RankTimeoutError if state == "timeout" else RankFailedError
            text, ranks = self._reported(rank) or (f"{what}: rank {rank} has closed its communicator", (rank,))
            raise self.fail(kind(text, ranks))
        if awaited is not None:
            dead = tuple(rank for rank in sorted(awaited) if rank != self.rank and not self._lives(rank))
            if dead:
                raise self.fail(RankFailedError(f"{what}: {_named(dead)} died", dead))

    def fail(self, error: DistributedError) -> DistributedError:
        """Note the error for the other ranks and for all later calls."""
        if self.error is None:
            self.error = error
            text = json.dumps([error.text[: _ERROR_BYTES // 8], list(error.ranks[:64])]).encode()
            at = PAGE * self.rank + _ERROR
            self._map[at : at + 2 + len(text)] = struct.pack("<H", len(text)) + text
            is_late = isinstance(error, RankTimeoutError)
            self.publish(self._states, self.rank, _STATE_OF["timeout" if is_late else "failed"])
        return error

    def _reported(self, rank: int) -> tuple[str, tuple[int, ...]] | None:
        """The text and the ranks of another rank's error; None if it has only closed."""
        at = PAGE * rank + _ERROR
        (length,) = struct.unpack_from("<H", self._map, at)
        if not length:
            return None
        text, ranks = json.loads(self._map[at + 2 : at + 2 + length])
        return text, tuple(ranks)

    def trouble(self) -> DistributedError | None:
        """The error that another rank has reported, or that one is dead; None while all is well. For other threads."""
        for rank in range(self.size):
            state = _STATE[int(self._states[rank])]
            if rank != self.rank and state in ("timeout", "failed"):
                kind = RankTimeoutError if state == "timeout" else RankFailedError
                text, ranks = self._reported(rank) or (f"rank {rank} failed", (rank,))
                return kind(text, ranks)
            if rank != self.rank and not state and not self._lives(rank):
                return RankFailedError(f"rank {rank} died", (rank,))
        return None

    def _lives(self, rank: int) -> bool:
        """Whether the rank holds its lock, which it does from before the first round until it ends."""
        found = fcntl.fcntl(self._file, fcntl.F_OFD_GETLK, _lock(fcntl.F_WRLCK, rank))
        return int(_LOCK.unpack(found)[0]) != fcntl.F_UNLCK

    # --- the end ---

    def close(self) -> None:
        """Leave the group. Arrays that view the memory keep it mapped."""
        if self.error is None:
            self.publish(self._states, self.rank, _STATE_OF["closed"])
        with contextlib.suppress(OSError):
            os.close(self._file)


def segment_bytes(size: int, slot_bytes: int, channel_bytes: int) -> int:
    from baracuda.distributed.engines.channels import channels_bytes

    return PAGE * size + 2 * size * slot_bytes + channels_bytes(size, channel_bytes)


def make_file(nbytes: int) -> IO[bytes]:
    """An empty file without a name, in memory if there is enough of it, else in the folder of temporary files."""
    folder = "/dev/shm"
    try:
        free = os.statvfs(folder)
        if free.f_bavail * free.f_frsize < 2 * nbytes:
            folder = tempfile.gettempdir()
    except OSError:
        folder = tempfile.gettempdir()
    return tempfile.TemporaryFile(prefix="baracuda-", dir=folder)


def address_of(file: IO[bytes]) -> Address:
    """The address by which processes of the same user open a file without a name while this process has it open."""
    return _address(f"/proc/{os.getpid()}/fd/{file.fileno()}", file.fileno())


def _address(path: str, file: int) -> Address:
    found = os.fstat(file)
    return path, found.st_dev, found.st_ino


def _lock(kind: int, rank: int) -> bytes:
    return _LOCK.pack(kind, os.SEEK_SET, _LIVE_AT + rank, 1, 0)


def _named(ranks: tuple[int, ...]) -> str:
    return f"rank{'s' * (len(ranks) > 1)} {', '.join(map(str, ranks))}" if ranks else "a rank"
