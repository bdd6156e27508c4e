"""Measures every op, checked first, beside its peers; see `--help`."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import baracuda as bk
from tools.bench import problems, problems_sparse, report
from tools.bench.data import Data
from tools.bench.host import host_costs
from tools.bench.problems import Bench, Row
from tools.bench.timing import Call, Events, Times, WallClock

PROBLEMS: dict[str, Callable[[Bench], Iterator[Row]]] = {
    "binary_lerp": problems.lerp,
    "repeat": problems.repeat,
    "alibi": problems.alibi,
    "segment_sum_backward": problems_sparse.segment_sum_backward,
    "segment_sum": problems_sparse.segment_sum,
    "unsorted_segment_sum": problems_sparse.unsorted_segment_sum,
    "embedding_bag": problems_sparse.embedding_bag,
    "embedding_bag_backward": problems_sparse.embedding_bag_backward,
}


def main() -> int:
    options = parse()
    # two OpenMP runtimes share the cores: the idle one must not spin while the other is measured
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    library = bk.load(backend=options.backend) if options.backend else bk.default_library()
    torch = None if options.no_torch else import_torch(library.backend)
    on_gpu = library.backend == "cuda"
    shift = (0 if on_gpu else 4) + (4 if options.quick else 0)
    least, seconds = (5, 0.02) if options.quick else (20, options.seconds)
    stream = make_stream(torch) if on_gpu else 0
    data = Data(library, torch, stream)
    clock = Events(least, seconds, stream) if on_gpu else WallClock(least, seconds)
    facts = report.environment(data)
    say(f"{facts['device']}; {library.backend} library, commit {library.build_info.get('commit')}; ", end="")
    say(f"torch {facts['torch']}, numpy {facts['numpy']}; sizes / {1 << shift}")
    if on_gpu and not shift:
        say(f"a run touches at least 256 MiB, the L2 holds {facts['l2_bytes'] >> 20} MiB: repeated runs read memory")
    rows: list[dict[str, Any]] = []
    start = time.perf_counter()
    copies = measure_copy(data, clock, shift)
    for name in PROBLEMS:
        for dtype in options.dtypes.split(","):
            if options.only in name:
                rows += measure(Bench(data, bk.dtypes.as_element(dtype), shift), name, clock)
    copies += measure_copy(data, clock, shift)
    ceiling = max(copy["bytes_per_second"] for copy in copies)
    for row in rows:
        judge(row, rows, ceiling, on_gpu)
    host = host_costs(data)
    document = {"environment": facts, "shift": shift, "ceiling": ceiling, "copies": copies, "rows": rows, "host": host}
    if options.json:
        report.write_json(options.json, document)
    for copy in copies:
        say(f"copy, {copy['how']}: {copy['bytes_per_second'] * 1e-9:.1f} GB/s read + written")
    say(f"measured in {time.perf_counter() - start:.0f} s")
    say(f"\n{report.render_host(host)}\n\n{report.render(rows, on_gpu)}")
    wrong = [row for row in rows if row["error"]]
    for row in wrong:
        say(f"WRONG: {row['op']} {row['variant']} {row['dtype']}: {row['error']}")
    unmet = sum(row["met"] is False for row in rows)
    say(f"{len(rows)} rows, {len(wrong)} wrong, {unmet} short of their bound")
    return 1 if wrong else 0


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.bench", description=__doc__)
    parser.add_argument("--backend", choices=("cpu", "cuda"), help="default: as the library is found")
    parser.add_argument("--quick", action="store_true", help="a 16th of the size, few repetitions")
    parser.add_argument("--json", metavar="FILE", help="write the results there, too")
    parser.add_argument("--only", default="", metavar="TEXT", help="only the problems whose name contains TEXT")
    parser.add_argument("--dtypes", default="f32,bf16", help="default: f32,bf16")
    parser.add_argument("--seconds", type=float, default=0.3, help="to spend on a measurement (default: 0.3)")
    parser.add_argument("--no-torch", action="store_true", help="without PyTorch even where it is installed")
    return parser.parse_args()


def import_torch(backend: str) -> Any:
    """The module, or None where it is missing or cannot use the backend."""
    try:
        import torch
    except ImportError:
        return None
    if backend == "cuda":
        return torch if torch.cuda.is_available() else None
    torch.set_num_threads(os.cpu_count() or 1)
    return torch


def make_stream(torch: Any) -> int:
    """A stream of our own, torch's current one from now on."""
    from cuda.bindings import runtime

    status, stream = runtime.cudaStreamCreateWithFlags(runtime.cudaStreamNonBlocking)
    if int(status):
        raise RuntimeError(f"cudaStreamCreateWithFlags: {status.name}")
    if torch is not None:
        torch.cuda.set_stream(torch.cuda.ExternalStream(int(stream)))
    return int(stream)


def measure_copy(data: Data, clock: Any, shift: int) -> list[dict[str, Any]]:
    """Bytes read and written a second by the plainest copies there are."""
    source, target = (data.normal((1 << (28 - shift),), bk.f32) for _ in range(2))
    calls: list[tuple[str, Call]] = []
    if data.device == "cuda":
        from cuda.bindings import runtime

        kind = runtime.cudaMemcpyKind.cudaMemcpyDeviceToDevice
        operands = (target.view.ptr, source.view.ptr, source.nbytes, kind, data.stream)
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


def measure(bench: Bench, name: str, clock: Any) -> Iterator[dict[str, Any]]:
    known: dict[tuple[str, ...], tuple[str, Times] | None] = {}
    for row in PROBLEMS[name](bench):
        row.ours()
        bk.synchronize(bench.data.stream, library=bench.data.library)
        error = row.check()
        candidates = row.torch if bench.on_gpu else row.torch + row.numpy
        peers = working(bench, candidates, row)
        if bench.on_gpu:
            key = (row.op, peer_key(row.variant))
            ours, *_ = clock.measure([row.ours]) if not error else [None]
            if key not in known:
                known[key] = (peers[0][0], clock.measure([peers[0][1]])[0]) if peers else None
            peer = known[key]
        else:
            times = clock.measure([row.ours, *(call for _, call in peers)])
            ours, named = times[0], list(zip((label for label, _ in peers), times[1:]))
            ours = None if error else ours
            peer = min(named, key=lambda item: item[1].median, default=None)
        result = {
            "op": row.op, "variant": row.variant, "dtype": bench.element.token, "bytes": row.nbytes,
            "ours_us": vars(ours) if ours else None, "peer": peer[0] if peer else None,
            "peer_us": vars(peer[1]) if peer else None, "bound": str(row.bound) if row.bound else None,
            "bound_kind": row.bound.kind if row.bound else None, "bound_value": row.bound.value if row.bound else None,
            "error": error,
        }  # fmt: skip
        say(f"  {row.op} {row.variant} {bench.element}: {f'{ours.median:.1f} us' if ours else error}")
        yield result


def peer_key(variant: str) -> str:
    """What is left of a variant without our choice of kernel: the peer does the same for both."""
    for word in (" no workspace", ", no workspace", " workspace", " atomic"):
        variant = variant.removesuffix(word)
    return "" if variant in ("atomic", "workspace") else variant


def working(bench: Bench, candidates: list[tuple[str, Call]], row: Row) -> list[tuple[str, Call]]:
    """The candidates that run; some peers lack a dtype. On a GPU the first is enough."""
    found = []
    for label, call in candidates:
        try:
            call()
            bk.synchronize(bench.data.stream, library=bench.data.library)
        except (RuntimeError, NotImplementedError, TypeError) as error:
            say(f"  {row.op} {row.variant} {bench.element}: no {label} ({str(error).splitlines()[0]})")
            continue
        found.append((label, call))
        if bench.on_gpu:
            break
    return found


def judge(row: dict[str, Any], rows: list[dict[str, Any]], ceiling: float, on_gpu: bool) -> None:
    """Add the ratios, and whether the bound is met; on the CPU it is to be no slower than the best peer."""
    ours = row["ours_us"]["median"] if row["ours_us"] else None
    row["times_peer"] = row["peer_us"]["median"] / ours if ours and row["peer_us"] else None
    row["of_copy"] = row["bytes"] / (ours * 1e-6) / ceiling if ours else None
    row["met"] = None
    value = row["bound_value"]
    if not on_gpu:
        row["bound"], row["bound_kind"], row["bound_value"] = "1 x best peer", "peer", 1.0
        row["met"] = None if row["times_peer"] is None else row["times_peer"] >= 1.0
    elif ours is None:
        row["met"] = False
    elif row["bound_kind"] == "copy":
        row["met"] = row["of_copy"] >= value
    elif row["bound_kind"] == "torch" and row["times_peer"] is not None:
        row["met"] = row["times_peer"] >= value
    elif row["bound_kind"] == "even":
        reference = (row["op"], "even", row["dtype"])
        even = next(other["ours_us"] for other in rows if (other["op"], other["variant"], other["dtype"]) == reference)
        row["met"] = ours <= value * even["median"] if even else None


def say(text: str, end: str = "\n") -> None:
    print(text, end=end, flush=True)


if __name__ == "__main__":
    sys.exit(main())
