# SPDX-License-Identifier: Apache-2.0
"""Reductions to a shape that was broadcast, and their gradients, which are those over any set of axes too."""

from __future__ import annotations

import dataclasses
import math
from typing import ClassVar

from baracuda import descriptor
from baracuda._call.scalars import INT32_MAX
from baracuda.descriptor import Descriptor, product
from baracuda.errors import InvalidProblemError
from baracuda.kinds import OpCategory, ReduceToOp
from baracuda.plan import Plan
from baracuda.reduce.one_axis import correction_field


@dataclasses.dataclass(frozen=True)
class ReduceToDescriptor(Descriptor):
    """Extents of output_shape are those of input_shape or 1; ranks are equal. correction is of VAR and STD, p, at
    least 0, of NORM_P."""

    op: ReduceToOp = descriptor.choice(ReduceToOp)
    input_shape: tuple[int, ...] = descriptor.shape(high=INT32_MAX)
    output_shape: tuple[int, ...] = descriptor.shape(high=INT32_MAX)
    correction: int = correction_field()
    p: float = descriptor.real(default=2.0)

    @property
    def kind(self) -> ReduceToOp:
        return self.op

    @property
    def rank_in(self) -> int:
        return len(self.input_shape)

    def validated(self) -> ReduceToDescriptor:
        valid = super().validated()
        if not descriptor.broadcasts(valid.output_shape, valid.input_shape):
            raise InvalidProblemError(
                f"output_shape is {valid.output_shape}, must be input_shape {valid.input_shape}, or 1 along an axis"
            )
        return valid


@dataclasses.dataclass(frozen=True)
class ReduceToBackwardDescriptor(ReduceToDescriptor):
    @property
    def reduced(self) -> tuple[bool, ...]:
        """Whether each axis was reduced."""
        return tuple([have != want for have, want in zip(self.input_shape, self.output_shape)])

    @property
    def rank(self) -> int:
        return len(self.input_shape)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.input_shape

    @property
    def numel(self) -> int:
        return product("x", self.input_shape)

    @property
    def inv_extent(self) -> float:
        extents = [extent for extent, reduced in zip(self.input_shape, self.reduced) if reduced]
        return 1 / max(math.prod(extents), 1)


class ReduceToPlan(Plan):
    __slots__ = ()
    op = "reduce_{kind}_to_{T}"
    category = OpCategory.REDUCTION
    spelling: ClassVar = {ReduceToOp.LOG_SUM_EXP: "logsumexp"}
    names: ClassVar = {"src": "x", "dst": "y"}
    shapes: ClassVar = {"x": "input_shape", "y": "output_shape"}


class ReduceToBackwardPlan(Plan):
    """Gradients of reductions to a shape, and so over any set of axes."""

    __slots__ = ()
    op = "reduce_{kind}_backward_{T}"
    category = OpCategory.REDUCTION
    spelling: ClassVar = {
        ReduceToOp.LOG_SUM_EXP: "logsumexp", ReduceToOp.VAR: "var_axes", ReduceToOp.STD: "std_axes",
        **dict.fromkeys((ReduceToOp.MAX, ReduceToOp.MIN, ReduceToOp.FMAX, ReduceToOp.FMIN), "max_min"),
    }  # fmt: skip
    shapes: ClassVar = {"x": "input_shape", "dx": "input_shape", "dy": "output_shape", "y": "output_shape"}

    def layout(self, name: str, strides: tuple[int, ...]) -> tuple[int, ...]:
        """Strides of the results, 0 along reduced axes."""
        if name in ("x", "dx"):
            return strides
        return tuple([0 if reduced else step for step, reduced in zip(strides, self.descriptor.reduced)])
