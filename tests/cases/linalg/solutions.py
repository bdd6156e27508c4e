# SPDX-License-Identifier: Apache-2.0
"""Solutions, inverses, determinants, least squares and exponentials of strided batches."""

import numpy as np

from ..model import Bad, Expected, Problem
from . import matrices
from .factors import bunch_kaufman, case, flag, indefinite, shared
from .matrices import adjoint, bounded, conditions, dominant, output, positive, random, rounded, stacked

# batch, n, k, layout of matrices and right-hand sides, layout of solutions
SHAPES = {
    "one": (1, 1, 1),
    "plain": (2, 5, 3),
    "threads": (70, 3, 1, "last_batch", "last_batch"),
    "eight": (33, 8, 2, "columns"),
    "nine": (3, 9, 9, "reversed", "pitch"),
    "warp": (2, 32, 5, "pitch", "columns"),
    "many": (2, 20, 150, "columns", "columns"),
    "blocks": (2, 130, 7, "gap", "gap"),
    "large_blocks": (1, 180, 40, "columns"),
    "one_matrix": (3, 6, 2, "one"),
    "large": (9, 60, 20),
}


def solution(draw, a, k, scalars, layout="dense", to="dense", name="a", more=None):
    """A problem with matrices `name`, right-hand sides and solutions."""
    batch, n = a.shape[:2]
    given, of_a = rounded(draw, a, layout)
    b, of_b = rounded(draw, random(draw, (batch, n, k)), layout)
    x, of_x = output(draw, (batch, n, k), to)
    host = {f"stride_{name}": of_a, "stride_b": of_b, "stride_x": of_x}
    return Problem({"batch": batch, "n": n, "k": k, **scalars}, {name: given, "b": b, "x": x, **(more or {})}, host)


def solved(problem, m, name="x"):
    """The solutions with matrices m."""
    b = problem.arrays["b"].values
    x = np.stack([np.linalg.solve(*each) for each in zip(m, b)]) if len(m) else np.zeros(b.shape)
    return {name: bounded(x, m.shape[-1] + 2, conditions(m))}


# --- triangles and factors -------------------------------------------------------------------------------------------


def triangular(draw, batch, n, k, layout="dense", to="dense", upper=0, unit=0, conjugates=0):
    a = random(draw, (batch, n, n)) / (2 * n)
    a[:, range(n), range(n)] += 1.5
    keeps = (np.tri(n) if not upper else np.tri(n).T) == 1
    a = np.where(keeps & (np.eye(n) == 0 if unit else True), a, np.nan)  # others are not read
    return solution(draw, a, k, {"upper": upper, "unit": unit, "conjugates": conjugates}, layout, to)


def triangular_reference(problem):
    m, s = np.nan_to_num(problem.arrays["a"].values), problem.scalars
    if s["unit"]:
        m = np.where(np.eye(s["n"]) == 1, 1, m)
    return solved(problem, np.conj(m) if s["conjugates"] else m)


TRIANGULAR = (
    {name: lambda d, s=s: triangular(d, *s) for name, s in SHAPES.items()}
    | {
        f"upper_{unit}_{conjugates}": lambda d, u=unit, c=conjugates: triangular(
            d, 2, 7, 3, "pitch", "columns", 1, u, c
        )
        for unit in (0, 1)
        for conjugates in (0, 1)
    }
    | {
        "upper_blocks": lambda d: triangular(d, 2, 130, 7, "columns", "pitch", 1, 1, 1),
        "unit_blocks": lambda d: triangular(d, 1, 130, 7, "columns", "pitch", 0, 1, 1),
    }
)


def cholesky_solve(draw, batch, n, k, layout="dense", to="dense", upper=0):
    (low,) = stacked(lambda each: matrices.cholesky(each)[:1], positive(draw, batch, n), (n, n))
    low = adjoint(low) if upper else low
    return solution(
        draw, np.where((np.tri(n).T if upper else np.tri(n)) == 1, low, np.nan), k, {"upper": upper}, layout, to
    )


def cholesky_solve_reference(problem):
    low = np.nan_to_num(problem.arrays["a"].values)
    return solved(problem, adjoint(low) @ low if problem.scalars["upper"] else low @ adjoint(low))


CHOLESKY_SOLVE = {name: lambda d, s=s: cholesky_solve(d, *s) for name, s in SHAPES.items()} | {
    "upper": lambda d: cholesky_solve(d, 2, 7, 3, "pitch", "columns", 1),
    "upper_blocks": lambda d: cholesky_solve(d, 1, 130, 5, "columns", "dense", 1),
}


def lu_solve(draw, batch, n, k, layout="dense", to="dense", transposes=0, conjugates=0):
    lu, pivots, _ = stacked(matrices.lu, dominant(draw, batch, n, n), (n, n), (n,), ())
    more = {"pivots": draw.array(pivots.astype(np.int64), "i32")}
    return solution(draw, lu, k, {"transposes": transposes, "conjugates": conjugates}, layout, to, "lu", more)


def lu_solve_reference(problem):
    lu, pivots, s = problem.arrays["lu"].values, problem.arrays["pivots"].values, problem.scalars
    n = s["n"]
    p = np.stack([matrices.permutation(each.astype(int), n) for each in pivots]) if len(lu) else np.zeros((0, n, n))
    a = np.swapaxes(p, 1, 2) @ (np.tril(lu, -1) + np.eye(n)) @ np.triu(lu)
    a = np.swapaxes(a, 1, 2) if s["transposes"] else a
    return solved(problem, np.conj(a) if s["conjugates"] else a)


LU_SOLVE = (
    {name: lambda d, s=s: lu_solve(d, *s) for name, s in SHAPES.items()}
    | {
        f"form_{transposes}_{conjugates}": lambda d, t=transposes, c=conjugates: lu_solve(
            d, 2, 7, 3, "pitch", "columns", t, c
        )
        for transposes in (0, 1)
        for conjugates in (0, 1)
    }
    | {"adjoint_blocks": lambda d: lu_solve(d, 2, 130, 5, "columns", "pitch", 1, 1)}
)


def ldl_solve(draw, batch, n, k, layout="dense", to="dense", hermitian=0):
    ld, pivots, _ = stacked(
        lambda each: bunch_kaufman(each, hermitian), indefinite(draw, batch, n, hermitian), (n, n), (n,), ()
    )
    more = {"pivots": draw.array(pivots.astype(np.int64), "i32")}
    return solution(draw, ld, k, {"hermitian": hermitian}, layout, to, "ld", more)


def unfactored(ld, pivots, hermitian):
    """A of factors of LAPACK's sytrf."""
    n, blocks, k = len(ld), [], 0
    while k < n:
        blocks.append((k, 1 if pivots[k] > 0 else 2))
        k += blocks[-1][1]
    a = np.zeros_like(ld)
    for k, step in reversed(blocks):
        end = k + step
        d = np.tril(ld[k:end, k:end])
        d = d + (np.conj(np.tril(d, -1)).T if hermitian else np.tril(d, -1).T)
        low = ld[end:, k:end]
        a[end:, end:] += low @ d @ (np.conj(low).T if hermitian else low.T)
        a[end:, k:end] = low @ d
        a[k:end, end:] = np.conj(a[end:, k:end]).T if hermitian else a[end:, k:end].T
        a[k:end, k:end] = d
        order = np.arange(n)
        other = int(abs(pivots[k])) - 1
        order[[end - 1, other]] = order[[other, end - 1]]
        a = a[np.ix_(order, order)]
    return a


def ldl_solve_reference(problem):
    ld, pivots = problem.arrays["ld"].values, problem.arrays["pivots"].values
    (a,) = stacked(lambda each: (unfactored(*each, problem.scalars["hermitian"]),), list(zip(ld, pivots)), ld.shape[1:])
    found = solved(problem, a)
    found["x"].count *= 8  # multipliers of L may be large
    return found


LDL_SOLVE = {name: lambda d, s=s: ldl_solve(d, *s) for name, s in SHAPES.items()} | {
    "hermitian": lambda d: ldl_solve(d, 2, 7, 3, "pitch", "columns", 1),
    "hermitian_block": lambda d: ldl_solve(d, 1, 50, 20, hermitian=1),
}


# --- general matrices ------------------------------------------------------------------------------------------------


def solve(draw, batch, n, k, layout="dense", to="dense", singular=()):
    a = dominant(draw, batch, n, n)
    for b in singular:
        a[b, :, n // 2] = 0
    return solution(draw, a, k, {}, layout, to, more={"info": draw.output((batch,), dtype="i32")})


def failing(a):
    """(matrices without those that fail, info)"""
    _, _, info = stacked(matrices.lu, a, a.shape[1:], (a.shape[1],), ())
    return np.where((info > 0)[:, None, None], np.eye(a.shape[1]), a), info.astype(np.int64)


def with_failures(found, name, info):
    """The result with NaN for the matrices that failed."""
    found[name].value = np.where((info > 0)[:, None, None], np.nan, found[name].value)
    return {**found, "info": Expected(info)}


def solve_reference(problem):
    a, info = failing(problem.arrays["a"].values)
    return with_failures(solved(problem, a), "x", info)


SOLVE = {name: lambda d, s=s: solve(d, *s) for name, s in SHAPES.items()} | {
    "bad_member": lambda d: solve(d, 4, 6, 3, singular=(1, 3)),
    "bad_blocks": lambda d: solve(d, 2, 130, 3, singular=(1,)),
    "no_columns": lambda d: solve(d, 3, 4, 0),
    "empty": lambda d: solve(d, 3, 0, 2),
}


def inverse(draw, batch, n, layout="dense", to="dense", singular=()):
    a = dominant(draw, batch, n, n)
    for b in singular:
        a[b, :, n // 2] = 0
    given, of_a = rounded(draw, a, layout)
    x, of_x = output(draw, a.shape, to)
    arrays = {"a": given, "x": x, "info": draw.output((batch,), dtype="i32")}
    return Problem({"batch": batch, "n": n}, arrays, {"stride_a": of_a, "stride_x": of_x})


def inverse_reference(problem):
    a, info = failing(problem.arrays["a"].values)
    x = np.linalg.inv(a) if a.size else np.zeros(a.shape)
    return with_failures({"x": bounded(x, a.shape[1] + 2, conditions(a))}, "x", info)


INVERSE = {name: lambda d, s=s: inverse(d, *s[:2], *s[3:]) for name, s in SHAPES.items()} | {
    "bad_member": lambda d: inverse(d, 4, 6, singular=(1, 3)),
    "empty": lambda d: inverse(d, 3, 0),
}


def determinant(draw, batch, n, layout="dense", outputs=("det",), singular=()):
    a = dominant(draw, batch, n, n) / (2 * n + 2)
    for b in singular:
        a[b, :, n // 2] = 0
    given, of_a = rounded(draw, a, layout)
    real = matrices.REAL.get(draw.dtype, draw.dtype)
    made = {name: draw.output((batch,), dtype=real if name == "logabsdet" else "") for name in outputs}
    return Problem({"batch": batch, "n": n}, {"a": given, **made}, {"stride_a": of_a})


def det_reference(problem):
    a = problem.arrays["a"].values
    n = problem.scalars["n"]
    found = np.array([np.linalg.det(each) for each in a]) if n else np.ones(len(a))
    return {"det": Expected(found, n * n + 2, np.abs(found) * conditions(a))}


def slogdet_reference(problem):
    a = problem.arrays["a"].values
    n = problem.scalars["n"]
    made = [np.linalg.slogdet(each) for each in a]
    sign, log = (np.array([each[k] for each in made]) for k in (0, 1))
    condition = conditions(a)
    return {
        "sign": Expected(sign, n * n + 2, condition * (np.abs(sign) > 0)),
        "logabsdet": Expected(log, n + 2, condition + np.where(np.isfinite(log), np.abs(log), 0)),
    }


SLOGDET = ("sign", "logabsdet")
DETERMINANTS = {name: (s[0], s[1], *s[3:4]) for name, s in SHAPES.items()} | {"empty": (3, 0)}
DET = {name: lambda d, s=s: determinant(d, *s) for name, s in DETERMINANTS.items()}
OF_SLOGDET = {name: lambda d, s=s: determinant(d, *s, outputs=SLOGDET) for name, s in DETERMINANTS.items()} | {
    "singular": lambda d: determinant(d, 3, 5, outputs=SLOGDET, singular=(1,)),
}


# --- least squares ---------------------------------------------------------------------------------------------------


def lstsq(draw, batch, m, n, k, layout="dense", to="dense", rank=None, rcond=1e-3):
    a = dominant(draw, batch, m, n)
    if rank is not None:  # products of small integers are exact
        a = np.rint(random(draw, (batch, m, rank)).real * 2) @ np.rint(random(draw, (batch, rank, n)).real * 2)
    given, of_a = rounded(draw, a, layout)
    b, of_b = rounded(draw, random(draw, (batch, m, k)), layout)
    x, of_x = output(draw, (batch, n, k), to)
    real = matrices.REAL.get(draw.dtype, draw.dtype)
    more = {"residuals": draw.output((batch, k), dtype=real), "rank": draw.output((batch,), dtype="i32")}
    host = {"stride_a": of_a, "stride_b": of_b, "stride_x": of_x}
    return Problem({"batch": batch, "m": m, "n": n, "k": k, "rcond": rcond}, {"a": given, "b": b, "x": x, **more}, host)


def lstsq_reference(problem):
    a, b, s = problem.arrays["a"].values, problem.arrays["b"].values, problem.scalars
    cut = 1e-9
    inverses = np.stack([np.linalg.pinv(each, cut) if each.size else each.T for each in a])
    x = inverses @ b
    rest = b - a @ x
    rank = np.array([np.linalg.matrix_rank(each) if each.size else 0 for each in a], np.int64)
    spread = np.array([np.linalg.norm(u, 2) * np.linalg.norm(v, 2) if u.size else 1 for u, v in zip(a, inverses)])
    norms = np.array([np.linalg.norm(v, 2) if v.size else 1 for v in inverses])
    # The sensitivity of least squares to a: the condition, and its square times the residual.
    size = (
        np.abs(x).max((1, 2), initial=0) * spread
        + norms * spread * np.abs(rest).max((1, 2), initial=0)
        + norms * np.abs(b).max((1, 2), initial=0)
    )
    count = 4 * (s["m"] + s["n"])
    total = (np.abs(b) ** 2).sum(1)
    return {
        "x": Expected(x, count, np.broadcast_to(size[:, None, None], x.shape)),
        "residuals": Expected((np.abs(rest) ** 2).sum(1), count, total * (2 + spread[:, None])),
        "rank": Expected(rank),
    }


LSTSQ = {
    "one": lambda d: lstsq(d, 1, 1, 1, 1),
    "plain": lambda d: lstsq(d, 2, 6, 4, 3),
    "wide": lambda d: lstsq(d, 2, 3, 7, 2, "columns", "pitch"),
    "threads": lambda d: lstsq(d, 70, 4, 3, 1, "last_batch", "last_batch"),
    "deficient": lambda d: lstsq(d, 3, 9, 6, 2, "pitch", rank=3),
    "wide_deficient": lambda d: lstsq(d, 2, 5, 9, 2, rank=2),
    "many": lambda d: lstsq(d, 2, 12, 8, 90, "reversed"),
    "zero": lambda d: lstsq(d, 2, 5, 3, 2, rank=0),
    "default": lambda d: lstsq(d, 2, 20, 12, 2, rcond=-1.0),
    "no_rows": lambda d: lstsq(d, 2, 0, 3, 2),
    "no_columns": lambda d: lstsq(d, 2, 4, 0, 2),
    "big": lambda d: lstsq(d, 1, 120, 60, 3, "gap"),
    "large": lambda d: lstsq(d, 9, 60, 30, 4),
}


# --- exponentials and products ---------------------------------------------------------------------------------------


def matrix_exp(draw, batch, n, scale=1.0, layout="dense", to="dense", spoils=None):
    a = random(draw, (batch, n, n)) * scale / max(n, 1) ** 0.5
    for at, value in (spoils or {}).items():
        a[at] = value
    given, of_a = rounded(draw, a, layout)
    e, of_e = output(draw, a.shape, to)
    return Problem({"batch": batch, "n": n}, {"a": given, "e": e}, {"stride_a": of_a, "stride_e": of_e})


def exponential(a):
    """Taylor's series of a over a power of two, squared."""
    if not np.isfinite(a).all():
        return (np.full(a.shape, np.nan),)
    squarings = max(0, int(np.ceil(np.log2(max(np.abs(a).sum(0).max(initial=0), 1e-30)))) + 3)
    wide = a.astype(np.clongdouble if np.iscomplexobj(a) else np.longdouble) / 2**squarings
    found = term = np.eye(len(a), dtype=wide.dtype)
    for k in range(1, 25):
        term = term @ wide / k
        found = found + term
    for _ in range(squarings):
        found = found @ found
    return (found.astype(a.dtype),)


def matrix_exp_reference(problem):
    a = problem.arrays["a"].values
    (e,) = stacked(exponential, a, a.shape[1:])
    norms = np.where(np.isfinite(a), np.abs(a), 0).sum(1).max(1, initial=0)
    return {"e": bounded(e, 8 * a.shape[1] + 8, (1 + norms) * 4)}


MATRIX_EXP = {
    "one": lambda d: matrix_exp(d, 1, 1),
    "plain": lambda d: matrix_exp(d, 2, 5),
    "threads": lambda d: matrix_exp(d, 70, 3, 1.0, "last_batch"),
    "small": lambda d: matrix_exp(d, 3, 8, 1e-3, "columns", "pitch"),
    "wide": lambda d: matrix_exp(d, 2, 9, 6.0, "reversed", "columns"),
    "block": lambda d: matrix_exp(d, 1, 50, 1.0, "pitch"),
    "zero": lambda d: matrix_exp(d, 2, 4, 0.0),
    "bad_member": lambda d: matrix_exp(d, 4, 4, spoils={(1, 2, 3): np.nan, (3, 0, 0): np.inf}),
    "large": lambda d: matrix_exp(d, 9, 40),
}


def matmul(draw, batch, m, n, k, layout="dense", to="dense"):
    a, of_a = rounded(draw, random(draw, (batch, m, k)), layout)
    b, of_b = rounded(draw, random(draw, (batch, k, n)), layout)
    y, of_y = output(draw, (batch, m, n), to)
    host = {"stride_a": of_a, "stride_b": of_b, "stride_y": of_y}
    return Problem({"batch": batch, "m": m, "n": n, "k": k}, {"a": a, "b": b, "y": y}, host)


def matmul_reference(problem):
    a, b = problem.arrays["a"].values, problem.arrays["b"].values
    return {"y": Expected(a @ b, a.shape[2] + 1, np.abs(a) @ np.abs(b))}


MATMUL = {
    "one": lambda d: matmul(d, 1, 1, 1, 1),
    "plain": lambda d: matmul(d, 2, 5, 4, 3),
    "columns": lambda d: matmul(d, 3, 70, 65, 17, "columns", "columns"),
    "reversed": lambda d: matmul(d, 2, 33, 10, 130, "reversed", "pitch"),
    "gap": lambda d: matmul(d, 1, 90, 300, 20, "gap", "last_batch"),
    "no_depth": lambda d: matmul(d, 2, 3, 4, 0),
    "one_matrix": lambda d: matmul(d, 3, 4, 5, 6, "one"),
    "large": lambda d: matmul(d, 3, 130, 70, 66),
}


BOTH = shared("x")
CASES = [
    case(
        "solve_triangular",
        TRIANGULAR,
        triangular_reference,
        ("x",),
        (flag("upper"), flag("unit"), flag("conjugates"), *BOTH),
        {"batch": 0},
    ),
    case("cholesky_solve", CHOLESKY_SOLVE, cholesky_solve_reference, ("x",), (flag("upper"), *BOTH), {"batch": 0}),
    case(
        "lu_solve", LU_SOLVE, lu_solve_reference, ("x",), (flag("transposes"), flag("conjugates"), *BOTH), {"batch": 0}
    ),
    case("ldl_solve", LDL_SOLVE, ldl_solve_reference, ("x",), (flag("hermitian"), *BOTH), {"batch": 0}),
    case("solve", SOLVE, solve_reference, ("x", "info"), BOTH, {"batch": 0}),
    case("inv", INVERSE, inverse_reference, ("x", "info"), BOTH, {"batch": 0}),
    case("det", DET, det_reference, ("det",), (), {"batch": 0}),
    case("slogdet", OF_SLOGDET, slogdet_reference, ("sign", "logabsdet"), (), {"batch": 0}),
    case(
        "lstsq",
        LSTSQ,
        lstsq_reference,
        ("x", "residuals", "rank"),
        (Bad("rcond", 2, "rcond is -?nan, must be a number", {"rcond": float("nan")}, can=2), *BOTH),
        {"batch": 0},
    ),
    case("matrix_exp", MATRIX_EXP, matrix_exp_reference, ("e",), shared("e"), {"batch": 0}),
    case("matmul", MATMUL, matmul_reference, ("y",), shared("y"), {"batch": 0}),
]
