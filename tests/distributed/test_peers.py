# SPDX-License-Identifier: Apache-2.0
"""Small all-reduces of the engine of GPUs, whose ranks are processes of the CPU with shared memory for that of GPUs."""

import functools
import os
import threading
import time
from unittest import mock

import numpy as np
import pytest

import baracuda as bk
from baracuda import memory
from baracuda.distributed.engines import nccl
from baracuda.distributed.engines.nccl import NcclEngine
from baracuda.distributed.engines.peers import LIMIT
from distributed import peers_on_host, ranks
from distributed.nccl_on_host import HostNccl

RUNTIME = mock.patch.object(memory, "cuda_runtime", lambda: peers_on_host.RUNTIME)
needs_peers = pytest.mark.needs_ops("peer_all_reduce_f32", "peer_all_reduce_f64")


def engine_of(comm, timeout=60.0, deterministic=False, has_peers=True, **links):
    with mock.patch.dict(peers_on_host.LINKS, links), mock.patch.object(nccl, "nccl", lambda: HostNccl(comm.engine)):
        return NcclEngine.created(
            bytes(128), comm.rank, comm.size, timeout, comm.library, deterministic, comm.control, has_peers=has_peers
        )  # fmt: skip


def numbers(rank, count):
    return np.random.default_rng([rank, count]).standard_normal(count).astype(np.float32)


def ordered(comm, count):
    return functools.reduce(np.add, [numbers(rank, count) for rank in range(comm.size)])


@RUNTIME
def small_and_large(comm):
    engine = engine_of(comm)
    for count in (0, 1, 1000, LIMIT // 4):
        x = bk.upload(numbers(comm.rank, count))
        y = bk.zeros(count)
        engine.all_reduce(x, y, "sum", 0)
        np.testing.assert_array_equal(bk.download(y), ordered(comm, count) if count else [])
    assert "ncclAllReduce" not in engine.api.calls
    for shots in ("one-shot", "two-shot"):
        engine.peers.shots = shots
        engine.all_reduce(x, x if shots == "two-shot" else y, "sum", 0)
    np.testing.assert_array_equal(bk.download(x), bk.download(y))
    for dtype, count in ((bk.f32, LIMIT // 4 + 1), (bk.i32, 10)):
        x = bk.upload(np.full(count, 1 + comm.rank), dtype)
        engine.all_reduce(x, x, "sum", 0)
        np.testing.assert_array_equal(bk.download(x), np.full(count, comm.size * (comm.size + 1) // 2))
    assert engine.api.calls.count("ncclAllReduce") == 2
    engine.wait(0)
    engine.close()


@RUNTIME
def deterministic(comm):
    """Arrays of three ranks are ours whatever their size, in parts."""
    engine, count = engine_of(comm, deterministic=True), 2_000_003
    x = bk.upload(numbers(comm.rank, count))
    engine.all_reduce(x, x, "sum", 0)
    np.testing.assert_array_equal(bk.download(x), ordered(comm, count))
    assert set(engine.api.calls) == {"ncclCommInitRank"}
    engine.close()


@RUNTIME
def without(comm, links, only_on):
    engine = engine_of(comm, **(links if comm.rank in only_on else {}))
    x = bk.upload(np.ones(5, np.float32))
    engine.all_reduce(x, x, "sum", 0)
    np.testing.assert_array_equal(bk.download(x), np.full(5, comm.size))
    engine.close()
    return engine.peers is None and "ncclAllReduce" in engine.api.calls


@RUNTIME
def late(comm):
    """The last rank does not come; the error that the others raise, and its ranks."""
    engine = engine_of(comm, timeout=0.5)
    if comm.rank == comm.size - 1:
        time.sleep(2)  # and finds the error of the others
    start = time.monotonic()
    x = bk.upload(np.ones(5, np.float32))
    with pytest.raises(bk.distributed.RankTimeoutError, match=f"rank {comm.size - 1} did not arrive") as failure:
        engine.all_reduce(x, x, "sum", 0)
        engine.wait(0)
    assert time.monotonic() - start < 30
    with pytest.raises(bk.distributed.RankTimeoutError):
        engine.all_reduce(x, x, "sum", 0)
    engine.close()
    return failure.value.ranks


@RUNTIME
def dead(comm):
    """A kernel that waits ends when the watching thread has noticed that a rank died."""
    engine = engine_of(comm)
    x = bk.upload(np.ones(5, np.float32))
    engine.all_reduce(x, x, "sum", 0)
    comm.barrier()
    if comm.rank == comm.size - 1:
        os._exit(1)
    with pytest.raises(bk.distributed.RankFailedError, match=f"rank {comm.size - 1} died"):
        engine.all_reduce(x, x, "sum", 0)
        engine.wait(0)
    engine.close()
    return "RankFailedError"


@RUNTIME
def streams(comm):
    """Waits of calls on several streams, and of another thread."""
    engine, x = engine_of(comm), bk.upload(np.ones(5, np.float32))
    peers_on_host.ordered.clear()

    def call(stream):
        engine.all_reduce(x, x, "avg", stream)

    for stream in (0, 2, 7, 7):
        call(stream)
    for stream in (7, 0):
        thread = threading.Thread(target=call, args=(stream,))
        thread.start()
        thread.join()
    call(7)
    engine.close()
    return peers_on_host.ordered


@RUNTIME
def again(comm):
    """The memory of a communicator that was closed serves the next one, from the first call on."""
    kept = []
    for _ in range(3):
        engine = engine_of(comm)
        kept.append(engine.peers._own)
        for count in (5, 700):
            x = bk.upload(numbers(comm.rank, count))
            engine.all_reduce(x, x, "sum", 0)
            np.testing.assert_array_equal(bk.download(x), ordered(comm, count))
        comm.barrier()
        engine.close()
    return len(set(kept))


@pytest.mark.parametrize("size", [2, 3, 5])
@needs_peers
def test_small_and_large_arrays(size):
    ranks.run(size, small_and_large)


@needs_peers
def test_deterministic_sums():
    ranks.run(3, deterministic)


@pytest.mark.parametrize("links", [{"access": 0}, {"opens": False}, {"has_peers": False}, {"bus": "0:1"}])
@needs_peers
def test_hosts_without_access(links):
    """All ranks use NCCL if one cannot map the memory of another."""
    everywhere = "bus" in links
    assert ranks.run(3, without, links, range(3) if everywhere else [1]) == [True] * 3


@needs_peers
def test_a_rank_that_does_not_come():
    assert ranks.run(3, late) == [(2,)] * 3


@needs_peers
def test_a_rank_that_dies():
    assert ranks.outcomes(3, dead)[:2] == ["RankFailedError"] * 2


@needs_peers
def test_calls_on_several_streams():
    want = [("record", 2), ("wait", 7), ("record", 7), ("wait", 2), ("device",)]
    assert ranks.run(2, streams) == [want, want]


@needs_peers
def test_communicators_after_each_other():
    assert ranks.run(2, again) == [1, 1]


def test_the_choice(monkeypatch):
    from baracuda.distributed.environment import PEERS, has_peers

    monkeypatch.delenv(PEERS, raising=False)
    assert has_peers(None)
    monkeypatch.setenv(PEERS, "0")
    assert not has_peers(None)
    assert has_peers(True)
