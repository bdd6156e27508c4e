#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks baracuda.distributed on the GPUs of this host, or on ranks of the CPU.

usage: python -m tools.check_distributed --gpus N | --ranks N [-k WORD]

Starts N processes. Each check prints its name, and the time of the slowest rank; the exit status is 1 if one fails. The
checks of faults end ranks, and start new ones. NVLink multicast is off unless NCCL_NVLS_ENABLE says otherwise.
"""

from __future__ import annotations

import argparse
import functools
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable

import numpy as np

import baracuda as bk
from baracuda.distributed.communicator import Communicator

CHECKS: dict[str, Callable[[Communicator], None]] = {}
FAULTS: dict[str, Callable[[Communicator], None]] = {}
TIMEOUT = 20.0
FIRST_TIMEOUT = 180.0


def check(function):
    CHECKS[function.__name__] = function
    return function


def fault(function):
    FAULTS[function.__name__] = function
    return function


def device(x, dtype=None):
    return bk.upload(np.asarray(x), dtype)


def host(comm, x):
    comm.wait()
    return np.asarray(bk.download(x), np.float64)


def near(comm, found, want, tolerance=1e-6):
    np.testing.assert_allclose(host(comm, found), want, rtol=tolerance, atol=tolerance)


def numbers(rank, shape, seed=0):
    return np.random.default_rng([seed, rank]).standard_normal(shape)


# --- collectives ----------------------------------------------------------------------------------------------------


@check
def all_reduce(comm):
    for dtype, tolerance in (
        (bk.f32, 1e-5),
        (bk.bf16, 0.05),
        (bk.f16, 0.01),
        (bk.f64, 1e-12),
        (bk.i32, 0),
        (bk.i64, 0),
    ):
        for count in (1, 1000, 3_000_001):
            each = [np.round(100 * numbers(rank, count)) / (1 if tolerance == 0 else 100) for rank in range(comm.size)]
            for op, ufunc in (("sum", np.add), ("max", np.maximum), ("min", np.minimum)):
                found = comm.all_reduce(device(each[comm.rank], dtype), op)
                near(comm, found, functools.reduce(ufunc, each), tolerance)
            if tolerance:
                near(comm, comm.all_reduce(device(each[comm.rank], dtype), "avg"), sum(each) / comm.size, tolerance)


@check
def uneven(comm):
    rows = [3 * rank for rank in range(comm.size)]
    mine = np.full((rows[comm.rank], 5), comm.rank)
    near(comm, comm.all_gather(device(mine, bk.f32)), np.repeat(np.arange(comm.size), rows)[:, None] * np.ones(5))
    each = [numbers(rank, (sum(rows), 5)) for rank in range(comm.size)]
    start = sum(rows[: comm.rank])
    found = comm.reduce_scatter(device(each[comm.rank], bk.f32), counts=rows)
    near(comm, found, sum(each)[start : start + rows[comm.rank]], 1e-5)
    matrix = [[(source + 2 * to) % 4 for to in range(comm.size)] for source in range(comm.size)]
    x = np.repeat(np.arange(comm.size) + 10 * comm.rank, matrix[comm.rank])[:, None] * np.ones(3)
    want = np.concatenate([np.full(matrix[source][comm.rank], comm.rank + 10 * source) for source in range(comm.size)])
    near(comm, comm.all_to_all(device(x, bk.bf16), matrix[comm.rank]), want[:, None] * np.ones(3))


@check
def roots_and_messages(comm):
    root = comm.size - 1
    x = device(np.full(9, comm.rank), bk.f32)
    near(comm, comm.broadcast(x, root), np.full(9, root))
    y = comm.reduce(device(np.full(9, comm.rank + 1), bk.f32), root)
    if comm.rank == root:
        near(comm, y, np.full(9, comm.size * (comm.size + 1) / 2))
    into = device(np.zeros(100_000), bk.f32)
    following, before = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    comm.send_and_receive(device(np.full(100_000, comm.rank), bk.f32), following, into, before)
    near(comm, into, np.full(100_000, before))
    whole = device(np.arange(2 * comm.size), bk.f32) if comm.rank == 0 else None
    near(comm, comm.scatter(whole, out=device(np.zeros(2), bk.f32)), np.arange(2) + 2 * comm.rank)
    gathered = comm.gather(device([comm.rank], bk.i32))
    if comm.rank == 0:
        near(comm, gathered, np.arange(comm.size))


@check
def split(comm):
    half = comm.split(comm.rank % 2)
    members = [rank for rank in range(comm.size) if rank % 2 == comm.rank % 2]
    near(comm, half.all_reduce(device([comm.rank], bk.f32)), [sum(members)])
    half.close()


@check
def graphs(comm):
    x, y = device(np.zeros(1000), bk.f32), device(np.zeros(1000), bk.f32)

    def work():
        bk.add(x, 1.0, out=y)
        comm.all_reduce(y, out=y)
        bk.mul(y, 2.0, out=y)

    graph = bk.graph(work)
    for value in range(5):
        bk.upload(np.full(1000, value * comm.rank, np.float32), out=x)
        graph()
        near(comm, y, np.full(1000, 2 * (comm.size + value * sum(range(comm.size)))))


@check
def deterministic_sums(comm):
    """The bits do not depend on the size of the array, and are those of one rounding."""
    ordered = type(comm)(comm.engine, comm.control, comm.library, ranks=comm.ranks, local_rank=comm.local_rank)
    was = getattr(comm.engine, "deterministic", True)
    comm.engine.deterministic = True
    try:
        for dtype in (bk.f32, bk.bf16):
            each = [bk.download(device(numbers(rank, 100_003), dtype)).astype(np.float64) for rank in range(comm.size)]
            whole = host(comm, ordered.all_reduce(device(each[comm.rank], dtype)))
            for start, stop in ((0, 1), (17, 5000), (5, 100_003)):
                part = host(comm, ordered.all_reduce(device(each[comm.rank][start:stop], dtype)))
                np.testing.assert_array_equal(part, whole[start:stop])
            rounded = bk.download(device(sum(each), dtype)).astype(np.float64)
            np.testing.assert_allclose(whole, rounded, rtol=2**-22 if dtype is bk.f32 else 2**-8, atol=1e-6)
            again = host(comm, ordered.all_reduce(device(each[comm.rank], dtype)))
            np.testing.assert_array_equal(again, whole)
    finally:
        comm.engine.deterministic = was


@check
def mismatches(comm):
    for call in (
        lambda: comm.all_reduce(device(np.zeros(3 + (comm.rank == 1)), bk.f32)),
        lambda: comm.all_reduce(device(np.zeros(3), bk.f32 if comm.rank else bk.bf16)),
        lambda: comm.barrier() if comm.rank else comm.all_reduce(device(np.zeros(3), bk.f32)),
    ):
        try:
            call()
        except bk.distributed.MismatchError:
            continue
        raise AssertionError("no MismatchError")
    near(comm, comm.all_reduce(device([1.0], bk.f32)), [comm.size])


@check
def beside_torch(comm):
    """torch.distributed's own communicator, and tensors of PyTorch."""
    try:
        import torch
    except ImportError:
        return
    if comm.backend == "cuda" and not torch.cuda.is_available():
        return
    where = f"cuda:{comm.local_rank}" if comm.backend == "cuda" else "cpu"
    x = torch.full((1000,), float(comm.rank), device=where, dtype=torch.bfloat16)
    y = comm.all_reduce(x)
    comm.wait(torch.cuda.current_stream().cuda_stream if comm.backend == "cuda" else None)
    assert y.float().cpu().eq(sum(range(comm.size))).all()
    assert comm.all_gather(x).shape == (1000 * comm.size,)


# --- layers ---------------------------------------------------------------------------------------------------------


def add_layers():
    """The checks of tests/distributed/layers.py."""
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests"))
    from distributed import layers

    cases = {
        "linear_layers": (), "linear_layers in chunks": (3,), "sequence_parallel_layers": (), "vocabulary_layers": (),
        "head_parallel_attention": (),
        **{f"ring_attention {layout} causal={is_causal}": (is_causal, layout)
           for layout in ("contiguous", "zigzag") for is_causal in (False, True)},
        **{f"expert_parallel_layer {activation} {skew}": (activation, skew)
           for activation in ("swiglu", "glu", "relu") for skew in (0, 5)},
    }  # fmt: skip

    def run(comm, name, arguments):
        getattr(layers, name)(comm, bk.upload, *arguments)
        comm.wait()

    import distributed.training

    def train(comm, layout):
        """The losses of one rank, in f32, within 1e-3."""
        alone = distributed.training.alone()
        found, _ = distributed.training.losses(comm, layout, {})
        difference = distributed.training.largest_difference(found, alone)
        assert difference < 1e-3, difference
        again, _ = distributed.training.losses(comm, layout, {})
        assert comm.backend == "cuda" or again == found

    for count, layout in (
        (2, {"data": 2}), (2, {"data": 2, "zero": 1}), (2, {"data": 2, "zero": 2}), (2, {"data": 2, "zero": 3}),
        (2, {"tensor": 2}), (2, {"context": 2}), (4, {"data": 4, "zero": 3}), (4, {"data": 2, "tensor": 2, "zero": 1}),
        (4, {"context": 2, "tensor": 2, "zero": 3}), (4, {"data": 2, "context": 2, "zero": 2}),
    ):  # fmt: skip
        CHECKS[f"train {layout} of {count}"] = functools.partial(train, layout=layout)
    layers.RTOL, layers.ATOL = 5e-3, 5e-3  # products of TF32
    for name, arguments in cases.items():
        CHECKS[name] = functools.partial(run, name=name.split()[0], arguments=arguments)


# --- faults: each in processes of its own ---------------------------------------------------------------------------


@fault
def a_rank_dies_before_a_sum(comm):
    x = device(np.ones(1000), bk.f32)
    comm.all_reduce(x)
    comm.barrier()
    if comm.rank == comm.size - 1:
        os._exit(0)
    expect(bk.distributed.RankFailedError, lambda: comm.all_reduce(x))


@fault
def a_rank_dies_while_a_graph_is_replayed(comm):
    """Nothing is compared in a replay: the stream waits for a rank that is dead, and must not wait for ever."""
    x = device(np.ones(1000), bk.f32)
    graph = bk.graph(lambda: comm.all_reduce(x, out=x))
    graph()
    comm.wait()
    comm.barrier()
    if comm.rank == comm.size - 1:
        os._exit(0)

    def replay():
        graph()
        comm.wait()

    expect(bk.distributed.DistributedError, replay)


@fault
def a_rank_is_late(comm):
    x = device(np.ones(1000), bk.f32)
    comm.all_reduce(x)
    comm.wait()
    if comm.rank == 0:
        time.sleep(1.6 * comm.control.segment.timeout)
    expect(bk.distributed.RankTimeoutError, lambda: comm.all_reduce(x))


def expect(kind, call):
    start = time.monotonic()
    try:
        call()
    except kind:
        assert time.monotonic() - start < 2 * TIMEOUT, "the error came late"
        return
    raise AssertionError(f"no {kind.__name__}")


# --- processes ------------------------------------------------------------------------------------------------------


def of_rank(names):
    """The work of a started process."""
    is_fault = names[0] in FAULTS
    comm = bk.distributed.init(timeout=5.0 if is_fault else FIRST_TIMEOUT)
    status = 0
    for name in names:
        start = time.perf_counter()
        try:
            (FAULTS | CHECKS)[name](comm)
        except Exception:
            print(f"FAILED {name} on rank {comm.rank}\n{traceback.format_exc()}", flush=True)
            os._exit(1)
        if comm.rank == 0:
            print(f"{name:40} passed in {time.perf_counter() - start:.2f} s", flush=True)
    if is_fault:
        os._exit(status)
    comm.barrier()
    comm.close()
    return status


def start(names, count, backend):
    """Start the ranks for some checks; the status that is not 0."""
    with tempfile.TemporaryDirectory() as folder:
        processes = []
        for rank in range(count):
            env = {"NCCL_NVLS_ENABLE": "0", **os.environ, "BARACUDA_BACKEND": backend, "RANK": str(rank)}
            env |= {"WORLD_SIZE": str(count), "LOCAL_RANK": str(rank)}
            env |= {"BARACUDA_RENDEZVOUS": pathlib.Path(folder, "ranks").as_uri()}
            processes.append(
                subprocess.Popen([sys.executable, "-m", "tools.check_distributed", "--of-rank", *names], env=env)
            )
        try:
            return max(abs(process.wait(600)) for process in processes)
        finally:
            for process in processes:
                process.kill()


def main():
    parser = argparse.ArgumentParser(description="Check baracuda.distributed on several ranks of this host.")
    group = parser.add_mutually_exclusive_group(required=True)
    group.add_argument("--gpus", type=int)
    group.add_argument("--ranks", type=int, help="of the CPU")
    group.add_argument("--of-rank", nargs="+", help=argparse.SUPPRESS)
    parser.add_argument("-k", default="", help="only checks whose names have this")
    options = parser.parse_args()
    add_layers()
    if options.of_rank:
        return of_rank(options.of_rank)
    count, backend = options.gpus or options.ranks, "cuda" if options.gpus else "cpu"
    names = [name for name in CHECKS if options.k in name and (" of " not in name or name.endswith(f" of {count}"))]
    status = start(names, count, backend) if names else 0
    for name in [name for name in FAULTS if options.k in name]:
        status = start([name], count, backend) or status
    print("passed" if status == 0 else "FAILED")
    return int(status != 0)


if __name__ == "__main__":
    sys.exit(main())
