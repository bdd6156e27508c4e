# SPDX-License-Identifier: Apache-2.0
"""One run of the benchmark: its results so far, and their JSON, which is written as the run goes."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence
from typing import Any

import baracuda as bk
from baracuda._library.loader import symbol_name
from tools.bench import report
from tools.bench.data import Data
from tools.bench.functions import costs
from tools.bench.host import host_costs
from tools.bench.problem import COMPILED, Problem
from tools.bench.record import Bench, Operand
from tools.bench.timing import Call

_SAVE = 2.0  # seconds between two writings of the JSON

Row = dict[str, Any]


class Run:
    """rows         rows of the table: measurements, and failures with their reasons
    unreached    problems that were not reached before the time was over or the device was lost
    interrupted  why it stopped before the last problem; empty if it did not
    previous     rows of an earlier run; a new row replaces its own
    """

    def __init__(
        self,
        data: Data,
        clock: Any,
        brief: Any,
        size: str,
        facts: dict[str, Any],
        path: str = "",
        previous: Sequence[Row] = (),
    ) -> None:
        self.data, self.clock, self.brief, self.size, self.path = data, clock, brief, size, path
        self.facts = facts
        self.symbols = frozenset(data.library.symbols())
        self.copies: list[Row] = []
        self.rows: list[Row] = []
        self.previous = previous
        self.host: list[Row] = []
        self.functions: list[Row] = []
        self.unreached: list[str] = []
        self.interrupted = ""
        self.errors: list[str] = []  # failures outside of problems
        self._saved = 0.0

    def all(self, problems: Sequence[tuple[Bench, str]], seconds: float | None) -> None:
        """Measures copies, every problem, copies again and host times; starts no problem after `seconds`."""
        start = time.perf_counter()
        self.apart("copy", self.measure_copy)
        left = iter(problems)
        try:
            for bench, dtype in left:
                if seconds is not None and time.perf_counter() - start >= seconds:
                    self.interrupted = f"{seconds:g} s are over"
                    self.unreached.append(f"{bench.name} {dtype}")
                    break
                self.add(bench, dtype)
                if self.interrupted:
                    break
        except KeyboardInterrupt:
            self.interrupted = "interrupted"
        self.unreached += [f"{bench.name} {dtype}" for bench, dtype in left]
        if not self.interrupted.startswith("the device is lost"):
            self.apart("copy", self.measure_copy)
            self.apart("host", lambda: self.host.extend(host_costs(self.data)))
            self.apart("functions", lambda: self.functions.extend(costs(self.data.library, self.data.torch)))
        self.save(finished=True)

    def add(self, bench: Bench, dtype: str) -> None:
        """Adds a row for the problem, also if it fails; none if a partial library lacks the op."""
        if symbol_name(bench.op(dtype).name, "run") not in self.symbols:
            say(f"  {bench.name} {dtype}: the library lacks it")
            return
        try:
            row = measure(Problem(self.data, bench, dtype), self.brief if bench.brief else self.clock)
        except Exception as error:  # a failure of one op or peer does not end the run
            row = failed(bench, dtype, described(error))
            self.check_device()
        if not row:  # drops an earlier measurement of an op that no longer takes a workspace
            self.previous = [
                previous for previous in self.previous if (previous["name"], previous["dtype"]) != (bench.name, dtype)
            ]
        else:
            row["commit"] = self.facts["library"]["commit"]
            beside = "".join(f", {name} {took:.1f}" for name, took in (row["peers_us"] or {}).items())
            told = row["error"] or f"{row['ours_us'][self.clock.figure]:.1f} us"
            say(f"  {bench.name} {dtype}: {told}{beside}")
            self.rows.append(row)
            if time.perf_counter() - self._saved > _SAVE:
                self.save()

    def apart(self, name: str, call: Call) -> None:
        """Runs a step that is no problem; its failure does not end the run."""
        try:
            call()
        except Exception as error:
            self.errors.append(f"{name}: {described(error)}")
            say(f"  {self.errors[-1]}")

    def check_device(self) -> None:
        """After an illegal address the CUDA context is lost: every later call of the process fails."""
        try:
            bk.synchronize(self.data.stream, library=self.data.library)
        except Exception as error:
            self.interrupted = f"the device is lost: {described(error)}"

    def measure_copy(self) -> None:
        """Bandwidth of plain device copies, in bytes read and written per second."""
        data = self.data
        operand = Operand((1 << (28 if self.size == "cuda" else 24),), "normal")
        source, target = (data.make(operand, "f32", slot) for slot in range(2))
        calls: list[tuple[str, Call]] = []
        if data.device == "cuda":
            from cuda.bindings import runtime

            kind = runtime.cudaMemcpyKind.cudaMemcpyDeviceToDevice
            operands = (target.ptr, source.ptr, source.nbytes, kind, data.stream)
            calls.append(("cudaMemcpyAsync", lambda: runtime.cudaMemcpyAsync(*operands)))
        else:
            calls.append(("NumPy", lambda: target.numpy.__setitem__(slice(None), source.numpy)))
        if data.torch is not None:
            calls.append(("torch copy_", lambda: target.torch.copy_(source.torch)))
        times = self.clock.measure([call for _, call in calls])
        self.copies += [
            {"how": how, "us": vars(time), "bytes_per_second": 2 * source.nbytes / (time.median * 1e-6)}
            for (how, _), time in zip(calls, times)
        ]

    def document(self, *, finished: bool) -> dict[str, Any]:
        ceiling = max((copy["bytes_per_second"] for copy in self.copies), default=None)
        for row in self.rows:
            judge(row, self.rows, ceiling, self.clock.figure)
        return {
            "environment": self.facts,
            "problems": self.size,
            "finished": finished and not self.interrupted,
            "interrupted": self.interrupted,
            "unreached": self.unreached,
            "errors": self.errors,
            "ceiling": ceiling,
            "figure": self.clock.figure,
            "copies": self.copies,
            "rows": merged(self.previous, self.rows),
            "host": self.host,
            "functions": self.functions,
        }

    def save(self, *, finished: bool = False) -> None:
        document = self.document(finished=finished)
        if self.path:
            report.write_json(self.path, document)
        self._saved = time.perf_counter()


def merged(previous: Iterable[Row], rows: Iterable[Row]) -> list[Row]:
    """Earlier rows in their order, then new ones; a new row replaces the earlier one of its problem."""
    found = {(row["name"], row["dtype"]): row for row in previous}
    return list((found | {(row["name"], row["dtype"]): row for row in rows}).values())


def measure(problem: Problem, clock: Any) -> Row:
    """The row of the table; empty for a variant that equals another one. Wrong results are not timed."""
    bench, dtype = problem.bench, problem.dtype
    if bench.also_without and problem.workspace is None and not bench.brief:
        return {}  # the op takes none: the variant without a workspace is the same
    ours = problem.launch()
    ours()
    bk.synchronize(problem.data.stream, library=problem.data.library)
    if error := problem.check():
        return failed(bench, dtype, error)
    peers = problem.peers(problem.data.device == "cuda")
    times = clock.measure([ours, *(call for _, call in peers)])
    named = [(name, time) for (name, _), time in zip(peers, times[1:])]
    eager = [each for each in named if each[0] != COMPILED]
    peer = min(eager, key=lambda item: getattr(item[1], clock.figure), default=None)
    return {
        **named_row(bench, dtype), "bytes": problem.nbytes,
        "workspace_bytes": problem.workspace.nbytes if problem.workspace else 0, "ours_us": vars(times[0]),
        "peer": peer[0] if peer else None, "peer_us": vars(peer[1]) if peer else None,
        "peers_us": fastest(named, clock.figure), "error": "",
    }  # fmt: skip


def failed(bench: Bench, dtype: str, error: str) -> Row:
    """The row of a problem that raised or whose results are wrong."""
    missing = dict.fromkeys(("bytes", "workspace_bytes", "ours_us", "peer", "peer_us", "peers_us"))
    return {**named_row(bench, dtype), **missing, "error": error}


def named_row(bench: Bench, dtype: str) -> Row:
    bounds = [bound for bound in bench.bounds if dtype in (bound.dtypes or (dtype,))]
    return {
        "op": bench.op(dtype).name, "name": bench.name, "dtype": dtype,
        "bounds": [{"kind": bound.kind, "value": bound.value, "other": bound.other} for bound in bounds],
    }  # fmt: skip


def described(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def fastest(times: Iterable[tuple[str, Any]], figure: str) -> dict[str, float]:
    """The fastest variant of each peer."""
    found: dict[str, float] = {}
    for name, took in times:
        found[name] = min(found.get(name, math.inf), getattr(took, figure))
    return found


def judge(row: Row, rows: Iterable[Row], ceiling: float | None, figure: str) -> None:
    """Adds the ratios, and whether every bound is met; None if that is unknown."""
    ours = row["ours_us"][figure] if row["ours_us"] else None
    row["times_peer"] = row["peer_us"][figure] / ours if ours and row["peer_us"] else None
    compiled = (row["peers_us"] or {}).get(COMPILED)
    row["times_compiled"] = compiled / ours if ours and compiled else None
    row["of_copy"] = row["bytes"] / (ours * 1e-6) / ceiling if ours and ceiling else None
    verdicts = []
    for bound in row["bounds"]:
        if bound["kind"] == "times":
            same = (r["ours_us"] for r in rows if (r["name"], r["dtype"]) == (bound["other"], row["dtype"]))
            other = next(same, None)
            verdicts.append(ours <= bound["value"] * other[figure] if ours and other else None)
        else:
            reached = row["of_copy" if bound["kind"] == "copy" else "times_peer"]
            verdicts.append(None if reached is None else reached >= bound["value"])
    row["met"] = False if False in verdicts else None if None in verdicts or not verdicts else True


def say(text: str, end: str = "\n") -> None:
    print(text, end=end, flush=True)
