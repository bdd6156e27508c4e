# SPDX-License-Identifier: Apache-2.0
"""Attention in float64 from its formulas: results, gradients and the sizes of errors.

Arrays are [batch, head, row, element]; query head h reads key-value head h // (heads // kv_heads).
"""

import dataclasses

import numpy as np

from tools.oracle import philox

from ..model import Expected

FAR = 1 << 40
SIXTEEN = ("f16", "bf16")  # their exponentials may be approximations


@dataclasses.dataclass
class Rules:
    """Scores from scale q.k: c tanh(scale q.k / c) + slope (j - i) + bias, -inf where hidden.

    left, right   key j is visible to query i where -left <= j - i - shift <= right
    aligns_ends   the shift is k_len - q_len, else 0
    keep, bias    broadcast to [batch, head, query, key]; slopes [batch, head] or [head], sinks [head]
    factor        what dropout multiplies each probability by
    empty         lse of a row that sees no key
    """

    scale: float = 1.0
    left: int = FAR
    right: int = FAR
    aligns_ends: bool = False
    softcap: float = 0.0
    slopes: np.ndarray | None = None
    bias: np.ndarray | None = None
    keep: np.ndarray | None = None
    sinks: np.ndarray | None = None
    factor: np.ndarray | float = 1.0
    empty: float = -np.inf


def window_bounds(is_causal, left=-1, right=-1):
    """Windows of the C interface as bounds."""
    return (FAR if left < 0 else left), (0 if is_causal else FAR if right < 0 else right)


def spread(x, heads):
    """Key-value heads, each repeated for the query heads that read it."""
    return np.repeat(x, heads // x.shape[1], axis=1) if x.shape[1] else x


class Scores:
    """Scores of all queries and keys, and what the roundings of each may be, in units of the compute type."""

    def __init__(self, q, k, rules):
        heads, (q_len, d), k_len = q.shape[1], q.shape[2:], k.shape[2]
        self.rules, self.scale, self.k = rules, float(np.float32(rules.scale)), spread(k, heads)
        dots = np.einsum("bhid,bhjd->bhij", q, self.k)
        sizes = np.einsum("bhid,bhjd->bhij", np.abs(q), np.abs(self.k)) * abs(self.scale)
        raw = dots * self.scale
        cap = float(np.float32(rules.softcap))
        self.capped = cap * np.tanh(raw / cap) if cap else raw
        self.slope = self.scale * (1 - (self.capped / cap) ** 2 if cap else np.ones_like(raw))
        i, j = np.arange(q_len)[:, None], np.arange(k_len)
        added, added_size = np.zeros_like(raw), np.zeros_like(raw)
        if rules.slopes is not None:
            slopes = rules.slopes if rules.slopes.ndim == 2 else rules.slopes[None]
            line = slopes[..., None, None] * (j - i)
            added, added_size = added + line, added_size + np.abs(line)
        distance = j - i - shift_of(rules, q_len, k_len)
        shown = np.broadcast_to((distance <= rules.right) & (-distance <= rules.left), raw.shape)
        if rules.keep is not None:
            shown = shown & (np.broadcast_to(rules.keep, raw.shape) != 0)
        with np.errstate(invalid="ignore"):
            if rules.bias is not None:
                bias = np.broadcast_to(rules.bias, raw.shape)
                added, added_size = added + bias, added_size + np.where(np.isfinite(bias), np.abs(bias), 0)
            self.value = np.where(shown, self.capped + added, -np.inf)
        self.size = np.where(self.value > -np.inf, sizes * (d + 8) + added_size + np.abs(self.capped), 0)
        self.roughness = self.size.max(-1, initial=0, keepdims=True) + 1

    def normalised(self):
        """Probabilities before dropout, and lse."""
        top = self.value.max(-1, initial=-np.inf, keepdims=True)
        sinks = None if self.rules.sinks is None else self.rules.sinks[None, :, None, None]
        seen = top > -np.inf
        if sinks is not None:
            top = np.maximum(top, sinks)
        e = np.exp(self.value - np.where(seen, top, 0))
        total = e.sum(-1, keepdims=True) + (np.exp(sinks - np.where(seen, top, 0)) if sinks is not None else 0)
        with np.errstate(divide="ignore", invalid="ignore"):
            lse = np.where(seen, top + np.log(total), self.rules.empty)[..., 0]
            return np.where(seen, e / total, 0), lse


def shift_of(rules, q_len, k_len):
    return k_len - q_len if rules.aligns_ends else 0


def forward(q, k, v, rules, is_rough=False):
    """Expected y, lse, weights. is_rough: exponentials of 16-bit operands are approximations."""
    scores = Scores(q, k, rules)
    p, lse = scores.normalised()
    v = spread(v, q.shape[1])
    dropped = p * rules.factor
    y = np.einsum("bhij,bhjd->bhid", dropped, v)
    size = np.einsum("bhij,bhjd->bhid", np.abs(dropped), np.abs(v))
    count = np.float64(k.shape[2])
    lse_size = np.where(np.isfinite(lse), scores.roughness[..., 0] + np.abs(lse) + count, 0)
    return {
        "y": Expected(y, count, size, size * scores.roughness),
        "lse": Expected(lse, 0, lse_size, np.where(np.isfinite(lse), float(is_rough), 0.0)),
        "attn": Expected(p, count, p, p * scores.roughness),
    }


def backward(q, k, v, y, lse, dy, rules):
    """Expected gradients from the saved y and lse."""
    heads, kv_heads = q.shape[1], k.shape[1]
    scores = Scores(q, k, rules)
    seen = np.isfinite(lse)[..., None] & (scores.value > -np.inf)
    with np.errstate(invalid="ignore", over="ignore"):
        p = np.where(seen, np.exp(scores.value - lse[..., None]), 0)
    v = spread(v, heads)
    dots = np.einsum("bhid,bhid->bhi", y, dy)
    dot_sizes = np.einsum("bhid,bhid->bhi", np.abs(y), np.abs(dy))
    da = np.einsum("bhid,bhjd->bhij", dy, v)
    da_sizes = np.einsum("bhid,bhjd->bhij", np.abs(dy), np.abs(v))
    factor = rules.factor
    ds = p * (factor * da - dots[..., None])
    ds_sizes = p * (np.abs(factor) * da_sizes + dot_sizes[..., None]) * (v.shape[-1] + 8)
    rough = scores.roughness + np.where(np.isfinite(lse), np.abs(lse), 0)[..., None]

    def expected(make, weight, sizes, other, count):
        magnitude = make(np.abs(sizes), np.abs(other))
        return Expected(make(weight, other), np.float64(count), magnitude, make(np.abs(sizes) * rough, np.abs(other)))

    def grouped(x):
        return x.reshape(x.shape[0], kv_heads, heads // max(kv_heads, 1), *x.shape[2:]).sum(2)

    def queries(w, x):
        return np.einsum("bhij,bhjd->bhid", w, x)

    def keys(w, x):
        return grouped(np.einsum("bhij,bhid->bhjd", w, x))

    q_len, k_len = q.shape[2], k.shape[2]
    inner, inner_sizes = ds * scores.slope, ds_sizes * np.abs(scores.slope)
    found = {
        "dq": expected(queries, inner, inner_sizes, scores.k, k_len),
        "dk": expected(keys, inner, inner_sizes, q, q_len * heads // max(kv_heads, 1)),
        "dv": expected(keys, p * factor, np.abs(p * factor) * (v.shape[-1] + 8), dy, q_len * heads // max(kv_heads, 1)),
        "dots": Expected(dots, np.float64(v.shape[-1]), dot_sizes),
        "dbias": Expected(ds, np.float64(1), ds_sizes, ds_sizes * rough),
    }
    if rules.sinks is not None:
        with np.errstate(invalid="ignore"):
            share = np.where(np.isfinite(lse), np.exp(rules.sinks[None, :, None] - lse), 0)
        size = share * dot_sizes * (v.shape[-1] + 8)
        found["dsinks"] = Expected(
            -(share * dots).sum((0, 2)),
            np.float64(q_len * q.shape[0]),
            size.sum((0, 2)),
            (size * rough[..., 0]).sum((0, 2)),
        )
    return found


# --- sequences in one tensor -----------------------------------------------------------------------------------------


def of_sequence(x, rows):
    """Rows [total, heads, d] of a sequence as [1, heads, rows, d]."""
    return x[rows].swapaxes(0, 1)[None]


def gather(problem, each, outputs, rows_first=False):
    """Expected values of all sequences from those of each: (rows, keys, results by name). Rows of none are 0, their lse
    is the empty one's; lse is [heads, total], or rows first."""
    found = {}
    for name, (own, is_key, empty) in outputs.items():
        shape = problem.arrays[own].shape
        parts = [np.full(shape, empty), *(np.zeros(shape) for _ in range(3))]
        for rows, keys, result in each:
            at, e = keys if is_key else rows, result[name]
            fields = (e.value, e.count, e.magnitude, e.divided)
            for part, field in zip(parts, fields):
                field = np.broadcast_to(field, e.value.shape)[0]
                if name == "lse" and not rows_first:
                    part[:, at] = field
                else:
                    part[at] = field.swapaxes(0, 1)
        found[own] = Expected(*parts)
    return found


# --- dropout ---------------------------------------------------------------------------------------------------------


def dropout_factor(probability, seed, shape):
    """0 or 1 / (1 - p) for each of [batch, head, query, key]: all in f32."""
    b, h, i, j = (index.ravel() for index in np.meshgrid(*(np.arange(n) for n in shape), indexing="ij"))
    words = philox.blocks((seed & 0xFFFFFFFF, seed >> 32), np.stack([j // 4, i, h, b], axis=1))
    word = np.take_along_axis(words, (j % 4)[:, None], 1)[:, 0].astype(np.float32)
    u = word * np.float32(2.0**-32) + np.float32(2.0**-33)
    p = np.float32(probability)
    return np.where(u < p, 0.0, float(np.float32(1) / (np.float32(1) - p))).reshape(shape)
