# SPDX-License-Identifier: Apache-2.0
"""Matrices of extents that OpenBLAS's LAPACK computes where it is installed, and this library's code elsewhere:
residuals within c n eps in double precision in any layout, the members of a batch that LAPACK never sees, and the same
bits whatever the other matrices of the batch, the threads of the program and, up to 256 rows, the number of OpenMP
threads and of matrices."""

import concurrent.futures
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

import baracuda as bk

from .test_spectral import DTYPES, adjoint, wider

OPS = ("cholesky", "lu", "qr", "ormqr", "householder_product", "solve", "inv", "slogdet", "solve_triangular",
       "cholesky_solve", "ldl_factor", "ldl_solve", "eigh", "svd", "eig")  # fmt: skip
pytestmark = [
    pytest.mark.host_arrays,
    pytest.mark.needs_ops(*[f"linalg_{op}_{t}" for op in OPS for t in ("f32", "f64", "c32", "c64")]),
]
MOST = 12  # times n eps
EXTENTS = (70, 260)
REPO = pathlib.Path(__file__).resolve().parents[2]
ENVIRONMENT = os.environ | {"PYTHONPATH": str(REPO)}


def random(dtype, *shape, seed=0):
    rng = np.random.default_rng([seed, *shape])
    a = rng.standard_normal(shape)
    if np.issubdtype(dtype, np.complexfloating):
        a = a + 1j * rng.standard_normal(shape)
    return a.astype(dtype)


def positive(dtype, *shape, seed=0):
    a = random(dtype, *shape, seed=seed)
    return (a @ adjoint(a) / shape[-1] + np.eye(shape[-1])).astype(dtype)


def hermitian(dtype, *shape, seed=0):
    a = random(dtype, *shape, seed=seed)
    return a + adjoint(a)


def columns(a):
    """Column-major."""
    return np.swapaxes(np.swapaxes(a, -1, -2).copy(), -1, -2)


def apart(a):
    """Neither rows nor columns are dense."""
    wide = np.zeros((*a.shape[:-2], 2 * a.shape[-2], 2 * a.shape[-1]), a.dtype)
    wide[..., ::2, ::2] = a
    return wide[..., ::2, ::2]


LAYOUTS = {
    "rows": lambda a: a,
    "columns": columns,
    "apart": apart,
    "upside_down": lambda a: a[..., ::-1, :].copy()[..., ::-1, :],
}


def near(actual, expected, dtype, n, scale=1.0):
    actual, expected = wider(np.asarray(actual)), wider(np.asarray(expected))
    error = np.linalg.norm(actual - expected, axis=(-2, -1))
    size = np.linalg.norm(expected, axis=(-2, -1))
    assert np.all(error <= MOST * n * np.finfo(dtype).eps * scale * np.maximum(size, 1e-30)), (error / size).max()


def identity(vectors, dtype):
    n = vectors.shape[-1]
    v = wider(np.asarray(vectors))
    near(adjoint(v) @ v, np.broadcast_to(np.eye(n), (*v.shape[:-2], n, n)), dtype, v.shape[-2])


each_dtype = pytest.mark.parametrize("dtype", DTYPES)
each_extent = pytest.mark.parametrize("n", EXTENTS)
each_layout = pytest.mark.parametrize("layout", LAYOUTS)
each_problem = pytest.mark.parametrize("n, layout", [*((70, layout) for layout in LAYOUTS), (260, "rows")])


@each_dtype
@each_problem
def test_cholesky(n, dtype, layout):
    a = LAYOUTS[layout](positive(dtype, 2, n, n))
    for upper in (False, True):
        other = np.tril(np.full((n, n), np.nan), -1) if upper else np.triu(np.full((n, n), np.nan), 1)
        f = bk.linalg.cholesky(LAYOUTS[layout](a + other.astype(dtype)), upper=upper)
        near(adjoint(f) @ f if upper else f @ adjoint(f), a, dtype, n)
        assert not np.any(np.tril(f, -1) if upper else np.triu(f, 1))


@each_dtype
@each_problem
def test_lu(n, dtype, layout):
    for m in (n - 6, n, n + 20):
        a = LAYOUTS[layout](random(dtype, 2, m, n))
        p, lower, upper = bk.linalg.lu(a)
        near(p @ lower @ upper, a, dtype, n)
        assert np.abs(lower).max() < 2


@each_dtype
@each_problem
def test_qr(n, dtype, layout):
    for m in (n - 6, n, n + 20):
        a = LAYOUTS[layout](random(dtype, 2, m, n))
        q, r = bk.linalg.qr(a)
        near(q @ r, a, dtype, m + n)
        identity(q, dtype)
        assert not np.any(np.tril(r, -1))
        q, r = bk.linalg.qr(a, mode="complete")
        near(q @ r, a, dtype, m + n)
        identity(q, dtype)


@each_dtype
@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("transpose", [True, False])
def test_reflectors(dtype, left, transpose):
    m, k = 140, 100
    packed, tau = bk.linalg_qr_factor(random(dtype, m, k))
    q = wider(bk.linalg.qr(random(dtype, m, k), mode="complete")[0])
    other = random(dtype, m, 110) if left else random(dtype, 110, m)
    operator = adjoint(q) if transpose else q
    for layout in LAYOUTS.values():
        y = bk.linalg_ormqr(layout(packed), tau, layout(other), right=not left, adjoint=transpose)
        near(y, operator @ other if left else other @ operator, dtype, m)


@each_dtype
@each_problem
@pytest.mark.parametrize("is_hermitian", [True, False])
def test_ldl(n, dtype, layout, is_hermitian):
    """Pivots of one row and, with zeros on the diagonal, of two; a singular matrix has the column in its info."""
    a = random(dtype, 4, n, n)
    a = a + (adjoint(a) if is_hermitian else np.swapaxes(a, -1, -2))
    a[1, np.arange(n), np.arange(n)] = 0
    a[2, 40:42] = a[2, :, 40:42] = 0
    a[3, 3, 1] = a[3, 1, 3] = np.inf
    b = random(dtype, 4, n, 7)
    ld, pivots, info = bk.linalg.ldl_factor_ex(LAYOUTS[layout](a), hermitian=is_hermitian)
    assert not np.any(np.triu(ld, 1)) and np.any(pivots[1] < 0)
    assert list(info[:2]) == [0, 0] and info[2] > 0
    x = bk.linalg.ldl_solve(ld, pivots, b, hermitian=is_hermitian)[:2]
    residual = np.linalg.norm(a[:2] @ wider(x) - b[:2], axis=(-2, -1))
    size = np.linalg.norm(a[:2], axis=(-2, -1)) * np.linalg.norm(x, axis=(-2, -1))
    assert np.all(residual <= MOST * n * np.finfo(dtype).eps * size)


@each_dtype
@each_problem
def test_solve(n, dtype, layout):
    a, b = random(dtype, 2, n, n), random(dtype, 2, n, 7)
    a = a + 3 * n**0.5 * np.eye(n, dtype=dtype)
    x = bk.linalg.solve(LAYOUTS[layout](a), LAYOUTS[layout](b))
    near(a @ x, b, dtype, n)
    near(a @ bk.linalg.inv(LAYOUTS[layout](a)), np.stack([np.eye(n)] * 2), dtype, n)
    p = positive(dtype, 2, n, n)
    factor = LAYOUTS[layout](bk.linalg.cholesky(p))
    near(p @ bk.linalg_cholesky_solve(factor, LAYOUTS[layout](b)), b, dtype, n)
    sign, logarithm = bk.linalg.slogdet(LAYOUTS[layout](a))
    exact = np.linalg.slogdet(wider(a))
    np.testing.assert_allclose(sign, exact.sign, rtol=n * np.finfo(dtype).eps, atol=n * np.finfo(dtype).eps)
    np.testing.assert_allclose(logarithm, exact.logabsdet, rtol=n * np.finfo(dtype).eps)


@each_dtype
@each_layout
@pytest.mark.parametrize("upper", [True, False])
@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("unit", [True, False])
def test_triangles(dtype, layout, upper, left, unit):
    n = 70
    t = random(dtype, 2, n, n) / n + np.eye(n, dtype=dtype)
    triangle = np.triu(t) if upper else np.tril(t)
    if unit:
        triangle[..., np.arange(n), np.arange(n)] = 1
    b = random(dtype, 2, n, 33) if left else random(dtype, 2, 33, n)
    for of_t, of_b in ((layout, "rows"), ("rows", layout), (layout, "columns")):
        x = bk.linalg.solve_triangular(LAYOUTS[of_t](t), LAYOUTS[of_b](b), upper=upper, left=left, unitriangular=unit)
        near(triangle @ x if left else x @ triangle, b, dtype, n)


@each_dtype
@each_extent
def test_eigh(n, dtype):
    a = hermitian(dtype, 2, n, n)
    for layout in LAYOUTS.values():
        w, v = bk.linalg.eigh(layout(a))
    near(a @ v, v * w[:, None, :], dtype, n)
    identity(v, dtype)
    assert np.all(np.diff(w) >= 0)
    np.testing.assert_allclose(bk.linalg.eigvalsh(a), w, atol=MOST * n * np.finfo(dtype).eps * np.abs(w).max())


@each_dtype
@each_layout
@pytest.mark.parametrize("shape", [(70, 70), (100, 70), (70, 260), (260, 70)], ids=str)
def test_svd(shape, dtype, layout):
    a, most = random(dtype, 2, *shape), max(shape)
    least = min(shape)
    for full in (False, True):
        u, s, vh = bk.linalg.svd(LAYOUTS[layout](a), full_matrices=full)
        near((u[..., :least] * s[:, None, :]) @ vh[..., :least, :], a, dtype, most)
        identity(u, dtype)
        identity(adjoint(vh), dtype)
        assert np.all(np.diff(s) <= 0) and np.all(s >= 0)
    np.testing.assert_allclose(bk.linalg.svdvals(a), s, atol=MOST * most * np.finfo(dtype).eps * s.max())


@each_dtype
@each_extent
def test_eig(n, dtype):
    a = random(dtype, 2, n, n)
    w, v = bk.linalg.eig(a)
    near(wider(a) @ v, v * w[:, None, :], dtype, n, 4)
    np.testing.assert_allclose(np.linalg.norm(v, axis=-2), 1, rtol=n * np.finfo(dtype).eps)
    left = bk.linalg.eig_ex(a)[2]
    near(adjoint(left) @ wider(a), w[:, :, None] * adjoint(left), dtype, n, 4)
    assert np.all(np.diff(w.real) >= -MOST * n * np.finfo(dtype).eps * np.abs(w).max())


@each_dtype
@pytest.mark.parametrize("n", [7, 9, 23, 24, 27, 31, 33, 39, 41, 47, 63, 65])
def test_tails_and_thresholds(n, dtype):
    """Extents that are no whole vectors, around those where LAPACK begins, beside a matrix that is not finite."""
    a = random(dtype, 3, n, n)
    a[1, n // 2, n // 3] = a[1, n // 3, n // 2] = np.nan
    kept = [0, 2]
    h = a + adjoint(a)
    w, v = (x[kept] for x in bk.linalg.eigh(h))
    near(h[kept] @ v, v * w[:, None, :], dtype, n)
    identity(v, dtype)
    w, v = (x[kept] for x in bk.linalg.eig(a))
    near(wider(a[kept]) @ v, v * w[:, None, :], dtype, n, 4)
    for m in (n, n + 3):
        wide = np.concatenate([a, random(dtype, 3, n, m - n, seed=1)], -1)
        for b in (wide, columns(np.swapaxes(wide, -1, -2))):
            u, s, vh = (x[kept] for x in bk.linalg.svd(b))
            near((u[..., :n] * s[:, None, :]) @ vh[..., :n, :], b[kept], dtype, m)
            identity(u, dtype)
            identity(adjoint(vh), dtype)
            q, r = (x[kept] for x in bk.linalg.qr(b, mode="complete"))
            near(q @ r, b[kept], dtype, m)
            identity(q, dtype)


CALLS = {
    "cholesky": lambda a: (bk.linalg.cholesky_ex(a).L,),
    "lu": lambda a: tuple(bk.linalg_lu_factor(a)[:2]),
    "ldl": lambda a: tuple(bk.linalg.ldl_factor_ex(a)),
    "qr": lambda a: tuple(bk.linalg.qr(a)),
    "inv": lambda a: (bk.linalg.inv_ex(a).inverse,),
    "eigh": lambda a: tuple(bk.linalg.eigh_ex(a))[:2],
    "svd": lambda a: tuple(bk.linalg.svd(a)),
    "eig": lambda a: tuple(bk.linalg.eig(a)),
}


def bits(arrays):
    return [np.ascontiguousarray(x).tobytes() for x in arrays]


@each_dtype
@pytest.mark.parametrize("n", [70, 260])
@pytest.mark.parametrize("name", CALLS)
def test_bits(name, n, dtype, set_threads):
    """The bits of a matrix alone, twice, and in a batch with members that are not finite, which give NaN. Above 256
    rows the matrix alone is computed by one thread, as matrices of a batch are."""
    a = positive(dtype, 4, n, n)
    a[1, n // 2, n // 3] = a[1, n // 3, n // 2] = np.nan
    a[2, n - 1, n - 1] = np.inf
    set_threads(3)
    batch = CALLS[name](a)
    set_threads(1 if n > 256 else 2)
    for b in (0, 3):
        alone = bits(CALLS[name](a[b]))
        assert alone == bits(CALLS[name](a[b]))
        assert alone == bits([x[b] for x in batch])
    if name in ("cholesky", "eigh", "svd", "eig"):
        assert all(np.isnan(x[1]).any() and np.isnan(x[2]).any() for x in batch)


@each_dtype
def test_failures(dtype):
    n = 130
    a = positive(dtype, 3, n, n)
    a[1, 100, 100] = -1
    factor, info = bk.linalg.cholesky_ex(a)
    assert list(info) == [0, 101, 0]
    assert np.isnan(factor[1][np.tril_indices(n)]).all() and np.isfinite(factor[[0, 2]]).all()
    a = random(dtype, 3, n, n)
    a[1, :, 50] = 0
    inverse, info = bk.linalg.inv_ex(a)
    assert list(info) == [0, 51, 0]
    assert np.isnan(inverse[1]).all() and np.isfinite(inverse[[0, 2]]).all()


@each_dtype
def test_small_and_large_numbers(dtype):
    """Reciprocals of subnormal numbers overflow: these triangles are not OpenBLAS's."""
    n = 100
    tiny = np.finfo(dtype).tiny
    b = random(dtype, n, 3)
    for size in (tiny / 8, 1 / tiny):
        scaled = (b * size).astype(dtype)
        x = bk.linalg.solve_triangular((np.eye(n) * size).astype(dtype), scaled, upper=False)
        back = float(size) ** -0.5
        np.testing.assert_allclose(x, wider(scaled) * back * back, rtol=1e-6)
    for size in (tiny * 4, 0.01 / tiny):
        a = (positive(dtype, n, n) * size).astype(dtype)
        w, v = bk.linalg.eigh(a)
        np.testing.assert_allclose(w / size, np.linalg.eigvalsh(wider(a) / size), rtol=1e-4)
        identity(v, dtype)


@pytest.mark.parametrize("name", CALLS)
def test_number_of_threads(name, set_threads):
    a = positive(np.float64, 2, 200, 200)
    found = []
    for threads in (1, 2, 3, 8):
        set_threads(threads)
        found.append(bits(CALLS[name](a)))
    assert found == found[:1] * 4


@pytest.mark.parametrize("name", CALLS)
def test_threads_of_a_batch(name, set_threads):
    """Neither slots of the workspace nor the order of a batch count, with more matrices than threads or fewer."""
    a = positive(np.float64, 5, 270, 270)
    for threads in (2, 8):
        set_threads(threads)
        forwards, backwards = CALLS[name](a), CALLS[name](a[::-1])
        assert bits(forwards) == bits([x[::-1] for x in backwards])


def test_batch_invariance():
    def plan(n, **preference):
        return bk.EighPlan.select(None, bk.EighDescriptor(n, element=bk.f64), bk.PlanPreference(**preference))

    assert plan(256, batch_invariant=True).precision_guarantee.batch_invariant
    assert not plan(257).precision_guarantee.batch_invariant
    with pytest.raises(bk.UnsupportedError):
        plan(257, batch_invariant=True)


def test_threads_of_the_program():
    """Matrices of a thread and of all threads at once."""
    cases = [(name, positive(np.float64, n, n)) for n in (100, 280, 150, 300) for name in CALLS]
    expected = [bits(CALLS[name](a)) for name, a in cases]
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda case: bits(CALLS[case[0]](case[1])), cases)) == expected


FORK = """
import os, threading, numpy as np, baracuda as bk
a = np.eye(300) + np.ones((300, 300))
expected = bk.linalg.cholesky(a)
busy = threading.Thread(target=lambda: [bk.linalg.svd(a) for _ in range(3)])
busy.start()
child = os.fork()
if child == 0:
    os._exit(0 if np.allclose(bk.linalg.cholesky(a), expected, rtol=1e-13) else 1)
print(os.waitpid(child, 0)[1])
busy.join()
"""


@pytest.mark.unsanitized("sanitizers do not fork threads")
def test_fork():
    """A fork waits for LAPACK on other threads; its child computes too."""
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORK], env=ENVIRONMENT, capture_output=True, text=True, timeout=120
    )
    assert run.stdout == "0\n", run.stderr


MAPPED = """
import numpy as np, baracuda as bk
bk.linalg.cholesky(np.eye(128))
print("scipy_openblas64/lib/" in open("/proc/self/maps").read())
"""


@pytest.mark.unsanitized("it runs no kernel of its own")
def test_switch():
    import scipy_openblas64

    path = f"{scipy_openblas64.get_lib_dir()}/{scipy_openblas64.get_library(fullname=True)}"
    for value, is_used in (("", True), (path, True), ("off", False), ("/nowhere.so", False)):
        run = subprocess.run(
            [sys.executable, "-c", MAPPED], env=ENVIRONMENT | {"BARACUDA_LAPACK": value}, capture_output=True, text=True
        )
        assert run.stdout == f"{is_used}\n", (value, run.stderr)


@pytest.mark.unsanitized("the same tests, in a run that would find nothing else")
def test_without_lapack():
    """Every test of this file, by this library's code alone."""
    arguments = [
        "-q",
        "-x",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        "-k",
        "not without_lapack",
        str(pathlib.Path(__file__)),
    ]
    run = subprocess.run(
        [sys.executable, "-m", "pytest", *arguments], cwd=REPO, env=ENVIRONMENT | {"BARACUDA_LAPACK": "off"},
        capture_output=True, text=True, timeout=580,
    )  # fmt: skip
    assert run.returncode == 0, run.stdout[-4000:]
