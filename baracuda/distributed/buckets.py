# SPDX-License-Identifier: Apache-2.0
"""Gradients of any framework's arrays in buckets, each of which is one all-reduce.

buckets = GradientBuckets(comm, [p.grad for p in model.parameters()])
buckets.reduce([p.grad for p in model.parameters()])     # each becomes the mean over the ranks
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from baracuda import functions
from baracuda._arrays.shaping import empty_like, reshaped
from baracuda.distributed.communicator import Communicator
from baracuda.distributed.streams import Side
from baracuda.errors import InvalidProblemError
from baracuda.tensor import tensor

_ALIGNMENT = 64  # elements


class GradientBuckets:
    """Arrays of one dtype that fit into `bucket_bytes` share a bucket, the last arrays first, as a backward makes them.
    An array that is larger has a bucket of its own. On GPUs buckets are reduced on a second stream while the next is
    filled.
    """

    def __init__(self, comm: Communicator, gradients: Sequence[Any], *, bucket_bytes: int = 25 << 20) -> None:
        self.comm, self.side = comm, Side(comm)
        views = [tensor(each, f"gradients[{k}]") for k, each in enumerate(gradients)]
        self._shapes = [(view.shape, view.dtype) for view in views]
        self.members: list[list[tuple[int, int]]] = []  # (number, offset) of a bucket
        self._flat: list[Any] = []
        open_: dict[Any, tuple[list[tuple[int, int]], int]] = {}

        def close(dtype: Any) -> None:
            members, count = open_.pop(dtype)
            self.members.append(members)
            self._flat.append(empty_like(gradients[members[0][0]], (count,), dtype))

        for number in reversed(range(len(views))):
            view = views[number]
            padded = -(-view.numel // _ALIGNMENT) * _ALIGNMENT
            members, count = open_.get(view.dtype, ([], 0))
            if members and (count + padded) * view.dtype.itemsize > bucket_bytes:
                close(view.dtype)
                members, count = [], 0
            members.append((number, count))
            open_[view.dtype] = members, count + padded
        for dtype in list(open_):
            close(dtype)
        for bucket in self._flat:
            functions.fill(bucket, 0.0, out=bucket)

    def reduce(self, gradients: Sequence[Any], op: str = "avg") -> None:
        """Replace each gradient by its mean over the ranks, or another reduction."""
        found = [(tensor(x, f"gradients[{k}]").shape, tensor(x, "x").dtype) for k, x in enumerate(gradients)]
        if found != self._shapes:
            raise InvalidProblemError("gradients differ in number, shape or dtype from those that the buckets are of")
        for members, bucket in zip(self.members, self._flat):
            for number, offset in members:
                self._copy(gradients[number], self._part(bucket, offset, number))

            def exchange(stream: int | None, bucket: Any = bucket) -> object:
                return self.comm.all_reduce(bucket, op, out=bucket, stream=stream)

            self.side.run(exchange, bucket)
        for bucket in self._flat[:1]:
            self.side.finish(bucket)
        for members, bucket in zip(self.members, self._flat):
            for number, offset in members:
                self._copy(self._part(bucket, offset, number), gradients[number])

    def _part(self, bucket: Any, offset: int, number: int) -> Any:
        shape = self._shapes[number][0]
        count = 1
        for extent in shape:
            count *= extent
        return reshaped(bucket[offset : offset + count], shape)

    @staticmethod
    def _copy(source: Any, target: Any) -> None:
        functions.cast(source, tensor(target, "target").dtype, out=target)
