# SPDX-License-Identifier: Apache-2.0
"""Concat: a and b along an axis, ConcatMany: any number of tensors. Backward: splits dy. Strides have any sign."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from baracuda import descriptor
from baracuda._call.scalars import INT32_MAX, as_integer
from baracuda.descriptor import Descriptor, product
from baracuda.errors import InvalidProblemError
from baracuda.kinds import OpCategory, ShapeLayoutKind
from baracuda.plan import Plan


def _axis(name: str, value: object) -> int:
    return as_integer(name, value, 0, descriptor.MAX_RANK - 1)


@dataclasses.dataclass(frozen=True)
class ConcatDescriptor(Descriptor):
    """a_shape and b_shape have one rank, 1 to 8, and equal extents except along concat_dim."""

    a_shape: tuple[int, ...] = descriptor.shape(high=INT32_MAX)
    b_shape: tuple[int, ...] = descriptor.shape(high=INT32_MAX)
    concat_dim: int = descriptor.checked(_axis)

    @property
    def output_shape(self) -> tuple[int, ...]:
        total = self.a_shape[self.concat_dim] + self.b_shape[self.concat_dim]
        return (*self.a_shape[: self.concat_dim], total, *self.a_shape[self.concat_dim + 1 :])

    @property
    def split_offset(self) -> int:
        return self.a_shape[self.concat_dim]

    @property
    def rank(self) -> int:
        return len(self.a_shape)

    @property
    def output_numel(self) -> int:
        return product("y", self.output_shape)

    def validated(self) -> ConcatDescriptor:
        valid = super().validated()
        _check_axis(valid.concat_dim, valid.a_shape)
        apart = [d for d in range(valid.rank) if d != valid.concat_dim]
        if len(valid.b_shape) != valid.rank or any([valid.a_shape[d] != valid.b_shape[d] for d in apart]):
            raise InvalidProblemError(
                f"b_shape is {valid.b_shape}, must be a_shape, {valid.a_shape}, but along axis {valid.concat_dim}"
            )
        if valid.output_shape[valid.concat_dim] > INT32_MAX:
            raise InvalidProblemError(f"output_shape is {valid.output_shape}, must stay below 2^31 in every axis")
        return valid


@dataclasses.dataclass(frozen=True)
class ConcatBackwardDescriptor(Descriptor):
    """split_offset is the extent of a along concat_dim, 0 to that of the output."""

    output_shape: tuple[int, ...] = descriptor.shape(high=INT32_MAX)
    concat_dim: int = descriptor.checked(_axis)
    split_offset: int = descriptor.extent()

    @property
    def a_shape(self) -> tuple[int, ...]:
        return self._part(self.split_offset)

    @property
    def b_shape(self) -> tuple[int, ...]:
        return self._part(self.output_shape[self.concat_dim] - self.split_offset)

    @property
    def rank(self) -> int:
        return len(self.output_shape)

    @property
    def output_numel(self) -> int:
        return product("dy", self.output_shape)

    def validated(self) -> ConcatBackwardDescriptor:
        valid = super().validated()
        _check_axis(valid.concat_dim, valid.output_shape)
        if valid.split_offset > valid.output_shape[valid.concat_dim]:
            raise InvalidProblemError(
                f"split_offset is {valid.split_offset}, must be at most {valid.output_shape[valid.concat_dim]}, the "
                f"extent along concat_dim"
            )
        return valid

    def _part(self, extent: int) -> tuple[int, ...]:
        return (*self.output_shape[: self.concat_dim], extent, *self.output_shape[self.concat_dim + 1 :])


@dataclasses.dataclass(frozen=True)
class ConcatManyDescriptor(Descriptor):
    """extents of the tensors along concat_dim; their sum is the extent of the output."""

    output_shape: tuple[int, ...] = descriptor.shape(high=INT32_MAX)
    concat_dim: int = descriptor.checked(_axis)
    extents: tuple[int, ...] = descriptor.checked(lambda name, values: tuple(_several(name, values)))

    @property
    def n(self) -> int:
        return len(self.extents)

    @property
    def rank(self) -> int:
        return len(self.output_shape)

    @property
    def output_numel(self) -> int:
        return product("y", self.output_shape)

    def part(self, k: int) -> tuple[int, ...]:
        """The shape of tensor k."""
        return (*self.output_shape[: self.concat_dim], self.extents[k], *self.output_shape[self.concat_dim + 1 :])

    def validated(self) -> ConcatManyDescriptor:
        valid = super().validated()
        _check_axis(valid.concat_dim, valid.output_shape)
        whole = valid.output_shape[valid.concat_dim]
        if sum(valid.extents) != whole:
            raise InvalidProblemError(
                f"extents is {valid.extents}, must have a sum of {whole}, the extent of the output along concat_dim"
            )
        return valid


def _several(name: str, values: object) -> list[int]:
    """Any number of extents."""
    if not isinstance(values, (list, tuple)):
        raise InvalidProblemError(f"{name} is {values!r}, must be a tuple of extents")
    return [as_integer(f"{name}[{k}]", value, 0, INT32_MAX) for k, value in enumerate(values)]


def _check_axis(axis: int, shape: tuple[int, ...]) -> None:
    if axis >= len(shape):
        raise InvalidProblemError(f"concat_dim is {axis}, must be an axis of shape {shape}")


class ConcatPlan(Plan):
    __slots__ = ()
    op = "concat2_{T}"
    category = OpCategory.SHAPE_LAYOUT
    kind = ShapeLayoutKind.CONCAT
    shapes: ClassVar = {"a": "a_shape", "b": "b_shape"}


class ConcatBackwardPlan(Plan):
    """A gradient of None is not computed."""

    __slots__ = ()
    op = "concat2_backward_{T}"
    category = OpCategory.SHAPE_LAYOUT
    kind = ShapeLayoutKind.CONCAT
    shapes: ClassVar = {"da": "a_shape", "db": "b_shape"}


class ConcatManyPlan(Plan):
    """inputs: a tensor for each of the descriptor's extents, in their order."""

    __slots__ = ()
    op = "concat_{T}"
    category = OpCategory.SHAPE_LAYOUT
    kind = ShapeLayoutKind.CONCAT

    def entry_extents(self, name: str) -> tuple[tuple[int, ...], str]:
        k = int(name.partition("[")[2][:-1])
        return self.descriptor.part(k), f"output_shape with extents[{k}] along concat_dim"


class ConcatManyBackwardPlan(ConcatManyPlan):
    """A split. outputs: a tensor for each of the descriptor's extents, in order, or None if it is not wanted."""

    __slots__ = ()
    op = "concat_backward_{T}"
