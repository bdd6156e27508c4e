# SPDX-License-Identifier: Apache-2.0
"""Products, powers, exponentials and norms of matrices and vectors.

Elements of complex arrays are multiplied and summed by the array's own operators, outside products of matrices.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from baracuda._call.scalars import as_integer
from baracuda._functions.shape_rules.call_meta import axes_of, axis_of
from baracuda.errors import InvalidProblemError
from baracuda.linalg.arrays import Array, LinalgCalls

Axis = int | tuple[int, ...] | None
_MOST_POWER = 2**31 - 1


def _splits(extents: Sequence[int]) -> dict[tuple[int, int], int]:
    """The split of each range of a chain of matrices: Cormen et al., Introduction to Algorithms, 14.2."""
    count = len(extents) - 1
    cost = {(k, k): 0 for k in range(count)}
    split: dict[tuple[int, int], int] = {}
    for length in range(1, count):
        for i in range(count - length):
            j = i + length
            for k in range(i, j):
                found = cost[i, k] + cost[k + 1, j] + extents[i] * extents[k + 1] * extents[j + 1]
                if k == i or found < cost[i, j]:
                    split[i, j], cost[i, j] = k, found
    return split


class Products(LinalgCalls):
    """The functions, for one framework."""

    def matmul(self, a: Array, b: Array, /) -> Array:
        """a b, of vectors or of matrices (..., m, k) and (..., k, n) whose batches broadcast; complex dtypes too."""
        a, b = self.arrays.given(a, "a"), self.arrays.given(b, "b")
        if not self.arrays.is_complex(a):
            return self.functions.matmul(a, b)
        if not a.shape or not b.shape:
            raise InvalidProblemError(f"a has shape {tuple(a.shape)} and b {tuple(b.shape)}, must have an axis")
        left, right = len(a.shape) == 1, len(b.shape) == 1
        reshaped = self.arrays.reshaped
        y = self.functions.linalg_matmul(
            reshaped(a, (1, *a.shape)) if left else a, reshaped(b, (*b.shape, 1)) if right else b
        )
        shape = list(y.shape)
        if right:
            del shape[-1]
        if left:
            del shape[-1 if right else -2]
        return reshaped(y, tuple(shape))

    def matrix_transpose(self, a: Array, /) -> Array:
        """A view with the last two axes exchanged."""
        a = self._matrices(a)
        return self.arrays.permuted(a, (*range(len(a.shape) - 2), len(a.shape) - 1, len(a.shape) - 2))

    def multi_dot(self, arrays: Sequence[Array], /) -> Array:
        """The product of two matrices or more, in the order of the fewest operations; the ends may be vectors."""
        given = [self.arrays.given(each, f"arrays[{k}]") for k, each in enumerate(arrays)]
        if len(given) < 2:
            raise InvalidProblemError(f"arrays has {len(given)} matrices, must have two or more")
        for k, each in enumerate(given):
            if len(each.shape) != 2 and not (len(each.shape) == 1 and k in (0, len(given) - 1)):
                raise InvalidProblemError(f"arrays[{k}] has shape {tuple(each.shape)}, must be a matrix")
        first, last = len(given[0].shape) == 1, len(given[-1].shape) == 1
        if first:
            given[0] = self.arrays.reshaped(given[0], (1, *given[0].shape))
        if last:
            given[-1] = self.arrays.reshaped(given[-1], (*given[-1].shape, 1))
        extents = [each.shape[0] for each in given] + [given[-1].shape[1]]
        y = self._chain(given, _splits(extents), 0, len(given) - 1)
        return self.arrays.reshaped(y, tuple(y.shape)[1 if first else 0 : 1 if last else 2])

    def _chain(self, given: Sequence[Array], split: dict[tuple[int, int], int], i: int, j: int) -> Array:
        if i == j:
            return given[i]
        middle = split[i, j]
        return self.matmul(self._chain(given, split, i, middle), self._chain(given, split, middle + 1, j))

    def matrix_power(self, a: Array, n: int, /) -> Array:
        """The n-th power of matrices (..., m, m), by repeated squaring; for a negative n that of the inverse."""
        a, n = self._matrices(a), as_integer("n", n, -_MOST_POWER, _MOST_POWER)
        shape = tuple(a.shape)
        if shape[-1] != shape[-2]:
            raise InvalidProblemError(f"a has shape {shape}, must be square matrices")
        if n == 0:
            return self.arrays.broadcast(self.identity_like(a), shape)
        square, power = (self.functions.linalg_inv(a)[0] if n < 0 else a), None
        n = abs(n)
        while n:
            if n & 1:
                power = square if power is None else self.matmul(power, square)
            n >>= 1
            square = self.matmul(square, square) if n else square
        return self.arrays.broadcast(power, shape) if power is a else power  # a result of its own

    def matrix_exp(self, a: Array, /) -> Array:
        """The exponential of matrices (..., n, n), by scaling and squaring."""
        return self.functions.linalg_matrix_exp(a)

    def vecdot(self, a: Array, b: Array, /, *, axis: int = -1) -> Array:
        """The sums of conj(a) b along an axis; other axes broadcast."""
        a, b = self.arrays.given(a, "a"), self.arrays.given(b, "b")
        if self.arrays.is_complex(a):
            return self.arrays.total(self.arrays.conjugate(a) * b, axis)
        return self.functions.sum(self.functions.mul(a, b), axis=axis)

    def outer(self, a: Array, b: Array, /) -> Array:
        """All products of the elements of two vectors, (m, n)."""
        a, b = self.arrays.given(a, "a"), self.arrays.given(b, "b")
        for name, each in (("a", a), ("b", b)):
            if len(each.shape) != 1:
                raise InvalidProblemError(f"{name} has shape {tuple(each.shape)}, must be a vector")
        return self._times(self.arrays.reshaped(a, (*a.shape, 1)), self.arrays.reshaped(b, (1, *b.shape)))

    def cross(self, a: Array, b: Array, /, *, axis: int = -1) -> Array:
        """The cross product of vectors of three elements along an axis; other axes broadcast."""
        a, b = self.arrays.given(a, "a"), self.arrays.given(b, "b")
        for name, each in (("a", a), ("b", b)):
            at = axis_of("axis", axis, tuple(each.shape))
            if each.shape[at] != 3:
                raise InvalidProblemError(
                    f"{name} has shape {tuple(each.shape)}, must have 3 elements along axis {axis}"
                )

        def rotated(x: Array, by: int) -> Array:
            return self.functions.roll(x, [-by], axis=[axis_of("axis", axis, tuple(x.shape))])

        first, second = (self._times(rotated(a, k), rotated(b, 3 - k)) for k in (1, 2))
        return first - second if self.arrays.is_complex(first) else self.functions.sub(first, second)

    def _times(self, a: Array, b: Array) -> Array:
        return a * b if self.arrays.is_complex(a) else self.functions.mul(a, b)

    def trace(self, a: Array, /, *, offset: int = 0) -> Array:
        """The sum of a diagonal of matrices (..., m, n)."""
        along = self.diagonal(a, offset=offset)
        if self.arrays.is_complex(along):
            return self.arrays.total(along, -1)
        return self.functions.sum(along, axis=-1)

    def diagonal(self, a: Array, /, *, offset: int = 0) -> Array:
        """A diagonal of matrices (..., m, n), above the main one for a positive offset: a view if arrays have any."""
        a = self._matrices(a)
        if not hasattr(a, "diagonal"):
            raise InvalidProblemError(f"a is of type {type(a).__name__}, which has no views along a diagonal")
        return a.diagonal(offset, len(a.shape) - 2, len(a.shape) - 1)

    def vector_norm(self, a: Array, /, ord: float = 2, *, axis: Axis = None, keepdims: bool = False) -> Array:
        """The norm of order `ord` of vectors along axes, or of all elements: inf and -inf are the largest and the
        smallest modulus, 0 is the number of elements that are not 0.
        """
        a, f = self._moduli(self.arrays.given(a, "a")), self.functions
        if ord == math.inf and not math.prod([a.shape[d] for d in axes_of("axis", axis, tuple(a.shape))]):
            return f.sum(a, axis=axis, keepdims=keepdims)
        if ord in (math.inf, -math.inf):
            return (f.max if ord > 0 else f.min)(f.abs(a), axis=axis, keepdims=keepdims)
        if ord == 0:
            return self.arrays.converted(f.count_nonzero(a, axis=axis, keepdims=keepdims), a)
        if ord < 0:
            return f.pow(f.sum(f.pow(f.abs(a), float(ord)), axis=axis, keepdims=keepdims), 1 / ord)
        return f.norm_p(a, float(ord), axis=axis, keepdims=keepdims)

    def matrix_norm(
        self, a: Array, /, ord: Any = "fro", *, axis: tuple[int, int] = (-2, -1), keepdims: bool = False
    ) -> Array:
        """A norm of matrices (..., m, n), or those along two axes: "fro", 1 and -1 (sums of columns), inf and -inf
        (sums of rows), and of the singular values 2, -2 (the largest, the smallest) and "nuc" (their sum).
        """
        a, f = self._matrices(a), self.functions
        rank, shape = len(a.shape), tuple(a.shape)
        if len(axis) != 2:
            raise InvalidProblemError(f"axis is {axis!r}, must have two axes")
        rows, columns = (axis_of("axis", each, shape) for each in axis)
        if rows == columns:
            raise InvalidProblemError(f"axis is {axis!r}, must have two axes")
        if (rows, columns) != (rank - 2, rank - 1):
            order = [*[d for d in range(rank) if d not in (rows, columns)], rows, columns]
            a = self.arrays.permuted(a, tuple(order))
        if ord == "fro":
            found = f.norm2(self._moduli(a), axis=(-2, -1))
        elif ord in (1, -1, math.inf, -math.inf):
            along, across = (-2, -1) if ord in (1, -1) else (-1, -2)
            sums = f.sum(f.abs(self._moduli(a)), axis=along, keepdims=True)
            found = (f.max if ord > 0 else f.min)(sums, axis=(across, along))
        elif ord in (2, -2, "nuc"):
            values = f.linalg_svdvals(a)[0]
            found = (f.sum if ord == "nuc" else f.max if ord > 0 else f.min)(values, axis=-1)
        else:
            raise InvalidProblemError(f"ord is {ord!r}, must be 'fro', 'nuc', 1, -1, 2, -2, inf or -inf")
        if not keepdims:
            return found
        return self.arrays.reshaped(found, tuple([1 if d in (rows, columns) else n for d, n in enumerate(shape)]))

    def norm(self, a: Array, /, ord: Any = None, axis: Axis = None, *, keepdims: bool = False) -> Array:
        """vector_norm of all elements or along an axis; with `ord`, matrix_norm of a matrix, or along two axes."""
        a = self.arrays.given(a, "a")
        if ord is None:
            return self.vector_norm(a, axis=axis, keepdims=keepdims)
        if axis is None and len(a.shape) == 2:
            axis = (0, 1)
        if isinstance(axis, tuple) and len(axis) == 2:
            return self.matrix_norm(a, ord, axis=axis, keepdims=keepdims)
        return self.vector_norm(a, ord, axis=axis, keepdims=keepdims)

    def _moduli(self, a: Array) -> Array:
        return self.arrays.modulus(a) if self.arrays.is_complex(a) else a

    def _matrices(self, a: Array) -> Array:
        a = self.arrays.given(a, "a")
        if len(a.shape) < 2:
            raise InvalidProblemError(f"a has shape {tuple(a.shape)}, must have two axes")
        return a
