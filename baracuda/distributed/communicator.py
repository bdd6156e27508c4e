# SPDX-License-Identifier: Apache-2.0
"""The communicator: collectives of a group of ranks on arrays of any framework, by NCCL or, on the CPU, shared memory.

    comm = bk.distributed.init()         # in each process that torchrun, mpirun or bk.distributed.run has started
    comm.all_reduce(gradient, out=gradient)

Calls are enqueued on a stream, by default the current one of the array's framework, and may be captured in graphs; on
the CPU they return when they are done. Before anything is sent, the ranks compare the call, dtype and shapes: where
these do not fit, each rank raises MismatchError. A rank that dies or does not come raises RankFailedError or
RankTimeoutError on all others. With verify=False nothing is compared, which saves some tens of microseconds of host
time a call.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from baracuda._call import checking
from baracuda._library.loader import Library
from baracuda.distributed.arguments import Operand, counts_of, flat, output, rank_of
from baracuda.distributed.control import Control, Record, agree, refuse
from baracuda.distributed.engines.reductions import check_reduction
from baracuda.distributed.errors import DistributedError, MismatchError
from baracuda.errors import BaracudaError, InvalidProblemError
from baracuda.tensor import TensorRef

Prepared = tuple[
    Record, "functools.partial[None]", Any
]  # facts, the call, whose last argument is the stream, the result


class Engine(Protocol):
    """Moves bytes. Sources and targets are contiguous, counts are of elements; a source may be its target."""

    backend: str
    rank: int
    size: int

    def all_reduce(self, source: TensorRef, target: TensorRef, op: str, stream: int) -> None: ...
    def all_gather(self, source: TensorRef, target: TensorRef, counts: Sequence[int], stream: int) -> None: ...
    def reduce_scatter(
        self, source: TensorRef, target: TensorRef, counts: Sequence[int], op: str, stream: int
    ) -> None: ...
    def reduce(self, source: TensorRef, target: TensorRef | None, root: int, op: str, stream: int) -> None: ...
    def broadcast(self, data: TensorRef, root: int, stream: int) -> None: ...
    def all_to_all(
        self, source: TensorRef, target: TensorRef, sent: Sequence[int], received: Sequence[int], stream: int
    ) -> None: ...
    def transfer(self, transfers: Sequence[tuple[TensorRef, int, bool]], stream: int) -> None: ...
    def wait(self, stream: int) -> None: ...
    def close(self) -> None: ...


class Communicator:
    """A group of `size` ranks, of which this process is `rank`. `ranks` are their numbers in the world, and local_rank
    is this process's number on its host. Made by init(), split() and from_nccl().
    """

    def __init__(
        self, engine: Engine, control: Control, library: Library, *, ranks: Sequence[int], local_rank: int,
        verify: bool = True, remake: Callable[[Control, Sequence[int], int], Communicator] | None = None,
    ) -> None:  # fmt: skip
        self.engine, self.control, self.library = engine, control, library
        self.rank, self.size, self.backend = engine.rank, engine.size, engine.backend
        self.ranks, self.local_rank, self.verify = tuple(ranks), local_rank, verify
        self._remake, self._lock, self._is_closed = remake, threading.RLock(), False

    def __repr__(self) -> str:
        return f"Communicator(rank={self.rank}, size={self.size}, backend={self.backend!r})"

    def __reduce__(self) -> Any:
        raise TypeError("a Communicator belongs to its process and cannot be pickled")

    def __enter__(self) -> Communicator:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Close; after an exception tell the other ranks, which would wait for this one."""
        if error is not None and not isinstance(error, DistributedError):
            text = f"rank {self.rank} raised {type(error).__name__}: {error}"
            from baracuda.distributed.errors import RankFailedError

            self.control.fail(RankFailedError(text, (self.rank,)))
        self.close()

    # --- collectives ---

    def all_reduce(self, x: Any, op: str = "sum", *, out: Any = None, stream: object = None) -> Any:
        """The reduction over all ranks, on each of them: "sum", "prod", "min", "max" or "avg". out may be x."""

        def prepare() -> Prepared:
            source = self._operand(x, "x")
            check_reduction(op, source.view.dtype)
            target = output(out, source, source.view.shape, self.library)
            record = {**_facts(source), "op": op}
            run = functools.partial(self.engine.all_reduce, source.view, target.view, op, source.stream(stream))
            return record, run, target

        return self._call("all_reduce", prepare)

    def all_gather(self, x: Any, *, counts: Sequence[int] | None = None, out: Any = None, stream: object = None) -> Any:
        """The arrays of all ranks, concatenated along the first axis in the order of the ranks. Their first extents may
        differ; they are exchanged, unless `counts` has them. Without verify they are taken to be equal.
        """
        source = self._guarded("all_gather", lambda: self._operand(x, "x"))
        found = counts
        if found is None and self.verify:
            found = [each["rows"] for each in self._agree(
                "all_gather", {"dtype": source.view.dtype.token, "row": list(source.row_shape), "rows": source.rows},
                own=("rows",))]  # fmt: skip

        def prepare() -> Prepared:
            rows = tuple(found) if found is not None else (source.rows,) * self.size
            if len(rows) != self.size or rows[self.rank] != source.rows:
                raise InvalidProblemError(
                    f"counts are {rows}, x has {source.rows} rows on rank {self.rank} of {self.size}"
                )
            target = output(out, source, (sum(rows), *source.row_shape), self.library)
            elements = [count * source.row_size for count in rows]
            run = functools.partial(
                self.engine.all_gather, source.view, target.view, elements, source.stream(stream)
            )  # fmt: skip
            return {"dtype": source.view.dtype.token, "row": list(source.row_shape), "counts": list(rows)}, run, target

        return self._call("all_gather", prepare, is_agreed=found is not None and counts is None)

    def reduce_scatter(
        self, x: Any, op: str = "sum", *, counts: Sequence[int] | None = None, out: Any = None, stream: object = None
    ) -> Any:  # fmt: skip
        """This rank's rows of the reduction over all ranks: the first axis is divided evenly, or as `counts` say."""

        def prepare() -> Prepared:
            source = self._operand(x, "x")
            check_reduction(op, source.view.dtype)
            rows = counts_of("counts", counts, source.rows, self.size)
            target = output(out, source, (rows[self.rank], *source.row_shape), self.library)
            elements = [count * source.row_size for count in rows]
            run = functools.partial(
                self.engine.reduce_scatter, source.view, target.view, elements, op, source.stream(stream)
            )  # fmt: skip
            return {**_facts(source), "op": op, "counts": list(rows)}, run, target

        return self._call("reduce_scatter", prepare)

    def all_to_all(
        self, x: Any, send_counts: Sequence[int] | None = None, receive_counts: Sequence[int] | None = None, *,
        out: Any = None, stream: object = None,
    ) -> Any:  # fmt: skip
        """Rows from each rank for this one, in the order of the ranks. x has the rows for rank 0 first, then those for
        rank 1 and so on: send_counts[r] for rank r, equal numbers if None. receive_counts are exchanged if None.
        """

        def counts() -> tuple[Operand, tuple[int, ...]]:
            operand = self._operand(x, "x")
            return operand, counts_of("send_counts", send_counts, operand.rows, self.size)

        source, sent = self._guarded("all_to_all", counts)
        given = receive_counts
        if given is None:
            given = sent if send_counts is None else self.exchange_counts(sent)

        def prepare() -> Prepared:
            received = counts_of("receive_counts", given, sum(given or ()), self.size)
            target = output(out, source, (sum(received), *source.row_shape), self.library)
            width = source.row_size
            run = functools.partial(
                self.engine.all_to_all, source.view, target.view, [n * width for n in sent],
                [n * width for n in received], source.stream(stream),
            )  # fmt: skip
            record = {"dtype": source.view.dtype.token, "row": list(source.row_shape), "sent": list(sent),
                      "received": list(received)}  # fmt: skip
            return record, run, target

        return self._call("all_to_all", prepare, own=("sent", "received"), verdict=_compare_counts)

    def exchange_counts(self, counts: Sequence[int]) -> tuple[int, ...]:
        """The counts of all ranks for this one, given counts[r] of this rank for rank r. They are Python numbers."""
        sent = self._guarded("exchange_counts", lambda: counts_of("counts", counts, sum(counts), self.size))
        records = self._agree("exchange_counts", {"counts": list(sent)}, own=("counts",))
        return tuple(int(each["counts"][self.rank]) for each in records)

    def all_gather_objects(self, value: Any) -> list[Any]:
        """The values of all ranks, by way of JSON: small numbers, texts and lists of the host, without the device."""
        return [each["value"] for each in self._agree("all_gather_objects", {"value": value}, own=("value",))]

    def broadcast(self, x: Any, root: int = 0, *, stream: object = None) -> Any:
        """x, after rank `root`'s elements have been written to it on all ranks."""

        def prepare() -> Prepared:
            number = rank_of("root", root, self.size)
            target = Operand(x, "x", self.backend, is_output=self.rank != number)
            run = functools.partial(self.engine.broadcast, target.view, number, target.stream(stream))
            return {**_facts(target), "root": number}, run, target

        return self._call("broadcast", prepare)

    def reduce(self, x: Any, root: int = 0, op: str = "sum", *, out: Any = None, stream: object = None) -> Any:
        """The reduction over all ranks on rank `root`; None on the others."""

        def prepare() -> Prepared:
            number = rank_of("root", root, self.size)
            source = self._operand(x, "x")
            check_reduction(op, source.view.dtype)
            target = output(out, source, source.view.shape, self.library) if self.rank == number else None
            run = functools.partial(
                self.engine.reduce, source.view, None if target is None else target.view, number, op,
                source.stream(stream),
            )  # fmt: skip
            return {**_facts(source), "root": number, "op": op}, run, target

        return self._call("reduce", prepare)

    def gather(self, x: Any, root: int = 0, *, out: Any = None, stream: object = None) -> Any:
        """The arrays of all ranks on rank `root`, concatenated along the first axis; None on the others."""
        source = self._guarded("gather", lambda: self._operand(x, "x"))
        facts = {"dtype": source.view.dtype.token, "row": list(source.row_shape), "rows": source.rows, "root": root}
        records = self._agree("gather", facts, own=("rows",))
        rows = [int(each["rows"]) for each in records]

        def prepare() -> Prepared:
            number, width, handle = rank_of("root", root, self.size), source.row_size, source.stream(stream)
            target = None
            if self.rank == number:
                target = output(out, source, (sum(rows), *source.row_shape), self.library)
            own = source.view if target is None else target.view
            sent = [source.view.numel * (r == number) for r in range(self.size)]
            received = [count * width * (target is not None) for count in rows]
            if target is None:
                own = flat(source.view, 0, 0)
            run = functools.partial(self.engine.all_to_all, source.view, own, sent, received, handle)
            return {"root": number}, run, target

        return self._call("gather", prepare)

    def scatter(
        self, x: Any, root: int = 0, *, counts: Sequence[int] | None = None, out: Any, stream: object = None
    ) -> Any:  # fmt: skip
        """Rows of rank `root`'s x to each rank's `out`: equal numbers of them, or as `counts` say. Others give None."""

        def prepare() -> Prepared:
            number = rank_of("root", root, self.size)
            target = Operand(out, "out", self.backend, is_output=True)
            handle, width = target.stream(stream), target.row_size
            rows, source = (target.rows,) * self.size if counts is None else tuple(counts), target
            if self.rank == number:
                source = self._operand(x, "x")
                rows = counts_of("counts", counts, source.rows, self.size)
                if source.view.dtype is not target.view.dtype or source.row_shape != target.row_shape:
                    raise InvalidProblemError(
                        f"out is {target.view.dtype} {target.view.shape}, x is {source.view.dtype} {source.view.shape}"
                    )
            if len(rows) != self.size or target.rows != rows[self.rank]:
                raise InvalidProblemError(f"out has {target.rows} rows, counts are {rows}")
            sent = [count * width * (self.rank == number) for count in rows]
            received = [target.view.numel * (r == number) for r in range(self.size)]
            data = source.view if self.rank == number else flat(target.view, 0, 0)
            run = functools.partial(self.engine.all_to_all, data, target.view, sent, received, handle)
            record = {
                "root": number,
                "dtype": target.view.dtype.token,
                "row": list(target.row_shape),
                "counts": list(rows),
            }
            return record, run, target

        return self._call("scatter", prepare)

    def barrier(self, *, stream: object = None) -> None:
        """Return when the work before it on this stream is done and all ranks have come here."""
        from baracuda.stream import stream_handle

        self.engine.wait(stream_handle(stream))
        self._agree("barrier", {})

    # --- pairs of ranks ---

    def send(self, x: Any, to: int, *, stream: object = None) -> None:
        """Send to a rank that calls receive."""
        self.transfer([(x, to)], [], stream=stream)

    def receive(self, out: Any, source: int, *, stream: object = None) -> Any:
        """out, with what rank `source` sends: the same number of elements of the same dtype."""
        self.transfer([], [(out, source)], stream=stream)
        return out

    def send_and_receive(self, send: Any, to: int, receive: Any, source: int, stream: object = None) -> None:
        """Sends and receives at once, as in a ring."""
        self.transfer([(send, to)], [(receive, source)], stream=stream)

    def transfer(
        self, sends: Sequence[tuple[Any, int]], receives: Sequence[tuple[Any, int]], *, stream: object = None
    ) -> None:  # fmt: skip
        """Send each (array, rank) and fill each (array, rank), all at once. Messages between two ranks keep their
        order. MismatchError on both of two ranks whose sizes or dtypes differ.
        """
        moves: list[tuple[TensorRef, int, bool]] = []
        handle = 0
        for arrays, name, is_send in ((sends, "send", True), (receives, "receive", False)):
            for array, peer in arrays:
                operand = Operand(array, name, self.backend, is_output=not is_send)
                handle = handle or operand.stream(stream)
                moves.append((operand.view, rank_of(f"the rank of {name}", peer, self.size), is_send))
        if any(peer == self.rank for _, peer, _ in moves):
            raise InvalidProblemError(f"rank {self.rank} sends to itself or receives from itself")
        if not moves:
            return
        with self._lock:
            self._check_open()
            arrays = [array for array, _ in (*sends, *receives)]
            self._record(functools.partial(self.engine.transfer, moves, handle), arrays, handle)

    # --- groups ---

    def split(self, color: int | None, key: int | None = None) -> Communicator | None:
        """A communicator of the ranks with the same color, in the order of `key`, by default of rank; None where color
        is None. All ranks call it.
        """
        if self._remake is None:
            raise InvalidProblemError("a communicator that was handed in cannot be split")
        records = self._agree("split", {"color": color, "key": self.rank if key is None else key}, own=("color", "key"))
        members = sorted(
            [rank for rank, each in enumerate(records) if each["color"] == color], key=lambda r: (records[r]["key"], r)
        )
        with self._lock:
            return self._remake(self.control, [] if color is None else members, self.rank)

    def wait(self, stream: object = None) -> None:
        """Return when the work enqueued on the stream is done; raise if another rank has failed."""
        from baracuda.stream import stream_handle

        self.engine.wait(stream_handle(stream))
        self.control.check("wait")

    def close(self) -> None:
        """Leave the group. Ranks that wait for this one raise RankFailedError."""
        if not self._is_closed:
            self._is_closed = True
            self.engine.close()
            self.control.close()

    # --- calls ---

    def _operand(self, x: Any, name: str) -> Operand:
        return Operand(x, name, self.backend)

    def _check_open(self) -> None:
        if self._is_closed:
            raise InvalidProblemError("the communicator is closed")

    def _guarded(self, what: str, prepare: Callable[[], Any]) -> Any:
        """The result of prepare(), whose errors the other ranks are told of, since they wait for this one."""
        self._check_open()
        try:
            return prepare()
        except BaracudaError as error:
            if self.verify and not isinstance(error, DistributedError):
                with self._lock:
                    refuse(self.control, what, error)
            raise

    def _agree(self, what: str, record: Record, own: Sequence[str] = ()) -> list[Record]:
        with self._lock:
            self._check_open()
            return agree(self.control, what, record, own)

    def _call(
        self, what: str, prepare: Callable[[], Prepared], own: Sequence[str] = (),
        verdict: Callable[[str, list[Record]], None] | None = None, is_agreed: bool = False,
    ) -> Any:  # fmt: skip
        """Prepare, compare with the other ranks, run; the array of the result."""
        record, run, target = self._guarded(what, prepare)
        with self._lock:
            if self.verify and not is_agreed:
                records = agree(self.control, what, record, own)
                if verdict is not None:
                    verdict(what, records)
            self._record(run, [] if target is None else [target.array], run.args[-1])
        return None if target is None else target.array

    def _record(self, run: Callable[[], None], arrays: Sequence[Any], stream: int) -> None:
        """Run, and note the call for a graph that is being recorded, whose replays repeat it."""
        run()
        if checking.active is not None:
            checking.active.communicated(run, arrays, self.backend, stream)


def _facts(operand: Operand) -> Record:
    return {"dtype": operand.view.dtype.token, "shape": list(operand.view.shape)}


def _compare_counts(what: str, records: list[Record]) -> None:
    """Raises unless s receives from r what r sends to s; the verdict is the same on every rank."""
    for source, theirs in enumerate(records):
        for to, own in enumerate(records):
            sent, received = theirs["sent"][to], own["received"][source]
            if sent != received:
                raise MismatchError(
                    f"{what}: rank {source} sends {sent} rows to rank {to}, which receives {received}", (source, to)
                )
