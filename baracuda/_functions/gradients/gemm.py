# SPDX-License-Identifier: Apache-2.0
"""Gradients of linear layers and matmul as calls of functions, shared by PyTorch and JAX. They are differentiable again
if the gradients of their activations are.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from baracuda._functions.gradients.convolution import CONVOLUTION_GRADIENTS

Call = Callable[..., Any]  # calls a function by its name
Given = Mapping[str, Any]  # saved arrays by name, and "needs": which arguments require a gradient
Gradients = dict[str, Any]
GradientRule = Callable[[Call, Any, Given], Gradients]

_ACTIVATIONS = ("relu", "gelu", "silu", "gelu_tanh")
_GATES = {"swiglu": "silu", "geglu": "gelu"}


def _linear(call: Call, dy: Any, given: Given, names: Sequence[str] = ("x", "weight", "bias")) -> Gradients:
    """`names` are the arguments for x, weight and bias. A dy of None gives no gradients."""
    needs = [given["needs"].get(name, False) for name in names]
    if dy is None or True not in needs:
        return dict.fromkeys(names)
    return dict(zip(names, call("linear_backward", dy, given[names[0]], given[names[1]], needs=needs)))


def _sum_of(*parts: Any) -> Any:
    """The sum of the parts that are not None; None if all are."""
    return functools.reduce(lambda sum, part: sum if part is None else part if sum is None else sum + part, parts)


def _activated(name: str) -> GradientRule:
    """Gradient of y = act(z). Incoming gradients are those of y and z (from second derivatives), or None."""

    def rule(call: Call, grads: Sequence[Any], given: Given) -> Gradients:
        dy, dz = grads
        dz = _sum_of(dz, None if dy is None else call(f"{name}_backward", dy, given["z"]))
        return _linear(call, dz, given)

    return rule


def _gated(name: str) -> GradientRule:
    """Gradient of y = act(z) up_z; incoming gradients are those of y, z and up_z."""

    def rule(call: Call, grads: Sequence[Any], given: Given) -> Gradients:
        dy, dz, dup = grads
        if dy is not None:
            dz = _sum_of(dz, call(f"{name}_backward", call("mul", dy, given["up_z"]), given["z"]))
            dup = _sum_of(dup, call("mul", dy, call(name, given["z"])))
        first, second = _linear(call, dz, given), _linear(call, dup, given, ("x", "up_weight", "up_bias"))
        return {**first, **second, "x": _sum_of(first["x"], second["x"])}

    return rule


def _recomputed(name: str, rule: GradientRule) -> GradientRule:
    """The gradient with z and up_z recomputed from the arguments."""

    def recomputed(call: Call, dy: Any, given: Given) -> Gradients:
        sums = {"z": call("linear", given["x"], given["weight"], given.get("bias"))}
        if name in _GATES:
            sums["up_z"] = call("linear", given["x"], given["up_weight"], given.get("up_bias"))
        return rule(call, (dy, *[None] * len(sums)), {**given, **sums})

    return recomputed


def _linear_backward(call: Call, grads: Sequence[Any], given: Given) -> Gradients:
    """Second derivative: dx = dy weight, dweight = dy^T x, dbias = sum of dy; unwanted results are empty."""
    dy, x, weight = (given[name] for name in ("dy", "x", "weight"))
    dx, dweight, dbias = grads
    rows, found = dy.reshape(-1, dy.shape[-1]), {"dy": dy * 0, "x": x * 0, "weight": weight * 0}
    if dx.shape == x.shape:
        found["dy"] = found["dy"] + call("linear", dx, weight)
        found["weight"] = call("matmul", rows.mT, dx.reshape(-1, x.shape[-1]))
    if dweight.shape == weight.shape:
        found["dy"] = found["dy"] + call("linear", x, dweight)
        found["x"] = call("matmul", rows, dweight).reshape(x.shape)
    if dbias.shape == weight.shape[:1]:
        found["dy"] = found["dy"] + dbias
    return found


def _matmul_backward(call: Call, grads: Sequence[Any], given: Given) -> Gradients:
    """Second derivative: da = dy b^T, db = a^T dy; an unwanted result is empty."""
    dy, a, b = (given[name] for name in ("dy", "a", "b"))
    (da, db), found = grads, {"dy": dy * 0, "a": a * 0, "b": b * 0}
    if da.shape == a.shape:
        found["dy"], found["b"] = found["dy"] + call("matmul", da, b), call("matmul", da.mT, dy)
    if db.shape == b.shape:
        found["dy"], found["a"] = found["dy"] + call("matmul", a, db), call("matmul", dy, db.mT)
    return found


def matmul_same_batch(call: Call, dy: Any, given: Given) -> Gradients | None:
    """Gradients of a matmul with equal batch axes; None for other shapes."""
    a, b, needs = given["a"], given["b"], given["needs"]
    if len(a.shape) < 2 or len(b.shape) < 2 or a.shape[:-2] != b.shape[:-2]:
        return None
    return dict(zip("ab", call("matmul_backward", dy, a, b, needs=[needs["a"], needs["b"]])))


_MAXIMA = ("absmax", "absmax_codes", "absmax_map", "absmax_outer", "absmax_offset")


def _coded(decode: Callable[[Call, Any, Given], Any]) -> GradientRule:
    """dx = dy times the decoded weights, dbias = sum of dy over its rows; the weights are constant."""

    def rule(call: Call, dy: Any, given: Given) -> Gradients:
        needs, found = given["needs"], {}
        if needs.get("x"):
            found["x"] = call("matmul", dy, decode(call, dy, given))
        if needs.get("bias"):
            found["bias"] = dy.reshape(-1, dy.shape[-1]).sum(0)
        return found

    return rule


def _blocks(call: Call, dy: Any, given: Given) -> Any:
    return call("dequantize_blocks", given["w"], format=given["format"], dtype=dy.dtype)


def _mx_blocks(call: Call, dy: Any, given: Given) -> Any:
    numbers = {name: given[name] for name in ("mx_format", "scale_layout")}
    arrays = (given["codes"], given["scales"], given.get("tensor_scale"))
    return call("dequantize_mx", *arrays, **numbers, dtype=dy.dtype)


def _four_bits(call: Call, dy: Any, given: Given) -> Any:
    n, k = dy.shape[-1], given["x"].shape[-1]
    numbers = {name: given[name] for name in ("block_size", "book")}
    arrays = (given["codes"], *[given.get(name) for name in _MAXIMA])
    return call("dequantize_4bit", *arrays, numel=n * k, **numbers, dtype=dy.dtype).reshape(n, k)


# Name -> its gradients by argument, and the arguments and results that they read.
GEMM_GRADIENTS: dict[str, tuple[GradientRule, tuple[str, ...]]] = {
    "linear": (_linear, ("x", "weight")),
    "linear_backward": (_linear_backward, ("dy", "x", "weight")),
    "matmul_backward": (_matmul_backward, ("dy", "a", "b")),
    "quantized_matmul": (_coded(_blocks), ("w",)),
    "mx_matmul": (_coded(_mx_blocks), ("codes", "scales", "tensor_scale")),
    "gemv_4bit": (_coded(_four_bits), ("x", "codes", *_MAXIMA)),
    **CONVOLUTION_GRADIENTS,
}
for _name in _ACTIVATIONS:
    GEMM_GRADIENTS[f"linear_{_name}_forward"] = _activated(_name), ("x", "weight", "z")
    GEMM_GRADIENTS[f"linear_{_name}"] = _recomputed(_name, _activated(_name)), ("x", "weight", "bias")
for _name, _function in _GATES.items():
    _reads = ("x", "weight", "up_weight")
    GEMM_GRADIENTS[f"linear_{_name}_forward"] = _gated(_function), (*_reads, "z", "up_z")
    GEMM_GRADIENTS[f"linear_{_name}"] = _recomputed(_name, _gated(_function)), (*_reads, "bias", "up_bias")
