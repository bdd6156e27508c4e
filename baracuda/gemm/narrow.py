# SPDX-License-Identifier: Apache-2.0
"""GEMMs of narrow elements (fp8, 4 bits, 1 bit), with 2:4 sparse weights, and with quantized weights (Marlin, AWQ).

8-bit floats and 4-bit integers have the conventions and epilogues of baracuda.gemm; C of None means zeros. Views of
packed 4-bit integers and bits are of bytes: along k in A and, for RCR, in B, else along n, as in C and D.
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

from baracuda import descriptor
from baracuda._call.c_call import op_names
from baracuda._call.scalars import INT32_MAX, as_integer
from baracuda.descriptor import Descriptor
from baracuda.dtypes import ElementKind, as_element
from baracuda.errors import InvalidProblemError, UnsupportedError
from baracuda.gemm.dense import (
    _ACTIVATIONS,
    DenseGemmDescriptor,
    DenseGemmPlan,
    _GemmDescriptorBase,
    _GemmPlanBase,
    _LayoutPlan,
    _scalar_field,
)
from baracuda.guarantee import KernelSku
from baracuda.kinds import BackendKind, DenseLayout, EpilogueKind, LayoutSku, MathPrecision, OpCategory
from baracuda.plan import Plan

_FP8 = {ElementKind.FP8_E4M3: "e4m3", ElementKind.FP8_E5M2: "e5m2"}
_NIBBLES = (ElementKind.S4, ElementKind.U4)


def _multiple(name: str, value: int, of: int) -> int:
    """value / of, which must be an integer."""
    if value % of:
        raise UnsupportedError(f"{name} is {value}, must be a multiple of {of}: elements share bytes")
    return value // of


@dataclasses.dataclass(frozen=True)
class Fp8GemmDescriptor(_GemmDescriptorBase):
    m: int = descriptor.extent()
    n: int = descriptor.extent()
    k: int = descriptor.extent()
    layout: LayoutSku = descriptor.choice(LayoutSku)
    epilogue: EpilogueKind = descriptor.choice(EpilogueKind)
    alpha: float = _scalar_field(1.0)
    beta: float = _scalar_field(0.0)


@dataclasses.dataclass(frozen=True)
class Int4GemmDescriptor(Descriptor):
    """output_element is the dtype of the bias, f32 or i32. k and n are even."""

    m: int = descriptor.extent()
    n: int = descriptor.extent()
    k: int = descriptor.extent()
    layout: LayoutSku = descriptor.choice(LayoutSku)
    epilogue: EpilogueKind = descriptor.choice(EpilogueKind)
    output_element: ElementKind = descriptor.checked(
        lambda name, value: as_element(value, name), default=ElementKind.F32
    )
    alpha: float = descriptor.real(default=1.0)
    beta: float = descriptor.real(default=0.0)

    @property
    def half_k(self) -> int:
        return _multiple("k", self.k, 2)

    @property
    def half_n(self) -> int:
        return _multiple("n", self.n, 2)


@dataclasses.dataclass(frozen=True)
class BinGemmDescriptor(Descriptor):
    """k is a multiple of 8, and for RRR n."""

    m: int = descriptor.extent()
    n: int = descriptor.extent()
    k: int = descriptor.extent()
    layout: LayoutSku = descriptor.choice(LayoutSku)

    @property
    def bytes_of_k(self) -> int:
        return _multiple("k", self.k, 8)

    @property
    def bytes_of_n(self) -> int:
        return _multiple("n", self.n, 8)


@dataclasses.dataclass(frozen=True)
class GemmSparse24Descriptor(Descriptor):
    """n rows of x, m of the weights; k is a multiple of 8."""

    n: int = descriptor.extent()
    m: int = descriptor.extent()
    k: int = descriptor.extent()

    @property
    def half_k(self) -> int:
        return self.k // 2

    @property
    def words(self) -> int:
        return _multiple("k", self.k, 8)


@dataclasses.dataclass(frozen=True)
class GemmSparse24InflateDescriptor(Descriptor):
    """m rows of weights; k is a multiple of 8."""

    m: int = descriptor.extent()
    k: int = descriptor.extent()

    @property
    def half_k(self) -> int:
        return self.k // 2

    @property
    def words(self) -> int:
        return _multiple("k", self.k, 8)


@dataclasses.dataclass(frozen=True)
class Int4MarlinGemmDescriptor(Descriptor):
    """group_size is 128, or -1 for one scale a column. max_par has no effect."""

    m: int = descriptor.extent()
    n: int = descriptor.extent()
    k: int = descriptor.extent()
    group_size: int = descriptor.checked(lambda name, value: _group(name, value, (128, -1)), default=128)
    max_par: int = descriptor.checked(lambda name, value: _positive(name, value), default=16)

    @property
    def strips(self) -> int:
        return self.k // 16

    @property
    def words(self) -> int:
        return 2 * self.n

    @property
    def groups(self) -> int:
        return 1 if self.group_size == -1 else self.k // 128

    @property
    def locks(self) -> int:
        return 0


class _AwqLayout(Descriptor):
    group_size: int

    @property
    def k_elements(self) -> int:
        raise NotImplementedError

    @property
    def words(self) -> int:
        return self.k_elements // 8

    @property
    def zero_words(self) -> int:
        multiple = 128 // self.group_size
        return -(-(self.k_elements // self.group_size) // (8 * multiple)) * multiple

    @property
    def scale_columns(self) -> int:
        return 8 * self.zero_words


@dataclasses.dataclass(frozen=True)
class Int4AwqGemmDescriptor(_AwqLayout):
    """k is ic, n is oc. split_k_iters has no effect, but ic must be a multiple of 32 * split_k_iters."""

    m: int = descriptor.extent()
    ic: int = descriptor.extent()
    oc: int = descriptor.extent()
    group_size: int = descriptor.checked(lambda name, value: _group(name, value, (64, 128)), default=128)
    split_k_iters: int = descriptor.checked(lambda name, value: _positive(name, value), default=8)

    def validated(self) -> Int4AwqGemmDescriptor:
        valid = super().validated()
        if valid.ic % (32 * valid.split_k_iters):
            text = f"split_k_iters is {valid.split_k_iters}, but ic, {valid.ic}, is no multiple of 32 times as much"
            raise InvalidProblemError(text)
        return valid

    @property
    def k_elements(self) -> int:
        return self.ic


@dataclasses.dataclass(frozen=True)
class Int4AwqDequantizeDescriptor(_AwqLayout):
    """The dense weights are (k, n)."""

    n: int = descriptor.extent()
    k: int = descriptor.extent()
    group_size: int = descriptor.checked(lambda name, value: _group(name, value, (64, 128)), default=128)

    @property
    def k_elements(self) -> int:
        return self.k


def _group(name: str, value: Any, choices: tuple[int, ...]) -> int:
    number = as_integer(name, value, -1, INT32_MAX)
    if number not in choices:
        raise InvalidProblemError(f"{name} is {number}, must be {choices[0]} or {choices[1]}")
    return number


def _positive(name: str, value: Any) -> int:
    return as_integer(name, value, 1, INT32_MAX)


class Fp8GemmPlan(_LayoutPlan):
    """e4m3 and e5m2. bias is f32, of n elements, if the epilogue has one; None means zeros."""

    __slots__ = ()
    rows = ("gemm_fp8_e4m3_rcr_sm89", "gemm_fp8_e4m3_rcr_sm89_bias")

    @classmethod
    def _named(
        cls, layout: LayoutSku, epilogue: EpilogueKind, element: ElementKind, output: ElementKind | None
    ) -> tuple[str, ...]:
        end = f"_bias{_ACTIVATIONS[epilogue]}" if epilogue.requires_bias else ""
        return op_names((f"gemm_fp8_{_FP8.get(element, '')}_{layout.name.lower()}_sm89{end}",), "", "", "")

    def arithmetic(self) -> tuple[MathPrecision, ElementKind]:
        is_e4m3 = self.descriptor.element is ElementKind.FP8_E4M3
        return MathPrecision.FP8_E4M3 if is_e4m3 else MathPrecision.FP8_E5M2, ElementKind.F32


class Int4GemmPlan(_LayoutPlan):
    """s4 and u4. Views are of bytes, (m, k / 2) for A; bias has n elements, if the epilogue has one."""

    __slots__ = ()
    rows = ("gemm_s4_rcr_sm89", "gemm_s4_rcr_sm89_bias_{U}")
    shapes: ClassVar = {}

    @classmethod
    def _named(
        cls, layout: LayoutSku, epilogue: EpilogueKind, element: ElementKind, output: ElementKind | None
    ) -> tuple[str, ...]:
        dtype = element.symbol if element in _NIBBLES else ""
        end = f"_bias{_ACTIVATIONS[epilogue]}_{'' if output is None else output.symbol}"
        name = f"gemm_{dtype}_{layout.name.lower()}_sm89"
        return op_names((name + end * epilogue.requires_bias,), "", "", "")

    def arithmetic(self) -> tuple[MathPrecision, ElementKind]:
        return MathPrecision.INT4, ElementKind.I32

    @property
    def sku(self) -> KernelSku:
        aux = self.descriptor.output_element if self.descriptor.epilogue.requires_bias else None
        return dataclasses.replace(super().sku, aux_element=aux)


class BinGemmPlan(_GemmPlanBase):
    """Elements are b1. a and b are views of bytes; d is the number of bits that differ (xor, popcount)."""

    __slots__ = ()
    op = "gemm_bin"
    rows = ("gemm_bin_rcr_sm89",)
    matrices = ("a", "b", "d")

    @classmethod
    def served(cls, kind: Any, element: ElementKind, output: ElementKind | None = None) -> tuple[str, ...]:
        """The ops of both layouts; `_served` chooses."""
        if element is not ElementKind.BIN:
            return ()
        return tuple([f"gemm_bin_{layout.name.lower()}_sm89" for layout in LayoutSku])

    def _served(self) -> tuple[str, ...]:
        super()._served()
        return (f"gemm_bin_{self.descriptor.layout.name.lower()}_sm89",)

    def arithmetic(self) -> tuple[MathPrecision, ElementKind]:
        return MathPrecision.BINARY, ElementKind.I32


class GemmSparse24Plan(_GemmPlanBase):
    __slots__ = ()
    op = "gemm_{T}_sparse24_gemm"
    fields: ClassVar = {"x": "last", "y": "last"}
    matrices = ()

    def arithmetic(self) -> tuple[MathPrecision, ElementKind]:
        precision, accumulator = super().arithmetic()
        return MathPrecision.F32 if precision is MathPrecision.TF32 else precision, accumulator

    def _backend(self) -> BackendKind:
        """The backend of the dense GEMM of inflated weights, which GPUs run for more than a few rows."""
        if self.library.backend != "cuda" or not self.workspace_size:
            return BackendKind.BESPOKE
        valid = self.descriptor
        dense = DenseGemmDescriptor(valid.n, valid.m, valid.k, 1, DenseLayout.RCR, element=valid.element)
        return DenseGemmPlan.select(None, dense, library=self.library).sku.backend


class GemmSparse24InflatePlan(GemmSparse24Plan):
    """The weights as a dense matrix."""

    __slots__ = ()
    op = "gemm_{T}_sparse24_inflate"

    @property
    def sku(self) -> KernelSku:
        return dataclasses.replace(super().sku, layout=None, epilogue=None)

    def _backend(self) -> BackendKind:
        return BackendKind.BESPOKE


class _W4Plan(Plan):
    __slots__ = ()
    category = OpCategory.GEMM
    kind = 0

    def arithmetic(self) -> tuple[MathPrecision, ElementKind]:
        return MathPrecision.F16, ElementKind.F32


class Int4MarlinGemmPlan(_W4Plan):
    """The locks of other implementations, `workspace`, are None or empty: there are none."""

    __slots__ = ()
    op = "int4_marlin_gemm_{T}"
    fields: ClassVar = {"output": "last"}
    names: ClassVar = {
        "M": "m", "N": "n", "K": "k", "groupsize": "group_size", "a": "activation", "b": "weight_packed", "c": "output",
    }  # fmt: skip


class Int4AwqGemmPlan(_W4Plan):
    __slots__ = ()
    op = "int4_awq_gemm_{T}"
    names: ClassVar = {
        "M": "m", "IC": "ic", "OC": "oc", "in_feats": "activation", "kernel_weights": "weight_packed",
        "scaling_factors": "scales", "out": "output",
    }  # fmt: skip


class Int4AwqDequantizePlan(_W4Plan):
    __slots__ = ()
    op = "int4_awq_dequantize_{T}"
    names: ClassVar = {
        "N": "n", "K": "k", "kernel_weights": "weight_packed", "scaling_factors": "scales", "out": "output",
    }  # fmt: skip
