# SPDX-License-Identifier: Apache-2.0
"""Makes a plan's Args class from its rows in the op table, and its Descriptor if its module has none."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from baracuda._call.c_call import field_of
from baracuda._library.op_table import Op, rows
from baracuda._library.param import Param
from baracuda.operands import Args, Viewable

if TYPE_CHECKING:
    from baracuda.descriptor import Descriptor
    from baracuda.plan import Plan

_POSITIONS = ("given", "optional", "last")


def descriptor_of(plan: type[Plan]) -> type[Descriptor]:
    """XDescriptor of XPlan: the class of that name in its module, or else a new subclass of `plan.descriptor_base`,
    which is put there.
    """
    module, name = sys.modules[plan.__module__], f"{plan.__name__.removesuffix('Plan')}Descriptor"
    if not hasattr(module, name):
        base = plan.descriptor_base
        # The docstring is inherited, unless dataclasses has made it of the name and the fields.
        doc = None if str(base.__doc__).startswith(f"{base.__name__}(") else base.__doc__
        made = type(name, (base,), {"__module__": plan.__module__, "__doc__": doc})
        setattr(module, name, dataclasses.dataclass(frozen=True)(made))
    found: type[Descriptor] = getattr(module, name)
    return found


def args_of(plan: type[Plan]) -> type[Args]:
    """XArgs of XPlan. Fields are in C's order; operands that may be NULL or that some ops lack come last and are None
    by default. `plan.fields` has the exceptions.
    """
    ops = _ops_of(plan)
    operands = [_operands(plan, op) for op in ops]
    lists = {param.name: param for op in ops for param in op.row.lists}
    order = _merge_orders(operands)
    may_lack = {name for name in order if not all(each.get(name) for each in operands)}
    given, optional, last = ({name for name in order if plan.fields.get(name) == how} for how in _POSITIONS)
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
    """Rows by names with a function but without dtypes: "unary_gelu_{T}"."""
    found: dict[str, list[Op]] = {}
    for row in rows():
        for function in row.functions or ("",):
            name = row.pattern.replace("{F}", function)
            found.setdefault(name, []).append(Op(name, row, function, ()))
    return found


def _ops_of(plan: type[Plan]) -> list[Op]:
    """The ops of every kind that the plan serves."""
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
    """Field of each operand of an op, in C's order -> whether every launch needs it."""
    needed = op.row.needed(op.function)
    return {
        param.name if param.is_list else field_of(plan, op, param.name): param.is_list or needed.get(param, ()) is None
        for param in op.row.params
        if param.is_list or param.is_pointer
    }


def _merge_orders(orders: Sequence[Iterable[str]]) -> list[str]:
    """All names in one order: a name that only one order has comes before its successor there."""
    merged = list(orders[0])
    for order in map(list, orders[1:]):
        for position, name in enumerate(order):
            if name not in merged:
                successor = next((other for other in order[position:] if other in merged), None)
                merged.insert(len(merged) if successor is None else merged.index(successor), name)
    return merged


def _annotation(listed: Param | None, may_lack: bool) -> Any:
    if listed is not None:
        return Sequence[Viewable | None] if listed.direction.endswith("?") else Sequence[Viewable]
    return Viewable | None if may_lack else Viewable


def _doc(plan: type[Plan], ops: Sequence[Op]) -> str | None:
    """The plan's docstring, and notes on outputs that accumulate."""
    own = inspect.cleandoc(plan.__dict__.get("__doc__") or "")
    added = dict.fromkeys(f"{field_of(plan, op, out)} is added to" for op in ops for out in op.row.accumulates.split())
    notes = [f"{note}: clear it first to have the sums alone." for note in added if note not in own]
    return "\n\n".join(filter(None, (own, *notes))) or None
