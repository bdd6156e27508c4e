# SPDX-License-Identifier: Apache-2.0
"""Masked fill, select and scatter, nonzero, and one-hot. A mask is bool or u8, set if it is not 0.

MaskedFill: out = mask ? value : src, of any strides. MaskedSelect: the chosen elements of src in row-major order;
MaskedScatter: out takes those of source where mask is set. Nonzero: the coordinates of the elements that are not 0, in
row-major order. The count is known on the device only: operands have a capacity of max_selected or max_nz elements,
further ones are dropped, and counter is the full count. OneHot: a row for each class index, 1 in its column.
"""

from __future__ import annotations

import dataclasses
import struct
from typing import ClassVar

import numpy as np

from baracuda import descriptor
from baracuda._call.scalars import INT32_MAX, INT64_MAX, as_integer
from baracuda.descriptor import Descriptor, ShapedDescriptor, product
from baracuda.dtypes import ElementKind
from baracuda.elementwise.fill import FillDescriptor, element_value, stored_high
from baracuda.errors import InvalidProblemError
from baracuda.kinds import IndexingKind, OpCategory
from baracuda.operands import Args
from baracuda.plan import Plan
from baracuda.tensor import TensorRef


def bits_of(value: float, element: ElementKind) -> int:
    """`fill_bits` of a value, rounded as by FillDescriptor."""
    stored = FillDescriptor((), value, element=element).validated().stored_value
    if element in (ElementKind.F32, ElementKind.F32_STRICT, ElementKind.F64):
        kind, bits = ("d", "q") if element is ElementKind.F64 else ("f", "I")
        return int(struct.unpack(f"<{bits}", np.array(stored, f"<{kind}").tobytes())[0])
    return _signed(int(stored))


def bits_high_of(value: complex, element: ElementKind) -> int:
    """`fill_bits_high` of a value: the bits of the imaginary part for c64, 0 for others."""
    return _signed(stored_high(element_value(value, element), element))


def _signed(integer: int) -> int:
    return integer - 2**64 if integer > INT64_MAX else integer


@dataclasses.dataclass(frozen=True)
class MaskedFillDescriptor(ShapedDescriptor):
    """fill_bits has the value's bit pattern in its low bytes; for c64 it is that of the real part, and fill_bits_high
    that of the imaginary part. `of` makes them from a number for any dtype, `new_f32` and others for one dtype.
    """

    shape: tuple[int, ...] = descriptor.shape()
    fill_bits: int = descriptor.checked(as_integer)
    fill_bits_high: int = descriptor.checked(as_integer, default=0)

    @classmethod
    def of(cls, shape: tuple[int, ...], value: float, *, element: ElementKind) -> MaskedFillDescriptor:
        return cls(shape, bits_of(value, element), bits_high_of(value, element), element=element)

    @classmethod
    def new_f32(cls, shape: tuple[int, ...], value: float) -> MaskedFillDescriptor:
        return cls.of(shape, value, element=ElementKind.F32)

    @classmethod
    def new_f64(cls, shape: tuple[int, ...], value: float) -> MaskedFillDescriptor:
        return cls.of(shape, value, element=ElementKind.F64)

    @classmethod
    def new_i32(cls, shape: tuple[int, ...], value: int) -> MaskedFillDescriptor:
        return cls.of(shape, value, element=ElementKind.I32)

    @classmethod
    def new_bool(cls, shape: tuple[int, ...], value: bool) -> MaskedFillDescriptor:
        return cls.of(shape, value, element=ElementKind.BOOL)


@dataclasses.dataclass(frozen=True)
class MaskedFillBackwardDescriptor(ShapedDescriptor):
    shape: tuple[int, ...] = descriptor.shape()


@dataclasses.dataclass(frozen=True)
class MaskedSelectDescriptor(ShapedDescriptor):
    """max_selected is the capacity of out."""

    shape: tuple[int, ...] = descriptor.shape()
    max_selected: int = descriptor.checked(lambda name, value: as_integer(name, value, 0))


@dataclasses.dataclass(frozen=True)
class MaskedScatterDescriptor(ShapedDescriptor):
    shape: tuple[int, ...] = descriptor.shape()
    source_numel: int = descriptor.checked(lambda name, value: as_integer(name, value, 0))


@dataclasses.dataclass(frozen=True)
class NonzeroDescriptor(ShapedDescriptor):
    """max_nz is the capacity of out_coords."""

    shape: tuple[int, ...] = descriptor.shape(high=INT32_MAX)
    max_nz: int = descriptor.extent()


@dataclasses.dataclass(frozen=True)
class OneHotDescriptor(Descriptor):
    """num_classes is the last extent of out_shape; src has the others."""

    out_shape: tuple[int, ...] = descriptor.shape()
    num_classes: int = descriptor.checked(lambda name, value: as_integer(name, value, 1, INT32_MAX))

    @property
    def src_shape(self) -> tuple[int, ...]:
        return self.out_shape[:-1]

    @property
    def out_numel(self) -> int:
        return product("out_shape", self.out_shape)

    def validated(self) -> OneHotDescriptor:
        valid = super().validated()
        if not valid.out_shape or valid.out_shape[-1] != valid.num_classes:
            raise InvalidProblemError(
                f"num_classes is {valid.num_classes}, must be the last extent of out_shape {valid.out_shape}"
            )
        return valid


class MaskedFillPlan(Plan):
    __slots__ = ()
    op = "masked_fill_{T}"
    category = OpCategory.INDEXING
    kind = IndexingKind.MASKED_FILL


class MaskedFillBackwardPlan(Plan):
    __slots__ = ()
    op = "masked_fill_backward_{T}"
    category = OpCategory.INDEXING
    kind = IndexingKind.MASKED_FILL_BACKWARD


class MaskedSelectPlan(Plan):
    """counter: one i64."""

    __slots__ = ()
    op = "masked_select_{T}"
    category = OpCategory.INDEXING
    kind = IndexingKind.MASKED_SELECT


class MaskedSelectBackwardPlan(Plan):
    __slots__ = ()
    descriptor_base = MaskedSelectDescriptor
    op = "masked_select_backward_{T}"
    category = OpCategory.INDEXING
    kind = IndexingKind.MASKED_SELECT_BACKWARD


class MaskedScatterPlan(Plan):
    __slots__ = ()
    op = "masked_scatter_{T}"
    category = OpCategory.INDEXING
    kind = IndexingKind.MASKED_SCATTER


class NonzeroPlan(Plan):
    """out_coords is (max_nz, rank), or its elements in one axis; counter is one element of its dtype, i32 or i64."""

    __slots__ = ()
    op = "nonzero{I}_{T}"
    category = OpCategory.INDEXING
    kind = IndexingKind.NONZERO

    def views(self, args: Args) -> dict[str, TensorRef | None]:
        views, (most, rank) = super().views(args), (self.descriptor.max_nz, self.descriptor.rank)
        table = views["out_coords"]
        if table is not None and table.shape == (most * rank,) and table.is_dense:
            views["out_coords"] = TensorRef(
                table.ptr, (most, rank), table.dtype, length=table.length, offset=table.offset, device=table.device,
                readonly=table.readonly, owner=table.owner,
            )  # fmt: skip
        return views


class OneHotPlan(Plan):
    __slots__ = ()
    op = "one_hot{I}_{T}"
    category = OpCategory.INDEXING
    kind = IndexingKind.ONE_HOT
    shapes: ClassVar = {"src": "src_shape", "out": "out_shape"}
