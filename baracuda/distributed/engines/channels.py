# SPDX-License-Identifier: Apache-2.0
"""Messages between two ranks in shared memory: a channel for each ordered pair, of two buffers.

A message is a header of 64 bytes in the channel and its bytes, in chunks through the two buffers by phase. `posted`
counts the chunks that the sender has written, `consumed` those that the receiver has read. The second chunk of a
message waits until the first was read, so that a receiver can refuse a message whose header does not fit. A message is
sent once it was read.

Transfers of one call advance together, in whatever order the peers are ready, so that any set of sends and receives
that fits those of the other ranks ends.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from baracuda.distributed.engines.segment import Segment
from baracuda.distributed.errors import MismatchError

Array = np.ndarray[Any, Any]
_HEADER = 256  # bytes: counters `posted`, `consumed` and `refused`, a cache line each, then the header of a message
_MESSAGE = 192  # offset of that


def channels_bytes(size: int, channel_bytes: int) -> int:
    return size * size * (_HEADER + 2 * channel_bytes)


@dataclasses.dataclass(frozen=True)
class Transfer:
    """Bytes to send to, or to receive from, a peer. `code` is of the dtype and must agree on both sides."""

    data: Array
    peer: int
    is_send: bool
    code: int = 0


class Channels:
    def __init__(self, segment: Segment) -> None:
        self.segment = segment
        self._messages: dict[tuple[int, int], int] = {}

    def run(self, transfers: Sequence[Transfer], what: str) -> None:
        """Make all transfers. MismatchError on both sides of one whose sizes or dtypes differ, once the others are
        done.
        """
        steps = [_Step(self, transfer, what) for transfer in transfers]
        queues: dict[tuple[int, int], list[_Step]] = {}  # messages of a channel, one after the other
        for step in reversed(steps):
            queues.setdefault((step.source, step.to), []).append(step)

        def is_done() -> bool:
            for queue in queues.values():
                while queue and queue[-1].advance():
                    if queue[-1].is_done:
                        queue.pop()
            return not any(queues.values())

        def late() -> tuple[int, ...]:
            return tuple(sorted({step.transfer.peer for step in steps if not step.is_done}))

        self.segment.check(what)
        self.segment.wait(is_done, what, late)
        refusals = [step.refusal for step in steps if step.refusal is not None]
        if refusals:
            raise refusals[0]

    def next_message(self, source: int, to: int) -> int:
        number = self._messages[source, to] = self._messages.get((source, to), 0) + 1
        return number


class _Step:
    """The progress of a transfer."""

    def __init__(self, channels: Channels, transfer: Transfer, what: str) -> None:
        self.segment, self.transfer, self.what = channels.segment, transfer, what
        segment = self.segment
        self.source, self.to = (
            (segment.rank, transfer.peer) if transfer.is_send else (transfer.peer, segment.rank)
        )  # fmt: skip
        self.chunk_bytes = segment.channel_bytes
        start = segment.channels_at + (self.source * segment.size + self.to) * (_HEADER + 2 * self.chunk_bytes)
        header = segment.bytes[start : start + _HEADER]
        self.words = header.view(np.uint64)  # posted at 0, consumed at 8, refused at 16
        self.message = header[_MESSAGE:].view(np.int64)  # number of bytes, dtype
        self.buffers = [
            segment.bytes[start + _HEADER + k * self.chunk_bytes :][: self.chunk_bytes] for k in (0, 1)
        ]  # fmt: skip
        self.number = channels.next_message(self.source, self.to)
        nbytes = transfer.data.nbytes
        self.chunks = max(1, -(-nbytes // self.chunk_bytes))
        self.first: int | None = None  # the counter before the message
        self.done, self.is_done = 0, False
        self.refusal: MismatchError | None = None

    def advance(self) -> bool:
        """Move a chunk, or note that all were read; False if the peer is not ready."""
        return self._send() if self.transfer.is_send else self._receive()

    def _send(self) -> bool:
        posted, consumed = int(self.words[0]), int(self.words[8])
        if self.done == self.chunks:
            if consumed < posted:
                return False
            return self._finish(int(self.words[16]) == self.number)
        if self.done == 0:
            if consumed < posted:
                return False  # an earlier message
            self.message[0], self.message[1] = self.transfer.data.nbytes, self.transfer.code
        elif self.done == 1 and consumed < posted:
            return False
        elif self.done == 1 and int(self.words[16]) == self.number:
            return self._finish(True)
        elif posted - consumed >= 2:
            return False
        part = self._part()
        self.buffers[posted % 2][: len(part)] = part
        self.segment.publish(self.words, 0, posted + 1)
        self.done += 1
        return True

    def _receive(self) -> bool:
        posted, consumed = int(self.words[0]), int(self.words[8])
        if posted == consumed:
            return False
        if self.done == 0 and (int(self.message[0]), int(self.message[1])) != self._expected:
            self.segment.publish(self.words, 16, self.number)
            self.segment.publish(self.words, 8, posted)
            return self._finish(True)
        part = self._part()
        part[:] = self.buffers[consumed % 2][: len(part)]
        self.segment.publish(self.words, 8, consumed + 1)
        self.done += 1
        return self._finish(False) if self.done == self.chunks else True

    @property
    def _expected(self) -> tuple[int, int]:
        return self.transfer.data.nbytes, self.transfer.code

    def _part(self) -> Array:
        return self.transfer.data[self.done * self.chunk_bytes : (self.done + 1) * self.chunk_bytes]

    def _finish(self, is_refused: bool) -> bool:
        self.is_done = True
        if is_refused:
            side = f"rank {self.source} sends to rank {self.to}"
            theirs = f", which are {int(self.message[0])} bytes" if not self.transfer.is_send else ""
            self.refusal = MismatchError(
                f"{self.what}: what {side}{theirs} and what rank {self.to} receives differ in size or dtype; here it "
                f"has {self.transfer.data.nbytes} bytes",
                (self.source, self.to),
            )
        return True
