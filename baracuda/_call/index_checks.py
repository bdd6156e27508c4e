# SPDX-License-Identifier: Apache-2.0
"""PlanPreference.check_indices: before its own op a plan launches one that checks indices and reports in the workspace.

The check is asynchronous, so that it runs inside a graph too; `Plan.check` reads the report after the stream has been
synchronised. The rows of the op table tell which operands are indices.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from baracuda._library.op_table import Op
from baracuda.dtypes import ElementKind
from baracuda.errors import IndexOutOfRangeError, InvalidProblemError, UnsupportedError, WorkspaceTooSmallError
from baracuda.memory import download
from baracuda.operands import Views
from baracuda.tensor import TensorRef

if TYPE_CHECKING:
    from baracuda.plan import Plan

_WORDS = 4  # position and value of an index out of range, then of one out of order; position -1: none
_WORD = 8
_SERVED = (ElementKind.I32, ElementKind.I64, ElementKind.U32, ElementKind.U8)


class Checked(NamedTuple):
    """One checked operand of a launch: its name, extents, the end of its range, and its report."""

    name: str
    shape: tuple[int, ...]
    end: int
    report: TensorRef


def report_bytes(op: Op) -> int:
    """Workspace bytes for reports, including alignment; 0 for an op without indices."""
    return _WORDS * _WORD * len(op.row.indexes) + (_WORD - 1 if op.row.indexes else 0)


def split(op: Op, scratch: TensorRef | None) -> tuple[int, TensorRef | None]:
    """Address of the reports at the start of a workspace, and the remaining workspace for the op."""
    needed, got = report_bytes(op), 0 if scratch is None else scratch.nbytes
    if not needed:
        return 0, scratch
    if scratch is None or got < needed:
        text = f"workspace has {got} bytes, needs {needed} for the report on indices"
        raise WorkspaceTooSmallError(text, needed=needed, got=got)
    first = -(-scratch.ptr // _WORD) * _WORD
    begin = first + _WORDS * _WORD * len(op.row.indexes)
    size = scratch.ptr + got - begin
    view = TensorRef(begin, (size,), ElementKind.U8, device=scratch.device, owner=scratch) if size else None
    return first, view


def launches(
    plan: Plan, op: Op, call: tuple[Any, ...], views: Views, names: Mapping[str, str], address: int, stream: Any,
    keeper: object,
) -> tuple[list[Callable[[], int]], tuple[Checked, ...]]:  # fmt: skip
    """The C calls that check indices, and the operands that they report on. `address` is that of the reports."""
    numbers = {param.name: value for param, value in zip(op.row.params, call) if not param.is_pointer}
    calls: list[Callable[[], int]] = []
    found, ffi = [], plan.library.ffi
    for slot, (pointer, fact) in enumerate(op.row.indexes.items()):
        name = names[pointer]
        view = views[name]
        at = address + slot * _WORDS * _WORD
        if view is None:
            continue
        if view.dtype not in _SERVED:
            raise UnsupportedError(f"{name} has dtype {view.dtype}: indices of that dtype are not checked")
        report = TensorRef(at, (_WORDS,), ElementKind.I64, device=plan.library.backend, owner=keeper)
        end, other = fact.end(numbers), fact.other_value(numbers)
        function = plan.library.function(f"check_indices_{view.dtype.symbol}")
        shape, strides = ffi.new("int32_t[]", view.shape or (0,)), ffi.new("int64_t[]", view.strides or (0,))
        arguments = (
            view.numel, len(view.shape), shape, strides, end, other or 0, int(other is not None),
            int(fact.is_sorted), view.pointer, ffi.cast("void *", at), ffi.NULL, 0, stream,
        )  # fmt: skip
        calls.append(functools.partial(function, *arguments))
        found.append(Checked(name, view.shape, end, report))
    return calls, tuple(found)


def in_order(
    plan: Plan, calls: list[Callable[[], int]], checked: tuple[Checked, ...], last: Callable[[], int]
) -> Callable[[], int]:
    """One launch of all calls, up to the first that fails. The plan remembers the checked operands."""

    def run() -> int:
        plan._checked = checked
        for call in calls:
            if status := call():
                return status
        return last()

    return run


def raise_first(plan: Plan, checked: tuple[Checked, ...]) -> None:
    """Raise for the first wrong index in the reports of a finished launch."""
    for name, shape, end, report in checked:
        outside, value, descent, lower = (int(word) for word in download(report, library=plan.library))
        if outside >= 0:
            raise IndexOutOfRangeError(name, _coordinates(outside, shape), value, f"must be in [0, {end})")
        if descent >= 0:
            text = "must not be below the one before it"
            raise IndexOutOfRangeError(name, _coordinates(descent, shape), lower, text)


def _coordinates(position: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    if not shape:
        return ()
    if position >= np.prod(shape, dtype=object):
        raise InvalidProblemError("the workspace no longer has the report: it was written since")
    return tuple(int(k) for k in np.unravel_index(position, shape))
