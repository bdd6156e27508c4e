# SPDX-License-Identifier: Apache-2.0
"""Text from a language model: a cache of keys and values, and tokens by nucleus sampling (Holtzman et al. 2020)."""

from __future__ import annotations

from typing import Any

import numpy as np

import baracuda as bk
from baracuda.demo.forward import Buffers, forward
from baracuda.demo.parameters import Parameters

Array = np.ndarray[Any, Any]


class Generator:
    """One text at a time, of at most `context` tokens."""

    def __init__(self, p: Parameters) -> None:
        self.p, c = p, p.config
        shape = (c.context, c.kv_heads, c.head_dim)
        self.caches = [[bk.zeros(shape, p.dtype, library=p.library) for _ in "kv"] for _ in range(c.layers)]
        self.cos, self.sin = (bk.upload(table, p.statistics, library=p.library) for table in (p.cos, p.sin))
        self.logits = bk.empty((1, c.vocabulary), p.dtype, library=p.library)
        self._one = Buffers(p, 1, 1)

    def generate(
        self, prompt: Array, count: int, *, temperature: float = 0.8, top_p: float = 0.95, seed: int = 1
    ) -> list[int]:
        """The prompt, of at least one token, and `count` tokens after it, fewer where the context ends."""
        p = self.p
        found = [int(token) for token in prompt]
        if not 0 < len(found) <= p.config.context:
            raise ValueError(f"the prompt has {len(found)} tokens, must have 1 to {p.config.context}")
        count = min(count, p.config.context - len(found))
        last = self._features(Buffers(p, 1, len(found)), found, 0)
        for number in range(count):
            bk.linear(last, p.values["embedding"], out=self.logits)
            token, _ = bk.sample_tokens(self.logits, temperature=temperature, top_p=top_p, seed=seed, offset=2 * number)
            found.append(int(bk.download(token, library=p.library)[0]))
            if number + 1 < count:
                last = self._features(self._one, found[-1:], len(found) - 1)
        return found

    def _features(self, b: Buffers, tokens: list[int], position: int) -> bk.TensorRef:
        """Features of the last of some tokens, which begin at a position of the text."""
        end = position + len(tokens)
        for layer, (keys, values) in zip(b.layers, self.caches):
            layer.k, layer.v = keys[position:end], values[position:end]
            layer.keys, layer.values = keys[None, :end], values[None, :end]
        b.cos, b.sin = self.cos[position:end], self.sin[position:end]
        features = forward(self.p, b, bk.upload(np.array(tokens, np.int64), library=self.p.library))
        return features[-1:]
