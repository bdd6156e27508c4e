"""Tensor operands of an op, and everything that is checked about the views given for them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from baracuda._scalars import INT64_MAX
from baracuda.dtypes import ElementKind
from baracuda.errors import BufferTooSmallError, InvalidProblemError, MisalignedOperandError, UnsupportedError
from baracuda.tensor import TensorRef, tensor

Viewable = Any  # what `tensor` takes; a field of an Args object is a TensorRef once the object exists
Views = Mapping[str, "TensorRef | None"]
_OVERLAP_EFFORT = 10_000  # steps of the exact overlap search; beyond, an overlap is assumed


class Args:
    """Base of the operands of one launch. Immutable: a plan remembers here that it has checked them."""

    __slots__ = ("_bound",)

    _bound: tuple[Any, ...]  # the last run: plan, stream, workspace, C call, symbol, stream handle

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):  # type: ignore[arg-type]
            value = getattr(self, field.name)
            if value is not None:
                object.__setattr__(self, field.name, tensor(value, f"{type(self).__name__}: {field.name}"))


@dataclasses.dataclass(frozen=True)
class Operand:
    """A tensor parameter, in the C function's order.

    shape      names of descriptor extents, or the name of a descriptor attribute that is a whole shape
    dtype      None: the descriptor's element; a tuple: any of these; a text: the descriptor attribute that has it
    index      dtype is i32 or i64 and selects the symbol
    strided    the C function takes its strides; otherwise the view must be contiguous
    broadcast  an extent of 1 stands for any extent; a gradient is summed there
    may_be     operands that an output may be identical with
    """

    name: str
    shape: str | tuple[str, ...]
    dtype: ElementKind | tuple[ElementKind, ...] | str | None = None
    index: bool = False
    output: bool = False
    optional: bool = False
    strided: bool = False
    broadcast: bool = False
    may_be: tuple[str, ...] = ()

    def extents(self, descriptor: object) -> tuple[int, ...]:
        if isinstance(self.shape, str):
            return tuple(getattr(descriptor, self.shape))
        return tuple(getattr(descriptor, name) for name in self.shape)

    def dtypes(self, descriptor: Any) -> tuple[ElementKind, ...]:
        """The dtypes that a view may have."""
        if self.index:
            return (ElementKind.I32, ElementKind.I64)
        if isinstance(self.dtype, tuple):
            return self.dtype
        if isinstance(self.dtype, str):
            return (getattr(descriptor, self.dtype),)
        return (descriptor.element if self.dtype is None else self.dtype,)

    @property
    def label(self) -> str:
        """The expected shape in words: "(num_bags, embedding_dim)"."""
        if isinstance(self.shape, str):
            return self.shape
        return f"({', '.join(self.shape)}{',' if len(self.shape) == 1 else ''})"


def check_view(operand: Operand, view: TensorRef, descriptor: Any, extents: tuple[int, ...], backend: str) -> None:
    """Raise unless `view` can be passed for `operand`, whose extents these are."""
    name = operand.name
    _check_dtype(operand, view, operand.dtypes(descriptor))
    _check_shape(operand, view, extents)
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
    if operand.output and not _cells_are_distinct(view):
        raise InvalidProblemError(f"{name} has strides {view.strides} for shape {view.shape}: its cells overlap")


def _check_dtype(operand: Operand, view: TensorRef, allowed: tuple[ElementKind, ...]) -> None:
    if view.dtype not in allowed:
        wanted = " or ".join(kind.token for kind in allowed)
        raise InvalidProblemError(f"{operand.name} has dtype {view.dtype}, expected {wanted}")


def _check_shape(operand: Operand, view: TensorRef, expected: tuple[int, ...]) -> None:
    if view.shape == expected:
        return
    may_broadcast = operand.broadcast and len(view.shape) == len(expected)
    if not may_broadcast or any(have not in (want, 1) for have, want in zip(view.shape, expected)):
        raise InvalidProblemError(f"{operand.name} has shape {view.shape}, expected {operand.label} = {expected}")


def check_reach(name: str, view: TensorRef) -> None:
    """The view stays inside its buffer, and its bytes inside 63 bits."""
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


def _cells_are_distinct(view: TensorRef) -> bool:
    """Sufficient: taken by stride, each axis steps over everything that the smaller ones span."""
    if view.is_dense:
        return True
    span = 0
    for step, extent in sorted((abs(s), e) for s, e in zip(view.strides, view.shape) if e > 1):
        if step <= span:
            return False
        span += step * (extent - 1)
    return True


def effective_strides(view: TensorRef, expected: Sequence[int]) -> tuple[int, ...]:
    """Strides of `view` broadcast to `expected`: 0 where an extent of 1 is repeated."""
    if view.shape == expected:
        return view.strides
    return tuple(0 if e == 1 and w != 1 else s for s, e, w in zip(view.strides, view.shape, expected))


def check_overlaps(operands: Sequence[Operand], views: Views, may_coincide: Callable[[str, str, Views], bool]) -> None:
    """Outputs share no cell with another operand, except where they may be it and `may_coincide` agrees."""
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
    return _ranges_meet(first, second) and _share_memory(first, second)


def _ranges_meet(first: TensorRef, second: TensorRef) -> bool:
    (a, b), (c, d) = first.byte_range, second.byte_range
    return a < d and c < b


def identical(first: TensorRef, second: TensorRef) -> bool:
    """Whether both have the same cells, of one size, in the same order."""
    if first.ptr != second.ptr or first.shape != second.shape or first.dtype.bits != second.dtype.bits:
        return False
    return first.strides == second.strides or (first.is_dense and second.is_dense)


class _Addresses:
    """A view as NumPy sees it, for address arithmetic alone."""

    def __init__(self, view: TensorRef) -> None:
        size = view.dtype.itemsize
        strides = tuple(step * size for step in view.strides)
        self.__array_interface__ = {
            "version": 3, "shape": view.shape, "typestr": f"|V{size}", "data": (view.ptr, False), "strides": strides,
        }  # fmt: skip


def _share_memory(first: TensorRef, second: TensorRef) -> bool:
    """Whether two views whose byte ranges meet have a cell in common; True also where that is too hard to tell."""
    if first.is_dense and second.is_dense:
        return True
    try:
        pair = np.asarray(_Addresses(first)), np.asarray(_Addresses(second))
        return bool(np.shares_memory(*pair, _OVERLAP_EFFORT))  # type: ignore[arg-type]
    except (np.exceptions.TooHardError, ValueError, OverflowError):
        return True
