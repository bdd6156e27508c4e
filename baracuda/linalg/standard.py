# SPDX-License-Identifier: Apache-2.0
"""The linalg extension of the array API standard: `baracuda.array_api.linalg`."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from baracuda.linalg.factor import QRResult, cholesky, qr
from baracuda.linalg.products import cross, matrix_power
from baracuda.linalg.solvers import SlogdetResult, det, inv, slogdet
from baracuda.linalg.solvers import solve as _solve

Array = Any
_SPECTRAL = ("eigh", "eigvalsh", "matrix_rank", "pinv", "svd", "svdvals")

matrix_transpose = np.matrix_transpose


def __getattr__(name: str) -> Any:
    if name not in _SPECTRAL:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module("baracuda.linalg"), name)


def _standard() -> Any:
    """The functions of the standard itself, whose promotion of dtypes these have."""
    return importlib.import_module("baracuda.array_api")


def solve(x1: Array, x2: Array, /) -> Array:
    """solve of the standard: x2 is a vector if it has one axis, else matrices."""
    if x2.ndim != 1 and x2.ndim == x1.ndim - 1:
        x2 = x2.reshape((1,) * (x1.ndim - x2.ndim) + tuple(x2.shape))
    return _solve(x1, x2)


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
    from baracuda.linalg import products

    return products.vector_norm(x, ord, axis=axis, keepdims=keepdims)


def matrix_norm(x: Array, /, *, keepdims: bool = False, ord: Any = "fro") -> Array:
    """A norm of matrices (..., m, n)."""
    from baracuda.linalg import products

    return products.matrix_norm(x, ord, keepdims=keepdims)


__all__ = [
    "QRResult", "SlogdetResult", "cholesky", "cross", "det", "diagonal", "inv", "matmul", "matrix_norm", "matrix_power",
    "matrix_transpose", "outer", "qr", "slogdet", "solve", "tensordot", "trace", "vecdot", "vector_norm",
]  # fmt: skip
