# SPDX-License-Identifier: Apache-2.0
"""torch.vmap over the operators: one call if the op takes a leading batch axis, else a call for each element."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from baracuda._functions.shape_rules.infer import infer_served
from baracuda._functions.shape_rules.matrices import own_axes
from baracuda._functions.spec import Spec

_ALONG = ("softmax", "scan", "sort", "gated")  # shape rules along one axis, with any other axes


def batched(spec: Spec, operator: Any) -> Callable[..., Any]:
    """The vmap rule of an operator, for torch.library.register_vmap."""
    names = [argument.name for argument in (*spec.positional, *spec.by_position)]
    defaults = {each.name: each.default for each in (*spec.arrays, *spec.numbers)}
    takes_batch_axis = spec.layout in (*_ALONG, "pointwise", "masked", "matrices")
    # Axes of each argument behind those of the batch, which broadcast on their own.
    own = own_axes(spec) if spec.layout == "matrices" else {}

    def rule(info: Any, in_dims: Sequence[Any], *arguments: Any, **numbers: Any) -> tuple[Any, Any]:
        dims = [dim if isinstance(dim, int) else None for dim in in_dims]
        dims += [None] * (len(arguments) - len(dims))
        given = defaults | dict(zip(names, arguments)) | numbers
        if not takes_batch_axis or given.get("needs") is not None:
            return _one_by_one(operator, info.batch_size, dims, arguments, numbers)
        tensors = {n: (a, d) for n, a, d in zip(names, arguments, dims) if isinstance(a, torch.Tensor)}
        shapes = {n: tuple(a.shape if d is None else a.select(d, 0).shape) for n, (a, d) in tensors.items()}
        rank = max(len(shape) - own.get(n, 0) for n, shape in shapes.items())
        spread = {n: _batch_first(a, d, info.batch_size, rank + own.get(n, 0)) for n, (a, d) in tensors.items()}
        if "axis" in given and given["axis"] >= 0:  # becomes negative, as the batch axis comes first
            if "axis" in names[: len(arguments)]:
                spread["axis"] = given["axis"] - rank
            else:
                numbers["axis"] = given["axis"] - rank
        found = operator(*[spread.get(n, a) for n, a in zip(names, arguments)], **numbers)
        served, meta = infer_served(spec, shapes, {number.name: given[number.name] for number in spec.numbers})
        wanted = [(info.batch_size, *meta.shapes[output.pointer]) for output in served.outputs]
        if isinstance(found, tuple):
            return tuple([each.reshape(shape) for each, shape in zip(found, wanted)]), (0,) * len(wanted)
        return found.reshape(wanted[0]), 0

    return rule


def _batch_first(array: torch.Tensor, dim: int | None, count: int, rank: int) -> torch.Tensor:
    """The batch axis first, then axes of extent 1 up to `rank`, then the others."""
    array = array.expand(count, *array.shape) if dim is None else array.movedim(dim, 0)
    return array.reshape(count, *(1,) * (rank + 1 - array.dim()), *array.shape[1:])


def _one_by_one(
    operator: Any, count: int, dims: Sequence[int | None], arguments: Sequence[Any], numbers: dict[str, Any]
) -> tuple[Any, Any]:
    def at(k: int) -> Any:
        return operator(*[a if d is None else a.select(d, k) for a, d in zip(arguments, dims)], **numbers)

    results = [at(k) for k in range(count)]
    if isinstance(results[0], (tuple, list)):
        return tuple([torch.stack(each) for each in zip(*results)]), (0,) * len(results[0])
    return torch.stack(results), 0
