"""Layouts of normalization: of rows, which are some axes of an array, and of groups of its channels."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from baracuda._functions.layout import Layout, Shape, axes_of, check_shape, contiguous
from baracuda._functions.spec import Spec
from baracuda._scalars import INT32_MAX, as_flag, as_integer, exceeds
from baracuda.errors import InvalidProblemError, UnsupportedError


def rows(spec: Spec, shapes: Mapping[str, Shape], numbers: Mapping[str, Any]) -> Layout:
    wholes = [a.name for a in spec.arrays if a.name in shapes and _extents_of(spec, a.pointer) == "shape"]
    shape = shapes["x" if "x" in wholes else wholes[-1]]
    axes = axes_of("axis", numbers["axis"], shape)
    row = tuple([shape[a] for a in axes])
    if not axes:
        raise InvalidProblemError(f"axis is {numbers['axis']!r}, must be an axis or several")
    if exceeds(INT32_MAX, math.prod(row)):
        raise UnsupportedError(f"rows of {math.prod(row)} elements; at most {INT32_MAX} are supported")
    statistics = tuple([1 if a in axes else extent for a, extent in enumerate(shape)])
    extents = {}
    for param in spec.row.pointers:
        of_row = param.shape == "norm_total_extent"
        extents[param.name] = row if of_row else statistics if _of_each_row(param.shape) else shape
    values = {
        "numel": math.prod(shape), "rank": len(shape), "shape": shape, "norm_total_extent": math.prod(row),
        "norm_axes_mask": sum([1 << a for a in axes]),
    }  # fmt: skip
    seen = {name: contiguous for name, each in extents.items() if each is not shape}
    layout = Layout(values, extents, extents, seen=seen)
    layout.fills = _of_nothing(spec, shape, [p.name for p in spec.row.pointers if _of_each_row(p.shape)])
    return _checked(spec, shapes, layout)


def channels(spec: Spec, shapes: Mapping[str, Shape], numbers: Mapping[str, Any]) -> Layout:
    shape = shapes["x"]
    if len(shape) < 2:
        raise InvalidProblemError(f"x has shape {shape}, must have an axis of items and one of channels")
    items, count, others = shape[0], shape[1], shape[2:]
    has_flag = any(param.name == "channels_last" for param in spec.row.params)
    if _extents_of(spec, "x").endswith(", c_extent"):
        count, others = shape[-1], shape[1:-1]
    if has_flag:
        flag = as_flag("channels_last", numbers["channels_last"])
        count, others = (shape[-1], shape[1:-1]) if flag else (count, others)
    values = {"n_extent": items, "c_extent": count, "spatial_extent": math.prod(others)}
    if exceeds(INT32_MAX, *values.values()):
        raise UnsupportedError(f"x has shape {shape}: extents of more than {INT32_MAX} are not supported")
    values |= {name: int(text) if text.isdigit() else values[text] for name, text in spec.fixed.items()}
    if has_flag:
        values["channels_last"] = int(numbers["channels_last"])
        of = {"c_extent": (count,), "statistic_count": (count,)}
        extents = {param.name: of.get(param.shape, shape) for param in spec.row.pointers}
        fills = _of_nothing(spec, shape, [p.name for p in spec.row.pointers if p.shape == "statistic_count"])
        for name in [name for name in fills if name.startswith("new_")]:  # nothing moves them
            old = name.removeprefix("new_")
            fills[name] = old if old in shapes else float(old.endswith("var"))
        return _checked(spec, shapes, Layout(values, extents, extents, fills=fills))
    if "num_groups" not in spec.fixed:
        values["num_groups"] = as_integer("num_groups", numbers["num_groups"], 1, INT32_MAX)
        if count % values["num_groups"]:
            raise InvalidProblemError(f"num_groups is {values['num_groups']}, must divide the {count} channels")
    values["num_groups"] = max(values["num_groups"], 1)
    groups = (items, values["num_groups"]) if values.get("group_kind", 1) else (count,)
    of = {"c_extent": (count,), "group_count": groups}
    extents = {param.name: of.get(param.shape, shape) for param in spec.row.pointers}
    fills = _of_nothing(spec, shape, [p.name for p in spec.row.pointers if p.shape == "group_count"])
    return _checked(spec, shapes, Layout(values, extents, extents, fills=fills))


def _of_nothing(spec: Spec, shape: Shape, statistics: Sequence[str]) -> dict[str, float | str]:
    """Statistics of an array without elements, which C does not write: means and what follows from them are NaN, the
    sums that lengths and gradients are 0."""
    if 0 not in shape:
        return {}
    outputs = {param.name for param in spec.row.pointers if param.is_output}
    is_sum = ("norm_out", "dg")
    return {name: 0.0 if name in is_sum else math.nan for name in statistics if name in outputs}


def _of_each_row(words: str) -> bool:
    return " 1 along " in words or words == "row_count"


def _extents_of(spec: Spec, pointer: str) -> str:
    return next((param.shape for param in spec.row.pointers if param.name == pointer), "")


def _checked(spec: Spec, shapes: Mapping[str, Shape], layout: Layout) -> Layout:
    for array in spec.arrays:
        if array.name in shapes:
            check_shape(array.name, shapes[array.name], layout.extents[array.pointer])
    return layout
