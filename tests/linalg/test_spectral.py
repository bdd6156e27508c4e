# SPDX-License-Identifier: Apache-2.0
"""Eigenvalues and singular values of difficult matrices: residuals and orthogonality within c n eps in double
precision, NumPy as a second opinion, bad members of a batch, and the same bits each time."""

import numpy as np
import pytest

import baracuda as bk

DTYPES = (np.float32, np.float64, np.complex64, np.complex128)
pytestmark = [
    pytest.mark.host_arrays,
    pytest.mark.needs_ops(
        *[f"linalg_{op}_{t}" for op in ("eigh", "svd", "eig", "pinv", "polar") for t in ("f32", "f64", "c32", "c64")]
    ),
]  # fmt: skip
MOST = 12  # times n eps: residuals and defects of orthogonality stay below 3


def hilbert(n):
    return 1 / (np.arange(n)[:, None] + np.arange(n) + 1)


def reflected(rng, n, values):
    q = np.linalg.qr(rng.standard_normal((n, n)))[0]
    return (q * values) @ q.T


def wilkinson(n):
    """Pairs of eigenvalues that agree to many digits."""
    return np.diag(np.abs(np.arange(n) - (n - 1) / 2)) + np.diag(np.ones(n - 1), 1) + np.diag(np.ones(n - 1), -1)


HERMITIAN = {
    "zero": lambda rng, n: np.zeros((n, n)),
    "identity": lambda rng, n: np.eye(n),
    "repeated": lambda rng, n: reflected(rng, n, np.where(np.arange(n) < n // 2, 1.0, -3.0)),
    "singular": lambda rng, n: reflected(rng, n, np.where(np.arange(n) < n // 3, 1.0 + np.arange(n), 0.0)),
    "rank_one": lambda rng, n: np.ones((n, n)),
    "hilbert": lambda rng, n: hilbert(n),
    "wilkinson": lambda rng, n: wilkinson(n),
    "graded": lambda rng, n: reflected(rng, n, 1.0 + np.arange(n)) * 10.0 ** -np.add.outer(np.arange(n), np.arange(n)),
    "graded_up": lambda rng, n: np.diag(10.0 ** np.clip(np.arange(n) - 20.0, -20, 10)) + 1e-25,
    "diagonal": lambda rng, n: np.diag(rng.standard_normal(n)),
    "wide": lambda rng, n: reflected(rng, n, 10.0 ** (-np.arange(n) / 2)),
    "ones_beside": lambda rng, n: np.diag(np.ones(n - 1), 1) + np.diag(np.ones(n - 1), -1),
}  # fmt: skip
GENERAL = {
    "zero": lambda rng, n: np.zeros((n, n)),
    "identity": lambda rng, n: np.eye(n),
    "shift": lambda rng, n: np.roll(np.eye(n), 1, 0),
    "jordan": lambda rng, n: np.diag(np.ones(n - 1), 1) + 2 * np.eye(n),
    "nilpotent": lambda rng, n: np.diag(np.ones(n - 1), 1),
    "upper": lambda rng, n: np.triu(rng.standard_normal((n, n))),
    "lower": lambda rng, n: np.tril(rng.standard_normal((n, n))),
    "skew": lambda rng, n: np.triu(np.ones((n, n)), 1) - np.tril(np.ones((n, n)), -1),
    "orthogonal": lambda rng, n: np.linalg.qr(rng.standard_normal((n, n)))[0],
    "companion": lambda rng, n: np.diag(np.ones(n - 1), -1) - np.outer(np.eye(n)[0], rng.standard_normal(n)),
    "graded": lambda rng, n: rng.standard_normal((n, n)) * 10.0 ** np.linspace(-1, 1, n),
    "unbalanced": lambda rng, n: rng.standard_normal((n, n)) * 10.0 ** np.subtract.outer(*[np.linspace(-5, 5, n)] * 2),
    "singular": lambda rng, n: rng.standard_normal((n, n)) * (np.arange(n) < n // 2),
    "hilbert": lambda rng, n: hilbert(n),
    "random": lambda rng, n: rng.standard_normal((n, n)),
}  # fmt: skip


def made(kinds, dtype, n, seed=0):
    """One matrix of each kind; of complex dtypes in other bases, so that elements are complex."""
    rng = np.random.default_rng(seed)
    found = np.stack([kinds[name](rng, n) for name in kinds])
    if np.issubdtype(dtype, np.complexfloating):
        phase = np.exp(1j * np.arange(n))
        found = phase[:, None] * found * phase.conj()
    return found.astype(dtype)


def small(x, n, dtype, scale=1.0):
    """Whether every number of each matrix is at most MOST n eps times a scale for each."""
    most = np.abs(x).max((-1, -2)) if x.size else np.zeros(())
    bound = MOST * n * np.finfo(dtype).eps * np.asarray(scale)
    assert np.all(most <= bound), (most / np.maximum(bound, 1e-300)).round(2)


def wider(a):
    return a.astype(np.complex128)


def adjoint(a):
    return np.conj(np.swapaxes(a, -1, -2))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [2, 5, 8, 13, 32, 47])
def test_hermitian(n, dtype):
    a = made(HERMITIAN, dtype, n)
    for uplo in "LU":
        w, v = bk.linalg.eigh(a, uplo)
        whole, vectors = wider(a), wider(v)
        norm = np.linalg.norm(whole, 2, (-1, -2))
        small(whole @ vectors - vectors * w[:, None], n, dtype, norm)
        small(adjoint(vectors) @ vectors - np.eye(n), n, dtype)
        assert np.all(np.diff(w, axis=-1) >= 0)
        small((w - np.linalg.eigvalsh(whole))[..., None], n, dtype, norm)
        values = bk.linalg.eigvalsh(a, uplo)
        small((values - w)[..., None], n, dtype, norm)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(2, 2), (5, 3), (3, 5), (8, 8), (13, 40), (40, 13), (33, 33)])
def test_singular(shape, dtype):
    m, n = shape
    most = max(m, n)
    a = np.concatenate([made(kinds, dtype, most) for kinds in (HERMITIAN, GENERAL)])[:, :m, :n]
    whole, k = wider(a), min(m, n)
    norm = np.linalg.norm(whole, 2, (-1, -2))
    for full in (False, True):
        u, s, vh = map(wider, bk.linalg.svd(a, full))
        small(whole - (u[..., :k] * s[:, None]) @ vh[:, :k], most, dtype, norm)
        small(adjoint(u) @ u - np.eye(u.shape[-1]), most, dtype)
        small(vh @ adjoint(vh) - np.eye(vh.shape[-2]), most, dtype)
        assert np.all(np.diff(s.real, axis=-1) <= 0) and np.all(s.real >= 0)
        small((s - np.linalg.svd(whole, compute_uv=False))[..., None], most, dtype, norm)
    small((bk.linalg.svdvals(a) - s)[..., None], most, dtype, norm)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [2, 3, 5, 8, 13, 33])
def test_general(n, dtype):
    a = made(GENERAL, dtype, n)
    w, v, left, info = bk.linalg.eig_ex(a)
    assert not info.any()
    whole, vectors, lefts, values = map(wider, (a, v, left, w))
    norm = np.linalg.norm(whole, 2, (-1, -2))
    small(whole @ vectors - vectors * values[:, None], n, dtype, norm)
    small(adjoint(lefts) @ whole - values[..., None] * adjoint(lefts), n, dtype, norm)
    for each in (vectors, lefts):
        small((np.linalg.norm(each, axis=-2) - 1)[..., None], n, dtype)
    if not np.issubdtype(dtype, np.complexfloating):
        is_real = w.imag == 0
        assert not v.imag[np.broadcast_to(is_real[:, None], v.shape)].any(), "vectors of real values are real"
        k, j = np.nonzero(w.imag > 0)
        assert np.array_equal(w[k, j + 1], w[k, j].conj()), "pairs are conjugate, the positive part first"
        assert np.array_equal(v[k, :, j + 1], v[k, :, j].conj())
    # The values of normal matrices move by no more than the residual.
    for name in ("shift", "skew", "orthogonal", "identity", "zero"):
        k = list(GENERAL).index(name)
        apart = np.abs(values[k][:, None] - np.linalg.eigvals(whole[k]))
        small(apart.min(0)[:, None], n, dtype, 2 * max(norm[k], 1e-300))
    assert np.all(np.diff(w.real, axis=-1) >= 0)


@pytest.mark.parametrize("dtype", DTYPES)
def test_triangular_values_are_exact(dtype):
    a = np.triu(np.random.default_rng(1).standard_normal((6, 9, 9))).astype(dtype)
    w = bk.linalg.eigvals(a)
    assert np.array_equal(np.sort(np.diagonal(a, 0, 1, 2).real, -1), w.real) and not w.imag.any()


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_bad_member_hurts_no_other(dtype):
    rng = np.random.default_rng(2)
    for n in (3, 12, 40):
        a = rng.standard_normal((6, n, n)).astype(dtype)
        spoilt = a.copy()
        spoilt[1, n - 1, 0], spoilt[4, 1, 1] = np.nan, np.inf
        for function, at_fault in ((bk.linalg.eigh_ex, n + 1), (bk.linalg.eig_ex, n + 1), (bk.linalg.svd_ex, n + 1),
                                   (bk.linalg.pinv_ex, n + 1)):  # fmt: skip
            good, found = function(a), function(spoilt)
            assert found.info.tolist() == [0, at_fault, 0, 0, at_fault, 0]
            for name in good._fields:
                ours, theirs = getattr(found, name), getattr(good, name)
                assert np.array_equal(ours[[0, 2, 3, 5]], theirs[[0, 2, 3, 5]]), name
                if name not in ("info", "rank"):
                    assert np.isnan(ours[[1, 4]]).all(), name


@pytest.mark.parametrize("dtype", DTYPES)
def test_bits_repeat_and_do_not_depend_on_the_batch(dtype):
    a = np.random.default_rng(3).standard_normal((5, 20, 20)).astype(dtype)
    for function in (bk.linalg.eigh, bk.linalg.eig, bk.linalg.svd, bk.linalg.polar):
        whole = function(a)
        for again in (function(a), [np.concatenate(each) for each in zip(*[function(a[k : k + 1]) for k in range(5)])]):
            assert all(np.array_equal(x, y) for x, y in zip(whole, again))


def test_leading_axes_and_layouts():
    rng = np.random.default_rng(4)
    a = rng.standard_normal((2, 3, 5, 4))
    views = (a, np.asfortranarray(a), a.swapaxes(-1, -2), a[:, ::-1], a[..., ::2, :], np.broadcast_to(a[:1], a.shape))
    for each in views:
        u, s, vh = bk.linalg.svd(each, full_matrices=False)
        assert np.allclose((u * s[..., None, :]) @ vh, each)
        assert s.shape == (*each.shape[:-2], min(each.shape[-2:]))
        assert np.allclose(bk.linalg.pinv(each), np.linalg.pinv(each))
    assert bk.linalg.eigvalsh(np.zeros((2, 0, 3, 3))).shape == (2, 0, 3)
    assert bk.linalg.svdvals(np.zeros((2, 0, 3))).shape == (2, 0)
    assert np.array_equal(bk.linalg.svd(np.zeros((0, 3))).Vh, np.eye(3))
    assert bk.linalg.eig(np.zeros((0, 0), np.float32)).eigenvectors.dtype == np.complex64
    assert np.array_equal(bk.linalg.eigh(np.array([[-2.0]])).eigenvectors, [[1.0]])


@pytest.mark.parametrize("dtype", DTYPES)
def test_ranks_and_pseudoinverses(dtype):
    a = np.concatenate([made(kinds, dtype, 9) for kinds in (HERMITIAN, GENERAL)])[:, :7]
    for tolerance in ({}, {"rtol": 1e-2}, {"atol": 0.1}, {"rtol": 1e-3, "atol": 0.5}):
        s = np.linalg.svd(wider(a), compute_uv=False)
        limit = s[:, :1] * tolerance.get("rtol", 0 if "atol" in tolerance else 9 * np.finfo(dtype).eps)
        limit = np.maximum(limit, tolerance.get("atol", 0))
        is_clear = (np.abs(s - limit) > 20 * np.finfo(dtype).eps * s[:, :1]).all(-1) | (s[:, 0] == 0)
        ranks = bk.linalg.matrix_rank(a, **tolerance)
        assert np.array_equal(ranks[is_clear], (s > limit).sum(-1)[is_clear])
        y, same, info = bk.linalg.pinv_ex(a, **tolerance)
        assert np.array_equal(same, ranks) and not info.any()
        inverse = wider(y)
        least = np.array([each[max(rank - 1, 0)] for each, rank in zip(s, ranks)])
        moved = np.divide(s[:, 0], least**2, out=np.zeros(len(s)), where=ranks > 0)
        small(inverse @ wider(a) @ inverse - inverse, 9, dtype, 9 * moved)


@pytest.mark.needs_ops("binary_div_f64_strided", "where_f64_strided", "reduce_norm2_axes_f64", "linalg_inv_f64")
def test_condition_numbers():
    a = np.random.default_rng(5).standard_normal((3, 5, 5))
    for p in (None, 2, -2):
        assert np.allclose(bk.linalg.cond(a, p), np.linalg.cond(a, p))
    assert np.isinf(bk.linalg.cond(np.diag([1.0, 0.0])))
    assert all(np.isinf(bk.linalg.cond(np.zeros((3, 3)), p)) for p in (None, 2, -2, 1, "fro"))
    assert all(np.isnan(bk.linalg.cond(np.full((3, 3), np.nan), p)) for p in (None, 2, -2, 1, "fro"))


@pytest.mark.parametrize("dtype", DTYPES)
def test_polar(dtype):
    a = np.concatenate([made(kinds, dtype, 9) for kinds in (HERMITIAN, GENERAL)])
    for each in (a, a[:, :5], a[..., :5]):
        u, p = map(wider, bk.linalg.polar(each))
        norm = np.linalg.norm(wider(each), 2, (-1, -2))
        small(u @ p - wider(each), 9, dtype, norm)
        of_columns = each.shape[1] >= each.shape[2]
        small((adjoint(u) @ u if of_columns else u @ adjoint(u)) - np.eye(min(each.shape[1:])), 9, dtype)
        small(p - adjoint(p), 9, dtype, norm)
        assert np.all(np.linalg.eigvalsh(p).min(-1) >= -MOST * 9 * np.finfo(dtype).eps * norm)
        assert np.array_equal(bk.linalg.orthogonalize(each), bk.linalg.polar(each).U)


def test_wrong_arguments():
    a = np.zeros((3, 3))
    with pytest.raises(bk.InvalidProblemError, match=r"UPLO is 'X', must be 'L' or 'U'"):
        bk.linalg.eigh(a, "X")
    with pytest.raises(bk.InvalidProblemError, match=r"a has shape \(2, 3\)"):
        bk.linalg.eig(a[:2])
    with pytest.raises(bk.InvalidProblemError, match=r"a has shape \(3,\)"):
        bk.linalg.svdvals(a[0])
    with pytest.raises(bk.InvalidProblemError, match=r"rtol is -1"):
        bk.linalg.pinv(a, -1)
    with pytest.raises(bk.InvalidProblemError, match=r"method is 'qr'"):
        bk.linalg.orthogonalize(a, method="qr")
