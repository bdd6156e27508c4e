# SPDX-License-Identifier: Apache-2.0
"""Gradients of eigenvalues, singular values and pseudoinverses, for PyTorch and JAX.

Formulas are those of Giles 2008 (An extended collection of matrix derivative results for forward and reverse mode AD)
and, for complex matrices, of PyTorch, whose convention for complex gradients they follow. The gradient of vectors is
infinite or NaN where values are equal, as in PyTorch; that of values alone is finite.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from baracuda._functions.gradients.linear_algebra import summed

Call = Callable[..., Any]  # calls a function by its name
Given = Mapping[str, Any]


def _adjoint(x: Any) -> Any:
    return x.mT.conj()


def _identity(call: Call, like: Any) -> Any:
    """The identity of the shape of square matrices."""
    return call("tril", call("triu", 0 * like.real + 1))


def _diagonal(call: Call, x: Any) -> Any:
    """x without what is off the diagonal."""
    return call("tril", call("triu", x))


def _over(x: Any, differences: Any, identity: Any) -> Any:
    """x over the differences, off the diagonal; 0 on it."""
    return (x - x * identity) / (differences + identity)


def of_eigh(call: Call, given: Given) -> Any:
    """V (diag(dw) + (V^H dv) / (w[j] - w[i])) V^H."""
    w, v, dw, dv = (given[name] for name in ("w", "v", "dy", "dv"))
    identity = _identity(call, v)
    differences = w[..., None, :] - w[..., :, None]
    inner = _over(_adjoint(v) @ dv, differences, identity) + identity * dw[..., None, :]
    return v @ inner @ _adjoint(v)


def of_eigvalsh(call: Call, given: Given) -> Any:
    """V diag(dw) V^H, with vectors that are computed again."""
    _, v, _ = call("linalg_eigh", given["a"], upper=given["upper"])
    return (v * given["dy"][..., None, :]) @ _adjoint(v)


def _of_general(call: Call, w: Any, v: Any, dw: Any, dv: Any, like: Any) -> Any:
    """V^-H (diag(dw) + (V^H dv - V^H V Re diag(V^H dv)) / conj(w[j] - w[i])) V^H."""
    identity = _identity(call, v)
    inner = identity * dw[..., None, :]
    if dv is not None:
        along = _adjoint(v) @ dv
        on_diagonal = (along.real * identity).sum(-1)
        along = along - _adjoint(v) @ (v * on_diagonal[..., None, :])
        inner = inner + _over(along, (w[..., None, :] - w[..., :, None]).conj(), identity)
    found, _ = call("linalg_solve", _adjoint(v), inner @ _adjoint(v))
    return found if "complex" in str(like.dtype) else found.real


def of_eig(call: Call, given: Given) -> Any:
    return _of_general(call, given["w"], given["v"], given["dy"], given["dv"], given["a"])


def of_eigvals(call: Call, given: Given) -> Any:
    w, v, _ = call("linalg_eig", given["a"])
    return _of_general(call, w, v, given["dy"], None, given["a"])


def of_svd(call: Call, given: Given) -> Any:
    """The gradient of reduced vectors; those of full ones beyond the values have none, as in PyTorch."""
    u, s, vh, du, ds, dvh = (given[name] for name in ("u", "s", "vh", "dy", "ds", "dvh"))
    count = s.shape[-1]
    m, n = u.shape[-2], vh.shape[-1]
    u, du, vh, dvh = u[..., :count], du[..., :count], vh[..., :count, :], dvh[..., :count, :]
    identity = _identity(call, _adjoint(u) @ u)
    row, column = s[..., None, :], s[..., :, None]
    squares = row * row - column * column
    of_u, of_v = _adjoint(u) @ du, vh @ _adjoint(dvh)
    skew_u, skew_v = of_u - _adjoint(of_u), of_v - _adjoint(of_v)
    inner = _over(skew_u * row + column * skew_v, squares, identity) + identity * ds[..., None, :]
    if "complex" in str(u.dtype):
        inner = inner + skew_u * identity / (2 * row)
    found = u @ inner @ vh
    if m > count:
        scaled = du / row
        found = found + (scaled - u @ (_adjoint(u) @ scaled)) @ vh
    if n > count:
        scaled = dvh / column
        found = found + u @ (scaled - (scaled @ _adjoint(vh)) @ vh)
    return found


def of_svdvals(call: Call, given: Given) -> Any:
    """U diag(ds) V^H, with vectors that are computed again."""
    u, _, vh, _ = call("linalg_svd", given["a"], full_matrices=False)
    return (u * given["dy"][..., None, :]) @ vh


def of_pinv(call: Call, given: Given) -> Any:
    """Golub & Pereyra 1973, for matrices whose rank does not change; products are of the shorter side."""
    a, y, adjoint = given["a"], given["y"], _adjoint(given["dy"])
    of_y = _adjoint(y)
    if a.shape[-2] <= a.shape[-1]:
        inner = adjoint @ y
        right = inner @ of_y
        return -_adjoint(y @ inner) + right - (a @ y) @ right + (of_y @ y) @ (adjoint - inner @ a)
    inner = y @ adjoint
    left = of_y @ inner
    return -_adjoint(inner @ y) + (adjoint - a @ inner) @ y @ of_y + left - (left @ y) @ a


def of_lstsq(call: Call, given: Given) -> tuple[Any, Any]:
    """Gradient of x = A^+ b, by the gradient of the pseudoinverse, for matrices of full rank."""
    a, b, dy = given["a"], given["b"], given["dy"]
    y = call("linalg_pinv", a)[0]
    db = _adjoint(y) @ dy
    return of_pinv(call, {"a": a, "y": y, "dy": summed(dy @ _adjoint(b), y.shape)}), summed(db, b.shape)


def of_polar(call: Call, given: Given) -> Any:
    """Gradients for a = W S V^H: of u, W ((M - M^H) / (s[i] + s[j])) V^H for M = W^H du V, and what is outside the
    spaces of W and V over s; of p, 2 a X for the X that solves p X + X p = dp, made Hermitian.
    """
    a, du, dp = given["a"], given["dy"], given.get("dp")
    w, s, vh, _ = call("linalg_svd", a, full_matrices=False)
    sums = s[..., None, :] + s[..., :, None]
    inner = _adjoint(w) @ du @ _adjoint(vh)
    found = w @ ((inner - _adjoint(inner)) / sums) @ vh
    m, n = a.shape[-2:]
    if m > n:
        scaled = (du @ _adjoint(vh)) / s[..., None, :]
        found = found + (scaled - w @ (_adjoint(w) @ scaled)) @ vh
    if m < n:
        scaled = (_adjoint(w) @ du) / s[..., :, None]
        found = found + w @ (scaled - (scaled @ _adjoint(vh)) @ vh)
    if dp is None:
        return found
    hermitian = (dp + _adjoint(dp)) * 0.5
    within = vh @ hermitian @ _adjoint(vh)
    solved = _adjoint(vh) @ (within / sums) @ vh
    if m < n:  # the other vectors of p have the value 0
        half = (vh @ hermitian - within @ vh) / s[..., :, None]
        solved = solved + _adjoint(vh) @ half + _adjoint(half) @ vh
    return found + 2 * (a @ solved)
