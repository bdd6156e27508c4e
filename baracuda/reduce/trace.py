# SPDX-License-Identifier: Apache-2.0
"""The trace of a square matrix, and its gradient."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from baracuda import descriptor
from baracuda.descriptor import Descriptor
from baracuda.kinds import OpCategory, ReduceKind
from baracuda.plan import Plan


@dataclasses.dataclass(frozen=True)
class TraceDescriptor(Descriptor):
    n: int = descriptor.extent()

    @property
    def rows(self) -> int:
        return self.n

    @property
    def input_shape(self) -> tuple[int, ...]:
        return (self.n, self.n)

    @property
    def output_shape(self) -> tuple[int, ...]:
        return ()


@dataclasses.dataclass(frozen=True)
class TraceBackwardDescriptor(Descriptor):
    """dx is rows x columns; the trace is that of its leading square."""

    rows: int = descriptor.extent()
    columns: int = descriptor.extent()

    @property
    def dy_shape(self) -> tuple[int, ...]:
        return ()


class TracePlan(Plan):
    __slots__ = ()
    op = "trace_{T}"
    category = OpCategory.REDUCTION
    kind = ReduceKind.TRACE
    shapes: ClassVar = {"x": "input_shape", "y": "output_shape"}

    def step(self, name: str, strides: tuple[int, ...]) -> int:
        return strides[name == "stride_col"]


class TraceBackwardPlan(Plan):
    __slots__ = ()
    op = "trace_backward_{T}"
    category = OpCategory.REDUCTION
    kind = ReduceKind.TRACE
    shapes: ClassVar = {"dy": "dy_shape"}
