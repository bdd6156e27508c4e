# SPDX-License-Identifier: Apache-2.0
"""Shape rule of recurrent layers: the extents of each operand are numbers of the row by their names."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from baracuda._call.scalars import INT32_MAX, as_real, exceeds
from baracuda._functions.recurrent_calls import GATES
from baracuda._functions.shape_rules.call_meta import CallMeta, Shape, if_contiguous, member
from baracuda._functions.spec import Spec
from baracuda.errors import InvalidProblemError
from baracuda.kinds import CellKind

# Extents of absent operands alone: of gates the width 1, of everything else nothing.
_ABSENT = {"gate_width": 1}


def by_extents(spec: Spec, shapes: Mapping[str, Shape], numbers: Mapping[str, Any]) -> CallMeta:
    """cu_seqlens has an element more than there are sequences; without it sequences are entries of the batch. scale is
    1 / sqrt(d_k) if it is None.
    """
    words = {p.name: p.shape.split(", ") for p in spec.row.params if p.is_pointer}
    values: dict[str, Any] = {}
    for argument in spec.arrays:
        if argument.name in shapes:
            _read(argument.name, shapes[argument.name], words[argument.pointer], values)
    if "boundaries" in values and values["boundaries"] < 1:
        raise InvalidProblemError(f"cu_seqlens has shape {shapes['cu_seqlens']}, must have one element or more")
    sequences = values["boundaries"] - 1 if "boundaries" in values else values.get("batch", 0)
    if values.setdefault("sequences", sequences) != sequences:
        raise InvalidProblemError(f"states are of {values['sequences']} sequences, expected {sequences}")
    values["boundaries"] = sequences + 1
    if "gate_rows" in values:
        _read_cell(member(CellKind, "cell", numbers["cell"]), values)
    for name, value in values.items():
        if exceeds(INT32_MAX, value):
            raise InvalidProblemError(f"{name} is {value}, must be <= {INT32_MAX}")
    for each in words.values():
        for word in each:
            values.setdefault(word, _ABSENT.get(word, 0))
    extents = {name: tuple([values[word] for word in each]) for name, each in words.items()}
    scalars = {p.name: values[p.name] for p in spec.row.params if not p.is_pointer and p.name in values}
    if "scale" in numbers:
        scale = numbers["scale"]
        scalars["scale"] = 1 / math.sqrt(max(values["d_k"], 1)) if scale is None else as_real("scale", scale)
    return CallMeta(
        scalars, extents, {out.pointer: extents[out.pointer] for out in spec.outputs},
        op_views=dict.fromkeys(words, if_contiguous),
    )  # fmt: skip


def _read_cell(cell: CellKind, values: dict[str, Any]) -> None:
    """The extents that follow from the cell: hidden units, and those of c and of saved values."""
    gates = GATES[cell.name.lower()]
    rows = values["gate_rows"]
    if rows % gates:
        raise InvalidProblemError(f"gates have {rows} rows, must be a multiple of {gates} for {cell.name.lower()}")
    found = {
        "hidden": rows // gates, "saved_rows": (gates + (gates > 1)) * (rows // gates),
        "cell_rows": rows // gates if cell is CellKind.LSTM else 0,
    }  # fmt: skip
    for name, value in found.items():
        if values.setdefault(name, value) != value:
            raise InvalidProblemError(f"{name} is {values[name]}, expected {value} for {rows} rows of gates")


def _read(name: str, have: Shape, words: list[str], values: dict[str, Any]) -> None:
    """Takes the extents of an array, which must be those of earlier ones."""
    wanted = [values.get(word) for word in words]
    if len(have) != len(words) or any(w is not None and w != h for w, h in zip(wanted, have)):
        shown = ", ".join(word if w is None else f"{word} = {w}" for word, w in zip(words, wanted))
        raise InvalidProblemError(f"{name} has shape {have}, expected ({shown})")
    values |= dict(zip(words, have))
