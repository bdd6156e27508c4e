# SPDX-License-Identifier: Apache-2.0
"""The order of elements, and arrays whose order is hard to find."""

import numpy as np


def order_of(array, axis, descending=False):
    """Indices that sort an Array along an axis: ties by index, -0 equal to 0, NaN of either sign above all numbers."""
    values = np.asarray(array.values)
    values = values != 0 if array.dtype == "bool" else values
    ranks = np.unique(values, return_inverse=True)[1].reshape(values.shape)
    return np.argsort(-ranks if descending else ranks, axis, kind="stable")


def elements(draw, shape, kind, axis=-1, strides=None):
    """kind is one of draw.values; or "ties": few values; "equal": one value; "rising" and "falling" along the axis;
    "nan": NaN alone; "close": values that differ in their lowest bits."""
    if kind in ("normal", "special", "wide"):
        return draw.values(shape, "normal" if draw.dtype == "bool" else kind, strides)
    is_float = draw.values((1,)).values.dtype.kind == "f"
    if kind == "ties":
        values = draw.rng.integers(0, 3, shape)
    elif kind == "close" and is_float:
        values = draw.values((1,), "positive").values[0] * np.ones(shape)
        step = {"f64": 2.0**-52, "f32": 2.0**-23, "f16": 2.0**-10, "bf16": 2.0**-7}.get(draw.dtype, 0.25)
        values = np.ldexp(1.0, np.frexp(values)[1] - 1) * (1 + step * draw.rng.integers(0, 4, shape))
    elif kind == "close":
        values = 100 + draw.rng.integers(0, 4, shape)
    elif kind == "nan" and is_float:
        values = np.full(shape, np.nan)
    elif kind in ("rising", "falling"):
        moved = np.sort(draw.values(shape, "normal").values, axis)
        values = np.flip(moved, axis) if kind == "falling" else moved
    else:
        values = np.ones(shape)
    values = values.astype(np.float64 if is_float else np.uint64 if draw.dtype == "u64" else np.int64)
    if draw.dtype == "bool":
        values = np.minimum(values, 1)
    return draw.array(values, "", strides)


def replaced(shape, axis, extent):
    return (*shape[:axis], extent, *shape[axis + 1 :])


def selected(array, order, axis, count):
    """The first `count` elements along the axis in this order, and their indices."""
    index = np.take(order, np.arange(count), axis)
    return np.take_along_axis(np.asarray(array.values), index, axis), index
