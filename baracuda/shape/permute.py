# SPDX-License-Identifier: Apache-2.0
"""Flip, Roll and Permute, and their gradients, which are the inverse ops. Strides have any sign."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from baracuda import descriptor
from baracuda._call.scalars import INT32_MAX, as_integer, as_integers, as_items, is_integer, shown
from baracuda.descriptor import Descriptor, ShapedDescriptor, product
from baracuda.errors import InvalidProblemError
from baracuda.kinds import OpCategory, ShapeLayoutKind
from baracuda.plan import Plan


def _flags(name: str, values: object) -> tuple[bool, ...]:
    flags = as_items(name, values)
    for i, flag in enumerate(flags):
        if not (isinstance(flag, (bool, np.bool_)) or (is_integer(flag) and flag in (0, 1))):
            raise InvalidProblemError(f"{name}[{i}] is {shown(flag)}, must be a bool")
    return tuple([bool(flag) for flag in flags])


def _shifts(name: str, values: object) -> tuple[int, ...]:
    return as_integers(name, values, -(2**31), INT32_MAX)


def _dims(name: str, values: object) -> tuple[int, ...]:
    return tuple(
        [as_integer(f"{name}[{i}]", d, 0, descriptor.MAX_RANK - 1) for i, d in enumerate(as_items(name, values))]
    )


def _check_rank(name: str, entries: Sequence[Any], shape: tuple[int, ...]) -> None:
    if len(entries) != len(shape):
        raise InvalidProblemError(f"{name} is {tuple(entries)}, must have an entry for each axis of shape {shape}")


@dataclasses.dataclass(frozen=True)
class FlipDescriptor(ShapedDescriptor):
    """flip_axes: whether each axis is reversed."""

    shape: tuple[int, ...] = descriptor.shape(high=INT32_MAX)
    flip_axes: tuple[bool, ...] = descriptor.checked(_flags)

    def validated(self) -> FlipDescriptor:
        valid = super().validated()
        _check_rank("flip_axes", valid.flip_axes, valid.shape)
        return valid


@dataclasses.dataclass(frozen=True)
class RollDescriptor(ShapedDescriptor):
    """shifts: for each axis, the shift of elements towards its end, of any sign and size."""

    shape: tuple[int, ...] = descriptor.shape(high=INT32_MAX)
    shifts: tuple[int, ...] = descriptor.checked(_shifts)

    @property
    def shifts_back(self) -> tuple[int, ...]:
        return tuple([-shift % extent if extent else 0 for shift, extent in zip(self.shifts, self.shape)])

    def validated(self) -> RollDescriptor:
        valid = super().validated()
        _check_rank("shifts", valid.shifts, valid.shape)
        return valid


@dataclasses.dataclass(frozen=True)
class PermuteDescriptor(Descriptor):
    """Axis d of the output is axis dims[d] of the input."""

    input_shape: tuple[int, ...] = descriptor.shape(high=INT32_MAX)
    dims: tuple[int, ...] = descriptor.checked(_dims)

    @property
    def output_shape(self) -> tuple[int, ...]:
        return tuple([self.input_shape[d] for d in self.dims])

    @property
    def dims_back(self) -> tuple[int, ...]:
        return tuple([self.dims.index(d) for d in range(self.rank)])

    def inverse_dims(self) -> tuple[int, ...]:
        """dims of the inverse permutation."""
        return self.dims_back

    @property
    def rank(self) -> int:
        return len(self.input_shape)

    @property
    def input_numel(self) -> int:
        return product("x", self.input_shape)

    def validated(self) -> PermuteDescriptor:
        valid = super().validated()
        if sorted(valid.dims) != list(range(valid.rank)):
            raise InvalidProblemError(f"dims is {valid.dims}, must be a permutation of {tuple(range(valid.rank))}")
        return valid


_BACK = {"x": "dy", "y": "dx"}


class FlipPlan(Plan):
    __slots__ = ()
    op = "flip_{T}"
    category = OpCategory.SHAPE_LAYOUT
    kind = ShapeLayoutKind.FLIP


class FlipBackwardPlan(FlipPlan):
    __slots__ = ()
    names: ClassVar = _BACK


class RollPlan(Plan):
    __slots__ = ()
    op = "roll_{T}"
    category = OpCategory.SHAPE_LAYOUT
    kind = ShapeLayoutKind.ROLL


class RollBackwardPlan(RollPlan):
    __slots__ = ()
    names: ClassVar = {**_BACK, "shifts": "shifts_back"}


class PermutePlan(Plan):
    __slots__ = ()
    op = "permute_{T}"
    category = OpCategory.SHAPE_LAYOUT
    kind = ShapeLayoutKind.PERMUTE
    shapes: ClassVar = {"x": "input_shape", "y": "output_shape"}


class PermuteBackwardPlan(PermutePlan):
    __slots__ = ()
    names: ClassVar = {**_BACK, "dims": "dims_back", "input_shape": "output_shape"}
    shapes: ClassVar = {"dy": "output_shape", "dx": "input_shape"}
