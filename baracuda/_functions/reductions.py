"""Layouts of reductions and their gradients. The axes that are reduced become one, the last one that the op sees."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from baracuda._functions.layout import Layout, See, Shape, axes_of, check_shape, viewed
from baracuda._functions.spec import Spec
from baracuda._scalars import INT32_MAX, as_flag, as_integers, at_least, exceeds
from baracuda.errors import InvalidProblemError, UnsupportedError
from baracuda.tensor import TensorRef


def along_axes(spec: Spec, shapes: Mapping[str, Shape], numbers: Mapping[str, Any]) -> Layout:
    shape = shapes["x"]
    kept, axes, result = _parts(shape, numbers)
    extent, extents = math.prod([shape[a] for a in axes]), tuple([shape[a] for a in kept])
    is_place = spec.row.pattern.startswith("arg_")
    if is_place and numbers["axis"] is not None and len(axes) != 1:
        raise InvalidProblemError(f"axis is {numbers['axis']!r}, must be one axis, or None for all")
    if exceeds(INT32_MAX, extent):
        raise UnsupportedError(
            f"x has {extent} elements along axis {numbers['axis']!r}; at most {INT32_MAX} are supported"
        )
    values = {
        "output_numel": math.prod(extents), "rank": len(kept) + 1, "output_shape": (*extents, 1),
        "reduce_axis": len(kept), "reduce_extent": extent,
    }  # fmt: skip
    seen: dict[str, See] = {
        "x": functools.partial(_merged, kept=kept, axes=axes, in_order=is_place),
        "y": functools.partial(_shrunk, shape=shape, axes=axes, keeps=len(result) == len(shape)),
    }
    return Layout(
        values, {"x": (*extents, extent), "y": (*extents, 1)}, {"y": result}, seen=seen, orders={"x": (*kept, *axes)},
        steps={"reduce_stride_x": len(kept)},
    )  # fmt: skip


def over_axes(spec: Spec, shapes: Mapping[str, Shape], numbers: Mapping[str, Any]) -> Layout:
    """Any axes, wherever they are."""
    shape = shapes["x"]
    _, axes, result = _parts(shape, numbers)
    results = tuple([1 if a in axes else extent for a, extent in enumerate(shape)])
    values = {
        "numel": math.prod(shape), "rank": len(shape), "shape": shape, "reduce_axes_mask": sum([1 << a for a in axes])
    }  # fmt: skip
    outputs = [param.name for param in spec.row.pointers if param.is_output]
    put_back = functools.partial(_still, shape=shape, axes=axes, keeps=len(result) == len(shape), last=False)
    extents = {"x": shape} | dict.fromkeys(outputs, results)
    return Layout(values, extents, dict.fromkeys(outputs, result), seen=dict.fromkeys(outputs, put_back))


def gradient(spec: Spec, shapes: Mapping[str, Shape], numbers: Mapping[str, Any]) -> Layout:
    """The reduced axes are those along which dy and y stand still."""
    if "axis" not in numbers:
        return _gradient_of_shape(spec, shapes)
    shape = shapes["x"]
    kept, axes, result = _parts(shape, numbers)
    extent = math.prod([shape[a] for a in axes])
    for name in ("dy", "y"):
        if name in shapes:
            check_shape(name, shapes[name], result)
    keeps, of_rows = len(result) == len(shape), any(p.name == "reduce_extent" for p in spec.row.params)
    values: dict[str, Any] = {"numel": math.prod(shape), "inv_extent": 1 / at_least(1, extent)}
    pointers = [param.name for param in spec.row.pointers]
    if of_rows:  # of one axis alone
        whole = (*[shape[a] for a in kept], extent)
        values |= {"rank": len(whole), "shape": whole, "reduce_axis": len(kept), "reduce_extent": extent}
        large = functools.partial(_merged, kept=kept, axes=axes, in_order=True)  # the same one of x and dx
        small = functools.partial(_still, shape=shape, axes=axes, keeps=keeps, last=True)
        seen = {name: large if name in ("x", "dx") else small for name in pointers}
        orders = dict.fromkeys(("x", "dx"), (*kept, *axes))
        steps = {"reduce_stride_x": len(kept)}
    else:
        whole, orders, steps = shape, {}, {}
        values |= {"rank": len(shape), "shape": shape}
        small = functools.partial(_still, shape=shape, axes=axes, keeps=keeps, last=False)
        seen = dict.fromkeys(("dy", "y"), small)
    return Layout(values, dict.fromkeys(pointers, whole), {"dx": shape}, seen=seen, orders=orders, steps=steps)


def _gradient_of_shape(spec: Spec, shapes: Mapping[str, Shape]) -> Layout:
    """Of a reduction to the shape of dy."""
    shape, size = shapes["x"], shapes["dy"]
    padded = (1,) * (len(shape) - len(size)) + size
    if len(padded) != len(shape) or any([have not in (1, want) for have, want in zip(padded, shape)]):
        raise InvalidProblemError(f"dy has shape {size}, which does not broadcast to the shape of x, {shape}")
    if "y" in shapes:
        check_shape("y", shapes["y"], size)
    axes = tuple([a for a, (have, want) in enumerate(zip(padded, shape)) if have != want])
    extent = math.prod([shape[a] for a in axes])
    values = {"numel": math.prod(shape), "rank": len(shape), "shape": shape, "inv_extent": 1 / at_least(1, extent)}

    def small(view: TensorRef) -> TensorRef | None:
        wide = viewed(view, padded, (*[0] * (len(shape) - len(size)), *view.strides))
        return _still(wide, shape=shape, axes=axes, keeps=True, last=False)

    pointers = [param.name for param in spec.row.pointers]
    return Layout(values, dict.fromkeys(pointers, shape), {"dx": shape}, seen=dict.fromkeys(("dy", "y"), small))


def to_shape(spec: Spec, shapes: Mapping[str, Shape], numbers: Mapping[str, Any]) -> Layout:
    shape, given = shapes["x"], numbers["size"]
    size = as_integers("size", (given,) if isinstance(given, (int, np.integer)) else given, 0, INT32_MAX)
    padded = (1,) * (len(shape) - len(size)) + size
    if len(padded) != len(shape) or any([want not in (1, have) for want, have in zip(padded, shape)]):
        raise InvalidProblemError(f"size is {size}, which does not broadcast to the shape of x, {shape}")
    values = {"input_shape": shape, "rank_in": len(shape), "output_shape": padded}
    return Layout(values, {"src": shape, "dst": padded}, {"dst": size})


def trace(spec: Spec, shapes: Mapping[str, Shape], numbers: Mapping[str, Any]) -> Layout:
    """Of the square that begins where x does."""
    shape = shapes["x"]
    if len(shape) != 2:
        raise InvalidProblemError(f"x has shape {shape}, must have two axes")
    square = (min(shape),) * 2
    steps = {"stride_row": 0, "stride_col": 1}
    seen = {"x": lambda view: viewed(view, square, view.strides)}
    return Layout({"rows": square[0]}, {"x": square, "y": ()}, {"y": ()}, seen=seen, steps=steps)


def trace_gradient(spec: Spec, shapes: Mapping[str, Shape], numbers: Mapping[str, Any]) -> Layout:
    shape = shapes["x"]
    if len(shape) != 2:
        raise InvalidProblemError(f"x has shape {shape}, must have two axes")
    if math.prod(shapes["dy"]) != 1:
        raise InvalidProblemError(f"dy has shape {shapes['dy']}, must have one element")
    return Layout({"rows": shape[0], "columns": shape[1]}, {"dy": shapes["dy"], "dx": shape}, {"dx": shape})


def _parts(shape: Shape, numbers: Mapping[str, Any]) -> tuple[tuple[int, ...], tuple[int, ...], Shape]:
    """(the axes that stay, those that are reduced, the shape of the result)"""
    axes, keepdims = axes_of("axis", numbers["axis"], shape), as_flag("keepdims", numbers["keepdims"])
    kept = tuple([a for a in range(len(shape)) if a not in axes])
    result = tuple([1 if a in axes else e for a, e in enumerate(shape) if keepdims or a not in axes])
    return kept, axes, result


def _merged(view: TensorRef, *, kept: tuple[int, ...], axes: tuple[int, ...], in_order: bool) -> TensorRef | None:
    """The reduced axes as one behind the others; None where they do not lie as one. `in_order`: in row-major order."""
    pairs = [(view.strides[a], view.shape[a]) for a in axes if view.shape[a] != 1]
    extents, strides = [view.shape[a] for a in kept], [view.strides[a] for a in kept]
    tries = [pairs] if in_order else [pairs, sorted(pairs, key=lambda pair: -abs(pair[0]))]
    extent = math.prod([view.shape[a] for a in axes])
    for each in tries:
        if not extent or all([outer[0] == inner[0] * inner[1] for outer, inner in itertools.pairwise(each)]):
            step = each[-1][0] if each else 1
            return viewed(view, (*extents, extent), (*strides, step))
    return None


def _shrunk(view: TensorRef, *, shape: Shape, axes: tuple[int, ...], keeps: bool) -> TensorRef:
    """A result with one axis of extent 1 behind the others in the place of what was reduced."""
    kept = [a for a in range(len(shape)) if a not in axes]
    strides = [view.strides[a] for a in kept] if keeps else list(view.strides)
    return viewed(view, (*[shape[a] for a in kept], 1), (*strides, 1))


def _still(view: TensorRef, *, shape: Shape, axes: tuple[int, ...], keeps: bool, last: bool) -> TensorRef | None:
    """A result that stands still along what was reduced; None for one that does along another axis."""
    kept = [a for a in range(len(shape)) if a not in axes]
    strides = dict(zip(kept, [view.strides[a] for a in kept] if keeps else view.strides))
    if any([stride == 0 and shape[a] > 1 for a, stride in strides.items()]):
        return None
    places = [*kept, -1] if last else range(len(shape))
    return viewed(view, tuple([shape[a] if a in strides else 1 for a in places]),
                  tuple([strides.get(a, 0) for a in places]))  # fmt: skip
