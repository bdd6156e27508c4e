# SPDX-License-Identifier: Apache-2.0
"""Grouped GEMM (groups of rows with a weight each), and its gradients."""

import functools
import itertools

import numpy as np

from ..model import Array, Bad, Case, Expected, Idle, Problem
from .gemm import matrix, round_to

LAYOUTS = ("rrr", "rcr")


def offsets_of(draw, rows, groups, kind):
    """uneven: most groups are short, some empty; inside: there are rows before the first group and behind the last."""
    if kind == "even":
        return np.arange(groups + 1) * rows // max(groups, 1)
    cuts = np.sort(draw.rng.integers(0, rows, groups + 1, endpoint=True))
    if kind == "uneven" and groups:
        cuts = np.sort((rows * draw.rng.random(groups + 1) ** 3).astype(int))
        cuts[0], cuts[-1] = 0, rows
    if kind == "outside" and groups > 1:
        cuts[0], cuts[-1] = -7, rows + 900
    if kind == "falling" and groups > 1:  # groups are disjoint: the offsets fall at rows that no group has
        cuts = np.array([rows, *np.full(groups, rows // 2)])
    return cuts


def grouped(
    draw, m, n, k, groups, *, layout=0, kind="uneven", coeffs=(0.75, 0.0), gap=0, step=None, backward=False, null=(),
    values="normal",
):  # fmt: skip
    sizes = (k, n) if layout == 0 else (n, k)
    step = max(sizes[0] * (sizes[1] + gap), 1) if step is None else step
    offsets = Array("i32", (groups + 1,), offsets_of(draw, m, groups, kind))
    scalars = {"m": m, "n": n, "k": k, "groups": groups, "layout": layout, "stride_b": step}
    arrays = {
        "a": matrix(draw, m, k, gap, values), "b": matrix(draw, *sizes, gap, values, batch=(groups, step)),
        "offsets": offsets,
    }  # fmt: skip
    if backward:
        arrays = {"dd": matrix(draw, m, n, gap, values), **arrays}
        arrays |= {"da": draw.output((m, k)), "db": draw.output((groups, *sizes))}
    else:
        arrays["d"] = matrix(draw, m, n, gap)
        scalars |= {"alpha": coeffs[0], "beta": coeffs[1]}
        if not coeffs[1]:
            arrays["d"].values = np.full((m, n), np.nan)
    if values == "special":
        for name in ("a", "b"):
            cells = arrays[name].values.copy()
            cells.flat[draw.rng.integers(cells.size)] = np.nan
            arrays[name].values = round_to(cells, draw.dtype)
    scalars |= {f"ld{name}": arrays[name].strides[-2] for name in ("dd", "a", "b", "d") if name in arrays}
    return Problem(scalars, arrays, null=tuple(null))


def groups_of(p):
    """Rows [begin, end) of each group."""
    ends = np.clip(p.arrays["offsets"].values, 0, p.scalars["m"])
    return [(begin, max(begin, end)) for begin, end in itertools.pairwise(ends)]


def b_of(p, g):
    b = p.arrays["b"].values[g]
    return b if p.scalars["layout"] == 0 else b.T


def product(a, b):
    with np.errstate(invalid="ignore"):
        return np.matmul(a, b), np.nan_to_num(np.matmul(np.abs(a), np.abs(b)), nan=0)


def reference(p):
    s, d = p.scalars, p.arrays["d"].values
    sums, magnitude = np.zeros(d.shape), np.zeros(d.shape)
    for g, (begin, end) in enumerate(groups_of(p)):
        sums[begin:end], magnitude[begin:end] = product(p.arrays["a"].values[begin:end], b_of(p, g))
    c = s["beta"] * d if s["beta"] else np.zeros(d.shape)
    return {"d": Expected(s["alpha"] * sums + c, count=s["k"], magnitude=s["alpha"] * magnitude + np.abs(c))}


def backward_reference(p):
    s, arrays = p.scalars, p.arrays
    da, db = np.zeros(arrays["da"].shape), np.zeros(arrays["db"].shape)
    da_magnitude, db_magnitude = da.copy(), db.copy()
    for g, (begin, end) in enumerate(groups_of(p)):
        dd, a = arrays["dd"].values[begin:end], arrays["a"].values[begin:end]
        da[begin:end], da_magnitude[begin:end] = product(dd, b_of(p, g).T)
        db[g], db_magnitude[g] = product(a.T, dd) if s["layout"] == 0 else product(dd.T, a)
    found = {
        "da": Expected(da, count=s["n"], magnitude=da_magnitude),
        "db": Expected(db, count=s["m"], magnitude=db_magnitude),
    }
    return {name: found[name] for name in found if name not in p.null}


def problems(backward):
    make = functools.partial(grouped, backward=backward)
    beta = {} if backward else {"coeffs": (0.75, -1.5)}
    table = {
        "plain": lambda d: make(d, 13, 9, 11, 4, **beta),
        "columns": lambda d: make(d, 27, 21, 19, 5, layout=1, kind="inside", **beta),
        "gaps": lambda d: make(d, 30, 8, 24, 3, gap=8, layout=1),
        "even": lambda d: make(d, 64, 16, 32, 4, kind="even"),
        "inside": lambda d: make(d, 40, 17, 16, 3, kind="inside", gap=3, **beta),
        "outside": lambda d: make(d, 40, 16, 8, 3, kind="outside"),
        "falling": lambda d: make(d, 20, 8, 8, 3, kind="falling"),
        "many": lambda d: make(d, 300, 16, 24, 133),
        "many_empty": lambda d: make(d, 5, 8, 8, 70, layout=1),
        "one": lambda d: make(d, 130, 66, 40, 1, kind="inside", **beta),
        "no_group": lambda d: make(d, 6, 5, 7, 0, **beta),
        "zero_k": lambda d: make(d, 6, 5, 0, 2, **beta),
        "one_row": lambda d: make(d, 1, 24, 40, 2, kind="uneven"),
        "shared": lambda d: make(d, 25, 12, 16, 3, step=0),
        "backwards": lambda d: make(d, 25, 12, 16, 3, step=-200),
        "tiles": lambda d: make(d, 400, 136, 72, 3, **beta),
        "large": lambda d: make(d, 333, 201, 130, 7, layout=1),
    }
    for seed in range(8):
        rng = np.random.default_rng(seed)
        m, n, k, groups, layout, gap = map(int, rng.integers((1, 1, 1, 1, 0, 0), (80, 40, 40, 9, 2, 3)))
        table[f"drawn{seed}"] = functools.partial(
            make, m=m, n=n, k=k, groups=groups, layout=layout, gap=gap, kind="inside"
        )
    if backward:
        table["da_alone"] = lambda d: make(d, 24, 16, 8, 3, null=("a", "db"))
        table["db_alone"] = lambda d: make(d, 24, 16, 8, 3, null=("b", "da"), layout=1)
    else:
        table["special"] = lambda d: make(d, 24, 17, 40, 3, values="special")
    return table


def bad(backward):
    first = ("dd", "a", "b") if backward else ("a", "b", "d")
    calls = [Bad(f"negative_{e}", 2, rf"{e} is -4", {e: -4}, can=2) for e in ("m", "n", "k", "groups")]
    calls += [
        Bad(f"layout_{v}", 2, rf"layout is {v}, must be 0 \(rrr\) or 1 \(rcr\)", {"layout": v}, can=2) for v in (-1, 2)
    ]
    for name in first:
        calls += [Bad(f"ld{name}_{v}", 2, rf"ld{name} is {v}, must be", {f"ld{name}": v}, can=2) for v in (-4, 2)]
        calls += [Bad(f"ld{name}_far", 2, rf"ld{name} is {2**62}", {f"ld{name}": 2**62}, can=2)]
        calls += [Bad(f"null_{name}", 2, rf"{name} is NULL", null=(name,))]
    pointers = (*first, "offsets", "da", "db") if backward else (*first, "offsets")
    calls += [Bad("null_offsets", 2, r"offsets is NULL", null=("offsets",))]
    calls += [Bad(f"odd_{p}", 1, rf"{p} is 0x[0-9a-f]+", shift={p: 1}) for p in pointers]
    return tuple(calls)


CASES = (
    Case(
        row="grouped_gemm_{T}", problems=problems(False), reference=reference, tolerance={"d": "gemm"},
        plain="plain", large="large", bad=bad(False), idle=(Idle("no_rows", {"m": 0}), Idle("no_columns", {"n": 0})),
    ),
    Case(
        row="grouped_gemm_backward_{T}", problems=problems(True), reference=backward_reference,
        tolerance={"da": "gemm", "db": "gemm"}, plain="plain", large="large", bad=bad(True),
        idle=(Idle("zero_k", {"k": 0}), Idle("nothing", {"m": 0, "groups": 0})),
    ),
)  # fmt: skip
