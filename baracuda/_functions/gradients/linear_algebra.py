# SPDX-License-Identifier: Apache-2.0
"""Gradients of linear algebra, for PyTorch and JAX: those of Giles (2008), An extended collection of matrix derivative
results, and of Walter and Lehmann (2012) for QR. Arrays are the framework's own, with its operators; those of complex
matrices follow PyTorch's convention.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from baracuda.errors import UnsupportedError

Call = Callable[..., Any]
Given = Mapping[str, Any]


def _conjugate(x: Any) -> Any:
    return x.conj() + 0 if "complex" in str(x.dtype) else x


def _transposed(x: Any) -> Any:
    return x.swapaxes(-1, -2)


def _adjoint(x: Any) -> Any:
    return _transposed(_conjugate(x))


def summed(gradient: Any, shape: Any) -> Any:
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


def _diagonal(call: Call, x: Any) -> Any:
    """x without what is off the diagonal."""
    return call("tril", call("triu", x))


def _eye(call: Call, like: Any) -> Any:
    """Ones on the diagonals of matrices of the shape and dtype of others."""
    return _diagonal(call, 0 * like + 1)


def solve(call: Call, given: Given) -> tuple[Any, Any]:
    a, x, left = given["a"], given["x"], given["left"]
    db, _ = call("linalg_solve", _adjoint(a), given["dy"], left=left)
    da = -(db @ _adjoint(x)) if left else -(_adjoint(x) @ db)
    return summed(da, a.shape), summed(db, given["b"].shape)


def inverse(call: Call, given: Given) -> Any:
    x = _adjoint(given["x"])
    return -(x @ given["dy"] @ x)


def determinant(call: Call, given: Given) -> Any:
    scale = given["dy"] * _conjugate(given["det"])
    return scale[..., None, None] * _adjoint(call("linalg_inv", given["a"])[0])


def log_determinant(call: Call, given: Given) -> Any:
    """Gradient through the logarithm of the modulus and, of complex matrices, through the sign, which has the phase."""
    scale = given["dlogabsdet"]
    if "complex" in str(given["a"].dtype):
        scale = scale + 1j * (given["dy"] * _conjugate(given["sign"])).imag
    return scale[..., None, None] * _adjoint(call("linalg_inv", given["a"])[0])


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
    return summed(_triangle(call, da, upper=upper, strict=bool(unit)), a.shape), summed(db, given["b"].shape)


def cholesky_solve(call: Call, given: Given) -> tuple[Any, Any]:
    factor, x, upper = given["l"], given["x"], given["upper"]
    db = call("linalg_cholesky_solve", factor, given["dy"], upper=upper)
    low = _triangle(call, factor, upper=bool(upper))
    product = db @ _adjoint(x)
    whole = -(product + _adjoint(product))
    dl = low @ whole if upper else whole @ low
    return summed(_triangle(call, dl, upper=bool(upper)), low.shape), summed(db, given["b"].shape)


def qr(call: Call, given: Given) -> Any:
    """Gradient of QR with reduced factors, or with complete ones that are the same: for m >= n by Walter and Lehmann;
    for m < n the first m columns are those of a square matrix, and the others are Q times those of R.
    """
    a, q, r, dq, dr = (given[name] for name in ("a", "q", "r", "dy", "dr"))
    m, n = a.shape[-2:]
    if given["complete"] and m > n:
        raise UnsupportedError("linalg_qr has no gradient of more columns of q than a has")
    if q is None or len(q.shape) < 2:  # it was not wanted
        q, _ = call("linalg_qr", a)
        dq = 0 * q
    if m >= n:
        return _of_tall_qr(call, q, r, dq, dr)
    rest = dr[..., m:]
    first = _of_tall_qr(call, q, r[..., :m], dq + a[..., m:] @ _adjoint(rest), dr[..., :m])
    return call("concatenate", [first, q @ rest], axis=-1)


def _of_tall_qr(call: Call, q: Any, r: Any, dq: Any, dr: Any) -> Any:
    below = r @ _adjoint(dr) - _adjoint(dq) @ q
    strict, diagonal = _triangle(call, below, upper=False, strict=True), _diagonal(call, below)
    both = strict + _adjoint(strict) + (diagonal + _adjoint(diagonal)) * 0.5
    return call(
        "linalg_solve_triangular", r, dq + q @ both, upper=True, left=False, transpose=True,
        conjugate="complex" in str(r.dtype),
    )  # fmt: skip


def matmul(call: Call, given: Given) -> tuple[Any, Any]:
    a, b, dy = given["a"], given["b"], given["dy"]
    return summed(dy @ _adjoint(b), a.shape), summed(_adjoint(a) @ dy, b.shape)


def exponential(call: Call, given: Given) -> Any:
    """A block of the exponential of [[A^H, dy], [0, A^H]]: Al-Mohy and Higham (2009)."""
    a, dy = _adjoint(given["a"]), given["dy"]
    n = a.shape[-1]
    above, below = (call("concatenate", pair, axis=-1) for pair in ([a, dy], [0 * dy, a]))
    return call("linalg_matrix_exp", call("concatenate", [above, below], axis=-2))[..., :n, n:]


# --- LU ---------------------------------------------------------------------------------------------------------------


def lu(call: Call, given: Given) -> Any:
    """Gradient of a = P L U, for each of the shapes of a."""
    low, up, dl, du = given["l"], given["u"], given["dl"], given["du"]
    return given["p"] @ _of_lu(call, low, up, dl, du)


def lu_factor(call: Call, given: Given) -> Any:
    packed, dy = given["lu"], given["dy"]
    m, n = packed.shape[-2:]
    k = min(m, n)
    low = _triangle(call, packed[..., :k], upper=False, strict=True) + _eye(call, packed[..., :k])
    up, du = (_triangle(call, each[..., :k, :], upper=True) for each in (packed, dy))
    dl = _triangle(call, dy[..., :k], upper=False, strict=True)
    found = _of_lu(call, low, up, dl, du)
    if m > n:
        return call("linalg_lu", given["a"])[0] @ found
    return _permuted(call, given["pivots"], found, is_back=True)


def lu_solve(call: Call, given: Given) -> tuple[Any, Any]:
    packed, pivots, x, left = given["lu"], given["pivots"], given["x"], given["left"]
    transpose, conjugate = given["transpose"], given["conjugate"]
    db = call("linalg_lu_solve", packed, pivots, given["dy"], left=left, transpose=not transpose,
              conjugate=not conjugate)  # fmt: skip
    da = -(db @ _adjoint(x)) if left else -(_adjoint(x) @ db)  # of the matrix as it was solved with
    da = _conjugate(da) if conjugate else da
    da = _permuted(call, pivots, summed(_transposed(da) if transpose else da, packed.shape))
    low = _triangle(call, packed, upper=False, strict=True) + _eye(call, packed)
    up = _triangle(call, packed, upper=True)
    of_packed = _triangle(call, da @ _adjoint(up), upper=False, strict=True)
    of_packed = of_packed + _triangle(call, _adjoint(low) @ da, upper=True)
    return of_packed, summed(db, given["b"].shape)


def _of_lu(call: Call, low: Any, up: Any, dl: Any, du: Any) -> Any:
    """The gradient of L U, before its rows are exchanged."""
    k, is_complex = low.shape[-1], "complex" in str(low.dtype)
    square_low, square_up = low[..., :k, :], up[..., :k]
    of_low = _adjoint(square_low) @ dl[..., :k, :]
    of_up = du[..., :k] @ _adjoint(square_up)
    if up.shape[-1] > k:
        of_low = of_low - du[..., k:] @ _adjoint(up[..., k:])
    if low.shape[-2] > k:
        of_up = of_up - _adjoint(low[..., k:, :]) @ dl[..., k:, :]
    inner = _triangle(call, of_low, upper=False, strict=True) + _triangle(call, of_up, upper=True)

    def divided(x: Any, *, by_low: bool) -> Any:
        return call(
            "linalg_solve_triangular", square_low if by_low else square_up, x, upper=not by_low, left=by_low,
            unitriangular=by_low, transpose=True, conjugate=is_complex,
        )  # fmt: skip

    found = divided(divided(inner, by_low=True), by_low=False)
    if up.shape[-1] > k:
        found = call("concatenate", [found, divided(du[..., k:], by_low=True)], axis=-1)
    if low.shape[-2] > k:
        found = call("concatenate", [found, divided(dl[..., k:, :], by_low=False)], axis=-2)
    return found


def _permuted(call: Call, pivots: Any, x: Any, *, is_back: bool = False) -> Any:
    """P^T x, or P x: a solution with identities for L and U."""
    return call("linalg_lu_solve", _eye(call, x @ _adjoint(x)), pivots, x, transpose=is_back)


# --- reflectors -------------------------------------------------------------------------------------------------------


def householder_product(call: Call, given: Given) -> tuple[Any, Any]:
    """Q's first columns are Q times those of an identity."""
    if given["complete"]:
        raise UnsupportedError("linalg_householder_product has no gradient of more columns of q than v has")
    return _of_reflectors(call, given["v"], given["tau"], _eye(call, given["v"]), given["dy"], adjoint=False)


def ormqr(call: Call, given: Given) -> tuple[Any, Any, Any]:
    v, tau, c, dy, adjoint, right = (given[name] for name in ("v", "tau", "c", "dy", "adjoint", "right"))
    dc = call("linalg_ormqr", v, tau, dy, right=right, adjoint=not adjoint)
    c, dy, adjoint = (_adjoint(c), _adjoint(dy), not adjoint) if right else (c, dy, adjoint)
    return *_of_reflectors(call, v, tau, c, dy, adjoint=bool(adjoint)), dc


def _of_reflectors(call: Call, packed: Any, tau: Any, c: Any, dy: Any, *, adjoint: bool) -> tuple[Any, Any]:
    """Gradient of Q c or Q^H c, by Q = I - V T V^H with T = (I + D S)^-1 D, D being diag(tau) and S the upper triangle
    of V^H V without its diagonal: Schreiber and Van Loan (1989).
    """
    count, is_complex = tau.shape[-1], "complex" in str(packed.dtype)
    packed, unread = packed[..., :count], packed[..., count:]
    v = _triangle(call, packed, upper=False, strict=True) + _eye(call, packed)
    product = _adjoint(v) @ v
    identity = _eye(call, product)
    d, s = identity * tau[..., None, :], _triangle(call, product, upper=True, strict=True)
    m = identity + tau[..., :, None] * s
    t = call("linalg_solve_triangular", m, d, upper=True)
    z = _adjoint(v) @ c
    outer = _adjoint(v) @ dy
    if adjoint:
        dt, dz = -(z @ _adjoint(outer)), -(t @ outer)
        dv = -(dy @ (_adjoint(z) @ t)) + c @ _adjoint(dz)
    else:
        dt, dz = -(outer @ _adjoint(z)), -(_adjoint(t) @ outer)
        dv = -(dy @ (_adjoint(z) @ _adjoint(t))) + c @ _adjoint(dz)
    dd = call("linalg_solve_triangular", m, dt, upper=True, transpose=True, conjugate=is_complex)
    dm = -(dd @ _adjoint(t))
    ds = _triangle(call, _conjugate(tau)[..., :, None] * dm, upper=True, strict=True)
    dv = dv + v @ (ds + _adjoint(ds))
    dtau = ((dd + dm @ _adjoint(s)) * identity).sum(-1)
    dv = _triangle(call, dv, upper=False, strict=True)
    if unread.shape[-1]:
        dv = call("concatenate", [dv, 0 * unread], axis=-1)
    return dv, dtau
