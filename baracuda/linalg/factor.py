# SPDX-License-Identifier: Apache-2.0
"""Factorisations: Cholesky, LU, LDL, QR, and products with the reflectors of a QR factorisation."""

from __future__ import annotations

from typing import NamedTuple

from baracuda.errors import InvalidProblemError
from baracuda.linalg.arrays import Array, LinalgCalls


class CholeskyResult(NamedTuple):
    """The factor, and for each matrix 0 or the order of the first leading minor that is not positive definite."""

    L: Array
    info: Array


class LUFactors(NamedTuple):
    """The packed factors, and the rows that were exchanged, from 1."""

    LU: Array
    pivots: Array


class LUFactorsInfo(NamedTuple):
    """LUFactors, and for each matrix 0 or the first column, from 1, whose pivot is 0."""

    LU: Array
    pivots: Array
    info: Array


class LUResult(NamedTuple):
    """A permutation, a lower and an upper matrix, whose product is the matrix."""

    P: Array
    L: Array
    U: Array


class LDLFactors(NamedTuple):
    """The packed factors, and the rows that were exchanged, as LAPACK has them."""

    LD: Array
    pivots: Array


class LDLFactorsInfo(NamedTuple):
    """LDLFactors, and for each matrix 0 or the first column, from 1, whose block is 0."""

    LD: Array
    pivots: Array
    info: Array


class QRResult(NamedTuple):
    """Orthonormal columns, None of mode "r", and an upper matrix."""

    Q: Array
    R: Array


class Reflectors(NamedTuple):
    """R above the vectors of reflectors, and their factors."""

    a: Array
    tau: Array


class Factors(LinalgCalls):
    """The functions, for one framework."""

    def cholesky(self, a: Array, /, *, upper: bool = False) -> Array:
        """The factor of Hermitian positive definite matrices (..., n, n): a = L L^H, or with upper a = U^H U. Only that
        triangle of a is read. A matrix that is not positive definite gives NaN, and an error under `bk.checked()`.
        """
        return self.functions.linalg_cholesky(a, upper=upper)[0]

    def cholesky_ex(self, a: Array, /, *, upper: bool = False) -> CholeskyResult:
        """cholesky, with the number of the failure of each matrix, on the device."""
        return CholeskyResult(*self.functions.linalg_cholesky(a, upper=upper))

    def lu_factor(self, a: Array, /) -> LUFactors:
        """LU factorisation with partial pivoting of matrices (..., m, n), packed, and the pivots (..., min(m, n))."""
        return LUFactors(*self.functions.linalg_lu_factor(a)[:2])

    def lu_factor_ex(self, a: Array, /) -> LUFactorsInfo:
        """lu_factor, with the first zero pivot of each matrix, on the device."""
        return LUFactorsInfo(*self.functions.linalg_lu_factor(a))

    def lu(self, a: Array, /) -> LUResult:
        """a = P L U of matrices (..., m, n), with a permutation P (..., m, m)."""
        return LUResult(*self.functions.linalg_lu(a))

    def ldl_factor(self, a: Array, /, *, hermitian: bool = False) -> LDLFactors:
        """Factors of symmetric, or with hermitian Hermitian, indefinite matrices, whose lower triangle is read."""
        return LDLFactors(*self.functions.linalg_ldl_factor(a, hermitian=hermitian)[:2])

    def ldl_factor_ex(self, a: Array, /, *, hermitian: bool = False) -> LDLFactorsInfo:
        """ldl_factor, with the first zero block of each matrix, on the device."""
        return LDLFactorsInfo(*self.functions.linalg_ldl_factor(a, hermitian=hermitian))

    def qr(self, a: Array, /, mode: str = "reduced") -> QRResult:
        """a = Q R of matrices (..., m, n). mode "reduced" gives Q min(m, n) columns, "complete" m, and "r" only R.

        InvalidProblemError for another mode.
        """
        if mode not in ("reduced", "complete", "r"):
            raise InvalidProblemError(f"mode is {mode!r}, must be 'reduced', 'complete' or 'r'")
        if mode == "r":
            return QRResult(None, self.functions.linalg_qr(a, needs=(False, True))[1])
        return QRResult(*self.functions.linalg_qr(a, complete=mode == "complete"))

    def geqrf(self, a: Array, /) -> Reflectors:
        """QR factorisation of matrices (..., m, n) by Householder reflectors, as LAPACK packs them."""
        return Reflectors(*self.functions.linalg_qr_factor(a))

    def householder_product(self, a: Array, tau: Array, /) -> Array:
        """The first n columns of Q of geqrf, for vectors a (..., m, n), m >= n, and factors tau (..., k), k <= n."""
        shape = tuple(self.arrays.given(a, "a").shape)
        if len(shape) < 2 or shape[-2] < shape[-1]:
            raise InvalidProblemError(f"a has shape {shape}, must have no fewer rows than columns")
        return self.functions.linalg_householder_product(a, tau)

    def ormqr(self, a: Array, tau: Array, c: Array, /, *, left: bool = True, transpose: bool = False) -> Array:
        """Q c, without left c Q, or with transpose the same of the adjoint of Q, for the Q of geqrf."""
        return self.functions.linalg_ormqr(a, tau, c, right=not left, adjoint=transpose)
