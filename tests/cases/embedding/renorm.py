# SPDX-License-Identifier: Apache-2.0
"""embedding_renorm: scales rows of a table down to a maximal norm."""

import math

import numpy as np

from ..model import Bad, Case, Expected, Idle, Problem
from ..segment import DISTRIBUTIONS, distribution
from .bags import WIDTHS


def norms_of(weight, p):
    """Norms in more digits than float64 has, by the largest element and the quotients by it."""
    size = np.abs(np.asarray(weight, np.longdouble))
    largest = size.max(1, initial=0)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        quotients = size / np.where(largest > 0, largest, 1)[:, None]
        norm = largest * (quotients**p).sum(1) ** (np.longdouble(1) / p) if math.isfinite(p) else largest
    return np.where(np.isfinite(largest), norm, largest)  # NaN where there is one: max() propagates it


def bound_between(norms):
    """A bound that no norm is near, in the widest gap about the middle."""
    known = np.sort(norms[np.isfinite(norms)].astype(np.float64))
    if len(known) < 2:
        return 0.5
    inner = known[len(known) // 4 : -(-3 * len(known) // 4) + 1]
    gap = int(np.argmax(np.diff(inner))) if len(inner) > 1 else 0
    with np.errstate(over="ignore"):
        bound = float(np.float32(inner[gap : gap + 2].mean()))
    return bound if math.isfinite(bound) else 1.0


def renorm(draw, n, rows, dim, p=2.0, spread="uniform", kind="normal", max_norm=None):
    weight = draw.floats((rows, dim), kind)
    bound = bound_between(norms_of(weight.values, p)) if max_norm is None else max_norm
    scalars = {"num_indices": n, "num_embeddings": rows, "embedding_dim": dim, "max_norm": bound, "norm_type": p}
    arrays = {"weight": weight, "indices": draw.indices(distribution(draw, spread, n, rows) if n else [])}
    return Problem(scalars, arrays | {"out": draw.output((rows, dim))})


def reference(problem):
    weight, s = problem.arrays["weight"].values, problem.scalars
    p, indices = s["norm_type"], problem.arrays["indices"].values
    norms = norms_of(weight, p)
    named = np.zeros(len(weight), bool)
    named[np.unique(indices[(indices >= 0) & (indices < len(weight))])] = True
    cut = named & (norms > s["max_norm"])
    value, magnitude = np.asarray(weight, np.longdouble).copy(), np.zeros(weight.shape)
    with np.errstate(invalid="ignore", over="ignore"):
        value[cut] *= (s["max_norm"] / (norms[cut] + np.longdouble(1e-7)))[:, None]
    magnitude[cut] = np.abs(value[cut]).astype(np.float64)
    return {"out": Expected(value, (weight.shape[1] + 24) * max(1.0, 1 / p) + 16, np.nan_to_num(magnitude))}


def problems():
    def add(name, *args, **options):
        table[name] = lambda d: renorm(d, *args, **options)

    table = {}
    add("one", 1, 1, 1, max_norm=1e-3)
    add("plain", 61, 13, 6)
    add("no_indices", 0, 13, 6)
    for width in WIDTHS:
        add(f"d{width}", 61, 13, width)
    for spread in DISTRIBUTIONS:
        add(spread, 301, 23, 12, spread=spread)
    for p in (0.5, 1.0, 3.0, math.inf):
        add(f"p{p}", 61, 37, 33, p=p)
    add("to_zero", 61, 37, 5, max_norm=0.0)
    add("wide", 61, 37, 33, kind="wide")
    add("special", 61, 60, 7, kind="special")
    add("special_inf", 61, 60, 7, kind="special", p=math.inf)
    add("long_rows", 40, 9, 3000)
    add("large", 9000, 251, 36, spread="hot")
    return table


EXTENTS = ("num_indices", "num_embeddings", "embedding_dim")
ARRAYS = ("weight", "indices", "out")
CASES = (
    Case(
        row="embedding_renorm{I}_{T}",
        problems=problems(),
        reference=reference,
        tolerance={"out": "pointwise"},
        plain="plain",
        large="large",
        bad=(
            *(Bad(f"negative_{e}", 2, rf"{e} is -6", {e: -6}, can=2) for e in EXTENTS),
            *(Bad(f"null_{a}", 2, rf"{a} is NULL", null=(a,)) for a in ARRAYS),
            *(Bad(f"odd_{a}", 1, rf"{a} is 0x[0-9a-f]+", shift={a: 1}) for a in ARRAYS),
            Bad("bound_negative", 2, r"max_norm is -1, must be >= 0", {"max_norm": -1.0}, can=2),
            Bad("bound_nan", 2, r"max_norm is -?nan", {"max_norm": math.nan}, can=2),
            Bad("order_zero", 2, r"norm_type is 0, must be > 0", {"norm_type": 0.0}, can=2),
        ),
        idle=(Idle("no_rows", {"num_embeddings": 0}), Idle("no_columns", {"embedding_dim": 0})),
    ),
)
