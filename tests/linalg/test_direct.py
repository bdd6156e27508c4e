# SPDX-License-Identifier: Apache-2.0
"""Factorisations and solutions of difficult matrices: residuals within c n eps in double precision, what fails and for
which matrix alone, extents of 0 and 1, and the same bits each time."""

import numpy as np
import pytest

import baracuda as bk

from .test_spectral import DTYPES, GENERAL, HERMITIAN, adjoint, hilbert, made, reflected, small, wider

OPS = ("cholesky", "lu_factor", "lu", "qr_factor", "qr", "ldl_factor", "ldl_solve", "solve", "inv", "det", "slogdet",
       "lstsq", "matrix_exp", "cholesky_solve", "lu_solve", "solve_triangular", "householder_product")  # fmt: skip
pytestmark = [
    pytest.mark.host_arrays,
    pytest.mark.needs_ops(*[f"linalg_{op}_{t}" for op in OPS for t in ("f32", "f64", "c32", "c64")]),
]
POSITIVE = {
    "identity": lambda rng, n: np.eye(n),
    "repeated": lambda rng, n: reflected(rng, n, np.where(np.arange(n) < n // 2, 1.0, 3.0)),
    "graded": lambda rng, n: reflected(rng, n, 1.0 + np.arange(n)) * 10.0 ** -np.add.outer(*[np.arange(n) / n] * 2),
    "wide": lambda rng, n: reflected(rng, n, 10.0 ** (-np.arange(n) * 4 / n)),
    "hilbert": lambda rng, n: hilbert(n) + np.eye(n) / 100,
    "laplace": lambda rng, n: 2 * np.eye(n) - np.eye(n, k=1) - np.eye(n, k=-1),
}
INFINITE = float("inf")


def norms(a):
    return np.linalg.norm(wider(a), 2, (-1, -2))


def is_complex(dtype):
    return np.issubdtype(dtype, np.complexfloating)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 2, 5, 8, 17, 32, 70, 130])
def test_cholesky(n, dtype):
    a = made(POSITIVE, dtype, n)
    for upper in (False, True):
        factor, info = bk.linalg.cholesky_ex(a, upper=upper)
        whole = wider(factor)
        product = adjoint(whole) @ whole if upper else whole @ adjoint(whole)
        small(product - wider(a), n, dtype, norms(a))
        assert not info.any() and not (np.tril if upper else np.triu)(whole, -1 if upper else 1).any()
        b = np.random.default_rng(n).standard_normal((len(a), n, 3)).astype(dtype)
        x = bk.linalg.cholesky_solve(b, factor, upper=upper)
        small(wider(a) @ wider(x) - b, n, dtype, norms(a) * np.abs(x).sum((-1, -2)))
        inverse = bk.linalg.cholesky_inverse(factor, upper=upper)
        small(wider(a) @ wider(inverse) - np.eye(n), n, dtype, norms(a) * np.linalg.norm(wider(inverse), axis=(-1, -2)))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1, 1), (2, 2), (5, 3), (3, 5), (8, 8), (17, 40), (40, 17), (33, 33), (100, 70)])
def test_lu_and_qr(shape, dtype):
    m, n = shape
    most = max(shape)
    a = np.concatenate([made(kinds, dtype, most) for kinds in (HERMITIAN, GENERAL)])[:, :m, :n]
    p, low, up = map(wider, bk.linalg.lu(a))
    small(p @ low @ up - wider(a), most, dtype, norms(a))
    assert np.array_equal(p @ adjoint(p), np.broadcast_to(np.eye(m), p.shape))
    assert np.abs(low).max() <= (1.5 if is_complex(dtype) else 1), "pivots are the largest of their columns"
    assert not np.triu(low, 1).any() and not np.tril(up, -1).any()
    packed, _, info = bk.linalg.lu_factor_ex(a)
    assert np.array_equal(np.triu(packed)[:, : min(shape)], up)
    zeros = np.diagonal(up, 0, 1, 2) == 0
    assert np.array_equal(info, np.where(zeros.any(-1), zeros.argmax(-1) + 1, 0))
    for mode in ("reduced", "complete"):
        q, r = map(wider, bk.linalg.qr(a, mode))
        small(q @ r - wider(a), most, dtype, norms(a))
        small(adjoint(q) @ q - np.eye(q.shape[-1]), most, dtype)
        assert not np.tril(r, -1).any() and q.shape[-1] == (m if mode == "complete" else min(shape))
    assert np.array_equal(bk.linalg.qr(a, "r").R, bk.linalg.qr(a).R) and bk.linalg.qr(a, "r").Q is None


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 2, 5, 8, 17, 32, 70, 130])
def test_solutions(n, dtype):
    """Residuals of solutions; the matrices that have none are those with a pivot of 0."""
    a = np.concatenate([made(kinds, dtype, n) for kinds in (HERMITIAN, GENERAL)])
    rng = np.random.default_rng(n)
    b = rng.standard_normal((len(a), n, 3)).astype(dtype)
    singular = bk.linalg.lu_factor_ex(a).info > 0
    for left in (True, False):
        given = b if left else b.swapaxes(-1, -2)
        x, info = bk.linalg.solve_ex(a, given, left=left)
        assert np.array_equal(info > 0, singular) and np.isnan(x[singular]).all()
        good = ~singular & np.isfinite(np.abs(x)).all((-1, -2))
        whole = wider(a[good]) @ wider(x[good]) if left else wider(x[good]) @ wider(a[good])
        small(whole - given[good], n, dtype, norms(a[good]) * np.abs(wider(x[good])).sum((-1, -2)))
    inverse, info = bk.linalg.inv_ex(a)
    assert np.array_equal(info > 0, singular) and np.isnan(inverse[singular]).all()
    good = ~singular & (np.linalg.cond(wider(a)) < 0.01 / np.finfo(dtype).eps)
    both = norms(a[good]) * np.linalg.norm(wider(inverse[good]), axis=(-1, -2))
    small(wider(a[good]) @ wider(inverse[good]) - np.eye(n), n, dtype, both)
    factors = bk.linalg.lu_factor(a[good])
    for adjoint_of in (False, True):
        x = wider(bk.linalg.lu_solve(*factors, b[good], adjoint=adjoint_of))
        op = adjoint(wider(a[good])) if adjoint_of else wider(a[good])
        small(op @ x - b[good], n, dtype, norms(a[good]) * np.linalg.norm(x, axis=(-1, -2)))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 2, 5, 17, 40])
def test_determinants(n, dtype):
    a = np.concatenate([made(kinds, dtype, n) for kinds in (HERMITIAN, GENERAL)])
    sign, logarithm = bk.linalg.slogdet(a)
    exact_sign, exact = np.linalg.slogdet(wider(a))
    regular = np.linalg.cond(wider(a)) < 0.001 / np.finfo(dtype).eps
    np.testing.assert_allclose(logarithm[regular], exact[regular], 1e-2, 1e-2)
    np.testing.assert_allclose(sign[regular], exact_sign[regular], 1e-2, 1e-2)
    singular = bk.linalg.lu_factor_ex(a).info > 0
    assert (
        np.all(logarithm[singular] == -INFINITE) and not sign[singular].any() and not bk.linalg.det(a[singular]).any()
    )
    scale = 1e-3 * np.prod(np.maximum(np.linalg.norm(wider(a), axis=-1), 1e-30), -1) + 1e-30
    assert np.all(np.abs(bk.linalg.det(a) - np.linalg.det(wider(a))) <= scale), "Hadamard's bound, times 1e-3"


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 2, 5, 8, 17, 33, 70])
def test_ldl(n, dtype):
    """Indefinite matrices, some with blocks of two rows; Hermitian and complex symmetric ones."""
    rng = np.random.default_rng(n)
    b = rng.standard_normal((4, n, 2)).astype(dtype)
    for hermitian in (False, True):
        a = rng.standard_normal((4, n, n)) + (1j * rng.standard_normal((4, n, n)) if is_complex(dtype) else 0)
        a[2] -= np.diag(np.diagonal(a[2]))  # each block has two rows, if n is even
        a = (a + (adjoint(a) if hermitian else a.swapaxes(-1, -2))).astype(dtype)
        factors, pivots, info = bk.linalg.ldl_factor_ex(a, hermitian=hermitian)
        good = info == 0
        assert good[[0, 1, 3]].all() and (n < 2 or (pivots < 0).any())
        x = wider(bk.linalg.ldl_solve(factors[good], pivots[good], b[good], hermitian=hermitian))
        small(wider(a[good]) @ x - b[good], n, dtype, 4 * norms(a[good]) * np.linalg.norm(x, axis=(-1, -2)))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(6, 6), (20, 7), (7, 20), (33, 33), (3, 1), (1, 3)])
def test_least_squares(shape, dtype):
    """Norms of residual and solution are the least at full and at less rank, and the rank is that of NumPy."""
    m, n = shape
    rng = np.random.default_rng(m)

    def drawn(*extents):
        return rng.standard_normal(extents) + (1j * rng.standard_normal(extents) if is_complex(dtype) else 0)

    least = max(1, min(shape) // 2)
    a = np.stack([drawn(m, n), drawn(m, least) @ drawn(least, n), np.zeros((m, n)), np.ones((m, n))]).astype(dtype)
    b = drawn(4, m, 2).astype(dtype)
    x, residuals, rank = bk.linalg.lstsq(a, b)
    assert rank.tolist() == [min(shape), least, 0, 1]
    for k in range(4):
        expected = np.linalg.lstsq(wider(a[k]), wider(b[k]), np.finfo(dtype).eps * max(shape))[0]
        near = 1e4 * np.finfo(dtype).eps
        np.testing.assert_allclose(x[k], expected, near, near * (1 + np.abs(expected).max()))
        left = (np.abs(wider(a[k]) @ expected - b[k]) ** 2).sum(0)
        np.testing.assert_allclose(residuals[k], left, near, near * (np.abs(b[k]) ** 2).sum())
    assert np.array_equal(bk.linalg.lstsq(a, b[..., 0]).rank, rank)
    assert bk.linalg.lstsq(a, b[..., 0]).solution.shape == (4, n)
    assert (bk.linalg.lstsq(a[:1], b[:1], rcond=2.0).rank == 0).all(), "no element of R is above twice the first"


@pytest.mark.parametrize("dtype", DTYPES)
def test_exponentials(dtype):
    near = 200 * np.finfo(dtype).eps
    n = 6
    nilpotent = np.diag(np.arange(1.0, n), 1).astype(dtype)
    expected, power = np.eye(n), np.eye(n)
    for k in range(1, n):
        power = power @ nilpotent.real / k
        expected = expected + power
    np.testing.assert_allclose(bk.linalg.matrix_exp(nilpotent), expected, near, near)
    angle = 30.0
    rotation = np.array([[0, -angle], [angle, 0]], dtype)
    expected = [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]
    np.testing.assert_allclose(bk.linalg.matrix_exp(rotation), expected, 0, 20 * near)
    values = np.array([-800.0, -1, 0, 1e-5, 3, 20])
    np.testing.assert_allclose(np.diagonal(bk.linalg.matrix_exp(np.diag(values).astype(dtype))), np.exp(values),
                               20 * near, 1e-30)  # fmt: skip
    a = made(GENERAL, dtype, n)
    both = wider(bk.linalg.matrix_exp(a)) @ wider(bk.linalg.matrix_exp(-a))
    moved = np.linalg.cond(wider(bk.linalg.matrix_exp(a)))
    fine = moved < 1e3
    assert fine.sum() >= 8
    small(both[fine] - np.eye(n), n, dtype, 10 * moved[fine])
    spoilt = np.stack([np.eye(n), np.full((n, n), np.nan), np.eye(n)]).astype(dtype)
    found = bk.linalg.matrix_exp(spoilt)
    assert np.isnan(found[1]).all() and np.isfinite(np.abs(found[[0, 2]])).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [3, 12, 40, 90])
def test_a_bad_member_hurts_no_other(n, dtype):
    a = made(POSITIVE, dtype, n)
    spoilt = a.copy()
    spoilt[1, n - 1, n - 1] = -1e3  # not positive definite
    spoilt[3, :, 0] = spoilt[3, 0] = 0  # singular, and not positive definite
    spoilt[4, 1, 1] = np.nan
    good, found = bk.linalg.cholesky_ex(a), bk.linalg.cholesky_ex(spoilt)
    assert found.info.tolist() == [0, n, 0, 1, 2, 0]
    for k in range(6):
        lower = found.L[k][np.tril_indices(n)]
        assert np.isnan(lower).all() if k in (1, 3, 4) else np.array_equal(found.L[k], good.L[k])
    b = np.ones((6, n, 2), dtype)
    for function in (lambda x: bk.linalg.inv_ex(x), lambda x: bk.linalg.solve_ex(x, b)):
        good, found = function(a), function(spoilt)
        assert found.info[[0, 1, 2, 5]].tolist() == [0] * 4 and found.info[3] == 1
        assert np.isnan(found[0][3]).all() and np.isnan(found[0][4]).any()
        assert np.array_equal(found[0][[0, 2, 5]], good[0][[0, 2, 5]])
    good, found = bk.linalg.qr(a), bk.linalg.qr(spoilt)
    assert all(np.array_equal(x[[0, 2, 5]], y[[0, 2, 5]]) for x, y in zip(good, found))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [4, 20, 75])
def test_bits_repeat_and_do_not_depend_on_the_batch(n, dtype):
    a = made(POSITIVE, dtype, n)
    b = np.random.default_rng(n).standard_normal((len(a), n, 3)).astype(dtype)
    functions = (
        lambda a, b: (bk.linalg.cholesky(a),), lambda a, b: bk.linalg.lu_factor(a), lambda a, b: bk.linalg.qr(a),
        lambda a, b: (bk.linalg.solve(a, b), bk.linalg.inv(a), bk.linalg.det(a), bk.linalg.matrix_exp(a)),
        lambda a, b: bk.linalg.lstsq(a, b), lambda a, b: bk.linalg.ldl_factor(a),
    )  # fmt: skip
    for function in functions:
        whole = function(a, b)
        single = [np.concatenate(each) for each in zip(*[function(a[k : k + 1], b[k : k + 1]) for k in range(len(a))])]
        for again in (function(a, b), function(np.asfortranarray(a), b[::-1][::-1]), single):
            assert all(np.array_equal(x, y) for x, y in zip(whole, again))


def test_nothing_and_one():
    empty, one = np.zeros((2, 0, 0)), np.full((1, 1), 4.0)
    for function in (bk.linalg.cholesky, bk.linalg.inv, bk.linalg.matrix_exp):
        assert function(empty).shape == (2, 0, 0) and function(np.zeros((0, 3, 3))).shape == (0, 3, 3)
    assert bk.linalg.det(empty).tolist() == [1, 1] and bk.linalg.slogdet(empty).logabsdet.tolist() == [0, 0]
    assert bk.linalg.solve(empty, np.zeros((2, 0, 3))).shape == (2, 0, 3)
    assert bk.linalg.solve(np.eye(3), np.zeros((3, 0))).shape == (3, 0)
    assert np.array_equal(bk.linalg.qr(np.zeros((3, 0)), "complete").Q, np.eye(3))
    assert bk.linalg.lu(np.zeros((3, 0))).L.shape == (3, 0) and bk.linalg.qr(np.zeros((0, 3))).R.shape == (0, 3)
    assert bk.linalg.lstsq(np.zeros((0, 3)), np.zeros((0, 2))).solution.tolist() == [[0, 0]] * 3
    assert bk.linalg.cholesky(one) == 2 and bk.linalg.inv(one) == 0.25 and bk.linalg.det(one) == 4
    assert abs(bk.linalg.qr(one).R) == 4 and bk.linalg.solve(one, np.array([2.0])).tolist() == [0.5]
    assert bk.linalg.matrix_exp(np.zeros((1, 1))) == 1 and bk.linalg.ldl_factor(one).LD == 4


@pytest.mark.parametrize("name, bad", [("cholesky", -np.eye(3)), ("inv", np.zeros((3, 3))),
                                       ("lu_factor", np.ones((3, 3))), ("solve", np.ones((3, 3)))])  # fmt: skip
def test_the_checking_mode_names_the_matrix(name, bad):
    arguments = (np.ones((3, 3, 2)),) if name == "solve" else ()
    batch = np.stack([np.eye(3), bad, np.eye(3)])
    function = getattr(bk.linalg, name)
    function(batch, *arguments)
    with bk.checked():
        function(batch[:1], *[each[:1] for each in arguments])
        with pytest.raises(
            bk.CheckError, match=r"info\[1\] is [12], must be 0: this matrix is singular, or not positive"
        ):
            function(batch, *arguments)


def test_wrong_arguments():
    a, b = np.eye(3), np.ones((4, 2))
    for call, text in (
        (lambda: bk.linalg.cholesky(np.ones((2, 3))), r"a has shape \(2, 3\), expected \(..., n = 2, n = 2\)"),
        (lambda: bk.linalg.solve(a, b), r"b has shape \(4, 2\), expected \(..., n = 3, k"),
        (lambda: bk.linalg.solve(np.ones((2, 3, 3)), np.ones((4, 3, 2))), "batches do not broadcast"),
        (lambda: bk.linalg.inv(a[0]), r"a has shape \(3,\)"),
        (lambda: bk.linalg.qr(a, "full"), "mode is 'full', must be 'reduced', 'complete' or 'r'"),
        (lambda: bk.linalg.householder_product(np.ones((2, 3)), np.ones(2)), "must have no fewer rows than columns"),
        (lambda: bk.linalg.lstsq(a, b), r"b has shape \(4, 2\)"),
        (lambda: bk.linalg.det(3.0), r"a has shape \(\), expected"),
    ):
        with pytest.raises(bk.InvalidProblemError, match=text):
            call()
    with pytest.raises(bk.UnsupportedError, match="a has dtype i64"):
        bk.linalg.inv(np.eye(3, dtype=np.int64))
    with pytest.raises(AttributeError, match="no attribute 'frobnicate'"):
        _ = bk.linalg.frobnicate
