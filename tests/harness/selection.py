# SPDX-License-Identifier: Apache-2.0
"""Ops that stand for all: one of each row, those of some dtypes."""

from collections.abc import Collection

from baracuda._library.op_table import Op, ops


def of_other_dtypes(dtypes: set[str]) -> set[str]:
    """Ops whose dtype T is none of these, although their row has one of these."""
    return {op.name for op in ops().values() if dtypes & {*op.row.slots.get("T", ())} and op.slots["T"] not in dtypes}


def one_a_row(names: Collection[str], dtypes: Collection[str] = ()) -> set[str]:
    """The first op of each row in f32, or the first at all; and the first of each of dtypes."""
    chosen: dict[tuple[str, str | None], Op] = {}
    for op in ops().values():
        for key in {None, op.slots.get("T")} & {None, *dtypes} if op.name in names else ():
            if ranks(op) < ranks(chosen.setdefault((op.row.name, key), op)):
                chosen[op.row.name, key] = op
    return {op.name for op in chosen.values()}


def ranks(op: Op) -> int:
    return op.slots.get("T") != "f32"
