# SPDX-License-Identifier: Apache-2.0
"""Shape rule of convolution: x, weight and y of one to three spatial axes, channels before or behind these."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from baracuda._call.scalars import INT32_MAX, as_flag, as_integer, exceeds
from baracuda._functions.shape_rules.call_meta import CallMeta, Shape, check_shape, if_contiguous
from baracuda._functions.shape_rules.copies import each_of
from baracuda._functions.spec import Spec
from baracuda.errors import InvalidProblemError, UnsupportedError

# Number -> C's name and its least value.
_ENTRIES = {
    "stride": ("steps", 1), "padding": ("padding", 0), "padding_after": ("padding_after", 0),
    "dilation": ("dilation", 1), "output_padding": ("output_padding", 0),
}  # fmt: skip


def by_axes(spec: Spec, shapes: Mapping[str, Shape], numbers: Mapping[str, Any]) -> CallMeta:
    """x of the functions, and of their gradients dy and x; a transposed convolution has no windows but is spread."""
    x, weight = shapes["x"], shapes["weight"]
    rank = len(x)
    if not 3 <= rank <= 5 or len(weight) != rank:
        raise InvalidProblemError(
            f"x has shape {x} and weight {weight}: both must have a batch or outputs, channels and the same one to "
            "three spatial axes"
        )
    is_last = bool(as_flag("channels_last", numbers["channels_last"]))
    groups = as_integer("groups", numbers["groups"], 1, INT32_MAX)
    at, spatial = (rank - 1, slice(1, rank - 1)) if is_last else (1, slice(2, rank))
    of = {
        c_name: each_of(name, numbers[name], low, rank - 2)
        for name, (c_name, low) in _ENTRIES.items()
        if name in numbers
    }
    if "output_padding" in of:
        channels, extents = _spread(x, weight, at, spatial, groups, of)
    else:
        channels, extents = _windows(x, weight, at, spatial, groups, of)
    y = (x[0], *extents, channels) if is_last else (x[0], channels, *extents)
    if exceeds(INT32_MAX, *x, *weight, *y):
        raise UnsupportedError(f"x has shape {x}, the result {y}: extents of more than {INT32_MAX} are not supported")
    for name, expected in (("dy", y), ("bias", (channels,)), ("scale", (channels,))):
        if name in shapes:
            check_shape(name, shapes[name], expected)
    values = {"rank": rank, "input_shape": x, "filter_shape": weight, "groups": groups, **of}
    values |= {
        name: 1 if name == "alpha" else 0 for name in ("alpha", "beta") if name not in numbers and name in _names(spec)
    }
    shaped = {"x": x, "w": weight, "y": y, "dy": y, "dx": x, "dw": weight, "c": y, "z": y}
    shaped |= dict.fromkeys(("bias", "dbias", "scale"), (channels,))
    views = {param.name: if_contiguous for param in spec.row.pointers}
    results = {out.pointer: shaped[out.pointer] for out in spec.outputs}
    return CallMeta(values, shaped, results, op_views=views)


def _names(spec: Spec) -> set[str]:
    return {param.name for param in spec.row.params}


def _windows(
    x: Shape, weight: Shape, at: int, spatial: slice, groups: int, of: Mapping[str, Sequence[int]]
) -> tuple[int, tuple[int, ...]]:
    """Channels and spatial extents of the result of a convolution."""
    if x[at] != groups * weight[at] or weight[0] % groups:
        raise InvalidProblemError(
            f"x has shape {x} and weight {weight}: with groups {groups} x must have {groups} * {weight[at]} channels, "
            f"and groups must divide the {weight[0]} outputs"
        )
    extents = []
    each = zip(x[spatial], weight[spatial], of["steps"], of["padding"], of["padding_after"], of["dilation"])
    for extent, taps, step, before, after, dilation in each:
        slack = extent + before + after - dilation * (taps - 1) - 1
        if taps < 1 or slack < 0:
            raise InvalidProblemError(
                f"weight has shape {weight}: {taps} taps with dilation {dilation} do not fit into x of shape {x} with "
                f"padding {before} and {after}"
            )
        extents.append(slack // step + 1)
    return weight[0], tuple(extents)


def _spread(
    x: Shape, weight: Shape, at: int, spatial: slice, groups: int, of: Mapping[str, Sequence[int]]
) -> tuple[int, tuple[int, ...]]:
    """Channels and spatial extents of the result of a transposed convolution."""
    if x[at] != weight[0] or weight[0] % groups:
        raise InvalidProblemError(
            f"x has shape {x} and weight {weight}: x must have {weight[0]} channels, a multiple of groups, {groups}"
        )
    extents = []
    each = zip(x[spatial], weight[spatial], of["steps"], of["padding"], of["padding_after"], of["dilation"],
               of["output_padding"])  # fmt: skip
    for extent, taps, step, before, after, dilation, more in each:
        if more >= max(step, dilation):
            raise InvalidProblemError(
                f"output_padding is {more}, must be less than the larger of stride {step} and dilation {dilation}"
            )
        found = (extent - 1) * step - before - after + dilation * (taps - 1) + more + 1
        if taps < 1 or extent < 1 or found < 1:
            raise InvalidProblemError(
                f"x has shape {x} and weight {weight}: the result would have an extent of {found}"
            )
        extents.append(found)
    return weight[at] * groups, tuple(extents)
