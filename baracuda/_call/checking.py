# SPDX-License-Identifier: Apache-2.0
"""The checking mode: validates indices, sorted ids and, optionally, NaN on host copies of the operands.

Kernels skip indices out of range or give 0 for them, as the op documents, and unsorted ids give wrong sums. In this
mode each call and each run raises CheckError for them before the launch, and on request for NaN in results after it.
The rows of the op table tell which operands are indices.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from baracuda._library.op_table import Index, Row
from baracuda.errors import CheckError, InvalidProblemError
from baracuda.memory import cuda_runtime, download
from baracuda.tensor import TensorRef

Views = Mapping[str, "TensorRef | None"]  # operands by their C names
Names = Mapping[str, str]  # C's -> those that the caller knows

_NAN = ("ignore", "raise")
_FAILURES = "info"  # the result with a number for each matrix, 0 where nothing failed
_CAPTURES = 0  # cudaStreamCaptureStatusNone


class Watcher:
    """Intercepts all C calls of functions and plans while it is `active`."""

    def call(self, function: Any, row: Row, views: Views, names: Names, stream: int, arguments: Sequence[Any]) -> int:
        """Make the C call and return its status."""
        return int(function(*arguments))

    def also(self, action: Callable[[], object]) -> None:
        """Called with an action that a function has done before the C call, such as a copy."""

    def keep(self, *objects: object) -> None:
        """Called with the objects that own the memory of the call's arguments."""


@contextlib.contextmanager
def watching(watcher: Watcher) -> Iterator[None]:
    """Pass all calls of all threads through `watcher`."""
    global active
    before, active = active, watcher
    for forget in on_change:
        forget()
    try:
        yield
    finally:
        active = before


def watched_call(function: Any, row: Row, views: Views, names: Names, stream: int, arguments: Sequence[Any]) -> int:
    """Status of a C call, made by the active watcher. Calls bound under a watcher may outlive it."""
    if active is None:
        return int(function(*arguments))
    return active.call(function, row, views, names, stream, arguments)


@contextlib.contextmanager
def checked(*, nan: str = "ignore") -> Iterator[None]:
    """Within the context, functions and plans of all threads check their operands: indices are in range, ids and
    offsets are sorted if the op needs it, no matrix is singular or not positive definite (`info`), and with
    `nan="raise"` no result is NaN. CheckError names operand, position and value. On CUDA each call copies and waits for
    that; calls that a graph captures are not checked.
    """
    if nan not in _NAN:
        raise InvalidProblemError(f"nan is {nan!r}, must be one of {', '.join(_NAN)}")
    with watching(Checks(nan == "raise")):
        yield


class Checks(Watcher):
    """The watcher of `checked`."""

    def __init__(self, refuses_nan: bool) -> None:
        self.refuses_nan = refuses_nan

    def call(self, function: Any, row: Row, views: Views, names: Names, stream: int, arguments: Sequence[Any]) -> int:
        numbers = {param.name: value for param, value in zip(row.params, arguments) if not param.is_pointer}
        self.before(row, numbers, views, names, stream)
        status = super().call(function, row, views, names, stream, arguments)
        if not status:
            self.after(row, views, names, stream)
        return status

    def before(self, row: Row, numbers: Mapping[str, Any], views: Views, names: Names, stream: int) -> None:
        """Check the index operands."""
        for name, fact in row.indexes.items():
            view = views.get(name)
            if view is not None and not _is_capturing(view, stream):
                _check_index(names.get(name, name), fact, download(view, stream=stream), numbers)

    def after(self, row: Row, views: Views, names: Names, stream: int) -> None:
        """Check that no matrix failed, and the results for NaN."""
        for param in row.pointers:
            view = views.get(param.name) if param.name == _FAILURES and param.is_output else None
            if view is not None and not _is_capturing(view, stream):
                _check_failures(names.get(param.name, param.name), download(view, stream=stream))
        if not self.refuses_nan:
            return
        for param in row.pointers:
            position = _first_nan(views.get(param.name), stream) if param.is_output else None
            if position is not None:
                reads = [p.name for p in row.pointers if not p.is_output]
                inputs = [name for name in reads if _first_nan(views.get(name), stream) is not None]
                hint = f"and so is an element of {' and '.join([names.get(n, n) for n in inputs])}" if inputs else ""
                raise CheckError(names.get(param.name, param.name), position, float("nan"), hint)


def _first_nan(view: TensorRef | None, stream: int) -> tuple[int, ...] | None:
    if view is None or not view.dtype.is_float or _is_capturing(view, stream):
        return None
    found = np.argwhere(np.isnan(download(view, stream=stream).astype(np.float64)))
    return tuple(found[0].tolist()) if len(found) else None


def _check_index(name: str, fact: Index, values: np.ndarray[Any, Any], numbers: Mapping[str, Any]) -> None:
    end, other = fact.end(numbers), fact.other_value(numbers)
    outside = (values < 0) | (values >= end)
    if other is not None:
        outside &= values != other
    if outside.any():
        _refuse(name, values, np.argwhere(outside)[0], f"must be in [0, {end})")
    if fact.is_sorted and len(descents := np.argwhere(values[1:] < values[:-1])):
        position = descents[0] + 1
        _refuse(name, values, position, f"must not be below {values[tuple(position - 1)]}, which stands before it")


def _check_failures(name: str, values: np.ndarray[Any, Any]) -> None:
    if len(failed := np.argwhere(values)):
        _refuse(name, values, failed[0], "must be 0: this matrix is singular, or not positive definite")


def _refuse(name: str, values: np.ndarray[Any, Any], position: np.ndarray[Any, Any], what: str) -> None:
    raise CheckError(name, tuple(position.tolist()), values[tuple(position)].item(), what)


def _is_capturing(view: TensorRef, stream: int) -> bool:
    if view.device != "cuda":
        return False
    runtime = cuda_runtime()
    status, *found = runtime.cudaStreamIsCapturing(stream or 2)
    return status != 0 or int(found[0]) != _CAPTURES


# Functions that clear caches of calls prepared without checks.
on_change: list[Any] = []
active: Watcher | None = None
if os.environ.get("BARACUDA_CHECK", "0") not in ("", "0"):
    active = Checks(os.environ["BARACUDA_CHECK"] == "nan")
