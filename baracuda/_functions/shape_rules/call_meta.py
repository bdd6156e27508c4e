# SPDX-License-Identifier: Apache-2.0
"""The result of shape inference for a call (CallMeta), and helpers on axes, shapes and views."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from baracuda._call.scalars import as_integer
from baracuda.errors import InvalidProblemError, UnsupportedError
from baracuda.kinds import IntEnum
from baracuda.tensor import TensorRef, contiguous_stride

Shape = tuple[int, ...]
E = TypeVar("E", bound=IntEnum)
ViewAs = Callable[[TensorRef], "TensorRef | None"]


class StridesError(UnsupportedError):
    """The op cannot write a result with the strides of `out`."""


@dataclasses.dataclass
class CallMeta:
    """Shapes and C scalars of one call. Keys are the C names of operands and parameters.

    values        C's scalars and host arrays
    extents       the shape that the op takes for each operand; an input may broadcast to it
    shapes        the shape of each result
    op_views      operand -> function from the caller's view to the op's view, None if it must be copied first
    copy_orders   axis order of such a copy, if it is not the operand's own
    stride_axes   scalar -> the axis whose stride it is
    view_scalars  function from the operands' views to the scalars that depend on them: pitches, flags
    copy_shapes   the shape to which an input is broadcast before such a copy
    exact_axis    result -> the one axis along which `out` must not be longer than the result
    fills         results of a call without elements: a number, or the argument that they copy
    """

    values: dict[str, Any]
    extents: Mapping[str, Shape]
    shapes: dict[str, Shape]
    offset_axis: int | None = None  # the axis of gated units, scans and softmax
    channel_axis: int | None = None  # the axis of weights
    op_views: Mapping[str, ViewAs] = dataclasses.field(default_factory=dict)
    copy_orders: Mapping[str, tuple[int, ...]] = dataclasses.field(default_factory=dict)
    stride_axes: Mapping[str, int] = dataclasses.field(default_factory=dict)
    view_scalars: Callable[[dict[str, TensorRef | None]], dict[str, Any]] | None = None
    copy_shapes: Mapping[str, Shape] = dataclasses.field(default_factory=dict)
    exact_axis: Mapping[str, int] = dataclasses.field(default_factory=dict)
    fills: Mapping[str, float | str] = dataclasses.field(default_factory=dict)


def axis_of(name: str, axis: object, shape: Shape) -> int:
    """An axis of `shape` in [0, rank); negative ones count from the last."""
    rank = len(shape)
    if not rank:
        raise InvalidProblemError(f"{name} is {axis!r}, but there is no axis: the shape is ()")
    try:
        return as_integer(name, axis, -rank, rank - 1) % rank
    except InvalidProblemError as error:
        raise InvalidProblemError(f"{error}: the shape is {shape}") from None


def axes_of(name: str, given: object, shape: Shape) -> tuple[int, ...]:
    """Sorted axes of `shape`: of one number, of a tuple or list, or all of them for None."""
    if given is None:
        return tuple(range(len(shape)))
    several = given if isinstance(given, (tuple, list)) else (given,)
    axes = [axis_of(name, axis, shape) for axis in several]
    if len(set(axes)) < len(axes):
        raise InvalidProblemError(f"{name} is {given!r}, which has an axis twice")
    return tuple(sorted(axes))


def as_strided(view: TensorRef, shape: Shape, strides: tuple[int, ...]) -> TensorRef:
    """The memory of a view with another shape and other strides."""
    return TensorRef(view.ptr, shape, view.dtype, strides, device=view.device, readonly=view.readonly)


def with_nonzero_strides(view: TensorRef) -> TensorRef:
    """The view; if it has no elements, with row-major strides that are never 0, since 0 means broadcast."""
    if view.numel:
        return view
    return as_strided(view, view.shape, contiguous_stride(tuple([max(extent, 1) for extent in view.shape])))


def prepend_axes(view: TensorRef, rank: int) -> TensorRef:
    """The view with leading axes of extent 1 up to `rank`."""
    more = rank - len(view.shape)
    if more <= 0:
        return view
    return as_strided(view, (1,) * more + view.shape, (0,) * more + view.strides)


def if_contiguous(view: TensorRef) -> TensorRef | None:
    """The view, for ops that take only row-major operands; None if it must be copied."""
    return view if view.is_dense else None


def dense_as(shape: Shape, view: TensorRef) -> TensorRef | None:
    """A row-major view in another shape; None if the view is not row-major."""
    return as_strided(view, shape, contiguous_stride(shape)) if view.is_dense else None


def check_shape(name: str, have: Shape, expected: Shape) -> None:
    if have != expected:
        raise InvalidProblemError(f"{name} has shape {have}, expected {expected}")


def member(kind: type[E], name: str, value: object) -> E:
    """A member of an enumeration, given as such or by its name in lower case."""
    members = {each.name.lower(): each for each in kind}
    if isinstance(value, kind):
        return value
    if not isinstance(value, str) or value not in members:
        raise InvalidProblemError(f"{name} is {value!r}, must be one of {', '.join(members)}")
    return members[value]
