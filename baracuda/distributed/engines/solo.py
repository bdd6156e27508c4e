# SPDX-License-Identifier: Apache-2.0
"""The engine and the control of a group of one rank: copies from source to target, on either backend."""

from __future__ import annotations

import json
from collections.abc import Sequence

from baracuda import memory
from baracuda.distributed.control import Record
from baracuda.distributed.errors import DistributedError
from baracuda.tensor import TensorRef


class SoloEngine:
    rank, size = 0, 1

    def __init__(self, backend: str) -> None:
        self.backend = backend

    def all_reduce(self, source: TensorRef, target: TensorRef, op: str, stream: int) -> None:
        self._copy(source, target, stream)

    def all_gather(self, source: TensorRef, target: TensorRef, counts: Sequence[int], stream: int) -> None:
        self._copy(source, target, stream)

    def reduce_scatter(self, source: TensorRef, target: TensorRef, counts: Sequence[int], op: str, stream: int) -> None:
        self._copy(source, target, stream)

    def reduce(self, source: TensorRef, target: TensorRef | None, root: int, op: str, stream: int) -> None:
        if target is not None:
            self._copy(source, target, stream)

    def broadcast(self, data: TensorRef, root: int, stream: int) -> None:
        """The only rank has its data."""

    def all_to_all(
        self, source: TensorRef, target: TensorRef, sent: Sequence[int], received: Sequence[int], stream: int
    ) -> None:
        self._copy(source, target, stream)

    def transfer(self, transfers: Sequence[tuple[TensorRef, int, bool]], stream: int) -> None:
        """There is no other rank; the communicator refuses such calls."""

    def wait(self, stream: int) -> None:
        if self.backend == "cuda":
            runtime = memory.cuda_runtime()
            memory.runtime_result(runtime.cudaStreamSynchronize(stream or 2), "cudaStreamSynchronize")

    def close(self) -> None:
        """It holds nothing."""

    def _copy(self, source: TensorRef, target: TensorRef, stream: int) -> None:
        if source.ptr == target.ptr or not source.nbytes:
            return
        if self.backend == "cuda":
            runtime = memory.cuda_runtime()
            kind = runtime.cudaMemcpyKind.cudaMemcpyDeviceToDevice
            copied = runtime.cudaMemcpyAsync(target.ptr, source.ptr, source.nbytes, kind, stream or 2)
            memory.runtime_result(copied, "cudaMemcpyAsync")
        else:
            memory._host_bytes(target.ptr, target.nbytes)[:] = memory._host_bytes(source.ptr, source.nbytes)


class SoloControl:
    def __init__(self) -> None:
        self.error: DistributedError | None = None

    def exchange(self, record: Record, what: str) -> list[Record]:
        return [json.loads(json.dumps(record))]

    def check(self, what: str) -> None:
        """There is no other rank."""

    def fail(self, error: DistributedError) -> DistributedError:
        return error

    def close(self) -> None:
        """It holds nothing."""
