# SPDX-License-Identifier: Apache-2.0
"""Preferences of a plan, its precision guarantee, and the identity of its kernel."""

from __future__ import annotations

import dataclasses
import sys

from baracuda._call.scalars import as_integer
from baracuda.dtypes import ElementKind
from baracuda.errors import InvalidProblemError
from baracuda.kinds import ArchSku, BackendKind, EpilogueKind, LayoutSku, MathPrecision, OpCategory

SIZE_MAX = 2**64 - 1
BATCH_INVARIANT = 5  # C's `backend` of batch-invariant products
_FORMS = {  # element -> (arithmetic, accumulator dtype), if the accumulator is not f32
    ElementKind.F64: (MathPrecision.F64, ElementKind.F64),
    ElementKind.S8: (MathPrecision.INT8, ElementKind.S8),
    ElementKind.U8: (MathPrecision.INT8, ElementKind.U8),
    ElementKind.S4: (MathPrecision.INT4, ElementKind.S4),
    ElementKind.U4: (MathPrecision.INT4, ElementKind.U4),
    ElementKind.BOOL: (MathPrecision.BINARY, ElementKind.BOOL),
    ElementKind.FP8_E4M3: (MathPrecision.FP8_E4M3, ElementKind.FP8_E4M3),
    ElementKind.FP8_E5M2: (MathPrecision.FP8_E5M2, ElementKind.FP8_E5M2),
}


# Families whose sums along a row have one order whatever the batch on the CPU alone: on a GPU the number of rows may
# choose the kernel; and families of which nothing is promised.
_ORDERED_ON_THE_CPU = frozenset(("loss", "norm", "reduce", "softmax"))
_UNORDERED = frozenset(("attention", "image", "indexing", "scan", "segment"))


def batch_invariance(family: str, claim: str, backend: str) -> str:
    """The promise for a row of the op table, whose own claim is "yes", "no" or "preference"."""
    is_broken = family in _UNORDERED or (family in _ORDERED_ON_THE_CPU and backend != "cpu")
    return "no" if claim == "yes" and is_broken else claim


@dataclasses.dataclass(frozen=True)
class PlanPreference:
    """Preferences for the choice among kernels.

    max_workspace_bytes  a plan never asks for more
    allow_sm90a          read by GEMM plans only
    prefer_backend       read by GEMM and attention plans only
    deterministic        bit-identical results on every run, or UnsupportedError from `select`
    batch_invariant      the bits of a result row depend on that row's inputs alone, not on how many rows there are, on
                         the other rows or on padding; or UnsupportedError from `select`. It implies `deterministic`
    check_indices        each run looks at the indices, too, and leaves a report in its workspace for `Plan.check`
    """

    max_workspace_bytes: int = sys.maxsize
    allow_sm90a: bool = True
    prefer_backend: BackendKind | None = None
    deterministic: bool = False
    check_indices: bool = False
    batch_invariant: bool = False

    @property
    def is_ordered(self) -> bool:
        """Whether sums must be added in a fixed order."""
        return self.deterministic or self.batch_invariant

    def validate(self) -> None:
        as_integer("preference.max_workspace_bytes", self.max_workspace_bytes, 0, SIZE_MAX)
        for name in ("allow_sm90a", "deterministic", "check_indices", "batch_invariant"):
            if not isinstance(getattr(self, name), bool):
                raise InvalidProblemError(f"preference.{name} is {getattr(self, name)!r}, must be a bool")
        if self.prefer_backend is not None and not isinstance(self.prefer_backend, BackendKind):
            raise InvalidProblemError(f"preference.prefer_backend is {self.prefer_backend!r}, must be a BackendKind")


@dataclasses.dataclass(frozen=True)
class PrecisionGuarantee:
    """Precision and determinism of the chosen kernel on its library.

    batch_invariant  the bits of a result row depend on that row's inputs alone; of products and attention only with
                     PlanPreference(batch_invariant=True)
    """

    math_precision: MathPrecision
    accumulator: ElementKind
    bit_stable_on_same_hardware: bool
    deterministic: bool
    batch_invariant: bool


@dataclasses.dataclass(frozen=True)
class KernelSku:
    """Identity of the chosen kernel.

    op           the kind within the category
    aux_element  dtype of the result of a cast; i32 for an op with indices, of whichever width
    arch         the machine code in use: the CPU library's instruction set, or the CUDA library's code for the current
                 device; None without a device
    """

    category: OpCategory
    op: int
    element: ElementKind
    aux_element: ElementKind | None
    layout: LayoutSku | None
    epilogue: EpilogueKind | None
    arch: ArchSku | None
    backend: BackendKind
    precision_guarantee: PrecisionGuarantee


def arithmetic_of(element: ElementKind) -> tuple[MathPrecision, ElementKind]:
    """(arithmetic, accumulator dtype) of pointwise kernels; 16-bit floats accumulate in f32."""
    if element in _FORMS:
        return _FORMS[element]
    if element.integer_range:
        return MathPrecision.INTEGER, element
    return MathPrecision.F32, ElementKind.F32
