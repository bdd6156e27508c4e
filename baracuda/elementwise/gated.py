# SPDX-License-Identifier: Apache-2.0
"""Gated activations: y = a f(b), a and b the first and second half of x along the axis split_dim.

The gate is the second half. Backward: dx = (da, db). Operands have any strides; x and dy broadcast along axes of extent
1. y may be the first half of x, of equal strides; dx may be x.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from baracuda import descriptor
from baracuda._call.scalars import INT32_MAX, as_integer
from baracuda.descriptor import ShapedDescriptor
from baracuda.errors import InvalidProblemError
from baracuda.kinds import GatedActivationKind, OpCategory
from baracuda.operands import Views
from baracuda.plan import Plan


@dataclasses.dataclass(frozen=True)
class GatedActivationDescriptor(ShapedDescriptor):
    """input_shape is that of x, of rank 1 to 8 and even along split_dim."""

    kind: GatedActivationKind = descriptor.choice(GatedActivationKind)
    input_shape: tuple[int, ...] = descriptor.shape(high=INT32_MAX)
    split_dim: int = descriptor.checked(as_integer)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of y: input_shape with half the extent along split_dim."""
        axis = self.split_dim
        return (*self.input_shape[:axis], self.input_shape[axis] // 2, *self.input_shape[axis + 1 :])

    def validated(self) -> GatedActivationDescriptor:
        valid = super().validated()
        if not valid.input_shape:
            raise InvalidProblemError("input_shape is (), must have an axis to split")
        as_integer("split_dim", valid.split_dim, 0, len(valid.input_shape) - 1)
        if valid.input_shape[valid.split_dim] % 2:
            raise InvalidProblemError(f"input_shape is {valid.input_shape}, must be even along axis {valid.split_dim}")
        return valid


class GatedActivationPlan(Plan):
    __slots__ = ()
    op = "gated_{kind}_{T}"
    category = OpCategory.GATED_ACTIVATION
    names: ClassVar = {"output_numel": "numel", "output_shape": "shape"}
    shapes: ClassVar = {"x": "input_shape", "dx": "input_shape"}

    def offset(self, strides: tuple[int, ...]) -> int:
        axis = self.descriptor.split_dim
        return int(self.descriptor.shape[axis] * strides[axis])

    def may_coincide(self, output: str, other: str, views: Views) -> bool:
        """y may alias the first half of x, dx may alias x."""
        x, out = views[other], views[output]
        if x is None or out is None or x.shape != self.descriptor.input_shape or x.ptr != out.ptr:
            return False
        return all([a == b or extent == 1 for a, b, extent in zip(x.strides, out.strides, out.shape)])


class GatedActivationBackwardPlan(GatedActivationPlan):
    __slots__ = ()
    op = "gated_{kind}_backward_{T}"
