"""Measures every op, checked first, beside its peers; see `--help`."""

from __future__ import annotations

import argparse
import math
import os
import sys
import time
from typing import Any

import baracuda as bk
from tools.bench import problems, report
from tools.bench.data import Data
from tools.bench.host import host_costs
from tools.bench.problem import Problem
from tools.bench.record import Operand
from tools.bench.timing import Call, Events, WallClock
from tools.environment import environment, import_torch


def main() -> int:
    options = parse()
    # two OpenMP runtimes share the cores: the idle one must not spin while the other is measured
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    if options.threads:
        os.environ["OMP_NUM_THREADS"] = str(options.threads)
    library = bk.load(backend=options.backend) if options.backend else bk.default_library()
    torch = None if options.no_torch else import_torch(library.backend)
    on_gpu = library.backend == "cuda"
    size = "cuda" if on_gpu and not options.quick else "cpu"
    least, seconds = (5, 0.02) if options.quick else (20, options.seconds)
    stream = make_stream(torch) if on_gpu else 0
    data = Data(library, torch, stream)
    clock = make_clock(data, least, seconds, options.threads)
    facts = environment(library, torch)
    if options.threads and not on_gpu:
        facts["threads"] = options.threads
        if torch is not None:
            torch.set_num_threads(options.threads)
    say(f"{facts['device']}; {library.backend} library, commit {library.build_info.get('commit')}; ", end="")
    say(f"torch {facts['torch']}, numpy {facts['numpy']}")
    if size == "cuda":
        say(f"a run touches at least 256 MiB, the L2 holds {facts['l2_bytes'] >> 20} MiB: repeated runs read memory")
    rows: list[dict[str, Any]] = []
    start = time.perf_counter()
    copies = measure_copy(data, clock, size)
    brief = make_clock(
        data, 5 if options.quick else 12, 0.02 if options.quick else options.seconds / 6, options.threads
    )
    numel = options.numel or 1 << (20 if options.quick else 26 if size == "cuda" else 24)
    for bench in problems.benches(size, options.only or (), numel, options.pointwise):
        for dtype in bench.dtypes:
            if bench.brief or dtype in options.dtypes.split(","):
                try:
                    rows.append(measure(Problem(data, bench, dtype), brief if bench.brief else clock))
                except bk.UnsupportedError:  # a library of some families
                    say(f"  {bench.name} {dtype}: the library lacks it")
    rows = [row for row in rows if row]
    copies += measure_copy(data, clock, size)
    ceiling = max(copy["bytes_per_second"] for copy in copies)
    for row in rows:
        judge(row, rows, ceiling, clock.figure)
    try:
        host = host_costs(data)
    except bk.UnsupportedError:  # a library of some families
        host = []
    document = {
        "environment": facts,
        "problems": size,
        "ceiling": ceiling,
        "figure": clock.figure,
        "copies": copies,
        "rows": rows,
        "host": host,
    }
    if options.json:
        report.write_json(options.json, document)
    for copy in copies:
        say(f"copy, {copy['how']}: {copy['bytes_per_second'] * 1e-9:.1f} GB/s read + written")
    say(f"measured in {time.perf_counter() - start:.0f} s")
    say(f"\n{report.render_host(host)}\n\n{report.render(rows)}")
    wrong = [row for row in rows if row["error"]]
    for row in wrong:
        say(f"WRONG: {row['name']} {row['dtype']}: {row['error']}")
    unmet = sum(row["met"] is False for row in rows)
    say(f"{len(rows)} rows, {len(wrong)} wrong, {unmet} short of their bound")
    return 1 if wrong else 0


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.bench", description=__doc__)
    parser.add_argument("--backend", choices=("cpu", "cuda"), help="default: as the library is found")
    parser.add_argument("--quick", action="store_true", help="small problems, few repetitions")
    parser.add_argument("--json", metavar="FILE", help="write the results there, too")
    parser.add_argument(
        "--only", action="append", metavar="TEXT", help="only problems whose name contains TEXT; several times: any"
    )
    parser.add_argument("--dtypes", default="f32,bf16", help="default: f32,bf16")
    parser.add_argument("--threads", type=int, help="on the CPU; default: all")
    parser.add_argument("--pointwise", action="store_true", help="only the elementwise family")
    parser.add_argument("--numel", type=int, help="elements of the elementwise problems")
    parser.add_argument("--seconds", type=float, default=0.3, help="to spend on a measurement (default: 0.3)")
    parser.add_argument("--no-torch", action="store_true", help="without PyTorch even where it is installed")
    return parser.parse_args()


def make_stream(torch: Any) -> int:
    """A stream of our own, torch's current one from now on."""
    from cuda.bindings import runtime

    status, stream = runtime.cudaStreamCreateWithFlags(runtime.cudaStreamNonBlocking)
    if int(status):
        raise RuntimeError(f"cudaStreamCreateWithFlags: {status.name}")
    if torch is not None:
        torch.cuda.set_stream(torch.cuda.ExternalStream(int(stream)))
    return int(stream)


def make_clock(data: Data, least: int, seconds: float, threads: int | None) -> Any:
    return Events(least, seconds, data.stream) if data.device == "cuda" else WallClock(least, seconds, threads)


def measure_copy(data: Data, clock: Any, size: str) -> list[dict[str, Any]]:
    """Bytes read and written a second by the plainest copies there are."""
    operand = Operand((1 << (28 if size == "cuda" else 24),), "normal")
    source, target = (data.make(operand, "f32", place) for place in range(2))
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
    times = clock.measure([call for _, call in calls])
    return [
        {"how": how, "us": vars(time), "bytes_per_second": 2 * source.nbytes / (time.median * 1e-6)}
        for (how, _), time in zip(calls, times)
    ]


def measure(problem: Any, clock: Any) -> dict[str, Any]:
    """The line of the table; empty for a problem that another one already stands for."""
    bench, dtype = problem.bench, problem.dtype
    on_gpu = problem.data.device == "cuda"
    if bench.workspace and problem.workspace is None and not bench.brief:
        return {}  # none is needed: the variant without a workspace is the same
    ours = problem.launch()
    ours()
    bk.synchronize(problem.data.stream, library=problem.data.library)
    error = problem.check()
    others = problem.peers(on_gpu)
    times = clock.measure([ours, *(call for _, call in others)])
    named = [(name, time) for (name, _), time in zip(others, times[1:])]
    figure = clock.figure
    peer = min(named, key=lambda item: getattr(item[1], figure), default=None)
    bounds = [bound for bound in bench.bounds if dtype in (bound.dtypes or (dtype,))]
    peers = fastest(named, figure)
    beside = "".join(f", {name} {took:.1f}" for name, took in peers.items())
    say(f"  {bench.name} {dtype}: {error or f'{getattr(times[0], figure):.1f} us'}{beside}")
    return {
        "op": problem.op, "name": bench.name, "dtype": dtype, "bytes": problem.nbytes,
        "workspace_bytes": problem.workspace.nbytes if problem.workspace else 0,
        "ours_us": None if error else vars(times[0]), "peer": peer[0] if peer else None,
        "peer_us": vars(peer[1]) if peer else None, "peers_us": peers,
        "bounds": [{"kind": bound.kind, "value": bound.value, "other": bound.other} for bound in bounds],
        "error": error,
    }  # fmt: skip


def fastest(times: list[tuple[str, Any]], figure: str) -> dict[str, float]:
    """Of each peer that has several ways, the best."""
    found: dict[str, float] = {}
    for name, took in times:
        found[name] = min(found.get(name, math.inf), getattr(took, figure))
    return found


def judge(row: dict[str, Any], rows: list[dict[str, Any]], ceiling: float, figure: str) -> None:
    """Add the ratios, and whether every bound is met; None where one cannot be told."""
    ours = row["ours_us"][figure] if row["ours_us"] else None
    row["times_peer"] = row["peer_us"][figure] / ours if ours and row["peer_us"] else None
    row["of_copy"] = row["bytes"] / (ours * 1e-6) / ceiling if ours else None
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


if __name__ == "__main__":
    sys.exit(main())
