# SPDX-License-Identifier: Apache-2.0
"""Latency and bandwidth of collectives beside torch.distributed's, in the same processes and on the same arrays.

usage: python -m tools.bench.distributed --gpus N | --ranks N [--sizes "4096 1048576"] [--json FILE] [--seconds S]

With --gpus the engine is NCCL on both sides, with --ranks shared memory beside Gloo. Sizes are bytes of the array that
an all-reduce has.

GPUs begin with a table of small all-reduces, in microseconds: as replayed graphs by kernels that write to the other
GPUs' memory, in one and in two shots, by NCCL, and the factor between NCCL and what all_reduce chooses; then the same
eagerly, which the host's time bounds.

A time is the median over trials of the slowest rank's mean over calls; on GPUs the calls are timed by events, behind
calls by which the ranks have met, eagerly and as a replayed graph of 20 calls. Bus bandwidth is that of nccl-tests:
bytes / time * 2 (N - 1) / N for all-reduce, (N - 1) / N for all-gather, reduce-scatter and all-to-all (of the whole
array), 1 for broadcast and a ring of sends.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

import baracuda as bk
from baracuda import memory

SMALL = tuple(1 << shift for shift in range(10, 21))
SIZES = (1 << 10, 1 << 14, 1 << 17, 1 << 20, 1 << 23, 1 << 26, 1 << 29)
TRIALS, CALLS, CALLS_BEFORE = 7, 20, 3
ROW_SECONDS = 60  # more of one row end the process
LEGACY_STREAM, PER_THREAD_STREAM = 1, 2  # cudaStreamLegacy, PyTorch's default stream; cudaStreamPerThread, ours
SHARE = {"all_reduce": lambda n: 2 * (n - 1) / n, "broadcast": lambda n: 1.0, "ring": lambda n: 1.0}


def calls_of(comm: Any, x: bk.TensorRef, y: bk.TensorRef) -> dict[str, Callable[[], object]]:
    """Ours, on x and y of the same number of elements, a multiple of the ranks."""
    n, share = comm.size, x.numel // comm.size
    mine = x[share * comm.rank : share * (comm.rank + 1)]
    return {
        "all_reduce": lambda: comm.all_reduce(x, out=y),
        "all_gather": lambda: comm.all_gather(mine, counts=[share] * n, out=y),
        "reduce_scatter": lambda: comm.reduce_scatter(x, out=mine),
        "all_to_all": lambda: comm.all_to_all(x, out=y),
        "broadcast": lambda: comm.broadcast(x),
        "ring": lambda: comm.send_and_receive(x, (comm.rank + 1) % n, y, (comm.rank - 1) % n),
    }


def calls_of_torch(dist: Any, x: Any, y: Any, n: int, rank: int, has_all: bool) -> dict[str, Callable[[], object]]:
    mine = x.chunk(n)[rank]

    def ring() -> None:
        moves = [dist.P2POp(dist.isend, x, (rank + 1) % n), dist.P2POp(dist.irecv, y, (rank - 1) % n)]
        for each in dist.batch_isend_irecv(moves):
            each.wait()

    calls: dict[str, Callable[[], object]] = {
        "all_reduce": lambda: dist.all_reduce(y),
        "all_gather": lambda: dist.all_gather_into_tensor(y, mine),
        "broadcast": lambda: dist.broadcast(x, 0),
        "ring": ring,
    }
    if has_all:
        calls["reduce_scatter"] = lambda: dist.reduce_scatter_tensor(mine, x)
        calls["all_to_all"] = lambda: dist.all_to_all_single(y, x)
    return calls


def seconds(call: Callable[[], object], comm: Any, stream: Any, calls: int) -> float:
    """Seconds a call: the median over trials of the slowest rank."""
    faulthandler.dump_traceback_later(ROW_SECONDS, exit=True)
    call()
    found = []
    for _ in range(TRIALS):
        comm.wait(stream)
        comm.barrier(stream=stream)
        mine = device_seconds(call, comm, stream, calls) if comm.backend == "cuda" else host_seconds(call, calls)
        found.append(max(comm.all_gather_objects(mine)))
    return statistics.median(found)


def host_seconds(call: Callable[[], object], calls: int) -> float:
    start = time.perf_counter()
    for _ in range(calls):
        call()
    return (time.perf_counter() - start) / calls


def device_seconds(call: Callable[[], object], comm: Any, stream: Any, calls: int) -> float:
    """The time between two events on the stream. Some calls before the first one let the ranks meet."""
    runtime, result = memory.cuda_runtime(), memory.runtime_result
    begin, end = (result(runtime.cudaEventCreate(), "cudaEventCreate") for _ in range(2))
    try:
        for _ in range(CALLS_BEFORE):
            call()
        result(runtime.cudaEventRecord(begin, stream or PER_THREAD_STREAM), "cudaEventRecord")
        for _ in range(calls):
            call()
        result(runtime.cudaEventRecord(end, stream or PER_THREAD_STREAM), "cudaEventRecord")
        comm.wait(stream)
        return float(result(runtime.cudaEventElapsedTime(begin, end), "cudaEventElapsedTime")) / 1e3 / calls
    finally:
        for event in (begin, end):
            runtime.cudaEventDestroy(event)


def graph_of(call: Callable[[], object]) -> Callable[[], object]:
    def work() -> None:
        for _ in range(CALLS):
            call()

    return bk.graph(work)


@contextlib.contextmanager
def small_by(comm: Any, shots: str | None) -> Iterator[None]:
    """All-reduces of any size that they take are by kernels of ours in so many shots, or with None all are NCCL's."""
    peers = comm.engine.peers
    before = peers.limit, peers.shots
    peers.limit, peers.shots = (-1, "") if shots is None else (1 << 30, shots)
    try:
        yield
    finally:
        peers.limit, peers.shots = before


def small_rows(comm: Any, dtype: Any, end: float) -> list[dict[str, Any]]:
    """Latencies of small all-reduces, printed by the first rank."""
    rows = []
    for nbytes in SMALL:
        if max(comm.all_gather_objects(time.monotonic())) > end:
            break
        x, y = (bk.zeros(nbytes // dtype.itemsize, dtype, library=comm.library) for _ in range(2))

        def call(x: bk.TensorRef = x, y: bk.TensorRef = y) -> object:
            return comm.all_reduce(x, out=y)

        def both(call: Callable[[], object] = call) -> tuple[float, float]:
            graph = graph_of(call)
            return seconds(graph, comm, None, 4) / CALLS, seconds(call, comm, None, CALLS)

        row: dict[str, Any] = {"call": "small all_reduce", "bytes": nbytes, "dtype": dtype.symbol}
        row["graph"], row["ours"] = both()
        for name, shots in (("one-shot", "one-shot"), ("two-shot", "two-shot"), ("nccl", None)):
            if comm.engine.peers is None:
                continue
            most = comm.library.function("peer_message", "bytes")(comm.size, 1 if shots == "one-shot" else 2)
            if shots is None or nbytes <= most:
                with small_by(comm, shots):
                    row[f"{name} graph"], row[name] = both()
        rows.append(row)
        if comm.rank == 0:
            print(small_line(row), flush=True)
    return rows


def small_line(row: dict[str, Any]) -> str:
    parts = [f"{row['dtype']:5}{row['bytes']:10,}"]
    for suffix in (" graph", ""):
        chosen = row["graph" if suffix else "ours"]
        parts.append(f"{'graph' if suffix else 'eager'}: {1e6 * chosen:7.2f} us")
        for name in ("one-shot", "two-shot", "nccl"):
            if name + suffix in row:
                parts.append(f"{name} {1e6 * row[name + suffix]:7.2f}")
        if "nccl" + suffix in row:
            parts.append(f"{row['nccl' + suffix] / chosen:5.2f} x")
    return "  ".join(parts)


def of_rank(sizes: list[int], path: str, budget: float) -> None:
    end = time.monotonic() + budget
    faulthandler.dump_traceback_later(ROW_SECONDS, exit=True)
    comm = bk.distributed.init(verify=False, timeout=60.0)
    verified = bk.distributed.Communicator(
        comm.engine, comm.control, comm.library, ranks=comm.ranks, local_rank=comm.local_rank
    )
    is_cuda, n = comm.backend == "cuda", comm.size
    rows: list[dict[str, Any]] = []

    def save() -> None:
        if comm.rank == 0 and path:
            pathlib.Path(path).write_text(json.dumps({"ranks": n, "backend": comm.backend, "rows": rows}, indent=1))

    if is_cuda:
        if comm.rank == 0:
            version = ".".join(map(str, comm.engine.api.version))
            whose = "ours" if comm.engine.peers else "NCCL's"
            print(f"{n} GPUs, NCCL {version}, small all-reduces are {whose}", flush=True)
        for dtype in (bk.f32, bk.bf16):
            rows += small_rows(comm, dtype, end)
            save()
    torch, dist = _torch(comm)
    for nbytes in sizes:
        if max(comm.all_gather_objects(time.monotonic())) > end:
            if comm.rank == 0:
                print(f"{budget:g} s are over: {nbytes:,} bytes and more were not measured", flush=True)
            break
        count = max(nbytes // 4 // n, 1) * n
        x, y = (bk.zeros(count, bk.f32, library=comm.library) for _ in range(2))
        few = 2 if not is_cuda and nbytes > 1 << 22 else CALLS
        theirs: dict[str, Callable[[], object]] = {}
        if dist is not None:
            where = f"cuda:{comm.local_rank}" if is_cuda else "cpu"
            a, b = (torch.zeros(count, device=where) for _ in range(2))
            theirs = calls_of_torch(dist, a, b, n, comm.rank, is_cuda)
        checked = calls_of(verified, x, y)
        for name, call in calls_of(comm, x, y).items():
            row = {"call": name, "bytes": 4 * count, "ours": seconds(call, comm, None, few)}
            row["verified"] = seconds(checked[name], comm, None, few)
            if is_cuda:
                graph = graph_of(call)
                row["graph"] = seconds(graph, comm, None, 1) / CALLS
            if name in theirs:
                stream = torch.cuda.current_stream().cuda_stream or LEGACY_STREAM if is_cuda else None
                row["torch"] = seconds(theirs[name], comm, stream, few)
            if is_cuda and name == "all_reduce":
                comm.engine.deterministic = True
                row["deterministic"] = seconds(call, comm, None, few)
                comm.engine.deterministic = False
            row["factor"] = SHARE.get(name, lambda n: (n - 1) / n)(n)
            rows.append(row)
            if comm.rank == 0:
                print(line(row), flush=True)
        del x, y
        save()
    comm.barrier()
    comm.close()
    if dist is not None:
        dist.destroy_process_group()
    faulthandler.cancel_dump_traceback_later()


def line(row: dict[str, Any]) -> str:
    """Microseconds and GB/s on the bus, of each way to make the call."""
    parts = [f"{row['call']:15}{row['bytes']:12,}"]
    for name in ("ours", "verified", "graph", "deterministic", "torch"):
        if name in row:
            bandwidth = row["bytes"] * row["factor"] / row[name] / 1e9
            parts.append(f"{name} {1e6 * row[name]:9.1f} us {bandwidth:7.2f} GB/s")
    return "  ".join(parts)


def _torch(comm: Any) -> tuple[Any, Any]:
    """PyTorch and its process group beside ours, if it is installed."""
    try:
        import torch
        import torch.distributed as dist
    except ImportError:
        return None, None
    is_cuda = comm.backend == "cuda"
    if is_cuda:
        if not torch.cuda.is_available():
            return None, None
        torch.cuda.set_device(comm.local_rank)
    where = os.environ["BARACUDA_RENDEZVOUS"].removeprefix("file://") + ".torch"
    dist.init_process_group(
        "nccl" if is_cuda else "gloo", init_method=f"file://{where}", rank=comm.rank, world_size=comm.size
    )
    return torch, dist


def main() -> int:
    parser = argparse.ArgumentParser(description="Bandwidth of collectives beside torch.distributed's.")
    group = parser.add_mutually_exclusive_group(required=True)
    group.add_argument("--gpus", type=int)
    group.add_argument("--ranks", type=int, help="of the CPU")
    group.add_argument("--of-rank", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--sizes", default="", help="bytes, separated by blanks")
    parser.add_argument("--json", default="")
    parser.add_argument("--seconds", type=float, default=120.0, help="begin no size after this time")
    options = parser.parse_args()
    if options.of_rank:
        of_rank([int(size) for size in options.sizes.split()], options.json, options.seconds)
        return 0
    count = options.gpus or options.ranks
    sizes = options.sizes or " ".join(map(str, SIZES if options.gpus else SIZES[:5]))
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "tools.bench.distributed", "--of-rank", "--sizes", sizes]
        command += ["--seconds", str(options.seconds)]
        processes = []
        for rank in range(count):
            env = {"NCCL_NVLS_ENABLE": "0", **os.environ, "BARACUDA_BACKEND": "cuda" if options.gpus else "cpu"}
            env |= {"RANK": str(rank), "WORLD_SIZE": str(count), "LOCAL_RANK": str(rank)}
            env |= {"BARACUDA_RENDEZVOUS": pathlib.Path(folder, "ranks").as_uri()}
            own = ["--json", options.json] if options.json and rank == 0 else []
            processes.append(subprocess.Popen([*command, *own], env=env))
        try:
            return ended(processes)
        finally:
            for process in processes:
                process.kill()
                process.wait()


def ended(processes: list[subprocess.Popen[bytes]]) -> int:
    """The largest status of the processes; of those that are still there some seconds after one failed, 1."""
    end = float("inf")
    while True:
        found = [process.poll() for process in processes]
        if None not in found or time.monotonic() > end:
            return max(abs(1 if status is None else status) for status in found)
        if any(found) and end == float("inf"):
            end = time.monotonic() + 10
        time.sleep(0.05)


if __name__ == "__main__":
    sys.exit(main())
