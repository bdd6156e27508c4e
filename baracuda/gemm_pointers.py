"""Products of matrices that lie anywhere, by lists of their addresses: adapters and experts loaded one by one.

Lists are i64 tensors in the memory of the matrices, such as one of PyTorch's data_ptr(). Nothing is known of what is
there: that addresses are right, are multiples of the element's size, and of results lie apart, is the caller's care.
Elements of a row are neighbours, and rows of A, B and D lie lda, ldb and ldd elements apart. is_aligned says that all
addresses are multiples of 16 bytes, as those of allocations are; the GPU is faster then, and fails where it is not so.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from baracuda import descriptor
from baracuda.descriptor import Descriptor
from baracuda.gemm import _DensePlan
from baracuda.kinds import DenseLayout


@dataclasses.dataclass(frozen=True)
class GemmPointersDescriptor(Descriptor):
    """D = alpha A B + beta D of each product. m, n and k are those of all, or the most where there are sizes."""

    m: int = descriptor.extent()
    n: int = descriptor.extent()
    k: int = descriptor.extent()
    batch: int = descriptor.extent()
    layout: DenseLayout = descriptor.choice(DenseLayout)
    lda: int = descriptor.extent()
    ldb: int = descriptor.extent()
    ldd: int = descriptor.extent()
    is_aligned: bool = descriptor.flag()
    alpha: float = descriptor.real(default=1.0)
    beta: float = descriptor.real(default=0.0)

    @property
    def sizes_shape(self) -> tuple[int, ...]:
        return (self.batch, 3)


@dataclasses.dataclass(frozen=True)
class GroupedGemmPointersDescriptor(Descriptor):
    """GroupedGemm, of m rows in all groups, whose matrices of B lie anywhere."""

    m: int = descriptor.extent()
    n: int = descriptor.extent()
    k: int = descriptor.extent()
    groups: int = descriptor.extent()
    layout: DenseLayout = descriptor.choice(DenseLayout)
    ldb: int = descriptor.extent()
    is_aligned: bool = descriptor.flag()
    alpha: float = descriptor.real(default=1.0)
    beta: float = descriptor.real(default=0.0)

    @property
    def offset_count(self) -> int:
        return self.groups + 1


class GemmPointersPlan(_DensePlan):
    """sizes are i32, m, n and k of each product, or None: all are the descriptor's."""

    __slots__ = ()
    op = "gemm_pointers_{T}"
    matrices = ()
    shapes: ClassVar = {"sizes": "sizes_shape"}


class GroupedGemmPointersPlan(_DensePlan):
    """offsets are i32, those of baracuda.gemm_grouped."""

    __slots__ = ()
    op = "grouped_gemm_pointers_{T}"
    matrices = ("a", "d")
