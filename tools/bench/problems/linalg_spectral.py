# SPDX-License-Identifier: Apache-2.0
"""Eigenvalues and singular values of large batches of small matrices, and of single large ones. Peers are torch.linalg
and numpy.linalg.

Residuals of some matrices of the batch are compared with c n eps times their norm.
"""

import numpy as np

from tools.bench.check import cells
from tools.bench.record import Bench, Bound, Operand, Sweep

REALS, ALL = ("f32", "f64"), ("f32", "f64", "c32", "c64")
EPS = {"f32": 2.0**-23, "c32": 2.0**-23, "f64": 2.0**-52, "c64": 2.0**-52}
MOST = 20  # times n eps
BATCHES = {3: 100_000, 8: 100_000, 16: 100_000, 32: 20_000, 64: 2_000, 128: 256, 256: 16, 512: 1, 1024: 1}
STEP = {"cpu": 32, "cuda": 1}  # a CPU has so many times fewer matrices


def dense(*shape):
    return tuple([int(np.prod(shape[d + 1 :])) for d in range(len(shape))])


def matrix(problem, name, item):
    shape = problem.bench.arrays[name].shape[1:]
    size = int(np.prod(shape))
    return np.asarray(cells(problem, name, item * size + np.arange(size))).reshape(shape)


def some(problem):
    """The first and the last matrix, and one between."""
    batch = problem.bench.arrays["a"].shape[0]
    return {0, batch - 1, batch // 2}


def wrong(problem, residuals, norm, n, what):
    worst = np.abs(residuals).max() / (max(norm, 1e-300) * n * EPS[problem.dtype])
    return "" if worst <= MOST else f"{what} is {worst:.3g} n eps"


def check_eigh(problem):
    for item in some(problem):
        a, w, v = (matrix(problem, name, item) for name in ("a", "w", "v"))
        a = np.tril(a) + np.conj(np.tril(a, -1).T)
        a = a - 1j * np.diag(np.diag(a).imag) if np.iscomplexobj(a) else a
        if text := wrong(problem, a @ v - v * w, np.linalg.norm(a, 2), len(w), "the residual"):
            return text
    return ""


def check_svd(problem):
    for item in some(problem):
        a, u, s, vh = (matrix(problem, name, item) for name in ("a", "u", "s", "vh"))
        if text := wrong(problem, (u * s) @ vh - a, s[0], max(a.shape), "the residual"):
            return text
    return ""


def check_eig(problem):
    for item in some(problem):
        a, w, v = (matrix(problem, name, item) for name in ("a", "w", "v"))
        if text := wrong(problem, a @ v - v * w, np.linalg.norm(a, 2), len(w), "the residual"):
            return text
    return ""


def check_pinv(problem):
    for item in some(problem):
        a, y = (matrix(problem, name, item) for name in ("a", "y"))
        s = np.linalg.svd(a, compute_uv=False)
        if text := wrong(problem, a @ y @ a - a, s[0] * s[0] / s[-1], max(a.shape), "a y a - a"):
            return text
    return ""


def check_polar(problem):
    for item in some(problem):
        a, u, p = (matrix(problem, name, item) for name in ("a", "u", "p"))
        if text := wrong(problem, u @ p - a, np.linalg.norm(a, 2), max(a.shape), "the residual"):
            return text
    return ""


def square(op, batch, n, arrays, scalars, check, torch=(), numpy=(), dtypes=ALL):
    strides = {f"stride_{name}": dense(batch, n, n) for name, operand in arrays.items() if len(operand.shape) == 3}
    return Bench(
        name=f"{op} {batch} x {n} x {n}", row=f"linalg_{op}_{{T}}", dtypes=dtypes, arrays=arrays, check=check,
        scalars=scalars | strides, torch=torch, numpy=numpy, workspace=True, bounds=(Bound("peer", 1.0),),
    )  # fmt: skip


def operands(batch, n, *results, values="", normal="a"):
    found = {normal: Operand((batch, n, n), "normal")}
    found |= {values: Operand((batch, n))} if values else {}
    return found | {name: Operand((batch, n, n)) for name in results}


def eigh(batch, n, dtypes=ALL):
    def torch_peer(torch, t, scalars):
        return lambda: torch.linalg.eigh(t["a"])

    def numpy_peer(arrays, scalars):
        return lambda: np.linalg.eigh(arrays["a"])

    arrays = operands(batch, n, "v", values="w")
    return square("eigh", batch, n, arrays, {"upper": 0}, check_eigh, (torch_peer,), (numpy_peer,), dtypes)


def svd(batch, n, dtypes=ALL):
    def torch_peer(torch, t, scalars):
        return lambda: torch.linalg.svd(t["a"], full_matrices=False)

    def numpy_peer(arrays, scalars):
        return lambda: np.linalg.svd(arrays["a"], full_matrices=False)

    arrays = operands(batch, n, "u", "vh", values="s")
    return square("svd", batch, n, arrays, {"full_matrices": 0}, check_svd, (torch_peer,), (numpy_peer,), dtypes)


def eig(batch, n, dtypes=ALL):
    def torch_peer(torch, t, scalars):
        return lambda: torch.linalg.eig(t["a"])

    def numpy_peer(arrays, scalars):
        return lambda: np.linalg.eig(arrays["a"])

    arrays = operands(batch, n, "v", values="w")
    scalars = {"stride_vl": dense(batch, n, n)}
    return square("eig", batch, n, arrays, scalars, check_eig, (torch_peer,), (numpy_peer,), dtypes)


def pinv(batch, n, dtypes=ALL):
    def torch_peer(torch, t, scalars):
        return lambda: torch.linalg.pinv(t["a"])

    def numpy_peer(arrays, scalars):
        return lambda: np.linalg.pinv(arrays["a"])

    scalars = {"atol": 0.0, "rtol": 0.0}
    return square("pinv", batch, n, operands(batch, n, "y"), scalars, check_pinv, (torch_peer,), (numpy_peer,), dtypes)


def polar(batch, n, dtypes=ALL):
    return square("polar", batch, n, operands(batch, n, "u", "p"), {}, check_polar, dtypes=dtypes)


def count(backend, n):
    return max(1, BATCHES[n] // STEP[backend])


def benches(backend):
    for n in (3, 8, 16, 32):
        for make in (eigh, svd):
            yield make(count(backend, n), n, REALS)
        yield eig(max(1, count(backend, n) // 4), n, ("f32", "c32"))
    for n in (64, 128, 512):
        for make in (eigh, svd):
            yield make(count(backend, n), n, REALS)
    yield eigh(count(backend, 32), 32, ("c32", "c64"))
    yield svd(count(backend, 32), 32, ("c32", "c64"))
    yield pinv(count(backend, 16), 16, REALS)
    yield polar(count(backend, 16), 16, ("f32",))


def sweeps(backend):
    sizes = (1, 2, 3, 4, 5, 7, 8, 9, 12, 16, 17, 24, 32, 33, 48, 64, 65, 96, 128, 192, 256)
    for make in (eigh, svd):
        points = {n: make(max(1, min(2**22, 2**30 // n**3) // n**2 // STEP[backend]), n, ("f32",)) for n in sizes}
        yield Sweep(name=f"{make.__name__} of batches", axis="rows", points=points)
