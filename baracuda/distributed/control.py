# SPDX-License-Identifier: Apache-2.0
"""Agreement of the ranks of a group on a call before they send anything: a record of each rank goes to all.

On one host the records go through shared memory, in microseconds; between hosts through the store of the rendezvous.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from baracuda.distributed.engines.channels import Channels
from baracuda.distributed.engines.segment import Segment
from baracuda.distributed.errors import DistributedError, MismatchError, RankTimeoutError
from baracuda.distributed.store import Store

Record = dict[str, Any]
REFUSED = "refused"


class Control(Protocol):
    def exchange(self, record: Record, what: str) -> list[Record]:
        """The records of all ranks."""

    def check(self, what: str) -> None:
        """Raise what other ranks have reported."""

    def fail(self, error: DistributedError) -> DistributedError:
        """Tell the other ranks."""

    def close(self) -> None: ...


class SegmentControl:
    def __init__(self, segment: Segment) -> None:
        self.segment, self.channels = segment, Channels(segment)

    def exchange(self, record: Record, what: str) -> list[Record]:
        return [json.loads(each) for each in self.segment.exchange(_encoded(record), None, what)]

    def check(self, what: str) -> None:
        self.segment.check(what)

    def fail(self, error: DistributedError) -> DistributedError:
        return self.segment.fail(error)

    def close(self) -> None:
        self.segment.close()


class StoreControl:
    """Control through the store: `prefix` names the group. An error reaches the others when they next wait."""

    def __init__(self, store: Store, prefix: str, rank: int, size: int, timeout: float) -> None:
        self.store, self.prefix, self.rank, self.size, self.timeout = store, prefix, rank, size, timeout
        self.round = 0
        self.error: DistributedError | None = None

    def exchange(self, record: Record, what: str) -> list[Record]:
        self.check(what)
        self.round += 1
        self.store.set(self._key(self.rank), _encoded(record))
        found = []
        for rank in range(self.size):
            try:
                found.append(json.loads(self.store.get(self._key(rank), self.timeout)))
            except RankTimeoutError:
                text = f"{what}: rank {rank} did not arrive within {self.timeout:g} s"
                raise self.fail(RankTimeoutError(text, (rank,))) from None
        return found

    def check(self, what: str) -> None:
        if self.error is not None:
            raise self.error

    def fail(self, error: DistributedError) -> DistributedError:
        self.error = self.error or error
        return error

    def close(self) -> None:
        self.store.close(is_last=False)

    def _key(self, rank: int) -> str:
        return f"{self.prefix}.{self.round}.{rank}"


def agree(control: Control, what: str, record: Record, own: Sequence[str] = ()) -> list[Record]:
    """The records of all ranks, which agree in everything but the fields in `own`. MismatchError, with the same text on
    every rank, where they do not, or where a rank has refused its arguments.
    """
    records = control.exchange({"call": what, **record}, what)
    refused = tuple(rank for rank, each in enumerate(records) if REFUSED in each)
    if refused:
        texts = "; ".join([f"rank {rank} refuses its arguments of {records[rank]['call']}: {records[rank][REFUSED]}"
                           for rank in refused])  # fmt: skip
        raise MismatchError(texts, refused)
    kept = [{key: value for key, value in each.items() if key not in own} for each in records]
    if any(each != kept[0] for each in kept):
        raise MismatchError(_difference(what, kept), _minority(kept))
    return records


def refuse(control: Control, what: str, error: Exception) -> None:
    """Tell the others that this rank's arguments are wrong; they are waiting in the same round."""
    control.exchange({"call": what, REFUSED: str(error)[:400]}, what)


def _difference(what: str, records: list[Record]) -> str:
    keys = dict.fromkeys(k for each in records for k in each)
    different = [key for key in keys if any(each.get(key) != records[0].get(key) for each in records)]
    shown = "; ".join([
        f"{key} is " + ", ".join([f"{each.get(key)} on rank {rank}" for rank, each in enumerate(records)])
        for key in different
    ])  # fmt: skip
    name = what if "call" not in different else "the ranks call different functions"
    return f"{name}: {shown}"


def _minority(records: list[Record]) -> tuple[int, ...]:
    """The ranks that differ from the most frequent record."""
    most: Callable[[Record], int] = records.count
    common = max(records, key=most)
    return tuple(rank for rank, each in enumerate(records) if each != common)


def _encoded(record: Record) -> bytes:
    return json.dumps(record, separators=(",", ":")).encode()


def host_name() -> str:
    """A name that processes share if they share memory: one kernel, and one namespace of process ids."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return f"{socket.gethostname()} {file.read().strip()} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return socket.gethostname()
