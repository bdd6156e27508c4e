# SPDX-License-Identifier: Apache-2.0
"""Shape rules of block formats: the last axis has bytes on one side and values on the other."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from typing import Any

from baracuda._call.scalars import as_flag
from baracuda._functions.shape_rules.call_meta import CallMeta, Shape, check_shape, dense_as
from baracuda._functions.spec import Spec
from baracuda.errors import InvalidProblemError
from baracuda.guarantee import BATCH_INVARIANT
from baracuda.quantize.formats import GgufBlockFormat, block_format, bytes_of, values_in


def _of_bytes(shapes: Mapping[str, Shape], numbers: Mapping[str, Any]) -> tuple[GgufBlockFormat, Shape, int]:
    """The format, and the leading axes and values of a row of x."""
    chosen, shape = block_format(numbers["format"]), shapes["x"]
    if not shape:
        raise InvalidProblemError("x has shape (), must have an axis of bytes")
    return chosen, shape[:-1], values_in(shape[-1], chosen)


def _meta(values: dict[str, Any], extents: dict[str, Shape], result: Shape) -> CallMeta:
    views = {name: functools.partial(dense_as, shape) for name, shape in extents.items()}
    return CallMeta(values, extents, {"y": result}, op_views=views)


def dequantize_blocks(spec: Spec, shapes: Mapping[str, Shape], numbers: Mapping[str, Any]) -> CallMeta:
    """x is (..., bytes), y (..., values)."""
    chosen, outer, columns = _of_bytes(shapes, numbers)
    rows = math.prod(outer)
    values = {"rows": rows, "columns": columns, "format": int(chosen)}
    return _meta(values, {"x": (rows, shapes["x"][-1]), "y": (rows, columns)}, (*outer, columns))


def take_blocks(spec: Spec, shapes: Mapping[str, Shape], numbers: Mapping[str, Any]) -> CallMeta:
    """x is (num_rows, bytes), y has the shape of indices and an axis of values."""
    chosen, outer, columns = _of_bytes(shapes, numbers)
    if len(outer) != 1:
        raise InvalidProblemError(f"x has shape {shapes['x']}, must be (num_rows, bytes)")
    count = math.prod(shapes["indices"])
    values = {"num_indices": count, "num_rows": outer[0], "columns": columns, "format": int(chosen)}
    extents = {"x": shapes["x"], "indices": (count,), "y": (count, columns)}
    return _meta(values, extents, (*shapes["indices"], columns))


def quantize_activations(spec: Spec, shapes: Mapping[str, Shape], numbers: Mapping[str, Any]) -> CallMeta:
    """x is (..., values), y (..., bytes) of rows padded to whole blocks."""
    if not shapes["x"]:
        raise InvalidProblemError("x has shape (), must have an axis of values")
    *outer, columns = shapes["x"]
    rows, row_bytes = math.prod(outer), -(-columns // 32) * GgufBlockFormat.Q8_1.type_size
    extents = {"src": (rows, columns), "dst_q8_1": (rows, row_bytes)}
    views = {name: functools.partial(dense_as, shape) for name, shape in extents.items()}
    return CallMeta({"kx": columns, "ny": rows}, extents, {"dst_q8_1": (*outer, row_bytes)}, op_views=views)


def quantize_blocks(spec: Spec, shapes: Mapping[str, Shape], numbers: Mapping[str, Any]) -> CallMeta:
    """x is (..., values), y (..., bytes); importance has a number for each column."""
    if not shapes["x"]:
        raise InvalidProblemError("x has shape (), must have an axis of values")
    chosen, (*outer, columns) = block_format(numbers["format"]), shapes["x"]
    row_bytes, rows = bytes_of(columns, chosen), math.prod(outer)
    check_shape("importance", shapes.get("importance", (columns,)), (columns,))
    values = {"rows": rows, "columns": columns, "format": int(chosen)}
    extents = {"x": (rows, columns), "importance": (columns,), "y": (rows, row_bytes)}
    return _meta(values, extents, (*outer, row_bytes))


def quantized_matmul(spec: Spec, shapes: Mapping[str, Shape], numbers: Mapping[str, Any]) -> CallMeta:
    """x is (..., k), w (n, bytes), y (..., n)."""
    chosen, x, w = block_format(numbers["format"]), shapes["x"], shapes["w"]
    if len(w) != 2 or not x or values_in(w[1], chosen, "w") != x[-1]:
        text = f"x has shape {x} and w {w}, expected (..., k) and (n, the bytes of k values of {chosen.spelling})"
        raise InvalidProblemError(text)
    m, n, k = math.prod(x[:-1]), w[0], x[-1]
    if "bias" in shapes and shapes["bias"] != (n,):
        raise InvalidProblemError(f"bias has shape {shapes['bias']}, expected {(n,)}")
    backend = BATCH_INVARIANT * as_flag("batch_invariant", numbers["batch_invariant"])
    values = {"m": m, "n": n, "k": k, "format": int(chosen), "backend": backend}
    return _meta(values, {"x": (m, k), "w": w, "bias": (n,), "y": (m, n)}, (*x[:-1], n))
