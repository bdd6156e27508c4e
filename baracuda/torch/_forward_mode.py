# SPDX-License-Identifier: Apache-2.0
"""Forward-mode autograd for PyTorch: tangents of results from tangents of arguments (Jacobian-vector products).

Gradients with a formula are differentiated by PyTorch. Otherwise the tangent follows from the gradient: with a
symmetric Jacobian the tangent replaces dy; if each result depends on its own elements, as in reductions and
losses, it is the sum of derivatives times tangents; a function whose gradient reads none of its arguments is affine;
GEMMs are multilinear.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.autograd import forward_ad

from baracuda._functions.gradients.composite import COMPOSITE_GRADIENTS
from baracuda._functions.gradients.formulas import FORMULAS
from baracuda._functions.gradients.registry import Gradient
from baracuda._functions.spec import Spec
from baracuda.errors import UnsupportedError
from baracuda.torch._formulas import M, evaluated

Arrays = Mapping[str, Any]
Gradients = Callable[[Arrays, Any, Mapping[str, bool]], dict[str, Any]]  # (values, dy, needed arguments) -> gradients
Operators = Callable[[str], Any]

# Functions with a symmetric Jacobian along an axis.
_SYMMETRIC = ("softmax", "softmax_to_f32", "gumbel_softmax", "l2_normalize", "sparsemax", "entmax15")
# Functions that are linear in each of several groups of arguments.
_MULTILINEAR: dict[str, tuple[tuple[str, ...], ...]] = {
    **dict.fromkeys(("matmul", "grouped_gemm", "linalg_matmul"), (("a",), ("b",))),
    "convolution_backward_data": (("dy",), ("weight",)),
    **dict.fromkeys(("fft_c2c", "fft_r2c", "fft_c2r", "fft_cosine"), (("x",),)),
    "fft_convolve": (("x",), ("w",)),
    "embedding_bag_weighted": (("weight",), ("per_sample_weights",)),
    **{f"rope_apply{form}": (("x",), ("cos", "sin")) for form in ("", "_half", "_thd", "_thd_half")},
}
_ACTIVATIONS = ("relu", "gelu", "silu", "gelu_tanh")
_GATES = {"swiglu": "silu", "geglu": "gelu"}


def has_tangent(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and forward_ad.unpack_dual(value).tangent is not None


def in_forward_mode(arguments: Sequence[Any]) -> bool:
    """Whether one of the arguments has a tangent."""
    return forward_ad._current_level >= 0 and True in [has_tangent(value) for value in arguments]


def primal_of(value: Any) -> Any:
    return forward_ad.unpack_dual(value).primal if isinstance(value, torch.Tensor) else value


def tangent_of(value: Any) -> Any:
    return forward_ad.unpack_dual(value).tangent if isinstance(value, torch.Tensor) else None


def dual(result: Any, tangent: Any) -> Any:
    if tangent is None or not (result.is_floating_point() or result.is_complex()) or result.shape != tangent.shape:
        return result  # an integer, or an unwanted result
    return forward_ad.make_dual(result, tangent.to(result.dtype))


class Tangents:
    """The forward-mode rule of one operator: `found` is its gradient in the table, `gradients` computes it."""

    def __init__(
        self, spec: Spec, found: Gradient | None, has_rule: bool, operator: Operators, gradients: Gradients
    ) -> None:
        self.spec, self.found, self.operator, self.gradients = spec, found, operator, gradients
        self.composite = COMPOSITE_GRADIENTS.get(spec.name)
        self.is_affine = spec.name == "cast" or self._is_affine()
        self.has_gradient = found is not None or has_rule

    def _is_affine(self) -> bool:
        typed = {array.name for array in self.spec.arrays if _is_typed(self.spec, array.pointer)}
        typed |= {output.name for output in self.spec.outputs if _is_typed(self.spec, output.pointer)}
        if self.spec.name == "affine_grid":  # it reads only the shape and dtype of theta
            return True
        if self.composite is not None:
            return not typed.intersection([read for each in self.composite.values() for read in each.reads])
        if self.found is not None:
            results = {output.name for output in self.spec.outputs}  # if the gradient reads one, it is not affine
            if self.spec.layout in ("pointwise", "masked") or results.intersection(self.found.reads):
                return False  # elementwise: step functions read nothing, but are not affine
            return not typed.union(("y",)).intersection(self.found.read(dict.fromkeys(typed, True)))
        return not self.has_pointers_beside_dy()

    def has_pointers_beside_dy(self) -> bool:
        """Whether a gradient reads floating-point operands besides dy."""
        if not self.spec.name.endswith("_backward"):
            return True
        return any([array.pointer and _is_typed(self.spec, array.pointer) for array in self.spec.arrays[1:]])

    def __call__(self, given: Arrays, results: Sequence[Any]) -> Sequence[Any]:
        """The tangent of each result, or None; `given` are arguments, which may be dual tensors, and numbers."""
        if not any([result.is_floating_point() or result.is_complex() for result in results]):
            return [None] * len(results)
        name = self.spec.name
        dots = {a.name: tangent_of(given.get(a.name)) for a in self.spec.arrays}
        dots = {n: dot for n, dot in dots.items() if dot is not None}
        primals = {n: primal_of(value) for n, value in given.items()}
        if name in FORMULAS:
            numbers = {number.name: given[number.name] for number in self.spec.numbers}
            return [tangent_of(each) for each in evaluated(self.spec, given, numbers)]
        if name in _BY_DUALS:
            return [tangent_of(each) for each in _BY_DUALS[name](self.operator, given)]
        if name in _DIRECT:
            return [_DIRECT[name](primals, dots, results[0])]
        if name in _MULTILINEAR:
            parts = [self._called({**primals, **self._or_zeros(dots, primals, group)})[0]
                     for group in _MULTILINEAR[name] if dots.keys() & group]  # fmt: skip
            return [sum(parts[1:], parts[0])]
        if self.is_affine:
            zeros = self._or_zeros({}, primals, self._linear_arguments())
            affine, base = self._called({**primals, **zeros, **dots}), self._called({**primals, **zeros})
            return [w - b if w.is_floating_point() else None for w, b in zip(affine, base)]
        if self.found is not None or self.composite is not None:
            found = self._by_gradient(primals, dots, results)
            if found is not None:
                return [found, *[None] * (len(results) - 1)]
        reason = "forward mode: its gradient is that of reverse mode" if self.has_gradient else "gradient"
        raise UnsupportedError(f"baracuda.{name} has no {reason}")

    def _linear_arguments(self) -> list[str]:
        known: Mapping[str, object] = self.composite or {}
        if not known and self.found is not None:
            known = {**self.found.given, **self.found.separate}
        return list(known) or [self.spec.arrays[0].name]

    def _or_zeros(self, dots: Arrays, primals: Arrays, names: Sequence[str]) -> dict[str, Any]:
        """The tangents of these arguments, zeros for those without one."""
        return {n: dots[n] if n in dots else torch.zeros_like(primals[n])
                for n in names if isinstance(primals.get(n), torch.Tensor)}  # fmt: skip

    def _called(self, values: Arrays) -> list[Any]:
        options = {n.name: values[n.name] for n in self.spec.numbers if n.name not in _names(self.spec.positional)}
        if "needs" in values:
            options["needs"] = values["needs"]
        found = self.operator(self.spec.name)(*[values[a.name] for a in self.spec.positional], **options)
        return list(found) if isinstance(found, (tuple, list)) else [found]

    def _by_gradient(self, primals: Arrays, dots: Arrays, results: Sequence[Any]) -> Any:
        """The tangent of the first result."""
        result, layout = results[0], self.spec.layout
        if self.found is not None and len(self.found.incoming) > 1:
            return None
        values = {**dict(zip([o.name for o in self.spec.outputs], results)), "y": result, **primals}
        if self.spec.name in _SYMMETRIC:
            return self.gradients(values, dots["x"].to(result.dtype), {"x": True})["x"]
        if layout in ("pointwise", "masked"):
            wide = {n: value.expand(result.shape) if isinstance(value, torch.Tensor) else value
                    for n, value in values.items()}  # fmt: skip
            parts = [self.gradients(wide, dot.expand(result.shape), {n: True})[n] for n, dot in dots.items()]
            return sum(parts[1:], parts[0])
        needs = dict.fromkeys(dots, True)
        slopes = self.gradients(values, torch.ones_like(result), needs)
        parts = [self._sum_per_result(primals, slopes[n] * dot, result) for n, dot in dots.items()]
        return None if any([part is None for part in parts]) else sum(parts[1:], parts[0])

    def _sum_per_result(self, primals: Arrays, products: Any, result: Any) -> Any:
        """Sums over the elements that each result depends on; None if results share elements."""
        layout = self.spec.layout
        if layout in ("reduce", "reduce_axes"):
            axis = primals["axis"]
            axes = tuple(range(products.dim())) if axis is None or axis == [] else axis
            return products.sum(axes, keepdim=primals["keepdims"]) if products.dim() else products
        if layout == "reduce_to":
            return products.sum_to_size(result.shape)
        if layout == "gated":
            first, second = M.halves(products, primals["axis"])
            return first + second
        if self.spec.name in _SEGMENTED:
            order = "unsorted_" if self.spec.name.startswith("unsorted_") else ""
            total = self.operator(f"{order}segment_sum")
            return total(products, primals["segment_ids"], primals["num_segments"])
        if layout == "loss":
            if str(primals["reduction"]) != "none":
                return products.sum()
            if products.shape == result.shape:
                return products
            if products.dim() == result.dim() + 1 and self.spec.name != "ctc_loss_forward":
                return products.sum(1)
        return None


_SEGMENTED = tuple([f"{order}segment_{op}{end}" for order in ("", "unsorted_") for op in ("max", "min", "prod")
                    for end in ("", "_or_zero")])  # fmt: skip


def _names(arguments: Sequence[Any]) -> list[str]:
    return [argument.name for argument in arguments]


def _is_typed(spec: Spec, pointer: str) -> bool:
    """Whether an operand is of dtype T or another float, not an index or a mask."""
    slot = next((param.dtype for param in spec.row.params if param.name == pointer), "T")
    return slot.startswith("T") or slot in ("f32", "f64")


# --- functions recomputed on dual numbers -----------------------------------------------------------------------------


def _linear(call: Operators, given: Arrays, weight: str = "weight", bias: str = "bias") -> Any:
    """x weight^T + bias as a dual tensor, linear in each operand."""
    dots = {n: tangent_of(given.get(n)) for n in ("x", weight, bias)}
    x, w, b = (primal_of(given.get(n)) for n in ("x", weight, bias))
    linear = call("linear")
    parts = [linear(dots["x"], w)] if dots["x"] is not None else []
    parts += [linear(x, dots[weight])] if dots[weight] is not None else []
    result = linear(x, w, b)
    parts += [dots[bias].expand(result.shape)] if dots[bias] is not None else []
    return forward_ad.make_dual(result, sum(parts[1:], parts[0])) if parts else result


def _activated(name: str) -> Callable[[Operators, Arrays], Any]:
    def results(call: Operators, given: Arrays) -> Any:
        z = _linear(call, given)
        return call(name)(z), z

    return results


def _gated(name: str) -> Callable[[Operators, Arrays], Any]:
    def results(call: Operators, given: Arrays) -> Any:
        z, up = _linear(call, given), _linear(call, given, "up_weight", "up_bias")
        return call("mul")(call(name)(z), up), z, up

    return results


def _linear_backward(call: Operators, given: Arrays) -> Any:
    dy, x, weight = given["dy"], given["x"], given["weight"]
    rows, needs = dy.reshape(-1, dy.shape[-1]), given.get("needs") or [True] * 3
    found: tuple[Callable[[], Any], ...]
    found = (lambda: dy @ weight, lambda: rows.mT @ x.reshape(-1, x.shape[-1]), lambda: rows.sum(0))
    return [make() if need else dy.new_empty(0) for make, need in zip(found, needs)]


def _convolution(name: str) -> Callable[[Operators, Arrays], Any]:
    """act(conv(x, weight) + bias) as a dual tensor; conv is linear in each operand."""

    def results(call: Operators, given: Arrays) -> Any:
        names = ("stride", "padding", "padding_after", "output_padding", "dilation", "groups", "channels_last")
        numbers = {n: given[n] for n in (*names, "allow_tf32") if n in given}
        dots = {n: tangent_of(given.get(n)) for n in ("x", "weight", "bias")}
        x, weight, bias = (primal_of(given.get(n)) for n in ("x", "weight", "bias"))
        operator = call(name)
        z = operator(x, weight, bias, **numbers)
        parts = [operator(dots["x"], weight, None, **numbers)] if dots["x"] is not None else []
        parts += [operator(x, dots["weight"], None, **numbers)] if dots["weight"] is not None else []
        if dots["bias"] is not None:
            behind = 0 if given["channels_last"] else z.dim() - 2
            parts.append(dots["bias"].reshape(-1, *[1] * behind).expand(z.shape))
        if parts:
            z = forward_ad.make_dual(z, sum(parts[1:], parts[0]))
        activation = int(given["activation"])
        return [call(_ACTIVATIONS[activation - 1])(z) if activation else z]

    return results


def _matmul_backward(call: Operators, given: Arrays) -> Any:
    dy, a, b = given["dy"], given["a"], given["b"]
    needs = given.get("needs") or [True] * 2
    found: tuple[Callable[[], Any], ...] = (lambda: dy @ b.mT, lambda: a.mT @ dy)
    return [make() if need else dy.new_empty(0) for make, need in zip(found, needs)]


def _normed(has_mean: bool, of_sum: bool = False) -> Callable[[Operators, Arrays], Any]:
    def results(call: Operators, given: Arrays) -> Any:
        x = given["x"] + given["residual"] if of_sum else given["x"]
        axis = given["axis"]
        axes = [axis] if isinstance(axis, int) else list(axis)
        wide = x.double() if x.dtype is torch.float64 else x.float()
        rank = x.dim()
        shape = [x.shape[a] if a in [b % rank for b in axes] else 1 for a in range(rank)]
        d = wide - wide.mean(axes, keepdim=True) if has_mean else wide
        y = d * torch.rsqrt((d * d).mean(axes, keepdim=True) + given["eps"])
        if given.get("gamma") is not None:
            y = y * (given["gamma"].reshape(shape) + given.get("gamma_offset", 0.0))
        if given.get("beta") is not None:
            y = y + given["beta"].reshape(shape)
        return [y, *([x] if of_sum else [])]

    return results


def _normed_channels(kind: str) -> Callable[[Operators, Arrays], Any]:
    def results(call: Operators, given: Arrays) -> Any:
        x = given["x"].double() if given["x"].dtype is torch.float64 else given["x"].float()
        is_last = "channels_last" in kind or given.get("channels_last", False)
        x = x.movedim(-1, 1) if is_last else x
        count = x.shape[1]
        if "batch" in kind:
            d = x - x.mean([a for a in range(x.dim()) if a != 1], keepdim=True)
            y = d * torch.rsqrt((d * d).mean([a for a in range(x.dim()) if a != 1], keepdim=True) + given["eps"])
        else:
            grouped = x.reshape(x.shape[0], given.get("num_groups") or count, math.prod(x.shape[1:]) // (
                given.get("num_groups") or count))  # fmt: skip
            d = grouped - grouped.mean(-1, keepdim=True)
            y = (d * torch.rsqrt((d * d).mean(-1, keepdim=True) + given["eps"])).reshape(x.shape)
        shape = [count if a == 1 else 1 for a in range(x.dim())]
        y = y if given.get("gamma") is None else y * given["gamma"].reshape(shape)
        y = y if given.get("beta") is None else y + given["beta"].reshape(shape)
        return [y.movedim(1, -1) if is_last else y]

    return results


def _prelu(call: Operators, given: Arrays) -> Any:
    x, weight, axis = given["x"], given["weight"], given["axis"] % max(given["x"].dim(), 1)
    is_single = weight.numel() == 1 and weight.dim() < 2
    w = weight.reshape([1] * x.dim() if is_single else [-1 if a == axis else 1 for a in range(x.dim())])
    return [torch.where(x > 0, x, w * x)]


_BY_DUALS: dict[str, Callable[[Operators, Arrays], Any]] = {
    "linear": lambda call, given: [_linear(call, given)],
    **{f"linear_{name}_forward": _activated(name) for name in _ACTIVATIONS},
    **{f"linear_{name}_forward": _gated(gate) for name, gate in _GATES.items()},
    **{name: _convolution(name) for name in ("convolution", "convolution_transpose")},
    "linear_backward": _linear_backward, "matmul_backward": _matmul_backward, "prelu": _prelu,
    "layer_norm_forward": _normed(True), "rms_norm_forward": _normed(False),
    "add_layer_norm_forward": _normed(True, True), "add_rms_norm_forward": _normed(False, True),
    **{f"{kind}_forward": _normed_channels(kind) for kind in (
        "batch_norm", "group_norm", "group_norm_wide", "instance_norm", "instance_norm_wide",
        "group_norm_channels_last", "instance_norm_channels_last",
    )},
    "batch_norm_training": _normed_channels("batch_norm"),
}  # fmt: skip


# --- along an axis ----------------------------------------------------------------------------------------------------


def _log_softmax(given: Arrays, dots: Arrays, y: Any) -> Any:
    dot = dots["x"].to(y.dtype)
    return dot - (y.exp() * dot).sum(given["axis"], keepdim=True)


def _arriving(given: Arrays, dots: Arrays, y: Any) -> Any:
    """The tangent of scale x + bias."""
    parts = [given["scale"] * dots["x"]] if "x" in dots else []
    parts += [dots["bias"].expand(y.shape)] if "bias" in dots else []
    return sum(parts[1:], parts[0])


def _masked_softmax(given: Arrays, dots: Arrays, y: Any) -> Any:
    dot = _arriving(given, dots, y)
    return y * (dot - (y * dot).sum(given["axis"], keepdim=True))


def _masked_log_softmax(given: Arrays, dots: Arrays, y: Any) -> Any:
    dot = torch.where(y == -math.inf, 0, _arriving(given, dots, y))
    return torch.where(y == -math.inf, 0, dot - (y.exp() * dot).sum(given["axis"], keepdim=True))


_DIRECT: dict[str, Callable[[Arrays, Arrays, Any], Any]] = {
    **dict.fromkeys(("log_softmax", "log_softmax_to_f32"), _log_softmax),
    "masked_softmax": _masked_softmax, "masked_log_softmax": _masked_log_softmax,
}  # fmt: skip
