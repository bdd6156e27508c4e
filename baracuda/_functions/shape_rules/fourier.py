# SPDX-License-Identifier: Apache-2.0
"""Shape rules of Fourier transforms along axes, whose lengths crop or pad the array."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from baracuda._call.scalars import INT32_MAX, INT32_MIN, as_flag, as_integer, exceeds
from baracuda._functions.shape_rules.call_meta import CallMeta, Shape, axes_of, axis_of
from baracuda._functions.spec import Spec
from baracuda.errors import InvalidProblemError, UnsupportedError


def along_axes(spec: Spec, shapes: Mapping[str, Shape], numbers: Mapping[str, Any]) -> CallMeta:
    """Real arrays, and those with a real result, have a half axis: the last of axes."""
    shape = shapes["x"]
    axes = _in_order(numbers["axes"], shape)
    params = {param.name for param in spec.row.params}
    onesided = "onesided" in params and bool(as_flag("onesided", numbers["onesided"]))
    is_inverse = "half_axis" in params and "length" not in params
    lengths = _lengths(numbers["lengths"], shape, axes, onesided and is_inverse)
    whole = list(shape)
    for axis, length in zip(axes, lengths):
        whole[axis] = length
    results = list(whole)
    if onesided and not is_inverse:
        results[axes[-1]] = lengths[-1] // 2 + 1
    if exceeds(INT32_MAX, *shape, *whole):
        raise UnsupportedError(f"x has shape {shape}, lengths are {lengths}: more than {INT32_MAX} is not supported")
    total = math.prod(lengths)
    normalization = as_integer("normalization", numbers["normalization"], 0, 2)
    flags = tuple([int(d in axes) for d in range(len(shape))])
    values = {"rank": len(shape), "input_shape": shape, "output_shape": tuple(results), "fourier_axes": flags}
    values["scale"] = (1.0, total**-0.5, 1.0 / total)[normalization]
    if "half_axis" in params:
        values["half_axis"] = axes[-1]
    if "length" in params:
        values["length"] = lengths[-1]
    return CallMeta(values, {"x": shape, "y": tuple(results)}, {"y": tuple(results)})


def _in_order(given: Any, shape: Shape) -> tuple[int, ...]:
    """The axes in the caller's order; all for None."""
    found = axes_of("axes", given, shape)
    if isinstance(given, (tuple, list)):
        found = tuple([axis_of("axes", axis, shape) for axis in given])
    if not found:
        raise InvalidProblemError(f"axes is {given!r}, must have one axis or more: the shape is {shape}")
    return found


def _lengths(given: Any, shape: Shape, axes: tuple[int, ...], is_half: bool) -> tuple[int, ...]:
    if given is None:
        own = [shape[axis] for axis in axes]
        if is_half:
            own[-1] = 2 * (own[-1] - 1)
        if any([length < 1 for length in own]):
            raise InvalidProblemError(f"lengths are {tuple(own)} along axes {axes} of shape {shape}, must be >= 1")
        return tuple(own)
    several = tuple(given) if isinstance(given, (tuple, list)) else (given,)
    if len(several) != len(axes):
        raise InvalidProblemError(f"lengths is {given!r}, must have one for each of axes {axes}")
    return tuple([as_integer("lengths", length, 1, INT32_MAX) for length in several])


def along_axis(spec: Spec, shapes: Mapping[str, Shape], numbers: Mapping[str, Any]) -> CallMeta:
    """Cosine and sine transforms."""
    shape = shapes["x"]
    axis = axis_of("axis", numbers["axis"], shape)
    kind = as_integer("kind", numbers["kind"], 1, 4)
    least = 2 if kind == 1 and not as_flag("is_sine", numbers["is_sine"]) else 1
    given = numbers["length"]
    length = shape[axis] if given is None else as_integer("length", given, least, INT32_MAX)
    if given is None and length < least:
        raise InvalidProblemError(f"x has shape {shape}, must have {least} elements or more along axis {axis}")
    whole = tuple([length if d == axis else extent for d, extent in enumerate(shape)])
    if exceeds(INT32_MAX, *shape, *whole):
        raise UnsupportedError(f"x has shape {shape}, more than {INT32_MAX} is not supported")
    values = {"rank": len(shape), "input_shape": shape, "output_shape": whole, "fourier_axis": axis}
    return CallMeta(values, {"x": shape, "y": whole}, {"y": whole})


def convolution(spec: Spec, shapes: Mapping[str, Shape], numbers: Mapping[str, Any]) -> CallMeta:
    """x and w have one rank; other axes broadcast."""
    x, w = shapes["x"], shapes["w"]
    if len(x) != len(w):
        raise InvalidProblemError(f"x has shape {x} and w {w}, must have as many axes")
    axes = _in_order(numbers["axes"], x)
    whole = [b if a == 1 else a for a, b in zip(x, w)]
    for d, (a, b) in enumerate(zip(x, w)):
        if d in axes:
            whole[d] = a + b - 1 if a and b else 0
        elif a != b and 1 not in (a, b):
            raise InvalidProblemError(f"x has shape {x} and w {w}, which do not broadcast along axis {d}")
    starts = [0] * len(x)
    for name, low, into in (("starts", INT32_MIN, starts), ("lengths", 0, whole)):
        given = numbers[name]
        if given is None:
            continue
        several = tuple(given) if isinstance(given, (tuple, list)) else (given,)
        if len(several) != len(axes):
            raise InvalidProblemError(f"{name} is {given!r}, must have one for each of axes {axes}")
        for axis, value in zip(axes, several):
            into[axis] = as_integer(name, value, low, INT32_MAX)
    if exceeds(INT32_MAX, *x, *w, *whole):
        raise UnsupportedError(f"x has shape {x}, w {w}: more than {INT32_MAX} is not supported")
    values = {
        "rank": len(x), "input_shape": x, "filter_shape": w, "output_shape": tuple(whole), "starts": tuple(starts),
        "fourier_axes": tuple([int(d in axes) for d in range(len(x))]),
    }  # fmt: skip
    return CallMeta(values, {"x": x, "w": w, "y": tuple(whole)}, {"y": tuple(whole)})
