# SPDX-License-Identifier: Apache-2.0
"""Sorts made of other functions: msort, sort_by_key, lexsort, segmented_sort and segmented_argsort.

`baracuda.sort`, `argsort` and `sort_with_indices` follow from the op table. Every sort is stable in both directions,
has NaN behind all numbers, or before them if descending, and takes -0 and +0 for equal.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from baracuda import functions
from baracuda._arrays.shaping import given_array
from baracuda._call.scalars import INT32_MAX
from baracuda._functions.shape_rules.call_meta import axis_of
from baracuda.dtypes import ElementKind
from baracuda.errors import InvalidProblemError, naming


@naming("msort")
def msort(x: Any, *, descending: bool = False, out: Any = None) -> Any:
    """The sorted elements along the first axis. out may be x.

    InvalidProblemError for an array without axes.
    """
    return functions.sort(x, 0, descending=descending, out=out)


@naming("sort_by_key")
def sort_by_key(keys: Any, values: Any, *, axis: int = -1, descending: bool = False) -> tuple[Any, Any]:
    """The keys sorted along axis, and the values in the order of their keys. values has the shape of keys; or, beside
    keys of one axis, rows of any shape.

    InvalidProblemError for other shapes.
    """
    keys, values = given_array(keys, "keys"), given_array(values, "values")
    shape, own = tuple(keys.shape), tuple(values.shape)
    along = axis_of("axis", axis, shape)
    if own != shape and (len(shape) != 1 or own[:1] != shape):
        raise InvalidProblemError(f"values has shape {own}, expected {shape}, that of keys")
    found, order = functions.sort_with_indices(keys, along, descending=descending)
    if own == shape:
        return found, functions.gather(values, order, along)
    return found, functions.index_select(values, order, axis=0)


@naming("lexsort")
def lexsort(keys: Sequence[Any], *, axis: int = -1) -> Any:
    """The indices, i64, that sort by several keys of one shape: by the last one, ties by the one before it, and so on,
    as numpy.lexsort does.

    InvalidProblemError for no keys, and shapes that differ.
    """
    given = [given_array(key, f"keys[{k}]") for k, key in enumerate(keys)]
    if not given:
        raise InvalidProblemError("keys is empty, must have a key")
    shape = tuple(given[0].shape)
    along = axis_of("axis", axis, shape)
    for k, key in enumerate(given):
        if tuple(key.shape) != shape:
            raise InvalidProblemError(f"keys[{k}] has shape {tuple(key.shape)}, expected {shape}, that of keys[0]")
    order = functions.argsort(given[0], along)
    for key in given[1:]:
        order = functions.gather(order, functions.argsort(functions.gather(key, order, along), along), along)
    return order


@naming("segmented_sort")
def segmented_sort(x: Any, offsets: Any, *, descending: bool = False) -> Any:
    """The elements of x, of one axis, sorted within segments: segment s has the elements from offsets[s] on, and the
    last offset is the number of elements. Segments may be empty, and of any lengths.

    InvalidProblemError unless x and offsets have one axis.
    """
    x = given_array(x, "x")
    order = segmented_argsort(x, offsets, descending=descending)
    return functions.gather(x, order, 0)


@naming("segmented_argsort")
def segmented_argsort(x: Any, offsets: Any, *, descending: bool = False) -> Any:
    """The indices in x, i64, of segmented_sort: sorted by element, then, since sorts are stable, by segment.

    InvalidProblemError unless x and offsets have one axis.
    """
    x, offsets = given_array(x, "x"), given_array(offsets, "offsets")
    for name, each in (("x", x), ("offsets", offsets)):
        if len(each.shape) != 1:
            raise InvalidProblemError(f"{name} has shape {tuple(each.shape)}, must have one axis")
    order = functions.argsort(x, 0, descending=descending)
    length, count = x.shape[0], offsets.shape[0]
    if length == 0 or count < 3:
        return order
    # Element i is in segment (number of offsets <= i) - 1.
    element = ElementKind.I32 if count <= INT32_MAX else ElementKind.I64
    ones = functions.cast(functions.eq(offsets, offsets), element)
    segments = functions.cumsum(functions.scatter_add(offsets, ones, length, axis=0), 0)
    return functions.gather(order, functions.argsort(functions.gather(segments, order, 0), 0), 0)


__all__ = ["lexsort", "msort", "segmented_argsort", "segmented_sort", "sort_by_key"]
