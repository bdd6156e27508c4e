# SPDX-License-Identifier: Apache-2.0
"""Shape rule of deformable columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from baracuda._call.scalars import INT32_MAX, as_integer, as_integers, at_least, exceeds
from baracuda._functions.shape_rules.call_meta import CallMeta, Shape, check_shape, if_contiguous
from baracuda._functions.spec import Spec
from baracuda.errors import InvalidProblemError


def columns(spec: Spec, shapes: Mapping[str, Shape], numbers: Mapping[str, Any]) -> CallMeta:
    """The number of offset groups follows from the channels of offset."""
    given, offset = shapes["input"], shapes["offset"]
    for name, shape in (("input", given), ("offset", offset)):
        if len(shape) != 4:
            raise InvalidProblemError(f"{name} has shape {shape}, must have 4 axes")
    batch, channels, height, width = given
    kernel, stride = pair_of("kernel_size", numbers["kernel_size"], 1), pair_of("stride", numbers["stride"], 1)
    padding, dilation = pair_of("padding", numbers["padding"], 0), pair_of("dilation", numbers["dilation"], 1)
    taps = kernel[0] * kernel[1]
    out = [
        at_least(0, (extent + 2 * p - d * (k - 1) - 1) // s + 1)
        for extent, k, s, p, d in zip((height, width), kernel, stride, padding, dilation)
    ]
    groups = offset[1] // (2 * taps)
    if groups < 1 or offset[1] != 2 * taps * groups or channels % groups:
        raise InvalidProblemError(
            f"offset has shape {offset}, must have 2 * groups * {taps} channels, where groups divide {channels}"
        )
    windows = (batch, channels * taps, out[0], out[1])
    pairs, factors = (batch, 2 * groups * taps, out[0], out[1]), (batch, groups * taps, out[0], out[1])
    check_shape("offset", offset, pairs)
    if "mask" in shapes:
        check_shape("mask", shapes["mask"], factors)
    if "dy" in shapes:
        check_shape("dy", shapes["dy"], windows)
    values: dict[str, Any] = {
        "batch": batch, "channels": channels, "height": height, "width": width, "kernel_h": kernel[0],
        "kernel_w": kernel[1], "out_h": out[0], "out_w": out[1], "stride_h": stride[0], "stride_w": stride[1],
        "pad_h": padding[0], "pad_w": padding[1], "dilation_h": dilation[0], "dilation_w": dilation[1],
        "offset_groups": groups,
    }  # fmt: skip
    for name, value in values.items():
        if exceeds(INT32_MAX, value):
            raise InvalidProblemError(f"{name} is {value}, must be <= {INT32_MAX}")
    extents = {
        "input": given, "dinput": given, "offset": pairs, "doffset": pairs, "mask": factors, "dmask": factors,
        "columns": windows, "dcolumns": windows,
    }  # fmt: skip
    return CallMeta(
        values, extents, {out.pointer: extents[out.pointer] for out in spec.outputs},
        op_views=dict.fromkeys(extents, if_contiguous),
    )  # fmt: skip


def pair_of(name: str, value: object, low: int) -> tuple[int, int]:
    """Numbers for both axes, from a pair or one number."""
    if not isinstance(value, (tuple, list)):
        one = as_integer(name, value, low, INT32_MAX)
        return one, one
    pair = as_integers(name, value, low, INT32_MAX)
    if len(pair) != 2:
        raise InvalidProblemError(f"{name} is {value!r}, must be one number or a pair")
    return pair[0], pair[1]
