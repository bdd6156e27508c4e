# SPDX-License-Identifier: Apache-2.0
"""The MLP of a layer as a mixture of experts (Shazeer et al. 2017), forward and backward.

    weights, ids = the top_k largest of softmax(h router'), divided by their sum
    y = sum over the chosen experts e of weights[e] (swiglu(h up[e]') down[e]')

The load is balanced without a loss of its own (Wang et al. 2024): a bias of each expert is added to the scores when
experts are chosen, not to their weights. It falls by `BALANCE_RATE` in a step in which the expert had more tokens than
the mean, and rises where it had fewer. Nothing is read by the host and no token is dropped.
"""

from __future__ import annotations

import numpy as np

import baracuda as bk
from baracuda.demo.parameters import Parameters

BALANCE_RATE = 1e-3


class ExpertBuffers:
    """Buffers that the forward of a layer fills for its backward. A row is a token in one of its experts; rows are in
    the order of experts.
    """

    def __init__(self, p: Parameters, tokens: int) -> None:
        c, rows = p.config, tokens * p.config.top_k

        def empty(*shape: int, dtype: bk.ElementKind = p.dtype) -> bk.TensorRef:
            return bk.empty(shape, dtype, library=p.library)

        self.logits = empty(tokens, c.experts)
        self.weights, self.ids = empty(tokens, c.top_k, dtype=bk.f32), empty(tokens, c.top_k, dtype=bk.i32)
        self.order, self.expert_of = empty(rows, dtype=bk.i32), empty(rows, dtype=bk.i32)
        self.position = empty(tokens, c.top_k, dtype=bk.i32)
        self.counts, self.offsets = empty(c.experts, dtype=bk.i32), empty(c.experts + 1, dtype=bk.i32)
        self.rows, self.y = empty(rows, c.width), empty(rows, c.width)
        self.up, self.gated = empty(rows, 2 * c.hidden), empty(rows, c.hidden)


def forward(b: ExpertBuffers, h: bk.TensorRef, w: dict[str, bk.TensorRef], out: bk.TensorRef) -> None:
    """The MLP of tokens h (tokens, width) into out."""
    bk.linear(h, w["router"], out=b.logits)
    bk.moe_route(b.logits, b.ids.shape[1], w["balance"], out=(b.weights, b.ids))
    sort = (b.order, b.position, b.expert_of, b.counts, b.offsets)
    bk.moe_sort(b.ids, b.logits.shape[1], out=sort)
    bk.moe_permute(h, b.order, b.position, out=b.rows)
    bk.grouped_linear(b.rows, w["up"], b.offsets, out=b.up)
    bk.swiglu(b.up, out=b.gated)
    bk.grouped_linear(b.gated, w["down"], b.offsets, out=b.y)
    bk.moe_combine(b.y, b.order, b.position, b.weights, out=out)


class ExpertsBackward:
    """Gradients of the activations of one layer, and the loads of all."""

    def __init__(self, p: Parameters, b: ExpertBuffers) -> None:
        def like(x: bk.TensorRef) -> bk.TensorRef:
            return bk.empty(x.shape, x.dtype, library=p.library)

        self.p = p
        self.y, self.rows, self.gated, self.up = map(like, (b.y, b.rows, b.gated, b.up))
        self.weights, self.logits = like(b.weights), like(b.logits)
        w = p.layer(0)
        self.dup, self.ddown = like(w["up"]), like(w["down"])
        layers, experts = p.config.layers, p.config.experts
        self.loads = bk.zeros((layers, experts), bk.f32, library=p.library)
        self.load = bk.empty((experts,), bk.f32, library=p.library)
        self.mean, self.moved = (bk.empty((layers, n), bk.f32, library=p.library) for n in (1, experts))
        self.rate = bk.upload(np.array([BALANCE_RATE]), bk.f32, library=p.library)

    def run(
        self, number: int, b: ExpertBuffers, h: bk.TensorRef, w: dict[str, bk.TensorRef], dw: dict[str, bk.TensorRef],
        dy: bk.TensorRef, dh: bk.TensorRef,
    ) -> None:  # fmt: skip
        """The gradient dh of h from that of the result; those of the matrices are added to dw."""
        bk.moe_combine_backward(dy, b.y, b.order, b.position, b.weights, out=(self.y, self.weights))
        bk.grouped_linear_backward(self.y, b.gated, w["down"], b.offsets, out=(self.gated, self.ddown))
        bk.add(dw["down"], self.ddown, out=dw["down"])
        bk.swiglu_backward(self.gated, b.up, out=self.up)
        bk.grouped_linear_backward(self.up, b.rows, w["up"], b.offsets, out=(self.rows, self.dup))
        bk.add(dw["up"], self.dup, out=dw["up"])
        bk.moe_permute_backward(self.rows, b.order, b.position, out=dh)
        bk.moe_route_backward(self.weights, b.logits, b.ids, out=self.logits)
        bk.addmm(dh, self.logits, w["router"], out=dh)
        bk.addmm(dw["router"], self.logits.T, h, out=dw["router"])
        bk.cast(b.counts, bk.f32, out=self.load)
        loads = self.loads[number]
        bk.add(loads, self.load, out=loads)

    def balance(self) -> None:
        """Move the biases, by the loads since the last call."""
        bk.mean(self.loads, axis=1, keepdims=True, out=self.mean)
        bk.sub(self.mean, self.loads, out=self.moved)
        bk.sign(self.moved, out=self.moved)
        bk.mul(self.moved, self.rate, out=self.moved)
        bk.add(self.p.balance, self.moved, out=self.p.balance)
        bk.fill(self.loads, 0.0, out=self.loads)
