# SPDX-License-Identifier: Apache-2.0
"""Reductions along an axis or any set of axes, gradients, reductions to a shape, and the trace.

Results keep the axis, with extent 1. NaN propagates; the index of equal extremes is that of the first, and they share
the gradient evenly. Operands have any strides. Sums of f16 and bf16 are accumulated in f32.
"""

from __future__ import annotations

import dataclasses
import math
from enum import IntEnum
from typing import Any, ClassVar

from baracuda import descriptor
from baracuda._call.scalars import INT32_MAX, INT32_MIN, as_integer, as_integers
from baracuda.descriptor import Descriptor, ShapedDescriptor, product
from baracuda.dtypes import ElementKind, as_element
from baracuda.errors import InvalidProblemError
from baracuda.kinds import ArgReduceKind, OpCategory, ReduceKind, ReduceToOp
from baracuda.plan import Plan

_INDEX_KINDS = (ElementKind.I32, ElementKind.I64, ElementKind.U32)


class _AxisDescriptor(ShapedDescriptor):
    """input_shape is of rank 1 to 8."""

    input_shape: tuple[int, ...]
    reduce_axis: int

    @property
    def shape(self) -> tuple[int, ...]:
        return self.input_shape

    @property
    def output_shape(self) -> tuple[int, ...]:
        return tuple([1 if axis == self.reduce_axis else e for axis, e in enumerate(self.input_shape)])

    @property
    def output_numel(self) -> int:
        return product("y", self.output_shape)

    @property
    def reduce_extent(self) -> int:
        return self.input_shape[self.reduce_axis]

    def validated(self) -> Any:
        valid = super().validated()
        if not valid.input_shape:
            raise InvalidProblemError("input_shape is (), must have an axis to reduce")
        as_integer("reduce_axis", valid.reduce_axis, 0, len(valid.input_shape) - 1)
        return valid


def _correction() -> Any:
    return dataclasses.field(
        default=1, metadata={"check": lambda name, value: as_integer(name, value, INT32_MIN, INT32_MAX)}
    )


@dataclasses.dataclass(frozen=True)
class ReduceDescriptor(_AxisDescriptor):
    """correction is of VAR and STD: 1 for a sample, 0 for a population."""

    kind: ReduceKind = descriptor.choice(ReduceKind)
    input_shape: tuple[int, ...] = descriptor.shape(high=INT32_MAX)
    reduce_axis: int = descriptor.checked(as_integer)
    correction: int = _correction()


@dataclasses.dataclass(frozen=True)
class ReduceBackwardDescriptor(ReduceDescriptor):
    """p is of NORM_P."""

    p: float = descriptor.real(default=2.0)

    @property
    def dy_shape(self) -> tuple[int, ...]:
        return self.output_shape

    @property
    def inv_extent(self) -> float:
        return 1 / max(self.reduce_extent, 1)


@dataclasses.dataclass(frozen=True)
class ArgReduceDescriptor(_AxisDescriptor):
    """output_element is the dtype of indices: i64, i32 or u32."""

    kind: ArgReduceKind = descriptor.choice(ArgReduceKind)
    input_shape: tuple[int, ...] = descriptor.shape(high=INT32_MAX)
    reduce_axis: int = descriptor.checked(as_integer)
    output_element: ElementKind = descriptor.checked(
        lambda name, value: as_element(value, name), default=ElementKind.I64
    )


@dataclasses.dataclass(frozen=True)
class BoolReduceDescriptor(_AxisDescriptor):
    kind: ReduceKind = descriptor.choice(ReduceKind)
    input_shape: tuple[int, ...] = descriptor.shape(high=INT32_MAX)
    reduce_axis: int = descriptor.checked(as_integer)


def _axes(name: str, value: object) -> tuple[int, ...]:
    axes = as_integers(name, value, 0, descriptor.MAX_RANK - 1)
    if len(set(axes)) < len(axes):
        raise InvalidProblemError(f"{name} is {axes}, has an axis twice")
    return axes


class _AxesDescriptor(ShapedDescriptor):
    """input_shape is of rank 0 to 8; reduce_axes may be all of its axes, or none."""

    input_shape: tuple[int, ...]
    reduce_axes: tuple[int, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        return self.input_shape

    @property
    def output_shape(self) -> tuple[int, ...]:
        return tuple([1 if axis in self.reduce_axes else e for axis, e in enumerate(self.input_shape)])

    @property
    def reduce_axes_mask(self) -> int:
        return sum([1 << axis for axis in self.reduce_axes])

    def validated(self) -> Any:
        valid = super().validated()
        if any([axis >= len(valid.input_shape) for axis in valid.reduce_axes]):
            raise InvalidProblemError(f"reduce_axes is {valid.reduce_axes}, must be axes of {valid.input_shape}")
        return valid


@dataclasses.dataclass(frozen=True)
class ReduceAxesDescriptor(_AxesDescriptor):
    """p is of NORM_P: at least 0, and may be infinite."""

    kind: ReduceKind = descriptor.choice(ReduceKind)
    input_shape: tuple[int, ...] = descriptor.shape(high=INT32_MAX)
    reduce_axes: tuple[int, ...] = descriptor.checked(_axes)
    p: float = descriptor.real(default=2.0)


@dataclasses.dataclass(frozen=True)
class MomentsAxesDescriptor(_AxesDescriptor):
    """kind is VAR or STD; correction is 1 for a sample, 0 for a population."""

    kind: ReduceKind = descriptor.choice(ReduceKind)
    input_shape: tuple[int, ...] = descriptor.shape(high=INT32_MAX)
    reduce_axes: tuple[int, ...] = descriptor.checked(_axes)
    correction: int = _correction()


@dataclasses.dataclass(frozen=True)
class MeanAxesDescriptor(_AxesDescriptor):
    """output_element, f64 or f32, is of the mean of integers; that of floats is of their dtype."""

    input_shape: tuple[int, ...] = descriptor.shape(high=INT32_MAX)
    reduce_axes: tuple[int, ...] = descriptor.checked(_axes)
    output_element: ElementKind = descriptor.checked(
        lambda name, value: as_element(value, name), default=ElementKind.F64
    )


@dataclasses.dataclass(frozen=True)
class ArgReduceAxesDescriptor(_AxesDescriptor):
    """output_element is the dtype of indices: i64 or i32."""

    kind: ArgReduceKind = descriptor.choice(ArgReduceKind)
    input_shape: tuple[int, ...] = descriptor.shape(high=INT32_MAX)
    reduce_axes: tuple[int, ...] = descriptor.checked(_axes)
    output_element: ElementKind = descriptor.checked(
        lambda name, value: as_element(value, name), default=ElementKind.I64
    )


@dataclasses.dataclass(frozen=True)
class ReduceToDescriptor(Descriptor):
    """Extents of output_shape are those of input_shape or 1; ranks are equal. correction is of VAR and STD, p, at
    least 0, of NORM_P."""

    op: ReduceToOp = descriptor.choice(ReduceToOp)
    input_shape: tuple[int, ...] = descriptor.shape(high=INT32_MAX)
    output_shape: tuple[int, ...] = descriptor.shape(high=INT32_MAX)
    correction: int = _correction()
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


class ReducePlan(Plan):
    __slots__ = ()
    op = "reduce_{kind}_{T}"
    category = OpCategory.REDUCTION
    spelling: ClassVar = {ReduceKind.LOG_SUM_EXP: "logsumexp"}
    elsewhere: ClassVar = {
        ReduceKind.ANY: "BoolReducePlan", ReduceKind.ALL: "BoolReducePlan",
        ReduceKind.COUNT_NONZERO: "CountReducePlan",
    }  # fmt: skip
    shapes: ClassVar = {"x": "input_shape"}
    descriptor: _AxisDescriptor

    def step(self, name: str, strides: tuple[int, ...]) -> int:
        return strides[self.descriptor.reduce_axis]


class BoolReducePlan(ReducePlan):
    __slots__ = ()
    elsewhere: ClassVar = {
        kind: "CountReducePlan" if kind is ReduceKind.COUNT_NONZERO else "ReducePlan"
        for kind in ReduceKind if kind not in (ReduceKind.ANY, ReduceKind.ALL)
    }  # fmt: skip


class CountReducePlan(ReducePlan):
    __slots__ = ()
    descriptor_base = BoolReduceDescriptor
    elsewhere: ClassVar = {
        kind: "BoolReducePlan" if kind in (ReduceKind.ANY, ReduceKind.ALL) else "ReducePlan"
        for kind in ReduceKind if kind is not ReduceKind.COUNT_NONZERO
    }  # fmt: skip


class ReduceBackwardPlan(ReducePlan):
    """x and y, input and result, are needed if the gradient reads them: none for SUM and MEAN, only x for PROD, VAR and
    STD.
    """

    __slots__ = ()
    op = "reduce_{kind}_backward_{T}"
    spelling: ClassVar = {
        **ReducePlan.spelling,
        **dict.fromkeys((ReduceKind.MAX, ReduceKind.MIN, ReduceKind.FMAX, ReduceKind.FMIN), "max_min"),
    }
    elsewhere: ClassVar = {}
    shapes: ClassVar = {"x": "input_shape", "dx": "input_shape", "dy": "output_shape", "y": "output_shape"}

    def layout(self, name: str, strides: tuple[int, ...]) -> tuple[int, ...]:
        """Strides of the results, 0 along reduced axes."""
        axis = self.descriptor.reduce_axis
        return strides if name in ("x", "dx") else (*strides[:axis], 0, *strides[axis + 1 :])


class ArgReducePlan(ReducePlan):
    __slots__ = ()
    op = "arg_reduce_{kind}_{T}_{U}"
    others = ("arg_reduce_{kind}_{T}",)
    elsewhere: ClassVar = {}
    spelling: ClassVar = {}

    @classmethod
    def served(cls, kind: IntEnum | None, element: ElementKind, output: ElementKind | None = None) -> tuple[str, ...]:
        """The op of the index dtype; for floats i64 has no suffix."""
        return super().served(kind, element, output)[:1] if output in _INDEX_KINDS else ()


class ReduceAxesPlan(Plan):
    """Results have 1 along each reduced axis; views of them may have any strides there."""

    __slots__ = ()
    op = "reduce_{kind}_axes_{T}"
    category = OpCategory.REDUCTION
    spelling: ClassVar = {ReduceKind.LOG_SUM_EXP: "logsumexp"}
    elsewhere: ClassVar = dict.fromkeys((ReduceKind.VAR, ReduceKind.STD), "MomentsAxesPlan")
    shapes: ClassVar = dict.fromkeys(("y", "mean", "value", "place"), "output_shape") | {"x": "input_shape"}


class MomentsAxesPlan(ReduceAxesPlan):
    """y, the variance or deviation, or the mean may be None."""

    __slots__ = ()
    elsewhere: ClassVar = {
        kind: "ReduceAxesPlan" for kind in ReduceKind if kind not in (ReduceKind.VAR, ReduceKind.STD)
    }  # fmt: skip


class MeanAxesPlan(ReduceAxesPlan):
    __slots__ = ()
    op = "reduce_mean_axes_{T}_{U}"
    others = ("reduce_mean_axes_{T}",)
    kind = ReduceKind.MEAN


class ArgReduceAxesPlan(ReduceAxesPlan):
    """The extremes or their indices may be None."""

    __slots__ = ()
    op = "arg_reduce_{kind}_axes_{T}_{U}"
    elsewhere: ClassVar = {}
    spelling: ClassVar = {}


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
