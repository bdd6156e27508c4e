# SPDX-License-Identifier: Apache-2.0
"""Losses of elements and of rows in float64: the references of tests and benchmarks."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

Sums = tuple[np.ndarray, np.ndarray]  # values, and for each the sum of the magnitudes of its summands


@dataclasses.dataclass(frozen=True)
class Loss:
    """A loss with one value per element.

    inputs     names, in C's order; `integers` of them are i64
    term       (inputs..., parameter) -> Sums of the loss
    slope      (inputs..., parameter) -> Sums of each derivative; the gradient is dy times that
    gradients  names of the gradients
    reads      the inputs that C's gradient takes; empty: all
    parameter  name of the parameter, and values to try
    domain     of an input, if not all reals: "probability" or "positive"
    """

    inputs: tuple[str, ...]
    term: Callable[..., Sums]
    slope: Callable[..., tuple[Sums, ...]]
    gradients: tuple[str, ...] = ("dpred",)
    reads: tuple[str, ...] = ()
    parameter: str = ""
    values: tuple[float, ...] = ()
    integers: tuple[str, ...] = ()
    domain: dict[str, str] = dataclasses.field(default_factory=dict)


def whole(value: Any) -> Sums:
    """Sums of a value without cancellation."""
    return np.asarray(value), np.abs(value)


def parted(*parts: Any) -> Sums:
    """Sums of a sum."""
    return sum(parts[1:], start=np.asarray(parts[0])), sum((np.abs(p) for p in parts), start=np.zeros(1))


def without(condition: Any, value: Any, other: Any = 0.0) -> np.ndarray:
    return np.where(condition, other, value)


def sign(d: np.ndarray) -> np.ndarray:
    return (d > 0).astype(np.float64) - (d < 0)


def sigmoid(x: np.ndarray) -> np.ndarray:
    e = np.exp(-np.abs(x))
    return np.where(x < 0, e, 1.0) / (1 + e)


def bent(square: float, bound: float, slope: float, d: np.ndarray) -> np.ndarray:
    """square d^2 below the bound, a straight line of the slope beyond that continues it."""
    size = np.abs(d)
    return np.where(size >= bound, slope * (size - bound / 2), square * d * d)


def smooth_l1(p: np.ndarray, t: np.ndarray, beta: float) -> Sums:
    return whole(bent(0.5 / beta if beta else 0.0, beta, 1.0, p - t))


def bce(p: np.ndarray, t: np.ndarray) -> Sums:
    one, other = (np.maximum(np.log(p), -100), np.maximum(np.log1p(-p), -100))
    value, magnitude = parted(-t * one, (t - 1) * other)
    return value, magnitude + 1e-3


def logits(x: np.ndarray, t: np.ndarray) -> Sums:
    return parted(x * np.where(x > 0, 1 - t, -t), np.log1p(np.exp(-np.abs(x))))


def kl_div(x: np.ndarray, t: np.ndarray) -> Sums:
    _, magnitude = parted(t * np.log(t), -t * x)
    value = t * (np.log(t) - x)
    return without(t <= 0, value), without(t <= 0, magnitude)


def poisson(x: np.ndarray, t: np.ndarray, flag: int) -> Sums:
    if flag:
        return parted(np.exp(x), -without(t == 0, t * x))
    return parted(x, -without(t == 0, t * np.log(x)))


def poisson_slope(x: np.ndarray, t: np.ndarray, flag: int) -> tuple[Sums]:
    return (parted(np.exp(x), -t) if flag else parted(np.ones_like(x), -without(t == 0, t / x)),)


def variance(v: np.ndarray, eps: float) -> np.ndarray:
    return np.where(v < eps, eps, v)


def gaussian(x: np.ndarray, t: np.ndarray, v: np.ndarray, eps: float) -> Sums:
    v = variance(v, eps)
    return parted(0.5 * np.log(v), 0.5 * (x - t) ** 2 / v)


def ranking(x1: np.ndarray, x2: np.ndarray, t: np.ndarray, margin: float) -> Sums:
    value, magnitude = parted(margin, -t * (x1 - x2))
    return without(value < 0, value), magnitude


def ranking_slope(x1: np.ndarray, x2: np.ndarray, t: np.ndarray, margin: float) -> tuple[Sums, Sums]:
    slope = np.where(margin - t * (x1 - x2) > 0, t, 0.0)
    return whole(-slope), whole(slope)


def hinge(x: np.ndarray, t: np.ndarray, margin: float) -> Sums:
    return np.where(t == 1, x, without(margin < x, margin - x)), np.abs(x) + abs(margin)


PAIR = ("pred", "target")
LOSSES = {
    "mse": Loss(PAIR, lambda p, t: whole((p - t) ** 2), lambda p, t: (whole(2 * (p - t)),)),
    "l1": Loss(PAIR, lambda p, t: whole(np.abs(p - t)), lambda p, t: (whole(sign(p - t)),)),
    "smooth_l1": Loss(
        PAIR, smooth_l1,
        lambda p, t, b: (whole(np.where(np.abs(p - t) >= b, sign(p - t), (p - t) / (b or 1.0))),),
        parameter="param", values=(1.0, 0.25, 3.0, 0.0),
    ),
    "huber": Loss(
        PAIR, lambda p, t, b: whole(bent(0.5, b, b, p - t)),
        lambda p, t, b: (whole(np.where(np.abs(p - t) >= b, b * sign(p - t), p - t)),),
        parameter="param", values=(1.0, 0.25, 3.0),
    ),
    "bce": Loss(
        PAIR, bce, lambda p, t: (whole((p - t) / np.maximum((1 - p) * p, 1e-12)),),
        domain={"pred": "probability", "target": "probability"},
    ),
    "bce_with_logits": Loss(
        ("logits", "target"), logits, lambda x, t: (parted(sigmoid(x), -t),), domain={"target": "probability"},
    ),
    "kl_div": Loss(
        PAIR, kl_div, lambda t: (whole(np.where(t <= 0, 0.0, -t)),), gradients=("dinput",), reads=("target",),
    ),
    "poisson_nll": Loss(
        ("input", "target"), poisson, poisson_slope, gradients=("dinput",), parameter="log_input_flag", values=(1, 0),
        domain={"input": "positive"},
    ),
    "gaussian_nll": Loss(
        ("input", "target", "var"), gaussian,
        lambda x, t, v, eps: (whole((x - t) / variance(v, eps)),),
        gradients=("dinput",), parameter="eps", values=(1e-6, 0.5), domain={"var": "positive"},
    ),
    "margin_ranking": Loss(
        ("x1", "x2", "t"), ranking, ranking_slope, gradients=("dx1", "dx2"), parameter="margin", values=(0.5, 0.0),
    ),
    "hinge_embedding": Loss(
        ("input", "target"), hinge,
        lambda x, t, margin: (whole(np.where(t == 1, 1.0, np.where(margin > x, -1.0, 0.0))),),
        gradients=("dinput",), parameter="margin", values=(1.0, 0.25), integers=("target",),
    ),
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class RowLoss:
    """A loss with one value per row.

    columns     name of the extent of rows; `strides`: names of the row pitches
    inputs      of the rows' shape, in C's order
    targets     "index" or "sign" (one a row), "list" or "shares" (of the rows' shape); empty: none
    target      name of the target
    term        (inputs..., target, parameters...) -> Sums
    slope       the same -> Sums of each derivative; the gradient is dy times that
    parameters  names of the parameters, and values to try
    takes_special   whether the formula holds for infinities and NaN
    """

    columns: str
    strides: tuple[str, ...]
    inputs: tuple[str, ...]
    targets: str
    term: Callable[..., Sums]
    slope: Callable[..., tuple[Sums, ...]]
    target: str = "target"
    gradients: tuple[str, ...] = ("dinput",)
    parameters: tuple[str, ...] = ()
    values: tuple[tuple[float, ...], ...] = ((),)
    takes_special: bool = False


def log_sum_exp(x: np.ndarray) -> np.ndarray:
    if not x.shape[1]:
        return np.full(len(x), -np.inf)
    most = np.max(x, axis=1)
    base = np.where(np.isneginf(most), 0, most)
    return base + np.log(np.sum(np.exp(x - base[:, None]), axis=1))


def valid(x: np.ndarray, t: np.ndarray) -> np.ndarray:
    return (t >= 0) & (t < x.shape[1])


def at(x: np.ndarray, t: np.ndarray) -> np.ndarray:
    """x at each row's target, 0 for rows without a valid target."""
    if not x.shape[1]:
        return np.zeros(len(x))
    return np.where(valid(x, t), x[np.arange(len(x)), np.where(valid(x, t), t, 0)], 0)


def softmax(x: np.ndarray) -> np.ndarray:
    return np.exp(x - log_sum_exp(x)[:, None])


def is_target(x: np.ndarray, t: np.ndarray) -> np.ndarray:
    return np.arange(x.shape[1]) == t[:, None]


def spread_of(x: np.ndarray) -> np.ndarray:
    """Largest difference of finite logits, the argument of exponentials; at least 1."""
    finite = np.where(np.isfinite(x), x, 0)
    return 1 + np.max(np.abs(finite), axis=1, initial=0)


def cross_entropy(x: np.ndarray, t: np.ndarray) -> Sums:
    lse, chosen = log_sum_exp(x), at(x, t)
    return np.where(valid(x, t), lse - chosen, 0.0), valid(x, t) * (spread_of(x) + np.abs(np.nan_to_num(chosen)))


def cross_entropy_slope(x: np.ndarray, t: np.ndarray) -> tuple[Sums]:
    p, hit = softmax(x), is_target(x, t)
    known = valid(x, t)[:, None]
    return ((np.where(known, p - hit, 0.0), known * (np.nan_to_num(p) * spread_of(x)[:, None] + hit)),)


def weighted_shares(
    x: np.ndarray, t: np.ndarray, w: np.ndarray, ignored: int, smoothing: float
) -> tuple[np.ndarray, np.ndarray]:
    """Mask of rows that count, and the smoothed, weighted target distribution of each row."""
    counts = valid(x, t) & (t != ignored)
    own = is_target(x, t) * (1 - smoothing) + smoothing / max(x.shape[1], 1)
    return counts, np.where(counts[:, None], own * w, 0.0)


def weighted_cross_entropy(
    x: np.ndarray, t: np.ndarray, w: np.ndarray, ignored: int, smoothing: float, z: float
) -> Sums:
    counts, q = weighted_shares(x, t, w, ignored, smoothing)
    lse = log_sum_exp(x)
    value = np.where(q == 0, 0.0, q * (lse[:, None] - x)).sum(axis=1)
    spread = spread_of(x)
    size = np.abs(q).sum(axis=1) * 2 * spread + (counts * abs(z) * spread**2 * 4 if z else 0.0)
    value = value + np.where(counts & (z != 0), z * lse**2, 0.0)
    return value, size + np.abs(np.nan_to_num(value))


def weighted_cross_entropy_slope(
    x: np.ndarray, t: np.ndarray, w: np.ndarray, ignored: int, smoothing: float, z: float
) -> Sums:
    counts, q = weighted_shares(x, t, w, ignored, smoothing)
    p, all_q, lse = softmax(x), q.sum(axis=1, keepdims=True), log_sum_exp(x)[:, None]
    normalizer = np.where(counts[:, None], 2 * z * lse * p, 0.0)
    value = np.where(counts[:, None], all_q * p - q + normalizer, 0.0)
    spread = spread_of(x)[:, None]
    size = np.abs(all_q) * np.nan_to_num(p) * spread + np.abs(q) + np.abs(normalizer) * spread
    return value, np.where(counts[:, None], size, 0.0)


def soft_cross_entropy(x: np.ndarray, q: np.ndarray) -> Sums:
    parts = np.where(q == 0, 0.0, q * (log_sum_exp(x)[:, None] - x))
    return np.sum(parts, axis=1), np.sum(np.abs(q), axis=1) * 2 * spread_of(x)


def soft_cross_entropy_slope(x: np.ndarray, q: np.ndarray) -> tuple[Sums]:
    p, all_q = softmax(x), np.sum(q, axis=1, keepdims=True)
    return ((all_q * p - q, np.abs(all_q) * p * spread_of(x)[:, None] + np.abs(q)),)


def soft_cross_entropy_target_slope(x: np.ndarray) -> Sums:
    """Negative log probability of each class."""
    return log_sum_exp(x)[:, None] - x, np.broadcast_to(2 * spread_of(x)[:, None], x.shape)


def weighted_nll(x: np.ndarray, t: np.ndarray, w: np.ndarray, ignored: int) -> tuple[np.ndarray, ...]:
    """(losses, their magnitudes, weights of the rows, 0 for ignored rows)"""
    weights = np.broadcast_to(w, x.shape[1])
    known = valid(x, t) & (t != ignored)
    shares = np.where(known, weights[np.where(known, t, 0)], 0.0) if x.shape[1] else np.zeros(len(x))
    value = np.where(known, -at(x, t) * shares, 0.0)
    return value, np.abs(value), shares


def cosine_parts(x1: np.ndarray, x2: np.ndarray) -> tuple[np.ndarray, ...]:
    dot, n1, n2 = (np.sum(a * b, axis=1) for a, b in ((x1, x2), (x1, x1), (x2, x2)))
    size = np.sum(np.abs(x1 * x2), axis=1)
    divisor = np.maximum(np.sqrt(n1) * np.sqrt(n2), 1e-12)
    return dot / divisor, size / divisor, n1, n2, divisor


def cosine(x1: np.ndarray, x2: np.ndarray, t: np.ndarray, margin: float) -> Sums:
    c, size, *_ = cosine_parts(x1, x2)
    return np.where(t > 0, 1 - c, np.maximum(0, c - margin)), 1 + size + abs(margin)


def cosine_slope(x1: np.ndarray, x2: np.ndarray, t: np.ndarray, margin: float) -> tuple[Sums, Sums]:
    c, size, n1, n2, divisor = (v[:, None] for v in cosine_parts(x1, x2))
    k = np.where(t > 0, -1.0, np.where(c[:, 0] > margin, 1.0, 0.0))[:, None]

    def one(a, b, n):
        back = np.where(n <= 1e-24, 0, 1 / n)
        return k * (b / divisor - c * a * back), np.abs(k) * (np.abs(b) / divisor + (size + 1) * np.abs(a) * back)

    return one(x1, x2, n1), one(x2, x1, n2)


def norm(d: np.ndarray, p: float) -> np.ndarray:
    return np.sum(np.abs(d) ** p, axis=1) ** (1 / p)


def triplet(a: np.ndarray, near: np.ndarray, far: np.ndarray, margin: float, p: float) -> Sums:
    one, other = norm(a - near, p), norm(a - far, p)
    return np.maximum(0, one - other + margin), 8 * (one + other) + abs(margin)


def triplet_slope(a: np.ndarray, near: np.ndarray, far: np.ndarray, margin: float, p: float) -> tuple[Sums, ...]:
    active = (norm(a - near, p) - norm(a - far, p) + margin > 0)[:, None]

    def one(d):
        scale = np.maximum(norm(d, p)[:, None] ** (p - 1), 1e-12)
        return np.where(active & (d != 0), np.abs(d) ** (p - 1) * np.sign(d) / scale, 0.0)

    u, v = one(a - near), one(a - far)
    return tuple((value, 8 * (np.abs(u) + np.abs(v))) for value in (u - v, -u, v))


def hinges(x: np.ndarray, t: np.ndarray, margin: float) -> np.ndarray:
    h = np.maximum(0, margin - at(x, t)[:, None] + x)
    return np.where(is_target(x, t) | ~valid(x, t)[:, None], 0.0, h)


def multi_margin(x: np.ndarray, t: np.ndarray, margin: float, p: float) -> Sums:
    sizes = (abs(margin) + np.abs(at(x, t))[:, None] + np.abs(x)) ** p * (hinges(x, t, margin) > 0)
    count = max(x.shape[1], 1)
    return np.sum(hinges(x, t, margin) ** p, axis=1) / count, 4 * np.sum(sizes, axis=1) / count


def multi_margin_slope(x: np.ndarray, t: np.ndarray, margin: float, p: float) -> tuple[Sums]:
    h = hinges(x, t, margin)
    g = np.where(h > 0, p * h ** (p - 1), 0.0)
    sizes = np.where(h > 0, p * (abs(margin) + np.abs(at(x, t))[:, None] + np.abs(x)) ** (p - 1), 0.0)
    own = is_target(x, t) & valid(x, t)[:, None]
    value = np.where(own, -np.sum(g, axis=1, keepdims=True), g) / x.shape[1]
    return ((value, 4 * np.where(own, np.sum(sizes, axis=1, keepdims=True), sizes) / x.shape[1]),)


def multilabel_pairs(x: np.ndarray, labels: np.ndarray) -> list[list[int]]:
    """Valid labels of each row."""
    found = []
    for row in labels:
        ends = np.flatnonzero(row < 0)
        found.append([int(j) for j in row[: ends[0] if len(ends) else len(row)] if j < x.shape[1]])
    return found


def multilabel_margin(x: np.ndarray, labels: np.ndarray) -> Sums:
    value, size = np.zeros((2, len(x)))
    for r, listed in enumerate(multilabel_pairs(x, labels)):
        others = np.setdiff1d(np.arange(x.shape[1]), listed)
        for j in listed:
            value[r] += np.sum(np.maximum(0, 1 - x[r, j] + x[r, others]))
            size[r] += np.sum(1 + np.abs(x[r, j]) + np.abs(x[r, others]))
    count = max(x.shape[1], 1)
    return value / count, size / count


def multilabel_margin_slope(x: np.ndarray, labels: np.ndarray) -> tuple[Sums]:
    slope = np.zeros(x.shape)
    for r, listed in enumerate(multilabel_pairs(x, labels)):
        others = np.setdiff1d(np.arange(x.shape[1]), listed)
        for j in listed:
            active = others[1 - x[r, j] + x[r, others] > 0]
            slope[r, active] += 1
            slope[r, j] -= len(active)
    return (whole(slope / x.shape[1]),)


def soft_margin(x: np.ndarray, y: np.ndarray) -> Sums:
    value, magnitude = logits(x, y)
    count = max(x.shape[1], 1)
    return np.sum(value, axis=1) / count, np.sum(magnitude, axis=1) / count


def soft_margin_slope(x: np.ndarray, y: np.ndarray) -> tuple[Sums]:
    value, magnitude = parted(sigmoid(x), -y)
    return ((value / x.shape[1], magnitude / x.shape[1]),)


def repeated(weights: np.ndarray | None, count: int) -> np.ndarray:
    """Weights of `count` elements; None: 1."""
    return np.ones(count) if weights is None else np.resize(weights, count)


def costs(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Negative log likelihoods of 1 and of 0."""
    rest = np.log1p(np.exp(-np.abs(x)))
    return np.maximum(-x, 0) + rest, np.maximum(x, 0) + rest


def weighted_bce(x: np.ndarray, t: np.ndarray, w: np.ndarray | None, p: np.ndarray | None) -> Sums:
    w, p = repeated(w, len(x)), repeated(p, len(x))
    yes, no = costs(x)
    return parted(w * p * without(t == 0, t * yes), w * without(t == 1, (1 - t) * no))


def weighted_bce_slope(x: np.ndarray, t: np.ndarray, w: np.ndarray | None, p: np.ndarray | None) -> Sums:
    w, p = repeated(w, len(x)), repeated(p, len(x))
    return parted(w * (1 - t) * sigmoid(x), -w * p * t * sigmoid(-x))


def focal_parts(x: np.ndarray, t: np.ndarray, alpha: float, gamma: float) -> tuple[np.ndarray, ...]:
    side = np.ones_like(t) if alpha < 0 else alpha * t + (1 - alpha) * (1 - t)
    missed = sigmoid(x) * (1 - t) + sigmoid(-x) * t
    yes, no = costs(x)
    return side, missed, without(t == 0, t * yes) + without(t == 1, (1 - t) * no)


def focal(x: np.ndarray, t: np.ndarray, alpha: float, gamma: float) -> Sums:
    side, missed, cost = focal_parts(x, t, alpha, gamma)
    value, magnitude = whole(side * missed**gamma * cost)
    return value, magnitude * (4 + gamma)


def focal_slope(x: np.ndarray, t: np.ndarray, alpha: float, gamma: float) -> Sums:
    side, missed, cost = focal_parts(x, t, alpha, gamma)
    modulation = gamma * missed ** (gamma - 1) * (1 - 2 * t) * sigmoid(x) * sigmoid(-x) * cost if gamma else 0 * x
    value, magnitude = parted(
        side * missed**gamma * (1 - t) * sigmoid(x), -side * missed**gamma * t * sigmoid(-x), side * modulation
    )
    return value, magnitude * (4 + gamma)


def kl_div_of_logs(x: np.ndarray, t: np.ndarray) -> Sums:
    return parted(np.exp(t) * t, -np.exp(t) * x)


def bce_target(p: np.ndarray) -> Sums:
    one, other = np.maximum(np.log(p), -100), np.maximum(np.log1p(-p), -100)
    return parted(other, -one)


def weighted_bce_target(x: np.ndarray, w: np.ndarray | None, p: np.ndarray | None) -> Sums:
    w, p = repeated(w, len(x)), repeated(p, len(x))
    return parted(w * without(p == 1, (p - 1) * costs(x)[0]), -w * x)


def kl_div_target(x: np.ndarray, t: np.ndarray, flag: int) -> Sums:
    if flag:
        share = np.exp(t)
        _, magnitude = parted(*(without(share == 0, share * part) for part in (t, -x, 1.0)))
        return without(share == 0, share * (t - x + 1)), magnitude
    value, magnitude = parted(np.log(t), -x, 1.0)
    return without(t <= 0, value), without(t <= 0, magnitude)


def poisson_target(x: np.ndarray, flag: int) -> Sums:
    return whole(-x if flag else -np.log(x))


def ranking_target(x1: np.ndarray, x2: np.ndarray, t: np.ndarray, margin: float) -> Sums:
    is_lost = margin - t * (x1 - x2) > 0
    return np.where(is_lost, x2 - x1, 0.0), np.where(is_lost, np.abs(x1) + np.abs(x2), 0.0)


def gaussian_variance(x: np.ndarray, t: np.ndarray, v: np.ndarray, eps: float) -> Sums:
    v = variance(v, eps)
    return parted(0.5 / v, -0.5 * (x - t) ** 2 / v / v)


# gradients of other inputs than the prediction: inputs in C's order, scalars, the gradient's name, the slope
TARGET_SLOPES: dict[str, tuple[tuple[str, ...], dict[str, float], str, Callable[..., Sums]]] = {
    "bce_target": (("pred",), {}, "dtarget", bce_target),
    "bce_with_logits_weighted_target": (
        ("logits", "weight", "pos_weight"), {"weight_extent": 1, "pos_weight_extent": 1}, "dtarget",
        weighted_bce_target,
    ),
    "kl_div_batch_target": (("pred", "target"), {"batch": 3, "log_target_flag": 1}, "dtarget", kl_div_target),
    "poisson_nll_target": (("input",), {"log_input_flag": 1}, "dtarget", poisson_target),
    "margin_ranking_target": (("x1", "x2", "t"), {"margin": 0.5}, "dt", ranking_target),
    "gaussian_nll_var": (("input", "target", "var"), {"eps": 1e-6}, "dvar", gaussian_variance),
}  # fmt: skip
STRIDES = ("row_stride_in", "row_stride_tgt")
ROW_LOSSES = {
    "cross_entropy": RowLoss(
        "class_extent", ("row_stride_input",), ("input",), "index", cross_entropy, cross_entropy_slope,
    ),
    "cross_entropy_soft": RowLoss(
        "class_extent", ("row_stride_input", "row_stride_target"), ("input",), "shares", soft_cross_entropy,
        soft_cross_entropy_slope,
    ),
    "cosine_embedding": RowLoss(
        "d_extent", ("row_stride_x",), ("x1", "x2"), "sign", cosine, cosine_slope, target="t", gradients=("dx1", "dx2"),
        parameters=("margin",), values=((0.0,), (0.25,)),
    ),
    "triplet_margin": RowLoss(
        "d_extent", ("row_stride",), ("a", "p_tensor", "n_tensor"), "", triplet, triplet_slope,
        gradients=("da", "dp", "dn"), parameters=("margin", "p_norm"), values=((1.0, 2.0), (0.5, 1.0), (1.0, 3.0)),
    ),
    "multi_margin": RowLoss(
        "class_extent", ("row_stride",), ("input",), "index", multi_margin, multi_margin_slope,
        parameters=("margin", "p_norm"), values=((1.0, 1.0), (0.5, 2.0), (1.0, 3.0)),
    ),
    "multilabel_margin": RowLoss(
        "class_extent", STRIDES, ("input",), "list", multilabel_margin, multilabel_margin_slope,
    ),
    "multilabel_soft_margin": RowLoss("class_extent", STRIDES, ("input",), "shares", soft_margin, soft_margin_slope),
}  # fmt: skip
