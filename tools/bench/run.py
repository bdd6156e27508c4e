# SPDX-License-Identifier: Apache-2.0
"""One run of the benchmark: what it has measured so far, and the JSON of it, which is written as it goes."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence
from typing import Any

import baracuda as bk
from baracuda._lib import symbol_name
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
    """rows         a line of the table each: what was measured, and what failed with the reason
    unreached    the problems that there was no time for, or no device any more
    interrupted  why it stopped before the last problem; empty if it did not
    kept         rows of an earlier run, in whose places new ones go
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
        self.errors: list[str] = []  # of what is no problem
        self._saved = 0.0

    def all(self, problems: Sequence[tuple[Bench, str]], seconds: float | None) -> None:
        """Copies, every problem, copies again and the host's costs; no problem is begun after `seconds`."""
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
        """A row for the problem, whatever becomes of it; none where the library is a part that lacks the op."""
        if symbol_name(bench.op(dtype).name, "run") not in self.symbols:
            say(f"  {bench.name} {dtype}: the library lacks it")
            return
        try:
            row = measure(Problem(self.data, bench, dtype), self.brief if bench.brief else self.clock)
        except Exception as error:  # one problem's, of an op or of a peer, is no other's
            row = failed(bench, dtype, described(error))
            self.check_device()
        if not row:  # nor is what was measured when the op still took a workspace
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
        """What is no problem fails by itself."""
        try:
            call()
        except Exception as error:
            self.errors.append(f"{name}: {described(error)}")
            say(f"  {self.errors[-1]}")

    def check_device(self) -> None:
        """After an address that is none, CUDA refuses whatever the process asks for."""
        try:
            bk.synchronize(self.data.stream, library=self.data.library)
        except Exception as error:
            self.interrupted = f"the device is lost: {described(error)}"

    def measure_copy(self) -> None:
        """Bytes read and written a second by the plainest copies there are."""
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
    """What was measured before, in its order, and now: the same problem once."""
    found = {(row["name"], row["dtype"]): row for row in previous}
    return list((found | {(row["name"], row["dtype"]): row for row in rows}).values())


def measure(problem: Problem, clock: Any) -> Row:
    """The line of the table; empty for a problem that another one already stands for. What is wrong is not timed."""
    bench, dtype = problem.bench, problem.dtype
    if bench.workspace and problem.workspace is None and not bench.brief:
        return {}  # none is needed: the variant without a workspace is the same
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
    """The line of a problem whose results are wrong, or that raised."""
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
    """Of each peer that has several ways, the best."""
    found: dict[str, float] = {}
    for name, took in times:
        found[name] = min(found.get(name, math.inf), getattr(took, figure))
    return found


def judge(row: Row, rows: Iterable[Row], ceiling: float | None, figure: str) -> None:
    """Add the ratios, and whether every bound is met; None where one cannot be told."""
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
