# SPDX-License-Identifier: Apache-2.0
"""Shape rules of ops that copy elements (flip, roll, permute, pad ...), and the gradient of negative pads."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from baracuda._call.scalars import INT32_MAX, INT32_MIN, as_integer, as_integers, at_least
from baracuda._functions.shape_rules.call_meta import CallMeta, Shape, as_strided, axes_of, axis_of, check_shape
from baracuda._functions.spec import Spec
from baracuda.errors import InvalidProblemError, naming
from baracuda.tensor import TensorRef


def flip(spec: Spec, shapes: Mapping[str, Shape], numbers: Mapping[str, Any]) -> CallMeta:
    shape = shapes["x"]
    axes = axes_of("axis", numbers["axis"], shape)
    return _same_shape(shape, {"flip_axes": tuple([int(d in axes) for d in range(len(shape))])})


def roll(spec: Spec, shapes: Mapping[str, Shape], numbers: Mapping[str, Any]) -> CallMeta:
    """axis of None rolls the flattened array."""
    shape = shapes["x"]
    shifts = as_tuple("shifts", numbers["shifts"], INT32_MIN)
    if numbers["axis"] is None:
        if len(shifts) != 1:
            raise InvalidProblemError(f"shifts is {numbers['shifts']!r}, must be one number where axis is None")
        layout = _same_shape((math.prod(shape),), {"shifts": shifts})
        layout.shapes = {"y": shape}
        layout.op_views = {"x": _flat, "y": _flat}
        return layout
    given = numbers["axis"]
    axes = [axis_of("axis", axis, shape) for axis in (given if isinstance(given, (tuple, list)) else (given,))]
    if len(shifts) not in (1, len(axes)):
        raise InvalidProblemError(
            f"shifts is {numbers['shifts']!r}, must be one number or one for each of axis {given!r}"
        )
    by = [0] * len(shape)
    for axis, shift in zip(axes, shifts * len(axes) if len(shifts) == 1 else shifts):
        by[axis] = (by[axis] + shift) % at_least(1, shape[axis])
    return _same_shape(shape, {"shifts": tuple(by)})


def permute(spec: Spec, shapes: Mapping[str, Shape], numbers: Mapping[str, Any]) -> CallMeta:
    shape, given = shapes["x"], numbers["dims"]
    dims = tuple([axis_of("dims", d, shape) for d in given]) if _is_sequence(given) else ()
    if len(set(dims)) != len(shape) or len(dims) != len(shape):
        raise InvalidProblemError(f"dims is {given!r}, must be a permutation of the axes of shape {shape}")
    permuted = tuple([shape[d] for d in dims])
    values = {"input_numel": math.prod(shape), "rank": len(shape), "input_shape": shape, "dims": dims}
    return CallMeta(values, {"x": shape, "y": permuted}, {"y": permuted})


def triangle(spec: Spec, shapes: Mapping[str, Shape], numbers: Mapping[str, Any]) -> CallMeta:
    shape = shapes["x"]
    if len(shape) < 2:
        raise InvalidProblemError(f"x has shape {shape}, must have at least two axes")
    return CallMeta({"rank": len(shape), "shape": shape}, {"input": shape, "output": shape}, {"output": shape})


def pad(spec: Spec, shapes: Mapping[str, Shape], numbers: Mapping[str, Any]) -> CallMeta:
    """pad_low and pad_high: a number for each axis, or one for all; negative ones crop."""
    ((name, shape),) = shapes.items()
    widths = []
    for side in ("pad_low", "pad_high"):
        each = as_tuple(side, numbers[side], INT32_MIN)
        if len(each) not in (1, len(shape)):
            raise InvalidProblemError(
                f"{side} is {numbers[side]!r}, must be one number or one for each axis of {shape}"
            )
        widths.append(each * len(shape) if len(each) == 1 and len(shape) != 1 else each[: len(shape)])
    low, high = widths
    if name == "dy":
        small, large = tuple([e - lo - hi for e, lo, hi in zip(shape, low, high)]), shape
        if any([extent < 0 for extent in small]):
            raise InvalidProblemError(f"dy has shape {shape}, less than pad_low {low} and pad_high {high}")
    else:
        small, large = shape, tuple([e + lo + hi for e, lo, hi in zip(shape, low, high)])
    if any([extent < 0 for extent in large]):
        raise InvalidProblemError(f"x has shape {shape}, of which pad_low {low} and pad_high {high} crop more than all")
    values = {
        "rank": len(shape), "input_shape": small, "output_shape": large, "pad_low": low,
        "input_numel": math.prod(small), "output_numel": math.prod(large),
    }  # fmt: skip
    extents = {"x": small, "dx": small, "y": large, "dy": large}
    return CallMeta(values, extents, {out.pointer: extents[out.pointer] for out in spec.outputs})


def concat(spec: Spec, shapes: Mapping[str, Shape], numbers: Mapping[str, Any]) -> CallMeta:
    if "dy" in shapes:
        whole = shapes["dy"]
        axis = axis_of("axis", numbers["axis"], whole)
        split = as_integer("split_offset", numbers["split_offset"], 0, whole[axis])
        halves = _replaced(whole, axis, split), _replaced(whole, axis, whole[axis] - split)
        extents = {"dy": whole, "da": halves[0], "db": halves[1]}
    else:
        first, second = shapes["a"], shapes["b"]
        axis = axis_of("axis", numbers["axis"], first)
        if len(first) != len(second) or _replaced(first, axis, 0) != _replaced(second, axis, 0):
            raise InvalidProblemError(f"b has shape {second}, must be that of a, {first}, but along axis {axis}")
        split, whole = first[axis], _replaced(first, axis, first[axis] + second[axis])
        extents = {"a": first, "b": second, "y": whole}
    values = {
        "output_numel": math.prod(whole), "rank": len(whole), "output_shape": whole, "concat_dim": axis,
        "split_offset": split,
    }  # fmt: skip
    return CallMeta(values, extents, {out.pointer: extents[out.pointer] for out in spec.outputs})


def unfold(spec: Spec, shapes: Mapping[str, Shape], numbers: Mapping[str, Any]) -> CallMeta:
    shape = shapes["x"]
    axis = axis_of("axis", numbers["axis"], shape)
    size = as_integer("size", numbers["size"], 1, INT32_MAX)
    step = as_integer("step", numbers["step"], 1, INT32_MAX)
    if size > shape[axis]:
        raise InvalidProblemError(f"size is {size}, must be at most {shape[axis]}, the extent of x along axis {axis}")
    windowed = (*_replaced(shape, axis, (shape[axis] - size) // step + 1), size)
    values = {
        "rank": len(shape), "input_shape": shape, "unfold_dim": axis, "window_size": size, "window_step": step,
        "input_numel": math.prod(shape), "output_numel": math.prod(windowed),
    }  # fmt: skip
    check_shape("dy", shapes.get("dy", windowed), windowed)
    extents = {"x": shape, "dx": shape, "y": windowed, "dy": windowed}
    return CallMeta(values, extents, {out.pointer: extents[out.pointer] for out in spec.outputs})


def image_windows(spec: Spec, shapes: Mapping[str, Shape], numbers: Mapping[str, Any]) -> CallMeta:
    """im2col and col2im: images [N, C, spatial] and columns [N, C * kernel elements, windows]."""
    is_col2im = "output_size" in numbers
    given = shapes["x"]
    if is_col2im:
        spatial = as_tuple("output_size", numbers["output_size"], 0)
        if len(given) != 3 or not 1 <= len(spatial) <= 3:
            raise InvalidProblemError(
                f"x has shape {given}, output_size is {spatial}: must be columns of three axes and one to three extents"
            )
    elif not 3 <= len(given) <= 5:
        raise InvalidProblemError(
            f"x has shape {given}, must have one to three axes behind those of batch and channels"
        )
    else:
        spatial = given[2:]
    of = {
        name: each_of(name, numbers[name], low, len(spatial))
        for name, low in (("kernel_size", 1), ("dilation", 1), ("padding", 0), ("stride", 1))
    }
    kernel_elements = math.prod(of["kernel_size"])
    channels = given[1] // kernel_elements if is_col2im else given[1]
    if is_col2im and channels * kernel_elements != given[1]:
        raise InvalidProblemError(
            f"x has shape {given}, its second axis must be a multiple of the {kernel_elements} elements of kernel_size"
        )
    windows = math.prod(
        [at_least(0, (e + 2 * p - d * (k - 1) - 1) // s + 1) for e, k, d, p, s in zip(spatial, *of.values())]
    )
    image, columns = (given[0], channels, *spatial), (given[0], channels * kernel_elements, windows)
    check_shape("x" if is_col2im else "dy", given if is_col2im else shapes.get("dy", columns), columns)
    values = {
        "rank": len(image), "input_shape": image, "kernel_size": of["kernel_size"], "dilation": of["dilation"],
        "padding": of["padding"], "steps": of["stride"], "input_numel": math.prod(image),
        "output_numel": math.prod(columns),
    }  # fmt: skip
    extents = {"x": image, "dx": image, "y": columns, "dy": columns}
    return CallMeta(values, extents, {out.pointer: extents[out.pointer] for out in spec.outputs})


def repeat_interleave(spec: Spec, shapes: Mapping[str, Shape], numbers: Mapping[str, Any]) -> CallMeta:
    """axis of None repeats the elements of the flattened array."""
    given, op_views = shapes["x"], {}
    times = as_integer("repeats", numbers["repeats"], 0, INT32_MAX)
    shape, axis = given, 0
    if numbers["axis"] is None:
        shape = (math.prod(given),)
        op_views = {"x": _flat, "dx": _flat}
    else:
        axis = axis_of("axis", numbers["axis"], shape)
    whole = _replaced(shape, axis, shape[axis] * times)
    values = {
        "rank": len(shape), "input_shape": shape, "repeat_dim": axis, "repeats": times,
        "input_numel": math.prod(shape), "output_numel": math.prod(whole),
    }  # fmt: skip
    check_shape("dy", shapes.get("dy", whole), whole)
    extents = {"x": shape, "dx": shape, "y": whole, "dy": whole}
    results = {"y": whole, "dx": given}
    return CallMeta(values, extents, {out.pointer: results[out.pointer] for out in spec.outputs}, op_views=op_views)


def _same_shape(shape: Shape, values: dict[str, Any]) -> CallMeta:
    known = {"numel": math.prod(shape), "rank": len(shape), "shape": shape}
    return CallMeta(known | values, {"x": shape, "y": shape}, {"y": shape})


def _is_sequence(given: object) -> bool:
    return isinstance(given, (tuple, list)) or (isinstance(given, np.ndarray) and given.ndim == 1)


def as_tuple(name: str, given: object, low: int) -> tuple[int, ...]:
    """A tuple of integers, from one number or a sequence."""
    if _is_sequence(given):
        return as_integers(name, given, low, INT32_MAX)
    return (as_integer(name, given, low, INT32_MAX),)


def each_of(name: str, given: object, low: int, count: int) -> tuple[int, ...]:
    """`count` integers, from a number for each axis or one for all."""
    each = as_tuple(name, given, low)
    if len(each) not in (1, count):
        raise InvalidProblemError(f"{name} is {given!r}, must be one number or one for each of {count} axes")
    return each * count if len(each) == 1 else each


def _replaced(shape: Shape, axis: int, extent: int) -> Shape:
    return (*shape[:axis], extent, *shape[axis + 1 :])


def _flat(view: TensorRef) -> TensorRef | None:
    return as_strided(view, (math.prod(view.shape),), (1,)) if view.is_dense else None


def with_negative_pads(backward_op: Callable[..., Any]) -> Callable[..., Any]:
    """pad_constant_backward for negative pads too, on top of the op, which slices dy. The gradient of cropped elements
    is 0: it is dy padded by the negated widths.
    """

    @functools.wraps(backward_op)
    def pad_constant_backward(dy: Any, pad_low: Any, pad_high: Any, *, out: Any = None) -> Any:
        from baracuda import functions

        with naming("pad_constant_backward"):
            low, high = as_tuple("pad_low", pad_low, INT32_MIN), as_tuple("pad_high", pad_high, INT32_MIN)
        if min((*low, *high), default=0) >= 0:
            return backward_op(dy, pad_low=pad_low, pad_high=pad_high, out=out)
        return functions.pad_constant(
            dy, pad_low=[-width for width in low], pad_high=[-width for width in high], out=out
        )

    return pad_constant_backward
