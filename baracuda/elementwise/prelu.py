"""PReLU: y = x for x > 0, else w x, w one number or one for each channel (He et al. 2015).

Backward: dx = dy for x > 0, else w dy; dweight[c] = sum of dy x over the cells of channel c that are negative or NaN,
in f32 (f64 for f64) and in a fixed order. One of dx, dweight may be None. Operands have any strides; x and dy broadcast
along axes of extent 1. y may be x; dx may be dy or x.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, ClassVar

from baracuda import descriptor
from baracuda._optable import Row
from baracuda._scalars import INT32_MAX, as_integer
from baracuda.descriptor import Descriptor
from baracuda.elementwise._pointwise import PointwisePlan, result, source
from baracuda.errors import InvalidProblemError
from baracuda.kinds import OpCategory, UnaryKind
from baracuda.operands import Args, Operand, Viewable, Views


@dataclasses.dataclass(frozen=True)
class PReluDescriptor(Descriptor):
    """channel_axis: the axis of shape along which weight lies; negative: weight has one element."""

    shape: tuple[int, ...] = descriptor.shape()
    channel_axis: int = descriptor.checked(as_integer)

    @property
    def weight_shape(self) -> tuple[int, ...]:
        return (1,) if self.channel_axis < 0 else (self.shape[self.channel_axis],)

    def validated(self) -> PReluDescriptor:
        valid = super().validated()
        if valid.channel_axis >= len(valid.shape):
            raise InvalidProblemError(
                f"channel_axis is {valid.channel_axis}, must be an axis of shape {valid.shape}, or negative"
            )
        if max(valid.weight_shape) > INT32_MAX:
            raise InvalidProblemError(f"shape is {valid.shape}, must have at most {INT32_MAX} channels")
        return valid


class PReluBackwardDescriptor(PReluDescriptor):
    pass


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class PReluArgs(Args):
    x: Viewable
    weight: Viewable
    y: Viewable


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class PReluBackwardArgs(Args):
    """dweight alone does not need weight."""

    dy: Viewable
    x: Viewable
    weight: Viewable | None
    dx: Viewable | None = None
    dweight: Viewable | None = None


_WEIGHT = Operand("weight", "weight_shape", strided=True)


class PReluPlan(PointwisePlan):
    __slots__ = ()
    op = "prelu_{T}"
    category = OpCategory.UNARY_ELEMENTWISE
    descriptor_type: ClassVar[type[Descriptor]] = PReluDescriptor
    args_type: ClassVar[type[Args]] = PReluArgs
    operands: ClassVar[tuple[Operand, ...]] = (source("x"), _WEIGHT, result("y", "x"))
    kind: ClassVar[UnaryKind] = UnaryKind.PRELU  # type: ignore[assignment]

    def structure(self, strides: Mapping[str, tuple[int, ...]]) -> dict[str, Any]:
        shape, axis = self.descriptor.shape, self.descriptor.channel_axis
        return super().structure(strides) | {
            "channel_stride": max(1, math.prod(shape[axis + 1 :])) if axis >= 0 else 1,
            "channel_extent": max(1, shape[axis]) if axis >= 0 else 1,
            "scalar_weight": int(axis < 0),
        }

    def variant(self, views: Views) -> str:
        extents = {operand.name: operand.extents(self.descriptor) for operand in self.operands}
        given = [(view, extents[name]) for name, view in views.items() if view is not None]
        return "" if all([view.is_dense and view.shape == extent for view, extent in given]) else "_strided"

    def arguments(self, row: Row, views: Views, strides: Mapping[str, tuple[int, ...]]) -> tuple[Any, ...]:
        """C's strided form wants the weights as broadcast to the shape."""
        rank, axis = len(self.descriptor.shape), self.descriptor.channel_axis
        spread = dict(strides)
        for name in ("weight", "dweight"):
            if name in strides:
                spread[name] = tuple(strides[name][0] if d == axis else 0 for d in range(rank))
        return super().arguments(row, views, spread)


class PReluBackwardPlan(PReluPlan):
    __slots__ = ()
    op = "prelu_backward_{T}"
    descriptor_type = PReluBackwardDescriptor
    args_type = PReluBackwardArgs
    operands = (
        source("dy"),
        source("x"),
        dataclasses.replace(_WEIGHT, optional=True),
        Operand("dx", "shape", strided=True, output=True, optional=True, may_be=("dy", "x")),
        Operand("dweight", "weight_shape", strided=True, output=True, optional=True),
    )
