# SPDX-License-Identifier: Apache-2.0
"""A second stream for exchanges that run beside kernels. On the CPU there is none, and calls follow each other."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from baracuda import memory
from baracuda.stream import stream_handle

if TYPE_CHECKING:
    from baracuda.distributed.communicator import Communicator

_PER_THREAD_STREAM = 2
_made: dict[int, int] = {}  # device -> stream, for the life of the process


class Side:
    """Runs exchanges in their order on a stream of their own. Each waits for the work enqueued before it; `finish` has
    later work wait for all of them, `wait` for one. Captured graphs keep the branch.
    """

    def __init__(self, comm: Communicator) -> None:
        self._is_cuda = comm.backend == "cuda" and comm.size > 1
        self._is_used = False

    def run(self, exchange: Callable[[int | None], object], like: Any) -> Any:
        """exchange(stream), after the work on the current stream of the array's framework; an event for `wait`."""
        if not self._is_cuda:
            exchange(None)
            return None
        side = _side_stream()
        self._is_used = True
        follow(current_stream(like), side)
        exchange(side)
        return Event(side)

    def wait(self, event: Any, like: Any) -> None:
        """Later work of the array's stream waits for an exchange."""
        if event is not None:
            event.hold(current_stream(like))

    def finish(self, like: Any) -> None:
        if self._is_used:
            follow(_side_stream(), current_stream(like))
            self._is_used = False

    def functions_of(self, stream: int | None) -> contextlib.AbstractContextManager[None]:
        return functions_on(stream, is_cuda=self._is_cuda)


@contextlib.contextmanager
def functions_on(stream: object, *, is_cuda: bool) -> Iterator[None]:
    """Functions of TensorRefs, which run on the per-thread stream, take part in the order of another one."""
    handle = stream_handle(stream)
    if not is_cuda or handle in (0, _PER_THREAD_STREAM):
        yield
        return
    follow(handle, _PER_THREAD_STREAM)
    yield
    follow(_PER_THREAD_STREAM, handle)


def current_stream(array: Any) -> int:
    """The stream on which functions of the array run."""
    from baracuda._arrays.frameworks import framework_of

    framework = framework_of(array)
    return (framework.stream(array) if framework is not None else 0) or _PER_THREAD_STREAM


class Event:
    """An event that is there when the work on a stream is done."""

    def __init__(self, stream: int) -> None:
        runtime, result = memory.cuda_runtime(), memory.runtime_result
        self._destroy: Any = runtime.cudaEventDestroy
        self._handle = result(runtime.cudaEventCreateWithFlags(2), "cudaEventCreateWithFlags")  # without timing
        result(runtime.cudaEventRecord(self._handle, stream), "cudaEventRecord")

    def hold(self, stream: int) -> None:
        """Later work on the stream waits for it."""
        waited = memory.cuda_runtime().cudaStreamWaitEvent(stream, self._handle, 0)
        memory.runtime_result(waited, "cudaStreamWaitEvent")

    def __del__(self) -> None:
        with contextlib.suppress(Exception):  # the interpreter or the driver is going away
            self._destroy(self._handle)


def follow(first: int, then: int) -> None:
    """Work on `then` waits for what is on `first` now."""
    Event(first).hold(then)


def _side_stream() -> int:
    runtime, result = memory.cuda_runtime(), memory.runtime_result
    device = int(result(runtime.cudaGetDevice(), "cudaGetDevice"))
    if device not in _made:
        made = result(runtime.cudaStreamCreateWithFlags(1), "cudaStreamCreateWithFlags")  # non-blocking
        _made[device] = int(made)
    return _made[device]
