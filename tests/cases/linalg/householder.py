# SPDX-License-Identifier: Apache-2.0
"""The reference's batched tools of reflectors, on packed column-major slots: arrays are the transposes of matrices."""

import numpy as np

from ..model import Bad, Case, Expected, Idle, Problem
from . import matrices
from .factors import packed_of
from .matrices import bounded, plain, random


def slots(a):
    return np.swapaxes(a, 1, 2)


def batched_ormqr(draw, batch, m, n, k, side=0, form=0):
    rows = m if side == 0 else n
    v, tau = packed_of(draw, batch, rows, k)
    if side:
        v = np.concatenate([v, random(draw, (batch, n, n - k))], 2)  # columns that are not read
    arrays = {
        "a_packed": plain(draw, slots(v)),
        "tau": plain(draw, tau),
        "c": plain(draw, slots(random(draw, (batch, m, n)))),
    }
    return Problem({"batch": batch, "m": m, "n": n, "k": k, "side": side, "form": form}, arrays)


def batched_ormqr_reference(problem):
    s, arrays = problem.scalars, {name: each.values for name, each in problem.arrays.items()}
    found = []
    for v, tau, c in zip(slots(arrays["a_packed"]), arrays["tau"], slots(arrays["c"])):
        q = matrices.reflectors(v[:, : s["k"]], tau)
        q = [q, q.T, np.conj(q.T)][s["form"]]
        found.append(c @ q if s["side"] else q @ c)
    c = slots(np.stack(found)) if found else arrays["c"]
    return {"c": bounded(c, s["m"] + s["n"] + s["k"], np.full(len(c), 2.0))}


BATCHED_ORMQR = {
    "one": lambda d: batched_ormqr(d, 1, 1, 1, 1),
    "plain": lambda d: batched_ormqr(d, 2, 5, 4, 3),
    **{
        f"form_{form}_{side}": lambda d, f=form, s=side: batched_ormqr(d, 2, 6, 6, 4, s, f)
        for form in (0, 1, 2)
        for side in (0, 1)
    },
    "blocks": lambda d: batched_ormqr(d, 1, 100, 40, 70, 0, 2),
    "right_blocks": lambda d: batched_ormqr(d, 1, 40, 100, 70, 1, 1),
    "large": lambda d: batched_ormqr(d, 9, 60, 30, 40),
}


def materialize_r(draw, batch, m, n, k):
    arrays = {"a_packed": plain(draw, random(draw, (batch, n, m))), "r": draw.output((batch, n, k))}
    return Problem({"batch": batch, "m": m, "n": n, "k": k}, arrays)


def materialize_r_reference(problem):
    return {"r": Expected(np.tril(problem.arrays["a_packed"].values[:, :, : problem.scalars["k"]]))}


MATERIALIZE_R = {
    "one": lambda d: materialize_r(d, 1, 1, 1, 1),
    "plain": lambda d: materialize_r(d, 2, 5, 4, 3),
    "wide": lambda d: materialize_r(d, 3, 4, 50, 4),
    "large": lambda d: materialize_r(d, 9, 60, 40, 40),
}


def materialize_identity(draw, batch, m):
    return Problem({"batch": batch, "m": m}, {"q": draw.output((batch, m, m))})


def materialize_identity_reference(problem):
    batch, m = problem.scalars["batch"], problem.scalars["m"]
    return {"q": Expected(np.broadcast_to(np.eye(m), (batch, m, m)))}


MATERIALIZE_IDENTITY = {
    "one": lambda d: materialize_identity(d, 1, 1),
    "plain": lambda d: materialize_identity(d, 2, 5),
    "large": lambda d: materialize_identity(d, 3, 70),
}


def build_t(draw, batch, m, k, nb):
    v, tau = packed_of(draw, batch, m, k)
    blocks = -(-k // nb)
    arrays = {"a_packed": plain(draw, slots(v)), "tau": plain(draw, tau), "t_out": draw.output((batch, blocks, nb, nb))}
    return Problem({"batch": batch, "m": m, "k": k, "nb": nb, "num_blocks": blocks}, arrays)


def build_t_reference(problem):
    s = problem.scalars
    found = np.zeros(
        (s["batch"], s["num_blocks"], s["nb"], s["nb"]),
        np.complex128 if np.iscomplexobj(problem.arrays["tau"].values) else np.float64,
    )
    for b, (packed, tau) in enumerate(zip(slots(problem.arrays["a_packed"].values), problem.arrays["tau"].values)):
        v = np.tril(packed, -1) + np.eye(s["m"], s["k"])
        for block in range(s["num_blocks"]):
            first = block * s["nb"]
            for j in range(min(s["nb"], s["k"] - first)):
                own = v[:, first : first + j]
                t = found[b, block]
                t[j, j] = tau[first + j]
                t[:j, j] = -tau[first + j] * (t[:j, :j] @ (np.conj(own.T) @ v[:, first + j]))
    return {"t_out": bounded(np.swapaxes(found, 2, 3), s["m"] + s["nb"], np.full(s["batch"], 4.0))}


BUILD_T = {
    "one": lambda d: build_t(d, 1, 1, 1, 1),
    "plain": lambda d: build_t(d, 2, 9, 7, 3),
    "one_block": lambda d: build_t(d, 2, 6, 4, 8),
    "large": lambda d: build_t(d, 3, 80, 60, 32),
}


def extract_v(draw, batch, m, k, nb, block_start, block_k):
    arrays = {"a_packed": plain(draw, random(draw, (batch, k, m))), "v_out": draw.output((batch, nb, m))}
    scalars = {"batch": batch, "m": m, "k": k, "nb": nb, "block_start": block_start, "block_k": block_k}
    return Problem(scalars, arrays)


def extract_v_reference(problem):
    s, packed = problem.scalars, slots(problem.arrays["a_packed"].values)
    v = np.tril(packed, -1) + np.eye(s["m"], s["k"])
    found = np.zeros((s["batch"], s["m"], s["nb"]), v.dtype)
    found[:, :, : s["block_k"]] = v[:, :, s["block_start"] : s["block_start"] + s["block_k"]]
    return {"v_out": Expected(slots(found))}


EXTRACT_V = {
    "one": lambda d: extract_v(d, 1, 1, 1, 1, 0, 1),
    "plain": lambda d: extract_v(d, 2, 9, 7, 4, 3, 4),
    "part": lambda d: extract_v(d, 2, 9, 7, 4, 5, 2),
    "none": lambda d: extract_v(d, 2, 5, 4, 3, 4, 0),
    "large": lambda d: extract_v(d, 3, 80, 60, 32, 20, 32),
}


def case(row, problems, reference, output, tolerance, bad, idle):
    return Case(row, problems, reference, {output: tolerance}, "plain", "large", bad, (Idle("no_matrices", idle),))


ORMQR_BAD = (
    Bad("side_2", 2, r"side is 2, must be 0 \(left\) or 1 \(right\)", {"side": 2}, can=2),
    Bad("form_3", 2, "form is 3, must be 0", {"form": 3}, can=2),
    Bad("too_many", 2, "k is 6, must be <= m, 5", {"k": 6}, can=2),
    Bad("too_many_right", 2, "k is 5, must be <= n, 4", {"side": 1, "k": 5}, can=2),
)
T_BAD = (
    Bad("no_block", 2, "nb is 0, must be >= 1", {"nb": 0}, can=2),
    Bad("too_many", 2, "k is 10, must be <= m, 9", {"k": 10}, can=2),
)
V_BAD = (
    Bad("no_block", 2, "nb is 0, must be >= 1", {"nb": 0}, can=2),
    Bad("wide_block", 2, r"block_k is 5, must be in \[0, nb\], 4", {"block_k": 5}, can=2),
    Bad("beyond", 2, "block_start is 4: with block_k, 4, it must be <= k, 7", {"block_start": 4}, can=2),
)
R_BAD = (Bad("too_many", 2, "k is 5, must be <= m and n, 5 and 4", {"k": 5}, can=2),)
CASES = [
    case("batched_qr_materialize_r_{T}", MATERIALIZE_R, materialize_r_reference, "r", "exact", R_BAD, {"batch": 0}),
    case(
        "batched_qr_materialize_identity_{T}",
        MATERIALIZE_IDENTITY,
        materialize_identity_reference,
        "q",
        "exact",
        (),
        {"batch": 0},
    ),
    *[
        each
        for suffix in ("{T}", "complex32", "complex64")
        for each in (
            case(
                f"batched_ormqr_{suffix}",
                BATCHED_ORMQR,
                batched_ormqr_reference,
                "c",
                "spectral",
                ORMQR_BAD,
                {"batch": 0},
            ),
            case(
                f"batched_ormqr_wy_build_t_{suffix}",
                BUILD_T,
                build_t_reference,
                "t_out",
                "spectral",
                T_BAD,
                {"batch": 0},
            ),
            case(
                f"batched_ormqr_wy_extract_v_{suffix}",
                EXTRACT_V,
                extract_v_reference,
                "v_out",
                "exact",
                V_BAD,
                {"batch": 0},
            ),
        )
    ],
]
