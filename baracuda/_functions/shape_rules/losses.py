# SPDX-License-Identifier: Apache-2.0
"""Shape rules of losses: a loss for each element or row with reduction "none", else a mean or sum of rank 0."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from baracuda._call.scalars import INT32_MAX, as_integer, at_least
from baracuda._functions.shape_rules.call_meta import CallMeta, Shape
from baracuda._functions.spec import Spec
from baracuda.errors import InvalidProblemError, UnsupportedError
from baracuda.kinds import LossReduction

WEIGHTS = ("weight_extent", "pos_weight_extent")  # extents of trailing axes
SUMMANDS = ("numel", "n_rows", "batch_size")  # C's names for the number of summands
INNER = "inner_extent"  # the product of all axes after the named ones
LABELS = "targets_numel"  # CTC targets: a padded row for each sample, or concatenated


def loss(spec: Spec, shapes: Mapping[str, Shape], numbers: Mapping[str, Any], mode: str) -> CallMeta:
    """`mode` is the reduction: none, mean, sum or batchmean."""
    own = {param.name for param in spec.row.params}
    if mode == "mean" and "ignore_index" in numbers and "ignore_index" not in own:
        raise UnsupportedError("the mean is that of the rows that count")
    expressions = {
        param.name: spec.extents.get(spec.names.get(param.name, ""), param.shape) for param in spec.row.pointers
    }
    expressions |= {array.name: spec.extents[array.name] for array in spec.arrays if array.name in spec.extents}
    found = _Extents()
    if LABELS in expressions.values():
        _read_labels(found, shapes["targets"], numbers["max_target_len"])
    for array in spec.arrays:
        expression = expressions[array.pointer or array.name] if array.name in shapes else "results"
        if expression != "results":
            found.read(array.name, shapes[array.name], expression)
    values: dict[str, Any] = dict(found.values)
    summands = next(word for word in SUMMANDS if word in found.values)
    whole = found.whole if summands == "numel" else (values[summands], *found.shapes.get(INNER, ()))
    if "batch" in own:  # the divisor of the mean
        if mode == "batchmean" and not whole:
            raise InvalidProblemError("x has shape (), must have an axis of the batch")
        values |= {"batch": whole[0] if mode == "batchmean" else values["numel"]}
        values |= {"reduction_mode": int(LossReduction.MEAN)} if mode == "batchmean" else {}
    values |= {name: 1 for name in WEIGHTS if name in own and name not in values}
    found.shapes["results"] = whole if mode == "none" else ()
    for array in spec.arrays:
        wanted = found.shapes["results"]
        if expressions.get(array.pointer) == "results" and shapes.get(array.name, wanted) != wanted:
            raise InvalidProblemError(
                f"{array.name} has shape {shapes[array.name]}, expected {wanted}, of reduction {mode}"
            )
    values |= {"scale_scalar": 1 / at_least(1, values[summands]) if mode == "mean" else 1.0}
    if "class_extent" in values:
        values["dinput_numel"] = values["n_rows"] * values["class_extent"]
        found.shapes["dinput_numel"] = (values["n_rows"], values["class_extent"])
    found.shapes |= {name: () for name in WEIGHTS if name not in found.shapes}
    extents = {param.name: found.shape_of(expressions[param.name]) for param in spec.row.pointers}
    return CallMeta(values, extents, extents)


def _read_labels(found: _Extents, shape: Shape, given: int | None) -> None:
    """CTC targets: padded to (samples, labels), or concatenated."""
    if len(shape) not in (1, 2):
        expected = "(batch_size, max_target_len) or (targets_numel,)"
        raise InvalidProblemError(f"targets has shape {shape}, expected {expected}")
    most = shape[-1] if given is None else as_integer("max_target_len", given, 0, INT32_MAX)
    if len(shape) == 2 and most != shape[1]:
        raise InvalidProblemError(f"max_target_len is {most}, must be that of targets, {shape[1]}")
    found.values |= {
        LABELS: math.prod(shape), "max_target_len": most, "states": 2 * most + 1,
        "is_concatenated": int(len(shape) == 1),
    }  # fmt: skip
    found.shapes[LABELS] = shape


class _Extents:
    """Values of the words in a row's shapes: "numel" is a whole shape, and "rows by stride, columns" has dense rows."""

    def __init__(self) -> None:
        self.values: dict[str, int] = {}
        self.shapes: dict[str, Shape] = {}
        self._from = ""

    @property
    def whole(self) -> Shape:
        return self.shapes["numel"]

    def read(self, name: str, shape: Shape, expression: str) -> None:
        if expression == LABELS:
            samples = self.values["batch_size"]
            if len(shape) == 2 and shape[0] != samples:
                expected = f"(batch_size = {samples}, max_target_len)"
                raise InvalidProblemError(f"targets has shape {shape}, expected {expected}")
            return
        if expression == "numel":
            if self.shapes.setdefault("numel", shape) != shape:
                raise InvalidProblemError(f"{name} has shape {shape}, expected that of {self._from}, {self.whole}")
            self.values["numel"] = math.prod(shape)
            self._from = self._from or name
            return
        if expression in WEIGHTS:
            trailing = shape[next((k for k, extent in enumerate(shape) if extent != 1), len(shape)) :]
            if trailing != self.whole[len(self.whole) - len(trailing) :]:
                raise InvalidProblemError(f"{name} has shape {shape}, expected that of the last axes of {self.whole}")
            self.values[expression], self.shapes[expression] = at_least(1, math.prod(shape)), shape
            return
        axes = [word.partition(" by ") for word in expression.split(", ")]
        if axes[-1][0] == INNER:
            self._read_inner(name, shape[len(axes) - 1 :])
            axes.pop()
            shape = shape[: len(axes)]
        known = [int(extent) if extent.isdigit() else self.values.get(extent) for extent, _, _ in axes]
        if len(shape) != len(axes) or any([k is not None and k != have for k, have in zip(known, shape)]):
            shown = ", ".join([p[0] if k is None else f"{p[0]} = {k}" for p, k in zip(axes, known)])
            raise InvalidProblemError(f"{name} has shape {shape}, expected ({shown})")
        for axis, (extent, _, pitch) in enumerate(axes):
            self.values[extent] = shape[axis]
            if pitch:
                self.values[pitch] = math.prod(shape[axis + 1 :]) * self.values.get(INNER, 1)

    def _read_inner(self, name: str, shape: Shape) -> None:
        if self.shapes.setdefault(INNER, shape) != shape:
            raise InvalidProblemError(f"{name} ends with the axes {shape}, expected {self.shapes[INNER]}")
        self.values[INNER] = math.prod(shape)

    def shape_of(self, expression: str) -> Shape:
        if expression in self.shapes:
            return self.shapes[expression]
        names = [word.partition(" by ")[0] for word in expression.split(", ")]
        inner = self.shapes.get(INNER, ()) if names[-1] == INNER else ()
        return (*[int(n) if n.isdigit() else self.values[n] for n in names if n != INNER], *inner)
