# SPDX-License-Identifier: Apache-2.0
"""Eigenvalues and singular values, and what follows from them: pseudoinverses, ranks, condition numbers, polar factors.

A matrix with NaN or an infinity, and one whose iteration does not converge, gives NaN in its own results; the functions
with the suffix `_ex` return its `info` besides, and the checking mode raises for it. Vectors have a definite phase:
their first element whose modulus is within 1/1000 of the largest is real and positive.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from baracuda.errors import InvalidProblemError
from baracuda.linalg.arrays import Array, LinalgCalls
from baracuda.linalg.products import Products


class EigResult(NamedTuple):
    """Eigenvalues (..., n), and eigenvectors as columns (..., n, n)."""

    eigenvalues: Array
    eigenvectors: Array


class EighInfo(NamedTuple):
    """EigResult, and for each matrix 0, n + 1 if it is not finite, or the number of values that did not converge."""

    eigenvalues: Array
    eigenvectors: Array
    info: Array


class EigInfo(NamedTuple):
    """Eigenvalues, right and left eigenvectors as columns, and for each matrix 0, n + 1 if it is not finite, or the
    number of values that did not converge."""

    eigenvalues: Array
    eigenvectors: Array
    left_eigenvectors: Array
    info: Array


class SVDResult(NamedTuple):
    """A = U S Vh, with the values S (..., min(m, n)) in descending order."""

    U: Array
    S: Array
    Vh: Array


class SVDInfo(NamedTuple):
    """SVDResult, and for each matrix 0, min(m, n) + 1 if it is not finite, or the number of values that did not
    converge."""

    U: Array
    S: Array
    Vh: Array
    info: Array


class PinvInfo(NamedTuple):
    """The pseudoinverse, the rank, and for each matrix the info of its singular values."""

    inverse: Array
    rank: Array
    info: Array


class PolarResult(NamedTuple):
    """A = U P with a Hermitian P that is not negative."""

    U: Array
    P: Array


def _is_upper(uplo: object) -> bool:
    if uplo not in ("L", "U"):
        raise InvalidProblemError(f"UPLO is {uplo!r}, must be 'L' or 'U'")
    return uplo == "U"


def _tolerance(rtol: float | None, atol: float | None) -> tuple[float, float]:
    """PyTorch's rule: rtol is max(m, n) eps by default, and 0 if only atol is given and positive."""
    if rtol is None:
        rtol = 0.0 if atol is not None and atol > 0 else -1.0
    elif not rtol >= 0:
        raise InvalidProblemError(f"rtol is {rtol!r}, must be >= 0")
    if atol is not None and not atol >= 0:
        raise InvalidProblemError(f"atol is {atol!r}, must be >= 0")
    return rtol, atol or 0.0


class Spectra(LinalgCalls):
    """The functions, for one framework."""

    def eigh(self, a: Array, /, UPLO: str = "L") -> EigResult:
        """Eigenvalues, ascending, and orthonormal eigenvectors of Hermitian matrices (..., n, n), of which the triangle
        UPLO is read.

        The gradient is that of PyTorch: that of the vectors is infinite where eigenvalues are equal.
        """
        return EigResult(*self.functions.linalg_eigh(a, upper=_is_upper(UPLO))[:2])

    def eigh_ex(self, a: Array, /, UPLO: str = "L") -> EighInfo:
        """eigh, with the info of each matrix, on the device."""
        return EighInfo(*self.functions.linalg_eigh(a, upper=_is_upper(UPLO)))

    def eigvalsh(self, a: Array, /, UPLO: str = "L") -> Array:
        """The eigenvalues of Hermitian matrices (..., n, n) in ascending order."""
        return self.functions.linalg_eigvalsh(a, upper=_is_upper(UPLO))[0]

    def eig(self, a: Array, /) -> EigResult:
        """Eigenvalues and eigenvectors of length 1 of square matrices (..., n, n), complex for real matrices too.

        Values ascend by their real parts; of a real matrix' complex pair the one with the positive imaginary part is
        the first.
        """
        return EigResult(*self.functions.linalg_eig(a)[:2])

    def eig_ex(self, a: Array, /) -> EigInfo:
        """eig with left eigenvectors, vl^H a = w vl^H, and the info of each matrix, on the device."""
        return EigInfo(*self.functions.linalg_eig_left(a))

    def eigvals(self, a: Array, /) -> Array:
        """The eigenvalues of square matrices (..., n, n), complex, ascending by their real parts."""
        return self.functions.linalg_eigvals(a)[0]

    def svd(self, a: Array, /, full_matrices: bool = True) -> SVDResult:
        """Singular values, descending, and vectors of matrices (..., m, n).

        U is (..., m, m) and Vh (..., n, n) with full_matrices, else both have min(m, n) vectors.
        """
        return SVDResult(*self.functions.linalg_svd(a, full_matrices=full_matrices)[:3])

    def svd_ex(self, a: Array, /, full_matrices: bool = True) -> SVDInfo:
        """svd, with the info of each matrix, on the device."""
        return SVDInfo(*self.functions.linalg_svd(a, full_matrices=full_matrices))

    def svdvals(self, a: Array, /) -> Array:
        """The singular values (..., min(m, n)) of matrices (..., m, n) in descending order."""
        return self.functions.linalg_svdvals(a)[0]

    def pinv(self, a: Array, /, rtol: float | None = None, *, atol: float | None = None) -> Array:
        """The pseudoinverses (..., n, m) of matrices (..., m, n).

        Singular values up to max(atol, rtol s[0]) count as 0; rtol is max(m, n) eps unless one of both is given.
        """
        rtol, atol = _tolerance(rtol, atol)
        return self.functions.linalg_pinv(a, atol=atol, rtol=rtol)[0]

    def pinv_ex(self, a: Array, /, rtol: float | None = None, *, atol: float | None = None) -> PinvInfo:
        """pinv, with the rank and the info of each matrix, on the device."""
        rtol, atol = _tolerance(rtol, atol)
        return PinvInfo(*self.functions.linalg_pinv(a, atol=atol, rtol=rtol))

    def matrix_rank(self, a: Array, /, rtol: float | None = None, *, atol: float | None = None) -> Array:
        """The number of singular values of matrices (..., m, n) above max(atol, rtol s[0]), as i32; rtol is max(m, n)
        eps unless one of both is given. 0 for a matrix with NaN.
        """
        rtol, atol = _tolerance(rtol, atol)
        return self.functions.linalg_matrix_rank(a, atol=atol, rtol=rtol)[0]

    def cond(self, a: Array, /, p: float | str | None = None) -> Array:
        """The condition numbers of matrices: the quotient of the largest and the least singular value for p None and 2,
        its inverse for -2, else |a|_p |a^-1|_p of square matrices, with the norms of matrix_norm: infinite for a
        singular one.
        """
        f = self.functions
        if p in (None, 2, -2):
            s = f.linalg_svdvals(a)[0]
            if not s.shape[-1]:
                raise InvalidProblemError(f"a has shape {tuple(a.shape)}, must have rows and columns")
            above, below = (s[..., -1], s[..., 0]) if p == -2 else (s[..., 0], s[..., -1])
            return f.where(f.eq(below, 0), math.inf, f.div(above, below))
        norm, (inverse, info) = Products(self.arrays).matrix_norm, f.linalg_inv(a)
        product = f.mul(norm(a, p), norm(inverse, p))
        return f.where(f.ne(info, 0), math.inf, product)

    def polar(self, a: Array, /) -> PolarResult:
        """The polar decomposition a = U P of matrices (..., m, n): U (..., m, n) has orthonormal columns, or rows for
        m < n, and P (..., n, n) is Hermitian and not negative.
        """
        return PolarResult(*self.functions.linalg_polar(a)[:2])

    def orthogonalize(self, a: Array, /, *, method: str = "svd", steps: int = 5) -> Array:
        """The matrices with orthonormal columns, or rows for m < n, that are nearest to matrices (..., m, n).

        By "svd" they are U of the polar decomposition. "newton_schulz" takes `steps` iterations of products, those of
        Muon: singular values of f32 and bf16 matrices come to between 0.7 and 1.2.
        """
        if method == "svd":
            return self.functions.linalg_polar_unitary(a)[0]
        if method != "newton_schulz":
            raise InvalidProblemError(f"method is {method!r}, must be 'svd' or 'newton_schulz'")
        a = self.arrays.given(a, "a")
        shape = tuple(a.shape)
        if len(shape) < 2:
            raise InvalidProblemError(f"a has shape {shape}, expected (..., m, n)")
        x = self.arrays.reshaped(a, (math.prod(shape[:-2]), *shape[-2:]))
        return self.arrays.reshaped(self.newton_schulz(x, steps=steps), shape)

    def newton_schulz(
        self, x: Array, coefficients: tuple[float, float, float] = (3.4445, -4.7750, 2.0315), steps: int = 5,
        eps: float = 1e-7,
    ) -> Array:  # fmt: skip
        """The matrices x (batch, m, n), f32 or bf16, with their singular values moved towards 1: Newton-Schulz
        iterations x = a x + (b (x x^T) + c (x x^T)^2) x from x / |x|, on the shorter side (Kovarik 1970; coefficients
        of Jordan et al. 2024). They reach 0.7 to 1.2, not 1.
        """
        f, arrays = self.functions, self.arrays
        batch, m, n = x.shape
        flat = arrays.reshaped(x, (batch, m * n))
        norm = f.hardtanh(f.norm2(flat, axis=1, keepdims=True), min_val=eps, max_val=math.inf)
        x = arrays.reshaped(f.div(flat, norm), (batch, m, n))
        if m > n:
            x = arrays.broadcast(arrays.permuted(x, (0, 2, 1)), (batch, n, m))
        a, b, c = coefficients
        for _ in range(steps):
            gram = f.matmul(x, arrays.permuted(x, (0, 2, 1)))
            x = arrays.added(x, arrays.added(gram, gram, gram, b, c), x, a, 1.0)
        return arrays.broadcast(arrays.permuted(x, (0, 2, 1)), (batch, m, n)) if m > n else x
