# SPDX-License-Identifier: Apache-2.0
"""Shape rules of gather, scatter and masked ops. Operands that C indexes in row-major order become one axis."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from baracuda._call.scalars import INT32_MAX, INT64_MAX, as_integer
from baracuda._functions.shape_rules.call_meta import CallMeta, Shape, as_strided, axis_of, check_shape
from baracuda._functions.spec import Spec
from baracuda.errors import InvalidProblemError
from baracuda.tensor import TensorRef


def gather(spec: Spec, shapes: Mapping[str, Shape], numbers: Mapping[str, Any]) -> CallMeta:
    """x may be longer than the index along other axes than `axis`: the op reads its leading part."""
    x, index = shapes["x"], shapes["index"]
    axis = axis_of("axis", numbers["axis"], index)
    if len(x) != len(index) or any([have < want for d, (have, want) in enumerate(zip(x, index)) if d != axis]):
        raise InvalidProblemError(f"index has shape {index}, which does not fit x, of shape {x}, along axis {axis}")
    taken = _replaced(index, axis, x[axis])
    values = {"out_numel": math.prod(index), "rank": len(index), "gather_dim": axis, "out_shape": index}
    values["src_dim_size"] = as_integer(f"x has shape {x}: an extent", x[axis], 0, INT32_MAX)

    def leading_part(view: TensorRef) -> TensorRef:
        return as_strided(view, taken, view.strides)

    return CallMeta(
        values, {"src": taken, "index": index, "out": index}, {"out": index}, op_views={"src": leading_part}
    )


def select(spec: Spec, shapes: Mapping[str, Shape], numbers: Mapping[str, Any]) -> CallMeta:
    x, index = shapes["x"], shapes["index"]
    axis = axis_of("axis", numbers["axis"], x)
    if len(index) != 1:
        raise InvalidProblemError(f"index has shape {index}, must have one axis")
    out = _replaced(x, axis, index[0])
    values = {"out_numel": math.prod(out), "rank": len(out), "select_dim": axis, "out_shape": out}
    values["src_dim_size"] = as_integer(f"x has shape {x}: an extent", x[axis], 0, INT32_MAX)
    return CallMeta(values, {"src": x, "idx": index, "out": out}, {"out": out}, op_views={"idx": _flat})


def scatter(spec: Spec, shapes: Mapping[str, Shape], numbers: Mapping[str, Any]) -> CallMeta:
    """The op writes into zeros, or into the elements of `out`."""
    updates = shapes["updates"]
    check_shape("index", shapes["index"], updates)
    axis, size = axis_of("axis", numbers["axis"], updates), as_integer("size", numbers["size"], 0, INT32_MAX)
    out = _replaced(updates, axis, size)
    values = {
        "upd_numel": math.prod(updates), "rank": len(updates), "scatter_dim": axis, "out_dim_size": size,
        "upd_shape": updates,
    }  # fmt: skip
    extents = {"updates": updates, "index": updates, "out": out}
    return CallMeta(values, extents, {"out": out}, exact_axis={"out": axis})


def scatter_backward(spec: Spec, shapes: Mapping[str, Shape], numbers: Mapping[str, Any]) -> CallMeta:
    updates, x = shapes["updates"], shapes["x"]
    axis = axis_of("axis", numbers["axis"], updates)
    size = as_integer(f"x has shape {x}: an extent", x[axis] if axis < len(x) else 0, 0, INT32_MAX)
    taken = _replaced(updates, axis, size)
    for name, want in (("index", updates), ("x", taken), ("dy", taken), ("y", taken)):
        check_shape(name, shapes[name], want)
    values = {
        "upd_numel": math.prod(updates), "rank": len(updates), "scatter_dim": axis, "out_dim_size": size,
        "upd_shape": updates,
    }  # fmt: skip
    extents = {
        "dout": taken,
        "x": taken,
        "updates": updates,
        "index": updates,
        "out": taken,
        "dx": taken,
        "dupdates": updates,
    }
    return CallMeta(values, extents, {"dx": taken, "dupdates": updates})


def numbered(spec: Spec, shapes: Mapping[str, Shape], numbers: Mapping[str, Any]) -> CallMeta:
    """take, put and put_add."""
    index = shapes["index"]
    if spec.name != "take":
        check_shape("updates", shapes["updates"], index)
        size = as_integer("size", numbers["size"], 0, INT64_MAX)
        values, source = {"out_numel": size}, ("updates", index)
        result: Shape = (size,)
    else:
        source, result = ("src", shapes["x"]), index
        values = {"src_numel": math.prod(shapes["x"])}
    values["numel"] = math.prod(index)
    extents = {source[0]: (math.prod(source[1]),), "index": (values["numel"],), "out": (math.prod(result),)}
    return CallMeta(values, extents, {"out": result}, op_views=dict.fromkeys(extents, _flat))


def rows(spec: Spec, shapes: Mapping[str, Shape], numbers: Mapping[str, Any]) -> CallMeta:
    table, index = shapes["table"], shapes["index"]
    if len(table) != 2 or len(index) != 1 or not math.prod(table):
        raise InvalidProblemError(f"table has shape {table} and index {index}, expected (rows, columns) and (n,)")
    out = (index[0], table[1])
    values = {"v": table[0], "h": table[1], "n": index[0]}
    return CallMeta(values, {"table": table, "idx": index, "dest": out}, {"dest": out})


def selection(spec: Spec, shapes: Mapping[str, Shape], numbers: Mapping[str, Any]) -> CallMeta:
    """masked_select, its gradient and masked_scatter, all on flattened arrays."""
    mask = shapes["mask"]
    flat, numel = (math.prod(mask),), math.prod(mask)
    if spec.name == "masked_select":
        check_shape("mask", mask, shapes["x"])
        given = numbers["max_selected"]
        capacity = numel if given is None else as_integer("max_selected", given, 0, INT64_MAX)
        extents = {"src": flat, "mask": flat, "out": (capacity,), "counter": (1,)}
        values, results = {"max_selected": capacity}, {"out": (capacity,), "counter": ()}
    else:
        packed, name = ("dy", "dout") if spec.name == "masked_select_backward" else ("source", "source")
        capacity, output = math.prod(shapes[packed]), spec.outputs[0].pointer
        extents = {name: (capacity,), "mask": flat, output: flat}
        values = {"max_selected" if packed == "dy" else "source_numel": capacity}
        results = {output: mask}
    return CallMeta(values | {"numel": numel}, extents, results, op_views=dict.fromkeys(extents, _flat))


def nonzero(spec: Spec, shapes: Mapping[str, Shape], numbers: Mapping[str, Any]) -> CallMeta:
    x, given = shapes["x"], numbers["max_nz"]
    capacity = as_integer("max_nz", math.prod(x) if given is None else given, 0, INT32_MAX)
    table = (capacity, len(x))
    values = {"numel": math.prod(x), "rank": len(x), "shape": x, "max_nz": capacity}
    extents: dict[str, Shape] = {"x": x, "out_coords": table, "counter": (1,)}
    op_views = {"out_coords": lambda view: view if view.is_dense else None, "counter": _flat}
    return CallMeta(values, extents, {"out_coords": table, "counter": ()}, op_views=op_views)


def one_hot(spec: Spec, shapes: Mapping[str, Shape], numbers: Mapping[str, Any]) -> CallMeta:
    index, classes = shapes["index"], as_integer("num_classes", numbers["num_classes"], 1, INT32_MAX)
    out = (*index, classes)
    extents = {"src": (math.prod(index),), "out": (math.prod(out),)}
    values = {"out_numel": math.prod(out), "num_classes": classes}
    return CallMeta(values, extents, {"out": out}, op_views=dict.fromkeys(extents, _flat))


def _replaced(shape: Shape, axis: int, extent: int) -> Shape:
    return (*shape[:axis], extent, *shape[axis + 1 :])


def _flat(view: TensorRef) -> TensorRef | None:
    return as_strided(view, (math.prod(view.shape),), (1,)) if view.is_dense else None
