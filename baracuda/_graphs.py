"""Sequences of calls that are prepared once and done again: CUDA graphs, and lists of C calls on the CPU."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from baracuda import memory
from baracuda._checks import Names, Views, Watcher, watching
from baracuda._optable import Row
from baracuda.errors import InternalError, InvalidProblemError, UnsupportedError
from baracuda.stream import stream_handle

_PER_THREAD_STREAM = 2


class Graph:
    """What `graph` made. Calling it does the work again, on what the same memory then holds, and returns `result`."""

    def __init__(self, result: Any, replay: Callable[[], None], kept: object) -> None:
        self.result, self._replay, self._kept = result, replay, kept

    def __call__(self) -> Any:
        self._replay()
        return self.result

    def __reduce__(self) -> Any:
        raise TypeError("a Graph has addresses of this process and cannot be pickled")


def graph(call: Callable[[], Any], *, stream: object = None) -> Graph:
    """Capture the functions and plans that `call()` uses, to be done again without Python's share of the work.

    On CUDA they become a CUDA graph. They must run on `stream`, the per-thread default stream if None, as functions of
    TensorRefs do; `call` is called twice, first as it is, so that kernels are loaded. Functions of PyTorch tensors are
    captured by torch.cuda.graph. On the CPU `call` is called once, and the C calls are kept with their operands.
    """
    handle = stream_handle(stream)
    recorder = _Recorder()
    with watching(recorder):
        result = call()
    if not recorder.devices:
        raise InvalidProblemError("graph: nothing was called")
    if recorder.devices == {"cpu"}:
        return Graph(result, recorder.replay, recorder)
    if "cpu" in recorder.devices:
        raise InvalidProblemError("graph: calls on the CPU and on CUDA do not fit into one graph")
    if other := recorder.streams - {handle}:
        raise UnsupportedError(
            f"graph: calls run on the stream {min(other):#x}, not on {handle:#x}; torch.cuda.graph captures functions "
            f"of PyTorch tensors"
        )
    return _captured(call, handle or _PER_THREAD_STREAM)


class _Recorder(Watcher):
    """Makes the calls, and remembers them."""

    def __init__(self) -> None:
        self.steps: list[Callable[[], object]] = []
        self.devices: set[str] = set()
        self.streams: set[int] = set()
        self._kept: list[object] = []

    def call(self, function: Any, row: Row, views: Views, names: Names, stream: int, arguments: Sequence[Any]) -> int:
        status = super().call(function, row, views, names, stream, arguments)
        places = {view.device for view in views.values() if view is not None and view.device}
        self.devices |= places or {"cpu"}
        self.streams.add(stream)
        self._kept.append(views)
        self.steps.append(functools.partial(_again, function, row.pattern, tuple(arguments)))
        return status

    def also(self, action: Callable[[], object]) -> None:
        self.steps.append(action)

    def keep(self, *objects: object) -> None:
        self._kept.append(objects)

    def replay(self) -> None:
        for step in self.steps:
            step()


def _again(function: Any, pattern: str, arguments: tuple[Any, ...]) -> None:
    if status := function(*arguments):
        raise InternalError(f"{pattern} returned status {status} in a graph")


def _captured(call: Callable[[], Any], stream: int) -> Graph:
    runtime, result = memory.cuda_runtime(), memory.runtime_result
    result(runtime.cudaStreamSynchronize(stream), "cudaStreamSynchronize")
    before, memory.held = memory.held, []
    try:
        mode = runtime.cudaStreamCaptureMode.cudaStreamCaptureModeRelaxed  # memory may be allocated meanwhile
        result(runtime.cudaStreamBeginCapture(stream, mode), "cudaStreamBeginCapture")
        try:
            made = call()
        finally:
            ended = runtime.cudaStreamEndCapture(stream)  # also behind an error, or nothing could run there any more
        captured = result(ended, "cudaStreamEndCapture")
        held = memory.held
    finally:
        memory.held = before
    executable = _Executable(runtime, result(runtime.cudaGraphInstantiate(captured, 0), "cudaGraphInstantiate"))
    runtime.cudaGraphDestroy(captured)
    return Graph(made, functools.partial(executable.launch, stream), (held, executable))


class _Executable:
    """A cudaGraphExec_t."""

    def __init__(self, runtime: Any, handle: Any) -> None:
        self._runtime, self._handle = runtime, handle

    def launch(self, stream: int) -> None:
        memory.runtime_result(self._runtime.cudaGraphLaunch(self._handle, stream), "cudaGraphLaunch")

    def __del__(self) -> None:
        self._runtime.cudaGraphExecDestroy(self._handle)
