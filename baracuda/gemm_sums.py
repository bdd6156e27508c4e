"""Products of 8-bit integers and of bits, whose results are sums of i32. Matrices lie as baracuda.gemm says."""

from __future__ import annotations

import dataclasses
from enum import IntEnum
from typing import ClassVar

from baracuda.dtypes import ElementKind
from baracuda.errors import UnsupportedError
from baracuda.gemm import DenseGemmDescriptor, _DensePlan


@dataclasses.dataclass(frozen=True)
class DenseSumsGemmDescriptor(DenseGemmDescriptor):
    """Of i8, u8 or b1; D is of i32 and overwritten: alpha is 1, and beta 0.

    Of b1, which has layouts RRR and RCR, A and B are views of bytes, of eight bits along k or, in B of RRR, along n.
    """


class DenseSumsGemmPlan(_DensePlan):
    """Products of i8 and u8 whose results are their sums, of i32; of bits how many pairs differ."""

    __slots__ = ()
    op = "gemm_dense_{T}_i32"
    shapes: ClassVar = {"a": "a_shape", "b": "b_shape"}

    @classmethod
    def served(cls, kind: IntEnum | None, element: ElementKind, output: ElementKind | None = None) -> tuple[str, ...]:
        return ("gemm_dense_bin",) if element is ElementKind.BIN else super().served(kind, element, output)

    def _served(self) -> tuple[str, ...]:
        if (self.descriptor.alpha, self.descriptor.beta) != (1, 0):
            raise UnsupportedError("alpha is not 1, or beta not 0, but results are the sums themselves")
        return super()._served()
