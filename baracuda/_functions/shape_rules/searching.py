# SPDX-License-Identifier: Apache-2.0
"""Shape rules of searchsorted, histograms and runs. Operands that C takes in row-major order become one or two axes."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from typing import Any

from baracuda._call.scalars import INT32_MAX, INT64_MAX, as_integer
from baracuda._functions.shape_rules.call_meta import CallMeta, Shape, check_shape, dense_as
from baracuda._functions.spec import Spec
from baracuda.errors import InvalidProblemError


def positions(spec: Spec, shapes: Mapping[str, Shape], numbers: Mapping[str, Any]) -> CallMeta:
    sequence, values = shapes["sorted_seq"], shapes["values"]
    if not sequence or (len(sequence) > 1 and sequence[:-1] != values[:-1]):
        raise InvalidProblemError(
            f"sorted_seq has shape {sequence}, expected one axis, or the leading axes of values, of shape {values}"
        )
    if "sorter" in shapes:
        check_shape("sorter", shapes["sorter"], sequence)
    is_batched = len(sequence) > 1
    rows, queries = (math.prod(values[:-1]), values[-1]) if is_batched else (1, math.prod(values))
    keys, table = (rows, sequence[-1]), (rows, queries)
    scalars = {"rows": rows, "queries": queries, "sequences": rows, "len_sorted": sequence[-1]}
    extents: dict[str, Shape] = {"sorted_seq": keys, "sorter": keys, "values": table, "output": table}
    return _dense(scalars, extents, {"output": values})


def membership(spec: Spec, shapes: Mapping[str, Shape], numbers: Mapping[str, Any]) -> CallMeta:
    values, sequence = shapes["values"], shapes["sorted_seq"]
    if len(sequence) != 1:
        raise InvalidProblemError(f"sorted_seq has shape {sequence}, must have one axis")
    flat = (math.prod(values),)
    extents: dict[str, Shape] = {"values": flat, "sorted_seq": sequence, "output": flat}
    return _dense({"numel": flat[0], "len_sorted": sequence[0]}, extents, {"output": values})


def bins(spec: Spec, shapes: Mapping[str, Shape], numbers: Mapping[str, Any]) -> CallMeta:
    return _binned(spec, shapes["x"], as_integer("num_bins", numbers["num_bins"], 0, INT32_MAX))


def edge_bins(spec: Spec, shapes: Mapping[str, Shape], numbers: Mapping[str, Any]) -> CallMeta:
    edges = shapes["edges"]
    if len(edges) != 1 or not edges[0]:
        raise InvalidProblemError(f"edges has shape {edges}, must have one axis, of 1 element or more")
    meta = _binned(spec, shapes["x"], as_integer("edges - 1", edges[0] - 1, 0, INT32_MAX))
    return CallMeta(meta.values, {**meta.extents, "edges": edges}, meta.shapes, op_views=meta.op_views)


def _binned(spec: Spec, x: Shape, num_bins: int) -> CallMeta:
    flat, is_counted = (math.prod(x),), not spec.name.endswith("_bins")
    extents: dict[str, Shape] = {"x": flat, "output": (num_bins,) if is_counted else flat}
    return _dense({"n": flat[0], "num_bins": num_bins}, extents, {"output": (num_bins,) if is_counted else x})


def runs(spec: Spec, shapes: Mapping[str, Shape], numbers: Mapping[str, Any]) -> CallMeta:
    x, given = shapes["x"], numbers["max_unique"]
    if not x:
        raise InvalidProblemError("x has no axis")
    n, width = x[0], math.prod(x[1:])
    if "order" in shapes:
        check_shape("order", shapes["order"], (n,))
    most = n if given is None else as_integer("max_unique", given, 0, INT64_MAX)
    extents: dict[str, Shape] = {
        "x": (n, width), "order": (n,), "values": (most, width), "first": (most,), "inverse": (n,), "counts": (most,),
        "counter": (1,),
    }  # fmt: skip
    results = {"values": (most, *x[1:]), "first": (most,), "inverse": (n,), "counts": (most,), "counter": ()}
    return _dense({"n": n, "width": width, "max_unique": most}, extents, results)


def unique(spec: Spec, shapes: Mapping[str, Shape], numbers: Mapping[str, Any]) -> CallMeta:
    n, given = math.prod(shapes["x"]), numbers["max_unique"]
    most = n if given is None else as_integer("max_unique", given, 0, INT64_MAX)
    results: dict[str, Shape] = {"values": (most,), "first": (most,), "inverse": shapes["x"], "counts": (most,)}
    extents: dict[str, Shape] = {**results, "x": (n,), "inverse": (n,), "counter": (1,)}
    return _dense({"n": n, "max_unique": most}, extents, {**results, "counter": ()})


def _dense(values: dict[str, Any], extents: dict[str, Shape], results: dict[str, Shape]) -> CallMeta:
    """Operands in row-major order, with the extents that C gives them."""
    op_views = {name: functools.partial(dense_as, shape) for name, shape in extents.items()}
    return CallMeta(values, extents, results, op_views=op_views)
