# SPDX-License-Identifier: Apache-2.0
"""Well-conditioned matrices in any layout, and factorisations as they are defined, for the cases beside this one."""

import numpy as np

from tools.oracle.numerics import COMPLEX, round_to

from ..model import Expected, strides_for

REAL = {"c32": "f32", "c64": "f64"}
LAYOUTS = {
    "dense": {},
    "columns": {"order": (0, 2, 1)},
    "pitch": {"pad": 3},
    "last_batch": {"order": (1, 2, 0)},
    "reversed": {"flip": (0, 1, 2)},
    "gap": {"gap": 2},
    "one": {"broadcast": (0,)},
}


def random(draw, shape):
    a = draw.rng.standard_normal(shape)
    return a + 1j * draw.rng.standard_normal(shape) if draw.dtype in COMPLEX else a


def dominant(draw, batch, m, n):
    """Matrices with a large diagonal, their rows in any order."""
    a = random(draw, (batch, m, n))
    a[:, range(min(m, n)), range(min(m, n))] += 2 * max(m, n) + 2
    return np.stack([each[draw.rng.permutation(m)] for each in a]) if batch else a


def positive(draw, batch, n):
    """Hermitian matrices with eigenvalues that are alike."""
    a = random(draw, (batch, n, n))
    return a @ adjoint(a) + 2 * n * np.eye(n)


def adjoint(a):
    return np.conj(np.swapaxes(a, -1, -2))


def rounded(draw, a, layout="dense"):
    """(array in the dtype, its strides)"""
    real = REAL.get(draw.dtype, draw.dtype)
    a = np.asarray(a)
    exact = round_to(a.real, real).reshape(a.shape)
    if draw.dtype in COMPLEX:
        exact = exact + 1j * round_to(a.imag, real).reshape(a.shape)
    strides = strides_for(a.shape, **LAYOUTS[layout])
    return draw.array(exact, draw.dtype, strides), strides


def plain(draw, a):
    """A row-major array in the dtype."""
    made, _ = rounded(draw, a)
    made.strides = None
    return made


def output(draw, shape, layout):
    strides = strides_for(shape, **LAYOUTS[layout])
    return draw.output(shape, strides), strides


def conditions(a):
    """Condition numbers of the batch, 1 of those that are singular or not finite."""
    found = np.ones(len(a))
    for b, each in enumerate(a):
        if each.size and np.isfinite(each).all():
            values = np.linalg.svd(each, compute_uv=False)
            found[b] = values[0] / values[-1] if values[-1] > 1e-9 * values[0] else 1
    return found


def bounded(value, count, condition, scale=None):
    """A result whose relative error is that of `count` operations, times the condition of each matrix."""
    value = np.asarray(value)
    size = np.where(np.isfinite(value), np.abs(value), 0) if scale is None else scale
    axes = tuple(range(1, value.ndim))
    largest = size.max(axes, keepdims=True, initial=0) if axes else size
    factor = np.asarray(condition).reshape((-1,) + (1,) * (value.ndim - 1)) if value.ndim else 1
    return Expected(value, count, np.broadcast_to(largest * factor, value.shape))


def cholesky(a):
    """(L of A's lower triangle, info): NaN of a matrix that is not positive definite."""
    n = len(a)
    lower = np.zeros_like(a)
    for k in range(n):
        pivot = a[k, k].real - (np.abs(lower[k, :k]) ** 2).sum()
        if not 0 < pivot < np.inf:
            return np.where(np.tri(n) == 1, np.nan, 0), k + 1
        lower[k, k] = np.sqrt(pivot)
        lower[k + 1 :, k] = (a[k + 1 :, k] - lower[k + 1 :, :k] @ np.conj(lower[k, :k])) / lower[k, k]
    return lower, 0


def lu(a):
    """(packed factors, rows exchanged, from 1, info)"""
    a, (m, n) = a.copy(), a.shape
    pivots, info = [], 0
    for k in range(min(m, n)):
        size = np.abs(a[k:, k].real) + np.abs(a[k:, k].imag)
        at = k + int(np.argmax(size))
        pivots.append(at + 1)
        a[[k, at]] = a[[at, k]]
        if a[k, k] == 0:
            info = info or k + 1
            continue
        a[k + 1 :, k] /= a[k, k]
        a[k + 1 :, k + 1 :] -= np.outer(a[k + 1 :, k], a[k, k + 1 :])
    return a, np.array(pivots, np.int64), info


def permutation(pivots, m):
    """P of P A = L U."""
    rows = np.arange(m)
    for k, at in enumerate(pivots):
        rows[[k, at - 1]] = rows[[at - 1, k]]
    return np.eye(m)[rows]


def qr(a):
    """(packed factors, tau) of Householder reflectors with real results."""
    a, (m, n) = a.copy(), a.shape
    taus = np.zeros(min(m, n), a.dtype)
    for k in range(min(m, n)):
        x = a[k:, k].copy()
        if not np.any(x[1:]) and x[0].imag == 0:
            continue
        beta = -np.copysign(np.linalg.norm(x), x[0].real)
        taus[k] = (beta - x[0]) / beta
        v = x / (x[0] - beta)
        v[0] = 1
        a[k:, k + 1 :] -= np.conj(taus[k]) * np.outer(v, np.conj(v) @ a[k:, k + 1 :])
        a[k:, k] = v
        a[k, k] = beta
    return a, taus


def reflectors(v, tau):
    """Q = H_0 H_1 ... of packed vectors and their factors."""
    m = v.shape[0]
    q = np.eye(m, dtype=np.result_type(v, tau))
    for k, factor in enumerate(tau):
        x = np.concatenate([np.zeros(k), [1], v[k + 1 :, k]])
        q = q - factor * np.outer(q @ x, np.conj(x))
    return q


def stacked(function, a, *shapes):
    """The results of a function of one matrix for a batch; shapes of results where there is none."""
    made = [function(each) for each in a]
    return [np.stack([each[k] for each in made]) if made else np.zeros((0, *shape)) for k, shape in enumerate(shapes)]
