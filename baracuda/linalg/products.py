# SPDX-License-Identifier: Apache-2.0
"""Products, powers, exponentials and norms of matrices and vectors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from baracuda import functions
from baracuda._arrays.frameworks import result_framework
from baracuda._arrays.shaping import given_array, reshaped
from baracuda._call.scalars import as_integer
from baracuda._functions.shape_rules.call_meta import axes_of, axis_of
from baracuda.dtypes import ElementKind
from baracuda.errors import InvalidProblemError, naming
from baracuda.tensor import tensor

Array = Any
Axis = int | tuple[int, ...] | None
_COMPLEX = (ElementKind.COMPLEX32, ElementKind.COMPLEX64)
_MOST_POWER = 2**31 - 1


@naming("linalg.matmul")
def matmul(a: Array, b: Array, /) -> Array:
    """a b, of vectors or of matrices (..., m, k) and (..., k, n) whose batches broadcast; complex dtypes too."""
    a, b = given_array(a, "a"), given_array(b, "b")
    if tensor(a, "a").dtype not in _COMPLEX:
        return functions.matmul(a, b)
    if not a.shape or not b.shape:
        raise InvalidProblemError(f"a has shape {tuple(a.shape)} and b {tuple(b.shape)}, must have an axis")
    left, right = len(a.shape) == 1, len(b.shape) == 1
    y = functions.linalg_matmul(reshaped(a, (1, *a.shape)) if left else a, reshaped(b, (*b.shape, 1)) if right else b)
    shape = list(y.shape)
    if right:
        del shape[-1]
    if left:
        del shape[-1 if right else -2]
    return reshaped(y, tuple(shape))


@naming("linalg.matrix_transpose")
def matrix_transpose(a: Array, /) -> Array:
    """A view with the last two axes exchanged."""
    a = given_array(a, "a")
    if len(a.shape) < 2:
        raise InvalidProblemError(f"a has shape {tuple(a.shape)}, must have two axes")
    order = (*range(len(a.shape) - 2), len(a.shape) - 1, len(a.shape) - 2)
    return result_framework(a).permuted(a, order)


@naming("linalg.multi_dot")
def multi_dot(arrays: Sequence[Array], /) -> Array:
    """The product of two matrices or more, in the order of the fewest operations; the ends may be vectors."""
    given = [given_array(each, f"arrays[{k}]") for k, each in enumerate(arrays)]
    if len(given) < 2:
        raise InvalidProblemError(f"arrays has {len(given)} matrices, must have two or more")
    for k, each in enumerate(given):
        if len(each.shape) != 2 and not (len(each.shape) == 1 and k in (0, len(given) - 1)):
            raise InvalidProblemError(f"arrays[{k}] has shape {tuple(each.shape)}, must be a matrix")
    first, last = len(given[0].shape) == 1, len(given[-1].shape) == 1
    if first:
        given[0] = reshaped(given[0], (1, *given[0].shape))
    if last:
        given[-1] = reshaped(given[-1], (*given[-1].shape, 1))
    extents = [each.shape[0] for each in given] + [given[-1].shape[1]]
    y = _chain(given, _splits(extents), 0, len(given) - 1)
    shape = tuple(y.shape)[1 if first else 0 : 1 if last else 2]
    return reshaped(y, shape)


def _splits(extents: Sequence[int]) -> dict[tuple[int, int], int]:
    """Where to split each part of a chain of matrices: Cormen et al., Introduction to Algorithms, 14.2."""
    count = len(extents) - 1
    cost = {(k, k): 0 for k in range(count)}
    split: dict[tuple[int, int], int] = {}
    for length in range(1, count):
        for i in range(count - length):
            j = i + length
            found = {k: cost[i, k] + cost[k + 1, j] + extents[i] * extents[k + 1] * extents[j + 1] for k in range(i, j)}
            split[i, j] = min(found, key=lambda k: found[k])
            cost[i, j] = found[split[i, j]]
    return split


def _chain(given: Sequence[Array], split: dict[tuple[int, int], int], i: int, j: int) -> Array:
    if i == j:
        return given[i]
    return matmul(_chain(given, split, i, split[i, j]), _chain(given, split, split[i, j] + 1, j))


@naming("linalg.matrix_power")
def matrix_power(a: Array, n: int, /) -> Array:
    """The n-th power of matrices (..., m, m), by repeated squaring; for a negative n that of the inverse."""
    from baracuda.linalg.solvers import identity_like, inv

    a, n = given_array(a, "a"), as_integer("n", n, -_MOST_POWER, _MOST_POWER)
    shape = tuple(a.shape)
    if len(shape) < 2 or shape[-1] != shape[-2]:
        raise InvalidProblemError(f"a has shape {shape}, must be square matrices")
    if n == 0:
        framework = result_framework(a)
        return framework.contiguous(framework.broadcast_to(identity_like(a), shape))
    square, power = (inv(a) if n < 0 else a), None
    n = abs(n)
    while n:
        if n & 1:
            power = square if power is None else matmul(power, square)
        n >>= 1
        square = matmul(square, square) if n else square
    return functions.permute(a, list(range(len(shape)))) if power is a else power  # a result of its own


@naming("linalg.matrix_exp")
def matrix_exp(a: Array, /) -> Array:
    """The exponential of matrices (..., n, n), by scaling and squaring."""
    return functions.linalg_matrix_exp(a)


@naming("linalg.vecdot")
def vecdot(a: Array, b: Array, /, *, axis: int = -1) -> Array:
    """The sums of products of real a and b along an axis; other axes broadcast."""
    return functions.sum(functions.mul(a, b), axis=axis)


@naming("linalg.outer")
def outer(a: Array, b: Array, /) -> Array:
    """All products of the elements of two real vectors, (m, n)."""
    a, b = given_array(a, "a"), given_array(b, "b")
    for name, each in (("a", a), ("b", b)):
        if len(each.shape) != 1:
            raise InvalidProblemError(f"{name} has shape {tuple(each.shape)}, must be a vector")
    return functions.mul(reshaped(a, (*a.shape, 1)), reshaped(b, (1, *b.shape)))


@naming("linalg.cross")
def cross(a: Array, b: Array, /, *, axis: int = -1) -> Array:
    """The cross product of real vectors of three elements along an axis; other axes broadcast."""
    a, b = given_array(a, "a"), given_array(b, "b")
    for name, each in (("a", a), ("b", b)):
        at = axis_of("axis", axis, tuple(each.shape))
        if each.shape[at] != 3:
            raise InvalidProblemError(f"{name} has shape {tuple(each.shape)}, must have 3 elements along axis {axis}")

    def rotated(x: Array, by: int) -> Array:
        return functions.roll(x, [-by], axis=[axis_of("axis", axis, tuple(x.shape))])

    return functions.sub(functions.mul(rotated(a, 1), rotated(b, 2)), functions.mul(rotated(a, 2), rotated(b, 1)))


@naming("linalg.trace")
def trace(a: Array, /, *, offset: int = 0) -> Array:
    """The sum of a diagonal of real matrices (..., m, n)."""
    return functions.sum(diagonal(a, offset=offset), axis=-1)


@naming("linalg.diagonal")
def diagonal(a: Array, /, *, offset: int = 0) -> Array:
    """A diagonal of matrices (..., m, n), above the main one for a positive offset: a view of arrays that have them."""
    a = given_array(a, "a")
    rank = len(a.shape)
    if rank < 2:
        raise InvalidProblemError(f"a has shape {tuple(a.shape)}, must have two axes")
    if not hasattr(a, "diagonal"):
        raise InvalidProblemError(f"a is of type {type(a).__name__}, which has no views along a diagonal")
    return a.diagonal(offset, rank - 2, rank - 1)


@naming("linalg.vector_norm")
def vector_norm(a: Array, /, ord: float = 2, *, axis: Axis = None, keepdims: bool = False) -> Array:
    """The norm of order `ord` of real vectors along axes, or of all elements: inf and -inf are the largest and the
    smallest modulus, 0 is the number of elements that are not 0.
    """
    a = given_array(a, "a")
    if ord == math.inf and not math.prod([a.shape[d] for d in axes_of("axis", axis, tuple(a.shape))]):
        return functions.sum(a, axis=axis, keepdims=keepdims)
    if ord in (math.inf, -math.inf):
        reduce = functions.max if ord > 0 else functions.min
        return reduce(functions.abs(a), axis=axis, keepdims=keepdims)
    if ord == 0:
        return functions.cast(functions.count_nonzero(a, axis=axis, keepdims=keepdims), tensor(a, "a").dtype)
    if ord < 0:
        powers = functions.sum(functions.pow(functions.abs(a), float(ord)), axis=axis, keepdims=keepdims)
        return functions.pow(powers, 1 / ord)
    return functions.norm_p(a, float(ord), axis=axis, keepdims=keepdims)


@naming("linalg.matrix_norm")
def matrix_norm(a: Array, /, ord: Any = "fro", *, keepdims: bool = False) -> Array:
    """A norm of real matrices (..., m, n): "fro", 1 and -1 (sums of columns), inf and -inf (sums of rows), and of the
    singular values 2, -2 (the largest, the smallest) and "nuc" (their sum).
    """
    a = given_array(a, "a")
    if ord == "fro":
        return functions.norm2(a, axis=(-2, -1), keepdims=keepdims)
    if ord in (1, -1, math.inf, -math.inf):
        along, across = (-2, -1) if ord in (1, -1) else (-1, -2)
        sums = functions.sum(functions.abs(a), axis=along, keepdims=True)
        found = (functions.max if ord > 0 else functions.min)(sums, axis=across, keepdims=True)
    elif ord in (2, -2, "nuc"):
        from baracuda import linalg

        values = linalg.svdvals(a)
        reduce = functions.sum if ord == "nuc" else functions.max if ord > 0 else functions.min
        found = reduce(values, axis=-1, keepdims=True)
        found = reshaped(found, (*found.shape, 1))
    else:
        raise InvalidProblemError(f"ord is {ord!r}, must be 'fro', 'nuc', 1, -1, 2, -2, inf or -inf")
    return found if keepdims else reshaped(found, tuple(a.shape)[:-2])


@naming("linalg.norm")
def norm(a: Array, /, ord: Any = None, axis: Axis = None, *, keepdims: bool = False) -> Array:
    """vector_norm of all elements or along an axis; with `ord`, matrix_norm of a matrix, or along two axes."""
    a = given_array(a, "a")
    if ord is None:
        return vector_norm(a, axis=axis, keepdims=keepdims)
    if axis is None and len(a.shape) == 2:
        axis = (0, 1)
    if not isinstance(axis, tuple) or len(axis) != 2:
        return vector_norm(a, ord, axis=axis, keepdims=keepdims)
    rank = len(a.shape)
    rows, columns = (axis_of("axis", each, tuple(a.shape)) for each in axis)
    order = [*[d for d in range(rank) if d not in (rows, columns)], rows, columns]
    found = matrix_norm(result_framework(a).permuted(a, tuple(order)), ord)
    if not keepdims:
        return found
    return reshaped(found, tuple([1 if d in (rows, columns) else n for d, n in enumerate(a.shape)]))
