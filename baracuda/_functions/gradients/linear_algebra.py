# SPDX-License-Identifier: Apache-2.0
"""Gradients of linear algebra, for PyTorch and JAX: those of Giles (2008), An extended collection of matrix derivative
results, and of Walter and Lehmann (2012) for QR. Arrays are the framework's own, with its operators.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Call = Callable[..., Any]
Given = Mapping[str, Any]


def _conjugate(x: Any) -> Any:
    return x.conj() + 0 if "complex" in str(x.dtype) else x


def _transposed(x: Any) -> Any:
    return x.swapaxes(-1, -2)


def _adjoint(x: Any) -> Any:
    return _transposed(_conjugate(x))


def _summed(gradient: Any, shape: Any) -> Any:
    """A gradient summed over the batch axes along which its operand was broadcast."""
    extra = len(gradient.shape) - len(shape)
    if extra:
        gradient = gradient.reshape(-1, *gradient.shape[extra:]).sum(0)
    for axis, extent in enumerate(shape):
        if extent == 1 and gradient.shape[axis] != 1:
            gradient = gradient.sum(axis)[(slice(None),) * axis + (None,)]
    return gradient


def _triangle(call: Call, x: Any, *, upper: bool, strict: bool = False) -> Any:
    """The named triangle of x, without the diagonal if `strict`."""
    if upper:
        return call("triu", x, diagonal=1 if strict else 0)
    return call("tril", x, diagonal=-1 if strict else 0)


def solve(call: Call, given: Given) -> tuple[Any, Any]:
    a, x, left = given["a"], given["x"], given["left"]
    db = call("linalg_solve", _adjoint(a), given["dy"], left=left)
    db = db[0] if isinstance(db, (tuple, list)) else db
    da = -(db @ _adjoint(x)) if left else -(_adjoint(x) @ db)
    return _summed(da, a.shape), _summed(db, given["b"].shape)


def inverse(call: Call, given: Given) -> Any:
    x = _adjoint(given["x"])
    return -(x @ given["dy"] @ x)


def determinant(call: Call, given: Given) -> Any:
    scale = given["dy"] * _conjugate(given["det"])
    found = call("linalg_inv", given["a"])
    inverse_of = found[0] if isinstance(found, (tuple, list)) else found
    return scale[..., None, None] * _adjoint(inverse_of)


def log_determinant(call: Call, given: Given) -> Any:
    """The gradient by the logarithm of the modulus; the sign is constant where it has a derivative in real numbers."""
    found = call("linalg_inv", given["a"])
    inverse_of = found[0] if isinstance(found, (tuple, list)) else found
    return given["dlogabsdet"][..., None, None] * _adjoint(inverse_of)


def cholesky(call: Call, given: Given) -> Any:
    upper = given["upper"]
    low, dl = (_adjoint(each) if upper else each for each in (given["l"], given["dy"]))
    product = _adjoint(low) @ dl
    half = (_triangle(call, product, upper=False) + _triangle(call, product, upper=False, strict=True)) * 0.5
    left = call("linalg_solve_triangular", low, half, upper=False, transpose=True, conjugate=True)
    found = call("linalg_solve_triangular", low, left, upper=False, left=False)
    return (found + _adjoint(found)) * 0.5


def triangular(call: Call, given: Given) -> tuple[Any, Any]:
    a, x, left = given["a"], given["x"], given["left"]
    transpose, conjugate, upper = given["transpose"], given["conjugate"], given["upper"]
    unit = given["unitriangular"]
    # The adjoint of what was solved with: transposed once more, and conjugated once more.
    is_complex = "complex" in str(a.dtype)
    db = call(
        "linalg_solve_triangular", a, given["dy"], upper=upper, left=left, unitriangular=unit, transpose=not transpose,
        conjugate=not conjugate if is_complex else conjugate,
    )  # fmt: skip
    da = -(db @ _adjoint(x)) if left else -(_adjoint(x) @ db)  # of the matrix as it was solved with
    da = _conjugate(da) if conjugate else da
    da = _transposed(da) if transpose else da
    return _summed(_triangle(call, da, upper=upper, strict=bool(unit)), a.shape), _summed(db, given["b"].shape)


def cholesky_solve(call: Call, given: Given) -> tuple[Any, Any]:
    low, x, upper = given["l"], given["x"], given["upper"]
    db = call("linalg_cholesky_solve", low, given["dy"], upper=upper)
    product = db @ _adjoint(x)
    whole = -(product + _adjoint(product))
    dl = low @ whole if upper else whole @ low
    return _summed(_triangle(call, dl, upper=bool(upper)), low.shape), _summed(db, given["b"].shape)


def qr(call: Call, given: Given) -> Any:
    """Of the reduced form of matrices with no fewer rows than columns."""
    q, r = given["q"], given["r"]
    if given["a"].shape[-2] < given["a"].shape[-1] or given["complete"]:
        raise NotImplementedError(
            "linalg_qr has a gradient for reduced factors of matrices with no fewer rows than columns"
        )
    m = r @ _adjoint(given["dr"]) - _adjoint(given["dy"]) @ q
    both = _triangle(call, m, upper=False) + _adjoint(_triangle(call, m, upper=False, strict=True))
    return call(
        "linalg_solve_triangular", r, given["dy"] + q @ both, upper=True, left=False, transpose=True,
        conjugate="complex" in str(r.dtype),
    )  # fmt: skip
