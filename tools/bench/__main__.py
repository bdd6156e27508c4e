# SPDX-License-Identifier: Apache-2.0
"""Checks the result of every op, then measures it against its peers; see `--help`.

A problem that raises, or whose results are wrong, becomes a row that says so, and the exit status is 1. Results so far
are written every other second, on an interrupt, and when the time (`--seconds`) is over. --sweep measures each op along
each of its extents instead (sweep.py).
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

import baracuda as bk
from tools.bench import problems, report, sweep
from tools.bench.data import Data
from tools.bench.record import Bench
from tools.bench.run import Run, say
from tools.bench.timing import Bursts, Events, Graphs, WallClock
from tools.environment import environment, import_torch


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    # two OpenMP runtimes share the cores: the idle one must not spin while the other is measured
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    if options.threads:
        os.environ["OMP_NUM_THREADS"] = str(options.threads)
    library = bk.load(backend=options.backend) if options.backend else bk.default_library()
    torch = None if options.no_torch else import_torch(library.backend)
    on_gpu = library.backend == "cuda"
    size = "cuda" if on_gpu and not options.quick else "cpu"
    data = Data(library, torch, make_stream(torch) if on_gpu else 0, compiles=options.compile,
                rounds_up=options.sweep)  # fmt: skip
    facts = environment(library, torch)
    if options.threads and not on_gpu:
        facts["threads"] = options.threads
        if torch is not None:
            torch.set_num_threads(options.threads)
    say(f"{facts['device']}; {library.backend} library, commit {library.build_info.get('commit')}; ", end="")
    say(f"torch {facts['torch']}, numpy {facts['numpy']}")
    if options.sweep:
        return sweep_all(options, data, facts)
    if size == "cuda":
        say(f"a run touches at least 256 MiB, the L2 holds {facts['l2_bytes'] >> 20} MiB: repeated runs read memory")
    if options.quick:
        clocks = [make_clock(data, 5, 0.02, options.threads) for _ in range(2)]
    else:
        plans = ((20, options.each), (12, options.each / 6))
        clocks = [make_clock(data, *plan, options.threads) for plan in plans]
    start = time.perf_counter()
    previous = earlier(options.add_to, facts) if options.add_to else ()
    run = Run(data, *clocks, size, facts, options.json or options.add_to, previous)
    with_interrupt = signal.signal(signal.SIGTERM, signal.default_int_handler)  # what `timeout` sends
    try:
        run.all(list(chosen(options, size)), options.seconds)
    finally:
        signal.signal(signal.SIGTERM, with_interrupt)
    say(f"measured in {time.perf_counter() - start:.0f} s")
    return summary(run)


def sweep_all(options: argparse.Namespace, data: Data, facts: dict[str, Any]) -> int:
    each = min(options.each, 0.01 if options.quick else 0.015)
    clock = Graphs(each, data.stream, data.torch) if data.device == "cuda" else Bursts(each, options.threads)
    chosen = problems.sweeps(data.device, options.only, options.skip, options.families)
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return sweep.run(options, data, clock, facts, chosen)
    finally:
        signal.signal(signal.SIGTERM, before)


def earlier(path: str, facts: dict[str, Any]) -> list[dict[str, Any]]:
    """Rows of an earlier run on the same device; each names its commit."""
    document = json.loads(pathlib.Path(path).read_text())
    device = document["environment"]["device"]
    if device != facts["device"]:
        raise SystemExit(f"{path} was measured on {device}, this is {facts['device']}")
    commit = document["environment"]["library"]["commit"]
    return [{"commit": commit, **row} for row in document["rows"]]


def chosen(options: argparse.Namespace, size: str) -> Iterator[tuple[Bench, str]]:
    numel = options.numel or 1 << (20 if options.quick else 26 if size == "cuda" else 24)
    for bench in problems.benches(size, options.only, numel, options.families):
        if any(text in bench.name for text in options.skip):
            continue
        for dtype in bench.dtypes:
            if bench.brief or dtype in options.dtypes.split(","):
                yield bench, dtype


def summary(run: Run) -> int:
    """Prints the results and returns the exit status."""
    for copy in run.copies:
        say(f"copy, {copy['how']}: {copy['bytes_per_second'] * 1e-9:.1f} GB/s read + written")
    say(f"\n{report.render_host(run.host)}\n\n{report.render(run.rows)}")
    wrong = [row for row in run.rows if row["error"]]
    for row in wrong:
        say(f"FAILED: {row['name']} {row['dtype']}: {row['error']}")
    for error in run.errors:
        say(f"FAILED: {error}")
    if run.interrupted:
        first = f", the first {run.unreached[0]}" if run.unreached else ""
        say(f"{run.interrupted}: {len(run.unreached)} problems were not reached{first}")
    unmet = sum(row["met"] is False for row in run.rows)
    say(f"{len(run.rows)} rows, {len(wrong)} failed, {unmet} short of their bound")
    return 1 if wrong or run.errors else 0


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tools.bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--backend", choices=("cpu", "cuda"), help="default: the backend of the library that is found")
    parser.add_argument("--quick", action="store_true", help="small problems, few repetitions")
    parser.add_argument("--sweep", action="store_true", help="each op along its extents (M, N, K, row length, rows, "
                        "batch, rank, dtype): marks what is below 0.8 of PyTorch, and what takes longer than a larger "
                        "problem")  # fmt: skip
    parser.add_argument("--json", metavar="FILE", default="", help="also write the results to FILE, as they come")
    parser.add_argument("--add-to", metavar="FILE", default="", help="keep the rows of these results that are not "
                        "measured now, of any commit; written there, or where --json says")  # fmt: skip
    parser.add_argument("--families", nargs="+", default=(), choices=(*problems.families(), "host"), metavar="FAMILY",
                        help=f"only the problems of these: {', '.join(problems.families())}; with --sweep, too, host, "
                        "the time of a call on small arrays")  # fmt: skip
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="TEXT",
        help="only problems with TEXT in the name; may be repeated",
    )
    parser.add_argument("--skip", action="append", default=[], metavar="TEXT", help="no problems with TEXT in the name")
    parser.add_argument("--dtypes", default="f32,bf16", help="default: f32,bf16")
    parser.add_argument("--threads", type=int, help="CPU threads; default: all")
    parser.add_argument("--numel", type=int, help="elements of the elementwise problems")
    parser.add_argument("--seconds", type=float, help="start no problem after this time (default: measure all)")
    parser.add_argument("--each", type=float, default=0.3, help="seconds per measurement (default: 0.3)")
    parser.add_argument("--compile", action="store_true", help="of softmax, norms and losses also what "
                        "torch.compile makes of PyTorch's function, in a column of its own: seconds each")  # fmt: skip
    parser.add_argument("--no-torch", action="store_true", help="do not use PyTorch")
    return parser.parse_args(arguments)


def make_stream(torch: Any) -> int:
    """Creates a stream and makes it torch's current one."""
    from cuda.bindings import runtime

    status, stream = runtime.cudaStreamCreateWithFlags(runtime.cudaStreamNonBlocking)
    if int(status):
        raise RuntimeError(f"cudaStreamCreateWithFlags: {status.name}")
    if torch is not None:
        torch.cuda.set_stream(torch.cuda.ExternalStream(int(stream)))
    return int(stream)


def make_clock(data: Data, least: int, seconds: float, threads: int | None) -> Any:
    return Events(least, seconds, data.stream) if data.device == "cuda" else WallClock(least, seconds, threads)


if __name__ == "__main__":
    sys.exit(main())
