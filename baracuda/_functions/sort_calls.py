# SPDX-License-Identifier: Apache-2.0
"""Sorts by calls of other functions, for arrays of any framework."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from baracuda._call.scalars import INT32_MAX
from baracuda._functions.shape_rules.call_meta import axis_of
from baracuda.dtypes import ElementKind
from baracuda.errors import InvalidProblemError

NAMES = ("lexsort", "msort", "segmented_argsort", "segmented_sort", "sort_by_key")
# Functions that they call.
CALLED = (
    "argsort", "cast", "cumsum", "eq", "gather", "index_select", "scatter_add", "sort", "sort_with_indices",
)  # fmt: skip
Call = Callable[..., Any]  # calls a function by its name


def msort(call: Call, x: Any, *, descending: bool = False) -> Any:
    """baracuda.msort for one framework."""
    return call("sort", x, axis=0, descending=descending)


def sort_by_key(call: Call, keys: Any, values: Any, *, axis: int = -1, descending: bool = False) -> tuple[Any, Any]:
    """baracuda.sort_by_key for one framework."""
    shape, own = tuple(keys.shape), tuple(values.shape)
    along = axis_of("axis", axis, shape)
    if own != shape and (len(shape) != 1 or own[:1] != shape):
        raise InvalidProblemError(f"values has shape {own}, expected {shape}, that of keys")
    found, order = call("sort_with_indices", keys, axis=along, descending=descending)
    if own == shape:
        return found, call("gather", values, order, axis=along)
    return found, call("index_select", values, order, axis=0)


def lexsort(call: Call, keys: Sequence[Any], *, axis: int = -1) -> Any:
    """baracuda.lexsort for one framework."""
    given = list(keys)
    if not given:
        raise InvalidProblemError("keys is empty, must have a key")
    shape = tuple(given[0].shape)
    along = axis_of("axis", axis, shape)
    for k, key in enumerate(given):
        if tuple(key.shape) != shape:
            raise InvalidProblemError(f"keys[{k}] has shape {tuple(key.shape)}, expected {shape}, that of keys[0]")
    order = call("argsort", given[0], axis=along)
    for key in given[1:]:
        by_key = call("argsort", call("gather", key, order, axis=along), axis=along)
        order = call("gather", order, by_key, axis=along)
    return order


def segmented_sort(call: Call, x: Any, offsets: Any, *, descending: bool = False) -> Any:
    """baracuda.segmented_sort for one framework."""
    return call("gather", x, segmented_argsort(call, x, offsets, descending=descending), axis=0)


def segmented_argsort(call: Call, x: Any, offsets: Any, *, descending: bool = False) -> Any:
    """baracuda.segmented_argsort for one framework."""
    for name, each in (("x", x), ("offsets", offsets)):
        if len(each.shape) != 1:
            raise InvalidProblemError(f"{name} has shape {tuple(each.shape)}, must have one axis")
    order = call("argsort", x, axis=0, descending=descending)
    length, count = x.shape[0], offsets.shape[0]
    if length == 0 or count < 3:
        return order
    # Element i is in segment (number of offsets <= i) - 1.
    element = ElementKind.I32 if count <= INT32_MAX else ElementKind.I64
    ones = call("cast", call("eq", offsets, offsets), element)
    segments = call("cumsum", call("scatter_add", offsets, ones, length, axis=0), axis=0)
    return call("gather", order, call("argsort", call("gather", segments, order, axis=0), axis=0), axis=0)
