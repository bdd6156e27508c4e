# SPDX-License-Identifier: Apache-2.0
"""peer_all_reduce: ranks are threads on the CPU. On a GPU, and on fibers, calls of one device follow each other: a rank
that waits in vain may call again, so that all ranks arrive by and by.
"""

import functools
import re
import threading

import numpy as np
import pytest

import baracuda as bk
from baracuda.dtypes import bf16_from_f32, f32_from_bf16

OPS = {"sum": 0, "prod": 1, "max": 2, "min": 3, "avg": 4}
DTYPES = ("f32", "f16", "bf16", "f64")
KINDS = {"f32": bk.f32, "f16": bk.f16, "bf16": bk.bf16, "f64": bk.f64}
TIMEOUT = 60_000_000_000
LARGEST = {1: 4, 2: 4, 3: 2, 4: 2, 5: 1, 8: 1}  # 256 KiB, by ranks


@pytest.fixture(params=[2, 3, 5, 8])
def group(request, library):
    return Group(library, request.param)


class Group:
    """The ranks of a test, and their buffers."""

    def __init__(self, library, size):
        self.library, self.size = library, size
        nbytes = library.lib.baracuda_kernels_peer_buffer_bytes(size)
        self.buffers = [bk.zeros(nbytes, bk.u8, library=library) for _ in range(size)]
        self.status = [bk.zeros(1, bk.i32, library=library) for _ in range(size)]
        self.table = library.ffi.new("void*[]", [library.ffi.cast("void*", each.ptr) for each in self.buffers])

    def call(self, rank, x, y, op="sum", shots=0, timeout=TIMEOUT, changes=None):
        ffi = self.library.ffi
        function = getattr(self.library.lib, f"baracuda_kernels_peer_all_reduce_{x.dtype.symbol}_run")
        given = {
            "count": x.numel, "x": ffi.cast("void*", x.ptr), "y": ffi.cast("void*", y.ptr), "buffers": self.table,
            "rank": rank, "ranks": self.size, "op": OPS[op], "shots": shots, "timeout": timeout,
            "status": ffi.cast("void*", self.status[rank].ptr), "stream": ffi.NULL, **(changes or {}),
        }  # fmt: skip
        status = function(*given.values())
        return status, self.library.last_error() if status else ""

    def run(self, xs, op="sum", shots=0, ys=None):
        """The results of all ranks."""
        ys = ys or [bk.upload(np.full(x.shape, 99.0), x.dtype, library=self.library) for x in xs]
        if self.library.backend == "cpu":
            threads = [
                threading.Thread(target=self.call, args=(rank, xs[rank], ys[rank], op, shots))
                for rank in range(self.size)
            ]
            for each in threads:
                each.start()
            for each in threads:
                each.join()
            waiting = [rank for rank in range(self.size) if self.code(rank)]
        else:
            waiting = list(range(self.size))
            for _ in range(3):
                waiting = [rank for rank in waiting if not self.attempt(rank, xs[rank], ys[rank], op, shots)]
        assert not waiting
        return [host(y) for y in ys]

    def attempt(self, rank, x, y, op, shots):
        bk.upload(np.zeros(1, np.int32), out=self.status[rank])
        assert self.call(rank, x, y, op, shots, timeout=0) == (0, "")
        return self.code(rank) == 0

    def code(self, rank):
        bk.synchronize(library=self.library)
        return int(bk.download(self.status[rank])[0])


def host(x):
    """Values, of bf16 their bits."""
    return bk.download(x.view(bk.u16) if x.dtype is bk.bf16 else x)


def values(rank, count, dtype):
    x = np.random.default_rng([rank, count]).standard_normal(count) * (1 + rank)
    if dtype == "bf16":
        return bf16_from_f32(x.astype(np.float32))
    return x.astype({"f32": np.float32, "f16": np.float16, "f64": np.float64}[dtype])


def device(x, dtype, library):
    if dtype == "bf16":
        return bk.upload(x, bk.u16, library=library).view(bk.bf16)
    return bk.upload(x, KINDS[dtype], library=library)


def reduced(arrays, op, dtype):
    """The reduction in the order of the ranks: in f64, rounded to f32 after each step but for f64, and then once."""
    step = np.float64 if dtype == "f64" else np.float32
    wide = [np.asarray(f32_from_bf16(x) if dtype == "bf16" else x, np.float64) for x in arrays]
    ufunc = {"sum": np.add, "avg": np.add, "prod": np.multiply, "min": np.minimum, "max": np.maximum}[op]
    total = functools.reduce(lambda a, b: ufunc(a, b).astype(step).astype(np.float64), wide)
    if op == "avg":
        total = (total / len(arrays)).astype(step).astype(np.float64)
    if dtype == "bf16":
        return bf16_from_f32(total.astype(np.float32))
    return total.astype(arrays[0].dtype)


def assert_reduced(found, arrays, op, dtype):
    want = reduced(arrays, op, dtype)
    for each in found:
        np.testing.assert_array_equal(each.view(np.uint8), want.view(np.uint8), err_msg=f"{op} {dtype} {len(want)}")


@pytest.mark.parametrize("shots", [0, 1, 2])
@pytest.mark.parametrize("dtype", DTYPES)
def test_reductions(group, dtype, shots):
    library = group.library
    for op in OPS if group.size < 5 or library.backend == "cpu" else ["sum"]:
        for count in (1, 7, 3001) if op == "sum" else (100,):
            arrays = [values(rank, count, dtype) for rank in range(group.size)]
            found = group.run([device(x, dtype, library) for x in arrays], op, shots)
            assert_reduced(found, arrays, op, dtype)


def test_the_bits_do_not_depend_on_the_calls(group):
    """Parts of any length and alignment, in one and in two shots, and in place."""
    arrays = [values(rank, 5001, "bf16") for rank in range(group.size)]
    xs = [device(x, "bf16", group.library) for x in arrays]
    whole = group.run(xs)[0]
    for start, stop in ((1, 5), (3, 5001), (2, 2099)):
        for shots in (1, 2):
            for found in group.run([x[start:stop] for x in xs], "sum", shots):
                np.testing.assert_array_equal(found, whole[start:stop])
    if group.library.backend == "cpu":  # a call that is repeated has written to y
        for found in group.run(xs, "sum", 2, ys=xs):
            np.testing.assert_array_equal(found, whole)


@pytest.mark.parametrize("shots", [1, 2])
def test_the_largest_messages(library, shots):
    group = Group(library, 4)
    most = library.lib.baracuda_kernels_peer_message_bytes(4, shots) // 4
    arrays = [values(rank, most, "f32") for rank in range(4)]
    xs = [device(x, "f32", library) for x in arrays]
    assert_reduced(group.run(xs, "sum", shots), arrays, "sum", "f32")
    status, text = group.call(0, bk.zeros(most + 1, library=library), bk.zeros(most + 1, library=library), shots=shots)
    assert (status, f"count is {most + 1}, must be at most {most} for 4 ranks" in text) == (3, True)


def test_sizes_of_messages(library):
    lib = library.lib
    for ranks, quarters in LARGEST.items():
        assert lib.baracuda_kernels_peer_message_bytes(ranks, 1) == quarters << 18
        assert lib.baracuda_kernels_peer_message_bytes(ranks, 0) == ranks * quarters << 18
    for ranks in (0, -1, 9):
        assert lib.baracuda_kernels_peer_message_bytes(ranks, 0) == 0
        assert lib.baracuda_kernels_peer_buffer_bytes(ranks) == 0
    assert lib.baracuda_kernels_peer_message_bytes(2, 3) == 0


def test_nan_and_infinities(library):
    group = Group(library, 3)
    numbers = [[np.nan, 1, np.inf, -0.0], [1, np.nan, -np.inf, -0.0], [2, 2, 1, -0.0]]
    x = [np.array(each, np.float32) for each in numbers]
    for op, want in {"max": [np.nan, np.nan, np.inf, -0.0], "sum": [np.nan, np.nan, np.nan, -0.0]}.items():
        for found in group.run([device(each, "f32", library) for each in x], op):
            np.testing.assert_array_equal(found, np.array(want, np.float32))
            assert np.signbit(found[3])


def test_sequence_numbers_that_overflow(library):
    """The number of a call is not 0, which memory that was never written has."""
    group = Group(library, 2)
    for buffer in group.buffers:
        bk.upload(np.full(128, 2**32 - 3, np.uint32), out=buffer[:512].view(bk.u32))
    for count in (4, 5, 6, 7):
        arrays = [values(rank, count, "f32") for rank in range(2)]
        assert_reduced(group.run([device(x, "f32", library) for x in arrays]), arrays, "sum", "f32")
    assert bk.download(group.buffers[0][:4].view(bk.u32))[0] == 3  # 2^32 - 2, 2^32 - 1, 2, 3


def test_one_rank(library):
    group, x = Group(library, 1), values(0, 1000, "f32")
    for shots in (0, 1, 2):
        np.testing.assert_array_equal(group.run([device(x, "f32", library)], "avg", shots)[0], x)


def test_a_rank_that_does_not_come(library):
    """The wait ends, and the status names the rank; a status that is set ends it too."""
    group = Group(library, 3)
    arrays = [values(rank, 100, "f32") for rank in range(3)]
    xs, y = [device(each, "f32", library) for each in arrays], bk.zeros(100, library=library)
    assert group.call(0, xs[0], y, timeout=1_000_000) == (0, "")
    assert group.code(0) == 3
    bk.upload(np.full(1, -1, np.int32), out=group.status[1])
    assert group.call(1, xs[1], y) == (0, "")
    assert group.code(1) == -1
    for status in group.status:
        bk.upload(np.zeros(1, np.int32), out=status)
    assert_reduced(group.run(xs), arrays, "sum", "f32")  # the same data, as if nothing had been


def test_graphs(library):
    """A replay is a call like any other: the number of calls is in the buffer."""
    if library.backend == "cpu":
        return
    from baracuda import memory

    group, runtime = Group(library, 2), memory.cuda_runtime()
    xs, ys = ([bk.zeros(1000, library=library) for _ in range(2)] for _ in range(2))
    graphs = []
    for rank in range(2):
        runtime.cudaStreamBeginCapture(2, runtime.cudaStreamCaptureMode.cudaStreamCaptureModeRelaxed)
        assert group.call(rank, xs[rank], ys[rank], timeout=0) == (0, "")
        graph = memory.runtime_result(runtime.cudaStreamEndCapture(2), "cudaStreamEndCapture")
        graphs.append(memory.runtime_result(runtime.cudaGraphInstantiate(graph, 0), "cudaGraphInstantiate"))
    for number in range(4):
        for rank in range(2):
            bk.upload(np.full(1000, number + rank, np.float32), out=xs[rank])
        for rank in (0, 1, 0):
            bk.upload(np.zeros(1, np.int32), out=group.status[rank])
            runtime.cudaGraphLaunch(graphs[rank], 2)
        assert group.code(0) == 0
        for y in ys:
            np.testing.assert_array_equal(host(y), np.full(1000, 2 * number + 1))


@pytest.mark.parametrize(("status", "text", "changes"), [
    (3, r"peer_all_reduce_f32_run: ranks is 9, must be in \[1, 8\]", {"ranks": 9}),
    (2, r"rank is 2, must be in \[0, 2\)", {"rank": 2}),
    (2, r"op is 5, must be in \[0, 4\]", {"op": 5}),
    (2, r"shots is 3, must be in \[0, 2\]", {"shots": 3}),
    (2, "timeout_ns is -1", {"timeout": -1}),
    (2, "count is -1", {"count": -1}),
    (2, "x is NULL", {"x": None}),
    (2, "buffers is NULL", {"buffers": None}),
    (2, "status is NULL", {"status": None}),
])  # fmt: skip
def test_refusals(library, status, text, changes):
    group, x = Group(library, 2), bk.zeros(4, library=library)
    null = library.ffi.NULL
    found, message = group.call(
        0, x, x, changes={key: null if value is None else value for key, value in changes.items()}
    )
    assert found == status
    assert re.search(text, message)


def test_alignment(library):
    group, x = Group(library, 2), bk.zeros(4, library=library)
    ffi = library.ffi
    status, text = group.call(0, x, x, changes={"x": ffi.cast("void*", x.ptr + 2)})
    assert (status, "must be aligned to 4" in text) == (1, True)
    table = ffi.new("void*[]", [group.table[0], group.table[1] + 8])
    status, text = group.call(0, x, x, changes={"buffers": table})
    assert (status, "must be aligned to 16" in text) == (1, True)
    assert group.call(0, x, x, changes={"count": 0, "x": ffi.NULL}) == (0, "")
