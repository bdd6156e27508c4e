# SPDX-License-Identifier: Apache-2.0
"""Shape rule of mixtures of experts: the extents of each operand are numbers of the row by their names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from baracuda._call.scalars import INT32_MAX, as_integer, exceeds
from baracuda._functions.shape_rules.call_meta import CallMeta, Shape, if_contiguous
from baracuda._functions.spec import Spec
from baracuda.errors import InvalidProblemError


def by_extents(spec: Spec, shapes: Mapping[str, Shape], numbers: Mapping[str, Any]) -> CallMeta:
    """Extents come from arrays, also from those that C does not read, and from numbers; pairs are (token, slot) pairs,
    and a row of offsets has one more than the experts.
    """
    words = {p.name: p.shape.split(", ") for p in spec.row.params if p.is_pointer}
    values: dict[str, Any] = {}
    for argument in spec.arrays:
        if argument.name in shapes:
            own = words[argument.pointer] if argument.pointer else spec.extents[argument.name].split(", ")
            _read(argument.name, shapes[argument.name], own, values)
    known = {word for own in words.values() for word in own}
    for p in spec.row.params:
        if p.role == "parameter" and p.name in numbers and p.name in known:
            values[p.name] = as_integer(p.name, numbers[p.name], 0, INT32_MAX)
    values["pairs"] = values.get("tokens", 0) * values.get("top_k", 0)
    values["offset_count"] = values.get("experts", 0) + 1
    for name, value in values.items():
        if exceeds(INT32_MAX, value):
            raise InvalidProblemError(f"{name} is {value}, must be <= {INT32_MAX}")
    extents = {name: tuple([values.get(word, 0) for word in own]) for name, own in words.items()}
    scalars = {p.name: values[p.name] for p in spec.row.params if not p.is_pointer and p.name in values}
    return CallMeta(
        scalars, extents, {out.pointer: extents[out.pointer] for out in spec.outputs},
        op_views=dict.fromkeys(words, if_contiguous),
    )  # fmt: skip


def _read(name: str, have: Shape, words: list[str], values: dict[str, Any]) -> None:
    """Takes the extents of an array, which must be those of earlier ones."""
    wanted = [values.get(word) for word in words]
    if len(have) != len(words) or any(w is not None and w != h for w, h in zip(wanted, have)):
        shown = ", ".join(word if w is None else f"{word} = {w}" for word, w in zip(words, wanted))
        raise InvalidProblemError(f"{name} has shape {have}, expected ({shown})")
    values |= dict(zip(words, have))
