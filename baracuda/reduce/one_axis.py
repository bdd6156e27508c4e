# SPDX-License-Identifier: Apache-2.0
"""Reductions along one axis, their gradients, and indices of extremes."""

from __future__ import annotations

import dataclasses
from enum import IntEnum
from typing import Any, ClassVar

from baracuda import descriptor
from baracuda._call.scalars import INT32_MAX, INT32_MIN, as_integer
from baracuda.descriptor import ShapedDescriptor, product
from baracuda.dtypes import ElementKind, as_element
from baracuda.errors import InvalidProblemError
from baracuda.kinds import ArgReduceKind, OpCategory, ReduceKind
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


def correction_field() -> Any:
    return dataclasses.field(
        default=1, metadata={"check": lambda name, value: as_integer(name, value, INT32_MIN, INT32_MAX)}
    )


@dataclasses.dataclass(frozen=True)
class ReduceDescriptor(_AxisDescriptor):
    """correction is of VAR and STD: 1 for a sample, 0 for a population."""

    kind: ReduceKind = descriptor.choice(ReduceKind)
    input_shape: tuple[int, ...] = descriptor.shape(high=INT32_MAX)
    reduce_axis: int = descriptor.checked(as_integer)
    correction: int = correction_field()


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
