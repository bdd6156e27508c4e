# SPDX-License-Identifier: Apache-2.0
"""GEMMs of matrices given by arrays of pointers: adapters and experts loaded one by one.

Pointer arrays are i64 tensors in the memory of the matrices, for example of PyTorch's data_ptr(). Pointers are not
checked: the caller must ensure that they are valid, aligned to the element size, and that results do not overlap. Rows
are contiguous, with pitches lda, ldb and ldd. is_aligned promises addresses that are multiples of 16 bytes, as those of
allocations are; GPU kernels are then faster, and fault if it does not hold.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from baracuda import descriptor
from baracuda.descriptor import Descriptor
from baracuda.gemm.dense import _DensePlan
from baracuda.kinds import DenseLayout


@dataclasses.dataclass(frozen=True)
class GemmPointersDescriptor(Descriptor):
    """D = alpha A B + beta D of each GEMM. m, n and k are those of all GEMMs, or their maxima if there are sizes."""

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
    """GroupedGemm of m rows in all groups, with pointers to the matrices B."""

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
    """sizes are i32, m, n and k of each GEMM; None means those of the descriptor."""

    __slots__ = ()
    op = "gemm_pointers_{T}"
    matrices = ()
    shapes: ClassVar = {"sizes": "sizes_shape"}


class GroupedGemmPointersPlan(_DensePlan):
    """offsets are i32, those of baracuda.gemm.grouped."""

    __slots__ = ()
    op = "grouped_gemm_pointers_{T}"
    matrices = ("a", "d")
