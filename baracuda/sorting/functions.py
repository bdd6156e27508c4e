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
from baracuda._functions import sort_calls
from baracuda.errors import naming


def _call(name: str, *arrays: Any, **numbers: Any) -> Any:
    return getattr(functions, name)(*arrays, **numbers)


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
    return sort_calls.sort_by_key(_call, keys, values, axis=axis, descending=descending)


@naming("lexsort")
def lexsort(keys: Sequence[Any], *, axis: int = -1) -> Any:
    """The indices, i64, that sort by several keys of one shape: by the last one, ties by the one before it, and so on,
    as numpy.lexsort does.

    InvalidProblemError for no keys, and shapes that differ.
    """
    given = [given_array(key, f"keys[{k}]") for k, key in enumerate(keys)]
    return sort_calls.lexsort(_call, given, axis=axis)


@naming("segmented_sort")
def segmented_sort(x: Any, offsets: Any, *, descending: bool = False) -> Any:
    """The elements of x, of one axis, sorted within segments: segment s has the elements from offsets[s] on, and the
    last offset is the number of elements. Segments may be empty, and of any lengths.

    InvalidProblemError unless x and offsets have one axis.
    """
    x, offsets = given_array(x, "x"), given_array(offsets, "offsets")
    return sort_calls.segmented_sort(_call, x, offsets, descending=descending)


@naming("segmented_argsort")
def segmented_argsort(x: Any, offsets: Any, *, descending: bool = False) -> Any:
    """The indices in x, i64, of segmented_sort: sorted by element, then, since sorts are stable, by segment.

    InvalidProblemError unless x and offsets have one axis.
    """
    x, offsets = given_array(x, "x"), given_array(offsets, "offsets")
    return sort_calls.segmented_argsort(_call, x, offsets, descending=descending)


__all__ = ["lexsort", "msort", "segmented_argsort", "segmented_sort", "sort_by_key"]
