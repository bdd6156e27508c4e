"""Products of matrices: D = act(alpha A B + beta C + bias), and batches of them.

Matrices are views of two axes, of three in a batch, whose rows have neighbouring elements and lie any distance apart.
layout says how A and B are stored: RRR both by rows, RCR B by columns, that is as (n, k). C may be None, which stands
for D, and is not read for a beta of 0; beside it the integer products by rows take it for zeros. f16 and bf16 are
summed in f32, f32 is multiplied as TF32 (f32_strict is not), integers are summed exactly and results bounded.
"""

from __future__ import annotations

import dataclasses
from enum import IntEnum
from typing import Any, ClassVar

from baracuda import descriptor
from baracuda._calls import op_names
from baracuda.descriptor import Descriptor
from baracuda.dtypes import ElementKind, as_element
from baracuda.errors import InvalidProblemError, UnsupportedError
from baracuda.guarantee import KernelSku, arithmetic_of
from baracuda.kinds import BackendKind, DenseLayout, EpilogueKind, LayoutSku, MathPrecision, OpCategory
from baracuda.operands import Args, Viewable
from baracuda.plan import Plan
from baracuda.tensor import TensorRef

_ACTIVATIONS = {
    EpilogueKind.IDENTITY: "", EpilogueKind.BIAS: "", EpilogueKind.BIAS_RELU: "_relu", EpilogueKind.BIAS_GELU: "_gelu",
    EpilogueKind.BIAS_SILU: "_silu",
}  # fmt: skip
_PRECISIONS = {
    ElementKind.F16: MathPrecision.F16, ElementKind.BF16: MathPrecision.BF16, ElementKind.F32: MathPrecision.TF32,
    ElementKind.F32_STRICT: MathPrecision.F32, ElementKind.F64: MathPrecision.F64,
    ElementKind.FP8_E4M3: MathPrecision.FP8_E4M3, ElementKind.FP8_E5M2: MathPrecision.FP8_E5M2,
}  # fmt: skip


def _factor(default: float) -> Any:
    return descriptor.real(default=default)


class _ProductDescriptor(Descriptor):
    m: Any
    n: Any
    k: Any

    @property
    def b_shape(self) -> tuple[int, ...]:
        """B as it is stored."""
        by_columns = getattr(self, "layout", LayoutSku.RCR) is LayoutSku.RCR
        return (self.n, self.k) if by_columns else (self.k, self.n)


@dataclasses.dataclass(frozen=True)
class GemmDescriptor(_ProductDescriptor):
    """A is m x k, B k x n, D m x n."""

    m: int = descriptor.extent()
    n: int = descriptor.extent()
    k: int = descriptor.extent()
    layout: LayoutSku = descriptor.choice(LayoutSku)
    epilogue: EpilogueKind = descriptor.choice(EpilogueKind)
    alpha: float = _factor(1.0)
    beta: float = _factor(0.0)


@dataclasses.dataclass(frozen=True)
class IntGemmDescriptor(_ProductDescriptor):
    """output_element is the dtype of the bias, f32 or i32."""

    m: int = descriptor.extent()
    n: int = descriptor.extent()
    k: int = descriptor.extent()
    layout: LayoutSku = descriptor.choice(LayoutSku)
    epilogue: EpilogueKind = descriptor.choice(EpilogueKind)
    output_element: ElementKind = descriptor.checked(
        lambda name, value: as_element(value, name), default=ElementKind.F32
    )
    alpha: float = _factor(1.0)
    beta: float = _factor(0.0)


@dataclasses.dataclass(frozen=True)
class BatchedGemmDescriptor(_ProductDescriptor):
    """B by columns: (batch_count, n, k)."""

    m: int = descriptor.extent()
    n: int = descriptor.extent()
    k: int = descriptor.extent()
    batch_count: int = descriptor.extent()
    alpha: float = _factor(1.0)
    beta: float = _factor(0.0)


@dataclasses.dataclass(frozen=True)
class DenseGemmDescriptor(Descriptor):
    """layout: how A and B lie. D is overwritten, or beta D is added."""

    m: int = descriptor.extent()
    n: int = descriptor.extent()
    k: int = descriptor.extent()
    batch: int = descriptor.extent()
    layout: DenseLayout = descriptor.choice(DenseLayout)
    alpha: float = _factor(1.0)
    beta: float = _factor(0.0)

    @property
    def a_shape(self) -> tuple[int, ...]:
        return (self.batch, *((self.k, self.m) if self.layout is DenseLayout.CRR else (self.m, self.k)))

    @property
    def b_shape(self) -> tuple[int, ...]:
        return (self.batch, *((self.n, self.k) if self.layout is DenseLayout.RCR else (self.k, self.n)))


@dataclasses.dataclass(frozen=True)
class DenseGemvDescriptor(Descriptor):
    """Products of one row, of a batch of them: m is 1."""

    n: int = descriptor.extent()
    k: int = descriptor.extent()
    batch: int = descriptor.extent()
    alpha: float = _factor(1.0)
    beta: float = _factor(0.0)

    @property
    def m(self) -> int:
        return 1

    @property
    def layout(self) -> int:
        return int(DenseLayout.RRR)


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class GemmArgs(Args):
    """bias, of n elements, where the epilogue has one; None stands for zeros."""

    a: Viewable
    b: Viewable
    d: Viewable
    c: Viewable | None = None
    bias: Viewable | None = None


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class IntGemmArgs(GemmArgs):
    pass


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class BatchedGemmArgs(Args):
    a: Viewable
    b: Viewable
    d: Viewable
    c: Viewable | None = None


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class DenseGemmArgs(Args):
    a: Viewable
    b: Viewable
    d: Viewable


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class DenseGemvArgs(DenseGemmArgs):
    pass


class _ProductPlan(Plan):
    __slots__ = ()
    category = OpCategory.GEMM
    kind = 0
    matrices: ClassVar[tuple[str, ...]] = ("a", "b", "c", "d")

    def views(self, args: Args) -> dict[str, TensorRef | None]:
        """Checked for what C cannot say: elements of a row that are no neighbours, rows that lie in one another."""
        views = super().views(args)
        for name in self.matrices:
            if (view := views.get(name)) is not None and len(view.shape) > 1:
                extents = next(operand.extents for operand in self.operands if operand.name == name)
                if view.shape[-2:] != extents[-2:]:
                    raise InvalidProblemError(f"{name} has shape {view.shape}, expected {extents}")
                (rows, columns), (row, step) = extents[-2:], view.strides[-2:]
                if 0 not in extents and ((columns > 1 and step != 1) or (rows > 1 and row < columns)):
                    raise UnsupportedError(
                        f"{name} has strides {view.strides} for shape {view.shape}, must lie by rows"
                    )
        return views

    def step(self, name: str, strides: tuple[int, ...]) -> int:
        """A pitch, or the stride of a batch. Where there is one row its pitch says nothing."""
        if name.startswith("stride_"):
            return strides[0]
        rows, columns = next(operand.extents for operand in self.operands if operand.name == name[2:])[-2:]
        return max(strides[-2], columns, 1) if rows > 1 else max(columns, 1)

    def arithmetic(self) -> tuple[MathPrecision, ElementKind]:
        element = self.descriptor.element
        if element in (ElementKind.S8, ElementKind.U8):
            return arithmetic_of(element)[0], ElementKind.I32
        accumulator = ElementKind.F64 if element is ElementKind.F64 else ElementKind.F32
        return _PRECISIONS[element], accumulator

    def _served(self) -> tuple[str, ...]:
        wanted = self.preference.prefer_backend
        if wanted not in (None, BackendKind.BESPOKE):
            raise UnsupportedError(
                f"preference.prefer_backend is {wanted.name}: products have kernels of this library alone"
            )
        return super()._served()

    @property
    def sku(self) -> KernelSku:
        layout = getattr(self.descriptor, "layout", LayoutSku.RCR)
        if not isinstance(layout, LayoutSku):
            layout = None if layout == DenseLayout.CRR else LayoutSku[DenseLayout(layout).name]
        epilogue = getattr(self.descriptor, "epilogue", EpilogueKind.IDENTITY)
        return dataclasses.replace(super().sku, layout=layout, epilogue=epilogue)


class GemmPlan(_ProductPlan):
    __slots__ = ()
    op = "gemm"
    shapes: ClassVar = {"b": "b_shape"}

    @classmethod
    def served(cls, kind: IntEnum | None, element: ElementKind, output: ElementKind | None = None) -> tuple[str, ...]:
        """Those of every layout and epilogue; `_served` knows which."""
        return tuple(
            [name for layout in LayoutSku for end in EpilogueKind for name in cls._named(layout, end, element, output)]
        )

    @classmethod
    def _named(
        cls, layout: LayoutSku, epilogue: EpilogueKind, element: ElementKind, output: ElementKind | None
    ) -> tuple[str, ...]:
        dtype = {ElementKind.F32: "tf32", ElementKind.F32_STRICT: "f32_simt"}.get(element, element.symbol)
        bias = "_bias" if epilogue.requires_bias else ""
        return op_names((f"gemm{bias}{_ACTIVATIONS[epilogue]}_{dtype}_{layout.name.lower()}_sm80",), "", "", "")

    def _served(self) -> tuple[str, ...]:
        super()._served()
        valid, output = self.descriptor, getattr(self.descriptor, "output_element", None)
        found = self._named(valid.layout, valid.epilogue, valid.element, output)
        if not found:
            raise UnsupportedError(f"output_element is {output}, must be f32 or i32, the dtype of the bias")
        return found

    def views(self, args: Args) -> dict[str, TensorRef | None]:
        views = super().views(args)
        if views["bias"] is not None and not self.descriptor.epilogue.requires_bias:
            raise InvalidProblemError(f"bias is given, but the epilogue is {self.descriptor.epilogue.name}")
        return views


class IntGemmPlan(GemmPlan):
    """i8 and u8. A bias by rows must be there."""

    __slots__ = ()

    @classmethod
    def _named(
        cls, layout: LayoutSku, epilogue: EpilogueKind, element: ElementKind, output: ElementKind | None
    ) -> tuple[str, ...]:
        dtype = {ElementKind.S8: "s8", ElementKind.U8: "u8"}.get(element, "")
        activation, of_bias = _ACTIVATIONS[epilogue], "" if output is None else output.symbol
        if not epilogue.requires_bias:
            name = f"gemm_{dtype}_{layout.name.lower()}_sm80"
        elif layout is LayoutSku.RCR:
            name = f"gemm_bias{activation}_{of_bias}bias_{dtype}_rcr_sm80"
        else:
            name = f"gemm_{dtype}_rrr_sm80_bias{activation}_{of_bias}"
        return op_names((name,), "", "", "")

    @property
    def sku(self) -> KernelSku:
        aux = self.descriptor.output_element if self.descriptor.epilogue.requires_bias else None
        return dataclasses.replace(super().sku, aux_element=aux)


class BatchedGemmPlan(_ProductPlan):
    __slots__ = ()
    op = "gemm_batched_{T}_rcr_sm80"


class _DensePlan(_ProductPlan):
    __slots__ = ()
    matrices = ("a", "b", "d")

    def arithmetic(self) -> tuple[MathPrecision, ElementKind]:
        precision, accumulator = super().arithmetic()
        return MathPrecision.F32 if precision is MathPrecision.TF32 else precision, accumulator


class DenseGemmPlan(_DensePlan):
    __slots__ = ()
    op = "gemm_dense_{T}"
    shapes: ClassVar = {"a": "a_shape", "b": "b_shape"}


class DenseGemvPlan(_DensePlan):
    __slots__ = ()
    op = "gemv_dense_m1_{T}"
