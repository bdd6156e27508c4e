# SPDX-License-Identifier: Apache-2.0
"""Samplers in float64: weights, admitted tokens, and tokens drawn from a Philox stream."""

import numpy as np

from tools.oracle import philox


def words(seed: int, subsequence: int, offset: int, count: int) -> list[int]:
    """32-bit words `offset` and on of a stream, whose block i has the counter (i, subsequence)."""
    first = offset // 4
    numbers = [((first + k) % 2**64, subsequence) for k in range(count // 4 + 2)]
    counters = np.array([[n & 0xFFFFFFFF, n >> 32, s & 0xFFFFFFFF, s >> 32] for n, s in numbers], np.uint64)
    seed %= 2**64
    drawn = philox.blocks((seed & 0xFFFFFFFF, seed >> 32), counters).ravel()
    return [int(word) for word in drawn[offset % 4 :][:count]]


def fraction(high: int, low: int) -> float:
    """The number in [0, 1) that inverts cumulative weights."""
    return (high * 2**32 + low) / 2**64


def uniform(word: int) -> float:
    """A number in (0, 1]."""
    return (word + 1) / 2**32


def weights_of_logits(x: np.ndarray, temperature: float = 1.0) -> np.ndarray:
    """exp((x - max) / temperature); 0 without mass, NaN for a row that is refused."""
    x = np.asarray(x, np.float64)
    if not (x < np.inf).all() or not temperature >= 0:
        return np.full_like(x, np.nan)
    largest = x.max()
    if largest == -np.inf:
        return np.zeros_like(x)
    if temperature == 0:
        return (np.arange(x.size) == x.argmax()).astype(np.float64)
    with np.errstate(over="ignore"):
        return np.exp((x - largest) / np.float64(np.float32(temperature)))


def weights_of_probabilities(x: np.ndarray) -> np.ndarray:
    x = np.asarray(x, np.float64)
    return np.maximum(x, 0) if (x < np.inf).all() else np.full_like(x, np.nan)


def sequential(x, weights, top_k=0, top_p=1.0, min_p=0.0) -> np.ndarray:
    """Whether each token is admitted by top-k, then top-p of what it leaves, then min-p; ties by index."""
    order = np.argsort(-np.asarray(x, np.float64), kind="stable")
    if 0 < top_k < x.size:
        order = order[:top_k]
    if top_p < 1:
        mass = np.cumsum(weights[order])
        order = order[: int(np.searchsorted(mass, max(np.float64(np.float32(top_p)), 0) * mass[-1])) + 1]
    admitted = np.zeros(x.size, bool)
    admitted[order] = True
    return admitted & (weights >= np.float64(np.float32(min_p)) * weights.max())


def original(probs, top_k=None, top_p=None, min_p=None) -> np.ndarray:
    """Whether each token is admitted by filters on the whole row, ties included."""
    probs = np.asarray(probs, np.float64)
    levels, inverse, counts = np.unique(-probs, return_inverse=True, return_counts=True)
    above = np.concatenate(([0], np.cumsum(counts)[:-1]))[inverse]
    mass = np.concatenate(([0], np.cumsum(np.maximum(-levels, 0) * counts)[:-1]))[inverse]
    admitted = np.ones(probs.size, bool)
    if top_k is not None:
        admitted &= above < top_k
    if top_p is not None:
        admitted &= (mass < np.float64(np.float32(top_p))) | (top_p >= 1)
    if min_p is not None:
        admitted &= probs >= np.float64(np.float32(min_p)) * probs.max()
    return admitted


def typical(x, weights, typical_p, temperature=1.0) -> np.ndarray:
    """Whether -log p of each token is among those nearest to the entropy that have the mass typical_p."""
    if typical_p >= 1:
        return np.ones(x.size, bool)
    scaled = np.asarray(x, np.float64) / temperature
    p = weights / weights.sum()
    with np.errstate(invalid="ignore"):
        distance = np.abs(scaled - np.sum(np.where(p > 0, p * scaled, 0)))
    order = np.argsort(distance, kind="stable")
    mass = np.cumsum(p[order])
    last = distance[order[min(int(np.searchsorted(mass, max(typical_p, 0))), x.size - 1)]]
    return distance <= last


def drawn(weights: np.ndarray, u: float) -> tuple[int, int]:
    """(token, 1), or (0, 0) without mass or with NaN."""
    if not np.isfinite(weights).all() or not weights.sum() > 0:
        return 0, 0
    mass = np.cumsum(weights)
    return int(np.searchsorted(mass, u * mass[-1], "right")), 1
