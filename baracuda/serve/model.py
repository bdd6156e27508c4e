# SPDX-License-Identifier: Apache-2.0
"""The forward of a Llama-shaped decoder (Touvron et al. 2023) for a ragged batch over a KV cache in pages.

    x = embedding[tokens]
    for each layer:
        h = rms_norm(x);  append rope(h Wk'), h Wv' to the cache;  x += attention(rope(h Wq'), cache) Wo'
        h = rms_norm(x);  x += (silu(h Wgate') * h Wup') Wdown'
    logits = rms_norm(x) Whead'

A step computes any number of tokens of any number of sequences: chunks of prompts and single tokens alike. Buffers are
allocated once; a step uses their first rows. With batch_invariant the bits of a row depend on its sequence alone.
"""

from __future__ import annotations

import dataclasses
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
                    bk.zeros(cache, bk.f32, library=library),
                    bk.zeros(cache, bk.f32, library=library),
                )
            )
        angles = np.arange(c.context)[:, None] * c.rope_base ** (-np.arange(0, c.head_dim, 2) / c.head_dim)
        self._cos, self._sin = (bk.upload(f(angles), bk.f32, library=library) for f in (np.cos, np.sin))
        self._rotate = bk.rope_apply_thd_half if c.rotates_halves else bk.rope_apply_thd
        n, s = limits.tokens, limits.sequences
        self._rows = {
            name: bk.empty((n, width), bk.f32, library=library)
            for name, width in {
                "x": c.width, "h": c.width, "branch": c.width, "q": q, "k": kv, "v": kv, "attended": q,
                "up": 2 * c.hidden, "gated": c.hidden, "cos": c.head_dim // 2, "sin": c.head_dim // 2,
            }.items()
        }  # fmt: skip
        self._lse = bk.empty((n, c.heads), bk.f32, library=library)
        self._last = bk.empty((s, c.width), bk.f32, library=library)
        self._logits = bk.empty((s, c.vocabulary), bk.f32, library=library)
        self._page_ids = bk.zeros((limits.pages + s * -(-c.context // limits.page_size),), bk.i32, library=library)

    def forward(self, chunks: Sequence[Chunk]) -> bk.TensorRef | None:
        """Logits (sequences that want them, vocabulary), valid until the next step."""
        lengths = [len(chunk.tokens) for chunk in chunks]
        n = sum(lengths)
        tokens = self._upload(np.concatenate([chunk.tokens for chunk in chunks]))
        positions = np.concatenate([np.arange(c.start, c.start + m) for c, m in zip(chunks, lengths)])
        batch = _Batch(self, chunks, lengths, self._upload(positions))
        rows = {name: buffer[:n] for name, buffer in self._rows.items()}
        x, h, branch = rows["x"], rows["h"], rows["branch"]
        for table, name in ((self._cos, "cos"), (self._sin, "sin")):
            bk.embedding(batch.positions, table, out=rows[name])
        self.embedding.rows(tokens, x)
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
        ends = np.cumsum(lengths) - 1
        wanted = ends[[chunk.wants_logits for chunk in chunks]]
        if not len(wanted):
            return None
        last, logits = self._last[: len(wanted)], self._logits[: len(wanted)]
        bk.embedding(self._upload(wanted), h, out=last)
        self._multiply(self.head, last, logits)
        return logits

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

    def _upload(self, values: Any) -> bk.TensorRef:
        return bk.upload(values, bk.i32, library=self.library)


class _Batch:
    """The page table of a step, on the device."""

    def __init__(self, model: Model, chunks: Sequence[Chunk], lengths: Sequence[int], positions: bk.TensorRef) -> None:
        size = model.limits.page_size
        ends = [chunk.start + length for chunk, length in zip(chunks, lengths)]
        pages = [np.asarray(chunk.pages[: -(-end // size)], np.int32) for chunk, end in zip(chunks, ends)]
        ids = np.concatenate(pages)
        self.page_ids = model._page_ids
        bk.upload(ids, out=model._page_ids[: len(ids)], library=model.library)
        self.positions = positions
        self.page_offsets = model._upload(np.cumsum([0, *map(len, pages)]))
        self.last_page_len = model._upload([(end - 1) % size + 1 for end in ends])
        self.q_offsets = model._upload(np.cumsum([0, *lengths]))
        self.owners = model._upload(np.repeat(np.arange(len(chunks)), lengths))
