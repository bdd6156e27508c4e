# SPDX-License-Identifier: Apache-2.0
"""A second stream for exchanges that run beside kernels. On the CPU there is none, and calls follow each other."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from baracuda import memory

if TYPE_CHECKING:
    from baracuda.distributed.communicator import Communicator

_PER_THREAD_STREAM = 2
_made: dict[int, int] = {}  # device -> stream, for the life of the process


class Side:
    """Runs exchanges in their order on a stream of their own. Each waits for the work enqueued before it; `finish` has
    later work wait for all of them. Captured graphs keep the branch.
    """

    def __init__(self, comm: Communicator) -> None:
        self._is_cuda = comm.backend == "cuda"
        self._stream = _side_stream() if self._is_cuda else 0

    def run(self, exchange: Callable[[int | None], object], like: Any) -> None:
        """exchange(stream), after the work on the current stream of the array's framework."""
        if not self._is_cuda:
            exchange(None)
            return
        follow(current_stream(like), self._stream)
        exchange(self._stream)

    def finish(self, like: Any) -> None:
        if self._is_cuda:
            follow(self._stream, current_stream(like))


def current_stream(array: Any) -> int:
    """The stream on which functions of the array run."""
    from baracuda._arrays.frameworks import framework_of

    framework = framework_of(array)
    return (framework.stream(array) if framework is not None else 0) or _PER_THREAD_STREAM


def follow(first: int, then: int) -> None:
    """Work on `then` waits for what is on `first` now."""
    runtime, result = memory.cuda_runtime(), memory.runtime_result
    event = result(runtime.cudaEventCreateWithFlags(2), "cudaEventCreateWithFlags")  # without timing
    result(runtime.cudaEventRecord(event, first), "cudaEventRecord")
    result(runtime.cudaStreamWaitEvent(then, event, 0), "cudaStreamWaitEvent")
    result(runtime.cudaEventDestroy(event), "cudaEventDestroy")


def _side_stream() -> int:
    runtime, result = memory.cuda_runtime(), memory.runtime_result
    device = int(result(runtime.cudaGetDevice(), "cudaGetDevice"))
    if device not in _made:
        made = result(runtime.cudaStreamCreateWithFlags(1), "cudaStreamCreateWithFlags")  # non-blocking
        _made[device] = int(made)
    return _made[device]
