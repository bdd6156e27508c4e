# SPDX-License-Identifier: Apache-2.0
"""Gradients of a linear layer."""

import numpy as np

from ..model import Bad, Case, Expected, Idle, Problem
from .gemm import drawn
from .grouped import product


def gradients(draw, m, n, k, null=(), kind="normal"):
    arrays = {"dy": draw.floats((m, n), kind), "x": draw.floats((m, k)), "weight": draw.floats((n, k))}
    arrays |= {"dx": draw.output((m, k)), "dweight": draw.output((n, k)), "dbias": draw.output((n,))}
    return Problem({"m": m, "n": n, "k": k}, arrays, null=tuple(null))


def reference(p):
    dy, x, weight = (p.arrays[name].values for name in ("dy", "x", "weight"))
    (dx, dx_magnitude), (dweight, dweight_magnitude) = product(dy, weight), product(dy.T, x)
    found = {
        "dx": Expected(dx, count=p.scalars["n"], magnitude=dx_magnitude),
        "dweight": Expected(dweight, count=p.scalars["m"], magnitude=dweight_magnitude),
        "dbias": Expected(dy.sum(0), count=p.scalars["m"], magnitude=np.abs(dy).sum(0)),
    }
    return {name: found[name] for name in found if name not in p.null}


PROBLEMS = {
    "plain": lambda d: gradients(d, 7, 9, 11),
    "one": lambda d: gradients(d, 1, 1, 1),
    "row": lambda d: gradients(d, 1, 130, 70),
    "no_rows": lambda d: gradients(d, 0, 9, 11),
    "no_columns": lambda d: gradients(d, 7, 0, 11),
    "zero_k": lambda d: gradients(d, 7, 9, 0),
    "tokens": lambda d: gradients(d, 1300, 24, 16),
    "large": lambda d: gradients(d, 201, 150, 130),
    "dx": lambda d: gradients(d, 24, 16, 8, null=("x", "dweight", "dbias")),
    "dweight": lambda d: gradients(d, 24, 16, 8, null=("weight", "dx", "dbias")),
    "dbias": lambda d: gradients(d, 24, 16, 8, null=("x", "weight", "dx", "dweight")),
    **{f"drawn{seed}": lambda d, seed=seed: gradients(d, *drawn(200 + seed)[0]) for seed in range(6)},
}
BAD = (
    *(Bad(f"negative_{e}", 2, rf"{e} is -4", {e: -4}, can=2) for e in ("m", "n", "k")),
    *(Bad(f"null_{p}", 2, rf"{p} is NULL", null=(p,)) for p in ("dy", "x", "weight")),
    *(
        Bad(f"odd_{p}", 1, rf"{p} is 0x[0-9a-f]+", shift={p: 1})
        for p in ("dy", "x", "weight", "dx", "dweight", "dbias")
    ),
)
CASES = (
    Case(
        row="linear_backward_{T}", problems=PROBLEMS, reference=reference,
        tolerance={"dx": "gemm", "dweight": "gemm", "dbias": "gemm"}, plain="plain", large="large", bad=BAD,
        idle=(Idle("nothing", {"m": 0, "n": 0}), Idle("neither", {"n": 0, "k": 0})),
    ),
)  # fmt: skip
