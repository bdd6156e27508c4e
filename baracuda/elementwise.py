"""Elementwise ops of two inputs and scalar parameters.

LERP: y = a + p * (b - a), params = (p,); p = 0 gives a and p = 1 gives b exactly. Backward: da = (1 - p) * dy,
db = p * dy. Operands have any strides; a and b broadcast along axes of extent 1. y may be an input of the same strides,
and one of da, db may be dy.
"""

from __future__ import annotations

import dataclasses
import numbers
from collections.abc import Mapping
from typing import Any

import numpy as np

from baracuda import descriptor
from baracuda._scalars import as_items, as_real
from baracuda.descriptor import Descriptor, product
from baracuda.errors import InvalidProblemError
from baracuda.kinds import BinaryKind, OpCategory
from baracuda.operands import Args, Operand, Viewable, Views
from baracuda.plan import Plan


def _params(name: str, value: object) -> tuple[float, ...]:
    if isinstance(value, (numbers.Real, np.floating)):
        return (as_real(name, value),)
    values = tuple(as_real(f"{name}[{i}]", item) for i, item in enumerate(as_items(name, value)))
    if len(values) == 2 and values[1] == 0:
        values = values[:1]
    if len(values) != 1:
        raise InvalidProblemError(f"{name} is {value!r}, must be one number (a second one must be 0)")
    return values


@dataclasses.dataclass(frozen=True)
class BinaryParamDescriptor(Descriptor):
    """params: one number, or a sequence of it (and, unused, 0); passed to C as f32."""

    kind: BinaryKind = descriptor.choice(BinaryKind)
    shape: tuple[int, ...] = descriptor.shape()
    params: tuple[float, ...] = descriptor.checked(_params)


@dataclasses.dataclass(frozen=True)
class BinaryParamBackwardDescriptor(BinaryParamDescriptor):
    pass


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class BinaryParamArgs(Args):
    a: Viewable
    b: Viewable
    y: Viewable


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class BinaryParamBackwardArgs(Args):
    dy: Viewable
    da: Viewable
    db: Viewable


class _StridedPlan(Plan):
    """Contiguous views take the plain symbol, all others the `_strided` one with shape and strides."""

    __slots__ = ()
    category = OpCategory.BINARY_ELEMENTWISE

    @property
    def kind(self) -> BinaryKind:
        return self.descriptor.kind

    def variant(self, views: Views) -> str:
        shape = self.descriptor.shape
        plain = all(view is not None and view.is_dense and view.shape == shape for view in views.values())
        return "" if plain else "_strided"

    def problem(self, variant: str, strides: Mapping[str, tuple[int, ...]]) -> tuple[Any, ...]:
        shape = self.descriptor.shape
        numel = product("shape", shape)
        if not variant:
            return (numel,)
        arrays = [self.int64_array(strides[operand.name]) for operand in self.operands]
        return (numel, len(shape), self.int32_array(shape), *arrays)

    def trailing(self) -> tuple[Any, ...]:
        return self.descriptor.params


class BinaryParamPlan(_StridedPlan):
    __slots__ = ()
    op = "binary_{kind}_{T}"
    descriptor_type = BinaryParamDescriptor
    args_type = BinaryParamArgs
    operands = (
        Operand("a", "shape", strided=True, broadcast=True),
        Operand("b", "shape", strided=True, broadcast=True),
        Operand("y", "shape", strided=True, output=True, may_be=("a", "b")),
    )


class BinaryParamBackwardPlan(_StridedPlan):
    __slots__ = ()
    op = "binary_{kind}_backward_{T}"
    descriptor_type = BinaryParamBackwardDescriptor
    args_type = BinaryParamBackwardArgs
    operands = (
        Operand("dy", "shape", strided=True),
        Operand("da", "shape", strided=True, output=True, may_be=("dy",)),
        Operand("db", "shape", strided=True, output=True, may_be=("dy",)),
    )
