# SPDX-License-Identifier: Apache-2.0
"""A mixture of experts by calls of its pieces, for arrays of any framework."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from baracuda.errors import InvalidProblemError

NAMES = ("moe",)
# Activations of experts, and the function of the gate half of the gated ones.
GATES = {"swiglu": "silu", "geglu": "gelu", "geglu_tanh": "gelu_tanh", "reglu": "relu", "glu": "sigmoid"}
PLAIN = ("relu", "gelu", "gelu_tanh", "silu")
# Functions that moe calls.
CALLED = (
    *("moe_route", "moe_sort", "moe_permute", "moe_combine", "grouped_linear", "linear", "mul", "add"),
    *dict.fromkeys((*GATES.values(), *PLAIN)),
)
Call = Callable[..., Any]  # calls a function by its name


def moe(
    call: Call, x: Any, router_logits: Any, w_gate_up: Any, w_down: Any, top_k: int, *, activation: str = "swiglu",
    scoring: str = "softmax", renormalize: bool = True, selection_bias: Any = None, n_group: int = 1,
    topk_group: int = 1, group_score: str = "sum_of_top_2", scale: float = 1.0, capacity: int = 0,
    shared_gate_up: Any = None, shared_down: Any = None,
) -> Any:  # fmt: skip
    """baracuda.moe for one framework."""
    hidden, experts = x.shape[-1], w_gate_up.shape[0]
    _check(x, router_logits, w_gate_up, w_down, activation)
    rows, logits = x.reshape(-1, hidden), router_logits.reshape(-1, experts)
    weights, ids = call(
        "moe_route", logits, top_k, selection_bias, scoring=scoring, renormalize=renormalize, n_group=n_group,
        topk_group=topk_group, group_score=group_score, scale=scale,
    )  # fmt: skip
    order, position, _, _, offsets = call("moe_sort", ids, experts, capacity=capacity)
    sums = call("grouped_linear", call("moe_permute", rows, order, position), w_gate_up, offsets)
    y = call("grouped_linear", _activated(call, sums, activation), w_down, offsets)
    out = call("moe_combine", y, order, position, weights)
    if (shared_gate_up is None) != (shared_down is None):
        missing = "shared_gate_up" if shared_gate_up is None else "shared_down"
        raise InvalidProblemError(f"{missing} is None, but a shared expert has two matrices")
    if shared_gate_up is not None:
        shared = call("linear", _activated(call, call("linear", rows, shared_gate_up), activation), shared_down)
        out = call("add", out, shared)
    return out.reshape(*x.shape[:-1], w_down.shape[1])


def _check(x: Any, router_logits: Any, w_gate_up: Any, w_down: Any, activation: str) -> None:
    if activation not in (*GATES, *PLAIN):
        raise InvalidProblemError(f"activation is {activation!r}, must be one of {', '.join((*GATES, *PLAIN))}")
    halves = 2 if activation in GATES else 1
    for name, each in (("w_gate_up", w_gate_up), ("w_down", w_down)):
        if len(each.shape) != 3:
            raise InvalidProblemError(f"{name} has shape {tuple(each.shape)}, must be (experts, outputs, inputs)")
    experts, inner, hidden = w_gate_up.shape
    if inner % halves or w_down.shape[0] != experts or w_down.shape[2] * halves != inner:
        raise InvalidProblemError(
            f"w_gate_up has shape {tuple(w_gate_up.shape)} and w_down {tuple(w_down.shape)}, expected "
            f"(experts, {halves} * inner, hidden) and (experts, outputs, inner) for {activation}"
        )
    if len(x.shape) < 1 or x.shape[-1] != hidden:
        raise InvalidProblemError(f"x has shape {tuple(x.shape)}, must be (..., {hidden}), as w_gate_up has it")
    if tuple(router_logits.shape) != (*x.shape[:-1], experts):
        expected = (*x.shape[:-1], experts)
        raise InvalidProblemError(f"router_logits has shape {tuple(router_logits.shape)}, expected {expected}")


def _activated(call: Call, sums: Any, activation: str) -> Any:
    """act(sums), or act(gate) up of the halves of a gated activation, the gate first."""
    if activation in PLAIN:
        return call(activation, sums)
    half = sums.shape[-1] // 2
    return call("mul", call(GATES[activation], sums[..., :half]), sums[..., half:])
