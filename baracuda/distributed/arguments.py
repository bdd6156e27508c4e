# SPDX-License-Identifier: Apache-2.0
"""Checks of what communicators are given, and allocation of their results."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from baracuda import memory
from baracuda._arrays.frameworks import Framework, framework_of
from baracuda._arrays.shaping import given_array
from baracuda._call.scalars import as_integer, as_integers
from baracuda._library.loader import Library
from baracuda.dtypes import ElementKind
from baracuda.errors import InvalidProblemError, UnsupportedError
from baracuda.stream import stream_handle
from baracuda.tensor import TensorRef, tensor


class Operand:
    """An array, its view and its framework. Arrays are contiguous and in the memory of the communicator's backend."""

    __slots__ = ("array", "framework", "view")

    def __init__(self, array: Any, name: str, backend: str, *, is_output: bool = False) -> None:
        if isinstance(array, np.generic):
            array = np.asarray(array)
        self.array = array if isinstance(array, TensorRef) else given_array(array, name)
        framework = framework_of(self.array)
        assert framework is not None
        self.framework: Framework = framework
        is_view = isinstance(self.array, TensorRef)
        self.view = self.array if is_view else framework.view(_detached(self.array), name)
        if self.view.dtype.bits < 8:
            raise UnsupportedError(f"{name} is of the packed dtype {self.view.dtype}: send its bytes as u8")
        if not self.view.is_dense:
            raise UnsupportedError(
                f"{name} of shape {self.view.shape} has strides {self.view.strides}, must be contiguous"
            )
        if self.view.device not in (None, backend):
            raise InvalidProblemError(f"{name} is in {self.view.device} memory, the communicator is of {backend}")
        if is_output and self.view.readonly:
            raise InvalidProblemError(f"{name} is read-only")
        if self.view.numel and not self.view.ptr:
            raise InvalidProblemError(f"{name} is NULL")

    @property
    def rows(self) -> int:
        """The first extent; a number is a row."""
        return self.view.shape[0] if self.view.shape else 1

    @property
    def row_shape(self) -> tuple[int, ...]:
        return self.view.shape[1:]

    @property
    def row_size(self) -> int:
        return math.prod(self.row_shape)

    def stream(self, stream: object) -> int:
        """The stream given, else the framework's current one."""
        return stream_handle(stream) if stream is not None else self.framework.stream(self.array)

    def like(self, shape: tuple[int, ...], library: Library) -> Operand:
        """A new array of the same dtype and framework."""
        dtype = self.view.dtype
        if isinstance(self.array, TensorRef):
            return Operand(memory.empty(shape, dtype, library=library), "out", library.backend)
        framework = self.framework.on(library.backend)
        with framework.guard(self.array):
            made = framework.finish(framework.empty(shape, framework.native(dtype, self.array), self.array))
        return Operand(made, "out", library.backend)


def output(
    out: Any, like: Operand, shape: tuple[int, ...], library: Library
) -> Operand:  # fmt: skip
    """The operand of `out`, checked, or a new one."""
    if out is None:
        return like.like(shape, library)
    operand = Operand(out, "out", library.backend, is_output=True)
    if operand.view.dtype is not like.view.dtype or operand.view.shape != shape:
        raise InvalidProblemError(
            f"out is {operand.view.dtype} {operand.view.shape}, must be {like.view.dtype} {shape}"
        )
    return operand


def counts_of(name: str, counts: Sequence[int] | None, rows: int, size: int) -> tuple[int, ...]:
    """Rows of each rank, which add up to all rows; equal ones if none are given."""
    if counts is None:
        if rows % size:
            raise InvalidProblemError(f"x has {rows} rows, which {size} ranks do not divide: give {name}")
        return (rows // size,) * size
    found = as_integers(name, counts, 0)
    if len(found) != size:
        raise InvalidProblemError(f"{name} has {len(found)} numbers, must have one for each of {size} ranks")
    if sum(found) != rows:
        raise InvalidProblemError(f"{name} add up to {sum(found)}, x has {rows} rows")
    return found


def rank_of(name: str, rank: object, size: int) -> int:
    return as_integer(name, rank, 0, size - 1)


def flat(view: TensorRef, start: int, count: int) -> TensorRef:
    """`count` elements of a contiguous view from an element on."""
    return TensorRef(
        view.ptr + start * view.dtype.itemsize if count else view.ptr, (count,), view.dtype, device=view.device,
        readonly=view.readonly, owner=view,
    )  # fmt: skip


def dtype_named(token: str) -> ElementKind:
    return next(kind for kind in ElementKind if kind.token == token)


def view_of(obj: Any, name: str) -> TensorRef:
    return tensor(obj, name)


def _detached(array: Any) -> Any:
    return array.detach() if hasattr(array, "detach") else array
