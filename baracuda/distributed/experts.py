# SPDX-License-Identifier: Apache-2.0
"""Mixtures of experts whose experts are divided among the ranks: rank r has the experts [r E / P, (r + 1) E / P).

Rows of tokens go to the ranks of their experts and come back, in all-to-alls of exactly the rows that there are:
nothing is padded, and no token is dropped. How many rows go where is known by the host alone, so that the device is
waited for once in a dispatch, and a graph cannot capture it.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from baracuda import functions, memory
from baracuda._arrays.shaping import empty_like, reshaped
from baracuda._functions.moe_calls import GATES, PLAIN
from baracuda.distributed.communicator import Communicator
from baracuda.distributed.linear import share_of
from baracuda.distributed.ring import uploaded
from baracuda.errors import InvalidProblemError
from baracuda.tensor import tensor


@dataclasses.dataclass(frozen=True)
class Dispatch:
    """Ranks and experts that rows go to. `offsets` of this rank's experts are groups of grouped_linear."""

    comm: Communicator
    order: Any  # of moe_sort, over all experts
    position: Any
    sent: tuple[int, ...]  # rows to each rank
    received: tuple[int, ...]
    by_expert: Any  # the number of each row by expert in the order in which they arrive
    by_source: Any  # its inverse
    offsets: Any

    def to_experts(self, rows: Any) -> Any:
        """Rows in the order of moe_sort as this rank's rows by expert."""
        count = sum(self.sent)
        arrived = self.comm.all_to_all(rows[:count], self.sent, self.received)
        return functions.index_select(arrived, self.by_expert, axis=0)

    def from_experts(self, y: Any) -> Any:
        """Rows by expert back in the order of moe_sort; the rows of pairs without an expert are 0."""
        pairs = int(self.order.shape[0])
        back = empty_like(y, (pairs, y.shape[1]), tensor(y, "y").dtype)
        count = sum(self.sent)
        if count < pairs:
            functions.fill(back, 0.0, out=back)
        returned = functions.index_select(y, self.by_source, axis=0)
        self.comm.all_to_all(returned, self.received, self.sent, out=back[:count])
        return back


def plan_dispatch(comm: Communicator, ids: Any, experts: int) -> Dispatch:
    """The dispatch of tokens whose experts are ids (tokens, top_k), of all `experts`; negative ones are of none."""
    own = share_of("the number of experts", experts, comm.size)
    order, position, _, counts, _ = functions.moe_sort(ids, experts)
    mine = np.asarray(memory.download(counts)).astype(np.int64).reshape(comm.size, own)
    by_source = np.array(
        [each[comm.rank] for each in comm.all_gather_objects(mine.tolist())], np.int64
    )  # (source, our expert) -> rows
    received = by_source.sum(axis=1)
    starts = (np.cumsum(by_source) - by_source.reshape(-1)).reshape(by_source.shape)
    by_expert = np.concatenate(
        [np.arange(starts[source, e], starts[source, e] + by_source[source, e])
         for e in range(own) for source in range(comm.size)]
    )  # fmt: skip
    inverse = np.empty_like(by_expert)
    inverse[by_expert] = np.arange(len(by_expert))
    offsets = np.concatenate([[0], np.cumsum(by_source.sum(axis=0))]).astype(np.int32)
    sent = tuple(int(n) for n in mine.sum(axis=1))
    return Dispatch(
        comm, order, position, sent, tuple(int(n) for n in received), uploaded(by_expert, ids), uploaded(inverse, ids),
        uploaded(offsets, ids),
    )  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Saved:
    """Arrays that the forward of a layer saves for its backward."""

    dispatch: Dispatch
    ids: Any
    weights: Any
    rows: Any
    sums: Any
    activated: Any
    y: Any


def expert_parallel_moe(
    comm: Communicator, x: Any, router_logits: Any, w_gate_up: Any, w_down: Any, top_k: int, *,
    activation: str = "swiglu", scoring: str = "softmax", renormalize: bool = True, scale: float = 1.0,
) -> tuple[Any, Saved]:  # fmt: skip
    """moe() of this rank's tokens x (tokens, hidden) over the experts of all ranks, of which w_gate_up
    (E / P, 2 inner, hidden) and w_down (E / P, outputs, inner) are this rank's, and router_logits is (tokens, E). The
    second result is for the backward.
    """
    _check(comm, x, router_logits, w_gate_up, w_down, activation)
    experts = int(router_logits.shape[1])
    weights, ids = functions.moe_route(router_logits, top_k, scoring=scoring, renormalize=renormalize, scale=scale)
    dispatch = plan_dispatch(comm, ids, experts)
    rows = dispatch.to_experts(functions.moe_permute(x, dispatch.order, dispatch.position))
    sums = functions.grouped_linear(rows, w_gate_up, dispatch.offsets)
    activated = _activated(sums, activation)
    y = dispatch.from_experts(functions.grouped_linear(activated, w_down, dispatch.offsets))
    out = functions.moe_combine(y, dispatch.order, dispatch.position, weights)
    return out, Saved(dispatch, ids, weights, rows, sums, activated, y)


def expert_parallel_moe_backward(
    dout: Any, router_logits: Any, w_gate_up: Any, w_down: Any, saved: Saved, *, activation: str = "swiglu",
    scoring: str = "softmax", renormalize: bool = True, scale: float = 1.0,
) -> tuple[Any, Any, Any, Any]:  # fmt: skip
    """Gradients of x, router_logits, w_gate_up and w_down."""
    dispatch = saved.dispatch
    order, position, offsets = dispatch.order, dispatch.position, dispatch.offsets
    dy, dweights = functions.moe_combine_backward(dout, saved.y, order, position, saved.weights)
    dactivated, ddown = functions.grouped_linear_backward(dispatch.to_experts(dy), saved.activated, w_down, offsets)
    dsums = _activated_backward(dactivated, saved.sums, activation)
    drows, dgate_up = functions.grouped_linear_backward(dsums, saved.rows, w_gate_up, offsets)
    dx = functions.moe_permute_backward(dispatch.from_experts(drows), order, position)
    dlogits = functions.moe_route_backward(
        dweights, router_logits, saved.ids, scoring=scoring, renormalize=renormalize, scale=scale
    )
    return reshaped(dx, (*dout.shape[:-1], int(dx.shape[-1]))), dlogits, dgate_up, ddown


def _activated(sums: Any, activation: str) -> Any:
    if activation in PLAIN:
        return getattr(functions, activation)(sums)
    half = sums.shape[-1] // 2
    return functions.mul(getattr(functions, GATES[activation])(sums[:, :half]), sums[:, half:])


def _activated_backward(dy: Any, sums: Any, activation: str) -> Any:
    if activation in PLAIN:
        return getattr(functions, f"{activation}_backward")(dy, sums)
    half, gate = sums.shape[-1] // 2, GATES[activation]
    left, right = sums[:, :half], sums[:, half:]
    dsums = empty_like(sums, tuple(sums.shape), tensor(sums, "sums").dtype)
    value = getattr(functions, gate)(left)
    functions.mul(dy, value, out=dsums[:, half:])
    dgate = functions.mul(dy, right)
    saved = value if gate == "sigmoid" else left  # of sigmoid the gradient reads the output
    getattr(functions, f"{gate}_backward")(dgate, saved, out=dsums[:, :half])
    return dsums


def _check(comm: Communicator, x: Any, logits: Any, w_gate_up: Any, w_down: Any, activation: str) -> None:
    if activation not in (*GATES, *PLAIN):
        raise InvalidProblemError(f"activation is {activation!r}, must be one of {', '.join((*GATES, *PLAIN))}")
    if len(x.shape) != 2 or len(logits.shape) != 2 or logits.shape[0] != x.shape[0]:
        raise InvalidProblemError(f"x has shape {tuple(x.shape)} and router_logits {tuple(logits.shape)}, must be "
                                  "matrices with a row for each token")  # fmt: skip
    own = share_of("the number of experts", int(logits.shape[1]), comm.size)
    halves = 2 if activation in GATES else 1
    for name, each in (("w_gate_up", w_gate_up), ("w_down", w_down)):
        if len(each.shape) != 3 or each.shape[0] != own:
            raise InvalidProblemError(f"{name} has shape {tuple(each.shape)}, must be ({own}, outputs, inputs)")
    if w_gate_up.shape[2] != x.shape[1] or w_down.shape[2] * halves != w_gate_up.shape[1]:
        raise InvalidProblemError(
            f"w_gate_up has shape {tuple(w_gate_up.shape)}, w_down {tuple(w_down.shape)} and x {tuple(x.shape)}, must "
            f"be ({own}, {halves} * inner, {x.shape[1]}) and ({own}, outputs, inner) for {activation}"
        )
