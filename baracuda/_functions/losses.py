"""Layouts of losses. Terms, one for each element or row, are results of their own, or one mean or sum of rank 0."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from baracuda._functions.layout import Layout, Shape
from baracuda._functions.spec import Spec
from baracuda._scalars import INT32_MAX, as_integer, at_least
from baracuda.errors import InvalidProblemError, UnsupportedError
from baracuda.kinds import LossReduction

WEIGHTS = ("weight_extent", "pos_weight_extent")  # of trailing axes
TERMS = ("numel", "n_rows", "batch_size")  # what C calls their number
INNER = "inner_extent"  # of all axes behind the others
LABELS = "targets_numel"  # targets of samples, a row for each or one behind the other


def loss(spec: Spec, shapes: Mapping[str, Shape], numbers: Mapping[str, Any], mode: str) -> Layout:
    """`mode` is what becomes of the terms: none, mean, sum or batchmean."""
    own = {param.name for param in spec.row.params}
    if mode == "mean" and "ignore_index" in numbers and "ignore_index" not in own:
        raise UnsupportedError("the mean is that of the rows that count")
    of = {param.name: spec.extents.get(spec.names.get(param.name, ""), param.shape) for param in spec.row.pointers}
    of |= {array.name: spec.extents[array.name] for array in spec.arrays if array.name in spec.extents}
    found = _Extents()
    if LABELS in of.values():
        _read_labels(found, shapes["targets"], numbers["max_target_len"])
    for array in spec.arrays:
        words = of[array.pointer or array.name] if array.name in shapes else "results"
        if words != "results":
            found.read(array.name, shapes[array.name], words)
    values: dict[str, Any] = dict(found.values)
    terms = next(word for word in TERMS if word in found.values)
    whole = found.whole if terms == "numel" else (values[terms], *found.shapes.get(INNER, ()))
    if "batch" in own:  # by which the mean divides
        if mode == "batchmean" and not whole:
            raise InvalidProblemError("x has shape (), must have an axis of the batch")
        values |= {"batch": whole[0] if mode == "batchmean" else values["numel"]}
        values |= {"reduction_mode": int(LossReduction.MEAN)} if mode == "batchmean" else {}
    values |= {name: 1 for name in WEIGHTS if name in own and name not in values}
    found.shapes["results"] = whole if mode == "none" else ()
    for array in spec.arrays:
        wanted = found.shapes["results"]
        if of.get(array.pointer) == "results" and shapes.get(array.name, wanted) != wanted:
            raise InvalidProblemError(
                f"{array.name} has shape {shapes[array.name]}, expected {wanted}, of reduction {mode}"
            )
    values |= {"scale_scalar": 1 / at_least(1, values[terms]) if mode == "mean" else 1.0}
    if "class_extent" in values:
        values["dinput_numel"] = values["n_rows"] * values["class_extent"]
        found.shapes["dinput_numel"] = (values["n_rows"], values["class_extent"])
    found.shapes |= {name: () for name in WEIGHTS if name not in found.shapes}
    extents = {param.name: found.shape_of(of[param.name]) for param in spec.row.pointers}
    return Layout(values, extents, extents)


def _read_labels(found: _Extents, shape: Shape, given: int | None) -> None:
    """Targets of (samples, labels), or those of each sample behind those of the one before it."""
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
    """What the words of a row's shapes stand for: "numel" is a shape, "rows by stride, columns" has dense rows here."""

    def __init__(self) -> None:
        self.values: dict[str, int] = {}
        self.shapes: dict[str, Shape] = {}
        self._from = ""

    @property
    def whole(self) -> Shape:
        return self.shapes["numel"]

    def read(self, name: str, shape: Shape, words: str) -> None:
        if words == LABELS:
            samples = self.values["batch_size"]
            if len(shape) == 2 and shape[0] != samples:
                expected = f"(batch_size = {samples}, max_target_len)"
                raise InvalidProblemError(f"targets has shape {shape}, expected {expected}")
            return
        if words == "numel":
            if self.shapes.setdefault("numel", shape) != shape:
                raise InvalidProblemError(f"{name} has shape {shape}, expected that of {self._from}, {self.whole}")
            self.values["numel"] = math.prod(shape)
            self._from = self._from or name
            return
        if words in WEIGHTS:
            trailing = shape[next((k for k, extent in enumerate(shape) if extent != 1), len(shape)) :]
            if trailing != self.whole[len(self.whole) - len(trailing) :]:
                raise InvalidProblemError(f"{name} has shape {shape}, expected that of the last axes of {self.whole}")
            self.values[words], self.shapes[words] = at_least(1, math.prod(shape)), shape
            return
        parts = [word.partition(" by ") for word in words.split(", ")]
        if parts[-1][0] == INNER:
            self._read_inner(name, shape[len(parts) - 1 :])
            parts.pop()
            shape = shape[: len(parts)]
        known = [int(extent) if extent.isdigit() else self.values.get(extent) for extent, _, _ in parts]
        if len(shape) != len(parts) or any([k is not None and k != have for k, have in zip(known, shape)]):
            shown = ", ".join([p[0] if k is None else f"{p[0]} = {k}" for p, k in zip(parts, known)])
            raise InvalidProblemError(f"{name} has shape {shape}, expected ({shown})")
        for axis, (extent, _, pitch) in enumerate(parts):
            self.values[extent] = shape[axis]
            if pitch:
                self.values[pitch] = math.prod(shape[axis + 1 :]) * self.values.get(INNER, 1)

    def _read_inner(self, name: str, shape: Shape) -> None:
        if self.shapes.setdefault(INNER, shape) != shape:
            raise InvalidProblemError(f"{name} ends with the axes {shape}, expected {self.shapes[INNER]}")
        self.values[INNER] = math.prod(shape)

    def shape_of(self, words: str) -> Shape:
        if words in self.shapes:
            return self.shapes[words]
        names = [word.partition(" by ")[0] for word in words.split(", ")]
        inner = self.shapes.get(INNER, ()) if names[-1] == INNER else ()
        return (*[int(n) if n.isdigit() else self.values[n] for n in names if n != INNER], *inner)
