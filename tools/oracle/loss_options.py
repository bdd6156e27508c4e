# SPDX-License-Identifier: Apache-2.0
"""Losses with options, in float64: weights of classes and elements, constants of likelihoods, the swap of triplets."""

import numpy as np

from .losses import (
    Sums,
    at,
    bce,
    bce_target,
    gaussian,
    multi_margin,
    multi_margin_slope,
    norm,
    parted,
    repeated,
    sigmoid,
    valid,
    without,
)
from .losses import logits as bce_of_logits


def times(weight: np.ndarray, sums: Sums) -> Sums:
    value, magnitude = sums
    return weight * value, np.abs(weight) * magnitude


def rate_of(x: np.ndarray, eps: float) -> tuple[np.ndarray, float]:
    """ln(rate + eps), and the error that rounding the sum causes, in ulp."""
    return np.log(x + eps), 1.0 if eps else 0.0


def full_poisson(x: np.ndarray, t: np.ndarray, flag: int, full: int, eps: float) -> Sums:
    log, rounded = rate_of(x, eps)
    product = x if flag else log
    parts = [np.exp(x) if flag else x + eps - eps, -without(t == 0, t * product)]
    if full:
        parts += [without(t <= 1, part) for part in (t * np.log(t), -t, 0.5 * np.log(2 * np.pi * t))]
    value, magnitude = parted(*parts)
    return value, magnitude + rounded * np.abs(t)


def full_poisson_slope(x: np.ndarray, t: np.ndarray, flag: int, eps: float) -> Sums:
    return parted(np.exp(x), -t) if flag else parted(np.ones_like(x), -without(t == 0, t / (x + eps)))


def full_poisson_target(x: np.ndarray, t: np.ndarray, flag: int, full: int, eps: float) -> Sums:
    log, rounded = rate_of(x, eps)
    value, magnitude = parted(
        -x if flag else -log, *((without(t <= 1, np.log(t)), without(t <= 1, 0.5 / t)) if full else ())
    )
    return value, magnitude + rounded


def full_gaussian(x: np.ndarray, t: np.ndarray, v: np.ndarray, full: int, eps: float) -> Sums:
    value, magnitude = gaussian(x, t, v, eps)
    constant = 0.5 * np.log(2 * np.pi) if full else 0.0
    return value + constant, magnitude + constant


def weighted_probabilities(p: np.ndarray, t: np.ndarray, w: np.ndarray | None) -> Sums:
    return times(repeated(w, len(p)), bce(p, t))


def weighted_probabilities_slope(p: np.ndarray, t: np.ndarray, w: np.ndarray | None) -> Sums:
    value = repeated(w, len(p)) * ((p - t) / np.maximum((1 - p) * p, 1e-12))
    return value, np.abs(value)


def weighted_probabilities_target(p: np.ndarray, w: np.ndarray | None) -> Sums:
    return times(repeated(w, len(p)), bce_target(p))


def weight_of_target(x: np.ndarray, t: np.ndarray, w: np.ndarray | None) -> np.ndarray:
    if w is None:
        return np.ones(len(x))
    return at(np.broadcast_to(w, x.shape), t) + ~valid(x, t)


def weighted_multi_margin(x: np.ndarray, t: np.ndarray, w: np.ndarray | None, margin: float, p: float) -> Sums:
    return times(weight_of_target(x, t, w), multi_margin(x, t, margin, p))


def weighted_multi_margin_slope(x: np.ndarray, t: np.ndarray, w: np.ndarray | None, margin: float, p: float) -> Sums:
    (slope,) = multi_margin_slope(x, t, margin, p)
    return times(weight_of_target(x, t, w)[:, None], slope)


def weights_of_classes(x: np.ndarray, w: np.ndarray | None) -> np.ndarray:
    return np.broadcast_to(1.0 if w is None else w, x.shape)


def weighted_soft_margin(x: np.ndarray, y: np.ndarray, w: np.ndarray | None) -> Sums:
    value, magnitude = times(weights_of_classes(x, w), bce_of_logits(x, y))
    count = max(x.shape[1], 1)
    return np.sum(value, axis=1) / count, np.sum(magnitude, axis=1) / count


def weighted_soft_margin_slope(x: np.ndarray, y: np.ndarray, w: np.ndarray | None) -> Sums:
    return times(weights_of_classes(x, w) / x.shape[1], parted(sigmoid(x), -y))


def weighted_soft_margin_target(x: np.ndarray, w: np.ndarray | None) -> Sums:
    return times(weights_of_classes(x, w) / x.shape[1], parted(-x))


def distances(a: np.ndarray, near: np.ndarray, far: np.ndarray, p: float, eps: float) -> list[np.ndarray]:
    """Distances: anchor to positive, anchor to negative, positive to negative."""
    return [norm(d + eps, p) for d in (a - near, a - far, near - far)]


def triplet_swap(
    a: np.ndarray, near: np.ndarray, far: np.ndarray, margin: float, p: float, eps: float, swap: int
) -> Sums:
    one, other, between = distances(a, near, far, p, eps)
    least = np.minimum(other, between) if swap else other
    return np.maximum(0, one - least + margin), 8 * (one + least) + abs(margin)


def triplet_swap_slope(
    a: np.ndarray, near: np.ndarray, far: np.ndarray, margin: float, p: float, eps: float, swap: int
) -> tuple[Sums, ...]:
    one, other, between = distances(a, near, far, p, eps)
    share = np.where(between < other, 1.0, np.where(between == other, 0.5, 0.0)) if swap else np.zeros(len(a))
    active = (one - (np.minimum(other, between) if swap else other) + margin > 0)[:, None]

    def of(d, of_distance):
        scale = np.maximum(norm(d, p)[:, None] ** (p - 1), 1e-12)
        slope = np.where(active & (d != 0), np.abs(d) ** (p - 1) * np.sign(d) / scale, 0.0)
        return of_distance[:, None] * slope

    u, v, w = of(a - near + eps, np.ones(len(a))), of(a - far + eps, 1 - share), of(near - far + eps, share)
    size = 8 * (np.abs(u) + np.abs(v) + np.abs(w))
    return (u - v, size), (-u - w, size), (v + w, size)
