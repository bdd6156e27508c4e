# SPDX-License-Identifier: Apache-2.0
"""`python -m tools.bench --sweep`: each op along each of its extents, against PyTorch, to find cliffs in its time.

    python -m tools.bench --sweep [--seconds 240] [--json FILE] [--families gemm norm host] [--only TEXT] [--skip TEXT]
    OMP_NUM_THREADS=1 python -m tools.bench --sweep --backend cpu --threads 1

A point of a sweep (`sweeps` in problems/, Sweep in record.py) is one problem. Two numbers of it are printed:

x torch    PyTorch's time / ours. A point below 0.8 is marked.
inversion  our time / that of the fastest larger problem of the sweep. In a `level` sweep, whose points move the same
           number of bytes: our time / the slower of the fastest point with a smaller extent and the fastest with a
           larger one. A point above 1.1 is marked.

Marked points are measured again at the end, and the shorter time counts, ours and PyTorch's. Host times (family `host`)
are microseconds per call of the Python function. Results are not checked: the tests and the benchmark proper do that.

On a GPU calls are timed in CUDA graphs. Inputs of small problems stay in the L2 cache, PyTorch's too. `--seconds` is
shared evenly: the next point belongs to the family that has used the least time, and the points of a sweep come in
coarse-to-fine order. All sweeps take about 5 minutes on a GPU and 15 on one thread of a CPU, where they have fewer
elements. The tables come last: a row per sweep, then the marked points, the worst last.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import baracuda as bk
from baracuda._library.loader import symbol_name
from tools.bench import report
from tools.bench.data import Data
from tools.bench.functions import host_sweeps, microseconds
from tools.bench.problem import Problem
from tools.bench.record import Sweep
from tools.bench.run import described, say

LEAST, MOST = 0.8, 1.1  # bounds of the two ratios
_WORST = 40  # rows of the last table
_AGAIN = 0.15  # share of the time for marked points
_HOST_ROUNDS = 6

Row = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Point:
    """One extent of a sweep, for one dtype. `made` is a Bench, or a pair of host calls: ours and PyTorch's."""

    family: str
    sweep: str
    axis: str
    dtype: str
    extent: int
    level: bool
    made: Any

    @property
    def series(self) -> tuple[str, str, str]:
        return self.sweep, self.axis, self.dtype


def points_of(sweeps: Iterable[Sweep], dtypes: Sequence[str]) -> Iterator[list[Point]]:
    """Points of each sweep and dtype."""
    for sweep in sweeps:
        for dtype in sweep.dtypes:
            if dtype in dtypes:
                head = sweep.family, sweep.name, sweep.axis, dtype
                yield [Point(*head, extent, sweep.level, bench) for extent, bench in sorted(sweep.points.items())]


def host_points(library: bk.Library, torch: Any) -> Iterator[list[Point]]:
    for name, calls in host_sweeps(library, torch).items():
        yield [Point("host", name, "elements", "f32", extent, False, pair) for extent, pair in sorted(calls.items())]


def coarse_first(count: int) -> list[int]:
    """range(count) in coarse-to-fine order: ends and middles first."""
    order, step = [0, count - 1] if count > 1 else [0], 1 << max(count - 1, 1).bit_length()
    while step > 1:
        step //= 2
        order += [i for i in range(0, count, step) if i not in order]
    return order


def in_turn(series: Iterable[Sequence[Point]]) -> list[Point]:
    """Interleaves sweeps: the first point of each, then the second of each, and so on."""
    queues = [[points[i] for i in coarse_first(len(points))] for points in series if points]
    most = max(map(len, queues), default=0)
    return [queue[i] for i in range(most) for queue in queues if i < len(queue)]


class SweepRun:
    """rows         a row per point
    unreached    points that were not reached in time
    interrupted  why it stopped before the last point; empty if it did not
    """

    def __init__(self, data: Data, clock: Any, facts: Mapping[str, Any], path: str = "") -> None:
        self.data, self.clock, self.facts, self.path = data, clock, facts, path
        self.symbols = frozenset(data.library.symbols())
        self.rows: list[Row] = []
        self.unreached: list[str] = []
        self.interrupted = ""
        self._points: list[Point] = []  # of the rows
        self._saved = 0.0

    def all(self, series: Sequence[Sequence[Point]], seconds: float | None) -> None:
        start = time.perf_counter()
        of_family: dict[str, list[Sequence[Point]]] = {}
        for points in series:
            of_family.setdefault(points[0].family, []).append(points)
        queues = {family: in_turn(mine) for family, mine in of_family.items()}
        used = dict.fromkeys(queues, 0.0)
        until = math.inf if seconds is None else seconds * (1 - _AGAIN)
        try:
            while any(queues.values()) and not self.interrupted:
                if time.perf_counter() - start >= until:
                    self.interrupted = f"{seconds:g} s are over"
                    break
                family = min((f for f in queues if queues[f]), key=lambda f: used[f])
                begin = time.perf_counter()
                self.add(queues[family].pop(0))
                used[family] += time.perf_counter() - begin
            self.again(math.inf if seconds is None else start + seconds)
        except KeyboardInterrupt:
            self.interrupted = "interrupted"
        self.unreached = [f"{p.sweep} {p.extent} {p.dtype}" for queue in queues.values() for p in queue]
        self.save(finished=not self.interrupted)

    def add(self, point: Point) -> None:
        """Adds a row for the point, also if it fails; none if a partial library lacks the op."""
        if point.family != "host" and symbol_name(point.made.op(point.dtype).name, "run") not in self.symbols:
            return
        row: Row = {key: value for key, value in vars(point).items() if key != "made"} | self.measured(point)
        self.rows.append(row)
        self._points.append(point)
        told = row["error"] or f"{row['us']:.2f} us, torch {number(row['peer_us'])}"
        say(f"  {point.sweep}, {point.axis} {point.extent}, {point.dtype}: {told}")
        if time.perf_counter() - self._saved > 5:
            self.save()

    def measured(self, point: Point) -> Row:
        try:
            if point.family == "host":
                took = [None if call is None else microseconds(call, _HOST_ROUNDS) for call in point.made]
            else:
                problem = Problem(self.data, point.made, point.dtype)
                peers = [call for _, call in problem.peers(on_gpu=True)]
                times = self.clock.measure([problem.launch(), *peers])
                took = [getattr(each, self.clock.figure) for each in times]
        except Exception as error:  # a failure of one op or of PyTorch does not end the sweep
            self.check_device()
            return {"us": None, "peer_us": None, "error": described(error)}
        return {"us": took[0], "peer_us": took[1] if len(took) > 1 else None, "error": ""}

    def check_device(self) -> None:
        """After an illegal address the CUDA context is lost: every later call of the process fails."""
        try:
            bk.synchronize(self.data.stream, library=self.data.library)
        except Exception as error:
            self.interrupted = f"the device is lost: {described(error)}"

    def again(self, until: float) -> None:
        """Measures marked points again, the worst first: the shorter time counts."""
        judge(self.rows)
        marked = sorted((i for i, row in enumerate(self.rows) if row["marked"]), key=lambda i: -badness(self.rows[i]))
        for i in marked:
            if time.perf_counter() >= until or self.interrupted.startswith("the device is lost"):
                break
            row, found = self.rows[i], self.measured(self._points[i])
            for key in ("us", "peer_us"):
                if row[key] is not None and found[key] is not None:
                    row[key] = min(row[key], found[key])

    def save(self, *, finished: bool = False) -> None:
        judge(self.rows)
        if self.path:
            report.write_json(self.path, {
                "environment": self.facts, "sweep": True, "finished": finished, "interrupted": self.interrupted,
                "unreached": self.unreached, "rows": self.rows,
            })  # fmt: skip
        self._saved = time.perf_counter()


def judge(rows: Sequence[Row]) -> None:
    """Adds the ratios of every row, and whether it is marked."""
    series: dict[tuple[str, str, str], list[Row]] = {}
    for row in rows:
        row["times_peer"] = row["peer_us"] / row["us"] if row["us"] and row["peer_us"] else None
        row["inversion"] = row["faster"] = None
        if row["us"]:
            series.setdefault((row["sweep"], row["axis"], row["dtype"]), []).append(row)
    for mine in series.values():
        for row in mine:
            smaller = [each for each in mine if each["extent"] < row["extent"]]
            larger = [each for each in mine if each["extent"] > row["extent"]]
            sides = (smaller, larger) if row["level"] else (larger,)
            if all(sides):
                than = max((min(side, key=lambda each: each["us"]) for side in sides), key=lambda each: each["us"])
                row["inversion"], row["faster"] = row["us"] / than["us"], than["extent"]
    for row in rows:
        row["marked"] = badness(row) > 1


def badness(row: Row) -> float:
    """The worse of the two ratios relative to its bound; marked above 1."""
    return max(LEAST / row["times_peer"] if row["times_peer"] else 0.0, (row["inversion"] or 0.0) / MOST)


def number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def render(rows: Sequence[Row]) -> str:
    """A row per sweep, then the marked points."""
    series: dict[tuple[str, str, str], list[Row]] = {}
    for row in rows:
        series.setdefault((row["sweep"], row["axis"], row["dtype"]), []).append(row)
    body = []
    for (sweep, axis, dtype), mine in sorted(series.items()):
        slow = min((row for row in mine if row["times_peer"]), key=lambda row: row["times_peer"], default=None)
        peak = max((row for row in mine if row["inversion"]), key=lambda row: row["inversion"], default=None)
        body.append([
            sweep, dtype, axis, str(len(mine)), str(sum(row["marked"] for row in mine)),
            number(slow and slow["times_peer"]), str(slow["extent"]) if slow else "-",
            number(peak and peak["inversion"]), str(peak["extent"]) if peak else "-",
        ])  # fmt: skip
    head = ["problem", "dtype", "axis", "points", "marked", "x torch", "at", "inversion", "at"]
    marked = sorted((row for row in rows if row["marked"]), key=badness)
    worst = [
        [
            row["sweep"], row["dtype"], row["axis"], str(row["extent"]), number(row["us"]), number(row["peer_us"]),
            number(row["times_peer"]), number(row["inversion"]), str(row["faster"] or "-"),
        ]
        for row in marked[-_WORST:]
    ]  # fmt: skip
    columns = ["problem", "dtype", "axis", "extent", "us", "torch us", "x torch", "inversion", "faster at"]
    return f"{report.table(head, body)}\n\n{report.table(columns, worst)}"


def summary(run: SweepRun) -> int:
    """Prints the results and returns the exit status."""
    say(f"\n{render(run.rows)}\n")
    wrong = [row for row in run.rows if row["error"]]
    for row in wrong:
        say(f"FAILED: {row['sweep']}, {row['axis']} {row['extent']}, {row['dtype']}: {row['error']}")
    if run.interrupted:
        say(f"{run.interrupted}: {len(run.unreached)} points were not reached")
    slow = sum(row["times_peer"] is not None and row["times_peer"] < LEAST for row in run.rows)
    peaks = sum((row["inversion"] or 0) > MOST for row in run.rows)
    found = f"{slow} below {LEAST} of PyTorch, {peaks} inversions above {MOST}"
    say(f"{len(run.rows)} points, {len(wrong)} failed, {found}")
    return 1 if wrong else 0


def run(options: Any, data: Data, clock: Any, facts: Mapping[str, Any], sweeps: Iterable[Sweep]) -> int:
    found = list(points_of(sweeps, options.dtypes.split(",")))
    if (not options.families or "host" in options.families) and data.torch is not None:
        named = host_points(data.library, data.torch)
        found += [
            points for points in named
            if (not options.only or any(text in points[0].sweep for text in options.only))
            and not any(text in points[0].sweep for text in options.skip)
        ]  # fmt: skip
    say(f"{sum(map(len, found))} points of {len(found)} sweeps")
    own = SweepRun(data, clock, facts, options.json)
    own.all(found, options.seconds)
    return summary(own)
