# SPDX-License-Identifier: Apache-2.0
"""The loss of a language model, and the backward of baracuda.demo.forward. Gradients of parameters are added to those
that are there; functions that overwrite them write to a buffer, which is added.
"""

from __future__ import annotations

import baracuda as bk
from baracuda.demo.experts import ExpertsBackward
from baracuda.demo.forward import Buffers, Dropout, LayerBuffers, flat
from baracuda.demo.parameters import Parameters


class Loss:
    """The cross entropy of the next token (fused_linear_cross_entropy: logits exist for some tokens at a time)."""

    def __init__(self, p: Parameters, tokens: int, reduction: bk.LossReduction) -> None:
        self.weight, self.tokens = p.values["embedding"], tokens
        vocabulary, width = self.weight.shape
        descriptor = bk.FusedLinearCrossEntropyDescriptor(tokens, width, vocabulary, reduction, element=p.dtype)
        self.plan = bk.FusedLinearCrossEntropyPlan.select(None, descriptor, library=p.library)
        self.scratch = bk.empty(self.plan.workspace_size, bk.u8, library=p.library)

    def run(
        self, features: bk.TensorRef, targets: bk.TensorRef, out: bk.TensorRef, dfeatures: bk.TensorRef | None = None,
        dweight: bk.TensorRef | None = None,
    ) -> None:  # fmt: skip
        """Losses in `out`, and gradients where they are wanted."""
        args = bk.FusedLinearCrossEntropyArgs(features, self.weight, targets, out, dfeatures, dweight)
        self.plan.run(None, self.scratch, args, count=self.tokens)


class Backward:
    """Gradients of the activations in Buffers, one layer's at a time."""

    def __init__(self, p: Parameters, b: Buffers) -> None:
        self.p, self.b = p, b

        def like(x: bk.TensorRef) -> bk.TensorRef:
            return bk.empty(x.shape, x.dtype, library=p.library)

        layer = b.layers[0]
        self.x, self.branch, self.h = (like(b.x) for _ in range(3))
        self.q, self.k, self.v, self.attended = map(like, (layer.q, layer.k, layer.v, layer.attended))
        if p.config.experts:
            self.experts = ExpertsBackward(p, layer.experts)
        else:
            self.up, self.gated = like(layer.up), like(layer.gated)
        self.gain, self.output = like(p.values["norm"]), like(p.values["embedding"])
        self.loss = None if p.ranks.divides_matrices else Loss(p, b.batch * b.length, bk.LossReduction.MEAN)

    def run(self, tokens: bk.TensorRef, targets: bk.TensorRef, loss: bk.TensorRef, dropout: Dropout) -> None:
        """Computes the mean loss and the gradients of the parameters, after `forward` of the tokens."""
        p, b, values, gradients = self.p, self.b, self.p.values, self.p.gradients
        p.ranks.open_gradients(0)
        if self.loss is None:
            p.ranks.loss(b.h, values["embedding"], targets, loss, self.h, self.output)
        else:
            self.loss.run(b.h, targets, loss, self.h, self.output)
        _add(self.output, gradients["embedding"])
        bk.add_rms_norm_backward(self.h, b.x, b.rms, values["norm"], out=(self.x, self.gain))
        _add(self.gain, gradients["norm"])
        for number in reversed(range(len(b.layers))):
            layer, w, dw = b.layers[number], p.layer(number), p.layer_gradients(number)
            self._mlp(number, layer, w, dw, dropout.backward(self.x, 2 * number + 1, self.branch))
            self._attention(number, layer, w, dw, dropout.backward(self.x, 2 * number, self.branch))
            p.ranks.close_gradients(number + 1)
        p.ranks.embedding_backward(self.x, tokens, gradients["embedding"])
        p.ranks.close_gradients(0)

    def _mlp(
        self, number: int, layer: LayerBuffers, w: dict[str, bk.TensorRef], dw: dict[str, bk.TensorRef],
        dbranch: bk.TensorRef,
    ) -> None:  # fmt: skip
        products = self.p.products
        if self.p.config.experts:
            self.experts.run(number, layer.experts, layer.mlp_h, w, dw, dbranch, self.h)
        else:
            products.backward((number, "down"), dbranch, layer.gated, w["down"], dw["down"], self.gated)
            bk.swiglu_backward(self.gated, layer.up, out=self.up)
            products.backward((number, "up"), self.up, layer.mlp_h, w["up"], dw["up"], self.h)
            self.p.ranks.add_up(self.h)
        self._norm(layer.mlp_x, layer.mlp_rms, w["mlp_norm"], dw["mlp_norm"])

    def _attention(
        self, number: int, layer: LayerBuffers, w: dict[str, bk.TensorRef], dw: dict[str, bk.TensorRef],
        dbranch: bk.TensorRef,
    ) -> None:  # fmt: skip
        b, products = self.b, self.p.products
        products.backward((number, "o"), dbranch, flat(layer.attended), w["o"], dw["o"], flat(self.attended))
        dy, q, y, dq, dk, dv = (
            x.reshape(b.batch, b.length, *x.shape[1:])
            for x in (self.attended, layer.q, layer.attended, self.q, self.k, self.v)
        )
        self.p.ranks.attention_backward(dy, q, layer.keys, layer.values, y, layer.lse, dq, dk, dv)
        for x in (self.q, self.k):
            bk.rope_apply_thd_half_backward(x, b.cos, b.sin, out=x)
        for name, dy in (("v", self.v), ("k", self.k), ("q", self.q)):
            products.backward((number, name), flat(dy), layer.h, w[name], dw[name], self.h, is_added=name != "v")
        self.p.ranks.add_up(self.h)
        self._norm(layer.x, layer.rms, w["attention_norm"], dw["attention_norm"])

    def _norm(self, x: bk.TensorRef, rms: bk.TensorRef, gain: bk.TensorRef, dgain: bk.TensorRef) -> None:
        """Add the gradient that comes through a norm of x to that of x itself."""
        bk.add_rms_norm_backward(self.h, x, rms, gain, self.x, out=(self.x, self.gain))
        _add(self.gain, dgain)


def _add(x: bk.TensorRef, to: bk.TensorRef) -> None:
    bk.add(to, x, out=to)
