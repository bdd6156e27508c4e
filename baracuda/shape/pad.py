# SPDX-License-Identifier: Apache-2.0
"""Pad with a constant, or in reflect, replicate or circular mode. Strides have any sign."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, TypeVar

from baracuda import descriptor
from baracuda._call.scalars import INT32_MAX
from baracuda.descriptor import Descriptor, product
from baracuda.elementwise.fill import element_value, stored_high, stored_value
from baracuda.errors import InvalidProblemError
from baracuda.kinds import OpCategory, PadMode, ShapeLayoutKind
from baracuda.plan import Plan

_P = TypeVar("_P", bound="_Padding")


@dataclasses.dataclass(frozen=True)
class _Padding(Descriptor):
    mode: PadMode = descriptor.choice(PadMode)
    input_shape: tuple[int, ...] = descriptor.shape(high=INT32_MAX)
    pad_low: tuple[int, ...] = descriptor.shape(high=INT32_MAX)
    pad_high: tuple[int, ...] = descriptor.shape(high=INT32_MAX)

    @property
    def kind(self) -> PadMode:
        return self.mode

    @property
    def output_shape(self) -> tuple[int, ...]:
        return tuple([sum(extents) for extents in zip(self.input_shape, self.pad_low, self.pad_high)])

    @property
    def dy_shape(self) -> tuple[int, ...]:
        return self.output_shape

    @property
    def rank(self) -> int:
        return len(self.input_shape)

    @property
    def input_numel(self) -> int:
        return product("x", self.input_shape)

    @property
    def output_numel(self) -> int:
        return product("y", self.output_shape)

    def validated(self: _P) -> _P:
        valid = super().validated()
        for name in ("pad_low", "pad_high"):
            if len(getattr(valid, name)) != valid.rank:
                raise InvalidProblemError(
                    f"{name} is {getattr(valid, name)}, must have the rank of input_shape {valid.input_shape}"
                )
        if any([extent > INT32_MAX for extent in valid.output_shape]):
            raise InvalidProblemError(f"output_shape is {valid.output_shape}, must stay below 2^31 in every axis")
        return valid


@dataclasses.dataclass(frozen=True)
class PadDescriptor(_Padding):
    """Elements before and after each axis. value, for PadMode.CONSTANT, is a real number for floats, rounded once (fp8
    saturates), a complex one for c32 and c64, an integer in range for integers, and 0 or 1 for bool. Other modes need a
    non-empty input.
    """

    value: float = descriptor.checked(lambda name, value: value, default=0)

    @property
    def stored_value(self) -> float | int:
        return stored_value(self.value, self.element)

    @property
    def stored_high(self) -> int:
        return stored_high(self.value, self.element)

    def validated(self) -> PadDescriptor:
        valid = super().validated()
        value: Any = element_value(valid.value, valid.element)  # complex for complex elements
        return dataclasses.replace(valid, value=value)


class PadPlan(Plan):
    __slots__ = ()
    op = "pad_{kind}_{T}"
    category = OpCategory.SHAPE_LAYOUT
    kind = ShapeLayoutKind.PAD
    names: ClassVar = {"value": "stored_value", "value_high": "stored_high"}


class PadBackwardPlan(Plan):
    __slots__ = ()
    descriptor_base = _Padding
    op = "pad_{kind}_backward_{T}"
    category = OpCategory.SHAPE_LAYOUT
    kind = ShapeLayoutKind.PAD
    shapes: ClassVar = {"dy": "output_shape", "dx": "input_shape"}
