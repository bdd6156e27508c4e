# SPDX-License-Identifier: Apache-2.0
"""Gradients of convolution as calls of functions, shared by PyTorch and JAX; they are differentiable again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from baracuda._functions.conv_calls import transposed_gradients

Call = Callable[..., Any]  # calls a function by its name
Given = Mapping[str, Any]  # saved arrays and numbers by name, and "needs": which arguments require a gradient
Gradients = dict[str, Any]

_NUMBERS = ("stride", "padding", "padding_after", "dilation", "groups", "channels_last", "allow_tf32")
_ACTIVATIONS = {1: "relu", 2: "gelu", 3: "silu", 4: "gelu_tanh"}


def _numbers(given: Given, *more: str) -> dict[str, Any]:
    return {name: given[name] for name in (*_NUMBERS, *more)}


def _before_activation(call: Call, name: str, dy: Any, given: Given, numbers: Mapping[str, Any]) -> Any:
    """The gradient of act's argument, which is computed again."""
    activation = _ACTIVATIONS.get(int(given["activation"]))
    if activation is None:
        return dy
    z = call(name, given["x"], given["weight"], given.get("bias"), **numbers)
    return call(f"{activation}_backward", dy, z)


def _convolution(call: Call, dy: Any, given: Given) -> Gradients:
    numbers, needs = _numbers(given), given["needs"]
    x, weight = given["x"], given["weight"]
    dz = _before_activation(call, "convolution", dy, given, numbers)
    found: Gradients = {"x": None, "weight": None, "bias": None}
    if needs.get("x"):
        found["x"] = call("convolution_backward_data", dz, weight, x, **numbers)
    wanted = [needs.get("weight", False), needs.get("bias", False)]
    if True in wanted:
        found["weight"], found["bias"] = call("convolution_backward_filter", dz, x, weight, **numbers, needs=wanted)
    return found


def _convolution_transpose(call: Call, dy: Any, given: Given) -> Gradients:
    numbers, needs = _numbers(given, "output_padding"), given["needs"]
    dz = _before_activation(call, "convolution_transpose", dy, given, numbers)
    wanted = [needs.get(name, False) for name in ("x", "weight", "bias")]
    return dict(
        zip(("x", "weight", "bias"), transposed_gradients(call, dz, given["x"], given["weight"], numbers, wanted))
    )


def _backward_data(call: Call, ddx: Any, given: Given) -> Gradients:
    """Second derivative of dx, which is linear in dy and weight; x has no part in it."""
    numbers, needs = _numbers(given), given["needs"]
    found: Gradients = {"dy": None, "weight": None, "x": given["x"] * 0 if needs.get("x") else None}
    if needs.get("dy"):
        found["dy"] = call("convolution", ddx, given["weight"], None, **numbers)
    if needs.get("weight"):
        found["weight"] = call(
            "convolution_backward_filter", given["dy"], ddx, given["weight"], **numbers, needs=[True, False]
        )[0]
    return found


def _backward_filter(call: Call, grads: Sequence[Any], given: Given) -> Gradients:
    """Second derivative of dweight and dbias, which are linear in dy and x; unwanted results are empty."""
    numbers, needs = _numbers(given), given["needs"]
    ddweight, ddbias = grads
    dy, x, weight = given["dy"], given["x"], given["weight"]
    has_weight, outputs = ddweight.shape == weight.shape, weight.shape[0]
    found: Gradients = {"dy": None, "weight": weight * 0 if needs.get("weight") else None, "x": None}
    if needs.get("dy"):
        of_weight = call("convolution", x, ddweight, None, **numbers) if has_weight else dy * 0
        if tuple(ddbias.shape) == (outputs,):
            behind = 0 if numbers["channels_last"] else len(dy.shape) - 2
            of_weight = of_weight + ddbias.reshape(outputs, *(1,) * behind)
        found["dy"] = of_weight
    if needs.get("x"):
        found["x"] = call("convolution_backward_data", dy, ddweight, x, **numbers) if has_weight else x * 0
    return found


# Name -> its gradients by argument, and the arguments that they read, as GEMM_GRADIENTS has them.
CONVOLUTION_GRADIENTS = {
    "convolution": (_convolution, ("x", "weight", "bias")),
    "convolution_transpose": (_convolution_transpose, ("x", "weight", "bias")),
    "convolution_backward_data": (_backward_data, ("dy", "weight", "x")),
    "convolution_backward_filter": (_backward_filter, ("dy", "x", "weight")),
}
