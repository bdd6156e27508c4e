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
    """Microseconds a call."""

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
    """For calls that return when their work is done.

    Candidates take turns in a random order, so that noise, and the cache that one leaves to the next, hit all alike.
    With several threads a turn is many calls and begins after a pause: the threads of a library wait for more work, and
    take a processor from the next one's meanwhile, OpenBLAS's for 100 ms. They are judged by the least, which other
    work on the machine adds little to; the time of one thread is that of its processor, to which such work does not
    count.
    """

    figure = "least"

    def __init__(self, least: int, seconds: float, threads: int | None) -> None:
        self.least = least
        self.seconds = seconds
        self.now = time.thread_time if threads == 1 else time.perf_counter
        self.turn, self.pause = (0.0, 0.0) if threads == 1 else (0.05, 0.15)  # seconds

    def measure(self, calls: Sequence[Call]) -> list[Times]:
        samples: list[list[float]] = [[] for _ in calls]
        for call in calls:
            call()
        spent, rounds = 0.0, 0
        order = np.random.default_rng(0)
        while min(map(len, samples)) < self.least or (spent < self.seconds * len(calls) and rounds < _MOST):
            for k in order.permutation(len(calls)):
                turn = 0.0
                time.sleep(self.pause)
                while turn == 0.0 or turn < self.turn:
                    start = self.now()
                    calls[k]()
                    samples[k].append((self.now() - start) * 1e6)
                    turn += samples[k][-1] * 1e-6
                spent += turn
            rounds += 1
            if rounds >= 3 and spent > 20 * self.seconds * len(calls):
                break
        return [Times.of(mine) for mine in samples]


class Events:
    """For calls that enqueue on `stream`: one event before and one after each call."""

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
        estimate = float(np.median(self._samples(call, 3)))
        wanted = self.seconds * 1e6 / max(estimate, 1.0)
        affordable = 20 * self.seconds * 1e6 / max(estimate, 1.0)
        count = int(min(max(wanted, self.least), max(affordable, 3), _MOST))
        return Times.of(self._samples(call, count))

    def _samples(self, call: Call, count: int) -> list[float]:
        while len(self.pool) < 2 * count:
            self.pool.append(self._check(self.runtime.cudaEventCreate()))
        for i in range(count):
            self._check(self.runtime.cudaEventRecord(self.pool[2 * i], self.stream))
            call()
            self._check(self.runtime.cudaEventRecord(self.pool[2 * i + 1], self.stream))
        self._check(self.runtime.cudaStreamSynchronize(self.stream))
        pairs = zip(self.pool[: 2 * count : 2], self.pool[1 : 2 * count : 2])
        return [self._check(self.runtime.cudaEventElapsedTime(*pair)) * 1e3 for pair in pairs]

    @staticmethod
    def _check(result: tuple[Any, ...]) -> Any:
        status, *values = result
        if int(status):
            raise RuntimeError(f"CUDA: {status.name}")
        return values[0] if values else None
