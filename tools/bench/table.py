"""The benchmark problems: those of the case table (tests/cases), with some variants, and what it takes to run one.

Variants: an op whose workspace only makes it faster is measured without one, too; where one row takes every index,
there is no bound. More ways to say a peer are in peers.py.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import pathlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import baracuda as bk
from baracuda import memory
from tools.bench.check import check
from tools.bench.data import Buffer, Data
from tools.bench.peers import peers

_TESTS = str(pathlib.Path(__file__).resolve().parents[2] / "tests")
if _TESTS not in sys.path:
    sys.path.insert(0, _TESTS)
CASES: dict[str, Any] = importlib.import_module("cases").CASES
_launch = importlib.import_module("harness.launch")


def op_of(row: str, dtype: str, index: str) -> str:
    """Name of a row's instance."""
    found = (
        op
        for op, (r, slots) in _launch.OPS.items()
        if r.name == row and (slots["T"], slots.get("I", "")) == (dtype, index)
    )
    return next(found)


def benches(backend: str, only: str) -> Iterator[tuple[str, Any]]:
    """(row of the op table, problem) for the problems of a backend whose name contains `only`."""
    for row, case in CASES.items():
        for bench in case.benches:
            if bench.backend == backend and only in bench.name:
                yield row, bench
                for variant in _variants(row, bench):
                    yield row, variant


def _variants(row: str, bench: Any) -> Iterator[Any]:
    if bench.workspace and _launch.ROWS[row].deterministic == "yes":
        yield dataclasses.replace(bench, name=f"{bench.name}, no workspace", workspace=False)
    if row.startswith("embedding_bag_backward") and "sum uniform" in bench.name:
        middle = bench.scalars["num_embeddings"] // 2
        indices = bench.arrays["indices"]
        hot = dataclasses.replace(indices, fill=lambda rng: np.full(indices.shape, middle))
        name = bench.name.replace("uniform", "one hot row")
        yield dataclasses.replace(bench, name=name, arrays=bench.arrays | {"indices": hot}, bounds=())


class Problem:
    """A problem in memory: our launch, and the arrays by parameter name.

    buffers   as our launch takes them
    indices   the index arrays on the host
    """

    def __init__(self, data: Data, row: str, bench: Any, dtype: str) -> None:
        self.data, self.row, self.bench = data, row, bench
        self.element = bk.dtypes.as_element(dtype)
        self.op = op_of(row, dtype, bench.index)
        self.indices: dict[str, np.ndarray[Any, Any]] = {}
        self.buffers = {name: self._make(name, array) for name, array in bench.arrays.items()}
        self.nbytes: int = bench.bytes(dtype, self.indices)
        size = _launch.workspace_size(data.library, self.op, bench) if bench.workspace else 0
        self.workspace = bk.empty(size, bk.u8, library=data.library) if size else None

    def _make(self, name: str, array: Any) -> Buffer:
        kind = {"T": self.element.token, "I": self.bench.index}.get(array.dtype, array.dtype)
        if callable(array.fill):
            rng = np.random.default_rng(20)
            self.indices[name] = np.asarray(array.fill(rng)).astype(bk.dtypes.as_element(kind).numpy_dtype)
            return self.data.index(self.indices[name], bk.dtypes.as_element(kind))
        make = self.data.normal if array.fill == "normal" else self.data.empty
        return make(array.shape, bk.dtypes.as_element(kind))

    def launch(self) -> Callable[[], None]:
        """Enqueues the op, arrays that must be zero zeroed before."""
        library, stream = self.data.library, self.data.stream
        scalars = _launch.scalar_arguments(library, self.op, self.bench)
        arguments = [
            self.buffers[p.name].view.pointer if p.is_pointer else scalars[p.name]
            for p in _launch.ROWS[self.row].params
        ]
        scratch = (self.workspace.pointer, self.workspace.nbytes) if self.workspace else (library.ffi.NULL, 0)
        call = functools.partial(library.function(self.op), *arguments, *scratch, library.ffi.cast("void *", stream))
        zeroed = [self.buffers[name].view for name in self.bench.zeroed]

        def run() -> None:
            for view in zeroed:
                memory.clear(view, stream=stream, library=library)
            if status := call():
                library.check(self.op, status)

        return run

    @property
    def dtype(self) -> str:
        return self.element.token

    def check(self) -> str:
        """What is wrong with the outputs; empty if nothing is."""
        return check(self)

    def peers(self, on_gpu: bool) -> list[tuple[str, Callable[[], Any]]]:
        return peers(self, on_gpu)

    @property
    def is_deterministic_with_workspace(self) -> bool:
        """Without one it adds in the output's dtype, by atomics."""
        return _launch.ROWS[self.row].deterministic == "workspace"

    @functools.cached_property
    def tensors(self) -> dict[str, Any]:
        """What torch gets: the same memory, index arrays as int64."""
        torch = self.data.torch
        return {n: b.torch.to(torch.int64) if n in self.indices else b.torch for n, b in self.buffers.items()}

    @property
    def arrays(self) -> dict[str, Any] | None:
        """What NumPy gets; None if it has no such dtype."""
        found = {name: buffer.numpy for name, buffer in self.buffers.items()}
        return None if any(array is None for array in found.values()) else found
