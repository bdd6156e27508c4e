# SPDX-License-Identifier: Apache-2.0
"""A trigram model with back-off, which a language model has to beat: interpolated Kneser-Ney smoothing.

    p(w | u v) = max(c(u v w) - D, 0) / c(u v) + D n(u v) / c(u v) p(w | v)

where n(u v) counts the tokens that follow u v, and D is the discount of Ney, Essen and Kneser (1994), n1 / (n1 + 2 n2),
from the numbers of n-grams that occur once and twice. The lower orders count in how many contexts an n-gram occurs, not
how often (Kneser and Ney 1995; Chen and Goodman 1999), and end in a uniform distribution.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


class _Order:
    """n-grams as sorted keys, context * vocabulary + token, with counts; statistics of contexts."""

    def __init__(self, keys: Array, counts: Array, vocabulary: int) -> None:
        self.keys, self.counts = keys, counts
        once, twice = int((counts == 1).sum()), int((counts == 2).sum())
        self.discount = once / (once + 2 * twice) if once and twice else 0.5
        self.contexts, first = np.unique(keys // vocabulary, return_index=True)
        self.totals = np.add.reduceat(counts, first)
        self.followers = np.diff(np.append(first, len(keys)))

    def smooth(self, contexts: Array, keys: Array, lower: Array) -> Array:
        """Probabilities of n-grams, given those of the order below."""
        count = _lookup(self.keys, self.counts, keys)
        total = _lookup(self.contexts, self.totals, contexts)
        followers = _lookup(self.contexts, self.followers, contexts)
        known = np.maximum(total, 1)
        smoothed = np.maximum(count - self.discount, 0) / known + self.discount * followers / known * lower
        return np.where(total > 0, smoothed, lower)


class Trigram:
    def __init__(self, tokens: Array, vocabulary: int) -> None:
        self.vocabulary = v = vocabulary
        tokens = tokens.astype(np.int64)
        trigrams, counts = np.unique((tokens[:-2] * v + tokens[1:-1]) * v + tokens[2:], return_counts=True)
        bigrams, contexts = np.unique(trigrams % (v * v), return_counts=True)
        unigrams, contexts_of_token = np.unique(bigrams % v, return_counts=True)
        self.orders = [
            _Order(keys, counts, v)
            for keys, counts in ((unigrams, contexts_of_token), (bigrams, contexts), (trigrams, counts))
        ]

    def losses(self, tokens: Array) -> Array:
        """-ln p of each token from the third on, given the two before it."""
        v, tokens = self.vocabulary, tokens.astype(np.int64)
        first, second, third = tokens[:-2], tokens[1:-1], tokens[2:]
        p = np.full(len(third), 1 / v)
        for order, context in zip(self.orders, (np.zeros_like(third), second, first * v + second)):
            p = order.smooth(context, context * v + third, p)
        losses: Array = -np.log(p)
        return losses


def _lookup(keys: Array, values: Array, wanted: Array) -> Array:
    """The value of each wanted key, 0 for one that is not there; keys are sorted."""
    at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    found: Array = np.where(keys[at] == wanted, values[at], 0)
    return found
