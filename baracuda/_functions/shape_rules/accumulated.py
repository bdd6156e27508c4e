# SPDX-License-Identifier: Apache-2.0
"""Shape rule of scatter_add and index_add: the result is shaped like the updates, with extent `size` along the axis."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from baracuda._call.scalars import INT32_MAX, as_integer
from baracuda._functions.shape_rules.call_meta import CallMeta, Shape, axis_of, check_shape
from baracuda._functions.spec import Spec


def along_axis(spec: Spec, shapes: Mapping[str, Shape], numbers: Mapping[str, Any]) -> CallMeta:
    pointers = [param for param in spec.row.params if param.is_pointer]
    (source, index), result = pointers[:2], pointers[-1]
    shape = shapes[spec.names[source.name]]
    axis = axis_of("axis", numbers["axis"], shape)
    size = as_integer("size", numbers["size"], 0, INT32_MAX)
    expected = (shape[axis],) if index.shape == "selected" else shape
    check_shape("index", shapes["index"], expected)
    target = (*shape[:axis], size, *shape[axis + 1 :])
    shape_name = source.shape
    values: dict[str, Any] = {"rank": len(shape), shape_name: shape}
    for param in spec.row.params:
        if param.name.endswith("_numel"):
            values[param.name] = math.prod(shape)
        elif param.role == "axis":
            values[param.name] = axis
        elif param.role == "extent":
            values[param.name] = size
    extents = {source.name: shape, index.name: expected, result.name: target}
    exact_axis = {} if index.shape == "selected" else {result.name: axis}
    return CallMeta(values, extents, {result.name: target}, exact_axis=exact_axis)
