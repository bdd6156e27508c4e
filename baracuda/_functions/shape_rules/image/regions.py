# SPDX-License-Identifier: Apache-2.0
"""Shape rule of pooling over regions: the extents of each operand are numbers of the row by their names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from baracuda._call.scalars import INT32_MAX, as_integer, as_integers, exceeds
from baracuda._functions.shape_rules.call_meta import CallMeta, Shape, if_contiguous
from baracuda._functions.spec import Spec
from baracuda.errors import InvalidProblemError


def by_extents(spec: Spec, shapes: Mapping[str, Shape], numbers: Mapping[str, Any]) -> CallMeta:
    """Extents come from arrays, also from those that C does not read, and from output_size, a number or a pair."""
    words = {p.name: p.shape.split(", ") for p in spec.row.params if p.is_pointer}
    values: dict[str, Any] = {}
    if "output_size" in numbers:
        values["pooled_h"], values["pooled_w"] = size_of("output_size", numbers["output_size"])
    for argument in spec.arrays:
        if argument.name in shapes:
            own = words[argument.pointer] if argument.pointer else spec.extents[argument.name].split(", ")
            _read(argument.name, shapes[argument.name], own, values)
    for name, value in values.items():
        if exceeds(INT32_MAX, value):
            raise InvalidProblemError(f"{name} is {value}, must be <= {INT32_MAX}")
    extents = {name: tuple([int(word) if word.isdigit() else values[word] for word in own])
               for name, own in words.items()}  # fmt: skip
    return CallMeta(
        values, extents, {out.pointer: extents[out.pointer] for out in spec.outputs},
        op_views=dict.fromkeys(words, if_contiguous),
    )  # fmt: skip


def size_of(name: str, value: object) -> tuple[int, int]:
    """(height, width), from a pair or one number for both."""
    if not isinstance(value, (tuple, list)):
        side = as_integer(name, value, 0, INT32_MAX)
        return side, side
    pair = as_integers(name, value, 0, INT32_MAX)
    if len(pair) != 2:
        raise InvalidProblemError(f"{name} is {value!r}, must be one number or (height, width)")
    return pair[0], pair[1]


def _read(name: str, have: Shape, words: list[str], values: dict[str, Any]) -> None:
    """Takes the extents of an array, which must be those of earlier ones."""
    wanted = [int(word) if word.isdigit() else values.get(word) for word in words]
    if len(have) != len(words) or any(w is not None and w != h for w, h in zip(wanted, have)):
        shown = ", ".join(word if w is None or word.isdigit() else f"{word} = {w}" for word, w in zip(words, wanted))
        raise InvalidProblemError(f"{name} has shape {have}, expected ({shown})")
    values |= {word: extent for word, extent in zip(words, have) if not word.isdigit()}
