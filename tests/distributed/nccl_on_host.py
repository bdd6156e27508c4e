# SPDX-License-Identifier: Apache-2.0
"""NCCL's functions on host memory, over the engine of the CPU: what NcclEngine calls can then be executed without a
GPU.

Calls of a group are kept until its end, as NCCL does: sends and receives then advance together, the others follow each
other. Streams are ignored.
"""

import ctypes
import types

import numpy as np

import baracuda as bk
from baracuda.distributed.engines.nccl_library import _SIGNATURES, DTYPES, OPS

ELEMENTS = {number: kind for kind, number in reversed(DTYPES.items()) if kind is not bk.bool_}
NAMES = {number: name for name, number in OPS.items()}


class HostNccl:
    """Stands for baracuda.distributed.engines.nccl_library.Nccl, for the rank of a host engine."""

    def __init__(self, engine):
        self.engine, self.depth, self.waiting, self.calls = engine, 0, [], []

    def call(self, name, *arguments):
        assert len(arguments) == len(_SIGNATURES[name]), name
        self.calls.append(name)
        if name == "ncclGroupStart":
            self.depth += 1
        elif name == "ncclGroupEnd":
            self.depth -= 1
            if not self.depth:
                self.run_group()
        elif name.startswith("ncclComm"):
            pass
        else:
            self.waiting.append((name, arguments))
            if not self.depth:
                self.run_group()

    def run_group(self):
        waiting, self.waiting = self.waiting, []
        moves = []
        for name, a in waiting:
            if name in ("ncclSend", "ncclRecv"):
                moves.append((view(a[0], a[1], a[2]), a[3], name == "ncclSend"))
            else:
                getattr(self, name)(*a)
        if moves:
            self.engine.transfer(moves, 0)

    def ncclAllReduce(self, source, target, count, dtype, op, comm, stream):
        self.engine.all_reduce(view(source, count, dtype), view(target, count, dtype), NAMES[op], 0)

    def ncclReduce(self, source, target, count, dtype, op, root, comm, stream):
        into = view(target, count, dtype) if self.engine.rank == root else None
        self.engine.reduce(view(source, count, dtype), into, root, NAMES[op], 0)

    def ncclBroadcast(self, source, target, count, dtype, root, comm, stream):
        if self.engine.rank == root and source != target:
            ctypes.memmove(target, source, view(source, count, dtype).nbytes)
        self.engine.broadcast(view(target, count, dtype), root, 0)

    def ncclAllGather(self, source, target, count, dtype, comm, stream):
        size = self.engine.size
        self.engine.all_gather(view(source, count, dtype), view(target, size * count, dtype), [count] * size, 0)

    def ncclReduceScatter(self, source, target, count, dtype, op, comm, stream):
        size = self.engine.size
        self.engine.reduce_scatter(
            view(source, size * count, dtype), view(target, count, dtype), [count] * size, NAMES[op], 0
        )


def view(address, count, dtype):
    return bk.TensorRef(address, (count,), ELEMENTS[dtype], device="cpu")


def copy(target, source, nbytes, kind, stream):
    ctypes.memmove(target, source, nbytes)
    return (0,)


RUNTIME = types.SimpleNamespace(
    cudaMemcpyKind=types.SimpleNamespace(cudaMemcpyDeviceToDevice=3), cudaMemcpyAsync=copy,
    cudaStreamQuery=lambda _: (0,), cudaGetDevice=lambda: (0, 0),
)  # fmt: skip


def values(rank, count, dtype):
    return bk.upload(np.round(8 * np.random.default_rng([rank, count]).standard_normal(count)), dtype)
