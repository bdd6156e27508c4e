# SPDX-License-Identifier: Apache-2.0
"""A linear layer whose products have 8-bit operands, forward and backward.

    recipe   scales                                       activations, weights   gradients
    delayed  of earlier passes, one for each tensor       e4m3                   e5m2, or gradient_format
    current  of the tensor itself                         e4m3                   e5m2, or gradient_format
    blocks   1 x 128 of activations and gradients,        e4m3                   e4m3
             128 x 128 of weights (DeepSeek-V3, 2024)

y = x W', dx = dy W and dW = dy' x are products of the codes with f32 sums, scaled afterwards: ScaledGemmPlan.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from baracuda import functions, memory
from baracuda._arrays.shaping import empty_like, reshaped
from baracuda._library.loader import Library, default_library
from baracuda.dtypes import ElementKind
from baracuda.errors import InvalidProblemError
from baracuda.fp8.recipe import FORMATS, Fp8Recipe
from baracuda.gemm.scaled import ScaledGemmDescriptor, ScaledGemmPlan
from baracuda.kinds import DenseLayout, ScalingKind
from baracuda.tensor import tensor

if TYPE_CHECKING:
    from baracuda.distributed.communicator import Communicator

RECIPES = ("delayed", "current", "blocks")


@dataclasses.dataclass(frozen=True)
class Codes:
    """8-bit floats and their f32 scales: the matrix is about codes times scale."""

    codes: Any
    scale: Any


@dataclasses.dataclass(frozen=True)
class Saved:
    """State of a forward: the shape and dtype of x, and the operands of the backward's products."""

    shape: tuple[int, ...]
    dtype: ElementKind
    x: Codes
    weight: Codes


class Linear:
    """One layer; delayed scaling keeps its histories. With a communicator, these are of all its ranks."""

    def __init__(
        self, recipe: str = "delayed", *, gradient_format: str = "e5m2", history_len: int = 16, margin: int = 0,
        library: Library | None = None, comm: Communicator | None = None,
    ) -> None:  # fmt: skip
        if recipe not in RECIPES:
            raise InvalidProblemError(f"recipe is {recipe!r}, must be one of {', '.join(RECIPES)}")
        if gradient_format not in FORMATS:
            raise InvalidProblemError(f"gradient_format is {gradient_format!r}, must be e4m3 or e5m2")
        self.recipe, self.library = recipe, library or default_library()
        formats = {"x": "e4m3", "weight": "e4m3", "dy": "e4m3" if recipe == "blocks" else gradient_format}
        self.dtypes = {name: FORMATS[fmt][0] for name, fmt in formats.items()}
        self.recipes: dict[str, Fp8Recipe] = {}
        if recipe == "delayed":
            self.recipes = {
                name: Fp8Recipe(fmt, history_len, margin=margin, library=self.library, comm=comm)
                for name, fmt in formats.items()
            }
        self._plans: dict[Any, ScaledGemmPlan] = {}
        self._workspaces: dict[Any, Any] = {}

    def forward(self, x: Any, weight: Any, bias: Any = None, *, out: Any = None) -> tuple[Any, Saved]:
        """x (..., in) times weight (out, in) transposed, plus the bias."""
        rows = reshaped(x, (_rows_of(x), int(x.shape[-1])))
        dtype = tensor(x, "x").dtype
        if self.recipe == "blocks":
            a = Codes(*functions.quantize_fp8(rows, scaling="groups"))
            b = Codes(*functions.quantize_fp8(weight, scaling="blocks"))
            saved = Saved(
                tuple(x.shape), dtype, Codes(*functions.quantize_fp8_transposed(rows, scaling="blocks")),
                Codes(*functions.quantize_fp8_transposed(weight, scaling="blocks")),
            )  # fmt: skip
        else:
            a, b = self._quantized("x", rows), self._quantized("weight", weight)
            saved = Saved(tuple(x.shape), dtype, a, b)
        target = None if out is None else reshaped(out, (_rows_of(x), int(weight.shape[0])))
        y = self._product(a, b, DenseLayout.RCR, dtype, rows, target)
        if bias is not None:
            functions.add(y, bias, out=y)
        return reshaped(y, (*x.shape[:-1], int(weight.shape[0]))), saved

    def backward(self, dy: Any, saved: Saved) -> tuple[Any, Any]:
        """Gradients of x and weight."""
        rows = reshaped(dy, (_rows_of(dy), int(dy.shape[-1])))
        if self.recipe == "blocks":
            codes = Codes(*functions.quantize_fp8(rows, scaling="groups"))
            transposed = Codes(*functions.quantize_fp8_transposed(rows, scaling="groups"))
            dx = self._product(codes, saved.weight, DenseLayout.RCR, saved.dtype, rows)
            dweight = self._product(transposed, saved.x, DenseLayout.RCR, saved.dtype, rows)
        else:
            codes = self._quantized("dy", rows)
            dx = self._product(codes, saved.weight, DenseLayout.RRR, saved.dtype, rows)
            dweight = self._product(codes, saved.x, DenseLayout.CRR, saved.dtype, rows)
        return reshaped(dx, saved.shape), dweight

    def update(self) -> None:
        """Sets scales from the histories after a step. The other recipes have none."""
        for recipe in self.recipes.values():
            recipe.update_after_pass()

    def _quantized(self, name: str, x: Any) -> Codes:
        if self.recipe == "current":
            return Codes(*functions.quantize_fp8(x, scaling="tensor", dtype=self.dtypes[name]))
        recipe = self.recipes[name]
        # A copy: the update changes the scale before a saved operand is used where passes overlap.
        return Codes(recipe.cast(x), functions.cast(recipe.scale_inv, ElementKind.F32))

    def _product(self, a: Codes, b: Codes, layout: DenseLayout, dtype: ElementKind, like: Any, out: Any = None) -> Any:
        one, other = (tensor(each.codes, "codes") for each in (a, b))
        m, k = one.shape if layout.a_by_rows else reversed(one.shape)
        n = other.shape[1] if layout.b_by_rows else other.shape[0]
        scaling = ScalingKind.BLOCKS if self.recipe == "blocks" else ScalingKind.TENSOR
        key = (m, n, k, layout, one.dtype, other.dtype, dtype)
        if key not in self._plans:
            described = ScaledGemmDescriptor(m, n, k, layout, scaling, dtype, element=one.dtype)
            self._plans[key] = ScaledGemmPlan.select(None, described, library=self.library)
        plan = self._plans[key]
        if out is None:
            out = empty_like(like, (m, n), dtype)
        args = plan.args_type(a=a.codes, b=b.codes, a_scale=a.scale, b_scale=b.scale, d=out)
        plan.run(None, self._workspace(key, plan), args)
        return out

    def _workspace(self, key: Any, plan: ScaledGemmPlan) -> Any:
        """The shared one, as within graphs, where copies of operands would need gigabytes for all layers."""
        shared = memory.shared_workspace()
        if shared is not None and plan.workspace_size:
            return shared.take(plan.workspace_size, self.library)
        if key not in self._workspaces:
            self._workspaces[key] = memory.workspace(plan)
        return self._workspaces[key]


def _rows_of(x: Any) -> int:
    count = 1
    for extent in x.shape[:-1]:
        count *= int(extent)
    return count
