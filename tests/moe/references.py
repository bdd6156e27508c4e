# SPDX-License-Identifier: Apache-2.0
"""The layer of a mixture of experts in float64, one token after another."""

import numpy as np

from cases.moe.route import routed  # noqa: F401

SCORING = ("softmax", "sigmoid", "topk_softmax")
GROUP_SCORE = ("max", "sum_of_top_2")


def sigmoid(z):
    return 1 / (1 + np.exp(-z))


ACTIVATIONS = {
    "swiglu": lambda gate, up: gate * sigmoid(gate) * up, "reglu": lambda gate, up: np.maximum(gate, 0) * up,
    "glu": lambda gate, up: sigmoid(gate) * up, "silu": lambda z: z * sigmoid(z), "relu": lambda z: np.maximum(z, 0),
}  # fmt: skip


def activated(z, activation):
    act = ACTIVATIONS[activation]
    return act(*np.split(z, 2)) if activation.endswith("glu") else act(z)


def expert(x, w_gate_up, w_down, activation):
    return w_down @ activated(w_gate_up @ x, activation)


def moe(
    x, logits, w_gate_up, w_down, top_k, *, activation="swiglu", scoring="softmax", renormalize=True,
    selection_bias=None, n_group=1, topk_group=1, group_score="sum_of_top_2", scale=1.0, capacity=0,
    shared_gate_up=None, shared_down=None,
):  # fmt: skip
    numbers = {
        "scoring": SCORING.index(scoring), "renormalize": renormalize, "top_k": top_k, "n_group": n_group,
        "topk_group": topk_group, "group_score": GROUP_SCORE.index(group_score), "scale": scale,
    }  # fmt: skip
    out, used = np.zeros((len(x), w_down.shape[1])), np.zeros(len(w_down), int)
    for token, row in enumerate(x):
        ids, weights = routed(logits[token], selection_bias, numbers)
        for e, weight in zip(ids, weights):
            used[e] += 1
            if not capacity or used[e] <= capacity:
                out[token] += weight * expert(row, w_gate_up[e], w_down[e], activation)
        if shared_down is not None:
            out[token] += expert(row, shared_gate_up, shared_down, activation)
    return out
