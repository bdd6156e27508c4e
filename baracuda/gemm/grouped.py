# SPDX-License-Identifier: Apache-2.0
"""Grouped GEMM: groups of rows, each with its own matrix B (mixtures of experts, adapters), and its gradients.

Group g has rows offsets[g] to offsets[g + 1] of A and D; offsets are i32, on the device of the matrices. Rows in no
group get empty sums. B is (groups, k, n) for layout RRR and (groups, n, k) for RCR. Rows are contiguous, with any
pitch; gradients are contiguous.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from baracuda import descriptor
from baracuda.descriptor import Descriptor
from baracuda.gemm.dense import _DensePlan
from baracuda.kinds import DenseLayout


class _GroupedDescriptor(Descriptor):
    m: int
    n: int
    k: int
    groups: int
    layout: DenseLayout

    @property
    def b_shape(self) -> tuple[int, ...]:
        return (self.groups, *((self.n, self.k) if self.layout is DenseLayout.RCR else (self.k, self.n)))

    @property
    def offset_count(self) -> int:
        return self.groups + 1


@dataclasses.dataclass(frozen=True)
class GroupedGemmDescriptor(_GroupedDescriptor):
    """All groups together have m rows. D = alpha A B + beta D."""

    m: int = descriptor.extent()
    n: int = descriptor.extent()
    k: int = descriptor.extent()
    groups: int = descriptor.extent()
    layout: DenseLayout = descriptor.choice(DenseLayout)
    alpha: float = descriptor.real(default=1.0)
    beta: float = descriptor.real(default=0.0)


@dataclasses.dataclass(frozen=True)
class GroupedGemmBackwardDescriptor(_GroupedDescriptor):
    m: int = descriptor.extent()
    n: int = descriptor.extent()
    k: int = descriptor.extent()
    groups: int = descriptor.extent()
    layout: DenseLayout = descriptor.choice(DenseLayout)


class GroupedGemmPlan(_DensePlan):
    __slots__ = ()
    op = "grouped_gemm_{T}"
    shapes: ClassVar = {"b": "b_shape"}


class GroupedGemmBackwardPlan(_DensePlan):
    """da and db may be None, and then the operands that only they read: b and a."""

    __slots__ = ()
    op = "grouped_gemm_backward_{T}"
    fields: ClassVar = {"offsets": "given"}
    matrices = ("dd", "a", "b", "da", "db")
    shapes: ClassVar = {"b": "b_shape", "db": "b_shape"}
