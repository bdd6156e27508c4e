# SPDX-License-Identifier: Apache-2.0
"""Reductions over any set of axes: sums, moments, means of integers, and indices of extremes."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

from baracuda import descriptor
from baracuda._call.scalars import INT32_MAX, as_integers
from baracuda.descriptor import ShapedDescriptor
from baracuda.dtypes import ElementKind, as_element
from baracuda.errors import InvalidProblemError
from baracuda.kinds import ArgReduceKind, OpCategory, ReduceKind
from baracuda.plan import Plan
from baracuda.reduce.one_axis import correction_field


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
    correction: int = correction_field()


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
