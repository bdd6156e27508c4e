# SPDX-License-Identifier: Apache-2.0
"""The engine of collectives on the CPU: ranks are processes of one host, and exchange bytes through a Segment.

All-reduce has two steps for each chunk (two-shot): every rank reduces its share of the elements in the order of the
ranks, then reads the shares of the others. Of less than a few kilobytes each rank reduces everything itself (one-shot).
Both give the same bits.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from baracuda.distributed.engines.channels import Channels, Transfer
from baracuda.distributed.engines.reductions import reduce_parts
from baracuda.distributed.engines.segment import Segment
from baracuda.memory import _host_bytes
from baracuda.tensor import TensorRef

Array = np.ndarray[Any, Any]
_ONE_SHOT_BYTES = 16384


class HostEngine:
    """Counts are of elements. Sources and targets are contiguous; a source may be its target."""

    backend = "cpu"

    def __init__(self, segment: Segment) -> None:
        self.segment, self.rank, self.size = segment, segment.rank, segment.size
        self._channels = Channels(segment)

    def all_reduce(self, source: TensorRef, target: TensorRef, op: str, stream: int) -> None:
        data, out, item = _bytes(source), _bytes(target), source.dtype.itemsize
        for start, stop in self._chunks(len(data), item):
            length = stop - start
            self._round("all_reduce", lambda slot, at=start, end=stop: _put(slot, data[at:end]))
            if length <= _ONE_SHOT_BYTES or self.size == 1:
                out[start:stop] = self._reduced(0, length, op, source)
                continue
            shares = _shares(length, self.size, item)
            mine = self._reduced(*shares[self.rank], op, source)
            self._round("all_reduce", lambda slot, mine=mine: _put(slot, mine))
            for rank, (first, last) in enumerate(shares):
                out[start + first : start + last] = self._slot(rank)[: last - first]

    def all_gather(self, source: TensorRef, target: TensorRef, counts: Sequence[int], stream: int) -> None:
        data, out, item = _bytes(source), _bytes(target), source.dtype.itemsize
        starts = _starts(counts, item)
        if _overlap(data, out):
            data = data.copy()
        for start, stop in self._chunks(max(counts) * item, item):
            self._round("all_gather", lambda slot, at=start, end=stop: _put(slot, data[at:end]))
            for rank, count in enumerate(counts):
                last = min(stop, count * item)
                if last > start:
                    out[starts[rank] + start : starts[rank] + last] = self._slot(rank)[: last - start]

    def reduce_scatter(self, source: TensorRef, target: TensorRef, counts: Sequence[int], op: str, stream: int) -> None:
        data, out, item = _bytes(source), _bytes(target), source.dtype.itemsize
        begin = _starts(counts, item)[self.rank]
        end = begin + counts[self.rank] * item
        if _overlap(data, out):
            data = data.copy()
        for start, stop in self._chunks(len(data), item):
            self._round("reduce_scatter", lambda slot, at=start, end=stop: _put(slot, data[at:end]))
            first, last = max(start, begin), min(stop, end)
            if last > first:
                out[first - begin : last - begin] = self._reduced(first - start, last - start, op, source)

    def reduce(self, source: TensorRef, target: TensorRef | None, root: int, op: str, stream: int) -> None:
        data, item = _bytes(source), source.dtype.itemsize
        for start, stop in self._chunks(len(data), item):
            self._round("reduce", lambda slot, at=start, end=stop: _put(slot, data[at:end]))
            if target is not None:
                _bytes(target)[start:stop] = self._reduced(0, stop - start, op, source)

    def broadcast(self, data: TensorRef, root: int, stream: int) -> None:
        own = _bytes(data)
        for start, stop in self._chunks(len(own), data.dtype.itemsize):
            is_root = self.rank == root
            self._round("broadcast", (lambda slot, at=start, end=stop: _put(slot, own[at:end])) if is_root else None)
            if not is_root:
                own[start:stop] = self._slot(root)[: stop - start]

    def all_to_all(
        self, source: TensorRef, target: TensorRef, sent: Sequence[int], received: Sequence[int], stream: int
    ) -> None:
        data, out, item = _bytes(source), _bytes(target), source.dtype.itemsize
        if _overlap(data, out):
            data = data.copy()
        froms, tos, transfers = _starts(sent, item), _starts(received, item), []
        for peer in range(self.size):
            part = data[froms[peer] : froms[peer] + sent[peer] * item]
            into = out[tos[peer] : tos[peer] + received[peer] * item]
            if peer == self.rank:
                into[:] = part
                continue
            if len(part):
                transfers.append(Transfer(part, peer, True, int(source.dtype)))
            if len(into):
                transfers.append(Transfer(into, peer, False, int(source.dtype)))
        self._channels.run(transfers, "all_to_all")

    def transfer(self, transfers: Sequence[tuple[TensorRef, int, bool]], stream: int) -> None:
        """Send (view, peer, True) and receive (view, peer, False), all at once."""
        made = [Transfer(_bytes(view), peer, is_send, int(view.dtype)) for view, peer, is_send in transfers]
        self._channels.run(made, "send and receive")

    def wait(self, stream: int) -> None:
        """Everything is done when a call returns."""

    def close(self) -> None:
        """The segment is the communicator's."""

    # --- chunks ---

    def _chunks(self, nbytes: int, item: int) -> list[tuple[int, int]]:
        """Ranges of bytes that fit a slot; none of an empty array."""
        step = self.segment.slot_bytes // item * item
        return [(start, min(start + step, nbytes)) for start in range(0, nbytes, step)]

    def _round(self, what: str, write: Callable[..., object] | None) -> None:
        self.segment.exchange(b"", write, what)

    def _slot(self, rank: int) -> Array:
        return self.segment.slot(rank)

    def _reduced(self, start: int, stop: int, op: str, like: TensorRef) -> Array:
        parts = [self._slot(rank)[start:stop] for rank in range(self.size)]
        return reduce_parts(parts, op, like.dtype)


def _bytes(view: TensorRef) -> Array:
    return _host_bytes(view.ptr, view.nbytes) if view.nbytes else np.empty(0, np.uint8)


def _put(slot: Array, data: Array) -> None:
    slot[: len(data)] = data


def _starts(counts: Sequence[int], item: int) -> list[int]:
    return [item * before for before in itertools.accumulate([0, *counts[:-1]])]


def _shares(nbytes: int, size: int, item: int) -> list[tuple[int, int]]:
    """Ranges of bytes, of whole cache lines but for the last."""
    step = -(-nbytes // size // 64) * 64 if 64 % item == 0 else -(-nbytes // size // item) * item
    return [(min(rank * step, nbytes), min((rank + 1) * step, nbytes)) for rank in range(size)]


def _overlap(a: Array, b: Array) -> bool:
    return len(a) > 0 and len(b) > 0 and bool(np.shares_memory(a, b))
