# SPDX-License-Identifier: Apache-2.0
"""Linear layers of 8-bit codes that launch several ops: activations are quantised first, or share one scale."""

from __future__ import annotations

import dataclasses
from typing import Any

from baracuda import descriptor
from baracuda._library.loader import Library
from baracuda.composed_plan import ComposedPlan
from baracuda.descriptor import Descriptor
from baracuda.dtypes import ElementKind
from baracuda.elementwise.fill import FillArgs, FillDescriptor, FillPlan  # type: ignore[attr-defined]
from baracuda.errors import InvalidProblemError, UnsupportedError, naming
from baracuda.guarantee import KernelSku, PlanPreference, PrecisionGuarantee
from baracuda.operands import Args, Viewable
from baracuda.quantize.affine_plans import (  # type: ignore[attr-defined]
    DynamicRangeQuantizeArgs,
    DynamicRangeQuantizeDescriptor,
    DynamicRangeQuantizePlan,
)
from baracuda.quantize.integer_plans import (  # type: ignore[attr-defined]
    W8A8LinearArgs,
    W8A8LinearDescriptor,
    W8A8LinearPlan,
)


@dataclasses.dataclass(frozen=True)
class QuantizedLinearDescriptor(Descriptor):
    """m rows of k activations, c_out rows of k weights; codes of the activations are in [q_min, q_max]. element is f32
    or f64.
    """

    m: int = descriptor.extent()
    c_out: int = descriptor.extent()
    k: int = descriptor.extent()
    q_min: int = descriptor.extent(-128, default=-128)
    q_max: int = descriptor.extent(1, default=127)


@dataclasses.dataclass(frozen=True)
class SmoothQuantLinearDescriptor(Descriptor):
    """m rows of k codes with the scale act_scale, n rows of k weights. element is f32 or f64."""

    m: int = descriptor.extent()
    n: int = descriptor.extent()
    k: int = descriptor.extent()
    act_scale: float = descriptor.real(default=1.0)


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class QuantizedLinearArgs(Args):
    """activation (m, k), weight_q s8 (c_out, k), weight_scale (c_out,), output (m, c_out); act_q_scratch s8 (m, k) and
    act_scale_scratch (m,) are written.
    """

    activation: Viewable
    weight_q: Viewable
    weight_scale: Viewable
    output: Viewable
    act_q_scratch: Viewable
    act_scale_scratch: Viewable


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class SmoothQuantLinearArgs(Args):
    """act_q s8 (m, k), weight_q s8 (n, k), weight_scale (n,), output (m, n); act_scale_scratch (m,) is written."""

    act_q: Viewable
    weight_q: Viewable
    weight_scale: Viewable
    output: Viewable
    act_scale_scratch: Viewable


class _Plan(ComposedPlan):
    """Base of both: selection, and two launches."""

    __slots__ = ("first", "product")

    args_type: type[Args]
    first: Any
    product: Any

    def __init__(self, given: Any, preference: PlanPreference, library: Library) -> None:
        super().__init__(given, preference, library)
        if given.element not in (ElementKind.F32, ElementKind.F64):
            raise UnsupportedError(f"element is {given.element}, must be one of f32, f64")

    @property
    def workspace_size(self) -> int:
        return max(int(self.first.workspace_size), int(self.product.workspace_size))

    @property
    def precision_guarantee(self) -> PrecisionGuarantee:
        found: PrecisionGuarantee = self.product.precision_guarantee
        return found

    @property
    def sku(self) -> KernelSku:
        found: KernelSku = self.product.sku
        return found

    def _steps(self, args: Any) -> tuple[Args, Args]:
        """The arguments of both launches."""
        raise NotImplementedError

    def _checked(self, args: Args) -> tuple[Args, Args]:
        if type(args) is not self.args_type:
            raise InvalidProblemError(f"args is of type {type(args).__name__}, must be {self.args_type.__name__}")
        steps = self._steps(args)
        self.first.can_implement(steps[0])
        self.product.can_implement(steps[1])
        return steps

    def can_implement(self, args: Args) -> None:
        """Raise what `run` would raise for these operands; no device work."""
        with naming(self.name):
            self._checked(args)

    def run(self, stream: object, workspace: object, args: Args) -> None:
        """Enqueue both ops."""
        with naming(self.name):
            first, product = self._checked(args)
            self.first.run(stream, workspace if self.first.workspace_size else None, first)
            self.product.run(stream, workspace if self.product.workspace_size else None, product)

    def _linear(self, m: int, n: int, k: int) -> Any:
        given = W8A8LinearDescriptor(m, n, k, self.descriptor.element, element=ElementKind.S8)
        return W8A8LinearPlan.select(None, given, self.preference, library=self.library)


class QuantizedLinearPlan(_Plan):
    """output = activation weight^T, with symmetric codes of each row of the activation (W8A8)."""

    __slots__ = ()
    descriptor_type = QuantizedLinearDescriptor
    args_type = QuantizedLinearArgs
    name = "quantized_linear"

    def __init__(self, given: Any, preference: PlanPreference, library: Library) -> None:
        super().__init__(given, preference, library)
        ranges = DynamicRangeQuantizeDescriptor(given.m, given.k, given.q_min, given.q_max, element=given.element)
        self.first = DynamicRangeQuantizePlan.select(None, ranges, preference, library=library)
        self.product = self._linear(given.m, given.c_out, given.k)

    def _steps(self, args: Any) -> tuple[Args, Args]:
        quantize = DynamicRangeQuantizeArgs(
            input=args.activation, scale_out=args.act_scale_scratch, output=args.act_q_scratch
        )
        return quantize, W8A8LinearArgs(
            weight_q=args.weight_q, act_q=args.act_q_scratch, scale_a=args.act_scale_scratch, scale_w=args.weight_scale,
            output=args.output,
        )  # fmt: skip


class SmoothQuantLinearPlan(_Plan):
    """output = act_scale weight_scale act_q weight_q^T."""

    __slots__ = ()
    descriptor_type = SmoothQuantLinearDescriptor
    args_type = SmoothQuantLinearArgs
    name = "smoothquant_linear"

    def __init__(self, given: Any, preference: PlanPreference, library: Library) -> None:
        super().__init__(given, preference, library)
        if not -float("inf") < given.act_scale < float("inf"):
            raise InvalidProblemError(f"act_scale is {given.act_scale}, must be finite")
        fill = FillDescriptor((given.m,), given.act_scale, element=given.element)
        self.first = FillPlan.select(None, fill, preference, library=library)
        self.product = self._linear(given.m, given.n, given.k)

    def _steps(self, args: Any) -> tuple[Args, Args]:
        fill = FillArgs(**{self.first.operands[0].name: args.act_scale_scratch})
        return fill, W8A8LinearArgs(
            weight_q=args.weight_q, act_q=args.act_q, scale_a=args.act_scale_scratch, scale_w=args.weight_scale,
            output=args.output,
        )  # fmt: skip
