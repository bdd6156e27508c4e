"""Softmax along one axis, its variants, and their gradients.

SOFTMAX: exp(x - m) / sum exp(x - m), m the largest of a row; LOG_SOFTMAX: its logarithm. Gumbel softmax: softmax of
the logits with Gumbel noise over a temperature, or with `hard` a 1 at the largest of them; its gradient reads the soft
result of the same noise. Sparsemax: the point of the probability simplex nearest to the logits. NaN and +inf make a row
NaN. Operands have any strides; results may overwrite their input.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, ClassVar

from baracuda import descriptor
from baracuda._scalars import INT32_MAX, as_integer, as_real
from baracuda.descriptor import Descriptor, ShapedDescriptor
from baracuda.errors import InvalidProblemError
from baracuda.kinds import OpCategory, SoftmaxKind
from baracuda.operands import Args, Viewable
from baracuda.plan import Plan


def _temperature(name: str, value: object) -> float:
    temperature = as_real(name, value)
    if not (math.isfinite(temperature) and temperature > 0):
        raise InvalidProblemError(f"{name} is {value!r}, must be finite and > 0")
    return temperature


def _shape() -> Any:
    return descriptor.shape(high=INT32_MAX)


def _axis() -> Any:
    return descriptor.checked(as_integer)


class _AlongAxis(ShapedDescriptor):
    input_shape: Any
    softmax_axis: Any

    @property
    def shape(self) -> tuple[int, ...]:
        return self.input_shape

    @property
    def softmax_extent(self) -> int:
        return self.input_shape[self.softmax_axis]

    def validated(self) -> Any:
        valid = super().validated()
        if not valid.input_shape:
            raise InvalidProblemError("input_shape is (), must have an axis")
        as_integer("softmax_axis", valid.softmax_axis, 0, len(valid.input_shape) - 1)
        return valid


@dataclasses.dataclass(frozen=True)
class SoftmaxDescriptor(_AlongAxis):
    """input_shape is of rank 1 to 8."""

    kind: SoftmaxKind = descriptor.choice(SoftmaxKind)
    input_shape: tuple[int, ...] = _shape()
    softmax_axis: int = _axis()


class SoftmaxBackwardDescriptor(SoftmaxDescriptor):
    pass


@dataclasses.dataclass(frozen=True)
class GumbelSoftmaxDescriptor(_AlongAxis):
    """input_shape is of rank 1 to 8."""

    input_shape: tuple[int, ...] = _shape()
    softmax_axis: int = _axis()
    temperature: float = descriptor.checked(_temperature)
    hard: bool = descriptor.flag()

    @property
    def inv_tau(self) -> float:
        return 1 / self.temperature


@dataclasses.dataclass(frozen=True)
class GumbelSoftmaxBackwardDescriptor(_AlongAxis):
    """input_shape is of rank 1 to 8."""

    input_shape: tuple[int, ...] = _shape()
    softmax_axis: int = _axis()
    temperature: float = descriptor.checked(_temperature)

    @property
    def inv_tau(self) -> float:
        return 1 / self.temperature


@dataclasses.dataclass(frozen=True)
class SparsemaxDescriptor(_AlongAxis):
    """input_shape is of rank 1 to 8."""

    input_shape: tuple[int, ...] = _shape()
    softmax_axis: int = _axis()


class SparsemaxBackwardDescriptor(SparsemaxDescriptor):
    pass


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class SoftmaxArgs(Args):
    x: Viewable
    y: Viewable


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class SoftmaxBackwardArgs(Args):
    """y is what the forward op gave."""

    dy: Viewable
    y: Viewable
    dx: Viewable


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class GumbelSoftmaxArgs(Args):
    """u_rand is f32, of the shape of x and contiguous, uniform in (0, 1)."""

    x: Viewable
    u_rand: Viewable
    y: Viewable


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class GumbelSoftmaxBackwardArgs(SoftmaxBackwardArgs):
    """y is the soft result of the noise that the forward op had."""


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class SparsemaxArgs(SoftmaxArgs):
    pass


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class SparsemaxBackwardArgs(SoftmaxBackwardArgs):
    pass


class _AlongAxisPlan(Plan):
    __slots__ = ()
    category = OpCategory.SOFTMAX

    def offset(self, strides: tuple[int, ...]) -> int:
        """The stride of the axis, which C takes beside the others."""
        return strides[self.descriptor.softmax_axis]


class SoftmaxPlan(_AlongAxisPlan):
    __slots__ = ()
    op = "{kind}_{T}"
    descriptor_type: ClassVar[type[Descriptor]] = SoftmaxDescriptor
    args_type: ClassVar[type[Args]] = SoftmaxArgs
    elsewhere: ClassVar = {SoftmaxKind.GUMBEL_SOFTMAX: "GumbelSoftmaxPlan", SoftmaxKind.SPARSEMAX: "SparsemaxPlan"}


class SoftmaxBackwardPlan(_AlongAxisPlan):
    __slots__ = ()
    op = "{kind}_backward_{T}"
    descriptor_type = SoftmaxBackwardDescriptor
    args_type = SoftmaxBackwardArgs
    elsewhere: ClassVar = {
        SoftmaxKind.GUMBEL_SOFTMAX: "GumbelSoftmaxBackwardPlan", SoftmaxKind.SPARSEMAX: "SparsemaxBackwardPlan",
    }  # fmt: skip


class GumbelSoftmaxPlan(_AlongAxisPlan):
    __slots__ = ()
    op = "gumbel_softmax_{T}"
    kind = SoftmaxKind.GUMBEL_SOFTMAX
    descriptor_type: ClassVar[type[Descriptor]] = GumbelSoftmaxDescriptor
    args_type: ClassVar[type[Args]] = GumbelSoftmaxArgs


class GumbelSoftmaxBackwardPlan(_AlongAxisPlan):
    """Times 1 / temperature, which the reference leaves to the caller."""

    __slots__ = ()
    op = "gumbel_softmax_backward_{T}"
    kind = SoftmaxKind.GUMBEL_SOFTMAX
    descriptor_type: ClassVar[type[Descriptor]] = GumbelSoftmaxBackwardDescriptor
    args_type: ClassVar[type[Args]] = GumbelSoftmaxBackwardArgs


class SparsemaxPlan(_AlongAxisPlan):
    __slots__ = ()
    op = "sparsemax_{T}"
    kind = SoftmaxKind.SPARSEMAX
    descriptor_type: ClassVar[type[Descriptor]] = SparsemaxDescriptor
    args_type: ClassVar[type[Args]] = SparsemaxArgs


class SparsemaxBackwardPlan(_AlongAxisPlan):
    __slots__ = ()
    op = "sparsemax_backward_{T}"
    kind = SoftmaxKind.SPARSEMAX
    descriptor_type = SparsemaxBackwardDescriptor
    args_type = SparsemaxBackwardArgs
