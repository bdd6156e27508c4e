# SPDX-License-Identifier: Apache-2.0
"""Recorded sequences of calls for replay: CUDA graphs, and lists of C calls on the CPU."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from baracuda import memory
from baracuda._call.checking import Names, Views, Watcher, watching
from baracuda._library.op_table import Row
from baracuda.errors import InternalError, InvalidProblemError, UnsupportedError
from baracuda.stream import stream_handle

_PER_THREAD_STREAM = 2


class Graph:
    """The result of `graph`. A call replays the work on the current contents of memory and returns `result`."""

    def __init__(self, result: Any, replay: Callable[[], None], kept: object) -> None:
        self.result, self._replay, self._alive = result, replay, kept

    def __call__(self) -> Any:
        self._replay()
        return self.result

    def __reduce__(self) -> Any:
        raise TypeError("a Graph has addresses of this process and cannot be pickled")


def graph(call: Callable[[], Any], *, stream: object = None) -> Graph:
    """Capture the functions and plans that `call()` uses, for replay without the cost of Python.

    On CUDA they become a CUDA graph; `call` is called twice, first uncaptured, so that kernels are loaded. Plans and
    functions of TensorRefs must run on `stream`, the per-thread default stream if None. Functions of PyTorch or CuPy
    arrays are captured by the framework, on a stream of its own unless one is given, and the graph owns the memory that
    they allocate; a replay runs on the framework's current stream. A graph cannot mix these. On the CPU `call` is
    called once, and its C calls are recorded with their operands. Calls on TensorRefs share one workspace: that of the
    SharedWorkspace that is entered, or one of the graph's own.
    """
    with memory.shared_workspace() or memory.SharedWorkspace():
        return _graph(call, stream)


def _graph(call: Callable[[], Any], stream: object) -> Graph:
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
    if recorder.owners - {""}:
        if len(recorder.owners) > 1:
            names = " and ".join(sorted(owner or "plans or TensorRefs" for owner in recorder.owners))
            raise UnsupportedError(f"graph: calls on {names} do not fit into one graph")
        return _CAPTURES[recorder.owners.pop()](call, None if stream is None else handle)
    if other := recorder.streams - {handle}:
        raise UnsupportedError(f"graph: calls run on the stream {min(other):#x}, not on {handle:#x}")
    return _captured(call, handle or _PER_THREAD_STREAM)


class _Recorder(Watcher):
    """Makes the calls and records them."""

    def __init__(self) -> None:
        self.steps: list[Callable[[], object]] = []
        self.devices: set[str] = set()
        self.streams: set[int] = set()
        self.owners: set[str] = set()  # owners of CUDA memory: frameworks that capture calls themselves, or ""
        self._alive: list[object] = [memory.shared_workspace()]
        self._owner = ""

    def call(self, function: Any, row: Row, views: Views, names: Names, stream: int, arguments: Sequence[Any]) -> int:
        status = super().call(function, row, views, names, stream, arguments)
        backends = {view.device for view in views.values() if view is not None and view.device}
        self.devices |= backends or {"cpu"}
        self.streams.add(stream)
        if "cuda" in backends:
            self.owners.add(self._owner)
        self._owner = ""
        self._alive.append(views)
        self.steps.append(functools.partial(_replay_call, function, row.pattern, tuple(arguments)))
        return status

    def also(self, action: Callable[[], object]) -> None:
        self.steps.append(action)

    def communicated(self, action: Callable[[], object], arrays: Sequence[object], backend: str, stream: int) -> None:
        self.devices.add(backend)  # its stream may be one that branches off the graph's
        self.keep(list(arrays), action)
        if backend == "cuda":
            self.owners.add(self._owner)
        self._owner = ""
        self.steps.append(action)

    def keep(self, *objects: object) -> None:
        """Keep a call's arrays and workspace alive, and note their framework."""
        self._alive.append(objects)
        arrays = objects[0] if isinstance(objects[0], (list, tuple)) else ()
        modules = [type(array).__module__.partition(".")[0] for array in arrays]
        self._owner = next((module for module in modules if module in _CAPTURES), "")

    def replay(self) -> None:
        for step in self.steps:
            step()


def _replay_call(function: Any, pattern: str, arguments: tuple[Any, ...]) -> None:
    if status := function(*arguments):
        raise InternalError(f"{pattern} returned status {status} in a graph")


def _captured(call: Callable[[], Any], stream: int) -> Graph:
    runtime, result = memory.cuda_runtime(), memory.runtime_result
    result(runtime.cudaStreamSynchronize(stream), "cudaStreamSynchronize")
    before, memory.held = memory.held, [memory.shared_workspace()]
    try:
        mode = runtime.cudaStreamCaptureMode.cudaStreamCaptureModeRelaxed  # memory may be allocated meanwhile
        result(runtime.cudaStreamBeginCapture(stream, mode), "cudaStreamBeginCapture")
        try:
            made = call()
        finally:
            ended = runtime.cudaStreamEndCapture(stream)  # after errors too, or the stream would stay unusable
        captured = result(ended, "cudaStreamEndCapture")
        held = memory.held
    finally:
        memory.held = before
    executable = _Executable(runtime, result(runtime.cudaGraphInstantiate(captured, 0), "cudaGraphInstantiate"))
    runtime.cudaGraphDestroy(captured)
    return Graph(made, functools.partial(executable.launch, stream), (held, executable))


def _captured_by_torch(call: Callable[[], Any], stream: int | None) -> Graph:
    import torch

    captured = torch.cuda.CUDAGraph()
    options = {} if stream is None else {"stream": torch.cuda.ExternalStream(stream)}
    with torch.cuda.graph(captured, **options):
        made = call()
    return Graph(made, captured.replay, captured)


def _captured_by_cupy(call: Callable[[], Any], handle: int | None) -> Graph:
    import cupy

    own = cupy.cuda.Stream(non_blocking=True) if handle is None else cupy.cuda.ExternalStream(handle)
    pool = cupy.cuda.MemoryPool()  # memory freed during the capture stays the graph's
    cupy.cuda.get_current_stream().synchronize()
    with own, cupy.cuda.using_allocator(pool.malloc):
        own.begin_capture()
        try:
            made = call()
        finally:
            captured = own.end_capture()
    return Graph(made, captured.launch, (pool, own, captured))


_CAPTURES = {"torch": _captured_by_torch, "cupy": _captured_by_cupy}


class _Executable:
    """A cudaGraphExec_t."""

    def __init__(self, runtime: Any, handle: Any) -> None:
        self._runtime, self._handle = runtime, handle

    def launch(self, stream: int) -> None:
        memory.runtime_result(self._runtime.cudaGraphLaunch(self._handle, stream), "cudaGraphLaunch")

    def __del__(self) -> None:
        self._runtime.cudaGraphExecDestroy(self._handle)
