# SPDX-License-Identifier: Apache-2.0
"""Times of repeated calls: CUDA events on a GPU, the wall clock on the CPU."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Call = Callable[[], Any]
_MOST = 2000


@dataclasses.dataclass(frozen=True)
class Times:
    """Microseconds per call."""

    least: float
    p20: float
    median: float
    p80: float
    count: int

    @classmethod
    def of(cls, samples: Sequence[float]) -> Times:
        p20, median, p80 = np.percentile(samples, (20, 50, 80))
        return cls(float(min(samples)), float(p20), float(median), float(p80), len(samples))


class WallClock:
    """Clock for synchronous calls.

    Candidates alternate in a random order, so that noise and cache state affect all alike. With several threads a trial
    is many calls and begins after a pause: idle threads of a library spin, OpenBLAS's for 100 ms, and take a core from
    the next candidate. The minimum counts, to which other load on the machine adds little. One thread is timed by its
    CPU time, which excludes other load.
    """

    figure = "least"

    def __init__(self, least: int, seconds: float, threads: int | None) -> None:
        self.least = least
        self.seconds = seconds
        self.now = time.thread_time if threads == 1 else time.perf_counter
        self.trial, self.pause = (0.0, 0.0) if threads == 1 else (0.05, 0.15)  # seconds

    def measure(self, calls: Sequence[Call]) -> list[Times]:
        samples: list[list[float]] = [[] for _ in calls]
        for call in calls:
            call()
        spent, rounds = 0.0, 0
        order = np.random.default_rng(0)
        while min(map(len, samples)) < self.least or (spent < self.seconds * len(calls) and rounds < _MOST):
            for k in order.permutation(len(calls)):
                trial = 0.0
                time.sleep(self.pause)
                while trial == 0.0 or trial < self.trial:
                    start = self.now()
                    calls[k]()
                    samples[k].append((self.now() - start) * 1e6)
                    trial += samples[k][-1] * 1e-6
                spent += trial
            rounds += 1
            if rounds >= 3 and spent > 20 * self.seconds * len(calls):
                break
        return [Times.of(mine) for mine in samples]


class Events:
    """Clock for calls that enqueue on `stream`: one event before and one after each call."""

    figure = "median"

    def __init__(self, least: int, seconds: float, stream: int) -> None:
        from cuda.bindings import runtime

        self.runtime = runtime
        self.least = least
        self.seconds = seconds
        self.stream = stream
        self.pool: list[Any] = []

    def measure(self, calls: Sequence[Call]) -> list[Times]:
        return [self._measure(call) for call in calls]

    def _measure(self, call: Call) -> Times:
        for _ in range(3):
            call()
        estimate = float(np.median(self.sample(call, 3)))
        wanted = self.seconds * 1e6 / max(estimate, 1.0)
        affordable = 20 * self.seconds * 1e6 / max(estimate, 1.0)
        count = int(min(max(wanted, self.least), max(affordable, 3), _MOST))
        return Times.of(self.sample(call, count))

    def sample(self, call: Call, count: int) -> list[float]:
        while len(self.pool) < 2 * count:
            self.pool.append(self.check(self.runtime.cudaEventCreate()))
        for i in range(count):
            self.check(self.runtime.cudaEventRecord(self.pool[2 * i], self.stream))
            call()
            self.check(self.runtime.cudaEventRecord(self.pool[2 * i + 1], self.stream))
        self.check(self.runtime.cudaStreamSynchronize(self.stream))
        pairs = zip(self.pool[: 2 * count : 2], self.pool[1 : 2 * count : 2])
        return [self.check(self.runtime.cudaEventElapsedTime(*pair)) * 1e3 for pair in pairs]

    @staticmethod
    def check(result: tuple[Any, ...]) -> Any:
        status, *values = result
        if int(status):
            raise RuntimeError(f"CUDA: {status.name}")
        return values[0] if values else None


class Bursts:
    """Clock for many short measurements on the CPU: samples are bursts of calls, alternating, the least counts.

    seconds  time per candidate
    threads  threads that the libraries use: one thread is timed by its CPU time, which excludes other load
    """

    figure = "least"

    def __init__(self, seconds: float, threads: int | None) -> None:
        self.seconds = seconds
        self.now = time.thread_time if threads == 1 else time.perf_counter

    def measure(self, calls: Sequence[Call]) -> list[Times]:
        bursts = [self._burst(call) for call in calls]
        samples: list[list[float]] = [[] for _ in calls]
        begin = time.perf_counter()
        while len(samples[0]) < 3 or time.perf_counter() - begin < self.seconds * len(calls):
            for call, count, mine in zip(calls, bursts, samples):
                mine.append(self._sample(call, count))
        return [Times.of(mine) for mine in samples]

    def _burst(self, call: Call) -> int:
        """Number of calls that take 0.2 ms together: reading the clock costs about 0.5 us."""
        call()
        took = min(self._sample(call, 1) for _ in range(2))
        return int(min(max(200.0 / max(took, 0.1), 1), 1000))

    def _sample(self, call: Call, count: int) -> float:
        start = self.now()
        for _ in range(count):
            call()
        return (self.now() - start) * 1e6 / count


class Graphs:
    """Clock for many short measurements on a GPU: calls are captured into a CUDA graph, to exclude launch times of the
    host. Calls that cannot be captured are timed by events.

    seconds  time per candidate
    """

    figure = "median"

    def __init__(self, seconds: float, stream: int, torch: Any) -> None:
        self.seconds, self.torch = seconds, torch
        self.events = Events(7, seconds, stream)
        self.pool = torch.cuda.graph_pool_handle() if torch is not None else None
        self.last: Any = None  # the pool goes with the last graph that uses it

    def measure(self, calls: Sequence[Call]) -> list[Times]:
        return [self._measure(call) for call in calls]

    def _measure(self, call: Call) -> Times:
        for _ in range(2):
            call()
        estimate = max(float(np.median(self.events.sample(call, 3))), 1.0)
        count = int(min(max(500.0 / estimate, 1), 100))
        try:
            replay = self._captured(call, count)
            replay()
        except Exception:  # of either library; the pool of a failed capture stays in use
            replay, count = call, 1
            self.pool = self.torch.cuda.graph_pool_handle() if self.torch is not None else None
        samples = int(min(max(self.seconds * 1e6 / (estimate * count), 5), 15))
        return Times.of([took / count for took in self.events.sample(replay, samples)])

    def _captured(self, call: Call, count: int) -> Call:
        """A graph that replays `count` calls."""
        if self.torch is not None:
            graph = self.torch.cuda.CUDAGraph()
            graph.capture_begin(pool=self.pool)
            try:
                for _ in range(count):
                    call()
            finally:
                graph.capture_end()
            self.last = graph
            return graph.replay  # type: ignore[no-any-return]
        runtime, stream, check = self.events.runtime, self.events.stream, self.events.check
        check(runtime.cudaStreamBeginCapture(stream, runtime.cudaStreamCaptureMode.cudaStreamCaptureModeRelaxed))
        try:
            for _ in range(count):
                call()
        finally:
            recorded = check(runtime.cudaStreamEndCapture(stream))
        executable = check(runtime.cudaGraphInstantiate(recorded, 0))
        check(runtime.cudaGraphDestroy(recorded))
        if self.last is not None:
            check(runtime.cudaGraphExecDestroy(self.last))
        self.last = executable
        return lambda: check(runtime.cudaGraphLaunch(executable, stream))
