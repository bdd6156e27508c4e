# SPDX-License-Identifier: Apache-2.0
"""percentile and nanpercentile: quantiles as NumPy spells them, of integers too, for numbers or lists q in percent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from baracuda import functions
from baracuda._arrays.shaping import empty_like, given_array, reshaped
from baracuda.concatenation import concatenate
from baracuda.dtypes import ElementKind
from baracuda.errors import InvalidProblemError, naming
from baracuda.tensor import tensor

Axes = int | tuple[int, ...] | None


@naming("percentile")
def percentile(
    x: Any, q: Any, *, axis: Axes = None, keepdims: bool = False, interpolation: str = "linear", out: Any = None
) -> Any:
    """Percentiles along axis, one, a tuple of them, or None for all elements, as numpy.percentile gives them.

    q is a number, a list of numbers of any depth, or an array of floats, in percent; its axes come first in the result.
    Results have the dtype of x, of integers and booleans f64. See baracuda.quantile for interpolation: a q outside
    [0, 100] gives NaN, and so does NaN along the axis.
    """
    element, share = _element(x), _share(x, q)
    return functions.quantile(element, share, axis, keepdims=keepdims, interpolation=interpolation, out=out)


@naming("nanpercentile")
def nanpercentile(
    x: Any, q: Any, *, axis: Axes = None, keepdims: bool = False, interpolation: str = "linear", out: Any = None
) -> Any:
    """percentile of the numbers along axis, without NaN; NaN if there are none."""
    element, share = _element(x), _share(x, q)
    return functions.nanquantile(element, share, axis, keepdims=keepdims, interpolation=interpolation, out=out)


def _element(x: Any) -> Any:
    return x if tensor(given_array(x, "x"), "x").dtype.is_float else functions.cast(x, ElementKind.F64)


def _share(x: Any, q: Any) -> Any:
    """q / 100 in f64: a number, or an array beside x."""
    if isinstance(q, (int, float, np.integer, np.floating)):
        return float(q) / 100
    if not isinstance(q, (list, tuple)):
        return functions.div(functions.cast(q, ElementKind.F64), 100.0)
    values = _numbers(q)
    if not values.size:
        return empty_like(x, values.shape, ElementKind.F64)
    one = empty_like(x, (1,), ElementKind.F64)
    return reshaped(concatenate([functions.fill(one, float(value) / 100) for value in values.flat]), values.shape)


def _numbers(q: Sequence[Any]) -> Any:
    try:
        return np.asarray(q, np.float64)
    except (TypeError, ValueError):
        raise InvalidProblemError(f"q is {q!r}, must be a number, a list of numbers or an array") from None


__all__ = ["nanpercentile", "percentile"]
