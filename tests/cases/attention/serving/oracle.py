# SPDX-License-Identifier: Apache-2.0
"""Attention in float64, straight from its formula: softmax of the scores of visible keys times their values."""

import numpy as np

from ...model import Expected


def visible(q_len, k_len, *, is_causal=False, window=-1):
    """Bottom-right: the last query sees the last key."""
    distance = np.arange(k_len)[None, :] - (np.arange(q_len)[:, None] + k_len - q_len)
    seen = np.ones((q_len, k_len), bool)
    if window >= 0:
        seen &= np.abs(distance) <= window
    return seen & (distance <= 0) if is_causal else seen


def attend(q, k, v, scale, seen, softcap=0.0):
    """(y, lse, weights, sums of weight times magnitude, error of the scores in units of u) of one head."""
    scores, sizes = scale * (q @ k.T), abs(scale) * (np.abs(q) @ np.abs(k).T)
    if softcap:
        scores = softcap * np.tanh(scores / softcap)
    scores = np.where(seen, scores, -np.inf)
    rows = len(q)
    largest = scores.max(axis=1, initial=-np.inf)
    shift = np.where(np.isfinite(largest), largest, 0)
    weights = np.exp(scores - shift[:, None])
    total = weights.sum(axis=1)
    weights /= np.where(total > 0, total, 1)[:, None]
    with np.errstate(divide="ignore"):
        lse = shift + np.log(total)
    hidden = ~seen.any(axis=0)
    v, k = np.where(hidden[:, None], 0, v), k
    size = np.where(seen, sizes, 0).max(axis=1, initial=0) if rows else np.zeros(0)
    return weights @ v, lse, weights, weights @ np.abs(v), (q.shape[1] + 4) * size


class Results:
    """Collects the rows of y and lse with what their bounds need."""

    def __init__(self, y_shape, lse_shape):
        self.y, self.magnitude = np.zeros(y_shape), np.zeros(y_shape)
        self.lse = np.full(lse_shape, -np.inf)
        self.score, self.count = np.zeros(lse_shape), np.zeros(lse_shape)

    def put(self, at, found, keys):
        self.y[at], self.lse[at], _, self.magnitude[at], self.score[at] = found
        self.count[at] = keys

    def expected(self, *, base2=False):
        score, count = self.score[..., None], self.count[..., None]
        lse = self.lse / np.log(2) if base2 else self.lse
        return {
            "y": Expected(self.y, count, self.magnitude, score),
            "lse": Expected(lse, self.count, np.where(np.isfinite(lse), np.abs(lse), 0) + 1, self.score),
        }
