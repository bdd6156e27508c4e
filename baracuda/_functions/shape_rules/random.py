# SPDX-License-Identifier: Apache-2.0
"""Shape rules of random numbers: results have the shape of one array; a state is {seed, offset}."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from typing import Any

from baracuda._call.scalars import as_integer
from baracuda._functions.shape_rules.call_meta import CallMeta, Shape, axis_of, dense_as
from baracuda._functions.spec import Spec
from baracuda.errors import InvalidProblemError

_STATE = (2,)


def _check_state(shapes: Mapping[str, Shape]) -> None:
    if shapes.get("state", _STATE) != _STATE:
        raise InvalidProblemError(f"state has shape {shapes['state']}, expected (2,): a seed and an offset")


def array(spec: Spec, shapes: Mapping[str, Shape], numbers: Mapping[str, Any]) -> CallMeta:
    """Results have the shape of the first array."""
    _check_state(shapes)
    shape = shapes[spec.arrays[0].name]
    extents = {param.name: _STATE if param.name == "state" else shape for param in spec.row.pointers}
    values = {"numel": math.prod(shape), "rank": len(shape), "shape": shape}
    return CallMeta(values, extents, {out.pointer: shape for out in spec.outputs})


def dropout(spec: Spec, shapes: Mapping[str, Shape], numbers: Mapping[str, Any]) -> CallMeta:
    """Elements behind channel_axis, if given, are dropped together."""
    meta = array(spec, shapes, numbers)
    shape = shapes[spec.arrays[0].name]
    if shapes.get("residual", shape) != shape:
        raise InvalidProblemError(f"residual has shape {shapes['residual']}, expected that of x, {shape}")
    axis = numbers["channel_axis"]
    behind = () if axis is None else shape[axis_of("channel_axis", axis, shape) + 1 :]
    meta.values["shared"] = 1 if 0 in behind else math.prod(behind)
    return meta


def multinomial(spec: Spec, shapes: Mapping[str, Shape], numbers: Mapping[str, Any]) -> CallMeta:
    """Rows of cumulated weights, of which `num_samples` indices each are drawn."""
    _check_state(shapes)
    whole = shapes["cdf"]
    if not whole:
        raise InvalidProblemError("cdf has no axis, must have one of categories at least")
    draws = as_integer("num_samples", numbers["num_samples"], 0)
    outer, categories = whole[:-1], whole[-1]
    rows = math.prod(outer)
    values = {"rows": rows, "categories": categories, "draws": draws}
    extents: dict[str, Shape] = {"cdf": (rows, categories), "y": (rows, draws), "state": _STATE}
    op_views = {name: functools.partial(dense_as, extents[name]) for name in ("cdf", "y")}
    return CallMeta(values, extents, {"y": (*outer, draws)}, op_views=op_views)
