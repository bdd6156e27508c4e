# SPDX-License-Identifier: Apache-2.0
"""Shape rules of reductions and their gradients. Reduced axes are merged into one, the last axis that the op sees."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from baracuda._call.scalars import INT32_MAX, as_flag, as_integers, at_least, exceeds
from baracuda._functions.shape_rules.call_meta import CallMeta, Shape, ViewAs, as_strided, axes_of, check_shape
from baracuda._functions.spec import Spec
from baracuda.errors import InvalidProblemError, UnsupportedError
from baracuda.tensor import TensorRef


def along_axes(spec: Spec, shapes: Mapping[str, Shape], numbers: Mapping[str, Any]) -> CallMeta:
    shape = shapes["x"]
    kept, axes, result = split_axes(shape, numbers)
    extent, extents = math.prod([shape[a] for a in axes]), tuple([shape[a] for a in kept])
    is_index = spec.row.pattern.startswith("arg_")
    if is_index and numbers["axis"] is not None and len(axes) != 1:
        raise InvalidProblemError(f"axis is {numbers['axis']!r}, must be one axis, or None for all")
    if exceeds(INT32_MAX, extent):
        raise UnsupportedError(
            f"x has {extent} elements along axis {numbers['axis']!r}; at most {INT32_MAX} are supported"
        )
    values = {
        "output_numel": math.prod(extents), "rank": len(kept) + 1, "output_shape": (*extents, 1),
        "reduce_axis": len(kept), "reduce_extent": extent,
    }  # fmt: skip
    op_views: dict[str, ViewAs] = {
        "x": functools.partial(merged_view, kept=kept, axes=axes, in_order=is_index),
        "y": functools.partial(with_reduced_axis, shape=shape, axes=axes, keeps=len(result) == len(shape)),
    }
    return CallMeta(
        values, {"x": (*extents, extent), "y": (*extents, 1)}, {"y": result}, op_views=op_views,
        copy_orders={"x": (*kept, *axes)},
        stride_axes={"reduce_stride_x": len(kept)},
    )  # fmt: skip


def over_axes(spec: Spec, shapes: Mapping[str, Shape], numbers: Mapping[str, Any]) -> CallMeta:
    """Shapes of ops that take a mask of the reduced axes."""
    shape = shapes["x"]
    _, axes, result = split_axes(shape, numbers)
    results = tuple([1 if a in axes else extent for a, extent in enumerate(shape)])
    values = {
        "numel": math.prod(shape), "rank": len(shape), "shape": shape, "reduce_axes_mask": sum([1 << a for a in axes])
    }  # fmt: skip
    outputs = [param.name for param in spec.row.pointers if param.is_output]
    broadcast = functools.partial(_broadcast, shape=shape, axes=axes, keeps=len(result) == len(shape), last=False)
    extents = {"x": shape} | dict.fromkeys(outputs, results)
    return CallMeta(values, extents, dict.fromkeys(outputs, result), op_views=dict.fromkeys(outputs, broadcast))


def gradient(spec: Spec, shapes: Mapping[str, Shape], numbers: Mapping[str, Any]) -> CallMeta:
    """dx of a reduction: dy and y broadcast (stride 0) along the reduced axes."""
    if "axis" not in numbers:
        return _gradient_of_reduce_to(spec, shapes)
    shape = shapes["x"]
    kept, axes, result = split_axes(shape, numbers)
    extent = math.prod([shape[a] for a in axes])
    for name in ("dy", "y"):
        if name in shapes:
            check_shape(name, shapes[name], result)
    keeps, of_rows = len(result) == len(shape), any(p.name == "reduce_extent" for p in spec.row.params)
    values: dict[str, Any] = {"numel": math.prod(shape), "inv_extent": 1 / at_least(1, extent)}
    pointers = [param.name for param in spec.row.pointers]
    if of_rows:  # the op takes one reduced axis
        whole = (*[shape[a] for a in kept], extent)
        values |= {"rank": len(whole), "shape": whole, "reduce_axis": len(kept), "reduce_extent": extent}
        merged = functools.partial(merged_view, kept=kept, axes=axes, in_order=True)  # so that x and dx merge alike
        broadcast = functools.partial(_broadcast, shape=shape, axes=axes, keeps=keeps, last=True)
        op_views = {name: merged if name in ("x", "dx") else broadcast for name in pointers}
        copy_orders = dict.fromkeys(("x", "dx"), (*kept, *axes))
        stride_axes = {"reduce_stride_x": len(kept)}
    else:
        whole, copy_orders, stride_axes = shape, {}, {}
        values |= {"rank": len(shape), "shape": shape}
        broadcast = functools.partial(_broadcast, shape=shape, axes=axes, keeps=keeps, last=False)
        op_views = dict.fromkeys(("dy", "y"), broadcast)
    return CallMeta(
        values,
        dict.fromkeys(pointers, whole),
        {"dx": shape},
        op_views=op_views,
        copy_orders=copy_orders,
        stride_axes=stride_axes,
    )


def _gradient_of_reduce_to(spec: Spec, shapes: Mapping[str, Shape]) -> CallMeta:
    """dx of a reduction to the shape of dy."""
    shape, size = shapes["x"], shapes["dy"]
    padded = (1,) * (len(shape) - len(size)) + size
    if len(padded) != len(shape) or any([have not in (1, want) for have, want in zip(padded, shape)]):
        raise InvalidProblemError(f"dy has shape {size}, which does not broadcast to the shape of x, {shape}")
    if "y" in shapes:
        check_shape("y", shapes["y"], size)
    axes = tuple([a for a, (have, want) in enumerate(zip(padded, shape)) if have != want])
    extent = math.prod([shape[a] for a in axes])
    values = {"numel": math.prod(shape), "rank": len(shape), "shape": shape, "inv_extent": 1 / at_least(1, extent)}

    def broadcast(view: TensorRef) -> TensorRef | None:
        expanded = as_strided(view, padded, (*[0] * (len(shape) - len(size)), *view.strides))
        return _broadcast(expanded, shape=shape, axes=axes, keeps=True, last=False)

    pointers = [param.name for param in spec.row.pointers]
    return CallMeta(
        values, dict.fromkeys(pointers, shape), {"dx": shape}, op_views=dict.fromkeys(("dy", "y"), broadcast)
    )


def to_shape(spec: Spec, shapes: Mapping[str, Shape], numbers: Mapping[str, Any]) -> CallMeta:
    shape, given = shapes["x"], numbers["size"]
    size = as_integers("size", (given,) if isinstance(given, (int, np.integer)) else given, 0, INT32_MAX)
    padded = (1,) * (len(shape) - len(size)) + size
    if len(padded) != len(shape) or any([want not in (1, have) for want, have in zip(padded, shape)]):
        raise InvalidProblemError(f"size is {size}, which does not broadcast to the shape of x, {shape}")
    values = {"input_shape": shape, "rank_in": len(shape), "output_shape": padded}
    return CallMeta(values, {"src": shape, "dst": padded}, {"dst": size})


def trace(spec: Spec, shapes: Mapping[str, Shape], numbers: Mapping[str, Any]) -> CallMeta:
    """The trace of the leading square of x."""
    shape = shapes["x"]
    if len(shape) != 2:
        raise InvalidProblemError(f"x has shape {shape}, must have two axes")
    square = (min(shape),) * 2
    stride_axes = {"stride_row": 0, "stride_col": 1}
    op_views = {"x": lambda view: as_strided(view, square, view.strides)}
    return CallMeta({"rows": square[0]}, {"x": square, "y": ()}, {"y": ()}, op_views=op_views, stride_axes=stride_axes)


def trace_gradient(spec: Spec, shapes: Mapping[str, Shape], numbers: Mapping[str, Any]) -> CallMeta:
    shape = shapes["x"]
    if len(shape) != 2:
        raise InvalidProblemError(f"x has shape {shape}, must have two axes")
    if math.prod(shapes["dy"]) != 1:
        raise InvalidProblemError(f"dy has shape {shapes['dy']}, must have one element")
    return CallMeta({"rows": shape[0], "columns": shape[1]}, {"dy": shapes["dy"], "dx": shape}, {"dx": shape})


def split_axes(shape: Shape, numbers: Mapping[str, Any]) -> tuple[tuple[int, ...], tuple[int, ...], Shape]:
    """(kept axes, reduced axes, shape of the result)"""
    axes, keepdims = axes_of("axis", numbers["axis"], shape), as_flag("keepdims", numbers["keepdims"])
    kept = tuple([a for a in range(len(shape)) if a not in axes])
    result = tuple([1 if a in axes else e for a, e in enumerate(shape) if keepdims or a not in axes])
    return kept, axes, result


def merged_view(view: TensorRef, *, kept: tuple[int, ...], axes: tuple[int, ...], in_order: bool) -> TensorRef | None:
    """The view with the reduced axes merged into a last one, or None. `in_order` keeps their row-major order."""
    pairs = [(view.strides[a], view.shape[a]) for a in axes if view.shape[a] != 1]
    extents, strides = [view.shape[a] for a in kept], [view.strides[a] for a in kept]
    candidates = [pairs] if in_order else [pairs, sorted(pairs, key=lambda pair: -abs(pair[0]))]
    extent = math.prod([view.shape[a] for a in axes])
    for each in candidates:
        if not extent or all([outer[0] == inner[0] * inner[1] for outer, inner in itertools.pairwise(each)]):
            step = each[-1][0] if each else 1
            return as_strided(view, (*extents, extent), (*strides, step))
    return None


def with_reduced_axis(view: TensorRef, *, shape: Shape, axes: tuple[int, ...], keeps: bool) -> TensorRef:
    """A result with a last axis of extent 1 for the reduced axes."""
    kept = [a for a in range(len(shape)) if a not in axes]
    strides = [view.strides[a] for a in kept] if keeps else list(view.strides)
    return as_strided(view, (*[shape[a] for a in kept], 1), (*strides, 1))


def _broadcast(view: TensorRef, *, shape: Shape, axes: tuple[int, ...], keeps: bool, last: bool) -> TensorRef | None:
    """A result broadcast (stride 0) along the reduced axes; None if it has a stride of 0 along another axis."""
    kept = [a for a in range(len(shape)) if a not in axes]
    strides = dict(zip(kept, [view.strides[a] for a in kept] if keeps else view.strides))
    if any([stride == 0 and shape[a] > 1 for a, stride in strides.items()]):
        return None
    order = [*kept, -1] if last else range(len(shape))
    return as_strided(view, tuple([shape[a] if a in strides else 1 for a in order]),
                  tuple([strides.get(a, 0) for a in order]))  # fmt: skip
