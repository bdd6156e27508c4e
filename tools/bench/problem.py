# SPDX-License-Identifier: Apache-2.0
"""A benchmark problem in memory: our launch and its peers."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

import baracuda as bk
from baracuda import memory
from tools.bench.data import Buffer, Data, bytes_view
from tools.bench.record import Bench, Call, TorchPeer
from tools.oracle.numerics import PACKED, itemsize

COMPILED = "torch.compile"  # what its peer is called
COMPILED_FAMILIES = ("softmax", "norm", "loss")


class Problem:
    """buffers   by parameter name, for our launch
    indices   the index arrays on the host
    errors    largest error of each comparison with float64 so far, relative to the largest value, in units of 2^-p,
              where the dtype has p fraction bits
    """

    def __init__(self, data: Data, bench: Bench, dtype: str) -> None:
        self.data, self.bench, self.dtype = data, bench, dtype
        self.entry = bench.op(dtype)
        self.op, self.row = self.entry.name, self.entry.row
        self.indices: dict[str, np.ndarray[Any, Any]] = {}
        self.errors: list[float] = []
        self.buffers = {name: self._make(name, slot) for slot, name in enumerate(bench.arrays)}
        width = itemsize(dtype) / (2 if dtype in PACKED else 1)
        self.nbytes: int = (
            bench.bytes(int(width), self.indices) if bench.bytes else sum(b.nbytes for b in self.buffers.values())
        )
        self.values = {p.name: self._value(p) for p in self.row.params}
        self.workspace: Any = None
        if bench.workspace and self.row.workspace:
            size = self._workspace_size()
            self.workspace = bk.empty(size, bk.u8, library=data.library) if size else None

    def _make(self, name: str, slot: int) -> Buffer:
        operand, dtype = self.bench.arrays[name], self.bench.dtype_of(name, self.dtype)
        if not callable(operand.fill):
            return self.data.make(operand, dtype, slot)
        self.indices[name] = np.asarray(operand.fill(np.random.default_rng(20)))
        return self.data.index(operand, dtype, self.indices[name])

    def _value(self, param: Any) -> Any:
        """The C value of a parameter: from the bench's scalars, or derived from the operands."""
        ffi, given = self.data.library.ffi, self.bench.scalars
        if param.is_pointer:
            buffer = self.buffers.get(param.name)
            return ffi.cast("void *", buffer.ptr) if buffer else ffi.NULL
        if param.is_list:
            return ffi.new(
                "void *[]", [ffi.cast("void *", self.buffers[name].ptr) for name in self._entries(param.name)]
            )
        if param.direction == "host":
            entries = given.get(param.name)
            if entries is None:
                entries = [step for name in self._entries(param.of) for step in self.bench.arrays[name].steps]
                entries = entries if param.of else self.shape
            return ffi.new("int64_t[]" if param.dtype == "i64" else "int32_t[]", [int(e) for e in entries])
        if param.name in given:
            return given[param.name]
        return self.bench.follows.get(param.name, param.default)

    def _entries(self, operand: str) -> list[str]:
        """Arrays of an operand: itself, or the entries of a list."""
        return [name for name in self.bench.arrays if name.partition("[")[0] == operand]

    @property
    def shape(self) -> tuple[int, ...]:
        return self.bench.shape

    def _workspace_size(self) -> int:
        call = self.data.library.function(self.op, "workspace_size")
        return int(call(*(self.values[p.name] for p in self.row.size_params)))

    def launch(self) -> Callable[[], None]:
        """Returns a call that clears the arrays that must be zero and enqueues the op."""
        library, stream = self.data.library, self.data.stream
        arguments = [self.values[p.name] for p in self.row.params]
        ffi = library.ffi
        scratch = (self.workspace.pointer, self.workspace.nbytes) if self.workspace else (ffi.NULL, 0)
        scratch = () if self.row.is_bare else scratch
        call = functools.partial(library.function(self.op), *arguments, *scratch, ffi.cast("void *", stream))
        zeroed = [bytes_view(self.buffers[name]) for name in self.bench.zeroed]

        def run() -> None:
            for view in zeroed:
                memory.clear(view, stream=stream, library=library)
            if status := call():
                library.check(self.op, status)

        return run

    def check(self) -> str:
        """Text that describes the first wrong output; empty if all are right."""
        return self.bench.check(self)

    def peers(self, on_gpu: bool) -> list[tuple[str, Call]]:
        """(name, call) of each peer, torch first; NumPy and torch's alternatives are only for the CPU."""
        bench, torch, named = self.bench, self.data.torch, []
        if torch is not None:
            for make in bench.torch[:1] if on_gpu else bench.torch:
                named.append(("torch", functools.partial(make, torch, self.tensors, bench.scalars)))
            if self.data.compiles and self.row.family in COMPILED_FAMILIES:
                make = functools.partial(_compiled, bench.torch[:1], torch, self.tensors, bench.scalars)
                named.append((COMPILED, make))
        arrays = {name: buffer.numpy for name, buffer in self.buffers.items()}
        if not on_gpu and all(array is not None for array in arrays.values()):
            named += [("NumPy", functools.partial(make, arrays, bench.scalars)) for make in bench.numpy]
        return [(name, call) for name, make in named for call in _made(make)]

    @functools.cached_property
    def tensors(self) -> dict[str, Any]:
        """Tensors for torch: the same memory, index arrays as int64."""
        torch = self.data.torch
        return {n: b.torch.to(torch.int64) if n in self.indices else b.torch for n, b in self.buffers.items()}


def _compiled(peers: Sequence[TorchPeer], torch: Any, tensors: dict[str, Any], scalars: Mapping[str, Any]) -> Call:
    """torch.compile of the first peer; it compiles at its first call."""
    if not peers:
        raise NotImplementedError("PyTorch has no such function")
    return torch.compile(peers[0](torch, tensors, scalars), dynamic=False)


def _made(make: Callable[[], Call]) -> list[Call]:
    """The peer, or None if it raises: some lack a dtype."""
    try:
        call = make()
        call()
    except (RuntimeError, NotImplementedError, TypeError, AttributeError):
        return []
    return [call]
