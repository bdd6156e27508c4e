"""What is known of a call's operands once their shapes are: the shapes of results, and what C is told."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from baracuda._scalars import as_integer
from baracuda.errors import InvalidProblemError, UnsupportedError
from baracuda.tensor import TensorRef, contiguous_stride

Shape = tuple[int, ...]
See = Callable[[TensorRef], "TensorRef | None"]


class Scattered(UnsupportedError):
    """A result whose strides the op cannot write."""


@dataclasses.dataclass
class Layout:
    """The operands of a function are those of its row, by their C names.

    values   C's scalars and host arrays
    extents  the shape that the op sees of each operand, to which an input may broadcast
    shapes   the shape that each result has, over which a gradient is summed to that of its operand
    seen     what the op sees of an operand that has another shape for callers; None where it must be copied before
    orders   of the axes of such a copy, where they are not those of the operand
    steps    the axis whose stride a scalar is
    place    scalars that follow from where the operands lie
    spreads  shapes to which inputs are broadcast before such a copy
    larger   results that the caller gives may be longer, but along this axis
    fills    results of a call that has nothing to read: a number, or the argument of which they are a copy
    """

    values: dict[str, Any]
    extents: dict[str, Shape]
    shapes: dict[str, Shape]
    offset_axis: int | None = None  # of gated operands, scans and softmax
    channel_axis: int | None = None  # of weights
    seen: Mapping[str, See] = dataclasses.field(default_factory=dict)
    orders: Mapping[str, tuple[int, ...]] = dataclasses.field(default_factory=dict)
    steps: Mapping[str, int] = dataclasses.field(default_factory=dict)
    place: Callable[[dict[str, TensorRef | None]], dict[str, Any]] | None = None
    spreads: Mapping[str, Shape] = dataclasses.field(default_factory=dict)
    larger: Mapping[str, int] = dataclasses.field(default_factory=dict)
    fills: Mapping[str, float | str] = dataclasses.field(default_factory=dict)


def axis_of(name: str, axis: object, shape: Shape) -> int:
    """An axis of `shape`; negative ones count from the last."""
    rank = len(shape)
    if not rank:
        raise InvalidProblemError(f"{name} is {axis!r}, but there is no axis: the shape is ()")
    try:
        return as_integer(name, axis, -rank, rank - 1) % rank
    except InvalidProblemError as error:
        raise InvalidProblemError(f"{error}: the shape is {shape}") from None


def axes_of(name: str, given: object, shape: Shape) -> tuple[int, ...]:
    """Axes of `shape` in order: one, several in a tuple or list, or all for None."""
    if given is None:
        return tuple(range(len(shape)))
    several = given if isinstance(given, (tuple, list)) else (given,)
    axes = [axis_of(name, axis, shape) for axis in several]
    if len(set(axes)) < len(axes):
        raise InvalidProblemError(f"{name} is {given!r}, which has an axis twice")
    return tuple(sorted(axes))


def viewed(view: TensorRef, shape: Shape, strides: tuple[int, ...]) -> TensorRef:
    """The memory of a view in another shape."""
    return TensorRef(view.ptr, shape, view.dtype, strides, device=view.device, readonly=view.readonly)


def settled(view: TensorRef) -> TensorRef:
    """A view without elements has the strides of one in row-major order, which never are 0; others stay as they are."""
    if view.numel:
        return view
    return viewed(view, view.shape, contiguous_stride(tuple([max(extent, 1) for extent in view.shape])))


def of_rank(view: TensorRef, rank: int) -> TensorRef:
    """A view with axes of extent 1 in front, where it has less."""
    more = rank - len(view.shape)
    if more <= 0:
        return view
    return viewed(view, (1,) * more + view.shape, (0,) * more + view.strides)


def contiguous(view: TensorRef) -> TensorRef | None:
    """What an op sees that takes an operand in row-major order alone."""
    return view if view.is_dense else None


def dense_as(shape: Shape, view: TensorRef) -> TensorRef | None:
    """The elements of a view in row-major order, in another shape; None of one that is not so."""
    return viewed(view, shape, contiguous_stride(shape)) if view.is_dense else None


def check_shape(name: str, have: Shape, expected: Shape) -> None:
    if have != expected:
        raise InvalidProblemError(f"{name} has shape {have}, expected {expected}")
