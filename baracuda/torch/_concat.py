# SPDX-License-Identifier: Apache-2.0
"""concatenate, stack and split for PyTorch: operators on lists of tensors. concatenate and split are each other's
gradients.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import torch

from baracuda import concatenation
from baracuda._call.scalars import shown
from baracuda._functions.shape_rules.call_meta import axis_of
from baracuda.errors import InvalidProblemError

SCHEMAS = {
    "concatenate": "concatenate(Tensor[] arrays, *, int axis=0) -> Tensor",
    "split": "split(Tensor x, SymInt[] extents, *, int axis=0) -> Tensor[]",
}
FUNCTIONS = ("concatenate", "split", "stack")
Operator = Callable[[str], Any]


def define(name: str, library: torch.library.Library, operator: Operator) -> None:
    """Register an operator of SCHEMAS with its fake kernel and gradient."""
    qualified = f"{library.ns}::{name}"
    kernel, fake, gradient = (
        (_concatenated, _fake_concatenated, _OfConcatenate)
        if name == "concatenate"
        else (_split, _fake_split, _OfSplit)
    )
    library.define(SCHEMAS[name], tags=(torch.Tag.pt2_compliant_tag,))
    library.impl(name, kernel, "CompositeExplicitAutograd")
    torch.library.register_fake(qualified, fake, lib=library)
    of = gradient(operator)
    torch.library.register_autograd(qualified, of.backward, setup_context=of.save, lib=library)


def made(name: str, operator: Operator, promoted: Callable[..., list[Any]]) -> Any:
    """A function of FUNCTIONS, with the signature of baracuda's function except `out`."""
    concatenate_operator, split_operator = operator("concatenate"), operator("split")  # Dynamo cannot register them

    def concatenate(arrays: Sequence[Any], *, axis: int = 0) -> torch.Tensor:
        return concatenate_operator(promoted(*_listed(arrays)), axis=axis)

    def stack(arrays: Sequence[Any], *, axis: int = 0) -> torch.Tensor:
        given = promoted(*_listed(arrays))
        along = axis_of("axis", axis, (*given[0].shape, 1))
        return concatenate_operator([array.unsqueeze(along) for array in given], axis=along)

    def split(x: torch.Tensor, sections: int | Sequence[int], *, axis: int = 0) -> tuple[torch.Tensor, ...]:
        shape = tuple(x.shape)
        return tuple(split_operator(x, concatenation.extents_of(shape, sections, axis), axis=axis))

    function = {"concatenate": concatenate, "stack": stack, "split": split}[name]
    function.__doc__, function.__module__ = getattr(concatenation, name).__doc__, "baracuda.torch"
    function.__qualname__ = name
    return function


def _listed(arrays: object) -> Sequence[Any]:
    if not isinstance(arrays, (list, tuple)) or not arrays:
        raise InvalidProblemError(f"arrays is {shown(arrays)}, must be a list or tuple of one tensor or more")
    return arrays


def _concatenated(arrays: Sequence[torch.Tensor], *, axis: int = 0) -> Any:
    return concatenation.concatenate([array.detach() for array in arrays], axis=axis)


def _split(x: torch.Tensor, extents: Sequence[int], *, axis: int = 0) -> list[torch.Tensor]:
    ends = list(itertools.accumulate(extents))
    return list(concatenation.split(x.detach(), ends[:-1], axis=axis))


def _with(shape: Sequence[Any], axis: int, extent: Any) -> list[Any]:
    along = axis_of("axis", axis, tuple(shape))
    return [extent if d == along else own for d, own in enumerate(shape)]


def _fake_concatenated(arrays: Sequence[torch.Tensor], *, axis: int = 0) -> torch.Tensor:
    whole = sum([array.shape[axis] for array in arrays])
    return arrays[0].new_empty(_with(arrays[0].shape, axis, whole))


def _fake_split(x: torch.Tensor, extents: Sequence[int], *, axis: int = 0) -> list[torch.Tensor]:
    return [x.new_empty(_with(x.shape, axis, extent)) for extent in extents]


class _OfConcatenate:
    def __init__(self, operator: Operator) -> None:
        self.operator = operator

    def save(self, ctx: Any, inputs: tuple[Any, ...], output: Any, keyword_only_inputs: Any = None) -> None:
        ctx.axis = (keyword_only_inputs or {}).get("axis", 0)
        ctx.extents = [array.shape[ctx.axis] for array in inputs[0]]

    def backward(self, ctx: Any, dy: torch.Tensor) -> Any:
        return self.operator("split")(dy, ctx.extents, axis=ctx.axis)


class _OfSplit:
    def __init__(self, operator: Operator) -> None:
        self.operator = operator

    def save(self, ctx: Any, inputs: tuple[Any, ...], output: Any, keyword_only_inputs: Any = None) -> None:
        ctx.axis = (keyword_only_inputs or {}).get("axis", 0)
        ctx.shapes = [tuple(part.shape) for part in output]
        ctx.like = inputs[0].new_empty(0)

    def backward(self, ctx: Any, parts: Sequence[torch.Tensor | None]) -> Any:
        whole = [ctx.like.new_zeros(shape) if dy is None else dy for dy, shape in zip(parts, ctx.shapes)]
        return self.operator("concatenate")(whole, axis=ctx.axis), None
