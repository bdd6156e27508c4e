# SPDX-License-Identifier: Apache-2.0
"""GEMMs of 8-bit integers and of bits with i32 results. Matrices have the conventions of baracuda.gemm."""

from __future__ import annotations

import dataclasses
from enum import IntEnum
from typing import ClassVar

from baracuda.dtypes import ElementKind
from baracuda.errors import UnsupportedError
from baracuda.gemm.dense import DenseGemmDescriptor, _DensePlan


@dataclasses.dataclass(frozen=True)
class DenseSumsGemmDescriptor(DenseGemmDescriptor):
    """A and B are i8, u8 or b1; D is i32 and overwritten: alpha is 1 and beta 0.

    b1 has layouts RRR and RCR; its views are of bytes with eight bits each, along k or, in B of RRR, along n.
    """


class DenseSumsGemmPlan(_DensePlan):
    """i32 sums of products of i8 or u8; for bits, the number of pairs that differ (xor, popcount)."""

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
