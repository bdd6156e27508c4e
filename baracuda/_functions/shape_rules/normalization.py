# SPDX-License-Identifier: Apache-2.0
"""Shape rules of norms: over some axes of an array (layer norm), and over channels or groups (batch, group norm)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from baracuda._call.scalars import INT32_MAX, as_flag, as_integer, exceeds
from baracuda._functions.shape_rules.call_meta import CallMeta, Shape, axes_of, check_shape, if_contiguous
from baracuda._functions.spec import Spec
from baracuda.errors import InvalidProblemError, UnsupportedError


def rows(spec: Spec, shapes: Mapping[str, Shape], numbers: Mapping[str, Any]) -> CallMeta:
    full_arrays = [a.name for a in spec.arrays if a.name in shapes and _extents_of(spec, a.pointer) == "shape"]
    shape = shapes["x" if "x" in full_arrays else full_arrays[-1]]
    axes = axes_of("axis", numbers["axis"], shape)
    row = tuple([shape[a] for a in axes])
    if not axes:
        raise InvalidProblemError(f"axis is {numbers['axis']!r}, must be an axis or several")
    if exceeds(INT32_MAX, math.prod(row)):
        raise UnsupportedError(f"rows of {math.prod(row)} elements; at most {INT32_MAX} are supported")
    statistics = tuple([1 if a in axes else extent for a, extent in enumerate(shape)])
    extents = {}
    for param in spec.row.pointers:
        is_parameter = param.shape == "norm_total_extent"
        extents[param.name] = row if is_parameter else statistics if _is_statistic(param.shape) else shape
    values = {
        "numel": math.prod(shape), "rank": len(shape), "shape": shape, "norm_total_extent": math.prod(row),
        "norm_axes_mask": sum([1 << a for a in axes]),
    }  # fmt: skip
    op_views = {name: if_contiguous for name, each in extents.items() if each is not shape}
    layout = CallMeta(values, extents, extents, op_views=op_views)
    layout.fills = _fills_if_empty(spec, shape, [p.name for p in spec.row.pointers if _is_statistic(p.shape)])
    return _checked(spec, shapes, layout)


def channels(spec: Spec, shapes: Mapping[str, Shape], numbers: Mapping[str, Any]) -> CallMeta:
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
        shape_of: dict[str, Shape] = {"c_extent": (count,), "statistic_count": (count,)}
        extents = {param.name: shape_of.get(param.shape, shape) for param in spec.row.pointers}
        fills = _fills_if_empty(spec, shape, [p.name for p in spec.row.pointers if p.shape == "statistic_count"])
        for name in [name for name in fills if name.startswith("new_")]:  # the running statistics stay as they are
            old = name.removeprefix("new_")
            fills[name] = old if old in shapes else float(old.endswith("var"))
        return _checked(spec, shapes, CallMeta(values, extents, extents, fills=fills))
    if "num_groups" not in spec.fixed:
        values["num_groups"] = as_integer("num_groups", numbers["num_groups"], 1, INT32_MAX)
        if count % values["num_groups"]:
            raise InvalidProblemError(f"num_groups is {values['num_groups']}, must divide the {count} channels")
    values["num_groups"] = max(values["num_groups"], 1)
    groups = (items, values["num_groups"]) if values.get("group_kind", 1) else (count,)
    shape_of = {"c_extent": (count,), "group_count": groups}
    extents = {param.name: shape_of.get(param.shape, shape) for param in spec.row.pointers}
    fills = _fills_if_empty(spec, shape, [p.name for p in spec.row.pointers if p.shape == "group_count"])
    return _checked(spec, shapes, CallMeta(values, extents, extents, fills=fills))


def _fills_if_empty(spec: Spec, shape: Shape, statistics: Sequence[str]) -> dict[str, float | str]:
    """Statistics of an empty array, which C does not write: L2 norms and gradients of gains, which are sums, are 0, all
    others are NaN."""
    if 0 not in shape:
        return {}
    outputs = {param.name for param in spec.row.pointers if param.is_output}
    is_sum = ("norm_out", "dg")
    return {name: 0.0 if name in is_sum else math.nan for name in statistics if name in outputs}


def _is_statistic(words: str) -> bool:
    return " 1 along " in words or words == "row_count"


def _extents_of(spec: Spec, pointer: str) -> str:
    return next((param.shape for param in spec.row.pointers if param.name == pointer), "")


def _checked(spec: Spec, shapes: Mapping[str, Shape], layout: CallMeta) -> CallMeta:
    for array in spec.arrays:
        if array.name in shapes:
            check_shape(array.name, shapes[array.name], layout.extents[array.pointer])
    return layout
