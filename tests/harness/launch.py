# SPDX-License-Identifier: Apache-2.0
"""Calls an op by name with a Problem on guarded memory, and reports the outcome."""

import ctypes
import dataclasses
import pathlib
import re

import numpy as np

from baracuda._library import op_table
from tools.oracle.numerics import decode, is_float

from .memory import FINITE_POISON, INDEX_GUARD, NAN_POISON, Guarded, guarded_bytes, memory_of

ROOT = pathlib.Path(__file__).resolve().parents[2]
# `make san`, which makes only one of several calls that touch the same memory
SANITIZED = hasattr(ctypes.CDLL(None), "__asan_init")
ROWS = {row.name: row for row in op_table.rows()}
# op -> (row, its slots: function F, dtypes T, U, I)
OPS = {name: (op.row, op.slots) for name, op in op_table.ops().items()}


@dataclasses.dataclass
class Outcome:
    """status   of `_run`
    text     baracuda_kernels_last_error() after a failure, else ""
    bits     the output arrays afterwards, by parameter name
    dtypes   of these arrays
    """

    status: int
    text: str
    bits: dict[str, np.ndarray]
    dtypes: dict[str, str]

    def values(self, name: str) -> np.ndarray:
        return decode(self.bits[name], self.dtypes[name])


def host_array(ffi, param, entries):
    if entries is None:
        return ffi.NULL
    array = ffi.new("int64_t[]" if param.dtype == "i64" else "int32_t[]", max(len(entries), 1))
    array[0 : len(entries)] = [int(e) for e in entries]
    return array


def entries_of(param, problem) -> list[str]:
    """Names of a problem's arrays that belong to a list: inputs[0], inputs[1] ..."""
    return [f"{param.name}[{k}]" for k in range(problem.scalars[param.length])]


def operands_of(row, problem) -> list[tuple[str, object]]:
    """Returns (name, parameter) of every array: operands first, then the entries of lists."""
    listed = [(name, p) for p in row.lists if p.name not in problem.null for name in entries_of(p, problem)]
    return [(p.name, p) for p in row.pointers] + listed


def scalar_arguments(library, op: str, problem) -> dict[str, object]:
    """The C values of all scalars and host arrays; lists of operands are NULL."""
    row, _ = OPS[op]
    values = {}
    for p in row.problem:
        if p.is_list:
            values[p.name] = library.ffi.NULL
        elif p.direction == "host":
            values[p.name] = host_array(library.ffi, p, problem.host[p.name])
        else:
            values[p.name] = problem.scalars[p.name]
    return values


def workspace_size(library, op: str, problem) -> int:
    """The bytes that `_workspace_size` returns; 0 for a row without one."""
    row, _ = OPS[op]
    if not row.workspace:
        return 0
    values = scalar_arguments(library, op, problem)
    return library.function(op, "workspace_size")(*[values[p.name] for p in row.size_params])


def workspaces(library, op: str, problem) -> tuple[str | None, ...]:
    """The workspaces that a problem runs with: None, "full"."""
    row, _ = OPS[op]
    needs = row.workspace.startswith("needed: ") and workspace_size(library, op, problem) > 0
    return ("full",) if needs else (None, "full") if row.workspace else (None,)


def can_implement(library, op: str, problem) -> tuple[int, str]:
    """Status and text; every data pointer is NULL, since they are ignored."""
    row, _ = OPS[op]
    values = scalar_arguments(library, op, problem)
    arguments = [library.ffi.NULL if p.is_pointer else values[p.name] for p in row.check_params]
    status = library.function(op, "can_implement")(*arguments)
    return status, last_error(library) if status else ""


def last_error(library) -> str:
    return library.ffi.string(library.lib.baracuda_kernels_last_error()).decode()


def is_seen(op: str, text: str) -> bool:
    """Whether a failure is about numbers that `_can_implement` takes: the text begins with one, and names no other."""
    row, _ = OPS[op]
    lists = {p.name for p in row.lists}  # `_can_implement` does not look at their entries
    seen = {p.name for p in row.check_params if not p.is_pointer and p.name not in lists}
    words = re.findall(r"[A-Za-z_]\w*", text.removeprefix(f"{op}: "))
    return words[0] in seen and not {p.name for p in row.problem} & {*words} - seen


class Launch:
    """An op with its arguments in guarded memory: `run()` enqueues it, `outcome()` checks the guards and reads outputs.

    offset     elements by which array k misses a 256-byte boundary: a number for all, or a function of k
    poison     byte in outputs and guards
    alias      output name -> name of the input whose array it uses
    null       names of arrays passed as NULL
    shift      name -> bytes by which its pointer is off
    workspace  bytes: None passes NULL and 0
    """

    def __init__(
        self, library, op, problem, *, offset=0, poison=NAN_POISON, alias=None, null=(), shift=None, workspace=None,
        workspace_offset=0, memory=None,
    ):  # fmt: skip
        self.library, self.op, self.problem = library, op, problem
        self.row, _ = OPS[op]
        self.memory = memory or memory_of(library.backend)
        alias, shift, null = alias or {}, shift or {}, {*null, *problem.null}
        self.buffers: dict[str, Guarded | None] = {}
        self._operands = operands_of(self.row, problem)
        self._written = {name for name, p in self._operands if p.is_output}
        self._written |= set(alias.values())
        self._lists = {p.name for p in self.row.lists} - null
        self._behind = {name: direction for source, (direction, name) in self.row.points.items() if source not in null}
        for k, (name, p) in enumerate(self._operands):
            array = problem.arrays[name]
            at = offset(k) if callable(offset) else offset
            if name in null:
                self.buffers[name] = None
            elif name not in alias:
                fill = poison if p.is_output or is_float(array.dtype) else INDEX_GUARD
                bits = None if array.values is None else array.bits()
                if p.is_addresses:
                    bits = self._upload_pointees(self.row.points[name][1], poison, at)
                self.buffers[name] = Guarded(
                    self.memory, array.dtype, array.shape, array.strides, bits, fill, at, shift.get(name, 0)
                )
        for name, source in alias.items():
            self.buffers[name] = self.buffers[source]
        self.workspace = None
        if workspace is not None:
            self.workspace = guarded_bytes(self.memory, workspace, offset=workspace_offset)
        self._scalars = scalar_arguments(library, op, problem)
        self.arguments = self._arguments()

    def _upload_pointees(self, name: str, poison: int, offset: int) -> np.ndarray:
        """Uploads an array that addresses point into, and replaces the indices of its first axis by addresses."""
        array, offset = self.problem.behind[name], 0 if self.problem.scalars.get("is_aligned") else offset
        bits = None if array.values is None else array.bits()
        own = Guarded(self.memory, array.dtype, array.shape, array.strides, bits, poison, offset)
        self.buffers[name] = own
        return own.pointer + own.step * np.arange(own.shape[0], dtype=np.int64)

    def _pointer(self, name: str):
        buffer = self.buffers[name]
        return self.library.ffi.NULL if buffer is None else self.library.ffi.cast("void*", buffer.pointer)

    def _arguments(self) -> list:
        ffi = self.library.ffi
        arguments = []
        for p in self.row.params:
            if p.is_pointer:
                arguments.append(self._pointer(p.name))
            elif p.name in self._lists:
                arguments.append(ffi.new("void*[]", [self._pointer(name) for name in entries_of(p, self.problem)]))
            else:
                arguments.append(self._scalars[p.name])
        if self.row.is_bare:
            return arguments
        if self.workspace is None:
            return [*arguments, ffi.NULL, 0]
        return [*arguments, ffi.cast("void*", self.workspace.pointer), self.workspace.shape[0]]

    @property
    def given(self) -> dict[str, Guarded]:
        """The buffers that are not NULL."""
        return {name: buffer for name, buffer in self.buffers.items() if buffer is not None}

    def run(self, stream: int = 0) -> int:
        handle = self.library.ffi.cast("void*", stream)
        return self.library.function(self.op)(*self.arguments, handle)

    def outcome(self, status: int) -> Outcome:
        text = last_error(self.library) if status else ""
        self.memory.synchronize()
        if self.workspace is not None:
            self.workspace.check("workspace", written=status == 0)
        bits, dtypes = {}, {}
        for name, p in self._operands:
            buffer = self.buffers[name]
            if buffer is None:
                continue
            buffer.check(f"{self.op}: {name}", written=status == 0 and name in self._written)
            if p.is_output:
                bits[name], dtypes[name] = buffer.bits(), self.problem.arrays[name].dtype
        for name, direction in self._behind.items():
            buffer, is_output = self.buffers[name], "out" in direction
            buffer.check(f"{self.op}: {name}", written=status == 0 and is_output)
            if is_output:
                bits[name], dtypes[name] = buffer.bits(), self.problem.behind[name].dtype
        return Outcome(status, text, bits, dtypes)


def launch(library, op, problem, *, workspace=None, **options) -> Outcome:
    """Runs once. workspace "full" gives the bytes that `_workspace_size` returns."""
    if workspace == "full":
        workspace = workspace_size(library, op, problem)
    prepared = Launch(library, op, problem, workspace=workspace, **options)
    return prepared.outcome(prepared.run())


def claims_determinism(library, op: str, workspace) -> bool:
    """Whether the op table promises it; the CPU library is always deterministic."""
    claim = OPS[op][0].deterministic
    return library.backend == "cpu" or claim == "yes" or (claim == "workspace" and workspace is not None)


__all__ = [
    "FINITE_POISON", "NAN_POISON", "OPS", "ROOT", "ROWS", "SANITIZED", "Launch", "Outcome", "can_implement",
    "claims_determinism", "is_seen", "last_error", "launch", "workspace_size", "workspaces",
]  # fmt: skip
