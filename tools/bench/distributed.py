# SPDX-License-Identifier: Apache-2.0
"""Bandwidth of collectives beside torch.distributed's, in the same processes and on the same arrays.

usage: python -m tools.bench.distributed --gpus N | --ranks N [--sizes "4096 1048576"] [--json FILE]

With --gpus the engine is NCCL on both sides, with --ranks shared memory beside Gloo. Sizes are bytes of the array that
an all-reduce has. A time is the median over trials of the slowest rank's mean over calls; on GPUs the calls are timed
by events, eagerly and as a replayed graph of 20 calls. Bus bandwidth is that of nccl-tests: bytes / time * 2 (N - 1) /
N for all-reduce, (N - 1) / N for all-gather, reduce-scatter and all-to-all (of the whole array), 1 for broadcast and a
ring of sends.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import baracuda as bk

SIZES = (1 << 10, 1 << 14, 1 << 17, 1 << 20, 1 << 23, 1 << 26, 1 << 29)
TRIALS, CALLS = 7, 20
LEGACY_STREAM = 1  # cudaStreamLegacy, PyTorch's default stream
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
    call()
    found = []
    for _ in range(TRIALS):
        comm.wait(stream)
        comm.barrier(stream=stream)
        start = time.perf_counter()
        for _ in range(calls):
            call()
        comm.wait(stream)
        mine = (time.perf_counter() - start) / calls
        slowest = bk.upload(np.array([mine], np.float64), library=comm.library)
        comm.all_reduce(slowest, "max", out=slowest)
        comm.wait()
        found.append(float(bk.download(slowest, library=comm.library)[0]))
    return statistics.median(found)


def graph_of(call: Callable[[], object]) -> Callable[[], object]:
    def work() -> None:
        for _ in range(CALLS):
            call()

    return bk.graph(work)


def of_rank(sizes: list[int], path: str) -> None:
    comm = bk.distributed.init(verify=False)
    verified = bk.distributed.Communicator(
        comm.engine, comm.control, comm.library, ranks=comm.ranks, local_rank=comm.local_rank
    )
    is_cuda, n = comm.backend == "cuda", comm.size
    torch, dist = _torch(comm)
    rows = []
    for nbytes in sizes:
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
    if comm.rank == 0 and path:
        pathlib.Path(path).write_text(json.dumps({"ranks": n, "backend": comm.backend, "rows": rows}, indent=1))
    comm.barrier()
    comm.close()
    if dist is not None:
        dist.destroy_process_group()


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
    options = parser.parse_args()
    if options.of_rank:
        of_rank([int(size) for size in options.sizes.split()], options.json)
        return 0
    count = options.gpus or options.ranks
    sizes = options.sizes or " ".join(map(str, SIZES if options.gpus else SIZES[:5]))
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "tools.bench.distributed", "--of-rank", "--sizes", sizes]
        processes = []
        for rank in range(count):
            env = {"NCCL_NVLS_ENABLE": "0", **os.environ, "BARACUDA_BACKEND": "cuda" if options.gpus else "cpu"}
            env |= {"RANK": str(rank), "WORLD_SIZE": str(count), "LOCAL_RANK": str(rank)}
            env |= {"BARACUDA_RENDEZVOUS": pathlib.Path(folder, "ranks").as_uri()}
            own = ["--json", options.json] if options.json and rank == 0 else []
            processes.append(subprocess.Popen([*command, *own], env=env))
        return max(abs(process.wait()) for process in processes)


if __name__ == "__main__":
    sys.exit(main())
