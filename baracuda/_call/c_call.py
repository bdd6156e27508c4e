# SPDX-License-Identifier: Apache-2.0
"""The C calls of a plan: the ops that can serve it, and the source of each of their arguments.

All of it follows from the rows of the op table. An operand is the field of Args with its C name. A number is the field
or property of the descriptor with its C name, else a parameter of the function, from the descriptor's `params` or the
row's default. `Plan.names` lists names that differ from C's.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from baracuda._call import domains
from baracuda._call.scalars import INT32_MAX, as_integer, as_real
from baracuda._library.op_table import Op, ops
from baracuda._library.param import SUFFIXES, Param
from baracuda.dtypes import ElementKind
from baracuda.errors import InvalidProblemError, UnsupportedError
from baracuda.operands import Operand, Views, entries_of, list_of

if TYPE_CHECKING:
    from baracuda.plan import Plan

Strides = Mapping[str, tuple[int, ...]]
_BY_SYMBOL = {kind.symbol: kind for kind in ElementKind if kind is not ElementKind.F32_STRICT}
_MISSING = object()
OF_BYTES = ("image", "quantize")  # families whose u8 operands are bytes


@functools.cache
def op_names(patterns: tuple[str, ...], kind: str, element: str, output: str) -> tuple[str, ...]:
    """Names of the ops for these dtypes: one for each combination of index and offset dtypes, in the row's order:
    results of a function have the first index dtype unless an array decides."""
    known = _positions()
    choices = [dict(zip(SUFFIXES, each)) for each in itertools.product(*[each.values() for each in SUFFIXES.values()])]
    names = [p.format(T=element, U=output, kind=kind, **each) for p in patterns for each in choices]
    found = dict.fromkeys(name for name in names if name in known)
    return tuple(sorted(found, key=lambda name: known[name]) if len(patterns) == 1 else found)


@functools.cache
def _positions() -> dict[str, int]:
    """The ops with their positions in the tables."""
    return {name: position for position, name in enumerate(ops())}


class Form:
    """One op that can serve plans of a type, and its `_strided` variant, if any."""

    def __init__(self, plan_type: type[Plan], op: Op) -> None:
        has_strides = any(param.role in ("stride", "pitch") for param in op.row.params)
        self.op, self.row = op, op.row
        self.strided: Op | None = op if has_strides else ops().get(f"{op.name}_strided")
        self.names = {p.name: field_of(plan_type, op, p.name) for p in op.row.params if p.is_pointer}
        self.pointers = {self.names[param.name]: param for param in op.row.params if param.is_pointer}
        self.lists = {param.name: param for param in op.row.lists}
        alike = all(param.shape in ("numel", "shape") for param in op.row.params if param.is_pointer)
        self.sums_broadcast = bool(
            self.strided and self.strided.row.workspace and op.row.params[0].name == "numel" and alike
        )
        kinds = _dtypes_of_width if plan_type.by_width else _dtypes
        self._dtypes = {name: kinds(op, param) for name, param in (self.pointers | self.lists).items()}
        outputs = [name for name, pointer in self.pointers.items() if pointer.is_output]
        optional = [name for name in outputs if not self.pointers[name].is_required]
        self._gradients = optional if optional == outputs else []
        self._reads = op.row.reads.get(op.function)

    def kinds(self, name: str) -> tuple[ElementKind, ...]:
        """The dtypes that a view may have for an operand."""
        return self._dtypes.get(list_of(name), ())

    def parameter(self, name: str) -> Param | None:
        """The C parameter of an operand; None if the op does not take it."""
        return self.pointers.get(name) or self.lists.get(list_of(name))

    def is_strided(self, pointer: Param) -> bool:
        """Whether C takes strides of an operand. Strides without `of` are shared by operands of reduced rank."""
        strides = [p for p in self.strided.row.params if p.role in ("stride", "pitch")] if self.strided else []
        return any(p.of == pointer.name or (not p.of and " 1 along " in pointer.shape) for p in strides)

    def takes(self, views: Views) -> bool:
        """Whether the views have the right dtypes, and none that C needs is None."""
        return self.fits(views) and not self.absent(views)

    def fits(self, views: Views) -> bool:
        return all(
            [view is None or view.dtype in self.kinds(name) for name, view in views.items() if self.parameter(name)]
        )

    def check(self, views: Views, plan: Plan) -> None:
        """Raise if an operand that C needs is None, or a gradient is given that it does not compute."""
        for name in self.absent(views):
            raise InvalidProblemError(f"{name} is None, but {plan.name} needs it")
        if self._gradients and all([views[name] is None for name in self._gradients]):
            which = "both" if len(self._gradients) == 2 else "all"
            raise InvalidProblemError(f"{' and '.join(self._gradients)} are {which} None")
        for operand in plan.operands:
            if operand.output and views[operand.name] is not None and not self.parameter(operand.name):
                raise InvalidProblemError(f"{operand.name} is given, but {plan.name} has no such gradient")

    def absent(self, views: Views) -> list[str]:
        """The operands that C needs and that are None."""
        taken = [(name, param) for name in views if (param := self.parameter(name))]
        absent = [name for name, param in taken if views[name] is None and not param.direction.endswith("?")]
        if not absent or self._reads is None:
            return absent
        outputs = [self.names[output] for output in self._reads]
        wanted = [output for output in self._reads if views[self.names[output]] is not None]
        read = {self.names[name] for output in wanted for name in self._reads[output]}
        first = next(name for name in self.pointers if name not in outputs)  # also passed for missing inputs
        return [name for name in absent if name in outputs or name == first or name in read]


@functools.cache
def forms_of(plan_type: type[Plan], names: tuple[str, ...]) -> tuple[Form, ...]:
    return tuple(Form(plan_type, ops()[name]) for name in names)


class Call:
    """One C function of a form, and the sources of its arguments."""

    __slots__ = ("_plan", "_sources", "op")

    def __init__(self, plan: Plan, op: Op) -> None:
        self.op, self._plan = op, plan
        self._sources = [_source(plan, op, param) for param in op.row.params]

    def arguments(self, views: Views, strides: Strides) -> tuple[Any, ...]:
        """C arguments up to the workspace. `strides` are those of all operands, broadcast to their extents."""
        ffi, plan, arguments = self._plan.library.ffi, self._plan, []
        for role, value in self._sources:
            if role == "operand":
                view = views[value]
                arguments.append(ffi.NULL if view is None else view.pointer)
            elif role == "list":
                each = [views[name] for name in value]
                arguments.append(ffi.new("void *[]", [ffi.NULL if v is None else v.pointer for v in each] or 1))
            elif role == "strides":
                arguments.append(ffi.new("int64_t[]", [step for name in value for step in strides[name]] or 1))
            elif role == "stride":
                arguments.append(ffi.new("int64_t[]", plan.layout(value, strides[value]) or (0,)))
            elif role == "offset":
                arguments.append(plan.offset(strides[value]))
            elif role == "step":
                name, operand = value
                arguments.append(plan.step(name, strides[operand]))
            else:
                arguments.append(value)
        return tuple(arguments)


def operands_of(plan: Plan, forms: Sequence[Form]) -> tuple[Operand, ...]:
    """An operand for each field of the plan's Args and each entry of a list, with the dtypes of all forms."""
    fields = tuple(plan.args_type.__dataclass_fields__)
    names = [name for field in fields for name in _entries(plan, forms[0], field)]
    return tuple([_operand(plan, forms, name, fields) for name in names])


def _entries(plan: Plan, form: Form, field: str) -> tuple[str, ...]:
    found = form.lists.get(field)
    return (field,) if found is None else entries_of(field, getattr(plan.descriptor, found.length))


def _operand(plan: Plan, forms: Sequence[Form], name: str, fields: Sequence[str]) -> Operand:
    form = next((form for form in forms if form.parameter(name)), None)
    if form is None:  # the op lacks it: an input is checked like the first one, a gradient is refused
        is_gradient = name.startswith("d") and name[1:] in fields
        return _operand(plan, forms, fields[0], fields)._replace(name=name, output=is_gradient)
    pointer, kinds = form.parameter(name), form.kinds(name)
    assert pointer is not None
    if len(forms) > 1:
        kinds = tuple(dict.fromkeys(kind for form in forms for kind in form.kinds(name)))
    extents, label = plan.entry_extents(name) if pointer.is_list else _extents(plan, name, pointer.shape)
    output, strided = pointer.is_output, form.is_strided(pointer)
    exact = getattr(plan.descriptor, f"{name[1:] if output else name}_shape", None) if label == "shape" else None
    may_be = tuple([form.names[other] for other in form.row.in_place.get(pointer.name, ())])
    return Operand(
        name, extents, label, kinds, output, strided, strided and (form.sums_broadcast or not output), exact, may_be
    )


def _extents(plan: Plan, name: str, expression: str) -> tuple[tuple[int, ...], str]:
    """Extents of an operand, and their name in messages. In C, contiguous operands have a number of elements only."""
    whole = plan.shapes.get(name) or (
        "shape" if expression.split()[0] == "numel" else plan.names.get(expression, expression)
    )
    if "," not in whole and isinstance(extents := getattr(plan.descriptor, whole, None), tuple):
        return extents, whole
    words = [plan.names.get(word, word) for word in re.sub(r" (by|at) stride_\w+| by \w+", "", expression).split(", ")]
    label = f"({', '.join(words)}{',' if len(words) == 1 else ''})"
    return tuple([int(word) if word.isdigit() else getattr(plan.descriptor, word) for word in words]), label


def field_of(plan_type: type[Plan], op: Op, pointer: str) -> str:
    """Name in Args of the operand `pointer` of C."""
    if pointer == "saved":
        return op.row.saves[op.function]
    return plan_type.names.get(f"{op.row.pattern}: {pointer}") or plan_type.names.get(pointer, pointer)


def _dtypes(op: Op, param: Param) -> tuple[ElementKind, ...]:
    """dtypes of a parameter; u8 that is not the element type is a condition or a flag, and may be bool, unless the
    family has bytes.
    """
    if param.dtype in op.row.slots:
        return (_BY_SYMBOL[op.dtypes[list(op.row.slots).index(param.dtype)]],)
    if param.dtype == "u8":
        return (ElementKind.U8,) if op.row.family in OF_BYTES else (ElementKind.BOOL, ElementKind.U8)
    return (_BY_SYMBOL[param.dtype_of(op.slots)],)


def _dtypes_of_width(op: Op, param: Param) -> tuple[ElementKind, ...]:
    """All dtypes of the width in the op's name; operands of i64 are taken as such."""
    if param.dtype == "i64":
        return (ElementKind.I64,)
    width = re.search(r"_(?:nibble|b?(\d+))", op.name)  # contiguize_b4, fftshift_nd_4
    bits = 8 * int(width[1]) if width and width[1] else 4
    return tuple([kind for kind in _BY_SYMBOL.values() if kind.bits == bits])


def _source(plan: Plan, op: Op, param: Param) -> tuple[str, Any]:
    """Role of a C parameter, and its value or its operand."""
    if (param.role == "pitch" and param.of) or (param.role == "stride" and not param.direction):
        return "step", (param.name, field_of(type(plan), op, param.of))
    listed = next((each for each in op.row.lists if each.name in (param.name, param.of)), None)
    if listed is not None and param.role in ("operand", "stride"):
        names = entries_of(listed.name, getattr(plan.descriptor, listed.length))
        return "list" if param.is_list else "strides", names
    if param.role in ("operand", "stride", "offset"):
        return param.role, field_of(type(plan), op, param.of or param.name)
    value = _number(plan, param)
    if value is _MISSING:
        value = plan.parameters[param.name]
    return "number", _host_array(plan, param, value) if param.direction == "host" else value


def _number(plan: Plan, param: Param) -> Any:
    if param.name in plan.numbers:
        return plan.numbers[param.name]
    return getattr(plan.descriptor, plan.names.get(param.name, param.name), _MISSING)


def _host_array(plan: Plan, param: Param, extents: tuple[int, ...]) -> Any:
    """A C array of extents, not NULL for rank 0."""
    if any([extent > INT32_MAX for extent in extents]):
        raise UnsupportedError(
            f"shape is {extents}; axes of more than {INT32_MAX} elements are served only where all operands are "
            f"contiguous and none is broadcast"
        )
    return plan.library.ffi.new(f"int{param.dtype[1:]}_t[]", extents or (0,))


def check_numbers(plan: Plan, op: Op) -> None:
    """InvalidProblemError for a number of the function outside of its domain."""
    values = {p.name: _number(plan, p) for p in op.row.params if p.role == "parameter"} | dict(plan.parameters)
    domains.check(op.row, op.function, values, plan.names)


def parameters_of(plan: Plan, op: Op) -> dict[str, float | int]:
    """Parameters of the function that the descriptor has no fields for, by their C names."""
    wanted = [param for param in op.row.params if param.role == "parameter" and _number(plan, param) is _MISSING]
    given = getattr(plan.descriptor, "params", None)
    if given is None:
        return {param.name: _default(op, param) for param in wanted}
    names = ", ".join(param.name for param in wanted)
    if len(given) < len(wanted) or len(given) > max(2, len(wanted)) or any(given[len(wanted) :]):
        count = f"{len(wanted)} number{'s' if len(wanted) > 1 else ''} ({names})"
        hint = "; a second one must be 0" if len(wanted) == 1 else ""
        raise InvalidProblemError(f"params is {given}, must be {count}{hint}")
    return {p.name: _parameter(f"params[{i}]", value, p.dtype) for i, (value, p) in enumerate(zip(given, wanted))}


def _default(op: Op, param: Param) -> float | int:
    default = op.row.defaults.get(op.function, {}).get(param.name, param.default)
    if default is None:
        raise InvalidProblemError(f"{op.name} needs {param.name}")
    return default


def _parameter(name: str, value: float | int, dtype: str) -> float | int:
    if dtype != "i64":
        return as_real(name, value)
    integral = isinstance(value, float) and value.is_integer()
    return as_integer(name, int(value) if integral else value)
