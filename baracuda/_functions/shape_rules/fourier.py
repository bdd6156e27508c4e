# SPDX-License-Identifier: Apache-2.0
"""Shape rules of Fourier transforms along axes, whose lengths crop or pad the array."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from baracuda._call.scalars import INT32_MAX, as_flag, as_integer, exceeds
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
