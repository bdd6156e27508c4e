# SPDX-License-Identifier: Apache-2.0
"""The forward of a Llama-shaped decoder (Touvron et al. 2023) for a ragged batch over a KV cache in pages.

    x = embedding[tokens]
    for each layer:
        h = rms_norm(x);  append rope(h Wk'), h Wv' to the cache;  x += attention(rope(h Wq'), cache) Wo'
        h = rms_norm(x);  x += (silu(h Wgate') * h Wup') Wdown'
    logits = rms_norm(x) Whead'

A step computes any number of tokens of any number of sequences: chunks of prompts and single tokens alike. Buffers are
allocated once; a step uses their first rows. A step that has one token of each sequence is a graph from the third time
on, one for each number of sequences. With batch_invariant the bits of a row depend on its sequence alone. Rows and
cache have the dtype of the weights' floats; sums and logits are f32.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

import baracuda as bk
from baracuda.serve.config import Config
from baracuda.serve.weights import Matrix, Weights

Array = np.ndarray[Any, Any]


@dataclasses.dataclass(frozen=True)
class Limits:
    """Capacity of a step and of the cache."""

    pages: int
    page_size: int = 16
    tokens: int = 512  # of a step
    sequences: int = 64


@dataclasses.dataclass
class Chunk:
    """Tokens of a sequence that a step computes: the cache has `start` tokens before them, in the first of `pages`."""

    tokens: Sequence[int]
    start: int
    pages: Sequence[int]
    wants_logits: bool  # of the last token


@dataclasses.dataclass(frozen=True)
class Layer:
    attention_norm: bk.TensorRef
    projections: tuple[Matrix, ...]  # to q, k and v
    biases: tuple[bk.TensorRef, ...]  # of them, or none
    o: Matrix
    mlp_norm: bk.TensorRef
    up: Matrix  # the rows of the linear half, then those of the gate
    down: Matrix
    keys: bk.TensorRef
    values: bk.TensorRef


class Model:
    """Weights, cache and buffers."""

    def __init__(
        self, config: Config, weights: Weights, limits: Limits, library: bk.Library, *, batch_invariant: bool = False
    ) -> None:
        self.config, self.limits, self.library, self.batch_invariant = config, limits, library, batch_invariant
        c, q, kv = config, config.heads * config.head_dim, config.kv_heads * config.head_dim
        self.embedding = weights.matrix("token_embd.weight", shape=(c.vocabulary, c.width))
        is_tied = "output.weight" not in weights
        self.head = self.embedding if is_tied else weights.matrix("output.weight", shape=(c.vocabulary, c.width))
        self.norm = weights.vector("output_norm.weight", c.width)
        self.layers = []
        cache = (limits.pages, c.kv_heads, limits.page_size, c.head_dim)
        for number in range(c.layers):
            of = f"blk.{number}."
            has_biases = f"{of}attn_q.bias" in weights
            widths = {"q": q, "k": kv, "v": kv}
            self.layers.append(
                Layer(
                    weights.vector(f"{of}attn_norm.weight", c.width),
                    tuple([weights.matrix(f"{of}attn_{x}.weight", shape=(n, c.width)) for x, n in widths.items()]),
                    tuple([weights.vector(f"{of}attn_{x}.bias", n) for x, n in widths.items() if has_biases]),
                    weights.matrix(f"{of}attn_output.weight", shape=(c.width, q)),
                    weights.vector(f"{of}ffn_norm.weight", c.width),
                    weights.matrix(f"{of}ffn_up.weight", f"{of}ffn_gate.weight", shape=(c.hidden, c.width)),
                    weights.matrix(f"{of}ffn_down.weight", shape=(c.width, c.hidden)),
                    bk.zeros(cache, weights.dtype, library=library),
                    bk.zeros(cache, weights.dtype, library=library),
                )
            )
        angles = np.arange(c.context)[:, None] * c.rope_base ** (-np.arange(0, c.head_dim, 2) / c.head_dim)
        self._cos, self._sin = (bk.upload(f(angles), bk.f32, library=library) for f in (np.cos, np.sin))
        self._rotate = bk.rope_apply_thd_half if c.rotates_halves else bk.rope_apply_thd
        n, s = limits.tokens, limits.sequences
        self._rows = {
            name: bk.empty((n, width), weights.dtype, library=library)
            for name, width in {
                "x": c.width, "h": c.width, "branch": c.width, "q": q, "k": kv, "v": kv, "attended": q,
                "up": 2 * c.hidden, "gated": c.hidden,
            }.items()
        }  # fmt: skip
        self._rows |= {name: bk.empty((n, c.head_dim // 2), bk.f32, library=library) for name in ("cos", "sin")}
        self._lse = bk.empty((n, c.heads), bk.f32, library=library)
        self._last = bk.empty((s, c.width), weights.dtype, library=library)
        self._scores = bk.empty((s, c.vocabulary), weights.dtype, library=library)
        self._logits = (
            bk.empty((s, c.vocabulary), bk.f32, library=library) if weights.dtype is not bk.f32 else self._scores
        )
        self._most_pages = limits.pages + s * -(-c.context // limits.page_size)
        self._most_numbers = 3 * n + 4 * s + 2  # of a step, beside its pages
        self._inputs = bk.zeros((self._most_numbers + self._most_pages,), bk.i32, library=library)
        self._workspace = bk.SharedWorkspace()
        self._decodes: dict[int, bk.Graph | None] = {}  # by the number of sequences; None for one that came once

    def forward(self, chunks: Sequence[Chunk]) -> bk.TensorRef | None:
        """Logits (sequences that want them, vocabulary), valid until the next step."""
        batch, n = self._uploaded(chunks), len(chunks)
        with self._workspace:
            if not all([len(chunk.tokens) == 1 and chunk.wants_logits for chunk in chunks]):
                return self._forward(batch)
            if n not in self._decodes:  # its capture would take longer than the step
                self._decodes[n] = None
                return self._forward(batch)
            graph = self._decodes[n]
            if graph is None:
                self._decodes[n] = bk.graph(functools.partial(self._forward, batch))
            else:
                graph()
            return self._logits[:n]

    def _uploaded(self, chunks: Sequence[Chunk]) -> _Batch:
        """The numbers of a step, by one copy to the device. Their offsets follow from the numbers of tokens."""
        size, lengths = self.limits.page_size, [len(chunk.tokens) for chunk in chunks]
        ends = [chunk.start + length for chunk, length in zip(chunks, lengths)]
        pages = [chunk.pages[: -(-end // size)] for chunk, end in zip(chunks, ends)]
        sums = np.cumsum([0, *lengths])
        fields = {
            "tokens": np.concatenate([chunk.tokens for chunk in chunks]),
            "positions": np.concatenate([np.arange(end - length, end) for end, length in zip(ends, lengths)]),
            "owners": np.repeat(np.arange(len(chunks)), lengths),
            "wanted": sums[1:][[chunk.wants_logits for chunk in chunks]] - 1,
            "q_offsets": sums,
            "page_offsets": np.cumsum([0, *map(len, pages)]),
            "last_page_len": np.array([(end - 1) % size + 1 for end in ends]),
        }
        numbers = np.concatenate(list(fields.values()))
        padding = np.zeros(self._most_numbers - len(numbers), np.int64)
        values = np.concatenate([numbers, padding, *pages]).astype(np.int32)
        bk.upload(values, out=self._inputs[: len(values)], library=self.library)
        starts = np.cumsum([0, *map(len, fields.values())]).tolist()
        views = {name: self._inputs[at : at + len(field)] for (name, field), at in zip(fields.items(), starts)}
        if max(lengths) == 1 and not self.batch_invariant:  # attention to a query each has a kernel of its own
            del views["q_offsets"]
        return _Batch(**views, page_ids=self._inputs[self._most_numbers :])

    def _forward(self, batch: _Batch) -> bk.TensorRef | None:
        n = batch.tokens.numel
        rows = {name: buffer[:n] for name, buffer in self._rows.items()}
        x, h, branch = rows["x"], rows["h"], rows["branch"]
        for table, name in ((self._cos, "cos"), (self._sin, "sin")):
            bk.embedding(batch.positions, table, out=rows[name])
        self.embedding.rows(batch.tokens, x)
        for number, layer in enumerate(self.layers):
            if number:
                bk.add_rms_norm(branch, x, layer.attention_norm, eps=self.config.eps, out=(h, x))
            else:
                bk.rms_norm(x, layer.attention_norm, eps=self.config.eps, out=h)
            self._attend(layer, batch, rows)
            bk.add_rms_norm(branch, x, layer.mlp_norm, eps=self.config.eps, out=(h, x))
            self._multiply(layer.up, h, rows["up"])
            bk.swiglu(rows["up"], out=rows["gated"])
            self._multiply(layer.down, rows["gated"], branch)
        bk.add_rms_norm(branch, x, self.norm, eps=self.config.eps, out=(h, x))
        count = batch.wanted.numel
        if not count:
            return None
        last, scores, logits = self._last[:count], self._scores[:count], self._logits[:count]
        bk.embedding(batch.wanted, h, out=last)
        self._multiply(self.head, last, scores)
        return logits if self._scores is self._logits else bk.cast(scores, bk.f32, out=logits)

    def _attend(self, layer: Layer, batch: _Batch, rows: dict[str, bk.TensorRef]) -> None:
        """The attention of a layer, into rows["branch"]."""
        c, n = self.config, rows["h"].shape[0]
        for name, matrix in zip("qkv", layer.projections):
            self._multiply(matrix, rows["h"], rows[name])
        for name, bias in zip("qkv", layer.biases):
            bk.add(rows[name], bias, out=rows[name])
        q, y = (rows[name].reshape(n, c.heads, c.head_dim) for name in ("q", "attended"))
        k, v = (rows[name].reshape(n, c.kv_heads, c.head_dim) for name in ("k", "v"))
        for x in (q, k):
            self._rotate(x, rows["cos"], rows["sin"], out=x)
        bk.paged_kv_append(
            k, v, layer.keys, layer.values, batch.page_ids, batch.page_offsets, batch.owners, batch.positions
        )
        bk.attention_paged(
            q, layer.keys, layer.values, batch.page_ids, batch.page_offsets, batch.last_page_len, batch.q_offsets,
            is_causal=True, batch_invariant=self.batch_invariant, out=(y, self._lse[:n]),
        )  # fmt: skip
        self._multiply(layer.o, rows["attended"], rows["branch"])

    def _multiply(self, matrix: Matrix, x: bk.TensorRef, out: bk.TensorRef) -> None:
        matrix.multiply(x, out, batch_invariant=self.batch_invariant)


@dataclasses.dataclass(frozen=True)
class _Batch:
    """The tokens of a step and their page table, i32 on the device."""

    tokens: bk.TensorRef
    positions: bk.TensorRef
    owners: bk.TensorRef  # the sequence of each token
    wanted: bk.TensorRef  # tokens whose logits are wanted
    page_offsets: bk.TensorRef
    last_page_len: bk.TensorRef
    page_ids: bk.TensorRef
    q_offsets: bk.TensorRef | None = None  # none: a token of each sequence
