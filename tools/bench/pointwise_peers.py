"""What PyTorch has for the elementwise ops: the call that is timed, and float64 for the check before it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

Named = list[tuple[str, Callable[[], Any]]]

# ops whose function in torch has another name or none; x is the input, F torch.nn.functional
_FORWARD: dict[str, Callable[..., Any]] = {
    "cube": lambda t, F, x: x * x * x,
    "cbrt": lambda t, F, x: x.sign() * x.abs().pow(1 / 3),
    "step": lambda t, F, x: (x > 0).to(x.dtype),
    "relu_propagating": lambda t, F, x: t.relu(x),
    "gelu": lambda t, F, x: F.gelu(x),
    "gelu_tanh": lambda t, F, x: F.gelu(x, approximate="tanh"),
    "softplus": lambda t, F, x: F.softplus(x, threshold=20 if x.dtype != t.float64 else 40),
    "elu": lambda t, F, x: F.elu(x, 1.5),
    "powf": lambda t, F, x: x.pow(1.5),
    "threshold": lambda t, F, x: F.threshold(x, 0.5, -1.0),
    "fmin": lambda t, F, a, b: t.fmin(a, b),
    "mod": lambda t, F, a, b: t.remainder(a, b),
    "remainder": lambda t, F, a, b: t.fmod(a, b),
    "clamp": lambda t, F, a, b, c: t.minimum(t.maximum(a, b), c),
    "fma": lambda t, F, a, b, c: t.addcmul(c, a, b),
    "addcmul": lambda t, F, a, b, c: t.addcmul(a, b, c, value=0.5),
    "addcdiv": lambda t, F, a, b, c: t.addcdiv(a, b, c, value=0.5),
    "where": lambda t, F, c, a, b: t.where(c != 0, a, b),
    "affine": lambda t, F, x: x * 1.5 - 0.25,
}
_FUNCTIONAL = """
    silu mish softsign tanhshrink relu6 hardswish hardsigmoid hardtanh selu leaky_relu hardshrink softshrink
""".split()
# gradients from the output, or that autograd would take several kernels for
_BACKWARD: dict[str, Callable[..., Any]] = {
    "exp": lambda t, dy, y: dy * y,
    "exp2": lambda t, dy, y: dy * y * math.log(2),
    "expm1": lambda t, dy, y: dy * (y + 1),
    "sqrt": lambda t, dy, y: dy / (2 * y),
    "rsqrt": lambda t, dy, y: -0.5 * dy * y * y * y,
    "cbrt": lambda t, dy, y: dy / (3 * y * y),
    "erfinv": lambda t, dy, y: dy * (y * y).exp() * (math.sqrt(math.pi) / 2),
    "tanh": lambda t, dy, y: t.ops.aten.tanh_backward(dy, y),
    "sigmoid": lambda t, dy, y: t.ops.aten.sigmoid_backward(dy, y),
    "gelu": lambda t, dy, x: t.ops.aten.gelu_backward(dy, x),
    "gelu_tanh": lambda t, dy, x: t.ops.aten.gelu_backward(dy, x, approximate="tanh"),
    "silu": lambda t, dy, x: t.ops.aten.silu_backward(dy, x),
    "mish": lambda t, dy, x: t.ops.aten.mish_backward(dy, x),
    "softplus": lambda t, dy, x: t.ops.aten.softplus_backward(dy, x, 1.0, 20.0),
    "hardswish": lambda t, dy, x: t.ops.aten.hardswish_backward(dy, x),
    "hardsigmoid": lambda t, dy, x: t.ops.aten.hardsigmoid_backward(dy, x),
    "hardtanh": lambda t, dy, x: t.ops.aten.hardtanh_backward(dy, x, -1.0, 1.0),
    "leaky_relu": lambda t, dy, x: t.ops.aten.leaky_relu_backward(dy, x, 0.01, False),
    "relu": lambda t, dy, x: t.ops.aten.threshold_backward(dy, x, 0.0),
    "logit": lambda t, dy, x: t.ops.aten.logit_backward(dy, x, None),
    "hardshrink": lambda t, dy, x: t.ops.aten.hardshrink_backward(dy, x, 0.5),
    "softshrink": lambda t, dy, x: t.ops.aten.softshrink_backward(dy, x, 0.5),
    "frac": lambda t, dy, x: dy.clone(),
    "tan": lambda t, dy, x: dy * (x.tan().square() + 1),  # autograd has the tangent, these two begin with x
    "tanhshrink": lambda t, dy, x: dy * x.tanh().square(),
    "sin": lambda t, dy, x: dy * x.cos(),
    "cos": lambda t, dy, x: dy * -x.sin(),
    "log": lambda t, dy, x: dy / x,
    "square": lambda t, dy, x: dy * 2 * x,
    "reciprocal": lambda t, dy, x: -dy / (x * x),
    "abs": lambda t, dy, x: dy * x.sgn(),
}
_PAIR_BACKWARD: dict[str, Callable[..., Any]] = {
    "add": lambda t, dy: (dy + 0, dy + 0),
    "sub": lambda t, dy: (dy + 0, -dy),
    "mul": lambda t, dy, a, b: (dy * b, dy * a),
    "div": lambda t, dy, a, b: (dy / b, -dy * a / (b * b)),
    "where": lambda t, dy, c: (t.where(c, dy, 0), t.where(c, 0, dy)),
}


def forward(torch: Any, op: str, *x: Any) -> Any:
    functional = torch.nn.functional
    if op in _FORWARD:
        return _FORWARD[op](torch, functional, *x)
    return getattr(functional if op in _FUNCTIONAL else torch, op)(*x)


def evaluate(torch: Any, spec: Any, inputs: list[Any]) -> list[Any] | None:
    """Outputs in float64; None where PyTorch has no such function."""
    if spec.op == "cast":
        return [inputs[0].double()]
    # of the storage dtype; of the exact quotient; ties are told apart
    if spec.op in ("nextafter", "floor_divide", "fmin_backward", "fmax_backward"):
        return None
    x = [t.double() for t in inputs]
    op = spec.op.removesuffix("_backward")
    if op == spec.op:
        return [forward(torch, op, *x)]
    if op == "where":
        return list(_PAIR_BACKWARD[op](torch, x[1], inputs[0] != 0))
    if op in _PAIR_BACKWARD:
        return list(_PAIR_BACKWARD[op](torch, *x))
    if op in ("floor", "ceil", "round", "trunc", "sign", "step"):
        return [torch.zeros_like(x[0])]
    if op in ("exp", "exp2", "expm1", "sqrt", "rsqrt", "cbrt", "erfinv", "tanh", "sigmoid"):
        return [_BACKWARD[op](torch, *x)]
    saved = [t.detach().requires_grad_() for t in x[1:]]
    return list(torch.autograd.grad(forward(torch, op, *saved), saved, x[0]))


def peers_of(problem: Any, on_gpu: bool) -> Named:
    """PyTorch's calls, eager, into the same memory where it has an `out=`."""
    torch, spec = problem.data.torch, problem.spec
    if torch is None:
        return []
    call = _peer(torch, spec, problem.views[: len(spec.inputs)], problem.views[len(spec.inputs) :], problem.extra)
    if call is None:
        return []
    try:
        call()
    except (RuntimeError, NotImplementedError, TypeError, AttributeError):
        return []
    return [("torch", call)]


def _peer(torch: Any, spec: Any, x: list[Any], y: list[Any], extra: list[Any]) -> Callable[[], Any] | None:
    op = spec.op.removesuffix("_backward")
    backward = op != spec.op
    if spec.op == "cast":
        return None if {"s4", "u4"} & set(spec.dtypes) else lambda: y[0].copy_(x[0])
    if spec.op == "fill":
        return lambda: y[0].fill_(0)
    if spec.layout.startswith("gated"):
        return _gated(torch, op, x) if not backward else None
    if spec.layout.startswith("prelu"):
        return None
    if backward:
        if op == "where":
            return lambda: _PAIR_BACKWARD[op](torch, x[1], x[0] != 0)
        table = _PAIR_BACKWARD if op in _PAIR_BACKWARD else _BACKWARD
        if op in table:
            return lambda: table[op](torch, *x)
        return _derived(torch, op, x) if len(x) == 2 and x[0].device.type == "cpu" else None
    if op == "where":
        condition = x[0].bool()
        return lambda: torch.where(condition, x[1], x[2], out=y[0])
    if spec.layout == "transposed" and len(x) == 1:  # PyTorch would keep the order of the input
        return lambda: y[0].copy_(forward(torch, op, *x))
    if op in _FORWARD or op in _FUNCTIONAL:
        return None if op in ("cube", "cbrt", "step") else lambda: forward(torch, op, *x)
    function = getattr(torch, op, None)
    return None if function is None else lambda: function(*x, out=y[0])


def _derived(torch: Any, op: str, x: list[Any]) -> Callable[[], Any]:
    """What autograd does, the function itself having been computed before."""
    dy, saved = x[0], x[1].detach().requires_grad_()
    result = forward(torch, op, saved)
    return lambda: torch.autograd.grad(result, saved, dy, retain_graph=True)


def _gated(torch: Any, op: str, x: list[Any]) -> Callable[[], Any]:
    functional = torch.nn.functional
    if op == "glu":
        return lambda: functional.glu(x[0], -1)
    activation = {"reglu": torch.relu, "swiglu": functional.silu, "geglu": functional.gelu}[op]
    half = x[0].shape[1] // 2
    return lambda: x[0][:, :half] * activation(x[0][:, half:])
