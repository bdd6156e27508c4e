# SPDX-License-Identifier: Apache-2.0
"""Parameters, gradients and states of optimisers that copies of a model divide among them (ZeRO, Rajbhandari et al.
2020).

Parameters come in units, such as the layers of a model. A unit is one flat buffer, padded so that the ranks divide it,
and the parameters are views of it; each rank owns an equal range. The optimiser sees the fragments of parameters in
this range.

    stage  values    gradients  after the backward of a unit     after a step
    0      all       all        all-reduce                       nothing
    1      all       all        reduce-scatter                   all-gather
    2      all       own range  reduce-scatter, added to it      all-gather
    3      own range own range  reduce-scatter, added to it      nothing; `open` gathers a unit before it is used

Units are the buckets of gradients: the exchange of one runs beside the backward of the next, on a stream of its own. In
stages 2 and 3 two buffers, by the parity of the unit's number, hold what is whole for a while; `kept` units have their
own.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from baracuda import functions, memory
from baracuda._library.loader import Library
from baracuda.distributed.communicator import Communicator
from baracuda.distributed.streams import Side
from baracuda.dtypes import ElementKind
from baracuda.tensor import TensorRef

_ALIGNMENT = 64  # elements, of parameters in a unit and of ranges


@dataclasses.dataclass(frozen=True)
class Fragment:
    """Elements [start, stop) of the flattened parameter `name`, which this rank updates."""

    name: str
    start: int
    stop: int
    value: TensorRef
    gradient: TensorRef


class _Unit:
    """Offsets of the parameters of a unit, and its buffers."""

    def __init__(self, shapes: Mapping[str, tuple[int, ...]], size: int) -> None:
        self.shapes, self.offsets, at = dict(shapes), {}, 0
        for name, shape in self.shapes.items():
            self.offsets[name] = at
            at += -(-math.prod(shape) // _ALIGNMENT) * _ALIGNMENT
        self.share = -(-at // (size * _ALIGNMENT)) * _ALIGNMENT
        self.count = self.share * size
        self.values: TensorRef  # all of them
        self.own_values: TensorRef
        self.gradients: TensorRef
        self.own_gradients: TensorRef
        self.event: Any = None  # of the exchange that reads `gradients`

    def views(self, flat: TensorRef) -> dict[str, TensorRef]:
        return {
            name: flat[self.offsets[name] : self.offsets[name] + math.prod(shape)].reshape(*shape)
            for name, shape in self.shapes.items()
        }


class ShardedParameters:
    def __init__(
        self, comm: Communicator, units: Sequence[Mapping[str, tuple[int, ...]]], dtype: ElementKind, library: Library,
        *, stage: int = 0, kept: Sequence[int] = (0,),
    ) -> None:  # fmt: skip
        self.comm, self.dtype, self.library, self.stage = comm, dtype, library, stage
        self.units = [_Unit(shapes, comm.size) for shapes in units]
        self.unit_of = {name: number for number, unit in enumerate(self.units) for name in unit.shapes}
        self.side = Side(comm)
        self.values: dict[str, TensorRef] = {}
        self.gradients: dict[str, TensorRef] = {}
        self._open: dict[int, int] = {}  # address of a shared buffer -> the unit that it holds
        shared: dict[Any, TensorRef] = {}

        def zeros(count: int) -> TensorRef:
            return memory.zeros((count,), dtype, library=library)

        for number, unit in enumerate(self.units):
            own = slice(unit.share * comm.rank, unit.share * (comm.rank + 1))
            key = number if number in kept else (unit.count, number % 2)

            def whole(what: str, key: Any = key, count: int = unit.count) -> TensorRef:
                return shared.setdefault((what, key), zeros(count)) if (what, key) not in shared else shared[what, key]

            unit.values = whole("values") if stage == 3 else zeros(unit.count)
            unit.gradients = whole("gradients") if stage >= 2 else zeros(unit.count)
            unit.own_values = zeros(unit.share) if stage == 3 else unit.values[own]
            unit.own_gradients = zeros(unit.share) if stage >= 2 else unit.gradients[own]
            self.values |= unit.views(unit.values)
            self.gradients |= unit.views(unit.gradients)
        self._received = {unit.share: zeros(unit.share) for unit in self.units} if stage >= 2 else {}

    # --- a pass ---

    def start(self) -> None:
        """A pass begins: values may have changed since the last one."""
        self._open.clear()

    def open(self, number: int) -> None:
        """Have the values of a unit where `values` views them."""
        unit = self.units[number]
        if self.stage < 3 or self._open.get(unit.values.ptr) == number:
            return
        self._open[unit.values.ptr] = number
        self.comm.all_gather(unit.own_values, counts=[unit.share] * self.comm.size, out=unit.values)

    def open_gradients(self, number: int) -> None:
        """Have zeros, or what is there already, where `gradients` views those of a unit."""
        unit = self.units[number]
        if self.stage < 2:
            return
        for other in self.units:
            if other.gradients.ptr == unit.gradients.ptr and other.event is not None:
                self.side.wait(other.event, unit.gradients)
                other.event = None
        functions.fill(unit.gradients, 0.0, out=unit.gradients)

    def close_gradients(self, number: int, *, is_first: bool = True, is_last: bool = True) -> None:
        """The gradients of a unit are complete: their mean over the ranks goes to the owners. Before the last batch of
        a step stages 0 and 1 only add up; in the first one stages 2 and 3 need not add.
        """
        unit = self.units[number]
        if self.stage < 2 and (self.comm.size == 1 or not is_last):
            return

        def exchange(stream: int | None) -> None:
            if self.stage == 0:
                self.comm.all_reduce(unit.gradients, "avg", out=unit.gradients, stream=stream)
            elif self.stage == 1 or is_first:
                self.comm.reduce_scatter(unit.gradients, "avg", out=unit.own_gradients, stream=stream)
            else:
                received = self._received[unit.share]
                self.comm.reduce_scatter(unit.gradients, "avg", out=received, stream=stream)
                with self.side.functions_of(stream):
                    functions.add(unit.own_gradients, received, out=unit.own_gradients)

        unit.event = self.side.run(exchange, unit.gradients)

    def finish(self) -> None:
        """All exchanges of gradients are done, for what is enqueued after this."""
        self.side.finish(self.units[0].gradients)
        for unit in self.units:
            unit.event = None

    # --- a step of the optimiser ---

    def fragments(self) -> list[Fragment]:
        """The elements that this rank updates: in stage 0 every parameter, else its range of each unit."""
        found = []
        for unit in self.units:
            begin = 0 if self.stage == 0 else unit.share * self.comm.rank
            end = unit.count if self.stage == 0 else begin + unit.share
            for name, shape in unit.shapes.items():
                offset, count = unit.offsets[name], math.prod(shape)
                first, last = max(offset, begin), min(offset + count, end)
                if first < last:
                    flat = (unit.values, unit.gradients) if self.stage == 0 else (unit.own_values, unit.own_gradients)
                    views = [each[first - begin : last - begin] for each in flat]
                    found.append(Fragment(name, first - offset, last - offset, *views))
        return found

    def updated(self) -> None:
        """Sends the new values to all ranks after a step, and clears the gradients of the others' ranges."""
        for unit in self.units:
            if self.stage in (1, 2) and self.comm.size > 1:
                self.comm.all_gather(unit.own_values, counts=[unit.share] * self.comm.size, out=unit.values)
            if self.stage == 1:
                functions.fill(unit.gradients, 0.0, out=unit.gradients)
        self._open.clear()

    # --- from and to the host ---

    def write(self, name: str, array: np.ndarray[Any, Any]) -> None:
        """Set a parameter, from the same array on all ranks."""
        unit = self.units[self.unit_of[name]]
        if self.stage < 3:
            memory.upload(array, out=self.values[name], library=self.library)
            return
        begin, offset = unit.share * self.comm.rank, unit.offsets[name]
        flat = np.ascontiguousarray(array).reshape(-1)
        first, last = max(offset, begin), min(offset + len(flat), begin + unit.share)
        if first < last:
            own = unit.own_values[first - begin : last - begin]
            memory.upload(flat[first - offset : last - offset], out=own, library=self.library)
        self._open.clear()

    def read(self, name: str) -> np.ndarray[Any, Any]:
        """A whole parameter; every rank calls it."""
        self.open(self.unit_of[name])
        return memory.download(self.values[name], library=self.library)
