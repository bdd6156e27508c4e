# SPDX-License-Identifier: Apache-2.0
"""The engine of GPUs with NCCL's functions on host memory: counts, offsets, groups and reductions of ours. And how NCCL
is found.
"""

from unittest import mock

import numpy as np
import pytest

import baracuda as bk
from baracuda import memory
from baracuda.distributed.engines import nccl_library
from baracuda.distributed.engines.nccl import NcclEngine
from distributed import nccl_on_host, ranks
from distributed.nccl_on_host import HostNccl, values


def engine_of(comm, deterministic):
    api = HostNccl(comm.engine)
    made = NcclEngine(
        api, 0, comm.rank, comm.size, 5.0, comm.library, deterministic, None, is_owner=False
    )  # fmt: skip
    return made, api


def host(x):
    return bk.download(x).astype(np.float64)


@mock.patch.object(memory, "cuda_runtime", lambda: nccl_on_host.RUNTIME)
def reductions(comm, deterministic):
    engine, api = engine_of(comm, deterministic)
    n = comm.size
    for dtype in (bk.f32, bk.bf16, bk.i32, bk.i16, bk.f64):
        for op, ufunc in (("sum", np.add), ("max", np.maximum), ("min", np.minimum)):
            for count in (0, 1, 37, 1000):
                each = [values(rank, count, dtype) for rank in range(n)]
                want = ufunc.reduce([host(x) for x in each]) if count else np.zeros(0)
                out = bk.zeros(count, dtype)
                engine.all_reduce(each[comm.rank], out, op, 0)
                np.testing.assert_array_equal(host(out), want, err_msg=f"{dtype} {op} {count}")
                counts = [count // n + (rank < count % n) for rank in range(n)]
                start = sum(counts[: comm.rank])
                part = bk.zeros(counts[comm.rank], dtype)
                engine.reduce_scatter(each[comm.rank], part, counts, op, 0)
                np.testing.assert_array_equal(host(part), want[start : start + counts[comm.rank]])
                root = n - 1
                whole = bk.zeros(count, dtype) if comm.rank == root else None
                engine.reduce(each[comm.rank], whole, root, op, 0)
                if whole is not None:
                    np.testing.assert_array_equal(host(whole), want)
    return sorted(set(api.calls))


@mock.patch.object(memory, "cuda_runtime", lambda: nccl_on_host.RUNTIME)
def moves(comm):
    engine, api = engine_of(comm, False)
    n, rank = comm.size, comm.rank
    for rows in ([3] * n, list(range(n)), [0] * (n - 1) + [5]):
        x, out = bk.upload(np.full(rows[rank], rank, np.float32)), bk.zeros(sum(rows))
        engine.all_gather(x, out, rows, 0)
        np.testing.assert_array_equal(host(out), np.repeat(np.arange(n), rows))
    matrix = [[(source + 2 * to) % 4 for to in range(n)] for source in range(n)]
    received = [row[rank] for row in matrix]
    x = bk.upload(np.repeat(np.arange(n) + 10 * rank, matrix[rank]).astype(np.int64))
    out = bk.zeros(sum(received), bk.i64)
    engine.all_to_all(x, out, matrix[rank], received, 0)
    np.testing.assert_array_equal(host(out), np.repeat(10 * np.arange(n) + rank, received))
    same = bk.upload(np.arange(2 * n, dtype=np.float32) + 100 * rank)
    engine.all_to_all(same, same, [2] * n, [2] * n, 0)  # in place
    np.testing.assert_array_equal(host(same).reshape(n, 2), 100 * np.arange(n)[:, None] + 2 * rank + np.arange(2))
    into = bk.zeros(9)
    engine.transfer([(same[:2], (rank + 1) % n, True), (into[:2], (rank - 1) % n, False)], 0)
    np.testing.assert_array_equal(host(into[:2]), np.arange(2) + 2 * ((rank - 1) % n))
    data = bk.upload(np.full(5, rank, np.float32))
    engine.broadcast(data, n - 1, 0)
    np.testing.assert_array_equal(host(data), np.full(5, n - 1))
    engine.wait(0)
    assert "ncclGroupStart" in api.calls


@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.needs_ops("reduce_sum_f32", "reduce_sum_bf16", "reduce_max_f32", "cast_f32_bf16")
def test_reductions(size, deterministic):
    found = ranks.run(size, reductions, deterministic)
    assert found == [found[0]] * size
    assert ("ncclAllReduce" in found[0]) and "ncclSend" in found[0]  # integers, and what NCCL lacks


@pytest.mark.parametrize("size", [2, 3, 5])
def test_moves(size):
    ranks.run(size, moves)


def test_a_library_that_is_missing(monkeypatch, tmp_path):
    monkeypatch.setenv(nccl_library.LIBRARY, str(tmp_path / "libnccl.so.2"))
    with pytest.raises(bk.UnsupportedError, match="nvidia-nccl-cu13"):
        nccl_library.nccl.__wrapped__()


def test_gpus_are_needed(library):
    with pytest.raises(bk.UnsupportedError, match="of the CPU"):
        bk.distributed.from_nccl(1, 0, 2, library=library)
