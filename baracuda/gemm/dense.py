# SPDX-License-Identifier: Apache-2.0
"""GEMM: D = act(alpha A B + beta C + bias), and batches of it.

Matrices are views of rank 2, in a batch of rank 3, with contiguous rows of any pitch. layout is RRR (A and B row-major)
or RCR (B column-major, stored as (n, k)). C may be None, which stands for D, or for zeros in row-major integer GEMMs;
it is not read if beta is 0. f16 and bf16 accumulate in f32, f32 is multiplied as TF32 (f32_strict is not), integers
accumulate exactly and results saturate.

Large GEMMs use cuBLASLt if it is installed and operands and rows are aligned to 16 bytes, and `plan.sku.backend` says
so; others run on this library's kernels. `PlanPreference(prefer_backend=)` chooses: BESPOKE never uses cuBLASLt, and
with CUBLAS a GEMM that it does not take is an UnsupportedError, from `select` or from `run`.

`PlanPreference(batch_invariant=True)` selects kernels of this library for which the bits of a row of D depend on B and
on what that row reads alone: not on how many rows and matrices there are, nor on layout and alignment. Integer GEMMs
always have it.
"""

from __future__ import annotations

import dataclasses
import math
from enum import IntEnum
from typing import TYPE_CHECKING, Any, ClassVar

from baracuda import descriptor
from baracuda._call.c_call import Form, op_names
from baracuda._call.scalars import as_integer
from baracuda._library.loader import symbol_name
from baracuda._library.op_table import ops
from baracuda.descriptor import Descriptor
from baracuda.dtypes import ElementKind, as_element
from baracuda.errors import InvalidProblemError, UnsupportedError, naming
from baracuda.guarantee import BATCH_INVARIANT, KernelSku, PlanPreference, arithmetic_of
from baracuda.kinds import ActivationKind, BackendKind, DenseLayout, EpilogueKind, LayoutSku, MathPrecision, OpCategory
from baracuda.operands import Args, Views
from baracuda.plan import Plan
from baracuda.tensor import TensorRef

if TYPE_CHECKING:
    from baracuda._library.loader import Library

_ACTIVATIONS = {
    EpilogueKind.IDENTITY: "", EpilogueKind.BIAS: "", EpilogueKind.BIAS_RELU: "_relu", EpilogueKind.BIAS_GELU: "_gelu",
    EpilogueKind.BIAS_SILU: "_silu", EpilogueKind.BIAS_GELU_TANH: "_gelu_tanh",
}  # fmt: skip
_PRECISIONS = {
    ElementKind.F16: MathPrecision.F16, ElementKind.BF16: MathPrecision.BF16, ElementKind.F32: MathPrecision.TF32,
    ElementKind.F32_STRICT: MathPrecision.F32, ElementKind.F64: MathPrecision.F64,
    ElementKind.FP8_E4M3: MathPrecision.FP8_E4M3, ElementKind.FP8_E5M2: MathPrecision.FP8_E5M2,
}  # fmt: skip


def _scalar_field(default: float) -> Any:
    return descriptor.real(default=default)


def _result_element(name: str, value: Any) -> ElementKind | None:
    return None if value is None else as_element(value, name)


class _GemmDescriptorBase(Descriptor):
    m: Any
    n: Any
    k: Any

    @property
    def a_shape(self) -> tuple[int, ...]:
        return (self.m, self.k)

    @property
    def d_shape(self) -> tuple[int, ...]:
        return (self.m, self.n)

    @property
    def b_shape(self) -> tuple[int, ...]:
        """B as it is stored."""
        is_column_major = getattr(self, "layout", LayoutSku.RCR) is LayoutSku.RCR
        return (self.n, self.k) if is_column_major else (self.k, self.n)


@dataclasses.dataclass(frozen=True)
class GemmDescriptor(_GemmDescriptorBase):
    """A is m x k, B k x n, D m x n. output_element is the dtype of C, D, residual and z: for f16 and bf16 also f32."""

    m: int = descriptor.extent()
    n: int = descriptor.extent()
    k: int = descriptor.extent()
    layout: LayoutSku = descriptor.choice(LayoutSku)
    epilogue: EpilogueKind = descriptor.choice(EpilogueKind)
    alpha: float = _scalar_field(1.0)
    beta: float = _scalar_field(0.0)
    output_element: ElementKind | None = descriptor.checked(_result_element, default=None)


@dataclasses.dataclass(frozen=True)
class IntGemmDescriptor(_GemmDescriptorBase):
    """output_element is the dtype of the bias, f32 or i32."""

    m: int = descriptor.extent()
    n: int = descriptor.extent()
    k: int = descriptor.extent()
    layout: LayoutSku = descriptor.choice(LayoutSku)
    epilogue: EpilogueKind = descriptor.choice(EpilogueKind)
    output_element: ElementKind = descriptor.checked(
        lambda name, value: as_element(value, name), default=ElementKind.F32
    )
    alpha: float = _scalar_field(1.0)
    beta: float = _scalar_field(0.0)


@dataclasses.dataclass(frozen=True)
class GatedGemmDescriptor(_GemmDescriptorBase):
    """D = activation(z1) * z2, where z1 = alpha A B1 + bias1 and z2 = alpha A B2 + bias2."""

    m: int = descriptor.extent()
    n: int = descriptor.extent()
    k: int = descriptor.extent()
    layout: LayoutSku = descriptor.choice(LayoutSku)
    activation: ActivationKind = descriptor.choice(ActivationKind)
    alpha: float = _scalar_field(1.0)


@dataclasses.dataclass(frozen=True)
class BatchedGemmDescriptor(_GemmDescriptorBase):
    """Column-major B has the shape (batch_count, n, k)."""

    m: int = descriptor.extent()
    n: int = descriptor.extent()
    k: int = descriptor.extent()
    batch_count: int = descriptor.extent()
    alpha: float = _scalar_field(1.0)
    beta: float = _scalar_field(0.0)

    @property
    def a_shape(self) -> tuple[int, ...]:
        return (self.batch_count, self.m, self.k)

    @property
    def b_shape(self) -> tuple[int, ...]:
        return (self.batch_count, self.n, self.k)

    @property
    def d_shape(self) -> tuple[int, ...]:
        return (self.batch_count, self.m, self.n)


_IN_BYTE = {ElementKind.S4: 2, ElementKind.U4: 2, ElementKind.BIN: 8}


@dataclasses.dataclass(frozen=True)
class DenseGemmDescriptor(Descriptor):
    """layout is that of A and B. D = alpha A B + beta D.

    Views of s4 and u4, which have layouts RRR and RCR, are of bytes with two elements each: along k in A and, for RCR,
    in B, else along n.
    """

    m: int = descriptor.extent()
    n: int = descriptor.extent()
    k: int = descriptor.extent()
    batch: int = descriptor.extent()
    layout: DenseLayout = descriptor.choice(DenseLayout)
    alpha: float = _scalar_field(1.0)
    beta: float = _scalar_field(0.0)

    @property
    def a_shape(self) -> tuple[int, ...]:
        return self._stored(*((self.m, self.k) if self.layout.a_by_rows else (self.k, self.m)))

    @property
    def b_shape(self) -> tuple[int, ...]:
        return self._stored(*((self.k, self.n) if self.layout.b_by_rows else (self.n, self.k)))

    @property
    def d_shape(self) -> tuple[int, ...]:
        return self._stored(self.m, self.n)

    def _stored(self, rows: int, columns: int) -> tuple[int, ...]:
        return (self.batch, rows, columns // _IN_BYTE.get(self.element, 1))


@dataclasses.dataclass(frozen=True)
class DenseGemm3xTf32Descriptor(DenseGemmDescriptor):
    """A, B and D are f32."""


@dataclasses.dataclass(frozen=True)
class DenseGemmBackwardDescriptor(DenseGemmDescriptor):
    """alpha is that of the forward GEMM; beta is 0."""


@dataclasses.dataclass(frozen=True)
class DenseGemvDescriptor(Descriptor):
    """Batched GEMV: m is 1, or 0."""

    n: int = descriptor.extent()
    k: int = descriptor.extent()
    batch: int = descriptor.extent()
    alpha: float = _scalar_field(1.0)
    beta: float = _scalar_field(0.0)
    m: int = descriptor.checked(lambda name, value: as_integer(name, value, 0, 1), default=1)

    @property
    def layout(self) -> int:
        return int(DenseLayout.RRR)


_BACKENDS = {None: 0, BackendKind.BESPOKE: 1, BackendKind.CUBLAS: 2}
_BY_RULE = 3  # C's backend that tells whether its rule chooses cuBLASLt
_VENDOR_SYMBOLS = ("f16", "bf16", "f32", "f64")


class _GemmPlanBase(Plan):
    __slots__ = ()
    category = OpCategory.GEMM
    kind = 0
    matrices: ClassVar[tuple[str, ...]] = ("a", "b", "c", "d")
    general: ClassVar[str] = ""  # the op with all epilogues and a choice of backends, if any

    def __init__(self, descriptor: Any, preference: PlanPreference, library: Library) -> None:
        super().__init__(descriptor, preference, library)
        if preference.prefer_backend is BackendKind.CUBLAS:
            self._ask(_BACKENDS[BackendKind.CUBLAS])

    @property
    def general_op(self) -> str:
        """The name of `general` for this plan; empty if cuBLASLt has no such GEMM."""
        symbol = self.descriptor.element.symbol
        found = op_names((self.general,), "", symbol, "") if self.general and symbol in _VENDOR_SYMBOLS else ()
        return found[0] if found else ""

    @property
    def numbers(self) -> dict[str, Any]:
        valid = self.descriptor
        return {
            "batch": getattr(valid, "batch", getattr(valid, "batch_count", 1)),
            "layout": _c_layout(getattr(valid, "layout", LayoutSku.RCR)), "activation": self._activation(),
            "backend": self._c_backend(),
        }  # fmt: skip

    def _c_backend(self) -> int:
        preference = self.preference
        return BATCH_INVARIANT if preference.batch_invariant else _BACKENDS[preference.prefer_backend]

    def _activation(self) -> int:
        """C's number of the activation."""
        activation = getattr(self.descriptor, "epilogue", EpilogueKind.IDENTITY).activation
        return 0 if activation is None else int(activation) + 1

    def _ask(self, backend: int) -> None:
        """UnsupportedError if cuBLASLt does not compute this GEMM, of dense row-major operands, on this library."""
        row, given = ops()[self.general_op].row, {**self.numbers, "backend": backend}
        extents = {operand.name: operand.extents for operand in self.operands}
        numbers = []
        for param in row.params:
            of = extents.get(self.names.get(param.of, param.of), (0, 0))
            value = getattr(self.descriptor, param.name, None)
            if param.name in given:
                value = given[param.name]
            elif param.role == "pitch":
                value = max(of[-1], 1)
            elif param.role == "stride":
                value = max(math.prod(of[-2:]), 1)
            numbers.append(value)
        function = self.library.function(self.general_op, "can_implement")
        with naming(self.name):
            self.library.check(symbol_name(self.general_op, "can_implement"), function(*row.check_arguments(numbers)))

    def _backend(self) -> BackendKind:
        preferred = self.preference.prefer_backend
        if self.preference.batch_invariant:
            return BackendKind.BESPOKE
        if preferred is not None or self.library.backend != "cuda" or not self.general_op:
            return preferred or BackendKind.BESPOKE
        if self._passes_workspace() and not self.workspace_size:
            return BackendKind.BESPOKE
        try:
            self._ask(_BY_RULE)
        except UnsupportedError:
            return BackendKind.BESPOKE
        return BackendKind.CUBLAS

    def _passes_workspace(self) -> bool:
        """Whether cuBLASLt's sums go through the workspace."""
        return bool(self._activation()) and self.descriptor.element.itemsize == 2

    def form_for(self, views: Views) -> Form:
        """The form for the views; `general`, the last, for operands that the others lack."""
        given = [name for name, view in views.items() if view is not None]
        has_all = not self._is_general() and set(given) <= self._forms[0].pointers.keys()
        return self._forms[0 if has_all else -1]

    def _is_general(self) -> bool:
        """Whether the preference leaves `general` alone, which has a choice of kernels."""
        return self.preference.batch_invariant or self.preference.prefer_backend is not None

    def views(self, args: Args) -> dict[str, TensorRef | None]:
        """The operands, checked for contiguous rows that do not overlap, since C takes only pitches."""
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
        """A pitch, or the batch stride. The pitch of a single row does not matter."""
        if name.startswith("stride_"):
            return strides[0] if len(strides) > 2 else 0
        own = self.names.get(name[2:], name[2:])
        rows, columns = next(operand.extents for operand in self.operands if operand.name == own)[-2:]
        return max(strides[-2], columns, 1) if rows > 1 else max(columns, 1)

    def arithmetic(self) -> tuple[MathPrecision, ElementKind]:
        element = self.descriptor.element
        if element in (ElementKind.S8, ElementKind.U8):
            return arithmetic_of(element)[0], ElementKind.I32
        accumulator = ElementKind.F64 if element is ElementKind.F64 else ElementKind.F32
        return _PRECISIONS[element], accumulator

    def _served(self) -> tuple[str, ...]:
        wanted = self.preference.prefer_backend
        if wanted is not None and (wanted not in _BACKENDS or (wanted is BackendKind.CUBLAS and not self.general_op)):
            raise UnsupportedError(
                f"preference.prefer_backend is {wanted.name}: products of {self.descriptor.element} have "
                + ("kernels of this library and cuBLASLt" if self.general_op else "kernels of this library alone")
            )
        if wanted is BackendKind.CUBLAS and self.preference.batch_invariant:
            raise UnsupportedError("preference.prefer_backend is CUBLAS, which is not batch-invariant")
        found = super()._served()
        return found[-1:] if self._is_general() and (self.general_op or self.preference.batch_invariant) else found

    @property
    def sku(self) -> KernelSku:
        layout = getattr(self.descriptor, "layout", LayoutSku.RCR)
        if not isinstance(layout, LayoutSku):
            layout = LayoutSku.__members__.get(DenseLayout(layout).name)
        epilogue = getattr(self.descriptor, "epilogue", EpilogueKind.IDENTITY)
        return dataclasses.replace(super().sku, layout=layout, epilogue=epilogue, backend=self._backend())


def _c_layout(layout: LayoutSku | int) -> int:
    return int(DenseLayout[layout.name]) if isinstance(layout, LayoutSku) else int(layout)


class _LayoutPlan(_GemmPlanBase):
    """GEMMs whose ops differ in layout and epilogue."""

    __slots__ = ()
    op = "gemm"
    shapes: ClassVar = {"b": "b_shape"}

    @classmethod
    def served(cls, kind: IntEnum | None, element: ElementKind, output: ElementKind | None = None) -> tuple[str, ...]:
        """The ops of all layouts and epilogues; `_served` chooses."""
        return tuple(
            [name for layout in LayoutSku for end in EpilogueKind for name in cls._named(layout, end, element, output)]
        )

    @classmethod
    def _named(
        cls, layout: LayoutSku, epilogue: EpilogueKind, element: ElementKind, output: ElementKind | None
    ) -> tuple[str, ...]:
        raise NotImplementedError

    def _served(self) -> tuple[str, ...]:
        super()._served()
        valid, output = self.descriptor, getattr(self.descriptor, "output_element", None)
        if found := self._named(valid.layout, valid.epilogue, valid.element, output):
            return found[-1:] if self.preference.batch_invariant else found
        if any(self._named(valid.layout, valid.epilogue, valid.element, each) for each in (None, *ElementKind)):
            raise UnsupportedError(f"output_element is {output}, {self._outputs()}")
        raise UnsupportedError(f"epilogue is {valid.epilogue.name}, which products of {valid.element} have not")

    def _outputs(self) -> str:
        return "must be f32 or i32, the dtype of the bias"

    def views(self, args: Args) -> dict[str, TensorRef | None]:
        views = super().views(args)
        if views["bias"] is not None and not self.descriptor.epilogue.requires_bias:
            raise InvalidProblemError(f"bias is given, but the epilogue is {self.descriptor.epilogue.name}")
        return views


class GemmPlan(_LayoutPlan):
    """D = act(z) + residual, z = alpha row_scale[i] column_scale[j] A B + beta C + bias[j] + row_bias[i].

    All but a, b and d may be None. z is stored if it is given, for the gradient of the activation. Scales are f32, for
    f64 elements f64.
    """

    __slots__ = ()
    general = "gemm_epilogue_{T}"
    rows = ("gemm_epilogue_{T}",)
    names: ClassVar = {"r": "residual"}
    matrices = ("a", "b", "c", "d", "residual", "z")
    shapes: ClassVar = {"a": "a_shape", "b": "b_shape", **dict.fromkeys(("c", "d", "residual", "z"), "d_shape")}

    @classmethod
    def _named(
        cls, layout: LayoutSku, epilogue: EpilogueKind, element: ElementKind, output: ElementKind | None
    ) -> tuple[str, ...]:
        dtype = {ElementKind.F32: "tf32", ElementKind.F32_STRICT: "f32_simt"}.get(element, element.symbol)
        bias = "_bias" if epilogue.requires_bias else ""
        own = f"gemm{bias}{_ACTIVATIONS[epilogue]}_{dtype}_{layout.name.lower()}_sm80"
        general = f"gemm_epilogue_{dtype.removesuffix('_simt')}"
        if output in (None, element) or (output is ElementKind.F32 and element is ElementKind.F32_STRICT):
            return op_names((own, general), "", "", "")
        return op_names((f"{general}_{output.symbol}",), "", "", "")

    @property
    def general_op(self) -> str:
        return "" if self.descriptor.element is ElementKind.F32 else super().general_op  # its operands would be TF32

    def _outputs(self) -> str:
        return "must be the element, or f32 for f16 and bf16"

    def _passes_workspace(self) -> bool:
        return super()._passes_workspace() or self.descriptor.output_element is ElementKind.F32


class GatedGemmPlan(_GemmPlanBase):
    """z1 and z2 are stored if they are given."""

    __slots__ = ()
    op = "gemm_gated_{T}"
    general = "gemm_gated_{T}"
    matrices = ("a", "b1", "b2", "d", "z1", "z2")
    shapes: ClassVar = {"b1": "b_shape", "b2": "b_shape"}

    def _activation(self) -> int:
        return int(self.descriptor.activation) + 1

    def _passes_workspace(self) -> bool:
        return True

    def arithmetic(self) -> tuple[MathPrecision, ElementKind]:
        precision, accumulator = super().arithmetic()
        return MathPrecision.F32 if precision is MathPrecision.TF32 else precision, accumulator


class IntGemmPlan(_LayoutPlan):
    """i8 and u8. bias has n elements, if the epilogue has one; with RRR it is required, otherwise None means zeros."""

    __slots__ = ()
    rows = ("gemm_s8_rcr_sm80", "gemm_s8_rrr_sm80_bias_{U}")

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


class BatchedGemmPlan(_GemmPlanBase):
    """GemmPlan of a batch; all matrices of the batch share biases and scales."""

    __slots__ = ()
    op = "gemm_batched_{T}_rcr_sm80"
    others = ("gemm_epilogue_{T}",)
    general = "gemm_epilogue_{T}"
    names: ClassVar = {"r": "residual"}
    matrices = ("a", "b", "c", "d", "residual", "z")
    shapes: ClassVar = {"a": "a_shape", "b": "b_shape", **dict.fromkeys(("c", "d", "residual", "z"), "d_shape")}

    @classmethod
    def served(cls, kind: IntEnum | None, element: ElementKind, output: ElementKind | None = None) -> tuple[str, ...]:
        found = super().served(kind, element, output)
        return found if len(found) > 1 else ()


class _DensePlan(_GemmPlanBase):
    __slots__ = ()
    matrices: ClassVar[tuple[str, ...]] = ("a", "b", "d")

    def arithmetic(self) -> tuple[MathPrecision, ElementKind]:
        if self.descriptor.element in _IN_BYTE:
            is_bits = self.descriptor.element is ElementKind.BIN
            return MathPrecision.BINARY if is_bits else MathPrecision.INT4, ElementKind.I32
        precision, accumulator = super().arithmetic()
        return MathPrecision.F32 if precision is MathPrecision.TF32 else precision, accumulator


class DenseGemmPlan(_DensePlan):
    """Products of BatchedGemmPlan; epilogues need floats of 16 bits or more."""

    __slots__ = ()
    op = "gemm_dense_{T}"
    others = ("gemm_epilogue_{T}",)
    general = "gemm_epilogue_{T}"
    names: ClassVar = {"r": "residual"}
    matrices = ("a", "b", "c", "d", "residual", "z")
    shapes: ClassVar = {"a": "a_shape", "b": "b_shape", **dict.fromkeys(("c", "d", "residual", "z"), "d_shape")}


class DenseGemmBackwardPlan(_DensePlan):
    """Gradients of a batched GEMM, without sums over the batch. da and db are contiguous, in the layouts of a and b.
    Either may be None, and then the operand that only it reads: b, or a.
    """

    __slots__ = ()
    op = "gemm_dense_backward_{T}"
    matrices = ("dd", "a", "b", "da", "db")
    shapes: ClassVar = {"a": "a_shape", "b": "b_shape", "da": "a_shape", "db": "b_shape"}


class DenseGemm3xTf32Plan(_DensePlan):
    """3xTF32 GEMM: f32 on tensor cores by three TF32 products; on the CPU, f32."""

    __slots__ = ()
    op = "gemm_dense_{T}_3xtf32"
    shapes: ClassVar = {"a": "a_shape", "b": "b_shape"}


class DenseGemvPlan(_DensePlan):
    __slots__ = ()
    op = "gemv_dense_m1_{T}"
