# SPDX-License-Identifier: Apache-2.0
"""Factorisations of strided batches, and products with reflectors."""

import numpy as np

from ..model import Bad, Case, Expected, Idle, Problem
from . import matrices
from .matrices import adjoint, bounded, conditions, dominant, output, plain, positive, random, rounded, stacked

CLASS = "spectral"


def dict_items(spoils):
    """(position, value) of elements that are replaced: of a dict, or of pairs where a position has slices."""
    return spoils.items() if isinstance(spoils, dict) else spoils or ()


# --- Cholesky --------------------------------------------------------------------------------------------------------


def cholesky(draw, batch, n, upper=0, layout="dense", to="dense", spoils=None):
    a = positive(draw, batch, n)
    for at, value in dict_items(spoils):
        a[at] = value
    keeps = np.tri(n) == 1 if not upper else np.tri(n).T == 1
    a = np.where(keeps, a, np.nan)  # the other triangle is not read
    given, strides = rounded(draw, a, layout)
    low, of_l = output(draw, a.shape, to)
    arrays = {"a": given, "l": low, "info": draw.output((batch,), dtype="i32")}
    return Problem({"batch": batch, "n": n, "upper": upper}, arrays, {"stride_a": strides, "stride_l": of_l})


def cholesky_reference(problem):
    a, n = problem.arrays["a"].values, problem.scalars["n"]
    lower = adjoint(np.nan_to_num(a)) if problem.scalars["upper"] else np.nan_to_num(a)
    lower = np.where(np.isnan(adjoint(a) if problem.scalars["upper"] else a) & (np.tri(n) == 1), np.nan, np.tril(lower))
    low, info = stacked(matrices.cholesky, lower, (n, n), ())
    value = adjoint(low) if problem.scalars["upper"] else low
    whole = np.tril(lower) + adjoint(np.tril(lower, -1))
    return {"l": bounded(value, n, conditions(whole)), "info": Expected(info.astype(np.int64))}


CHOLESKY = {
    "one": lambda d: cholesky(d, 1, 1),
    "plain": lambda d: cholesky(d, 2, 5),
    "two": lambda d: cholesky(d, 3, 2, 1),
    "upper": lambda d: cholesky(d, 2, 5, 1, "pitch", "columns"),
    "threads": lambda d: cholesky(d, 70, 3, 0, "last_batch"),
    "eight": lambda d: cholesky(d, 33, 8, 1, "columns", "reversed"),
    "nine": lambda d: cholesky(d, 3, 9, 0, "gap", "pitch"),
    "warp": lambda d: cholesky(d, 2, 32, 1, "reversed"),
    "block": lambda d: cholesky(d, 2, 40, 0, "one", "last_batch"),
    "blocks": lambda d: cholesky(d, 2, 170, 0, "columns"),
    "upper_blocks": lambda d: cholesky(d, 1, 165, 1, "pitch"),
    "bad_member": lambda d: cholesky(d, 4, 6, spoils={(1, 3, 3): -1.0, (2, 0, 0): np.nan}),
    "bad_blocks": lambda d: cholesky(d, 2, 170, spoils={(1, 100, 100): -5.0}),
    "empty": lambda d: cholesky(d, 3, 0),
    "large": lambda d: cholesky(d, 9, 60),
}


# --- LU --------------------------------------------------------------------------------------------------------------


def lu_factor(draw, batch, m, n, layout="dense", to="dense", spoils=None):
    a = dominant(draw, batch, m, n)
    for at, value in dict_items(spoils):
        a[at] = value
    given, strides = rounded(draw, a, layout)
    lu, of_lu = output(draw, a.shape, to)
    arrays = {
        "a": given,
        "lu": lu,
        "pivots": draw.output((batch, min(m, n)), dtype="i32"),
        "info": draw.output((batch,), dtype="i32"),
    }
    return Problem({"batch": batch, "m": m, "n": n}, arrays, {"stride_a": strides, "stride_lu": of_lu})


def lu_factor_reference(problem):
    a = problem.arrays["a"].values
    m, n = problem.scalars["m"], problem.scalars["n"]
    lu, pivots, info = stacked(matrices.lu, a, (m, n), (min(m, n),), ())
    return {
        "lu": bounded(lu, m + n, conditions(a)),
        "pivots": Expected(pivots.astype(np.int64)),
        "info": Expected(info.astype(np.int64)),
    }


LU_SHAPES = {
    "one": (1, 1, 1),
    "plain": (2, 5, 4),
    "wide": (2, 3, 7),
    "threads": (70, 3, 3, "last_batch", "last_batch"),
    "eight": (33, 8, 8, "columns", "columns"),
    "nine": (3, 9, 9, "reversed", "pitch"),
    "warp": (2, 32, 32, "gap", "gap"),
    "tall": (2, 70, 20, "pitch"),
    "blocks": (2, 150, 150, "columns", "columns"),
    "wide_blocks": (1, 90, 170, "pitch"),
    "tall_blocks": (1, 260, 110, "reversed"),
    "one_matrix": (3, 6, 6, "one"),
    "empty": (3, 4, 0),
    "large": (9, 60, 60),
}
LU_FACTOR = {name: lambda d, s=s: lu_factor(d, *s) for name, s in LU_SHAPES.items()} | {
    "singular": lambda d: lu_factor(d, 4, 5, 5, spoils=[((1, slice(None), 2), 0.0), ((3,), 0.0)]),
}


def lu(draw, batch, m, n, layout="dense"):
    a, least = dominant(draw, batch, m, n), min(m, n)
    given, strides = rounded(draw, a, layout)
    arrays = {
        "a": given,
        "p": draw.output((batch, m, m)),
        "l": draw.output((batch, m, least)),
        "u": draw.output((batch, least, n)),
    }
    return Problem({"batch": batch, "m": m, "n": n}, arrays, {"stride_a": strides})


def lu_reference(problem):
    a = problem.arrays["a"].values
    m, n = problem.scalars["m"], problem.scalars["n"]
    least = min(m, n)
    packed, pivots, _ = stacked(matrices.lu, a, (m, n), (least,), ())
    p = np.stack([matrices.permutation(each.astype(int), m).T for each in pivots]) if len(a) else np.zeros((0, m, m))
    low = np.tril(packed[:, :, :least], -1) + np.eye(m, least)
    condition = conditions(a)
    return {
        "p": bounded(p, 0, np.zeros(len(a))),
        "l": bounded(low, m + n, condition),
        "u": bounded(np.triu(packed[:, :least]), m + n, condition),
    }


LU = {name: lambda d, s=s: lu(d, *s[:4]) for name, s in LU_SHAPES.items() if name != "wide_blocks"}


# --- QR --------------------------------------------------------------------------------------------------------------


def qr_factor(draw, batch, m, n, layout="dense", to="dense", spoils=None):
    a = dominant(draw, batch, m, n)
    for at, value in dict_items(spoils):
        a[at] = value
    given, strides = rounded(draw, a, layout)
    packed, of_packed = output(draw, a.shape, to)
    arrays = {"a": given, "packed": packed, "tau": draw.output((batch, min(m, n)))}
    return Problem({"batch": batch, "m": m, "n": n}, arrays, {"stride_a": strides, "stride_packed": of_packed})


def qr_factor_reference(problem):
    a = problem.arrays["a"].values
    m, n = problem.scalars["m"], problem.scalars["n"]
    packed, tau = stacked(matrices.qr, a, (m, n), (min(m, n),))
    condition = conditions(a[:, :, :m])
    return {"packed": bounded(packed, m + n, condition), "tau": bounded(tau, m + n, condition)}


QR_FACTOR = {name: lambda d, s=s: qr_factor(d, *s) for name, s in LU_SHAPES.items()} | {
    "zero_columns": lambda d: qr_factor(d, 3, 6, 4, spoils=[((1, slice(2, None), 1), 0.0), ((2,), 0.0)]),
}


def qr(draw, batch, m, n, layout="dense", complete=0, null=()):
    a, columns = dominant(draw, batch, m, n), m if complete else min(m, n)
    given, strides = rounded(draw, a, layout)
    arrays = {"a": given, "q": draw.output((batch, m, columns)), "r": draw.output((batch, columns, n))}
    return Problem({"batch": batch, "m": m, "n": n, "complete": complete}, arrays, {"stride_a": strides}, null)


def qr_reference(problem):
    a, s = problem.arrays["a"].values, problem.scalars
    m, n = s["m"], s["n"]
    columns = m if s["complete"] else min(m, n)
    packed, tau = stacked(matrices.qr, a, (m, n), (min(m, n),))
    q = (
        np.stack([matrices.reflectors(*each)[:, :columns] for each in zip(packed, tau)])
        if len(a)
        else np.zeros((0, m, columns))
    )
    r = np.triu(packed)[:, :columns]
    condition = conditions(a[:, :, :m])
    found = {"q": bounded(q, m + n, condition), "r": bounded(r, m + n, condition)}
    return {name: each for name, each in found.items() if name not in problem.null}


QR = {name: lambda d, s=s: qr(d, *s[:4]) for name, s in LU_SHAPES.items() if name != "wide_blocks"} | {
    "complete": lambda d: qr(d, 2, 7, 4, complete=1),
    "complete_blocks": lambda d: qr(d, 1, 130, 60, complete=1),
    "complete_empty": lambda d: qr(d, 2, 5, 0, complete=1),
    "r": lambda d: qr(d, 2, 6, 5, null=("q",)),
    "q": lambda d: qr(d, 2, 6, 5, null=("r",)),
}


# --- products with reflectors ----------------------------------------------------------------------------------------


def packed_of(draw, batch, m, k):
    """Vectors and factors of reflectors, as a QR factorisation has them."""
    v, tau = stacked(matrices.qr, random(draw, (batch, m, k)), (m, k), (k,))
    return v, tau


def ormqr(draw, batch, m, n, k, right=0, adjoint=0, layout="dense", to="dense"):
    rows = n if right else m
    v, tau = packed_of(draw, batch, rows, k)
    given, of_v = rounded(draw, v, layout)
    c, of_c = rounded(draw, random(draw, (batch, m, n)), layout)
    y, of_y = output(draw, (batch, m, n), to)
    arrays = {"v": given, "tau": plain(draw, tau), "c": c, "y": y}
    host = {"stride_v": of_v, "stride_c": of_c, "stride_y": of_y}
    return Problem({"batch": batch, "m": m, "n": n, "k": k, "right": right, "adjoint": adjoint}, arrays, host)


def ormqr_reference(problem):
    s, arrays = problem.scalars, {name: each.values for name, each in problem.arrays.items()}
    found = []
    for v, tau, c in zip(arrays["v"], arrays["tau"], arrays["c"]):
        q = matrices.reflectors(v, tau)
        q = adjoint(q) if s["adjoint"] else q
        found.append(c @ q if s["right"] else q @ c)
    y = np.stack(found) if found else np.zeros(arrays["c"].shape)
    return {"y": bounded(y, s["m"] + s["n"] + s["k"], np.full(len(y), 2.0))}


ORMQR_SHAPES = {
    "one": (1, 1, 1, 1),
    "plain": (2, 5, 4, 3),
    "adjoint": (2, 5, 4, 5, 0, 1, "columns"),
    "right": (2, 4, 6, 3, 1, 0, "pitch"),
    "right_adjoint": (2, 4, 6, 6, 1, 1, "reversed", "columns"),
    "threads": (70, 3, 2, 3, 0, 0, "last_batch"),
    "blocks": (2, 100, 40, 70),
    "blocks_adjoint": (1, 90, 33, 40, 0, 1, "gap"),
    "right_blocks": (1, 40, 100, 70, 1, 0, "columns"),
    "right_blocks_adjoint": (2, 33, 90, 40, 1, 1),
    "tall": (1, 700, 3, 5),
    "no_reflectors": (2, 4, 3, 0),
    "one_matrix": (3, 5, 4, 2, 0, 0, "one"),
    "large": (9, 60, 30, 40),
}
ORMQR = {name: lambda d, s=s: ormqr(d, *s) for name, s in ORMQR_SHAPES.items()}


def householder_product(draw, batch, m, n, k, layout="dense", to="dense"):
    v, tau = packed_of(draw, batch, m, k)
    given, of_v = rounded(draw, v, layout)
    q, of_q = output(draw, (batch, m, n), to)
    scalars = {"batch": batch, "m": m, "n": n, "k": k}
    return Problem(scalars, {"v": given, "tau": plain(draw, tau), "q": q}, {"stride_v": of_v, "stride_q": of_q})


def householder_product_reference(problem):
    s, v, tau = problem.scalars, problem.arrays["v"].values, problem.arrays["tau"].values
    q = [matrices.reflectors(*each)[:, : s["n"]] for each in zip(v, tau)]
    return {"q": bounded(np.stack(q) if q else np.zeros((0, s["m"], s["n"])), s["m"] + s["k"], np.full(len(v), 2.0))}


HOUSEHOLDER_PRODUCT = {
    "one": lambda d: householder_product(d, 1, 1, 1, 1),
    "plain": lambda d: householder_product(d, 2, 5, 4, 3),
    "square": lambda d: householder_product(d, 33, 8, 8, 8, "columns", "columns"),
    "identity": lambda d: householder_product(d, 2, 5, 3, 0),
    "pitch": lambda d: householder_product(d, 2, 9, 9, 4, "pitch", "pitch"),
    "blocks": lambda d: householder_product(d, 1, 130, 100, 70, "reversed"),
    "large": lambda d: householder_product(d, 9, 60, 40, 40),
}


# --- LDL -------------------------------------------------------------------------------------------------------------


def bunch_kaufman(a, hermitian):
    """(packed factors, pivots of LAPACK, info) of the lower triangle."""
    n, alpha = len(a), (1 + 17**0.5) / 8
    a = np.tril(a) + (adjoint(np.tril(a, -1)) if hermitian else np.tril(a, -1).T)
    if hermitian:
        a = a - 1j * np.diag(a.diagonal().imag) if np.iscomplexobj(a) else a
    packed, pivots, info, k = np.zeros_like(a), np.zeros(n, np.int64), 0, 0
    size = lambda x: np.abs(x.real) + np.abs(x.imag)  # noqa: E731
    while k < n:
        own, below = size(a[k, k]), size(a[k + 1 :, k])
        largest = below.max(initial=0)
        step, other = 1, k
        if max(own, largest) == 0:
            info = info or k + 1
        elif own < alpha * largest:
            at = k + 1 + int(np.argmax(below))
            row = size(np.delete(a[at, k:], at - k)).max()
            if own < alpha * largest * largest / row:
                other, step = at, 1 if size(a[at, at]) >= alpha * row else 2
        last = k + step - 1
        order = np.arange(n)
        order[[last, other]] = order[[other, last]]
        a = a[np.ix_(order, order)]
        pivots[k : last + 1] = other + 1 if step == 1 else -(other + 1)
        block, columns = a[k : last + 1, k : last + 1], a[last + 1 :, k : last + 1]
        packed[k : last + 1, k : last + 1] = np.tril(block)
        if block.any():
            w = columns @ np.linalg.inv(block)
            packed[last + 1 :, k : last + 1] = w
            a[last + 1 :, last + 1 :] -= w @ (adjoint(columns) if hermitian else columns.T)
        k += step
    return packed, pivots, info


def indefinite(draw, batch, n, hermitian):
    a = random(draw, (batch, n, n))
    a = (a + (adjoint(a) if hermitian else np.swapaxes(a, 1, 2))) / 2
    a[:, range(n), range(n)] *= 0.1
    return a


def ldl_factor(draw, batch, n, hermitian=0, layout="dense", to="dense", spoils=None):
    a = indefinite(draw, batch, n, hermitian)
    for at, value in dict_items(spoils):
        a[at] = value
    given, strides = rounded(draw, a + np.triu(random(draw, a.shape), 1), layout)  # the upper triangle is not read
    ld, of_ld = output(draw, a.shape, to)
    arrays = {
        "a": given,
        "ld": ld,
        "pivots": draw.output((batch, n), dtype="i32"),
        "info": draw.output((batch,), dtype="i32"),
    }
    return Problem({"batch": batch, "n": n, "hermitian": hermitian}, arrays, {"stride_a": strides, "stride_ld": of_ld})


def ldl_factor_reference(problem):
    a, n, hermitian = problem.arrays["a"].values, problem.scalars["n"], problem.scalars["hermitian"]
    ld, pivots, info = stacked(lambda each: bunch_kaufman(each, hermitian), a, (n, n), (n,), ())
    whole = np.tril(a) + (adjoint(np.tril(a, -1)) if hermitian else np.swapaxes(np.tril(a, -1), 1, 2))
    return {
        "ld": bounded(ld, n, 20 * conditions(whole)),
        "pivots": Expected(pivots.astype(np.int64)),
        "info": Expected(info.astype(np.int64)),
    }


LDL_FACTOR = {
    "one": lambda d: ldl_factor(d, 1, 1),
    "plain": lambda d: ldl_factor(d, 2, 5),
    "hermitian": lambda d: ldl_factor(d, 2, 5, 1, "columns", "pitch"),
    "threads": lambda d: ldl_factor(d, 70, 3, 1, "last_batch"),
    "eight": lambda d: ldl_factor(d, 33, 8, 0, "pitch", "columns"),
    "nine": lambda d: ldl_factor(d, 3, 9, 1, "reversed"),
    "warp": lambda d: ldl_factor(d, 2, 32),
    "block": lambda d: ldl_factor(d, 1, 70, 1, "gap", "gap"),
    "zero": lambda d: ldl_factor(d, 3, 4, spoils={(1,): 0.0}),
    "empty": lambda d: ldl_factor(d, 3, 0),
    "large": lambda d: ldl_factor(d, 9, 40),
}


# --- cases -----------------------------------------------------------------------------------------------------------


def flag(name):
    return Bad(f"{name}_2", 2, rf"{name} is 2, must be 0 or 1", {name: 2}, can=2)


def shared(*names):
    """Calls with results that several matrices share."""
    return [
        Bad(f"shared_{name}", 2, rf"stride_{name}\[0\] is 0, but an output", host={f"stride_{name}": (0, 8, 1)}, can=2)
        for name in names
    ]


def case(row, problems, reference, outputs, bad, idle, exact=("pivots", "info", "rank")):
    tolerance = {name: "exact" if name in exact else CLASS for name in outputs}
    return Case(
        row=f"linalg_{row}_{{T}}",
        problems=problems,
        reference=reference,
        tolerance=tolerance,
        plain="plain",
        large="large",
        bad=tuple(bad),
        idle=(Idle("no_matrices", idle),),
    )


CASES = [
    case("cholesky", CHOLESKY, cholesky_reference, ("l", "info"), (flag("upper"), *shared("l")), {"batch": 0}),
    case("lu_factor", LU_FACTOR, lu_factor_reference, ("lu", "pivots", "info"), shared("lu"), {"batch": 0}),
    case("lu", LU, lu_reference, ("p", "l", "u"), (), {"batch": 0}),
    case("qr_factor", QR_FACTOR, qr_factor_reference, ("packed", "tau"), shared("packed"), {"batch": 0}),
    case("qr", QR, qr_reference, ("q", "r"), (flag("complete"),), {"batch": 0}),
    case(
        "ormqr",
        ORMQR,
        ormqr_reference,
        ("y",),
        (flag("right"), flag("adjoint"), Bad("too_many", 2, "k is 6, must be <= m, 5", {"k": 6}, can=2), *shared("y")),
        {"batch": 0},
    ),
    case(
        "householder_product",
        HOUSEHOLDER_PRODUCT,
        householder_product_reference,
        ("q",),
        (
            Bad("wide", 2, "n is 6, must be <= m, 5", {"n": 6}, can=2),
            Bad("too_many", 2, "k is 6, must be <= m, 5", {"k": 6}, can=2),
            *shared("q"),
        ),
        {"batch": 0},
    ),
    case(
        "ldl_factor",
        LDL_FACTOR,
        ldl_factor_reference,
        ("ld", "pivots", "info"),
        (flag("hermitian"), *shared("ld")),
        {"batch": 0},
    ),
]
