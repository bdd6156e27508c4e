# SPDX-License-Identifier: Apache-2.0
"""The linalg extension of the array API standard: `baracuda.array_api.linalg`."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

import numpy as np

import baracuda as bk
from baracuda import linalg

Array = Any

cholesky, cross, det, inv, matrix_power, qr, slogdet = (
    linalg.cholesky, linalg.cross, linalg.det, linalg.inv, linalg.matrix_power, linalg.qr, linalg.slogdet,
)  # fmt: skip
eig, eigvals, svdvals = linalg.eig, linalg.eigvals, linalg.svdvals
matrix_transpose = np.matrix_transpose


def _standard() -> Any:
    """The functions of the standard itself, whose promotion of dtypes these have."""
    return importlib.import_module("baracuda.array_api")


def solve(x1: Array, x2: Array, /) -> Array:
    """solve of the standard: x2 is a vector if it has one axis, else matrices."""
    if x2.ndim != 1 and x2.ndim == x1.ndim - 1:
        x2 = x2.reshape((1,) * (x1.ndim - x2.ndim) + tuple(x2.shape))
    return linalg.solve(x1, x2)


def matmul(x1: Array, x2: Array, /) -> Array:
    """matmul of the standard."""
    return _standard().matmul(x1, x2)


def tensordot(x1: Array, x2: Array, /, *, axes: int | tuple[Sequence[int], Sequence[int]] = 2) -> Array:
    """tensordot of the standard."""
    return _standard().tensordot(x1, x2, axes=axes)


def vecdot(x1: Array, x2: Array, /, *, axis: int = -1) -> Array:
    """vecdot of the standard."""
    return _standard().vecdot(x1, x2, axis=axis)


def outer(x1: Array, x2: Array, /) -> Array:
    """All products of the elements of two vectors."""
    return _standard().multiply(x1.reshape(-1, 1), x2.reshape(1, -1))


def diagonal(x: Array, /, *, offset: int = 0) -> Array:
    """A diagonal of matrices (..., m, n)."""
    return x.diagonal(offset, -2, -1)


def trace(x: Array, /, *, offset: int = 0, dtype: Any = None) -> Array:
    """The sum of a diagonal of matrices (..., m, n)."""
    return _standard().sum(x.diagonal(offset, -2, -1), axis=-1, dtype=dtype)


def vector_norm(
    x: Array, /, *, axis: int | tuple[int, ...] | None = None, keepdims: bool = False, ord: float = 2
) -> Array:
    """The norm of vectors along axes."""
    return linalg.vector_norm(x, ord, axis=axis, keepdims=keepdims)


def matrix_norm(x: Array, /, *, keepdims: bool = False, ord: Any = "fro") -> Array:
    """A norm of matrices (..., m, n)."""
    return linalg.matrix_norm(x, ord, keepdims=keepdims)


def eigh(x: Array, /) -> Any:
    """Eigenvalues, ascending, and eigenvectors of Hermitian matrices, of which the lower triangle is read."""
    return linalg.eigh(x)


def eigvalsh(x: Array, /) -> Array:
    """Eigenvalues of Hermitian matrices, ascending."""
    return linalg.eigvalsh(x)


def svd(x: Array, /, *, full_matrices: bool = True) -> Any:
    """U, S and Vh with x = U S Vh."""
    return linalg.svd(x, full_matrices)


def pinv(x: Array, /, *, rtol: Any = None) -> Array:
    """Pseudoinverses; rtol is a number, max(m, n) eps by default."""
    return linalg.pinv(x, rtol)


def matrix_rank(x: Array, /, *, rtol: Any = None) -> Array:
    """The number of singular values above rtol times the largest one, as int64; rtol is a number, max(m, n) eps by
    default.
    """
    return bk.cast(linalg.matrix_rank(x, rtol), "i64")


__all__ = [
    "cholesky", "cross", "det", "diagonal", "eig", "eigh", "eigvals", "eigvalsh", "inv", "matmul", "matrix_norm",
    "matrix_power", "matrix_rank", "matrix_transpose", "outer", "pinv", "qr", "slogdet", "solve", "svd", "svdvals",
    "tensordot", "trace", "vecdot", "vector_norm",
]  # fmt: skip
