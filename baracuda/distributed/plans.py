# SPDX-License-Identifier: Apache-2.0
"""The plans of the reference over several ranks: Megatron's linear layers and Adam with divided states.

Buffers are contiguous views or arrays of exactly the lengths named; ranks are those of a communicator. y_full of a
column-parallel layer is (batch, out), whatever the number of ranks, and features that the ranks do not divide are an
error. DistributedAdamStepPlan: each rank updates its shard of the parameters.
"""

from __future__ import annotations

import contextlib
import dataclasses
from typing import Any

from baracuda import functions
from baracuda.distributed.arguments import flat
from baracuda.distributed.communicator import Communicator
from baracuda.distributed.linear import gather_features, share_of
from baracuda.distributed.streams import functions_on
from baracuda.dtypes import ElementKind
from baracuda.errors import BufferTooSmallError, InvalidProblemError
from baracuda.optim.plans import AdamConfig, AdamStepPlan, TensorList
from baracuda.tensor import TensorRef, tensor


@dataclasses.dataclass(frozen=True)
class TensorParallelContext:
    """A communicator, and the features of the whole layer."""

    comm: Communicator
    in_features: int
    out_features: int

    def __post_init__(self) -> None:
        for name in ("in_features", "out_features"):
            if getattr(self, name) <= 0:
                raise InvalidProblemError(f"{name} is {getattr(self, name)}, must be > 0")

    @property
    def partitioned_in_features(self) -> int:
        return share_of("in_features", self.in_features, self.comm.size)

    @property
    def partitioned_out_features(self) -> int:
        return share_of("out_features", self.out_features, self.comm.size)


class _LinearPlan:
    def __init__(self, context: TensorParallelContext, batch: int) -> None:
        if batch <= 0:
            raise InvalidProblemError(f"batch is {batch}, must be > 0")
        self.context, self.comm, self.batch = context, context.comm, batch

    def _matrix(self, what: str, buffer: Any, rows: int, columns: int) -> TensorRef:
        view = tensor(buffer, what)
        if view.numel != rows * columns:
            raise BufferTooSmallError(
                f"{what} has {view.numel} elements, must have {rows * columns}", needed=rows * columns, got=view.numel
            )
        return view.reshape(rows, columns)

    def _on(self, stream: object) -> contextlib.AbstractContextManager[None]:
        return functions_on(stream, is_cuda=self.comm.backend == "cuda")

    @staticmethod
    def _without_bias(bias: Any) -> None:
        if bias is not None:
            raise InvalidProblemError("bias is not None: add it yourself, to the result of a row-parallel layer once")


class ColumnParallelLinearPlan(_LinearPlan):
    """w_local is (out / P, in); x is the same on all ranks."""

    def __init__(self, context: TensorParallelContext, batch: int) -> None:
        super().__init__(context, batch)
        self._out = context.partitioned_out_features

    def forward(self, stream: object, x: Any, w_local: Any, bias: Any, y_local: Any, y_full: Any) -> None:
        """y_local = x w_local', (batch, out / P), and y_full, (batch, out), of all ranks."""
        batch, ins = self.batch, self.context.in_features
        a, w = self._matrix("x", x, batch, ins), self._matrix("w_local", w_local, self._out, ins)
        y = self._matrix("y_local", y_local, batch, self._out)
        full = self._matrix("y_full", y_full, batch, self.context.out_features)
        self._without_bias(bias)
        with self._on(stream):
            functions.linear(a, w, out=y)
            gather_features(self.comm, y, out=full)

    def backward(
        self, stream: object, x: Any, w_local: Any, dy_local: Any, dx_partial: Any, dx: Any, dw_local: Any
    ) -> None:
        """dx is the sum over ranks of dx_partial = dy_local w_local; dw_local = dy_local' x."""
        batch, ins = self.batch, self.context.in_features
        a, w = self._matrix("x", x, batch, ins), self._matrix("w_local", w_local, self._out, ins)
        dy = self._matrix("dy_local", dy_local, batch, self._out)
        partial, whole = (self._matrix(n, b, batch, ins) for n, b in (("dx_partial", dx_partial), ("dx", dx)))
        dw = self._matrix("dw_local", dw_local, self._out, ins)
        with self._on(stream):
            functions.matmul(dy, w, out=partial)
            self.comm.all_reduce(partial, out=whole)
            functions.matmul(dy.T, a, out=dw)


class RowParallelLinearPlan(_LinearPlan):
    """w_local is (out, in / P); x_local has those features."""

    def __init__(self, context: TensorParallelContext, batch: int) -> None:
        super().__init__(context, batch)
        self._in = context.partitioned_in_features

    def forward(self, stream: object, x_local: Any, w_local: Any, bias: Any, y_partial: Any, y: Any) -> None:
        """y is the sum over ranks of y_partial = x_local w_local', (batch, out)."""
        batch, out = self.batch, self.context.out_features
        a, w = self._matrix("x_local", x_local, batch, self._in), self._matrix("w_local", w_local, out, self._in)
        partial, whole = (self._matrix(n, b, batch, out) for n, b in (("y_partial", y_partial), ("y", y)))
        self._without_bias(bias)
        with self._on(stream):
            functions.linear(a, w, out=partial)
            self.comm.all_reduce(partial, out=whole)

    def backward(self, stream: object, x_local: Any, w_local: Any, dy: Any, dx_local: Any, dw_local: Any) -> None:
        """dx_local = dy w_local; dw_local = dy' x_local. Nothing is exchanged."""
        batch, out = self.batch, self.context.out_features
        a, w = self._matrix("x_local", x_local, batch, self._in), self._matrix("w_local", w_local, out, self._in)
        d = self._matrix("dy", dy, batch, out)
        dx, dw = self._matrix("dx_local", dx_local, batch, self._in), self._matrix("dw_local", dw_local, out, self._in)
        with self._on(stream):
            functions.matmul(d, w, out=dx)
            functions.matmul(d.T, a, out=dw)


def shard_range(count: int, rank: int, size: int) -> tuple[int, int]:
    """Offset and length of a rank's shard: the first count mod size ranks have one element more."""
    base, more = divmod(count, size)
    return rank * base + min(rank, more), base + (rank < more)


class DistributedAdamStepPlan:
    """Adam on a flat buffer, whose states are divided among the ranks (ZeRO stage 1)."""

    def __init__(self, config: AdamConfig, comm: Communicator) -> None:
        self.config, self.comm, self._plan = config, comm, AdamStepPlan(config)

    def step(self, stream: object, params: Any, grads: Any, exp_avg: Any, exp_avg_sq: Any, step: int) -> None:
        """Sum the gradients over the ranks, in place and without dividing; update this rank's shard of params with its
        f32 states, of shard_range's length; gather the shards.
        """
        values, gradients = tensor(params, "params").reshape(-1), tensor(grads, "grads").reshape(-1)
        states = [tensor(x, name).reshape(-1) for x, name in ((exp_avg, "exp_avg"), (exp_avg_sq, "exp_avg_sq"))]
        count, size = values.numel, self.comm.size
        start, length = shard_range(count, self.comm.rank, size)
        if gradients.numel != count or gradients.dtype is not values.dtype:
            raise InvalidProblemError(
                f"grads is {gradients.dtype} of {gradients.numel} elements, must be {values.dtype} of {count}"
            )
        for view, name in zip(states, ("exp_avg", "exp_avg_sq")):
            if view.numel != length or view.dtype is not ElementKind.F32:
                raise InvalidProblemError(f"{name} is {view.dtype} of {view.numel} elements, must be f32 of {length}")
        self.comm.all_reduce(gradients, out=gradients, stream=stream)
        own = flat(values, start, length)
        if length:
            parts, summed = (TensorList(values.dtype, [x]) for x in (own, flat(gradients, start, length)))
            first, second = (TensorList(ElementKind.F32, [view]) for view in states)
            self._plan.step_with_f32_state(stream, parts, summed, first, second, step)
        counts = [shard_range(count, rank, size)[1] for rank in range(size)]
        self.comm.all_gather(own, counts=counts, out=values, stream=stream)
