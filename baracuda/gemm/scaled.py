# SPDX-License-Identifier: Apache-2.0
"""Scaled GEMM: 8-bit operands with scales on the device, and results of 16 or 32-bit floats.

D = alpha (a_scale A) (b_scale B) + beta D + bias. scaling is one scale for each tensor, for each row of A and column of
B, or for blocks as in DeepSeek-V3: 1 x 128 of A (row, k) and 128 x 128 of B (column, k). Matrices have the conventions
of baracuda.gemm, scales are contiguous, and None means scales of 1.
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

from baracuda import descriptor
from baracuda._call.c_call import Form
from baracuda.descriptor import Descriptor
from baracuda.dtypes import ElementKind, as_element
from baracuda.errors import UnsupportedError
from baracuda.gemm.dense import _DensePlan
from baracuda.kinds import DenseLayout, MathPrecision, ScalingKind
from baracuda.operands import Views

_BLOCK = 128
_OUTPUTS = (ElementKind.BF16, ElementKind.F16, ElementKind.F32)


def _output(name: str, value: Any) -> ElementKind:
    element = as_element(value, name)
    if element not in _OUTPUTS:
        raise UnsupportedError(f"{name} is {element}, must be bf16, f16 or f32")
    return element


@dataclasses.dataclass(frozen=True)
class ScaledGemmDescriptor(Descriptor):
    """element is fp8_e4m3, fp8_e5m2 or s8, that of A and B, but B may be fp8_e4m3 beside fp8_e5m2 of A; output_element
    is the dtype of D and of the bias.
    """

    m: int = descriptor.extent()
    n: int = descriptor.extent()
    k: int = descriptor.extent()
    layout: DenseLayout = descriptor.choice(DenseLayout)
    scaling: ScalingKind = descriptor.choice(ScalingKind)
    output_element: ElementKind = descriptor.checked(_output, default=ElementKind.BF16)
    alpha: float = descriptor.real(default=1.0)
    beta: float = descriptor.real(default=0.0)

    @property
    def a_shape(self) -> tuple[int, ...]:
        return (self.m, self.k) if self.layout.a_by_rows else (self.k, self.m)

    @property
    def b_shape(self) -> tuple[int, ...]:
        return (self.k, self.n) if self.layout.b_by_rows else (self.n, self.k)

    @property
    def a_scale_shape(self) -> tuple[int, ...]:
        blocks = -(-self.k // _BLOCK)
        return {ScalingKind.ROWS: (self.m,), ScalingKind.BLOCKS: (self.m, blocks)}.get(self.scaling, (1,))

    @property
    def b_scale_shape(self) -> tuple[int, ...]:
        blocks = (-(-self.n // _BLOCK), -(-self.k // _BLOCK))
        return {ScalingKind.ROWS: (self.n,), ScalingKind.BLOCKS: blocks}.get(self.scaling, (1,))


class ScaledGemmPlan(_DensePlan):
    """Scales are f32."""

    __slots__ = ()
    op = "gemm_scaled_{T}_{U}"
    others = ("gemm_scaled_{T}_fp8e4m3_{U}",)
    shapes: ClassVar = {name: f"{name}_shape" for name in ("a", "b", "a_scale", "b_scale")}

    def form_for(self, views: Views) -> Form:
        """The form for B's dtype."""
        b = views.get("b")
        has_two_dtypes = b is not None and b.dtype is not self.descriptor.element
        return self._forms[-1 if has_two_dtypes else 0]

    def arithmetic(self) -> tuple[MathPrecision, ElementKind]:
        return super().arithmetic()[0], ElementKind.F32
