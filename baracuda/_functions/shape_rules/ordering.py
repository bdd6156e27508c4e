# SPDX-License-Identifier: Apache-2.0
"""Shape rules of top-k and order statistics."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from baracuda._call.scalars import INT64_MAX, as_integer
from baracuda._functions.shape_rules.call_meta import CallMeta, Shape, axis_of, check_shape, if_contiguous
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


def _rows(shape: Shape, axis: int) -> dict[str, Any]:
    rows = _replaced(shape, axis, 1)
    return {"rows_numel": math.prod(rows), "rank": len(rows), "rows_shape": rows}


def _replaced(shape: Shape, axis: int, extent: int) -> Shape:
    return (*shape[:axis], extent, *shape[axis + 1 :])
