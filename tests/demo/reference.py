# SPDX-License-Identifier: Apache-2.0
"""The language model of the demo in NumPy, float64."""

import numpy as np

EPS, ROPE_BASE = 1e-6, 10000.0


def loss(config, values, tokens, targets):
    """The mean cross entropy of texts (batch, length), with the parameters of baracuda.demo.parameters."""
    x = values["embedding"][tokens]
    for number in range(config.layers):
        w = {name.split(".")[2]: value for name, value in values.items() if name.startswith(f"layers.{number}.")}
        x = x + attention(config, w, norm(x, w["attention_norm"]))
        x = x + (mixture if config.experts else mlp)(config, w, norm(x, w["mlp_norm"]))
    logits = norm(x, values["norm"]) @ values["embedding"].T
    logits = logits - logits.max(-1, keepdims=True)
    log_p = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    return -np.take_along_axis(log_p, targets[..., None], -1).mean()


def mlp(config, w, h):
    linear, gate = np.split(h @ w["up"].T, 2, axis=-1)
    return (linear * gate / (1 + np.exp(-gate))) @ w["down"].T


def mixture(config, w, h):
    """Each token's experts by the scores and the biases; their weights by the scores alone."""
    scores = np.exp(h @ w["router"].T)
    scores = scores / scores.sum(-1, keepdims=True)
    chosen = np.argsort(-(scores + w["balance"]), axis=-1)[..., : config.top_k]
    weights = np.zeros(scores.shape)
    np.put_along_axis(weights, chosen, np.take_along_axis(scores, chosen, -1), -1)
    weights = weights / weights.sum(-1, keepdims=True)
    each = [mlp(config, {"up": up, "down": down}, h) for up, down in zip(w["up"], w["down"])]
    return sum(weights[..., e : e + 1] * y for e, y in enumerate(each))


def norm(x, gain):
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + EPS) * gain


def attention(config, w, h):
    batch, length, _ = h.shape
    q, k, v = (
        (h @ w[name].T).reshape(batch, length, -1, config.head_dim).transpose(0, 2, 1, 3) for name in ("q", "k", "v")
    )
    q, k = rope(q), rope(k)
    k, v = (np.repeat(x, config.heads // config.kv_heads, axis=1) for x in (k, v))
    scores = q @ k.transpose(0, 1, 3, 2) / np.sqrt(config.head_dim)
    scores = np.where(np.tri(length, dtype=bool), scores, -np.inf)
    p = np.exp(scores - scores.max(-1, keepdims=True))
    y = (p / p.sum(-1, keepdims=True)) @ v
    return y.transpose(0, 2, 1, 3).reshape(batch, length, -1) @ w["o"].T


def rope(x):
    half = x.shape[-1] // 2
    angles = np.arange(x.shape[-2])[:, None] * ROPE_BASE ** (-np.arange(half) / half)
    a, b = x[..., :half], x[..., half:]
    return np.concatenate([a * np.cos(angles) - b * np.sin(angles), b * np.cos(angles) + a * np.sin(angles)], -1)
