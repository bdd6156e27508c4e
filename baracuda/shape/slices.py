# SPDX-License-Identifier: Apache-2.0
"""Contiguize and WriteSlice: copies between strided views and dense tensors, of any dtype by its width."""

from __future__ import annotations

import dataclasses
from enum import IntEnum
from typing import ClassVar, TypeVar

from baracuda import descriptor
from baracuda._call.c_call import op_names
from baracuda._call.scalars import INT32_MAX, INT64_MAX, as_integer, as_integers, as_items
from baracuda.descriptor import Descriptor, ShapedDescriptor, product
from baracuda.dtypes import ElementKind
from baracuda.errors import InvalidProblemError, UnsupportedError
from baracuda.kinds import OpCategory, ShapeLayoutKind
from baracuda.plan import Plan

_NIBBLES = (ElementKind.S4, ElementKind.U4)
_W = TypeVar("_W", bound="WriteSliceDescriptor")


class _ByWidth(Plan):
    """Operands may have any dtype of the width of the descriptor's element."""

    __slots__ = ()
    by_width = True

    @classmethod
    def served(cls, kind: IntEnum | None, element: ElementKind, output: ElementKind | None = None) -> tuple[str, ...]:
        width = "nibble" if element in _NIBBLES else f"b{element.bits // 8}" if element.bits % 8 == 0 else ""
        return op_names((cls.op,), "", width, "")


def _strides(name: str, values: object) -> tuple[int, ...] | None:
    return None if values is None else as_integers(name, values, -INT64_MAX - 1, INT64_MAX)


@dataclasses.dataclass(frozen=True)
class ContiguizeDescriptor(ShapedDescriptor):
    """source_strides and source_offset are in elements, relative to the view `source`; by default the strides are the
    view's own. For 4-bit elements the last stride is 1, -1 or 2.
    """

    shape: tuple[int, ...] = descriptor.shape(high=INT32_MAX)
    source_strides: tuple[int, ...] | None = descriptor.checked(_strides, default=None)
    source_offset: int = descriptor.checked(
        lambda name, value: as_integer(name, value, -INT64_MAX - 1, INT64_MAX), default=0
    )

    def validated(self) -> ContiguizeDescriptor:
        valid = super().validated()
        if valid.source_strides is not None and len(valid.source_strides) != len(valid.shape):
            raise InvalidProblemError(
                f"source_strides is {valid.source_strides}, must have an entry for each axis of shape {valid.shape}"
            )
        return valid


def _ranges(name: str, values: object) -> tuple[tuple[int, ...], ...]:
    return tuple([as_integers(f"{name}[{i}]", pair, 0, INT32_MAX) for i, pair in enumerate(as_items(name, values))])


@dataclasses.dataclass(frozen=True)
class WriteSliceDescriptor(Descriptor):
    """ranges: begin and end of the window along each axis of dest; source_shape has their lengths. The rank is 1 to 8.
    For 4-bit elements the range of the last axis, and its extent, are even.
    """

    dest_shape: tuple[int, ...] = descriptor.shape(high=INT32_MAX)
    source_shape: tuple[int, ...] = descriptor.shape(high=INT32_MAX)
    ranges: tuple[tuple[int, int], ...] = descriptor.checked(_ranges)

    @property
    def rank(self) -> int:
        return len(self.dest_shape)

    @property
    def range_start(self) -> tuple[int, ...]:
        return tuple([first for first, _ in self.ranges])

    @property
    def source_numel(self) -> int:
        return product("source", self.source_shape)

    @property
    def source_byte_numel(self) -> int:
        return self.source_numel // 2

    @property
    def dest_byte_shape(self) -> tuple[int, ...]:
        return (*self.dest_shape[:-1], self.dest_shape[-1] // 2)

    @property
    def source_byte_shape(self) -> tuple[int, ...]:
        return (*self.source_shape[:-1], self.source_shape[-1] // 2)

    @property
    def range_start_bytes(self) -> tuple[int, ...]:
        return (*self.range_start[:-1], self.range_start[-1] // 2)

    def validated(self: _W) -> _W:
        valid = super().validated()
        if not valid.rank:
            raise InvalidProblemError("dest_shape is (), must have at least one axis")
        for name in ("source_shape", "ranges"):
            if len(getattr(valid, name)) != valid.rank:
                raise InvalidProblemError(
                    f"{name} is {getattr(valid, name)}, must have an entry for each axis of {valid.dest_shape}"
                )
        for d, pair in enumerate(valid.ranges):
            if len(pair) != 2 or not pair[0] <= pair[1] <= valid.dest_shape[d]:
                raise InvalidProblemError(
                    f"ranges[{d}] is {pair}, must be (start, end) with 0 <= start <= end <= {valid.dest_shape[d]}"
                )
            if pair[1] - pair[0] != valid.source_shape[d]:
                raise InvalidProblemError(
                    f"source_shape[{d}] is {valid.source_shape[d]}, must be {pair[1] - pair[0]}, for ranges[{d}] {pair}"
                )
        if valid.element in _NIBBLES and any([n % 2 for n in (valid.dest_shape[-1], *valid.ranges[-1])]):
            raise UnsupportedError(
                f"ranges[{valid.rank - 1}] is {valid.ranges[-1]} of {valid.dest_shape[-1]}; of 4-bit elements they "
                f"must be even along the last axis"
            )
        return valid


@dataclasses.dataclass(frozen=True)
class WriteSliceFromDescriptor(WriteSliceDescriptor):
    """Along dyn_axis the window begins at `start`, in place of the range's begin."""

    dyn_axis: int = descriptor.checked(lambda name, value: as_integer(name, value, 0, descriptor.MAX_RANK - 1))

    def validated(self) -> WriteSliceFromDescriptor:
        valid = super().validated()
        if valid.dyn_axis >= valid.rank:
            raise InvalidProblemError(f"dyn_axis is {valid.dyn_axis}, must be an axis of dest_shape {valid.dest_shape}")
        return valid


class ContiguizePlan(_ByWidth):
    __slots__ = ()
    op = "contiguize_{T}"
    fields: ClassVar = {"dest": "last"}
    rows = ("contiguize_b1",)
    category = OpCategory.SHAPE_LAYOUT
    kind = ShapeLayoutKind.CONTIGUIZE
    shapes: ClassVar = {"dest": "shape", "source": "shape"}

    def layout(self, name: str, strides: tuple[int, ...]) -> tuple[int, ...]:
        return strides if self.descriptor.source_strides is None else self.descriptor.source_strides

    def offset(self, strides: tuple[int, ...]) -> int:
        return int(self.descriptor.source_offset)


class WriteSlicePlan(_ByWidth):
    __slots__ = ()
    op = "write_slice_{T}"
    rows = ("write_slice_b1",)
    category = OpCategory.SHAPE_LAYOUT
    kind = ShapeLayoutKind.WRITE_SLICE
    shapes: ClassVar = {"dest": "dest_shape", "source": "source_shape"}


class WriteSliceFromPlan(WriteSlicePlan):
    """start: one i64 that the kernel reads, so that it may change between graph replays. Parts of the window outside of
    dest are dropped; with PlanPreference(check_indices=True) `check` reports them.
    """

    __slots__ = ()
    op = "write_slice_{T}_doff"
    rows = ("write_slice_b1_doff",)
    names: ClassVar = {"dyn_start_dev": "start"}
