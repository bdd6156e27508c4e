# SPDX-License-Identifier: Apache-2.0
"""The forward of a Llama-shaped decoder in NumPy and float64, one sequence at a time, from the tensors of its file."""

from typing import Any

import numpy as np


def rms_norm(x: np.ndarray, gain: np.ndarray, eps: float) -> np.ndarray:
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * gain


def rope(x: np.ndarray, base: float, halves: bool) -> np.ndarray:
    """x is (tokens, heads, features); a pair of features is a complex number."""
    count = x.shape[-1] // 2
    angles = np.arange(len(x))[:, None, None] * base ** (-np.arange(count) / count)
    first, second = (x[..., :count], x[..., count:]) if halves else (x[..., ::2], x[..., 1::2])
    rotated = (first + 1j * second) * np.exp(1j * angles)
    if halves:
        return np.concatenate([rotated.real, rotated.imag], -1)
    return np.stack([rotated.real, rotated.imag], -1).reshape(x.shape)


def logits(metadata: dict[str, Any], w: dict[str, np.ndarray], tokens: list[int]) -> np.ndarray:
    """Logits (tokens, vocabulary)."""
    kind = metadata["general.architecture"]
    heads, kv_heads = (metadata[f"{kind}.attention.{name}"] for name in ("head_count", "head_count_kv"))
    eps, base = metadata[f"{kind}.attention.layer_norm_rms_epsilon"], metadata[f"{kind}.rope.freq_base"]
    halves = kind != "llama" or metadata.get("baracuda.rope.halves", False)
    x = w["token_embd.weight"][tokens]
    n = len(tokens)
    for layer in range(metadata[f"{kind}.block_count"]):
        of = {name.split(".", 2)[2]: array for name, array in w.items() if name.startswith(f"blk.{layer}.")}
        h = rms_norm(x, of["attn_norm.weight"], eps)
        q, k, v = (h @ of[f"attn_{x}.weight"].T + of.get(f"attn_{x}.bias", 0.0) for x in "qkv")
        q, k = (rope(a.reshape(n, m, -1), base, halves) for a, m in ((q, heads), (k, kv_heads)))
        k, v = (np.repeat(a, heads // kv_heads, axis=1) for a in (k, v.reshape(n, kv_heads, -1)))
        scores = np.einsum("ihd,jhd->hij", q, k) / np.sqrt(q.shape[-1])
        scores = np.where(np.tri(n, dtype=bool), scores, -np.inf)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        x = x + np.einsum("hij,jhd->ihd", weights, v).reshape(n, -1) @ of["attn_output.weight"].T
        h = rms_norm(x, of["ffn_norm.weight"], eps)
        gate, up = h @ of["ffn_gate.weight"].T, h @ of["ffn_up.weight"].T
        x = x + (gate / (1 + np.exp(-gate)) * up) @ of["ffn_down.weight"].T
    return rms_norm(x, w["output_norm.weight"], eps) @ w.get("output.weight", w["token_embd.weight"]).T
