# SPDX-License-Identifier: Apache-2.0
"""The forward of a decoder-only transformer of Llama's kind (Touvron et al. 2023), on buffers that are allocated once.

    x = embedding[tokens]
    for each layer:
        h = rms_norm(x);  x = x + attention(rope(h Wq'), rope(h Wk'), h Wv') Wo'
        h = rms_norm(x);  x = x + swiglu(h Wup') Wdown'
    logits = rms_norm(x) embedding'

W' is W transposed. Groups of heads of q share a head of k and v; Wup has the rows of swiglu's linear half, then those
of its gate. The sums x + ... are computed by the norm that reads them (add_rms_norm). A mixture of experts instead of
swiglu(h Wup') Wdown' is in baracuda.demo.experts.
"""

from __future__ import annotations

import numpy as np

import baracuda as bk
from baracuda.demo import experts
from baracuda.demo.experts import ExpertBuffers
from baracuda.demo.parameters import Parameters

EPS = 1e-6  # of the norms


class LayerBuffers:
    """Buffers that the forward of a layer fills for its backward."""

    def __init__(self, p: Parameters, batch: int, length: int) -> None:
        c, tokens = p.config, batch * length

        def empty(*shape: int, dtype: bk.ElementKind = p.dtype) -> bk.TensorRef:
            return bk.empty(shape, dtype, library=p.library)

        self.x, self.h, self.rms = empty(tokens, c.width), empty(tokens, c.width), empty(tokens, 1, dtype=p.statistics)
        self.q = empty(tokens, p.heads, c.head_dim)
        self.k, self.v = empty(tokens, p.kv_heads, c.head_dim), empty(tokens, p.kv_heads, c.head_dim)
        self.keys, self.values = (x.reshape(batch, length, p.kv_heads, c.head_dim) for x in (self.k, self.v))
        self.attended = empty(tokens, p.heads, c.head_dim)
        self.lse = empty(batch, p.heads, length, dtype=p.statistics)
        self.mlp_x, self.mlp_h = empty(tokens, c.width), empty(tokens, c.width)
        self.mlp_rms = empty(tokens, 1, dtype=p.statistics)
        if c.experts:
            self.experts = ExpertBuffers(p, tokens)
        else:
            self.up, self.gated = empty(tokens, 2 * p.hidden), empty(tokens, p.hidden)


class Buffers:
    """Buffers for a batch of texts of `length` tokens, at positions from 0 on; of several ranks, for its own share."""

    def __init__(self, p: Parameters, batch: int, length: int) -> None:
        c, self.batch, self.length = p.config, batch, length
        tokens = batch * length
        self.layers = [LayerBuffers(p, batch, length) for _ in range(c.layers)]
        self.branch, self.x, self.h = (bk.empty((tokens, c.width), p.dtype, library=p.library) for _ in range(3))
        self.rms = bk.empty((tokens, 1), p.statistics, library=p.library)
        self.cos, self.sin = (
            bk.upload(np.tile(table[p.ranks.positions(length)], (batch, 1)), p.statistics, library=p.library)
            for table in (p.cos, p.sin)
        )


class Dropout:
    """Dropout of what a layer adds to x. The random numbers are a state in device memory, which `advance` moves on, so
    that each replay of a graph has others.
    """

    def __init__(self, p: Parameters, probability: float, seed: int, elements: int, first: int = 0) -> None:
        self.probability, self.seed, self.elements, self.calls = probability, seed, elements, 2 * p.config.layers
        self.first = first  # of a batch of `elements`, on this rank
        self.state = bk.random.Generator(seed).state(p.values["norm"])

    def forward(self, x: bk.TensorRef, number: int) -> None:
        """Drop elements of x, in call `number` of a step."""
        if self.probability:
            bk.dropout(x, state=self.state, p=self.probability, offset=number * self.elements + self.first, out=x)

    def backward(self, dy: bk.TensorRef, number: int, out: bk.TensorRef) -> bk.TensorRef:
        """The gradient of that call: in `out`, or dy itself without dropout."""
        if not self.probability:
            return dy
        bk.dropout_backward(dy, self.state, p=self.probability, offset=number * self.elements + self.first, out=out)
        return out

    def advance(self) -> None:
        if self.probability:
            bk.random.advance(self.state, self.calls * self.elements)

    def restart(self, batches: int) -> None:
        """The state after `batches` calls of `advance`."""
        generator = bk.random.Generator(self.seed)
        for _ in range(batches if self.probability else 0):
            generator.take(self.calls * self.elements)
        bk.upload(bk.download(generator.state(self.state)), out=self.state)


def forward(p: Parameters, b: Buffers, tokens: bk.TensorRef, dropout: Dropout | None = None) -> bk.TensorRef:
    """Features (batch * length, width) of tokens (batch * length,): the logits are their products with the
    embedding.
    """
    p.ranks.start()
    p.ranks.embedding(tokens, p.ends()["embedding"], b.branch)
    before = None
    for number, layer in enumerate(b.layers):
        w = p.layer(number)
        out = (layer.h, layer.x, layer.rms)
        bk.add_rms_norm_forward(b.branch, before, w["attention_norm"], eps=EPS, out=out)
        attention(p, b, layer, w, number)
        if dropout:
            dropout.forward(b.branch, 2 * number)
        out = (layer.mlp_h, layer.mlp_x, layer.mlp_rms)
        bk.add_rms_norm_forward(b.branch, layer.x, w["mlp_norm"], eps=EPS, out=out)
        mlp(p, b, layer, w, number)
        if dropout:
            dropout.forward(b.branch, 2 * number + 1)
        before = layer.mlp_x
    bk.add_rms_norm_forward(b.branch, before, p.values["norm"], eps=EPS, out=(b.h, b.x, b.rms))
    return b.h


def attention(p: Parameters, b: Buffers, layer: LayerBuffers, w: dict[str, bk.TensorRef], number: int) -> None:
    """The attention of a layer, into b.branch. The last query sees the last key."""
    for name, out in (("q", layer.q), ("k", layer.k), ("v", layer.v)):
        p.products.forward((number, name), layer.h, w[name], flat(out))
    for x in (layer.q, layer.k):
        bk.rope_apply_thd_half(x, b.cos, b.sin, out=x)
    q, y = (x.reshape(b.batch, b.length, *x.shape[1:]) for x in (layer.q, layer.attended))
    p.ranks.attention(q, layer.keys, layer.values, y, layer.lse)
    p.products.forward((number, "o"), flat(layer.attended), w["o"], b.branch)
    p.ranks.add_up(b.branch)


def mlp(p: Parameters, b: Buffers, layer: LayerBuffers, w: dict[str, bk.TensorRef], number: int) -> None:
    """The MLP of a layer, into b.branch."""
    if p.config.experts:
        experts.forward(layer.experts, layer.mlp_h, w, b.branch)
        return
    p.products.forward((number, "up"), layer.mlp_h, w["up"], layer.up)
    bk.swiglu(layer.up, out=layer.gated)
    p.products.forward((number, "down"), layer.gated, w["down"], b.branch)
    p.ranks.add_up(b.branch)


def flat(x: bk.TensorRef) -> bk.TensorRef:
    """A matrix with the rows of x."""
    return x.reshape(x.shape[0], -1)
