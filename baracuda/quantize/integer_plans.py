# SPDX-License-Identifier: Apache-2.0
"""Plans of products of 8-bit codes with zero points: linear layers, MatMulInteger and QLinearMatMul of ONNX.

All operands are contiguous. Numbers of scales are 1 or that of the rows or columns, numbers of zero points may be 0,
without which the operand is None. Zero points are i32.
"""

from __future__ import annotations

import dataclasses
import enum
from typing import Any, ClassVar

from baracuda import descriptor
from baracuda._call.c_call import op_names
from baracuda._call.scalars import as_integer
from baracuda.descriptor import Descriptor
from baracuda.dtypes import ElementKind, as_element
from baracuda.kinds import DenseLayout, MathPrecision, OpCategory, QuantizeKind
from baracuda.plan import Plan


def _dtype(default: ElementKind) -> Any:
    return descriptor.checked(lambda name, value: as_element(value, name), default=default)


class _ProductPlan(Plan):
    __slots__ = ()
    category = OpCategory.QUANTIZATION
    kind = QuantizeKind.INTEGER_PRODUCT
    names: ClassVar = {"y": "output"}

    def arithmetic(self) -> tuple[MathPrecision, ElementKind]:
        return MathPrecision.INT8, ElementKind.I32


@dataclasses.dataclass(frozen=True)
class W8A8LinearDescriptor(Descriptor):
    """m rows of k activations, c_out rows of k weights; scales and output are of output_element, f32 or f64."""

    m: int = descriptor.extent()
    c_out: int = descriptor.extent()
    k: int = descriptor.extent()
    output_element: ElementKind = _dtype(ElementKind.F32)


class W8A8LinearPlan(_ProductPlan):
    """output = scale_a scale_w act_q weight_q^T of s8 codes without zero points."""

    __slots__ = ()
    op = "quantized_linear_w8a8_{U}"
    kind = QuantizeKind.QUANTIZED_LINEAR


@dataclasses.dataclass(frozen=True)
class QuantizedLinearCodesDescriptor(Descriptor):
    """m rows of k codes of s8 or u8 (element), n rows of k weights of s8. activation: 0 none, 1 relu, 2 gelu, 3 silu,
    4 gelu_tanh.
    """

    m: int = descriptor.extent()
    n: int = descriptor.extent()
    k: int = descriptor.extent()
    a_scales: int = descriptor.extent(default=1)
    a_zeros: int = descriptor.extent(default=0)
    weight_scales: int = descriptor.extent(default=1)
    weight_zeros: int = descriptor.extent(default=0)
    activation: int = descriptor.checked(lambda name, value: as_integer(name, value, 0, 4), default=0)
    output_element: ElementKind = _dtype(ElementKind.F32)


class QuantizedLinearCodesPlan(_ProductPlan):
    """output = act(a_scale weight_scale (a - a_zero) (weight - weight_zero)^T + bias)."""

    __slots__ = ()
    op = "quantized_linear_{T}_{U}"
    kind = QuantizeKind.QUANTIZED_LINEAR


@dataclasses.dataclass(frozen=True)
class MatmulIntegerDescriptor(Descriptor):
    """a is (m, k) of element, b is (k, n) of b_element, or (n, k) in layout RCR; both are s8 or u8."""

    m: int = descriptor.extent()
    n: int = descriptor.extent()
    k: int = descriptor.extent()
    layout: DenseLayout = dataclasses.field(default=DenseLayout.RRR, metadata=descriptor.choice(DenseLayout).metadata)
    a_zeros: int = descriptor.extent(default=0)
    b_zeros: int = descriptor.extent(default=0)
    b_element: ElementKind = _dtype(ElementKind.S8)

    @property
    def b_shape(self) -> tuple[int, int]:
        return (self.k, self.n) if self.layout is DenseLayout.RRR else (self.n, self.k)


@dataclasses.dataclass(frozen=True)
class QLinearMatmulDescriptor(MatmulIntegerDescriptor):
    """a and output are (m, k) and (m, n) of element, b is (k, n) of b_element, or (n, k) in layout RCR."""

    a_scales: int = descriptor.extent(default=1)
    b_scales: int = descriptor.extent(default=1)


class MatmulIntegerPlan(_ProductPlan):
    """output = (a - a_zero) (b - b_zero) in i32."""

    __slots__ = ()
    op = "matmul_integer_{T}_{U}"
    rows: ClassVar = ("matmul_integer_{T}_i8", "matmul_integer_{T}_u8")
    shapes: ClassVar = {"b": "b_shape"}

    @classmethod
    def served(
        cls, kind: enum.IntEnum | None, element: ElementKind, output: ElementKind | None = None
    ) -> tuple[str, ...]:
        return op_names((cls.op,), "", element.symbol, "i8" if output is None else output.symbol)

    def _served(self) -> tuple[str, ...]:
        return self.served(None, self.descriptor.element, self.descriptor.b_element) or super()._served()


class QLinearMatmulPlan(MatmulIntegerPlan):
    """output = saturate(round(a_scale b_scale / y_scale (a - a_zero) (b - b_zero)) + y_zero)."""

    __slots__ = ()
    op = "qlinear_matmul_{T}_{U}"
    rows: ClassVar = ("qlinear_matmul_{T}_i8", "qlinear_matmul_{T}_u8")
