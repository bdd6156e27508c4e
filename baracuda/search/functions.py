# SPDX-License-Identifier: Apache-2.0
"""Counting, binning and unique elements as NumPy and PyTorch spell them, composed of the functions of the op tables.

They take the arrays that `baracuda.functions` takes; results belong to the framework of the first one. Shapes of
unique, unique_consecutive and of bincount without num_bins depend on the data, so that these wait for the device;
unique_padded, unique_runs and bin_counts do not.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from baracuda import functions
from baracuda._arrays.shaping import broadcast, empty_like, given_array, number, reshaped
from baracuda._call.scalars import INT32_MAX, as_integer, as_real
from baracuda._functions.shape_rules.call_meta import axis_of
from baracuda.dtypes import ElementKind
from baracuda.errors import InvalidProblemError, UnsupportedError, naming
from baracuda.sorting.functions import lexsort
from baracuda.tensor import tensor

Range = tuple[float, float] | None
_WIDENED = (ElementKind.U16, ElementKind.U64)  # dtypes that reductions lack


# --- positions --------------------------------------------------------------------------------------------------------


@naming("bucketize")
def bucketize(x: Any, boundaries: Any, *, right: bool = False, out: Any = None) -> Any:
    """The bucket of each element of x, i64, as torch.bucketize gives it: i with boundaries[i - 1] < x <= boundaries[i],
    or with right boundaries[i - 1] <= x < boundaries[i]. boundaries has one axis, in ascending order, and the dtype of
    x.
    """
    return functions.searchsorted(boundaries, x, right=right, out=out)


@naming("digitize")
def digitize(x: Any, bins: Any, *, right: bool = False) -> Any:
    """The bin of each element of x, i64, as numpy.digitize gives it: i with bins[i - 1] <= x < bins[i], or with right
    bins[i - 1] < x <= bins[i]. bins ascends or descends, which its first and last element tell: this waits for the
    device.
    """
    bins = given_array(bins, "bins")
    if len(bins.shape) != 1:
        raise InvalidProblemError(f"bins has shape {tuple(bins.shape)}, must have one axis")
    count = bins.shape[0]
    if count < 2 or _element(bins, 0) <= _element(bins, count - 1):
        return functions.searchsorted(bins, x, right=not right)
    return functions.sub(count, functions.searchsorted(functions.flip(bins), x, right=not right))


def _element(x: Any, index: int) -> float:
    return number(functions.cast(functions.take(x, _index(x, index)), ElementKind.F64))


def _index(like: Any, value: int) -> Any:
    return functions.fill(empty_like(like, (1,), ElementKind.I64), value)


@naming("isin")
def isin(x: Any, test_elements: Any, *, assume_unique: bool = False, invert: bool = False) -> Any:
    """Whether each element of x is one of test_elements, which have any shape and the dtype of x; with invert whether
    it is none. NaN is in nothing. assume_unique, which NumPy and PyTorch take, makes no difference.
    """
    tests = given_array(test_elements, "test_elements")
    return functions.isin_sorted(x, functions.sort(reshaped(tests, (math.prod(tests.shape),))), invert=invert)


# --- counts -----------------------------------------------------------------------------------------------------------


@naming("bincount")
def bincount(x: Any, weights: Any = None, *, minlength: int = 0, num_bins: int | None = None) -> Any:
    """Counts of 0, 1, 2 ... among the integers x, as i64; with weights, of the shape of x, the sums of their
    weights in their dtype. There are num_bins numbers, by default up to the largest of x, which waits for the device,
    and minlength or more. Negative numbers, and those from num_bins on, are not counted. Sums of weights are in a fixed
    order.
    """
    x = given_array(x, "x")
    least = as_integer("minlength", minlength, 0, INT32_MAX)
    if num_bins is None:
        size = math.prod(x.shape)
        num_bins = max(least, 1 + int(_extreme("max", x)) if size else 0)
    if weights is None:
        return functions.bin_counts(x, num_bins=num_bins)
    return _weighted(_as_index(x), weights, num_bins)


def _extreme(name: str, x: Any) -> float:
    if tensor(x, "x").dtype in _WIDENED:
        x = functions.cast(x, ElementKind.I64)
    return number(getattr(functions, name)(x))


def _as_index(x: Any) -> Any:
    return x if tensor(x, "x").dtype in (ElementKind.I32, ElementKind.I64) else functions.cast(x, ElementKind.I64)


def _weighted(index: Any, weights: Any, size: int) -> Any:
    weights = given_array(weights, "weights")
    if tuple(weights.shape) != tuple(index.shape):
        raise InvalidProblemError(f"weights has shape {tuple(weights.shape)}, expected {tuple(index.shape)}")
    return functions.put_add(index, weights, size=size)


@naming("histc")
def histc(x: Any, bins: int = 100, *, min: float = 0, max: float = 0) -> Any:
    """The number of elements of x in each of `bins` bins of equal width from min to max, as torch.histc counts them,
    but as i64. If min equals max, they are those of x, which waits for the device. NaN is in no bin.
    """
    low, high = _range(given_array(x, "x"), None if min == max == 0 else (min, max))
    return functions.histogram_counts(x, num_bins=bins, low=low, high=high)


@naming("histogram")
def histogram(
    x: Any, bins: Any = 10, *, range: Range = None, weights: Any = None, density: bool = False
) -> tuple[Any, Any]:  # fmt: skip
    """The number of elements of x in each bin, as i64, and the edges of the bins, as numpy.histogram gives them.

    bins is a number of bins of equal width over range, by default from the least to the greatest element of x, which
    waits for the device; or an array of edges, of the dtype of x, in ascending order. A bin has its left edge, the last
    one its right edge too, and elements are compared with the edges themselves; NaN is in no bin. Edges have the dtype
    of x, of integers f64. With weights, of the shape of x, the sums of weights in a fixed order, in their dtype. With
    density they are divided by their sum and the widths of the bins, as f64.
    """
    x = given_array(x, "x")
    if isinstance(bins, (int, np.integer)):
        count, (low, high) = as_integer("bins", int(bins), 1, INT32_MAX), _range(x, range)
        edges = _edges(x, count, low, high)
        if weights is None:
            counts = functions.histogram_counts(x, num_bins=count, low=low, high=high)
        else:
            found = functions.histogram_bins(x, num_bins=count, low=low, high=high)
            counts = _weighted(found, weights, count)
    else:
        x, edges = _promoted(x, given_array(bins, "bins"))
        if weights is None:
            counts = functions.histogram_edges_counts(x, edges)
        else:
            counts = _weighted(functions.histogram_edges_bins(x, edges), weights, edges.shape[0] - 1)
    return (_density(counts, [edges]) if density else counts), edges


def _range(x: Any, given: Range) -> tuple[float, float]:
    """The ends of the bins: those of the data by default, and one apart if they are equal, as in NumPy."""
    if given is not None:
        low, high = (as_real(f"range[{k}]", value) for k, value in enumerate(given))
    elif not math.prod(x.shape):
        low, high = 0.0, 1.0
    else:
        low, high = float(_extreme("min", x)), float(_extreme("max", x))
    if not (math.isfinite(low) and math.isfinite(high)):
        raise InvalidProblemError(f"range is ({low}, {high}), must be finite")
    if low > high:
        raise InvalidProblemError(f"range is ({low}, {high}), must ascend")
    return (low - 0.5, high + 0.5) if low == high else (low, high)


def _edges(x: Any, count: int, low: float, high: float) -> Any:
    """low + k (high - low) / count in f64, in the dtype of x if that is a float."""
    steps = functions.cumsum(functions.fill(empty_like(x, (count + 1,), ElementKind.F64), 1.0), axis=0)
    at = functions.sub(steps, 1.0)
    edges = functions.where(functions.ge(at, count), high, functions.add(functions.mul(at, (high - low) / count), low))
    element = tensor(x, "x").dtype
    return functions.cast(edges, element) if element.is_float else edges


def _promoted(x: Any, edges: Any) -> tuple[Any, Any]:
    """The two arrays, in f64 if their dtypes differ."""
    if tensor(x, "x").dtype == tensor(edges, "bins").dtype:
        return x, edges
    return functions.cast(x, ElementKind.F64), functions.cast(edges, ElementKind.F64)


def _density(counts: Any, edges: Sequence[Any]) -> Any:
    """counts over their sum and the volumes of the bins; edges[k] are those along axis k."""
    found = functions.cast(counts, ElementKind.F64)
    found = functions.div(found, functions.sum(found, axis=None))
    for axis, each in enumerate(edges):
        wide, bins = functions.cast(each, ElementKind.F64), each.shape[0] - 1
        right = functions.flip(functions.flip(wide)[:bins])
        widths = functions.sub(right, wide[:bins])
        shape = tuple([bins if k == axis else 1 for k in range(len(counts.shape))])
        found = functions.div(found, broadcast("bins", reshaped(widths, shape), tuple(counts.shape)))
    return found


@naming("histogramdd")
def histogramdd(
    sample: Any, bins: Any = 10, *, range: Sequence[Range] | None = None, weights: Any = None, density: bool = False
) -> tuple[Any, list[Any]]:  # fmt: skip
    """The number of rows of sample, (n, d), in each bin of a grid, as i64, and the edges along each axis, as
    numpy.histogramdd gives them.

    bins is a number or an array of edges, for all axes or a list with one for each; range has a pair, or None, for each
    axis. See histogram.
    """
    sample = given_array(sample, "sample")
    if len(sample.shape) != 2:
        raise InvalidProblemError(f"sample has shape {tuple(sample.shape)}, expected (n, d)")
    n, axes = sample.shape
    each_bins = list(bins) if isinstance(bins, (list, tuple)) else [bins] * axes
    each_range = list(range) if range is not None else [None] * axes
    if len(each_bins) != axes or len(each_range) != axes:
        raise InvalidProblemError(f"bins has {len(each_bins)} entries and range {len(each_range)}, expected {axes}")
    columns = functions.permute(sample, (1, 0))
    index, shape, edges = None, [], []
    for k, (own_bins, own_range) in enumerate(zip(each_bins, each_range)):
        column = reshaped(_row(columns, k), (n,))
        found, own_edges = _bins_of(column, own_bins, own_range)
        count = own_edges.shape[0] - 1
        found = functions.cast(found, ElementKind.I64)
        if index is None:
            index = found
        else:  # -1 in either stays -1
            combined = functions.add(functions.mul(index, count), found)
            index = functions.where(functions.lt(functions.minimum(index, found), 0), -1, combined)
        shape.append(count)
        edges.append(own_edges)
    size = math.prod(shape)
    if index is None or size > INT32_MAX:
        raise UnsupportedError(f"a grid of {tuple(shape)} bins is not supported")
    flat = functions.bin_counts(index, num_bins=size) if weights is None else _weighted(index, weights, size)
    counts = reshaped(flat, tuple(shape))
    return (_density(counts, edges) if density else counts), edges


def _row(x: Any, index: int) -> Any:
    return functions.index_select(x, _index(x, index), axis=0)


def _bins_of(x: Any, bins: Any, limits: Range) -> tuple[Any, Any]:
    """The bin of each element, -1 for none, and the edges."""
    if isinstance(bins, (int, np.integer)):
        count, (low, high) = as_integer("bins", int(bins), 1, INT32_MAX), _range(x, limits)
        return functions.histogram_bins(x, num_bins=count, low=low, high=high), _edges(x, count, low, high)
    x, edges = _promoted(x, given_array(bins, "bins"))
    return functions.histogram_edges_bins(x, edges), edges


@naming("histogram2d")
def histogram2d(
    x: Any, y: Any, bins: Any = 10, *, range: Sequence[Range] | None = None, weights: Any = None, density: bool = False
) -> tuple[Any, Any, Any]:  # fmt: skip
    """The number of pairs (x[i], y[i]) in each bin of a grid, as i64, and the edges along both axes, as
    numpy.histogram2d gives them. bins is a number, or a list of two numbers or arrays of edges. See histogram.
    """
    from baracuda.concatenation import stack

    counts, (first, second) = histogramdd(
        stack([given_array(x, "x"), given_array(y, "y")], axis=1), bins, range=range, weights=weights, density=density
    )
    return counts, first, second


# --- unique elements --------------------------------------------------------------------------------------------------


@naming("unique")
def unique(
    x: Any, *, return_index: bool = False, return_inverse: bool = False, return_counts: bool = False,
    axis: int | None = None, equal_nan: bool = True,
) -> Any:  # fmt: skip
    """The unique elements of x in ascending order; along axis its unique slices, in lexicographic order. With
    return_index, return_inverse and return_counts a tuple, which has in this order the position of the first of each,
    the one that each element equals, in the shape of x, and how often each occurs, all i64. As numpy.unique gives them;
    it waits for the device. -0 equals 0; NaN is last, and is one element unless equal_nan is False.
    """
    x = given_array(x, "x")
    back = None
    if axis is None:
        values, first, inverse, counts, count = functions.unique_padded(x, equal_nan=equal_nan)
    else:
        slices, back = _slices(x, axis)
        n, width = slices.shape[0], math.prod(slices.shape[1:])
        order = _lexicographic(reshaped(slices, (n, width)))
        ordered = functions.index_select(slices, order, axis=0)
        values, first, inverse, counts, count = functions.unique_runs(ordered, order, equal_nan=equal_nan)
    return _results(values, first if return_index else None, inverse if return_inverse else None,
                    counts if return_counts else None, int(number(count)), back)  # fmt: skip


@naming("unique_consecutive")
def unique_consecutive(
    x: Any, *, return_inverse: bool = False, return_counts: bool = False, axis: int | None = None,
    equal_nan: bool = True,
) -> Any:  # fmt: skip
    """The first of each run of equal elements of x in row-major order; along axis of each run of equal slices. With
    return_inverse and return_counts a tuple, which has in this order the run of each element, in the shape of x, and
    the lengths of the runs, all i64. It waits for the device. -0 equals 0, and NaN equals NaN unless equal_nan is
    False.
    """
    x = given_array(x, "x")
    slices, back = (reshaped(x, (math.prod(x.shape),)), None) if axis is None else _slices(x, axis)
    values, _, inverse, counts, count = functions.unique_runs(slices, equal_nan=equal_nan)
    if axis is None:
        inverse = reshaped(inverse, tuple(x.shape))
    return _results(values, None, inverse if return_inverse else None, counts if return_counts else None,
                    int(number(count)), back)  # fmt: skip


def _slices(x: Any, axis: int) -> tuple[Any, tuple[int, ...]]:
    """x with `axis` first, and the order of axes that undoes this."""
    rank = len(x.shape)
    along = axis_of("axis", axis, tuple(x.shape))
    order = (along, *[a for a in range(rank) if a != along])
    return functions.permute(x, order), tuple([order.index(a) for a in range(rank)])


def _lexicographic(rows: Any) -> Any:
    """The order of rows: by the first column, ties by the next one, and so on."""
    (n, width), columns = rows.shape, functions.permute(rows, (1, 0))
    if not width:
        return functions.argsort(functions.fill(empty_like(rows, (n,), ElementKind.I32), 0))
    return lexsort([reshaped(_row(columns, k), (n,)) for k in reversed(range(width))])


def _results(values: Any, first: Any, inverse: Any, counts: Any, count: int, back: Any) -> Any:
    values = values[:count]
    if back is not None:
        values = functions.permute(values, back)
    more = [first if first is None else first[:count], inverse,
            counts if counts is None else counts[:count]]  # fmt: skip
    found = tuple([each for each in more if each is not None])
    return (values, *found) if found else values


__all__ = [
    "bincount", "bucketize", "digitize", "histc", "histogram", "histogram2d", "histogramdd", "isin", "unique",
    "unique_consecutive",
]  # fmt: skip
