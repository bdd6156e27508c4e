# SPDX-License-Identifier: Apache-2.0
"""Collectives on 2 to 5 ranks of the CPU, against NumPy, for dtypes, sizes about the slots, and counts."""

import functools

import numpy as np
import pytest

import baracuda as bk
from baracuda.distributed.engines.reductions import REDUCTIONS
from baracuda.dtypes import bf16_from_f32, f32_from_bf16
from distributed import ranks

SIZES = pytest.mark.parametrize("size", [2, 3, 5])
FLOATS = ("f32", "f64")
INTEGERS = ("i8", "u8", "i16", "i32", "u32", "i64")
LENGTHS = (0, 1, 5000, 300_001)  # none, fewer than ranks, one-shot or two-shot, more than a slot


def values(rank, count, dtype):
    rng = np.random.default_rng([rank, count])
    x = rng.standard_normal(count)
    if dtype == "bf16":
        return bf16_from_f32(x.astype(np.float32))
    if dtype in INTEGERS:
        return rng.integers(0, 100, count).astype(np.dtype(dtype.replace("i", "int").replace("u", "u")
                                                           if dtype[0] == "i" else "uint" + dtype[1:]))  # fmt: skip
    return x.astype({"f32": np.float32, "f64": np.float64, "f16": np.float16, "c32": np.complex64}[dtype])


def view(x, dtype):
    """The array itself, or for bf16 a TensorRef of its bits."""
    return bk.TensorRef(x.ctypes.data, x.shape, bk.bf16, owner=x) if dtype == "bf16" else x


def host(x):
    return np.array(x) if not isinstance(x, bk.TensorRef) else bk.download(x.view(bk.u16) if x.dtype is bk.bf16 else x)


def reduced(arrays, op, dtype):
    """The reduction in the order of the ranks, in f32 for 16-bit floats."""
    wide = [f32_from_bf16(x) if dtype == "bf16" else x.astype(np.float32) if dtype == "f16" else x for x in arrays]
    ufunc = {"sum": np.add, "avg": np.add, "prod": np.multiply, "min": np.minimum, "max": np.maximum}[op]
    total = functools.reduce(ufunc, wide)
    if op == "avg":
        total = (total / len(arrays)).astype(total.dtype)
    return bf16_from_f32(total) if dtype == "bf16" else total.astype(arrays[0].dtype)


# --- functions of the ranks -----------------------------------------------------------------------------------------


def all_reduce(comm, cases):
    found = []
    for op, dtype, count in cases:
        x = values(comm.rank, count, dtype)
        found.append(host(comm.all_reduce(view(x, dtype), op)))
    return found


def in_place(comm):
    x = np.full(40_000, comm.rank + 1.0, np.float32)
    y = comm.all_reduce(x, out=x)
    part = np.arange(8, dtype=np.int64) * (comm.rank == 1)
    comm.broadcast(part, 1)
    whole = np.zeros((2 * comm.size, 3))
    whole[2 * comm.rank : 2 * comm.rank + 2] = comm.rank
    comm.all_gather(whole[2 * comm.rank : 2 * comm.rank + 2], out=whole)
    return y is x, float(x[-1]), part.tolist(), whole[:, 0].tolist()


def all_gather(comm, rows):
    x = np.full((rows[comm.rank], 3), comm.rank, np.float32)
    return comm.all_gather(x), comm.all_gather(np.float64(comm.rank)), comm.all_gather(x, counts=rows)


def reduce_scatter(comm, counts, width):
    x = values(comm.rank, sum(counts) * width, "f32").reshape(sum(counts), width)
    return comm.reduce_scatter(x, counts=counts), comm.reduce_scatter(x.astype(np.float64), "max", counts=counts)


def all_to_all(comm, matrix, width):
    sent = matrix[comm.rank]
    x = np.concatenate([np.full((n, width), 100 * comm.rank + to, np.int32) for to, n in enumerate(sent)])
    received = [row[comm.rank] for row in matrix]
    return comm.all_to_all(x, sent), comm.all_to_all(x, sent, received), comm.exchange_counts(sent)


def rooted(comm):
    root = comm.size - 1
    x = np.arange(10.0) + comm.rank
    counts = list(range(1, comm.size + 1))
    whole = np.arange(sum(counts) * 2, dtype=np.float32).reshape(-1, 2) if comm.rank == 0 else None
    share = comm.scatter(whole, 0, counts=counts, out=np.zeros((comm.rank + 1, 2), np.float32))
    return comm.reduce(x, root), comm.gather(share, root), share, comm.reduce(x, 0, "min")


def ring(comm, count):
    """Each rank sends to both neighbours, two messages to the next."""
    following, before = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    first, second, other = np.zeros(count), np.zeros(3, np.int32), np.zeros(count, np.float32)
    comm.transfer(
        [(np.full(count, comm.rank, np.float64), following), (np.full(3, comm.rank, np.int32), following),
         (np.full(count, -comm.rank, np.float32), before)],
        [(first, before), (second, before), (other, following)],
    )  # fmt: skip
    return first[-1], second[-1], other[-1], len(np.unique(first))


def pairs(comm):
    x = np.arange(5.0)
    if comm.rank == 0:
        comm.send(x, 1)
        return comm.receive(np.zeros(5), 1)
    y = comm.receive(np.zeros(5), 0)
    comm.send(2 * y, 0)
    return y


def splits(comm):
    halves = comm.split(comm.rank % 2, key=-comm.rank)
    nobody = comm.split(None if comm.rank == 0 else 7)
    inner = halves.split(0)
    return (
        halves.ranks, halves.rank, float(halves.all_reduce(np.array([comm.rank], np.float64))[0]),
        None if nobody is None else nobody.ranks, inner.ranks, float(comm.all_reduce(np.ones(1))[0]),
    )  # fmt: skip


def on_views(comm):
    x = bk.upload(np.full((2, 2), comm.rank + 1.0), bk.f32)
    y = comm.all_reduce(x)
    return bk.download(y).tolist(), y.dtype is bk.f32


def in_a_graph(comm):
    x = bk.upload(np.zeros(4), bk.f32)
    y, z = bk.zeros(4), bk.zeros(4)

    def work():
        bk.add(x, 1.0, out=y)
        comm.all_reduce(y, out=z)
        bk.mul(z, 2.0, out=z)

    alone = bk.graph(lambda: comm.all_reduce(x, out=x))  # zeros
    alone()
    graph = bk.graph(work)
    found = [bk.download(z).tolist()]
    bk.upload(np.full(4, comm.rank), out=x)
    graph()
    return [*found, bk.download(z).tolist()]


# --- tests ----------------------------------------------------------------------------------------------------------


@SIZES
def test_all_reduce(size):
    with_long = (("sum", "f32"), ("avg", "bf16"), ("max", "i8"))
    cases = [
        (op, dtype, count)
        for dtype in (*FLOATS, "f16", "bf16", *INTEGERS)
        for op in REDUCTIONS
        if (op != "avg" or dtype not in INTEGERS) and (op == "sum" or dtype in ("f32", "bf16", "i8", "u32"))
        for count in LENGTHS
        if count < 10_000 or (op, dtype) in with_long
    ]
    found = ranks.run(size, all_reduce, cases)
    for k, (op, dtype, count) in enumerate(cases):
        want = reduced([values(rank, count, dtype) for rank in range(size)], op, dtype)
        for rank in range(size):
            assert found[rank][k].tobytes() == want.tobytes(), (op, dtype, count, rank)


def test_complex_numbers():
    cases = [(op, "c32", 50) for op in ("sum", "prod", "avg")]
    found = ranks.run(2, all_reduce_complex, cases)
    for k, (op, _, count) in enumerate(cases):
        arrays = [complex_values(rank, count) for rank in range(2)]
        want = {"sum": arrays[0] + arrays[1], "prod": arrays[0] * arrays[1], "avg": (arrays[0] + arrays[1]) / 2}[op]
        np.testing.assert_allclose(found[0][k], want, rtol=1e-6)


def complex_values(rank, count):
    return (values(rank, count, "f32") + 1j * values(rank + 9, count, "f32")).astype(np.complex64)


def all_reduce_complex(comm, cases):
    return [comm.all_reduce(complex_values(comm.rank, count), op) for op, _, count in cases]


def nan_and_negative_zero(comm):
    x = np.array([np.nan, 1.0, -0.0, np.inf] if comm.rank == 1 else [1.0, 2.0, -0.0, -np.inf], np.float32)
    return [comm.all_reduce(x, op) for op in ("min", "max", "sum")]


def test_nan_spreads_and_zero_keeps_its_sign():
    low, high, total = ranks.run(2, nan_and_negative_zero)[0]
    assert np.isnan(low[0]) and np.isnan(high[0]) and np.isnan(total[0]) and np.isnan(total[3])
    assert np.signbit(total[2])
    assert (low[3], high[3]) == (-np.inf, np.inf)


@SIZES
def test_outputs_that_are_inputs(size):
    for is_same, total, part, whole in ranks.run(size, in_place):
        assert is_same
        assert total == size * (size + 1) / 2
        assert part == list(range(8))
        assert whole == [rank for rank in range(size) for _ in (0, 1)]


@SIZES
@pytest.mark.parametrize("kind", ["even", "uneven", "one", "none"])
def test_all_gather(size, kind):
    rows = {"even": [2] * size, "uneven": list(range(size)), "one": [0] * (size - 1) + [150_000], "none": [0] * size}[
        kind
    ]
    want = np.repeat(np.arange(size), rows)
    for found, numbers, again in ranks.run(size, all_gather, rows):
        assert found.shape == (sum(rows), 3) and found.dtype == np.float32
        np.testing.assert_array_equal(found[:, 1], want)
        np.testing.assert_array_equal(again, found)
        np.testing.assert_array_equal(numbers, np.arange(size))


@SIZES
@pytest.mark.parametrize("kind", ["even", "uneven", "long"])
def test_reduce_scatter(size, kind):
    counts, width = {"even": ([3] * size, 2), "uneven": (list(range(size)), 3), "long": ([40_000] * size, 4)}[kind]
    arrays = [values(rank, sum(counts) * width, "f32").reshape(-1, width) for rank in range(size)]
    sums, most = reduced(arrays, "sum", "f32"), np.max(arrays, axis=0).astype(np.float64)
    ends = np.cumsum([0, *counts])
    for rank, (found, largest) in enumerate(ranks.run(size, reduce_scatter, counts, width)):
        np.testing.assert_array_equal(found, sums[ends[rank] : ends[rank + 1]])
        np.testing.assert_array_equal(largest, most[ends[rank] : ends[rank + 1]])


@SIZES
@pytest.mark.parametrize("scale", [1, 30_000])
def test_all_to_all(size, scale):
    matrix = [[scale * ((3 * source + 2 * to) % 4) for to in range(size)] for source in range(size)]
    for rank, (found, again, counts) in enumerate(ranks.run(size, all_to_all, matrix, 2)):
        received = [row[rank] for row in matrix]
        want = np.repeat([100 * source + rank for source in range(size)], received)
        np.testing.assert_array_equal(found[:, 0], want)
        np.testing.assert_array_equal(again, found)
        assert counts == tuple(received)


@SIZES
def test_roots(size):
    found = ranks.run(size, rooted)
    whole = np.arange(size * (size + 1), dtype=np.float32).reshape(-1, 2)
    for rank, (total, gathered, share, least) in enumerate(found):
        start = rank * (rank + 1) // 2
        np.testing.assert_array_equal(share, whole[start : start + rank + 1])
        if rank == size - 1:
            np.testing.assert_array_equal(total, size * np.arange(10.0) + size * (size - 1) / 2)
            np.testing.assert_array_equal(gathered, whole)
        else:
            assert total is None and gathered is None
        if rank == 0:
            np.testing.assert_array_equal(least, np.arange(10.0))
        else:
            assert least is None


@SIZES
@pytest.mark.parametrize("count", [1, 200_000])
def test_messages(size, count):
    for rank, (first, second, other, kinds) in enumerate(ranks.run(size, ring, count)):
        assert first == second == (rank - 1) % size
        assert other == -((rank + 1) % size)
        assert kinds == 1


def test_send_and_receive():
    first, second = ranks.run(2, pairs)
    np.testing.assert_array_equal(second, np.arange(5.0))
    np.testing.assert_array_equal(first, 2 * np.arange(5.0))


def test_split():
    for rank, (members, number, total, others, inner, count) in enumerate(ranks.run(5, splits)):
        want = [4, 2, 0] if rank % 2 == 0 else [3, 1]
        assert list(members) == list(inner) == want
        assert number == want.index(rank)
        assert total == sum(want)
        assert others == (None if rank == 0 else (1, 2, 3, 4))
        assert count == 5


def test_views():
    assert ranks.run(3, on_views) == [([[6.0, 6.0]] * 2, True)] * 3


@pytest.mark.needs_ops("binary_add_f32", "binary_mul_f32")
def test_graphs_replay_collectives():
    assert ranks.run(2, in_a_graph) == [[[4.0] * 4, [6.0] * 4]] * 2


def test_one_rank_needs_no_others():
    with bk.distributed.init(rank=0, size=1) as comm:
        x = np.arange(4.0)
        for found in (comm.all_reduce(x), comm.all_gather(x), comm.reduce_scatter(x), comm.all_to_all(x)):
            np.testing.assert_array_equal(found, x)
        comm.barrier()
        assert comm.split(3).size == 1
