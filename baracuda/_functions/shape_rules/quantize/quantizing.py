# SPDX-License-Identifier: Apache-2.0
"""Shape rules of affine quantisation: scales of a tensor, of channels, tokens and groups; products of codes."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from typing import Any

from baracuda._call.scalars import INT32_MAX, exceeds
from baracuda._functions.shape_rules.call_meta import CallMeta, Shape, axis_of, check_shape, dense_as
from baracuda._functions.spec import Spec
from baracuda.errors import InvalidProblemError, UnsupportedError

_CODES = ("q",)
_SCALES = ("scale", "zero_point", "dscale", "dzero_point")


def _is_packed(spec: Spec) -> bool:
    return spec.name.endswith(("_s4", "_u4"))


def _whole(spec: Spec, shapes: Mapping[str, Shape]) -> Shape:
    """The shape of x, which that of codes tells if there is no x; two codes of 4 bits are one byte."""
    if "q" not in shapes:
        return shapes.get("x", shapes.get("dy", ()))
    q = shapes["q"]
    if not _is_packed(spec):
        return q
    if not q:
        raise InvalidProblemError("q has shape (), must have an axis of bytes")
    return (*q[:-1], 2 * q[-1])


def _packed(shape: Shape) -> Shape:
    if not shape or shape[-1] % 2:
        raise InvalidProblemError(f"x has shape {shape}, must be even along the last axis: codes are two a byte")
    return (*shape[:-1], shape[-1] // 2)


def _meta(spec: Spec, values: dict[str, Any], whole: Shape, scales: Shape, shapes: Mapping[str, Shape]) -> CallMeta:
    """A row with operands like x, codes, and scales, which C takes as they are in memory."""
    if exceeds(INT32_MAX, *[value for name, value in values.items() if name != "numel" and isinstance(value, int)]):
        raise UnsupportedError(f"x has shape {whole}: extents of more than {INT32_MAX} are not supported")
    for name in ("x", "dy"):
        if name in shapes:
            check_shape(name, shapes[name], whole)
    own: dict[str, Shape] = {}
    for param in spec.row.pointers:
        is_scale = param.name in _SCALES and bool(scales or spec.row.pattern.find("per_tensor") < 0)
        own[param.name] = scales if is_scale else _packed(whole) if param.name in _CODES and _is_packed(spec) else whole
    count = math.prod(scales)
    extents: dict[str, Shape] = {}
    for param in spec.row.pointers:
        if param.name in _SCALES:
            extents[param.name] = (count,)
        elif param.shape == "bytes":
            extents[param.name] = (math.prod(own[param.name]),)
        elif param.shape == "numel":
            extents[param.name] = (math.prod(whole),)
        else:
            extents[param.name] = (math.prod(whole[:-1]), whole[-1])
    views = {name: functools.partial(dense_as, shape) for name, shape in extents.items()}
    return CallMeta(values, extents, {out.pointer: own[out.pointer] for out in spec.outputs}, op_views=views)


def of_tensor(spec: Spec, shapes: Mapping[str, Shape], numbers: Mapping[str, Any]) -> CallMeta:
    whole = _whole(spec, shapes)
    return _meta(spec, {"numel": math.prod(whole)}, whole, (), shapes)


def of_channels(spec: Spec, shapes: Mapping[str, Shape], numbers: Mapping[str, Any]) -> CallMeta:
    """One scale for all, or one for each index along axis."""
    whole, scale = _whole(spec, shapes), shapes["scale"]
    if len(scale) < 2 and math.prod(scale) == 1:
        first, last = whole[:1] or (1,), whole[-1:] if len(whole) > 1 else (1,)
        shape4, axis = (1, *first, math.prod(whole[1:-1]), *last), 0
    else:
        along = axis_of("axis", numbers["axis"], whole)
        check_shape("scale", scale, (whole[along],))
        behind = whole[along + 1 :]
        shape4 = (math.prod(whole[:along]), whole[along], math.prod(behind[:1]), math.prod(behind[1:]))
        axis = 1
    if "zero_point" in shapes:
        check_shape("zero_point", shapes["zero_point"], scale)
    if exceeds(INT32_MAX, *shape4):
        raise UnsupportedError(f"x has shape {whole}: extents of more than {INT32_MAX} are not supported")
    values = {"numel": math.prod(whole), "shape4": shape4, "axis": axis}
    return _meta(spec, values, whole, scale, shapes)


def of_tokens(spec: Spec, shapes: Mapping[str, Shape], numbers: Mapping[str, Any]) -> CallMeta:
    """Scales of the shape of x without its last axis."""
    whole = _whole(spec, shapes)
    if not whole:
        raise InvalidProblemError("x has shape (), must have an axis of a token")
    for name in ("scale", "zero_point"):
        if name in shapes:
            check_shape(name, shapes[name], whole[:-1])
    return _meta(spec, {"n": math.prod(whole[:-1]), "d": whole[-1]}, whole, whole[:-1], shapes)


def of_groups(spec: Spec, shapes: Mapping[str, Shape], numbers: Mapping[str, Any]) -> CallMeta:
    """Scales of the shape of x with fewer elements along the last axis, each of which serves a group."""
    whole, scale = _whole(spec, shapes), shapes["scale"]
    if not whole or len(scale) != len(whole) or scale[:-1] != whole[:-1] or not scale[-1] or whole[-1] % scale[-1]:
        raise InvalidProblemError(
            f"scale has shape {scale}, expected that of x, {whole}, with a divisor of its last extent"
        )
    if "zero_point" in shapes:
        check_shape("zero_point", shapes["zero_point"], scale)
    size = whole[-1] // scale[-1]
    values = {"outer": math.prod(whole[:-1]), "axis_size": whole[-1], "group_size": size if size > 0 else 1}
    return _meta(spec, values, whole, scale, shapes)


# --- products ---------------------------------------------------------------------------------------------------------


def _count(name: str, shapes: Mapping[str, Shape], extent: int, lacks: int) -> int:
    """The elements of an array of scales or zero points: one, or one for each row or column."""
    if name not in shapes:
        return lacks
    have = shapes[name]
    count = math.prod(have)
    if count != 1 and count != extent:
        raise InvalidProblemError(f"{name} has shape {have}, must have 1 or {extent} elements")
    return count


def linear(spec: Spec, shapes: Mapping[str, Shape], numbers: Mapping[str, Any]) -> CallMeta:
    """a is (..., k), weight is (n, k)."""
    a, weight = shapes["a"], shapes["weight"]
    if not a or len(weight) != 2 or weight[1] != a[-1]:
        raise InvalidProblemError(f"a has shape {a} and weight {weight}, expected (..., k) and (n, k)")
    m, n, k = math.prod(a[:-1]), weight[0], a[-1]
    if "bias" in shapes:
        check_shape("bias", shapes["bias"], (n,))
    values = {
        "m": m, "n": n, "k": k, "a_scales": _count("a_scale", shapes, m, 1), "a_zeros": _count("a_zero", shapes, m, 0),
        "weight_scales": _count("weight_scale", shapes, n, 1), "weight_zeros": _count("weight_zero", shapes, n, 0),
    }  # fmt: skip
    return _product(spec, values, (m, k), (n, k), (m, n), (*a[:-1], n))


def product(spec: Spec, shapes: Mapping[str, Shape], numbers: Mapping[str, Any]) -> CallMeta:
    """a is (..., k), b is (k, n)."""
    a, b = shapes["a"], shapes["b"]
    if not a or len(b) != 2 or b[0] != a[-1]:
        raise InvalidProblemError(f"a has shape {a} and b {b}, expected (..., k) and (k, n)")
    m, n, k = math.prod(a[:-1]), b[1], a[-1]
    values: dict[str, Any] = {"m": m, "n": n, "k": k, "layout": 0}
    for name, extent in (("a", m), ("b", n)):
        values[f"{name}_zeros"] = _count(f"{name}_zero", shapes, extent, 0)
        if any(param.name == f"{name}_scales" for param in spec.row.params):
            values[f"{name}_scales"] = _count(f"{name}_scale", shapes, extent, 1)
    for name in ("y_scale", "y_zero"):
        _count(name, shapes, 1, 0)
    return _product(spec, values, (m, k), (k, n), (m, n), (*a[:-1], n))


def _product(spec: Spec, values: dict[str, Any], a: Shape, b: Shape, y: Shape, result: Shape) -> CallMeta:
    if exceeds(INT32_MAX, *values.values()):
        raise UnsupportedError(f"the product is {y} of {a[1]} summands: more than {INT32_MAX} are not supported")
    extents: dict[str, Shape] = {}
    for param in spec.row.pointers:
        count = 1 if param.shape == "1" else values.get(param.shape, values["n"])
        named = {"a": a, "weight": b, "b": b, "y": y}
        extents[param.name] = named.get(param.name, (count,))
    views = {name: functools.partial(dense_as, shape) for name, shape in extents.items()}
    return CallMeta(values, extents, {out.pointer: result for out in spec.outputs}, op_views=views)
