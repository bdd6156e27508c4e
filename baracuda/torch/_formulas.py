# SPDX-License-Identifier: Apache-2.0
"""PyTorch functions for the gradient formulas of _functions/gradients/formulas.py."""

from __future__ import annotations

import types
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from baracuda._functions.gradients.formulas import FORMULAS
from baracuda._functions.spec import Spec

_NARROW = (torch.float16, torch.bfloat16)


def _halves(x: torch.Tensor, axis: int) -> tuple[torch.Tensor, torch.Tensor]:
    half = x.shape[axis] // 2
    return x.narrow(axis, 0, half), x.narrow(axis, half, half)


def _one_hot(index: torch.Tensor, count: int, axis: int) -> torch.Tensor:
    each = torch.arange(count, device=index.device)
    shape = [count if a == axis else 1 for a in range(index.dim() + 1)]
    return (index.unsqueeze(axis) == each.reshape(shape)).to(torch.float32)


M = types.SimpleNamespace(
    **{name: getattr(torch, name) for name in (
        "exp", "log", "sin", "cos", "sinh", "cosh", "tanh", "sqrt", "erf", "digamma", "abs", "sign", "sigmoid",
        "floor", "trunc", "isnan", "copysign", "where",
    )},
    ndtr=torch.special.ndtr, trigamma=lambda x: torch.polygamma(1, x), stop=torch.Tensor.detach, power=torch.pow,
    sum=lambda x, axes: torch.sum(x, axes, keepdim=True) if axes else x,
    mean=lambda x, axes: torch.mean(x, axes, keepdim=True) if axes else x,
    max=lambda x, axis: torch.amax(x, axis, keepdim=True),
    halves=_halves, concat=lambda a, b, axis: torch.cat([a, b], axis), one_hot=_one_hot,
)  # fmt: skip


def evaluated(spec: Spec, arrays: Mapping[str, Any], numbers: Mapping[str, Any]) -> tuple[torch.Tensor, ...]:
    """The results of a gradient by its formula; 16-bit arrays are computed in f32."""
    given = [_as_f32(arrays.get(argument.name)) for argument in spec.arrays]
    found = FORMULAS[spec.name](M, *given, **numbers)
    results = found if isinstance(found, tuple) else (found,)
    if spec.layout in ("pointwise", "masked"):
        shapes = {a.name: arrays[a.name].shape for a in spec.arrays if arrays.get(a.name) is not None}
        whole = torch.broadcast_shapes(*shapes.values())
        wanted = [shapes.get(output.name[1:], whole) for output in spec.outputs]
        results = tuple([each.expand(whole).sum_to_size(shape) for each, shape in zip(results, wanted)])
    return results


def _as_f32(array: Any) -> Any:
    return array.float() if isinstance(array, torch.Tensor) and array.dtype in _NARROW else array


def formula_vjp(
    spec: Spec, given: Mapping[str, Any], grads: Sequence[Any], needs: Mapping[str, bool]
) -> dict[str, Any]:  # fmt: skip
    """Second derivatives: the vector-Jacobian product of a gradient's formula; unneeded results are empty."""
    numbers = {number.name: given[number.name] for number in spec.numbers}
    arrays = {argument.name: given.get(argument.name) for argument in spec.arrays}
    names = [name for name, array in arrays.items() if array is not None and needs.get(name)]

    def formula(*values: Any) -> tuple[torch.Tensor, ...]:
        return evaluated(spec, {**arrays, **dict(zip(names, values))}, numbers)

    results, pull = torch.func.vjp(formula, *[arrays[name] for name in names])
    cotangents = [g.to(r.dtype) if g is not None and g.shape == r.shape else torch.zeros_like(r)
             for r, g in zip(results, grads)]  # fmt: skip
    return dict(zip(names, pull(tuple(cotangents))))
