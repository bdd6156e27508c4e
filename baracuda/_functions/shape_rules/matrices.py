# SPDX-License-Identifier: Apache-2.0
"""Shape rule of linear algebra: matrices (..., m, n) and vectors (..., n) whose leading axes, the batch, broadcast.

C takes one axis for the batch, and strides of rows and columns. An operand whose batch does not lie at one stride is
copied first.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

from baracuda._call.scalars import INT32_MAX, as_flag, as_real, exceeds
from baracuda._functions.shape_rules.call_meta import CallMeta, Shape, as_strided
from baracuda._functions.spec import Spec
from baracuda.errors import InvalidProblemError
from baracuda.tensor import TensorRef, contiguous_stride

# C's flags -> Python's arguments; others have one name.
_FLAGS = {
    "upper": "upper", "unit": "unitriangular", "conjugates": "conjugate", "transposes": "transpose", "right": "right",
    "adjoint": "adjoint", "complete": "complete", "hermitian": "hermitian", "vectors": "vectors",
    "full_matrices": "full_matrices",
}  # fmt: skip


def of_batches(spec: Spec, shapes: Mapping[str, Shape], numbers: Mapping[str, Any]) -> CallMeta:
    """Extents by the words of the row's shapes. Without `left` the right-hand sides and results are transposed."""
    row = spec.row
    words = _words(spec)
    names = {param.name for param in row.params}
    flags = {
        c: as_flag(name, numbers[name]) for c, name in _FLAGS.items() if c in names and name in numbers
    }  # fmt: skip
    from_right = "left" in numbers and not as_flag("left", numbers["left"])
    transposed = {"b", "x"} if from_right else set()
    if "transpose" in numbers or from_right:
        is_transposed = bool(as_flag("transpose", numbers.get("transpose", False))) != from_right
        if "transposes" in names:
            flags["transposes"] = int(is_transposed)
        elif is_transposed:
            transposed = transposed | {"a"}
            flags |= {"upper": 1 - flags["upper"]} if "upper" in flags else {}
    values = _extents(spec, words, shapes, transposed, flags)
    _derive(spec, shapes, numbers, values)
    batch = _batch(spec, words, shapes)
    values["batch"] = math.prod(batch)
    for name, value in values.items():
        if exceeds(INT32_MAX, value):
            raise InvalidProblemError(f"{name} is {value}, must be <= {INT32_MAX}")
    extents = {name: tuple([values[word] for word in each]) for name, each in words.items()}
    scalars: dict[str, Any] = {name: values[name] for name in names if name in values}
    scalars |= flags | {name: int(text) for name, text in spec.fixed.items()}
    scalars |= {name: as_real(name, numbers[name]) for name in ("atol", "rtol") if name in names}
    if "rcond" in names:
        scalars["rcond"] = _rcond(numbers["rcond"])
    trailing = {
        name: each[1:][::-1] if name in transposed else each[1:] for name, each in extents.items()
    }  # fmt: skip
    views = {
        name: functools.partial(
            _matrices if len(each) == 3 else _vectors, batch, each, name in transposed, trailing[name]
        )
        for name, each in extents.items()
    }
    return CallMeta(
        scalars, extents, {out.pointer: (*batch, *trailing[out.pointer]) for out in spec.outputs}, op_views=views,
        copy_shapes={name: (*batch, *each) for name, each in trailing.items()},
    )  # fmt: skip


def _words(spec: Spec) -> dict[str, list[str]]:
    """The extents of each operand of C; the first is the batch."""
    return {p.name: p.shape.partition(" at ")[0].split(", ") for p in spec.row.params if p.is_pointer}


def own_axes(spec: Spec) -> dict[str, int]:
    """The number of axes that each array has behind those of the batch."""
    words = _words(spec)
    return {argument.name: len(words[argument.pointer]) - 1 for argument in spec.arrays}


def _extents(
    spec: Spec, words: Mapping[str, Sequence[str]], shapes: Mapping[str, Shape], transposed: set[str],
    flags: Mapping[str, int],
) -> dict[str, int]:  # fmt: skip
    """The extents of matrices that the arrays tell; an array may have more columns than C reads of reflectors."""
    values: dict[str, int] = {}
    for argument in sorted(spec.arrays, key=lambda each: each.pointer == "v"):
        if argument.name not in shapes:
            continue
        have, expected = shapes[argument.name], list(words[argument.pointer][1:])
        if argument.pointer in transposed:
            expected.reverse()
        if "rows" in expected and "rows" not in values:
            values["rows"] = values["n" if flags.get("right") else "m"]
        got = have[len(have) - len(expected) :]
        for at, word in enumerate(expected):
            known = values.get(word)
            is_longer = argument.pointer == "v" and at == 1 and known is not None and len(got) == 2 and got[1] >= known
            if len(have) < len(expected) or (known not in (None, got[at]) and not is_longer):
                shown = ", ".join(w if values.get(w) is None else f"{w} = {values[w]}" for w in expected)
                raise InvalidProblemError(f"{argument.name} has shape {have}, expected (..., {shown})")
            values.setdefault(word, got[at])
    return values


def _derive(spec: Spec, shapes: Mapping[str, Shape], numbers: Mapping[str, Any], values: dict[str, int]) -> None:
    """Extents of results that no array has."""
    if "complete" in numbers:
        complete = as_flag("complete", numbers["complete"])
        columns = values["m"] if complete else min(values["m"], shapes[spec.arrays[0].name][-1])
        values["columns" if "n" in values else "n"] = columns
    if "m" in values and "n" in values:
        values["least"] = min(values["m"], values["n"])
        is_full = "full_matrices" in numbers and as_flag("full_matrices", numbers["full_matrices"])
        values["left_vectors"] = values["m"] if is_full else values["least"]
        values["right_vectors"] = values["n"] if is_full else values["least"]


def _batch(spec: Spec, words: Mapping[str, Sequence[str]], shapes: Mapping[str, Shape]) -> Shape:
    """The broadcast batch of all arrays."""
    batches = {a.name: shapes[a.name][: len(shapes[a.name]) - len(words[a.pointer]) + 1] for a in spec.arrays
               if a.name in shapes}  # fmt: skip
    rank = max([len(each) for each in batches.values()], default=0)
    found = [1] * rank
    for each in batches.values():
        for axis, extent in enumerate(each, rank - len(each)):
            if extent != 1 and found[axis] not in (1, extent):
                shown = ", ".join(f"{name} {shapes[name]}" for name in batches)
                raise InvalidProblemError(f"batches do not broadcast: {shown}")
            if extent != 1:
                found[axis] = extent
    return tuple(found)


def _rcond(given: object) -> float:
    """-1 stands for the default, which depends on the dtype: C's kernels take it for eps max(m, n)."""
    return -1.0 if given is None else as_real("rcond", given)


def _steps(batch: Shape, view: TensorRef, trailing: int) -> int | None:
    """The stride of the batch as one axis, 0 if it is broadcast; None if there is no such stride."""
    lead = len(view.shape) - trailing
    shape = (1,) * (len(batch) - lead) + tuple(view.shape[:lead])
    strides = (0,) * (len(batch) - lead) + tuple(view.strides[:lead])
    if math.prod(batch) <= 1 or all([extent == 1 for extent in shape]):
        return 0
    if shape != batch:
        return None
    axes = [(extent, stride) for extent, stride in zip(shape, strides) if extent != 1]
    for (_, outer), (extent, inner) in itertools.pairwise(axes):
        if outer != extent * inner:
            return None
    return axes[-1][1]


def _matrices(batch: Shape, extents: Shape, transposes: bool, trailing: Shape, view: TensorRef) -> TensorRef | None:
    """The view (batch, rows, columns) of C. Columns of reflectors beyond those that C reads are left out."""
    step = _steps(batch, view, 2)
    if step is None:
        return None
    rows, columns = view.strides[-2:]
    if transposes:
        rows, columns = columns, rows
    if 0 in extents:
        return as_strided(view, extents, contiguous_stride(tuple([max(extent, 1) for extent in extents])))
    return as_strided(view, (extents[0] if step else 1, *extents[1:]), (step, rows, columns))


def _vectors(batch: Shape, extents: Shape, transposes: bool, trailing: Shape, view: TensorRef) -> TensorRef | None:
    """The row-major view (batch, extent), or (batch,); None if it must be copied."""
    whole = (*batch, *trailing)
    if math.prod(view.shape) != math.prod(whole) or not view.is_dense:
        return None
    return as_strided(view, extents, contiguous_stride(extents))
