"""The same functions in PyTorch, where it has them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tools.accuracy.functions import Function

# Names that torch or torch.nn.functional spell otherwise.
_OTHER = {
    "gelu_erf": lambda torch, x: torch.nn.functional.gelu(x),
    "gelu_tanh": lambda torch, x: torch.nn.functional.gelu(x, approximate="tanh"),
    "relu_propagating": lambda torch, x: torch.relu(x),
    "cube": lambda torch, x: torch.pow(x, 3),
    "powf": lambda torch, x, p: torch.pow(x, p),
    "powi": lambda torch, x, n: torch.pow(x, int(n)),
    "elu": lambda torch, x, alpha=1.0: torch.nn.functional.elu(x, alpha),
    "softplus": lambda torch, x, *p: torch.nn.functional.softplus(x, *p),
    "logit": lambda torch, x, *p: torch.logit(x, *p),
    "hardshrink": lambda torch, x: torch.nn.functional.hardshrink(x),
    "softshrink": lambda torch, x: torch.nn.functional.softshrink(x),
}
_BINARY = {
    "div": "div", "pow": "pow", "atan2": "atan2", "hypot": "hypot", "floor_divide": "floor_divide", "mod": "remainder",
    "remainder": "fmod",
}  # fmt: skip
# Gradients from the output, as the tables have them; others of that kind are PyTorch's own business.
_FROM_OUTPUT = {"tanh": "tanh_backward", "sigmoid": "sigmoid_backward"}
_NONE = {"relu", "cbrt", "step"}  # PyTorch's relu keeps NaN: it is relu_propagating


def peer(torch: Any, function: Function) -> Callable[..., Any] | None:
    """Of tensors as the operands of `function`; None where PyTorch has no such function."""
    if torch is None:
        return None
    if function.kind == "binary":
        return getattr(torch, _BINARY[function.name])
    forward = _forward(torch, function)
    if forward is None or function.kind == "unary":
        return forward
    if function.operands[1] == "y":
        name = _FROM_OUTPUT.get(function.name)
        return getattr(torch.ops.aten, name) if name else None

    def backward(dy: Any, x: Any) -> Any:
        leaf = x.detach().requires_grad_()
        forward(leaf).backward(dy)
        return leaf.grad

    return backward


def _forward(torch: Any, function: Function) -> Callable[[Any], Any] | None:
    name, parameters = function.name, function.parameters
    if name in _NONE:
        return None
    if name in _OTHER:
        return lambda x: _OTHER[name](torch, x, *parameters)
    for place in (torch, torch.nn.functional, torch.special):
        if found := getattr(place, name, None):
            return lambda x: found(x)
    return None
