# SPDX-License-Identifier: Apache-2.0
"""Geometry of views of a view: basic indexing, reshaping and transposing, by NumPy's rules and never with a copy."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

from baracuda._call.scalars import as_integer, as_integers
from baracuda.errors import InvalidProblemError, ViewIndexError

Shape = tuple[int, ...]


def indexed(shape: Shape, strides: Shape, key: Any) -> tuple[int, Shape, Shape]:
    """Offset of the first element, extents and strides of `x[key]`: integers, slices, `...` and None."""
    keys = list(key) if isinstance(key, tuple) else [key]
    ellipses = [at for at, each in enumerate(keys) if each is Ellipsis]
    given = len(keys) - len(ellipses) - sum(each is None for each in keys)
    if len(ellipses) > 1:
        raise InvalidProblemError("TensorRef: an index has more than one '...'")
    if given > len(shape):
        raise ViewIndexError(f"TensorRef: {given} indices for {len(shape)} axes")
    at = ellipses[0] if ellipses else len(keys)
    keys[at : at + 1] = [slice(None)] * (len(shape) - given)
    offset, axis = 0, 0
    extents: list[int] = []
    steps: list[int] = []
    for each in keys:
        if each is None:
            extents.append(1)
            steps.append(0)
            continue
        extent, stride = shape[axis], strides[axis]
        if isinstance(each, slice):
            try:
                start, _, step = each.indices(extent)
                extents.append(len(range(*each.indices(extent))))
            except (TypeError, ValueError) as error:
                raise InvalidProblemError(f"TensorRef: index {each} of axis {axis}: {error}") from error
            steps.append(stride * step)
            offset += start * stride if extents[-1] else 0
        else:
            offset += _position(each, axis, extent) * stride
        axis += 1
    return offset, tuple(extents), tuple(steps)


def _position(index: Any, axis: int, extent: int) -> int:
    try:
        if isinstance(index, bool):
            raise TypeError
        position = operator.index(index)
    except TypeError:
        raise InvalidProblemError(
            f"TensorRef: index {index!r} of axis {axis}, must be an integer, a slice, '...' or None; "
            "functions such as baracuda.index_select take arrays of indices"
        ) from None
    if not -extent <= position < extent:
        raise ViewIndexError(f"TensorRef: index {position} of axis {axis}, which has extent {extent}")
    return position + extent if position < 0 else position


def reshaped(shape: Shape, strides: Shape, wanted: Sequence[int]) -> tuple[Shape, Shape | None]:
    """Extents and strides of the view with shape `wanted`, of which one extent may be -1. Without elements strides are
    None: row-major.
    """
    extents = _whole(math.prod(shape), shape, as_integers("TensorRef.reshape: shape", wanted, -1))
    if not math.prod(shape):
        return extents, None
    # Runs of axes that a single stride steps through, innermost first; each new extent comes out of one run.
    runs: list[tuple[int, int]] = []
    for extent, stride in zip(reversed(shape), reversed(strides)):
        if extent == 1:
            continue
        if runs and stride == runs[-1][0] * runs[-1][1]:
            runs[-1] = (runs[-1][0] * extent, runs[-1][1])
        else:
            runs.append((extent, stride))
    steps: list[int] = []
    left, step = runs[0] if runs else (1, 1)
    taken = 1
    for extent in reversed(extents):
        if left == 1 and extent != 1 and taken < len(runs):
            left, step = runs[taken]
            taken += 1
        if left % extent:
            raise InvalidProblemError(
                f"TensorRef.reshape: shape {shape} with strides {strides} cannot be viewed as {extents} without a copy"
            )
        steps.append(step)
        left, step = left // extent, step * extent
    return extents, tuple(reversed(steps))


def _whole(numel: int, shape: Shape, wanted: Shape) -> Shape:
    known = math.prod(extent for extent in wanted if extent != -1)
    if wanted.count(-1) == 1 and known and numel % known == 0:
        return tuple(numel // known if extent == -1 else extent for extent in wanted)
    if -1 in wanted or known != numel:
        raise InvalidProblemError(f"TensorRef.reshape: shape {wanted} for {numel} elements of shape {shape}")
    return wanted


def permuted(rank: int, axes: Sequence[int]) -> Shape:
    """The axes in their new order, reversed where none are given."""
    order = (
        tuple(as_integer("TensorRef.transpose: axis", axis) for axis in axes) if axes else tuple(reversed(range(rank)))
    )
    counted = tuple(axis + rank if axis < 0 else axis for axis in order)
    if sorted(counted) != list(range(rank)):
        raise InvalidProblemError(f"TensorRef.transpose: axes {order}, must be those of rank {rank}, each once")
    return counted
