"""What plans of pointwise ops share.

Contiguous views take the plain symbol, all others the `_strided` one. C arguments are found by the names that the op
table has for the symbol: a plan says what an argument is, the table where it goes.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Any, ClassVar

from baracuda._optable import Param, Row, ops
from baracuda._scalars import INT32_MAX, as_integer, as_real
from baracuda.descriptor import product
from baracuda.dtypes import ElementKind
from baracuda.errors import InvalidProblemError, UnsupportedError
from baracuda.operands import Operand, Views
from baracuda.plan import Plan

CONDITION = (ElementKind.BOOL, ElementKind.U8)  # what C takes as u8
# Scalars of C functions that describe operands; the others are parameters of the op.
_STRUCTURE = {
    "numel", "rank", "output_numel", "split_dim", "x_half_offset", "dx_half_offset", "channel_stride", "channel_extent",
    "scalar_weight",
}  # fmt: skip


def source(name: str, *, broadcast: bool = True, optional: bool = False, **options: Any) -> Operand:
    """An input of descriptor.shape."""
    return Operand(name, "shape", strided=True, broadcast=broadcast, optional=optional, **options)


def result(name: str, *may_be: str, **options: Any) -> Operand:
    """An output of descriptor.shape."""
    return Operand(name, "shape", strided=True, output=True, may_be=may_be, **options)


def gradient(name: str, *may_be: str) -> Operand:
    """An output that is optional, and summed along the axes where its extent is 1 and the shape's is not."""
    return Operand(name, "shape", strided=True, output=True, optional=True, broadcast=True, may_be=may_be)


class PointwisePlan(Plan):
    """A plan whose operands have the shape `descriptor.shape`, or broadcast to it."""

    __slots__ = ("_op", "_pointers", "parameters")

    elsewhere: ClassVar[Mapping[IntEnum, str]] = {}  # kinds that another plan serves, and its name

    parameters: tuple[Any, ...]  # scalars of the op itself, in C's order

    @property
    def kind(self) -> IntEnum:
        return self.descriptor.kind

    # --- what a family may override ---------------------------------------------------------------------------------

    def choose_parameters(self, wanted: Sequence[Param]) -> tuple[Any, ...]:
        """Values of the op's parameters."""
        return ()

    def operand_of(self, pointer: str, views: Views) -> str:
        """Name of the operand that C knows as `pointer`."""
        return pointer

    def structure(self, strides: Mapping[str, tuple[int, ...]]) -> dict[str, Any]:
        """C arguments, by name, that describe the operands, but for their strides."""
        shape = self.descriptor.shape
        return {"numel": product("shape", shape), "rank": len(shape)}

    # --- what follows -----------------------------------------------------------------------------------------------

    def prepare(self, row: Row) -> None:
        self._op = ops()[self._format(self.descriptor.element.symbol, "")]
        self._pointers = tuple(param for param in row.params if param.is_pointer)
        wanted = _parameters_of(row)
        self.parameters = self.choose_parameters(wanted)
        if len(self.parameters) != len(wanted):
            names = ", ".join(param.name for param in wanted)
            raise InvalidProblemError(f"{self.name} takes {len(wanted)} parameters ({names}), not {self.parameters}")

    def variant(self, views: Views) -> str:
        shape = self.descriptor.shape
        used = [views[self.operand_of(pointer.name, views)] for pointer in self._pointers]
        return "" if all([view is None or (view.is_dense and view.shape == shape) for view in used]) else "_strided"

    def check(self, views: Views) -> None:
        """What C reads is there, what it writes is wanted."""
        names = {pointer: self.operand_of(pointer.name, views) for pointer in self._pointers}
        unread = self._unread(names, views)
        for pointer, name in names.items():
            if views[name] is None and not pointer.direction.endswith("?") and pointer.name not in unread:
                raise InvalidProblemError(f"{name} is None, but {self.name} needs it")
        gradients = [name for pointer, name in names.items() if pointer.direction == "out?"]
        if gradients and all([views[name] is None for name in gradients]):
            raise InvalidProblemError(f"{' and '.join(gradients)} are {'both' if len(gradients) == 2 else 'all'} None")
        for operand in self.operands:
            if operand.output and views[operand.name] is not None and operand.name not in names.values():
                raise InvalidProblemError(f"{operand.name} is given, but {self.name} has no such gradient")

    def _unread(self, names: Mapping[Param, str], views: Views) -> set[str]:
        """The pointers that no wanted output reads, by the op table."""
        reads = self._op.row.reads.get(self._op.function)
        if reads is None:
            return set()
        inputs = [pointer.name for pointer in self._pointers if pointer.name not in reads]
        wanted = [pointer.name for pointer, name in names.items() if pointer.name in reads and views[name] is not None]
        return set(inputs[1:]).difference(*[reads[output] for output in wanted])  # the first one stands in for them

    def may_coincide(self, output: str, other: str, views: Views) -> bool:
        if not super().may_coincide(output, other, views):
            return False
        view = views[output]
        if view is not None and view.shape != self.descriptor.shape:
            raise InvalidProblemError(f"{output} overlaps {other}, but is a sum over broadcast axes")
        return True

    def arguments(self, row: Row, views: Views, strides: Mapping[str, tuple[int, ...]]) -> tuple[Any, ...]:
        values = self.structure(strides)
        values.update(zip([param.name for param in _parameters_of(row)], self.parameters))
        return tuple([self._argument(param, values, views, strides) for param in row.params])

    def _argument(self, param: Param, values: Mapping[str, Any], views: Views, strides: Mapping[str, Any]) -> Any:
        if param.is_pointer:
            view = views[self.operand_of(param.name, views)]
            return self.library.ffi.NULL if view is None else view.pointer
        if param.name in values:
            return values[param.name]
        if param.name == "shape":
            return self._axes()
        return self.int64_array(strides[self.operand_of(param.name.removeprefix("stride_"), views)])

    def _axes(self) -> Any:
        """C's `shape`, whose extents have 32 bits; contiguous operands are described by their number of elements."""
        shape = self.descriptor.shape
        if any([extent > INT32_MAX for extent in shape]):
            raise UnsupportedError(
                f"shape is {shape}; axes of more than {INT32_MAX} elements are served only where all operands are "
                f"contiguous and none is broadcast"
            )
        return self.int32_array(shape)

    def _row(self) -> Row:
        kind = getattr(self.descriptor, "kind", None)
        if kind in self.elsewhere:
            raise UnsupportedError(f"{kind.name} is served by {self.elsewhere[kind]}, not by {type(self).__name__}")
        return super()._row()


class ParamPlan(PointwisePlan):
    """A plan whose descriptor has `params`."""

    __slots__ = ()

    def choose_parameters(self, wanted: Sequence[Param]) -> tuple[Any, ...]:
        given = self.descriptor.params
        extra = given[len(wanted) :]
        if len(given) < len(wanted) or len(given) > max(2, len(wanted)) or any(extra):
            count = f"{len(wanted)} number{'s' if len(wanted) > 1 else ''} ({', '.join(p.name for p in wanted)})"
            hint = "; a second one must be 0" if len(wanted) == 1 else ""
            raise InvalidProblemError(f"params is {given}, must be {count}{hint}")
        return tuple([_parameter(f"params[{i}]", value, p.dtype) for i, (value, p) in enumerate(zip(given, wanted))])


@functools.cache
def _parameters_of(row: Row) -> tuple[Param, ...]:
    return tuple(param for param in row.params if not param.direction and param.name not in _STRUCTURE)


def _parameter(name: str, value: float | int, dtype: str) -> float | int:
    if dtype != "i64":
        return as_real(name, value)
    integral = isinstance(value, float) and value.is_integer()
    return as_integer(name, int(value) if integral else value)
