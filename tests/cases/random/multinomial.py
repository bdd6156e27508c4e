# SPDX-License-Identifier: Apache-2.0
"""Indices of categories with replacement, from cumulated weights."""

import numpy as np

from tools.oracle import distributions
from tools.oracle.numerics import round_to

from ..model import Bad, Case, Expected, Idle, Problem
from .common import SEED, STATE, STREAMS, state_of, stream_of


def made(draw, rows, categories, draws, *, kind="normal", state=None, seed=SEED, offset=0):
    """kind "sparse": many weights are 0, at both ends too; "lost": totals of 0, NaN, infinity and below 0."""
    weights = draw.rng.random((rows, categories)) + 0.01
    if kind == "sparse":
        weights[:, draw.rng.random(categories) < 0.6] = 0
        weights[:, :1] = weights[:, -1:] = 0
        weights[:, categories // 2] = 1
    cdf = np.cumsum(weights, 1)
    if kind == "lost":
        cdf[::5, -1], cdf[1::5, -1], cdf[2::5, -1], cdf[3::5] = np.nan, np.inf, -1.0, 0.0
    arrays, null = state_of(state)
    arrays = {"cdf": draw.array(round_to(cdf, draw.dtype)), **arrays, "y": draw.output((rows, draws), dtype="i64")}
    scalars = {"rows": rows, "categories": categories, "draws": draws, "seed": seed, "offset": offset}
    return Problem(scalars, arrays, null=null)


def reference(problem):
    cdf, y = problem.arrays["cdf"].values, problem.arrays["y"]
    u = distributions.half_open(*stream_of(problem, 2), int(np.prod(y.shape)), "f64").reshape(y.shape)
    found = np.full(y.shape, -1, np.int64)
    for row, values in enumerate(cdf):
        total = values[-1]
        if total > 0 and total < np.inf:
            found[row] = np.searchsorted(values, u[row] * total, side="right")
    return {"y": Expected(found)}


SHAPES = {"plain": (5, 7, 9), "one": (1, 1, 1), "one_category": (3, 1, 17), "long": (2, 5003, 301),
          "many": (301, 13, 70), "one_row": (1, 1000, 4099)}  # fmt: skip
PROBLEMS = {name: lambda d, s=s: made(d, *s) for name, s in SHAPES.items()}
PROBLEMS |= {
    f"{name}, {kind}": lambda d, s=SHAPES[name], kind=kind: made(d, *s, kind=kind)
    for name in ("plain", "long") for kind in ("sparse", "lost")
}  # fmt: skip
PROBLEMS |= {name: lambda d, stream=stream: made(d, 3, 11, 21, **stream) for name, stream in STREAMS.items()}
PROBLEMS["state"] = lambda d: made(d, 3, 11, 21, state=STATE)
COUNTS = ("rows", "categories", "draws")

CASES = (
    Case(
        row="random_multinomial_{T}", problems=PROBLEMS, reference=reference, tolerance={"y": "exact"}, plain="state",
        large="many",
        bad=(
            *(Bad(f"negative_{name}", 2, rf"{name} is -1", {name: -1}, can=2) for name in COUNTS),
            Bad("no_categories", 2, r"categories is 0, must be >= 1", {"categories": 0}, can=2),
            *(Bad(f"null_{name}", 2, rf"{name} is NULL", null=(name,)) for name in ("cdf", "y")),
            *(Bad(f"odd_{name}", 1, rf"{name} is 0x[0-9a-f]+", shift={name: 1}) for name in ("cdf", "y", "state")),
        ),
        idle=(Idle("no_rows", {"rows": 0}), Idle("no_draws", {"draws": 0}),
              Idle("nothing", {"categories": 0, "draws": 0})),
    ),
)  # fmt: skip
