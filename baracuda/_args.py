"""The classes that a plan takes: its Args, with a field for each operand of the rows that its ops have in the table,
and its Descriptor where none is written.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from baracuda._calls import field_of
from baracuda._optable import Op, Param, rows
from baracuda.operands import Args, Viewable

if TYPE_CHECKING:
    from baracuda.descriptor import Descriptor
    from baracuda.plan import Plan

_PLACES = ("given", "optional", "last")


def descriptor_of(plan: type[Plan]) -> type[Descriptor]:
    """XDescriptor of XPlan: what its module has by that name, or else a class put there, with the fields and properties
    of `plan.descriptor_base`, which it derives from.
    """
    module, name = sys.modules[plan.__module__], f"{plan.__name__.removesuffix('Plan')}Descriptor"
    if not hasattr(module, name):
        base = plan.descriptor_base
        # A docstring holds for both; where there is none dataclasses make one of the name and the fields.
        doc = None if str(base.__doc__).startswith(f"{base.__name__}(") else base.__doc__
        made = type(name, (base,), {"__module__": plan.__module__, "__doc__": doc})
        setattr(module, name, dataclasses.dataclass(frozen=True)(made))
    return getattr(module, name)


def args_of(plan: type[Plan]) -> type[Args]:
    """XArgs of XPlan. Fields stand as the operands do in C; what C may lack, and what not every op has, stands behind
    them and is None by default. `plan.fields` says what is different.
    """
    ops = _ops_of(plan)
    operands = [_operands(plan, op) for op in ops]
    lists = {param.name: param for op in ops for param in op.row.lists}
    order = _merged(operands)
    may_lack = {name for name in order if not all(each.get(name) for each in operands)}
    given, optional, last = ({name for name in order if plan.fields.get(name) == how} for how in _PLACES)
    defaults = (may_lack | optional) - given
    order.sort(key=lambda name: (name in defaults, name in last))
    body = {
        **dict.fromkeys(defaults), "lists": tuple(lists), "__module__": plan.__module__, "__doc__": _doc(plan, ops),
        "__annotations__": {name: _annotation(lists.get(name), name in may_lack | optional) for name in order},
    }  # fmt: skip
    made = type(f"{plan.__name__.removesuffix('Plan')}Args", (Args,), body)
    return dataclasses.dataclass(frozen=True, slots=True, eq=False)(made)


@functools.cache
def _by_name() -> dict[str, list[Op]]:
    """Rows by names in which the function is chosen and no dtype is: "unary_gelu_{T}"."""
    found: dict[str, list[Op]] = {}
    for row in rows():
        for function in row.functions or ("",):
            name = row.pattern.replace("{F}", function)
            found.setdefault(name, []).append(Op(name, row, function, ()))
    return found


def _ops_of(plan: type[Plan]) -> list[Op]:
    """Of every kind that the plan serves."""
    fields = dataclasses.fields(plan.descriptor_type)
    kinds = next((f.metadata["enumeration"] for f in fields if "enumeration" in f.metadata), (None,))
    spelled = [plan._spelled(kind) for kind in kinds if kind not in plan.elsewhere]
    patterns = plan.rows or (plan.op, *plan.others)
    names = dict.fromkeys(pattern.replace("{kind}", kind) for pattern in patterns for kind in spelled)
    found = [op for name in names for op in _by_name().get(name, ())]
    if not found:
        raise TypeError(f"{plan.__name__}: the op table has no row {' or '.join(patterns)}")
    return found


def _operands(plan: type[Plan], op: Op) -> dict[str, bool]:
    """The fields of an op's operands, in C's order, and whether each launch has them."""
    needed = op.row.needed(op.function)
    return {
        param.name if param.is_list else field_of(plan, op, param.name): param.is_list or needed.get(param, ()) is None
        for param in op.row.params
        if param.is_list or param.is_pointer
    }


def _merged(orders: Sequence[Iterable[str]]) -> list[str]:
    """All names: what one order alone has stands before what follows it there."""
    merged = list(orders[0])
    for order in map(list, orders[1:]):
        for place, name in enumerate(order):
            if name not in merged:
                behind = next((other for other in order[place:] if other in merged), None)
                merged.insert(len(merged) if behind is None else merged.index(behind), name)
    return merged


def _annotation(listed: Param | None, may_lack: bool) -> Any:
    if listed is not None:
        return Sequence[Viewable | None] if listed.direction.endswith("?") else Sequence[Viewable]
    return Viewable | None if may_lack else Viewable


def _doc(plan: type[Plan], ops: Sequence[Op]) -> str | None:
    """What the plan says, and what is added to."""
    own = inspect.cleandoc(plan.__dict__.get("__doc__") or "")
    added = dict.fromkeys(f"{field_of(plan, op, op.row.accumulates)} is added to" for op in ops if op.row.accumulates)
    notes = [f"{note}: clear it first to have the sums alone." for note in added if note not in own]
    return "\n\n".join(filter(None, (own, *notes))) or None
