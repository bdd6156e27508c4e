"""Layouts of sums into places along an axis: the result has the extents of what is added, but along the axis."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from baracuda._functions.layout import Layout, Shape, axis_of, check_shape
from baracuda._functions.spec import Spec
from baracuda._scalars import INT32_MAX, as_integer


def along_axis(spec: Spec, shapes: Mapping[str, Shape], numbers: Mapping[str, Any]) -> Layout:
    pointers = [param for param in spec.row.params if param.is_pointer]
    (source, index), result = pointers[:2], pointers[-1]
    shape = shapes[spec.names[source.name]]
    axis = axis_of("axis", numbers["axis"], shape)
    size = as_integer("size", numbers["size"], 0, INT32_MAX)
    line = (shape[axis],) if index.shape == "selected" else shape
    check_shape("index", shapes["index"], line)
    own = (*shape[:axis], size, *shape[axis + 1 :])
    shape_name = source.shape
    values: dict[str, Any] = {"rank": len(shape), shape_name: shape}
    for param in spec.row.params:
        if param.name.endswith("_numel"):
            values[param.name] = math.prod(shape)
        elif param.role == "axis":
            values[param.name] = axis
        elif param.role == "extent":
            values[param.name] = size
    extents = {source.name: shape, index.name: line, result.name: own}
    larger = {} if index.shape == "selected" else {result.name: axis}
    return Layout(values, extents, {result.name: own}, larger=larger)
