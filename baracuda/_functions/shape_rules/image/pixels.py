# SPDX-License-Identifier: Apache-2.0
"""Shape rules of pixels: images of bytes to planes and back, colours, and video frames."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from typing import Any

from baracuda._call.scalars import INT32_MAX, as_flag, as_integers, exceeds
from baracuda._functions.shape_rules.call_meta import CallMeta, Shape, check_shape, dense_as, if_contiguous, member
from baracuda._functions.spec import Spec
from baracuda.errors import InvalidProblemError
from baracuda.kinds import ColorConversion


def to_planes(spec: Spec, shapes: Mapping[str, Shape], numbers: Mapping[str, Any]) -> CallMeta:
    """crop is (top, left, height, width), or None for the whole image."""
    batch, source_h, source_w, channels = _of_rank(shapes["x"], "x", "(batch, height, width, channels)")
    part = (0, 0, source_h, source_w)
    if numbers["crop"] is not None:
        part = _part(numbers["crop"], source_h, source_w)
    top, left, height, width = part
    values = {
        "batch": batch, "source_h": source_h, "source_w": source_w, "channels": channels, "height": height,
        "width": width, "top": top, "left": left,
    }  # fmt: skip
    return _of_images(values, shapes, "x", shapes["x"], "y", (batch, channels, height, width))


def to_pixels(spec: Spec, shapes: Mapping[str, Shape], numbers: Mapping[str, Any]) -> CallMeta:
    batch, channels, height, width = _of_rank(shapes["y"], "y", "(batch, channels, height, width)")
    values = {"batch": batch, "channels": channels, "height": height, "width": width}
    return _of_images(values, shapes, "y", shapes["y"], "x", (batch, height, width, channels))


def _of_images(
    values: dict[str, Any], shapes: Mapping[str, Shape], source: str, given: Shape, result: str, made: Shape
) -> CallMeta:
    per_channel = (values["channels"],)
    for name in ("mean", "std"):
        if name in shapes:
            check_shape(name, shapes[name], per_channel)
    _check_extents(values)
    extents = {source: given, "mean": per_channel, "std": per_channel, result: made}
    return CallMeta(values, extents, {result: made}, op_views=dict.fromkeys(extents, if_contiguous))


def colors(spec: Spec, shapes: Mapping[str, Shape], numbers: Mapping[str, Any]) -> CallMeta:
    """Leading axes are images, and the two axes of an image are one of pixels."""
    given = shapes["x"]
    code = member(ColorConversion, "conversion", numbers["conversion"])
    before, after = (1 if code in each else 3 for each in (_FROM_GRAY, _TO_GRAY))
    is_last = as_flag("channels_last", numbers["channels_last"])
    axis = -1 if is_last else -3
    if len(given) < 3 or given[axis] != before:
        layout = f"(..., height, width, {before})" if is_last else f"(..., {before}, height, width)"
        raise InvalidProblemError(f"x has shape {given}, expected {layout} for {code.name.lower()}")
    spatial = given[-3:-1] if is_last else given[-2:]
    made = (*given[:-1], after) if is_last else (*given[:-3], after, *spatial)
    values = {"batch": math.prod(given[:-3]), "pixels": math.prod(spatial)}
    _check_extents({"batch": values["batch"]})
    extents = {"x": _flat(values, before), "y": _flat(values, after)}
    return CallMeta(values, extents, {"y": made}, op_views=_as_one_axis(extents))


_FROM_GRAY, _TO_GRAY = (ColorConversion.GRAY_TO_RGB,), (ColorConversion.RGB_TO_GRAY, ColorConversion.BGR_TO_GRAY)


def _flat(values: Mapping[str, int], channels: int) -> Shape:
    return (values["batch"], channels, values["pixels"])


def _as_one_axis(extents: Mapping[str, Shape]) -> dict[str, Any]:
    return {name: functools.partial(dense_as, shape) for name, shape in extents.items()}


def frames(spec: Spec, shapes: Mapping[str, Shape], numbers: Mapping[str, Any]) -> CallMeta:
    """Frames of 3 height / 2 rows."""
    given = shapes["x"]
    if len(given) < 2 or given[-2] % 3 or given[-1] % 2 or given[-2] // 3 * 2 % 2:
        raise InvalidProblemError(f"x has shape {given}, expected (..., 3 height / 2, width) of even height and width")
    height, width, batch = given[-2] // 3 * 2, given[-1], math.prod(given[:-2])
    values = {"batch": batch, "height": height, "width": width}
    _check_extents(values)
    is_last = as_flag("channels_last", numbers["channels_last"])
    made = (*given[:-2], height, width, 3) if is_last else (*given[:-2], 3, height, width)
    extents = {"x": (batch, *given[-2:]), "y": (batch, 3, height, width)}
    return CallMeta(values, extents, {"y": made}, op_views=_as_one_axis(extents))


def _of_rank(shape: Shape, name: str, layout: str) -> tuple[int, int, int, int]:
    if len(shape) != 4:
        raise InvalidProblemError(f"{name} has shape {shape}, expected {layout}")
    return shape[0], shape[1], shape[2], shape[3]


def _part(given: object, source_h: int, source_w: int) -> tuple[int, int, int, int]:
    part = as_integers("crop", given, 0, INT32_MAX)
    if len(part) != 4 or part[0] + part[2] > source_h or part[1] + part[3] > source_w:
        raise InvalidProblemError(
            f"crop is {given!r}, must be (top, left, height, width) inside of {source_h} x {source_w}"
        )
    return part[0], part[1], part[2], part[3]


def _check_extents(values: Mapping[str, int]) -> None:
    for name, value in values.items():
        if exceeds(INT32_MAX, value):
            raise InvalidProblemError(f"{name} is {value}, must be <= {INT32_MAX}")
