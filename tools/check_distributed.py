#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks baracuda.distributed on the GPUs of this host, or on ranks of the CPU.

usage: python -m tools.check_distributed --gpus N | --ranks N [-k WORD] [--seconds S]

Starts N processes. Each check prints its name, and the time of the first rank; the exit status is 1 if one fails or was
not run within --seconds. After a failure the others run in new processes. The checks of faults end ranks, and start new
ones. A check that takes longer than CHECK_SECONDS prints where its threads are, and fails. NVLink multicast is off
unless NCCL_NVLS_ENABLE says otherwise.

Layers are compared with functions on the CPU, and need the library of the CPU beside that of the GPUs.
"""

from __future__ import annotations

import argparse
import faulthandler
import functools
import logging
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
from baracuda.distributed.engines.reductions import reduce_parts
from baracuda.dtypes import bf16_from_f32

CHECKS: dict[str, Callable[[Communicator], None]] = {}
FAULTS: dict[str, Callable[[Communicator], None]] = {}
INIT_TIMEOUT, TIMEOUT, FAULT_TIMEOUT = 60.0, 25.0, 2.5  # until the ranks have met, later, and in faults
INIT_SECONDS, CHECK_SECONDS = 60, 40
MOST_STARTS = 8
LACKS, LINES = "- ", 16  # the mark of a check for which a function is missing; of a traceback


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


# --- sums of small arrays ---------------------------------------------------------------------------------------------


@check
def small_sums(comm):
    """Bits are those of the sum in the order of the ranks, rounded once, for all sizes, offsets and algorithms."""
    set_shots = shots_of(comm)
    for dtype in (bk.f32, bk.bf16, bk.f16, bk.f64):
        for count in (1, 2, 3, 513, 4096, 65_537, 100_003):
            parts = [stored(numbers(rank, count), dtype) for rank in range(comm.size)]
            x = device(numbers(comm.rank, count), dtype)
            for op in ("sum", "avg", "max", "min", "prod"):
                want = reduce_parts(parts, op, dtype).view(np.uint8)
                for shots in ("", "one-shot", "two-shot") if op == "sum" else ("",):
                    set_shots(shots)
                    np.testing.assert_array_equal(
                        raw(comm.all_reduce(x, op)), want, err_msg=f"{dtype} {op} {count} {shots}"
                    )
                if op != "sum":
                    continue
                for start, stop in ((1, count), (count // 2, count), (0, min(3, count))):
                    if start < stop:
                        item = dtype.itemsize
                        part = comm.all_reduce(x[start:stop])
                        np.testing.assert_array_equal(raw(part), want[start * item : stop * item])
    set_shots("")
    x = device(numbers(comm.rank, 5000), bk.bf16)
    want = raw(comm.all_reduce(x))
    np.testing.assert_array_equal(raw(comm.all_reduce(x, out=x)), want)


@check
def small_sums_in_graphs(comm):
    """Replays, calls between them, and several graphs share the sequence of calls."""
    sizes = (1, 700, 30_000, 250_000)
    xs = [device(np.zeros(size), bk.f32) for size in sizes]
    ys = [device(np.zeros(size), bk.f32) for size in sizes]
    graphs = [
        bk.graph(functools.partial(lambda x, y: [comm.all_reduce(x, out=y) for _ in range(3)], x, y))
        for x, y in zip(xs, ys)
    ]
    for trial in range(20):
        for x in xs:
            bk.upload(np.full(x.numel, trial + comm.rank, np.float32), out=x)
        for number, graph in enumerate(graphs):
            graph()
            if number % 2:
                comm.all_reduce(xs[0])
        for y in ys:
            near(comm, y, np.full(y.numel, sum(trial + rank for rank in range(comm.size))), 0)


@check
def small_sums_on_two_streams(comm):
    if comm.backend == "cpu":
        return
    from baracuda.distributed.streams import Side

    side, x, y = Side(comm), device(np.ones(3000), bk.f32), device(np.ones(90_000), bk.f32)
    for _ in range(50):
        side.run(lambda stream: comm.all_reduce(y, "avg", out=y, stream=stream), y)
        comm.all_reduce(x, "avg", out=x)
    side.finish(y)
    near(comm, x, np.ones(3000), 0)
    near(comm, y, np.ones(90_000), 0)


@check
def small_sums_of_ranks_that_are_late(comm):
    """Many calls without comparison, before which a rank now and then sleeps."""
    quick = type(comm)(
        comm.engine, comm.control, comm.library, ranks=comm.ranks, local_rank=comm.local_rank, verify=False
    )
    rng = np.random.default_rng(comm.rank)
    arrays = {size: device(np.full(size, 1 + comm.rank), bk.f32) for size in (1, 900, 40_000, 262_144)}
    for number in range(1500):
        size = (1, 900, 40_000, 262_144)[number % 7 % 4]
        if number == 100 and comm.rank == 0:
            time.sleep(0.3)
        if rng.random() < 0.02:
            time.sleep(rng.random() * 2e-3)
        arrays[size] = quick.all_reduce(arrays[size], "avg", out=arrays[size])
    for size, x in arrays.items():
        near(comm, x, np.full(size, (1 + comm.size) / 2), 1e-6)


def shots_of(comm):
    """A function that chooses the algorithm of small sums; they must be ours on GPUs."""
    if comm.backend == "cpu":
        return lambda shots: None
    peers = comm.engine.peers
    assert peers is not None, "the GPUs do not map each other's memory: small sums are NCCL's"

    def choose(shots):
        peers.shots = shots

    return choose


def raw(x):
    """The bytes of an array, after all work on it."""
    return bk.download(x.view(bk.u8))


def stored(x, dtype):
    """The bytes of numbers as the dtype has them."""
    cells = bf16_from_f32(x.astype(np.float32)) if dtype is bk.bf16 else x.astype(dtype.numpy_dtype)
    return cells.view(np.uint8)


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


COLLECTIVES = tuple(CHECKS)


def add_layers():
    """The checks of tests/distributed/layers.py."""
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests"))
    import distributed.training
    from distributed import layers

    alone = functools.cache(distributed.training.alone)
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

    def train(comm, layout):
        """The losses of one rank, in f32, within 1e-3."""
        found, _ = distributed.training.losses(comm, layout, {})
        difference = distributed.training.largest_difference(found, alone())
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
        time.sleep(1.6 * FAULT_TIMEOUT)
    expect(bk.distributed.RankTimeoutError, lambda: comm.all_reduce(x))


@fault
def a_rank_is_late_in_a_small_sum(comm):
    """Nothing is compared: the kernel's own wait ends."""
    work = unverified_sum(comm)
    if comm.rank == 0:
        time.sleep(1.6 * FAULT_TIMEOUT)
    expect(bk.distributed.RankTimeoutError, work)


@fault
def a_rank_dies_in_a_small_sum(comm):
    work = unverified_sum(comm)
    if comm.rank == comm.size - 1:
        os._exit(0)
    expect(bk.distributed.DistributedError, work)


def unverified_sum(comm):
    x = device(np.ones(1000), bk.f32)
    quick = type(comm)(
        comm.engine, comm.control, comm.library, ranks=comm.ranks, local_rank=comm.local_rank, verify=False
    )

    def work():
        quick.all_reduce(x)
        quick.wait()

    work()
    comm.barrier()
    return work


def shorten(comm, timeout):
    """Errors come soon, once the ranks have met."""
    for each in (comm.control.segment, comm.engine, getattr(comm.engine, "peers", None)):
        if each is not None:
            each.timeout = timeout


def expect(kind, call):
    start = time.monotonic()
    try:
        call()
    except kind:
        assert time.monotonic() - start < 4 * FAULT_TIMEOUT, "the error came late"
        return
    raise AssertionError(f"no {kind.__name__}")


# --- processes ------------------------------------------------------------------------------------------------------


def of_rank(names, progress):
    """The work of a started process; `progress` is the file to which it adds a line for each check that has passed."""
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stdout)
    faulthandler.dump_traceback_later(INIT_SECONDS, exit=True)
    comm = bk.distributed.init(timeout=INIT_TIMEOUT)
    shorten(comm, TIMEOUT)
    with open(progress, "w") as file:
        for name in names:
            faulthandler.dump_traceback_later(CHECK_SECONDS, exit=True)
            start = time.perf_counter()
            if name in FAULTS:
                shorten(comm, FAULT_TIMEOUT)
            lacks = ""
            try:
                (FAULTS | CHECKS)[name](comm)
            except (bk.UnsupportedError, bk.LibraryNotFoundError) as error:  # on all ranks alike, which go on
                lacks = LACKS
                print(f"FAILED {name} on rank {comm.rank}: {str(error).splitlines()[0]}", flush=True)
            except Exception:
                lines = traceback.format_exc().splitlines()
                print("\n".join([f"FAILED {name} on rank {comm.rank}", *lines[-LINES:]]), flush=True)
                os._exit(1)
            if comm.rank == 0 and not lacks:
                print(f"{name:44} passed in {time.perf_counter() - start:.2f} s", flush=True)
            file.write(lacks + name + "\n")
            file.flush()
            if name in FAULTS:
                os._exit(0)
    comm.barrier()
    comm.close()
    faulthandler.cancel_dump_traceback_later()
    return 0


def start(names, count, backend, end):
    """Start the ranks for some checks: how many of them all ranks have gone through, those that failed for want of a
    function, and whether the processes ended well.
    """
    with tempfile.TemporaryDirectory() as folder:
        processes, files = [], [pathlib.Path(folder, f"progress.{rank}") for rank in range(count)]
        for rank in range(count):
            env = {"NCCL_NVLS_ENABLE": "0", **os.environ, "BARACUDA_BACKEND": backend, "RANK": str(rank)}
            env |= {"WORLD_SIZE": str(count), "LOCAL_RANK": str(rank)}
            env |= {"BARACUDA_RENDEZVOUS": pathlib.Path(folder, "ranks").as_uri()}
            command = [sys.executable, "-m", "tools.check_distributed", "--progress", str(files[rank])]
            processes.append(subprocess.Popen([*command, "--of-rank", *names], env=env))
        try:
            is_well = ended_well(processes, end)
        finally:
            for process in processes:
                process.kill()
                process.wait()
        # A rank that is to die in the only check has no line.
        lines = [file.read_text().splitlines() if file.exists() else [] for file in files]
        lacking = sorted({line.removeprefix(LACKS) for each in lines for line in each if line.startswith(LACKS)})
        done = [len(each) for each in lines]
        return max(done) if names[0] in FAULTS and is_well else min(done), lacking, is_well


def ended_well(processes, end):
    """Whether all processes end with status 0, the last one soon after a failure and before `end`."""
    while True:
        found = [process.poll() for process in processes]
        if None not in found:
            return not any(found)
        if any(found):
            end = min(end, time.monotonic() + 10)
        if time.monotonic() > end:
            return False
        time.sleep(0.05)


def run_all(names, count, backend, end):
    """Run checks in processes that are started again after a failure; those that failed, and those that did not run."""
    failed = []
    for _ in range(MOST_STARTS):
        if not names or time.monotonic() > end:
            break
        done, lacking, is_well = start(names, count, backend, end)
        failed += lacking
        if done == len(names):
            failed += [] if is_well else ["the end of the processes"]
            return failed, []
        if time.monotonic() < end:
            failed.append(names[done])
            done += 1
        names = names[done:]
    return failed, names


def main():
    parser = argparse.ArgumentParser(description="Check baracuda.distributed on several ranks of this host.")
    group = parser.add_mutually_exclusive_group(required=True)
    group.add_argument("--gpus", type=int)
    group.add_argument("--ranks", type=int, help="of the CPU")
    group.add_argument("--of-rank", nargs="+", help=argparse.SUPPRESS)
    parser.add_argument("-k", default="", help="only checks whose names have this")
    parser.add_argument("--seconds", type=float, default=150.0, help="end after this time")
    parser.add_argument("--progress", help=argparse.SUPPRESS)
    options = parser.parse_args()
    add_layers()
    if options.of_rank:
        return of_rank(options.of_rank, options.progress)
    begin, end = time.monotonic(), time.monotonic() + options.seconds
    count, backend = options.gpus or options.ranks, "cuda" if options.gpus else "cpu"
    names = [name for name in CHECKS if options.k in name and (" of " not in name or name.endswith(f" of {count}"))]
    first = [name for name in names if name in COLLECTIVES]
    groups = [first, *[[name] for name in FAULTS if options.k in name], [name for name in names if name not in first]]
    failed, not_run = [], []
    for group_of_names in filter(None, groups):
        for found, all_found in zip(run_all(group_of_names, count, backend, end), (failed, not_run)):
            all_found += found
    print(f"{time.monotonic() - begin:.0f} s")
    for what, some in (("failed", failed), ("not run", not_run)):
        if some:
            print(f"{what}: {', '.join(some)}")
    print("FAILED" if failed or not_run else "passed")
    return int(bool(failed or not_run))


if __name__ == "__main__":
    sys.exit(main())
