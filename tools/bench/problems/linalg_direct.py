# SPDX-License-Identifier: Apache-2.0
"""Factorisations and solutions of large batches of small matrices, and of single large ones. Peers are
torch.linalg and numpy.linalg.

Residuals of some matrices of the batch are compared with c n eps times their norm.
"""

import numpy as np

from tools.bench.check import cells
from tools.bench.record import Bench, Bound, Operand, Sweep

REALS = ("f32", "f64")
EPS = {"f32": 2.0**-23, "f64": 2.0**-52}
MOST = 50  # times n eps
BATCHES = {3: 100_000, 8: 100_000, 16: 100_000, 32: 20_000, 64: 2_000, 128: 256, 512: 1, 1024: 1}
STEP = {"cpu": 32, "cuda": 1}  # a CPU has so many times fewer matrices
SAME = "the kernel of {}"
UNMEASURED = {
    "linalg_slogdet_{T}": SAME.format("linalg_det_{T}"),
    "linalg_lu_{T}": SAME.format("linalg_lu_factor_{T}"),
    "linalg_ormqr_{T}": SAME.format("linalg_householder_product_{T}"),
    "linalg_lu_solve_{T}": SAME.format("linalg_solve_{T}"),
    "linalg_cholesky_solve_{T}": SAME.format("linalg_solve_{T}"),
    "linalg_solve_triangular_{T}": SAME.format("linalg_solve_{T}"),
    "linalg_qr_factor_{T}": SAME.format("linalg_qr_{T}"),
    "linalg_ldl_solve_{T}": "a small part of linalg_ldl_factor_{T}",
    "linalg_matmul_{T}": "of complex matrices, which have no samples in float64",
    **{
        f"batched_ormqr{tool}_{suffix}": "a tool of the reference; linalg_ormqr takes any layout"
        for tool in ("", "_wy_build_t", "_wy_extract_v")
        for suffix in ("{T}", "complex32", "complex64")
    },
    **dict.fromkeys(
        ("batched_qr_materialize_r_{T}", "batched_qr_materialize_identity_{T}"), "a copy of a triangle, or of ones"
    ),
}


def dense(*shape):
    return tuple([int(np.prod(shape[d + 1 :])) for d in range(len(shape))])


def matrix(problem, name, item):
    shape = problem.bench.arrays[name].shape[1:]
    size = int(np.prod(shape))
    return np.asarray(cells(problem, name, item * size + np.arange(size)), np.float64).reshape(shape)


def checked(residual):
    """A check of the first and the last matrix: (residual, norm) of the matrices by name."""

    def check(problem):
        batch = next(iter(problem.bench.arrays.values())).shape[0]
        for item in {0, batch - 1}:
            of = {
                name: matrix(problem, name, item)
                for name in problem.bench.arrays
                if len(problem.bench.arrays[name].shape) > 1 or name == "det"
            }
            error, norm = residual(of)
            extent = problem.bench.arrays[next(iter(problem.bench.arrays))].shape[-1]
            worst = np.abs(error).max() / (max(norm, 1e-300) * extent * EPS[problem.dtype])
            if not worst <= MOST:
                return f"the residual is {worst:.3g} n eps"
        return ""

    return check


def positive(batch, n):
    """Fills with symmetric matrices of small integers and a large diagonal."""

    def fill(rng):
        a = rng.integers(-4, 5, (n, n))
        a = np.broadcast_to(a + a.T + 16 * n * np.eye(n, dtype=np.int64), (batch, n, n))
        return a.reshape(-1)

    return fill


def spread(batch, n):
    """Fills with matrices that are well conditioned, their rows in another order."""

    def fill(rng):
        a = rng.integers(-4, 5, (n, n)) + 16 * n * np.eye(n, dtype=np.int64)
        return np.broadcast_to(a[rng.permutation(n)], (batch, n, n)).reshape(-1)

    return fill


def bench(op, batch, n, arrays, residual, torch=(), numpy=(), scalars=None):
    strides = {f"stride_{name}": dense(*each.shape) for name, each in arrays.items() if len(each.shape) == 3}
    return Bench(
        name=f"{op} {batch} x {n} x {n}",
        row=f"linalg_{op}_{{T}}",
        dtypes=REALS,
        arrays=arrays,
        check=checked(residual),
        scalars=(scalars or {}) | strides,
        torch=torch,
        numpy=numpy,
        workspace=True,
        bounds=(Bound("peer", 1.0),),
    )


def cholesky(batch, n):
    shape = (batch, n, n)
    arrays = {"a": Operand(shape, positive(batch, n)), "l": Operand(shape), "info": Operand((batch,))}
    return bench(
        "cholesky",
        batch,
        n,
        arrays,
        lambda m: (m["l"] @ m["l"].T - m["a"], np.abs(m["a"]).max()),
        (lambda torch, t, scalars: lambda: torch.linalg.cholesky_ex(t["a"]),),
        (lambda arrays, scalars: lambda: np.linalg.cholesky(arrays["a"]),),
        {"upper": 0},
    )


def solve(batch, n):
    shape, right = (batch, n, n), (batch, n, 4)
    arrays = {
        "a": Operand(shape, spread(batch, n)),
        "b": Operand(right, "normal"),
        "x": Operand(right),
        "info": Operand((batch,)),
    }
    return bench(
        "solve",
        batch,
        n,
        arrays,
        lambda m: (m["a"] @ m["x"] - m["b"], np.abs(m["b"]).max()),
        (lambda torch, t, scalars: lambda: torch.linalg.solve_ex(t["a"], t["b"]),),
        (lambda arrays, scalars: lambda: np.linalg.solve(arrays["a"], arrays["b"]),),
    )


def inv(batch, n):
    shape = (batch, n, n)
    arrays = {"a": Operand(shape, spread(batch, n)), "x": Operand(shape), "info": Operand((batch,))}
    return bench(
        "inv",
        batch,
        n,
        arrays,
        lambda m: (m["a"] @ m["x"] - np.eye(n), 1.0),
        (lambda torch, t, scalars: lambda: torch.linalg.inv_ex(t["a"]),),
        (lambda arrays, scalars: lambda: np.linalg.inv(arrays["a"]),),
    )


def lu_factor(batch, n):
    shape = (batch, n, n)
    arrays = {
        "a": Operand(shape, spread(batch, n)),
        "lu": Operand(shape),
        "pivots": Operand((batch, n)),
        "info": Operand((batch,)),
    }

    def residual(m):
        a = m["a"].copy()
        for k, other in enumerate(m["pivots"].astype(int) - 1):
            a[[k, other]] = a[[other, k]]
        return (np.tril(m["lu"], -1) + np.eye(n)) @ np.triu(m["lu"]) - a, np.abs(a).max()

    peer = (lambda torch, t, scalars: lambda: torch.linalg.lu_factor_ex(t["a"]),)
    return bench("lu_factor", batch, n, arrays, residual, peer)


def qr(batch, n):
    shape = (batch, n, n)
    arrays = {"a": Operand(shape, spread(batch, n)), "q": Operand(shape), "r": Operand(shape)}
    return bench(
        "qr",
        batch,
        n,
        arrays,
        lambda m: (m["q"] @ m["r"] - m["a"], np.abs(m["a"]).max()),
        (lambda torch, t, scalars: lambda: torch.linalg.qr(t["a"]),),
        (lambda arrays, scalars: lambda: np.linalg.qr(arrays["a"]),),
        {"complete": 0},
    )


def det(batch, n):
    def near_one(rng):  # so that the product of n pivots is a number of f32
        return spread(batch, n)(rng) / (16 * n)

    arrays = {"a": Operand((batch, n, n), near_one), "det": Operand((batch,))}

    def residual(m):
        expected = np.linalg.det(m["a"])
        return m["det"] - expected, abs(expected)

    return bench(
        "det",
        batch,
        n,
        arrays,
        residual,
        (lambda torch, t, scalars: lambda: torch.linalg.det(t["a"]),),
        (lambda arrays, scalars: lambda: np.linalg.det(arrays["a"]),),
    )


def lstsq(batch, n):
    right = (batch, n, 4)
    arrays = {
        "a": Operand((batch, n, n), spread(batch, n)),
        "b": Operand(right, "normal"),
        "x": Operand(right),
        "residuals": Operand((batch, 4)),
        "rank": Operand((batch,)),
    }
    peer = (lambda torch, t, scalars: lambda: torch.linalg.lstsq(t["a"], t["b"], driver="gels"),)
    residual = lambda m: (m["a"] @ m["x"] - m["b"], np.abs(m["b"]).max())  # noqa: E731
    return bench("lstsq", batch, n, arrays, residual, peer, scalars={"rcond": -1.0})


def householder_product(batch, n):
    shape = (batch, n, n)
    arrays = {"v": Operand(shape, "sixteenths"), "tau": Operand((batch, n), 0.0), "q": Operand(shape)}
    return bench(
        "householder_product",
        batch,
        n,
        arrays,
        lambda m: (m["q"] - np.eye(n), 1.0),
        (lambda torch, t, scalars: lambda: torch.linalg.householder_product(t["v"], t["tau"]),),
    )


def ldl_factor(batch, n):
    shape = (batch, n, n)
    arrays = {
        "a": Operand(shape, positive(batch, n)),
        "ld": Operand(shape),
        "pivots": Operand((batch, n)),
        "info": Operand((batch,)),
    }

    def residual(m):
        low, d = np.tril(m["ld"], -1) + np.eye(n), np.diag(m["ld"])
        return (low * d) @ low.T - m["a"], np.abs(m["a"]).max()

    peer = (lambda torch, t, scalars: lambda: torch.linalg.ldl_factor_ex(t["a"]),)
    return bench("ldl_factor", batch, n, arrays, residual, peer, scalars={"hermitian": 0})


def matrix_exp(batch, n):
    shape = (batch, n, n)
    arrays = {"a": Operand(shape, 0.0), "e": Operand(shape)}
    peer = (lambda torch, t, scalars: lambda: torch.linalg.matrix_exp(t["a"]),)
    return bench("matrix_exp", batch, n, arrays, lambda m: (m["e"] - np.eye(n), 1.0), peer)


def count(backend, n):
    return max(1, BATCHES[n] // STEP[backend])


def benches(backend):
    for n in (3, 8, 16, 32, 128, 512, 1024):
        for make in (cholesky, lu_factor, solve, qr):
            yield make(count(backend, n), n)
    for n in (8, 32, 512):
        for make in (inv, det):
            yield make(count(backend, n), n)
    for n in (8, 64):
        for make in (lstsq, ldl_factor, matrix_exp):
            yield make(count(backend, n), n)
    yield householder_product(count(backend, 32), 32)


def sweeps(backend):
    sizes = (1, 2, 3, 4, 5, 7, 8, 9, 12, 16, 17, 24, 32, 33, 48, 64, 65, 96, 128, 160, 192, 256, 512)
    for make in (cholesky, lu_factor, solve, qr):
        points = {n: make(max(1, min(2**22, 2**30 // n**3) // n**2 // STEP[backend]), n) for n in sizes}
        yield Sweep(name=f"{make.__name__} of batches", axis="rows", points=points)
