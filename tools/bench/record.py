# SPDX-License-Identifier: Apache-2.0
"""The record of a benchmark problem, for every family. problem.py allocates it, problems/ lists them."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from baracuda._library.op_table import Op, Row, ops, rows

Call = Callable[[], Any]
# (torch, tensors by parameter name, scalars) -> timed call. Index tensors are int64; torch is imported elsewhere
TorchPeer = Callable[[Any, dict[str, Any], Mapping[str, Any]], Call]
# (arrays by parameter name, scalars) -> timed call
NumPyPeer = Callable[[dict[str, Any], Mapping[str, Any]], Call]
Fill = Callable[[np.random.Generator], np.ndarray[Any, Any]]


@dataclasses.dataclass(frozen=True)
class Operand:
    """An array argument; its dtype is the table's.

    shape    extents of the op's view
    fill     a key of data.FILLS, a number for all elements, "empty" for an output, or a function rng -> integers, for
             indices and offsets
    strides  in elements; None is row-major
    offset   of the first element in the memory
    """

    shape: tuple[int, ...]
    fill: str | float | Fill = "empty"
    strides: tuple[int, ...] | None = None
    offset: int = 0

    @property
    def steps(self) -> tuple[int, ...]:
        """Strides in elements, row-major by default."""
        if self.strides is not None:
            return self.strides
        return tuple(math.prod(self.shape[d + 1 :]) for d in range(len(self.shape)))

    @property
    def cells(self) -> int:
        """Elements in memory: a broadcast axis counts once."""
        return math.prod(e for e, s in zip(self.shape, self.steps) if s)

    @property
    def reach(self) -> int:
        """Elements from the first to the last address, inclusive."""
        return self.offset + 1 + sum((e - 1) * s for e, s in zip(self.shape, self.steps)) if self.cells else 0


@dataclasses.dataclass(frozen=True)
class Bound:
    """A bound that a benchmark must reach.

    kind    "copy": fewest bytes / time >= value * bandwidth of a device copy in the same run;
            "peer": peer time / own time >= value;
            "times": own time <= value * time of the benchmark named `other`
    dtypes  for which it holds; empty means all of the benchmark's
    """

    kind: str
    value: float
    other: str = ""
    dtypes: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Bench:
    """One benchmark problem of a row.

    name       printed in the table; unique together with the dtype
    row        its name in the op table; function, index, offset and other are the choices of {F}, {I}, {O} and {U}
    dtypes     T to time
    arrays     parameter name -> Operand
    scalars    of the parameters that do not follow from the operands, by name; host arrays too
    bytes      (bytes of an element of T, index arrays) -> the least traffic: inputs read once, outputs written
               once. By default the memory of the operands
    torch, numpy   calls that users write; on the CPU the fastest counts, on a GPU the first of torch
    check      problem -> text that describes a wrong output; empty if all are right
    workspace  time with a workspace of `_workspace_size` bytes (else NULL)
    zeroed     arrays that are zeroed within the timed region, ours and the peer's
    bounds     bounds that it must reach
    brief      gets a sixth of the time: one of hundreds of alike problems
    flops      multiplications and additions of a matrix product; 0 for problems that arithmetic does not bound
    """

    name: str
    row: str
    dtypes: tuple[str, ...]
    arrays: Mapping[str, Operand]
    check: Callable[[Any], str]
    scalars: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    function: str = ""
    index: str = ""
    offset: str = "i32"
    other: str = ""
    bytes: Callable[[int, dict[str, np.ndarray[Any, Any]]], int] | None = None
    torch: tuple[TorchPeer, ...] = ()
    numpy: tuple[NumPyPeer, ...] = ()
    workspace: bool = False
    zeroed: tuple[str, ...] = ()
    bounds: tuple[Bound, ...] = ()
    brief: bool = False
    flops: int = 0

    @property
    def also_without(self) -> bool:
        """Whether it is measured without a workspace, too: one that only makes the op faster."""
        row = row_named(self.row)
        return self.workspace and row.deterministic == "yes" and not row.workspace.startswith("needed: ")

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the last operand."""
        return next(reversed(self.arrays.values())).shape

    @property
    def follows(self) -> dict[str, int]:
        """Scalars that follow from the operands: their extents in the table, numel and rank."""
        extents: dict[str, int] = {}
        for p in row_named(self.row).pointers:
            shape = self.arrays[p.name].shape if p.name in self.arrays else ()
            names = p.shape.partition(" at ")[0].split(", ")
            if len(names) == len(shape):
                extents |= {name: extent for name, extent in zip(names, shape) if name != "shape"}
        return extents | {"numel": math.prod(self.shape), "rank": len(self.shape)}

    def op(self, dtype: str) -> Op:
        slots = {"T": dtype, "U": self.other, "I": self.index, "O": self.offset}
        return _by_choice()[self.row, self.function, tuple(slots[s] for s in row_named(self.row).slots)]

    def dtype_of(self, parameter: str, dtype: str) -> str:
        """Dtype of an operand, or of an entry of a list, inputs[0]."""
        (found,) = (p for p in row_named(self.row).params if p.name == parameter.partition("[")[0])
        return found.dtype_of({"T": dtype, "U": self.other, "I": self.index, "O": self.offset})


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sweep:
    """One op along one of its extents, for `--sweep` (sweep.py).

    name    the op and its fixed extents
    axis    the varying extent: M, N, K, rows, row length, batch, rank, elements
    points  extent -> the problem at it, ascending
    level   every point moves about the same number of bytes: its time is compared with points on both sides
    """

    name: str
    axis: str
    points: Mapping[int, Bench]
    level: bool = False

    @property
    def family(self) -> str:
        return row_named(next(iter(self.points.values())).row).family

    @property
    def dtypes(self) -> tuple[str, ...]:
        return next(iter(self.points.values())).dtypes


# Extents of sweeps: powers of two, powers of two +-1, and odd ones; the benchmark proper covers few of them.
FEW_ROWS = (1, 2, 3, 4, 5, 7, 8, 9, 12, 16, 17, 24, 32, 33, 48, 63, 64, 65, 96, 128, 129, 192, 256, 384, 512)
SIDES = (4, 8, 16, 17, 32, 33, 48, 64, 65, 96, 128, 192, 256, 512, 1024, 2048)
LENGTHS = (4, 8, 16, 17, 32, 63, 64, 65, 100, 128, 256, 500, 512, 1000, 1024, 2048, 4096, 4097, 8192, 16384, 32768,
           65536)  # fmt: skip
# Extents of a dimension that others multiply: few points
EXTENTS = (16, 64, 65, 100, 256, 512, 1000, 1024, 2048, 4096, 8192)
SIZES = (1, 16, 100, 256, 1000, 1024, 4096, 10_000, 16384, 65536, 100_000, 2**18, 2**20, 2**20 + 1, 2**22, 2**24, 2**26)
COUNTS = (1, 2, 3, 8, 15, 16, 17, 64, 128, 132, 133, 264, 1024, 4096)


@functools.cache
def _by_choice() -> dict[tuple[str, str, tuple[str, ...]], Op]:
    return {(op.row.name, op.function, op.dtypes): op for op in ops().values()}


@functools.cache
def _by_name() -> dict[str, Row]:
    return {row.name: row for row in rows()}


def row_named(name: str) -> Row:
    return _by_name()[name]
