# SPDX-License-Identifier: Apache-2.0
"""Shape rule of attention and sampling: the extents of each operand are numbers of the row by their names."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from baracuda._call.scalars import INT32_MAX, as_integer, as_real, exceeds
from baracuda._functions.shape_rules.call_meta import CallMeta, Shape, if_contiguous
from baracuda._functions.spec import Spec
from baracuda.errors import InvalidProblemError
from baracuda.tensor import TensorRef

_AXES = {"b": 0, "h": 1, "s": 2}  # letters of scalars such as stride_k_s


def by_extents(spec: Spec, shapes: Mapping[str, Shape], numbers: Mapping[str, Any]) -> CallMeta:
    """A row of offsets has one more than the batch; scale is 1 / sqrt(d_k) if it is None. Extents may be literals,
    and those of absent operands alone are 0.
    """
    words = {p.name: p.shape.partition(" at ")[0].split(", ") for p in spec.row.params if p.is_pointer}
    literals = {word: int(word) for each in words.values() for word in each if word.isdigit()}
    values: dict[str, Any] = dict(literals)
    for argument in spec.arrays:
        if argument.name in shapes:
            _read(argument.name, shapes[argument.name], words[argument.pointer], values)
    if values.get("positions", values.get("drafted", 0) + 1) != values.get("drafted", 0) + 1:
        raise InvalidProblemError(
            f"target_probs has {values['positions']} positions, must have one more than drafted, {values['drafted']}"
        )
    values["offset_count"] = values.get("batch", 0) + 1
    for name, value in values.items():
        if exceeds(INT32_MAX, value):
            raise InvalidProblemError(f"{name} is {value}, must be <= {INT32_MAX}")
    for p in spec.row.params:
        if p.role == "parameter" and p.name in numbers and any(p.name in each for each in words.values()):
            values[p.name] = as_integer(p.name, numbers[p.name], 0, INT32_MAX)
    for p in spec.row.params:  # those of absent operands alone
        if p.role == "extent" and any(p.name in each for each in words.values()):
            values.setdefault(p.name, 0)
    extents = {name: tuple([values[word] for word in each]) for name, each in words.items()}
    for name in ("offset_count", *literals):
        del values[name]
    values |= {name: float(text) if "." in text else int(text) for name, text in spec.fixed.items()}
    if "scale" in numbers:
        scale = numbers["scale"]
        values["scale"] = 1 / math.sqrt(max(values["d_k"], 1)) if scale is None else as_real("scale", scale)
    strides = [p.name for p in spec.row.params if p.role == "stride"]
    strided = {p.of for p in spec.row.params if p.role == "stride"}
    views = {name: _with_elements_adjacent if name in strided else if_contiguous for name in words}
    return CallMeta(
        values, extents, {out.pointer: extents[out.pointer] for out in spec.outputs}, op_views=views,
        stride_axes={name: _AXES[name[-1]] for name in strides},
    )  # fmt: skip


def _read(name: str, have: Shape, words: list[str], values: dict[str, Any]) -> None:
    """Takes the extents of an array, which must be those of earlier ones."""
    wanted = [
        values["batch"] + 1 if word == "offset_count" and "batch" in values else values.get(word) for word in words
    ]
    if len(have) != len(words) or any(w is not None and w != h for w, h in zip(wanted, have)):
        shown = ", ".join(word if w is None else f"{word} = {w}" for word, w in zip(words, wanted))
        raise InvalidProblemError(f"{name} has shape {have}, expected ({shown})")
    for word, extent in zip(words, have):
        if word == "offset_count" and not extent:
            raise InvalidProblemError(f"{name} has shape {have}, must have an element more than the batch")
        if word == "offset_count":
            values["batch"] = extent - 1
        else:
            values[word] = extent


def _with_elements_adjacent(view: TensorRef) -> TensorRef | None:
    return view if not view.strides or view.strides[-1] == 1 or view.shape[-1] <= 1 else None
