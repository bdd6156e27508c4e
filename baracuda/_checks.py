"""The checking mode: what the kernels cannot report without a cost, looked at in copies of the operands.

Indices outside of what they index are dropped by the kernels or give 0, as the op documents, and unsorted ids give sums
of no use. In this mode each call of a function and each run of a plan raises CheckError for them before the launch, and
for NaN behind it where that is asked for. Which operands are indices, of what, is said by the rows of the op table.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from baracuda._optable import Index, Row
from baracuda.errors import CheckError, InvalidProblemError
from baracuda.memory import cuda_runtime, download
from baracuda.tensor import TensorRef

Views = Mapping[str, "TensorRef | None"]  # operands by their C names
Names = Mapping[str, str]  # C's -> those that the caller knows

_NAN = ("ignore", "raise")
_CAPTURES = 0  # cudaStreamCaptureStatusNone


class Watcher:
    """Stands between functions and plans on the one side, C on the other, while it is `active`."""

    def call(self, function: Any, row: Row, views: Views, names: Names, stream: int, arguments: Sequence[Any]) -> int:
        """Make the C call; its status."""
        return int(function(*arguments))

    def also(self, action: Callable[[], object]) -> None:
        """Told of what a function has done besides, before the call."""

    def keep(self, *objects: object) -> None:
        """Told of what must live as long as the arguments of the call are used."""


@contextlib.contextmanager
def watching(watcher: Watcher) -> Iterator[None]:
    """All calls of all threads go through `watcher`."""
    global active
    before, active = active, watcher
    for forget in on_change:
        forget()
    try:
        yield
    finally:
        active = before


def watched_call(function: Any, row: Row, views: Views, names: Names, stream: int, arguments: Sequence[Any]) -> int:
    """Status of a C call with all its arguments. There is no watcher if it was bound under one that is gone."""
    if active is None:
        return int(function(*arguments))
    return active.call(function, row, views, names, stream, arguments)


@contextlib.contextmanager
def checked(*, nan: str = "ignore") -> Iterator[None]:
    """Within the context, functions and plans of all threads check their operands: indices lie in range, ids and
    offsets are sorted where the op needs it, and with `nan="raise"` no result is NaN. CheckError names operand,
    position and value. On CUDA each call copies and waits for that; calls that a graph captures are not checked.
    """
    if nan not in _NAN:
        raise InvalidProblemError(f"nan is {nan!r}, must be one of {', '.join(_NAN)}")
    with watching(Checks(nan == "raise")):
        yield


class Checks(Watcher):
    """What is checked."""

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
        """Of the operands that are read, with C's scalars."""
        for name, fact in row.indexes.items():
            view = views.get(name)
            if view is not None and not _is_capturing(view, stream):
                _check_index(names.get(name, name), fact, download(view, stream=stream), numbers)

    def after(self, row: Row, views: Views, names: Names, stream: int) -> None:
        """Of the results."""
        if not self.refuses_nan:
            return
        for param in row.pointers:
            place = _first_nan(views.get(param.name), stream) if param.is_output else None
            if place is not None:
                reads = [p.name for p in row.pointers if not p.is_output]
                inputs = [name for name in reads if _first_nan(views.get(name), stream) is not None]
                hint = f"and so is an element of {' and '.join([names.get(n, n) for n in inputs])}" if inputs else ""
                raise CheckError(names.get(param.name, param.name), place, float("nan"), hint)


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
    falls = np.argwhere(values[1:] < values[:-1]) if fact.is_sorted else ()
    if len(falls):
        place = falls[0] + 1
        _refuse(name, values, place, f"must not be below {values[tuple(place - 1)]}, which stands before it")


def _refuse(name: str, values: np.ndarray[Any, Any], place: np.ndarray[Any, Any], what: str) -> None:
    raise CheckError(name, tuple(place.tolist()), values[tuple(place)].item(), what)


def _is_capturing(view: TensorRef, stream: int) -> bool:
    if view.device != "cuda":
        return False
    runtime = cuda_runtime()
    status, *found = runtime.cudaStreamIsCapturing(stream or 2)
    return status != 0 or int(found[0]) != _CAPTURES


# What forgets calls that were prepared without checks.
on_change: list[Any] = []
active: Watcher | None = None
if os.environ.get("BARACUDA_CHECK", "0") not in ("", "0"):
    active = Checks(os.environ["BARACUDA_CHECK"] == "nan")
