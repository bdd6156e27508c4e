# SPDX-License-Identifier: Apache-2.0
"""Tensor operands of an op, and all checks of the views given for them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from baracuda._call.scalars import INT64_MAX
from baracuda.descriptor import broadcasts
from baracuda.dtypes import ElementKind
from baracuda.errors import BufferTooSmallError, InvalidProblemError, MisalignedOperandError, UnsupportedError
from baracuda.tensor import TensorRef, tensor

Viewable = Any  # what `tensor` takes; a field of an Args object is a TensorRef once the object exists
Views = Mapping[str, "TensorRef | None"]
_OVERLAP_EFFORT = 10_000  # steps of the exact overlap test; beyond them, overlap is assumed


class Args:
    """Base of the operands of one launch. They are immutable, so that a plan can cache its checks in them."""

    __slots__ = ("_bound",)
    lists: ClassVar[tuple[str, ...]] = ()  # fields that are sequences of operands

    _bound: tuple[Any, ...]  # the last run: plan, stream, workspace, C call, symbol, stream handle
    __dataclass_fields__: ClassVar[dict[str, dataclasses.Field[Any]]]

    if TYPE_CHECKING:  # subclasses are dataclasses made from the op table, each with an __init__ of its own

        def __init__(self, *operands: Viewable, **named: Viewable) -> None: ...

    def __post_init__(self) -> None:
        for name in self.__dataclass_fields__:
            value, label = getattr(self, name), f"{type(self).__name__}: {name}"
            if name in self.lists and isinstance(value, (list, tuple)):
                entries = [each if each is None else tensor(each, f"{label}[{k}]") for k, each in enumerate(value)]
                object.__setattr__(self, name, tuple(entries))
            elif value is not None and type(value) is not TensorRef:
                object.__setattr__(self, name, tensor(value, label))


def entries_of(name: str, count: int) -> tuple[str, ...]:
    """Names of the operands of a list."""
    return tuple([f"{name}[{k}]" for k in range(count)])


def list_of(name: str) -> str:
    """The list that an operand is an entry of, else its own name."""
    return name.partition("[")[0]


class Operand(NamedTuple):
    """A tensor parameter of one plan, and the conditions for its view.

    extents    the shape that the op takes
    label      name of that shape in messages: "shape", "(num_bags, embedding_dim)"
    dtypes     allowed dtypes
    output     whether the op writes it
    strided    whether any strides are allowed; otherwise the view must be contiguous
    broadcast  whether extents of 1 broadcast; a gradient is summed over them
    exact      the only shape of the view, if the descriptor fixes how it broadcasts
    may_be     operands that an output may alias
    """

    name: str
    extents: tuple[int, ...]
    label: str
    dtypes: tuple[ElementKind, ...]
    output: bool
    strided: bool
    broadcast: bool
    exact: tuple[int, ...] | None
    may_be: tuple[str, ...]


def check_view(operand: Operand, view: TensorRef, backend: str) -> None:
    """Raise unless `view` can be passed for `operand`."""
    name = operand.name
    if view.dtype not in operand.dtypes:
        wanted = " or ".join(dict.fromkeys(kind.symbol for kind in operand.dtypes))
        raise InvalidProblemError(f"{name} has dtype {view.dtype}, expected {wanted}")
    if view.shape != (operand.exact or operand.extents):
        _check_shape(operand, view)
    if view.device is not None and view.device != backend:
        raise InvalidProblemError(f"{name} is in {view.device} memory, the library is a {backend} library")
    if operand.output and view.readonly:
        raise InvalidProblemError(f"{name} is read-only or a temporary copy, but an output")
    if not operand.strided and not view.is_dense:
        raise UnsupportedError(f"{name} has strides {view.strides} for shape {view.shape}, must be contiguous")
    if not view.numel:
        return
    if not view.ptr:
        raise InvalidProblemError(f"{name} is NULL")
    if view.ptr % (view.dtype.itemsize // (2 if view.dtype.token in ("c32", "c64") else 1)):
        raise MisalignedOperandError(f"{name} is at {view.ptr:#x}, must be aligned for {view.dtype}")
    check_reach(name, view)
    if operand.output and not _elements_are_distinct(view):
        raise InvalidProblemError(f"{name} has strides {view.strides} for shape {view.shape}: its cells overlap")


def _check_shape(operand: Operand, view: TensorRef) -> None:
    """Check the shape of a view that differs from the extents."""
    if operand.exact is not None:
        label = f"{operand.name.removeprefix('d') if operand.output else operand.name}_shape"
        raise InvalidProblemError(f"{operand.name} has shape {view.shape}, expected {label} = {operand.exact}")
    if not operand.broadcast or not broadcasts(view.shape, operand.extents):
        raise InvalidProblemError(
            f"{operand.name} has shape {view.shape}, expected {operand.label} = {operand.extents}"
        )


def check_reach(name: str, view: TensorRef) -> None:
    """Check that the view is inside its buffer, and that byte offsets fit into 63 bits."""
    if view.dtype.nbytes(view.high - view.low + 1) > INT64_MAX or max(view.high, -view.low) > INT64_MAX:
        raise InvalidProblemError(f"{name} has shape {view.shape} and strides {view.strides}: more than 2^63 bytes")
    if view.length is None:
        return
    first, last = view.offset + view.low, view.offset + view.high
    needed = max(last + 1, view.length) - min(first, 0)
    if needed > view.length:
        raise BufferTooSmallError(
            f"{name} with shape {view.shape} and strides {view.strides} reaches over elements {first} to {last} of a "
            f"buffer of {view.length}",
            needed=needed,
            got=view.length,
        )


def _elements_are_distinct(view: TensorRef) -> bool:
    """Sufficient condition: sorted by stride, each axis steps over the span of all smaller ones."""
    if view.is_dense:
        return True
    span = 0
    for step, extent in sorted((abs(s), e) for s, e in zip(view.strides, view.shape) if e > 1):
        if step <= span:
            return False
        span += step * (extent - 1)
    return True


def effective_strides(shape: Sequence[int], strides: tuple[int, ...], extents: Sequence[int]) -> tuple[int, ...]:
    """Strides of a view broadcast to `extents`: 0 along broadcast axes."""
    if shape == extents:
        return strides
    return tuple([0 if have == 1 and want != 1 else step for step, have, want in zip(strides, shape, extents)])


def check_overlaps(operands: Sequence[Operand], views: Views, may_coincide: Callable[[str, str, Views], bool]) -> None:
    """Check that outputs share no element with other operands, unless they may alias and `may_coincide` agrees."""
    given = [(operand, view) for operand in operands if (view := views[operand.name]) is not None and view.numel]
    present = [(operand, view, *view.byte_range) for operand, view in given]
    for i, (out, view, start, stop) in enumerate(present):
        if not out.output:
            continue
        for k, (other, second, low, high) in enumerate(present):
            if start >= high or low >= stop or k == i or (k > i and other.output):
                continue
            if other.name in out.may_be and may_coincide(out.name, other.name, views):
                continue
            if _share_memory(view, second):
                hint = ", must be identical with it or apart" if other.name in out.may_be else ""
                raise InvalidProblemError(f"{out.name} overlaps {other.name}{hint}")


def overlaps(first: TensorRef, second: TensorRef) -> bool:
    return _ranges_overlap(first, second) and _share_memory(first, second)


def _ranges_overlap(first: TensorRef, second: TensorRef) -> bool:
    (a, b), (c, d) = first.byte_range, second.byte_range
    return a < d and c < b


def identical(first: TensorRef, second: TensorRef) -> bool:
    """Whether both have the same elements, of one size, in the same order."""
    if first.ptr != second.ptr or first.shape != second.shape or first.dtype.bits != second.dtype.bits:
        return False
    return first.strides == second.strides or (first.is_dense and second.is_dense)


class _Addresses:
    """A view by the array interface, for NumPy's address arithmetic only."""

    def __init__(self, view: TensorRef) -> None:
        size = view.dtype.itemsize
        strides = tuple(step * size for step in view.strides)
        self.__array_interface__ = {
            "version": 3, "shape": view.shape, "typestr": f"|V{size}", "data": (view.ptr, False), "strides": strides,
        }  # fmt: skip


def _share_memory(first: TensorRef, second: TensorRef) -> bool:
    """Whether two views with overlapping byte ranges share an element; True if that is too hard to tell."""
    if first.is_dense and second.is_dense:
        return True
    try:
        pair = np.asarray(_Addresses(first)), np.asarray(_Addresses(second))
        return bool(np.shares_memory(*pair, _OVERLAP_EFFORT))  # type: ignore[arg-type, unused-ignore]
    except (np.exceptions.TooHardError, ValueError, OverflowError):
        return True
