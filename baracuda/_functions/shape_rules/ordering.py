# SPDX-License-Identifier: Apache-2.0
"""Shape rules of top-k and order statistics."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from typing import Any

from baracuda._call.scalars import INT64_MAX, as_integer
from baracuda._functions.shape_rules.call_meta import (
    CallMeta,
    Shape,
    ViewAs,
    axis_of,
    check_shape,
    dense_as,
    if_contiguous,
)
from baracuda._functions.shape_rules.reductions import merged_view, split_axes, with_reduced_axis
from baracuda._functions.spec import Spec
from baracuda.errors import InvalidProblemError


def top_k(spec: Spec, shapes: Mapping[str, Shape], numbers: Mapping[str, Any]) -> CallMeta:
    x = shapes["x"]
    axis, k = axis_of("axis", numbers["axis"], x), as_integer("k", numbers["k"], 0, INT64_MAX)
    if k > x[axis]:
        raise InvalidProblemError(f"k is {k}, must be <= {x[axis]}, the extent of x, of shape {x}, along axis {axis}")
    result = _replaced(x, axis, k)
    values = _rows(x, axis) | {"topk_axis": axis, "axis_len": x[axis], "k": k}
    outputs = {"values": result, "indices": result}
    return CallMeta(values, {"x": x, **outputs}, outputs)


def top_k_backward(spec: Spec, shapes: Mapping[str, Shape], numbers: Mapping[str, Any]) -> CallMeta:
    dy = shapes["dy"]
    axis, size = axis_of("axis", numbers["axis"], dy), as_integer("size", numbers["size"], 0, INT64_MAX)
    check_shape("indices", shapes["indices"], dy)
    values = _rows(dy, axis) | {"topk_axis": axis, "axis_len": size, "k": dy[axis]}
    dx = _replaced(dy, axis, size)
    return CallMeta(values, {"dy": dy, "indices": dy, "dx": dx}, {"dx": dx}, exact_axis={"dx": axis})


def top_k_segments(spec: Spec, shapes: Mapping[str, Shape], numbers: Mapping[str, Any]) -> CallMeta:
    x, offsets, k = shapes["x"], shapes["offsets"], as_integer("k", numbers["k"], 0, INT64_MAX)
    if len(x) != 1 or len(offsets) != 1 or not offsets[0]:
        raise InvalidProblemError(f"x has shape {x} and offsets {offsets}, expected (n,) and (segments + 1,)")
    result: Shape = (offsets[0] - 1, k)
    values = {"n": x[0], "segments": offsets[0] - 1, "k": k}
    outputs: dict[str, Shape] = {"values": result, "indices": result}
    extents = {"x": x, "offsets": offsets, **outputs}
    return CallMeta(values, extents, outputs, op_views=dict.fromkeys(extents, if_contiguous))


def order_statistic(spec: Spec, shapes: Mapping[str, Shape], numbers: Mapping[str, Any]) -> CallMeta:
    """kthvalue, median and mode. Reduced axes are merged into one, the last axis that the op sees."""
    shape = shapes["x"]
    kept, axes, result = split_axes(shape, numbers)
    values, extents = _merged_rows(shape, kept, axes)
    if "k" in numbers:
        values["k"] = as_integer("k", numbers["k"], 0, INT64_MAX)
        if values["k"] >= extents[-1]:
            raise InvalidProblemError(f"k is {values['k']}, must be < {extents[-1]}, the elements along the axis")
    one = (*extents[:-1], 1)
    keeps = len(result) == len(shape)
    op_views: dict[str, ViewAs] = {
        "x": functools.partial(merged_view, kept=kept, axes=axes, in_order=True),
        **dict.fromkeys(
            ("values", "indices"), functools.partial(with_reduced_axis, shape=shape, axes=axes, keeps=keeps)
        ),
    }
    outputs = dict.fromkeys(("values", "indices"), result)
    return CallMeta(
        values, {"x": extents, "values": one, "indices": one}, outputs, op_views=op_views,
        copy_orders={"x": (*kept, *axes)},
    )  # fmt: skip


def quantile(spec: Spec, shapes: Mapping[str, Shape], numbers: Mapping[str, Any]) -> CallMeta:
    """The axes of q come first in the result."""
    shape, q = shapes["x"], shapes["q"]
    kept, axes, result = split_axes(shape, numbers)
    values, extents = _merged_rows(shape, kept, axes)
    values["q_count"] = math.prod(q)
    table = (values["q_count"], values["rows_numel"])
    outputs = ("y", "lower", "upper", "weight")
    op_views: dict[str, ViewAs] = {
        "x": functools.partial(merged_view, kept=kept, axes=axes, in_order=True),
        "q": functools.partial(dense_as, (values["q_count"],)),
        **dict.fromkeys(outputs, functools.partial(dense_as, table)),
    }
    return CallMeta(
        values, {"x": extents, "q": (values["q_count"],), **dict.fromkeys(outputs, table)},
        dict.fromkeys(outputs, (*q, *result)), op_views=op_views, copy_orders={"x": (*kept, *axes)},
    )  # fmt: skip


def quantile_backward(spec: Spec, shapes: Mapping[str, Shape], numbers: Mapping[str, Any]) -> CallMeta:
    shape, dy = shapes["x"], shapes["dy"]
    kept, axes, result = split_axes(shape, numbers)
    values, extents = _merged_rows(shape, kept, axes)
    many = len(dy) - len(result)
    if many < 0 or dy[many:] != result:
        raise InvalidProblemError(f"dy has shape {dy}, must end with {result}")
    for name in ("lower", "upper", "weight"):
        check_shape(name, shapes[name], dy)
    values["q_count"] = math.prod(dy[:many])
    table = (values["q_count"], values["rows_numel"])
    inputs = ("dy", "lower", "upper", "weight")
    op_views: dict[str, ViewAs] = {
        "dx": functools.partial(merged_view, kept=kept, axes=axes, in_order=True),
        **dict.fromkeys(inputs, functools.partial(dense_as, table)),
    }
    return CallMeta(
        values, {"dx": extents, **dict.fromkeys(inputs, table)}, {"dx": shape}, op_views=op_views,
        copy_orders={"dx": (*kept, *axes)},
    )  # fmt: skip


def _merged_rows(shape: Shape, kept: tuple[int, ...], axes: tuple[int, ...]) -> tuple[dict[str, Any], Shape]:
    """C's numbers, and the extents of x with the reduced axes merged into a last one."""
    rows, length = tuple([shape[a] for a in kept]), math.prod([shape[a] for a in axes])
    values = {
        "rows_numel": math.prod(rows), "rank": len(rows) + 1, "rows_shape": (*rows, 1), "order_axis": len(rows),
        "axis_len": length,
    }  # fmt: skip
    return values, (*rows, length)


def _rows(shape: Shape, axis: int) -> dict[str, Any]:
    rows = _replaced(shape, axis, 1)
    return {"rows_numel": math.prod(rows), "rank": len(rows), "rows_shape": rows}


def _replaced(shape: Shape, axis: int, extent: int) -> Shape:
    return (*shape[:axis], extent, *shape[axis + 1 :])
