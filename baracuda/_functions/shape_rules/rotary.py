# SPDX-License-Identifier: Apache-2.0
"""Shape rules of rotary position embeddings."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from baracuda._call.scalars import INT32_MAX, as_integer, exceeds
from baracuda._functions.shape_rules.call_meta import CallMeta, Shape, as_strided, axis_of, check_shape, if_contiguous
from baracuda._functions.spec import Spec
from baracuda.errors import InvalidProblemError, UnsupportedError
from baracuda.tensor import TensorRef


def _pairs(name: str, shape: Shape, least: int) -> Shape:
    """The shape of the data, checked to have an even number of features."""
    if len(shape) < least or (shape[-1] % 2):
        raise InvalidProblemError(f"{name} has shape {shape}, must have {least} axes or more, and the last one even")
    if exceeds(INT32_MAX, *shape):
        raise UnsupportedError(f"{name} has shape {shape}: extents of more than {INT32_MAX} are not supported")
    return shape


def by_positions(spec: Spec, shapes: Mapping[str, Shape], numbers: Mapping[str, Any]) -> CallMeta:
    """x has two to four axes, the last of (batch, heads, seq, head_dim), and contiguous features."""
    given, result = spec.arrays[0].pointer, spec.outputs[0].pointer
    shape = _pairs(spec.arrays[0].name, shapes[spec.arrays[0].name], 2)
    if len(shape) > 4:
        raise UnsupportedError(f"{spec.arrays[0].name} has shape {shape}; at most four axes are supported")
    whole = (1,) * (4 - len(shape)) + shape
    values: dict[str, Any] = dict(zip(("batch", "heads", "seq", "head_dim"), whole))
    positions: Shape = (whole[2],)
    if any(param.name == "rotary_dim" for param in spec.row.params):
        part = numbers["rotary_dim"]
        values["rotary_dim"] = whole[3] if part is None else as_integer("rotary_dim", part, 0, whole[3])
        positions = (whole[0],) if "starts" in shapes else (whole[0], whole[2])
    for name in shapes.keys() & {"positions", "starts"}:
        check_shape(name, shapes[name], positions)

    def view_scalars(views: dict[str, TensorRef | None]) -> dict[str, Any]:
        return {"pos_default_flag": int(views["positions"] is None)}

    def op_views(view: TensorRef) -> TensorRef | None:
        if view.strides and view.strides[-1] != 1 and view.shape[-1] > 1:
            return None
        return as_strided(view, whole, (0,) * (4 - len(shape)) + view.strides[:-1] + (1,))

    is_strided = "rotary_dim" not in values
    rule = op_views if is_strided else (lambda view: as_strided(view, whole, _dense(whole)) if view.is_dense else None)
    extents = {given: whole, "positions": positions, "starts": positions, result: whole}
    stride_axes = {f"stride_{name}_{axis}": k for name in (given, result) for k, axis in enumerate("bhs")}
    rules = {given: rule, result: rule, "positions": if_contiguous, "starts": if_contiguous}
    return CallMeta(
        values, extents, {result: shape}, op_views=rules, stride_axes=stride_axes,
        view_scalars=view_scalars if is_strided else None,
    )  # fmt: skip


def _dense(shape: Shape) -> tuple[int, ...]:
    return tuple([math.prod(shape[axis + 1 :]) for axis in range(len(shape))])


def by_tables(spec: Spec, shapes: Mapping[str, Shape], numbers: Mapping[str, Any]) -> CallMeta:
    name, (given, result) = spec.arrays[0].name, (spec.arrays[0].pointer, spec.outputs[0].pointer)
    shape = _pairs(name, shapes[name], 2)
    tokens, d = shape[-2:]
    _has_features(name, shape)
    own, shared = (*shape[:-1], d // 2), (tokens, d // 2)
    tables = {a.name: shapes[a.name] for a in spec.arrays[1:]}
    shares = all([have == shared for have in tables.values()])
    for each, have in tables.items():
        if not shares and have != own:
            expected = " or ".join(map(str, dict.fromkeys((shared, own))))
            raise InvalidProblemError(f"{each} has shape {have}, expected {expected}")
    rows, td = math.prod(shape[:-2]), tokens * d
    if exceeds(INT32_MAX, rows, td):
        raise UnsupportedError(f"{name} has shape {shape}: more than {INT32_MAX} rows, or elements of each")
    values = {"bh": rows, "td": td, "d": d, "stride_b": 0 if shares else td // 2}
    table = (1, td // 2) if shares else (rows, td // 2)
    return _reshaped(spec, values, {given: (rows, td), "cos_tab": table, "sin_tab": table, result: (rows, td)}, shape)


def of_tokens(spec: Spec, shapes: Mapping[str, Shape], numbers: Mapping[str, Any]) -> CallMeta:
    name, (given, result) = spec.arrays[0].name, (spec.arrays[0].pointer, spec.outputs[0].pointer)
    shape = _pairs(name, shapes[name], 3)
    if len(shape) > 3:
        raise InvalidProblemError(f"{name} has shape {shape}, expected (tokens, heads, d)")
    _has_features(name, shape)
    tokens, heads, d = shape
    tables = {a.name: shapes[a.name] for a in spec.arrays[1:]}
    shares = all([len(have) == 1 and have == (d // 2,) for have in tables.values()])
    for each, have in tables.items():
        if not shares and have != (tokens, d // 2):
            raise InvalidProblemError(f"{each} has shape {have}, expected {(tokens, d // 2)} or {(d // 2,)}")
    values = {"t_outer": tokens, "h_heads": heads, "d": d, "stride_b": 0 if shares else d // 2}
    table = (1 if shares else tokens, d // 2)
    return _reshaped(spec, values, {given: shape, "cos_tab": table, "sin_tab": table, result: shape}, shape)


def of_sums(spec: Spec, shapes: Mapping[str, Shape], numbers: Mapping[str, Any]) -> CallMeta:
    """Gradients of the tables: sums over all axes but that of positions and the last."""
    shape = _pairs("dy", shapes["dy"], 2)
    _has_features("dy", shape)
    check_shape("x", shapes["x"], shape)
    axis = axis_of("places_axis", numbers["places_axis"], shape)
    if axis == len(shape) - 1:
        raise InvalidProblemError(f"places_axis is {numbers['places_axis']}, that of the features")
    outer, inner = math.prod(shape[:axis]), math.prod(shape[axis + 1 : -1])
    values = {"outer": outer, "places": shape[axis], "inner": inner, "d": shape[-1]}
    if exceeds(INT32_MAX, outer, inner):
        raise UnsupportedError(f"dy has shape {shape}: more than {INT32_MAX} rows")
    whole, table = (outer, shape[axis], inner, shape[-1]), (shape[axis], shape[-1] // 2)

    def rule(view: TensorRef) -> TensorRef | None:
        return as_strided(view, whole, _dense(whole)) if view.is_dense else None

    extents = {"dy": whole, "x": whole, "dcos": table, "dsin": table}
    results: dict[str, Shape] = {each.pointer: table for each in spec.outputs}
    return CallMeta(
        values, extents, results, op_views={"dy": rule, "x": rule, "dcos": if_contiguous, "dsin": if_contiguous}
    )


def _has_features(name: str, shape: Shape) -> None:
    if not shape[-1]:
        raise InvalidProblemError(f"{name} has shape {shape}, must have features")


def _reshaped(spec: Spec, values: dict[str, Any], extents: dict[str, Shape], shape: Shape) -> CallMeta:
    """Row-major operands, which C takes in other shapes."""

    def rule(whole: Shape) -> Any:
        return lambda view: as_strided(view, whole, _dense(whole)) if view.is_dense else None

    result = spec.outputs[0].pointer
    return CallMeta(values, extents, {result: shape}, op_views={name: rule(whole) for name, whole in extents.items()})
