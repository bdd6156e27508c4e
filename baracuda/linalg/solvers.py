# SPDX-License-Identifier: Apache-2.0
"""Solutions of linear equations, inverses, determinants and least squares."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from baracuda._call.scalars import as_integers
from baracuda.errors import InvalidProblemError
from baracuda.linalg.arrays import Array, LinalgCalls


class SolveResult(NamedTuple):
    """The solution, and for each matrix 0 or the first column, from 1, whose pivot is 0: that solution is NaN."""

    result: Array
    info: Array


class InverseResult(NamedTuple):
    """The inverse, and for each matrix 0 or the first column, from 1, whose pivot is 0: that inverse is NaN."""

    inverse: Array
    info: Array


class SlogdetResult(NamedTuple):
    """The determinant as sign exp(logabsdet)."""

    sign: Array
    logabsdet: Array


class LeastSquaresResult(NamedTuple):
    """The solution of least norm, the sums of squares that remain, and the rank of each matrix."""

    solution: Array
    residuals: Array
    rank: Array


def _is_vector(a: Array, b: Array) -> bool:
    """Whether b is vectors and not matrices: one vector, or one for each matrix of a, as PyTorch tells them."""
    return len(b.shape) == 1 or (len(a.shape) == len(b.shape) + 1 and tuple(b.shape) == tuple(a.shape)[:-1])


def _cut(rcond: float | None) -> float:
    """C's rcond, which is negative for the default."""
    return -1.0 if rcond is None else rcond


class Solvers(LinalgCalls):
    """The functions, for one framework."""

    def solve(self, a: Array, b: Array, /, *, left: bool = True) -> Array:
        """The solution x of a x = b, or without left of x a = b, for matrices a (..., n, n).

        b is (..., n, k), without left (..., k, n), or vectors (..., n) of the batch of a, or one (n,). A singular
        matrix gives NaN in its own solution, and an error under `bk.checked()`.
        """
        return self.solve_ex(a, b, left=left).result

    def solve_ex(self, a: Array, b: Array, /, *, left: bool = True) -> SolveResult:
        """solve, with the first zero pivot of each matrix, on the device."""
        a, b = self.arrays.given(a, "a"), self.arrays.given(b, "b")
        if not _is_vector(a, b):
            return SolveResult(*self.functions.linalg_solve(a, b, left=left))
        shape = tuple(b.shape)
        as_matrix = (*shape, 1) if left else (*shape[:-1], 1, shape[-1])
        x, info = self.functions.linalg_solve(a, self.arrays.reshaped(b, as_matrix), left=left)
        return SolveResult(self.arrays.reshaped(x, (*x.shape[:-2], shape[-1])), info)

    def solve_triangular(
        self, a: Array, b: Array, /, *, upper: bool, left: bool = True, unitriangular: bool = False,
        transpose: bool = False, conjugate: bool = False,
    ) -> Array:  # fmt: skip
        """The solution x of a x = b, or without left of x a = b, for triangular matrices a (..., n, n).

        Only the named triangle is read, of a unitriangular one without the diagonal; with transpose and conjugate the
        solution is that with the transpose and the conjugate of a.
        """
        return self.functions.linalg_solve_triangular(
            a, b, upper=upper, left=left, unitriangular=unitriangular, transpose=transpose, conjugate=conjugate
        )

    def cholesky_solve(self, b: Array, l: Array, /, *, upper: bool = False) -> Array:  # noqa: E741
        """The solution x of L L^H x = b, or with upper of U^H U x = b, for b (..., n, k) and a factor of cholesky."""
        return self.functions.linalg_cholesky_solve(l, b, upper=upper)

    def cholesky_inverse(self, l: Array, /, *, upper: bool = False) -> Array:  # noqa: E741
        """The inverse of L L^H, or with upper of U^H U, for a factor of cholesky (..., n, n)."""
        return self.functions.linalg_cholesky_solve(l, self.identity_like(self.arrays.given(l, "l")), upper=upper)

    def lu_solve(self, lu: Array, pivots: Array, b: Array, /, *, left: bool = True, adjoint: bool = False) -> Array:
        """The solution x of a x = b, or without left of x a = b, or with adjoint the same with the adjoint of a, with
        the factors of lu_factor.
        """
        return self.functions.linalg_lu_solve(lu, pivots, b, left=left, transpose=adjoint, conjugate=adjoint)

    def ldl_solve(self, ld: Array, pivots: Array, b: Array, /, *, hermitian: bool = False) -> Array:
        """The solution x of a x = b with the factors of ldl_factor."""
        return self.functions.linalg_ldl_solve(ld, pivots, b, hermitian=hermitian)

    def inv(self, a: Array, /) -> Array:
        """The inverse of matrices (..., n, n); NaN for a singular one, and an error under `bk.checked()`."""
        return self.functions.linalg_inv(a)[0]

    def inv_ex(self, a: Array, /) -> InverseResult:
        """inv, with the first zero pivot of each matrix, on the device."""
        return InverseResult(*self.functions.linalg_inv(a))

    def det(self, a: Array, /) -> Array:
        """The determinant of matrices (..., n, n)."""
        return self.functions.linalg_det(a)

    def slogdet(self, a: Array, /) -> SlogdetResult:
        """The sign and the natural logarithm of the modulus of the determinant of matrices (..., n, n)."""
        return SlogdetResult(*self.functions.linalg_slogdet(a))

    def lstsq(self, a: Array, b: Array, /, rcond: float | None = None) -> LeastSquaresResult:
        """The x of least norm that makes |a x - b| least, for matrices a (..., m, n) of any rank and b (..., m, k), or
        vectors (..., m) of the batch of a, or one (m,).

        Columns whose diagonal element of R of the pivoted QR factorisation is at most rcond times the first count as 0;
        rcond is by default eps max(m, n).
        """
        a, b = self.arrays.given(a, "a"), self.arrays.given(b, "b")
        if not _is_vector(a, b):
            return LeastSquaresResult(*self.functions.linalg_lstsq(a, b, rcond=_cut(rcond)))
        reshaped = self.arrays.reshaped
        x, residuals, rank = self.functions.linalg_lstsq(a, reshaped(b, (*b.shape, 1)), rcond=_cut(rcond))
        x, residuals = (reshaped(each, tuple(each.shape[:-1])) for each in (x, residuals))
        return LeastSquaresResult(x, residuals, rank)

    def tensorsolve(self, a: Array, b: Array, /, dims: Any = None) -> Array:
        """The x with tensordot(a, x, x.ndim) = b: the first axes of a are those of b, those in `dims` the last.

        InvalidProblemError if the other axes have not as many elements as b.
        """
        a, b = self.arrays.given(a, "a"), self.arrays.given(b, "b")
        if dims is not None:
            moved = [d % len(a.shape) for d in as_integers("dims", dims, -len(a.shape), len(a.shape) - 1)]
            a = self.functions.permute(a, [*[d for d in range(len(a.shape)) if d not in moved], *moved])
        rest = tuple(a.shape)[len(b.shape) :]
        count = math.prod(b.shape)
        if tuple(a.shape)[: len(b.shape)] != tuple(b.shape) or math.prod(rest) != count:
            raise InvalidProblemError(
                f"a has shape {tuple(a.shape)} and b {tuple(b.shape)}, expected that of b and then as many elements"
            )
        reshaped = self.arrays.reshaped
        return reshaped(self.solve(reshaped(a, (count, count)), reshaped(b, (count,))), rest)

    def tensorinv(self, a: Array, /, ind: int = 2) -> Array:
        """The inverse of tensordot(a, ., a.ndim - ind): a as a matrix whose rows are its first `ind` axes."""
        a = self.arrays.given(a, "a")
        (ind,) = as_integers("ind", (ind,), 1, max(len(a.shape), 1))
        rows, columns = tuple(a.shape)[:ind], tuple(a.shape)[ind:]
        if math.prod(rows) != math.prod(columns):
            raise InvalidProblemError(f"a has shape {tuple(a.shape)}, must be square as a matrix of {ind} axes of rows")
        inverse = self.inv(self.arrays.reshaped(a, (math.prod(rows), math.prod(columns))))
        return self.arrays.reshaped(inverse, (*columns, *rows))
