# SPDX-License-Identifier: Apache-2.0
"""The op table: which C functions exist, their parameters in order, and what they promise.

`baracuda/_oplist.py` holds one entry for each row; the ops, one for each choice of function and dtypes, are expanded at
the first look-up.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from .param import SUFFIXES, Param


class Index(NamedTuple):
    """The range of an index operand: [0, extent), and the value `other`."""

    extent: str  # a parameter, "whole - part" of two, or "whole - part along axis" of two host arrays and a parameter
    may_equal: bool  # whether the extent itself is valid
    is_sorted: bool
    other: str  # a parameter, a negative number, or ""

    def end(self, numbers: Mapping[str, Any]) -> int:
        """The exclusive upper bound, from C's scalars and host arrays."""
        name, _, rest = self.extent.partition(" - ")
        if not rest:
            return int(numbers[name]) + self.may_equal
        part, _, axis = rest.partition(" along ")
        if not axis:
            return int(numbers[name]) - int(numbers[part]) + self.may_equal
        along = numbers[axis]
        return int(numbers[name][along]) - int(numbers[part][along]) + self.may_equal

    def other_value(self, numbers: Mapping[str, Any]) -> int | None:
        """The value of `other`, from C's scalars; None if there is none."""
        if not self.other:
            return None
        return int(self.other) if self.other.startswith("-") else int(numbers[self.other])


class CallArgument(NamedTuple):
    """An argument of a function on arrays: an operand or number of C, or one that only the shape rule reads."""

    name: str
    source: str  # C's name, or ""
    extents: str  # named extents of an array that C does not read
    default: tuple[Any, ...]  # () for none
    by_keyword: bool


class CallRow(NamedTuple):
    """A function on arrays declared by a row; without arguments and results, another row declares its signature."""

    name: str  # with {F} in it
    arguments: tuple[CallArgument, ...]
    fixed: tuple[tuple[str, str], ...]  # C's numbers that are constant (digits) or equal to another one
    results: tuple[tuple[str, str], ...]  # names, C's names


@dataclasses.dataclass(frozen=True, eq=False)
class Row:
    """A family of ops that differ only in function ({F}) and dtypes ({T}, {U}, {I}, {O})."""

    name: str
    family: str
    functions: Mapping[str, str]  # values of {F}, and what each computes
    slots: Mapping[str, tuple[str, ...]]  # dtypes of {T}, {U}, {I}, {O}, in the order of the table
    parameters: tuple[tuple[Any, ...], ...]  # the fields of each Param
    check: tuple[str, ...]  # names of can_implement's parameters; empty: all
    sized: tuple[str, ...]  # names of workspace_size's; empty: all but operands
    reads: Mapping[str, Mapping[str, tuple[str, ...]]]  # function -> output -> inputs but the first; absent: all
    workspace: str  # its purpose; empty: none
    deterministic: str  # yes, no, or "workspace": only with one
    batch_invariant: str  # yes, no, or "preference": only if asked for
    doc: str
    saves: Mapping[str, str]  # function -> the forward's operand that `saved` is, x or y; empty without a `saved`
    defaults: Mapping[str, Mapping[str, float | int]]  # function ("" without {F}) -> parameter -> its default
    in_place: Mapping[str, tuple[str, ...]]  # output -> the inputs that it may alias, with equal strides
    accumulates: str  # the outputs that the op adds to, separated by spaces; others are overwritten
    leaves: Mapping[str, str]  # outputs written in part -> the output that counts their rows, or ""
    is_bare: bool  # `_run` takes no workspace
    # (gradient function, ((its number, "" or "-" or "inverse", our number), ...)) for that of `calls`; or empty
    gradient: tuple[Any, ...]
    points: Mapping[str, tuple[str, str]]  # operand of addresses -> (in, out or inout, name of what they point to)
    about: str  # the function on arrays, if `doc` is about C only: a first line, then text
    indexes: Mapping[str, Index]  # the operands that are indices
    calls: tuple[CallRow, ...]  # declared functions on arrays

    @property
    def pattern(self) -> str:
        """Name template of the ops."""
        return self.name.split()[0]

    @functools.cached_property
    def params(self) -> tuple[Param, ...]:
        """Parameters of `_run` up to the workspace, in order."""
        return tuple(Param(*fields) for fields in self.parameters)

    @functools.cached_property
    def pointers(self) -> tuple[Param, ...]:
        """Operands, in order."""
        return tuple(param for param in self.params if param.is_pointer)

    @functools.cached_property
    def lists(self) -> tuple[Param, ...]:
        """Host arrays of pointers to operands."""
        return tuple(param for param in self.params if param.is_list)

    @property
    def first_input(self) -> Param:
        """The operand that is read for every output."""
        return next(param for param in self.pointers if not param.is_output)

    @functools.cached_property
    def problem(self) -> tuple[Param, ...]:
        """All parameters but operands."""
        return tuple(param for param in self.params if not param.is_pointer)

    @functools.cached_property
    def size_params(self) -> tuple[Param, ...]:
        """Parameters of workspace_size."""
        return tuple(param for param in self.problem if not self.sized or param.name in self.sized)

    @functools.cached_property
    def check_params(self) -> tuple[Param, ...]:
        """Parameters of can_implement."""
        by_name = {param.name: param for param in self.params}
        return tuple(by_name[name] for name in self.check) or self.params

    def needed(self, function: str) -> dict[Param, tuple[Param, ...] | None]:
        """Required pointers -> None (always), or the outputs for which they are required."""
        reads = self.reads.get(function)
        outputs = [param for param in self.pointers if param.is_output]
        found: dict[Param, tuple[Param, ...] | None] = {}
        for param in self.pointers:
            if not param.is_required:
                continue
            readers = None
            if reads is not None and not param.is_output and param != self.first_input:
                readers = tuple(out for out in outputs if param.name in reads[out.name])
            if readers is None or any(out.is_required for out in readers):
                found[param] = None
            elif readers:
                found[param] = readers
        return found

    def check_arguments(self, call: Sequence[Any]) -> tuple[Any, ...]:
        """The arguments of `_run` that can_implement takes."""
        if not self.check:
            return tuple(call)
        given = {param.name: value for param, value in zip(self.params, call)}
        return tuple(given[name] for name in self.check)

    def problem_arguments(self, call: Sequence[Any]) -> tuple[Any, ...]:
        """The arguments of `_run` that workspace_size takes."""
        return tuple(value for param, value in zip(self.params, call) if param in self.size_params)


class Op(NamedTuple):
    """One op, e.g. "unary_gelu_f32"."""

    name: str
    row: Row
    function: str  # value of {F}, or ""
    dtypes: tuple[str, ...]  # values of the row's slots

    @property
    def slots(self) -> dict[str, str]:
        """The values by slot: F, T, U, I, O."""
        return {**({"F": self.function} if self.function else {}), **dict(zip(self.row.slots, self.dtypes))}


def _ops(row: Row) -> list[Op]:
    pattern, result = row.pattern, []
    for dtypes in itertools.product(*row.slots.values()):
        named = pattern
        for slot, dtype in zip(row.slots, dtypes):
            named = named.replace(f"{{{slot}}}", SUFFIXES[slot][dtype] if slot in SUFFIXES else dtype)
        result += [Op(named.replace("{F}", function), row, function, dtypes) for function in row.functions or ("",)]
    return result


@functools.cache
def rows() -> tuple[Row, ...]:
    """All rows, in the order of the header."""
    from baracuda._oplist import ROWS

    return tuple(_row(*entry) for entry in ROWS)


def _row(*entry: Any) -> Row:
    *fields, indexes, calls = entry
    facts = {name: Index(*fact) for name, fact in indexes.items()}
    declared = tuple(
        CallRow(name, tuple(CallArgument(*a) for a in arguments), fixed, results)
        for name, arguments, fixed, results in calls
    )
    values = (*fields, facts, declared)
    return Row(*values)


@functools.cache
def ops() -> dict[str, Op]:
    """All ops by name, e.g. "alibi_f32"."""
    return {op.name: op for row in rows() for op in _ops(row)}
