"""What a benchmark problem is: one record for every family. problem.py makes it of memory, problems/ lists them."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from baracuda._optable import Op, Row, ops, rows

Call = Callable[[], Any]
# (torch, tensors by parameter name, scalars) -> what is timed. Index tensors come as int64; torch is imported elsewhere
TorchPeer = Callable[[Any, dict[str, Any], Mapping[str, Any]], Call]
# (arrays by parameter name, scalars) -> what is timed
NumPyPeer = Callable[[dict[str, Any], Mapping[str, Any]], Call]
Fill = Callable[[np.random.Generator], np.ndarray[Any, Any]]


@dataclasses.dataclass(frozen=True)
class Operand:
    """An array that the op takes; its dtype is the table's.

    shape    extents that the op sees
    fill     a key of data.FILLS, a number that all elements are, "empty" for an output, or a function rng -> integers,
             for indices and offsets
    strides  in elements; None is row-major
    offset   of the first element in the memory
    """

    shape: tuple[int, ...]
    fill: str | float | Fill = "empty"
    strides: tuple[int, ...] | None = None
    offset: int = 0

    @property
    def steps(self) -> tuple[int, ...]:
        """Strides as they are, in elements."""
        if self.strides is not None:
            return self.strides
        return tuple(math.prod(self.shape[d + 1 :]) for d in range(len(self.shape)))

    @property
    def cells(self) -> int:
        """Elements in memory: a broadcast axis counts once."""
        return math.prod(e for e, s in zip(self.shape, self.steps) if s)

    @property
    def reach(self) -> int:
        """Elements up to the last one."""
        return self.offset + 1 + sum((e - 1) * s for e, s in zip(self.shape, self.steps)) if self.cells else 0


@dataclasses.dataclass(frozen=True)
class Bound:
    """What a benchmark must reach (issue table "Speed").

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

    name       unique with the dtype; what the table prints
    row        its name in the op table; function, index, offset and other are the choices of {F}, {I}, {O} and {U}
    dtypes     T to time
    arrays     parameter name -> Operand
    scalars    of the parameters that do not follow from the operands, by name; host arrays too
    bytes      (bytes of an element of T, index arrays as filled) -> the fewest that the op must move: each input read
               once, each output written once. By default the memory of the operands
    torch, numpy   what users of these write, of which the fastest counts on the CPU, and the first of torch on a GPU
    check      problem -> what is wrong with the outputs, empty if nothing is
    workspace  time with a workspace of `_workspace_size` bytes (else NULL)
    zeroed     arrays that must be zeroed within the timed region, on both sides
    bounds     what it must reach
    brief      one of hundreds: a sixth of the time for it
    flops      multiplications and additions of a product; 0 for what arithmetic does not bound
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

    def op(self, dtype: str) -> Op:
        slots = {"T": dtype, "U": self.other, "I": self.index, "O": self.offset}
        return _by_choice()[self.row, self.function, tuple(slots[s] for s in row_named(self.row).slots)]

    def dtype_of(self, parameter: str, dtype: str) -> str:
        """Of an operand, or of an entry of a list, inputs[0]."""
        (found,) = (p for p in row_named(self.row).params if p.name == parameter.partition("[")[0])
        return found.dtype_of({"T": dtype, "U": self.other, "I": self.index, "O": self.offset})


@functools.cache
def _by_choice() -> dict[tuple[str, str, tuple[str, ...]], Op]:
    return {(op.row.name, op.function, op.dtypes): op for op in ops().values()}


@functools.cache
def _by_name() -> dict[str, Row]:
    return {row.name: row for row in rows()}


def row_named(name: str) -> Row:
    return _by_name()[name]
