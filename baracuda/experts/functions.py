# SPDX-License-Identifier: Apache-2.0
"""The layer of a mixture of experts: routing, both products, and the weighted sum.

It takes the arrays that `baracuda.functions` takes. Results belong to the framework of the first array and are on its
device and stream.
"""

from __future__ import annotations

from typing import Any

from baracuda import functions
from baracuda._arrays.shaping import given_array
from baracuda._functions import moe_calls
from baracuda._functions.moe_calls import NAMES
from baracuda.errors import naming

__all__ = list(NAMES)


def _call(name: str, *arrays: Any, **numbers: Any) -> Any:
    return getattr(functions, name)(*arrays, **numbers)


@naming("moe")
def moe(
    x: Any, router_logits: Any, w_gate_up: Any, w_down: Any, top_k: int, *, activation: str = "swiglu",
    scoring: str = "softmax", renormalize: bool = True, selection_bias: Any = None, n_group: int = 1,
    topk_group: int = 1, group_score: str = "sum_of_top_2", scale: float = 1.0, capacity: int = 0,
    shared_gate_up: Any = None, shared_down: Any = None,
) -> Any:  # fmt: skip
    """The weighted sum of each token's top_k experts: sum of weight w_down[e] (act(gate) up), with gate and up the
    halves of w_gate_up[e] x.

    x is (..., hidden), router_logits (..., experts), w_gate_up (experts, 2 inner, hidden), the gate before the up half,
    and w_down (experts, outputs, inner): matrices are (outputs, inputs), as linear and torch.nn.Linear have them. With
    the activations relu, gelu, gelu_tanh and silu there is no gate, and w_gate_up is (experts, inner, hidden); swiglu,
    geglu, geglu_tanh, reglu and glu gate by silu, gelu, gelu_tanh, relu and sigmoid.

    Routing has the arguments of moe_route, selection_bias being its bias; capacity is that of moe_sort. shared_gate_up
    and shared_down are those of an expert that all tokens have, with a weight of 1. Nothing is read by the host: the
    layer may be captured in a CUDA graph. The pieces are moe_route, moe_sort, moe_permute, grouped_linear and
    moe_combine.

    InvalidProblemError for shapes that do not fit, and dtypes that differ.
    """
    x, router_logits = given_array(x, "x"), given_array(router_logits, "router_logits")
    w_gate_up, w_down = given_array(w_gate_up, "w_gate_up"), given_array(w_down, "w_down")
    return moe_calls.moe(
        _call, x, router_logits, w_gate_up, w_down, top_k, activation=activation, scoring=scoring,
        renormalize=renormalize, selection_bias=selection_bias, n_group=n_group, topk_group=topk_group,
        group_score=group_score, scale=scale, capacity=capacity, shared_gate_up=shared_gate_up, shared_down=shared_down,
    )  # fmt: skip
