# SPDX-License-Identifier: Apache-2.0
"""GEMM on arrays of pointers: addresses of matrices in one array, in any order."""

import functools

import numpy as np

from ..model import Array, Bad, Case, Expected, Idle, Problem
from . import grouped as gemm_grouped
from .gemm import matrix
from .grouped import product

LANES = {"f64": 2, "f32": 4, "f16": 8, "bf16": 8}  # elements of 16 bytes


def addresses(count):
    """Addresses, which the harness replaces."""
    return Array("i64", (count,))


def pitch_of(draw, columns, gap, aligned):
    lanes = LANES[draw.dtype] if aligned else 1
    return -(-(columns + gap) // lanes) * lanes


def matrices(draw, batch, rows, columns, gap, aligned, order):
    """Aligned matrices have a pitch of whole 16-byte vectors; order: -1 for the last first, 0 for one shared matrix."""
    pitch = pitch_of(draw, columns, gap, aligned)
    step = order * max(rows, 1) * max(pitch, 1)
    return matrix(draw, rows, columns, pitch - columns, batch=(batch, step))


def pointers(
    draw, m, n, k, batch, *, layout=0, coeffs=(0.75, 0.0), gap=0, aligned=0, sizes=None, order=1, shared=False,
    special=False,
):  # fmt: skip
    a_size, b_size = (m, k) if layout < 2 else (k, m), (k, n) if layout % 2 == 0 else (n, k)
    behind = {
        "a": matrices(draw, batch, *a_size, gap, aligned, 0 if shared else order),
        "b": matrices(draw, batch, *b_size, gap, aligned, -order),
        "d": matrices(draw, batch, m, n, gap, aligned, order),
    }
    for name in ("a", "b") if special else ():
        cells = behind[name].values.copy()
        for value in (np.nan, np.inf, -np.inf):
            cells.flat[draw.rng.integers(cells.size)] = value
        behind[name].values = cells
    if not coeffs[1] and sizes is None:
        behind["d"].values = np.full((batch, m, n), np.nan)
    arrays = {f"{name}_pointers": addresses(batch) for name in behind}
    given = np.zeros((batch, 3), int) if sizes is None else sizes(draw.rng, np.array([m, n, k]), batch)
    arrays["sizes"] = Array("i32", (batch, 3), given)
    scalars = {
        "m": m, "n": n, "k": k, "batch": batch, "layout": layout, "is_aligned": aligned, "alpha": coeffs[0],
        "beta": coeffs[1], **{f"ld{name}": max(array.strides[-2], 1) for name, array in behind.items()},
    }  # fmt: skip
    return Problem(scalars, arrays, null=() if sizes else ("sizes",), behind=behind)


def inside(rng, most, batch):
    return rng.integers(0, most, (batch, 3), endpoint=True)


def beyond(rng, most, batch):
    """Some below 0, some above `most`."""
    far = rng.choice([-3, 2000], (batch, 3))
    return np.where(rng.random((batch, 3)) < 0.5, inside(rng, most, batch), far)


def reference(p):
    s, d = p.scalars, p.behind["d"].values
    most = np.array([s["m"], s["n"], s["k"]])
    sizes = np.tile(most, (s["batch"], 1)) if "sizes" in p.null else np.clip(p.arrays["sizes"].values, 0, most)
    value, magnitude = np.array(d), np.zeros(d.shape)
    for g, (m, n, k) in enumerate(sizes):
        a, b = (p.behind[name].values[g] for name in "ab")
        a, b = (a if s["layout"] < 2 else a.T)[:m, :k], (b if s["layout"] % 2 == 0 else b.T)[:k, :n]
        sums, of_sums = product(a, b)
        c = s["beta"] * d[g, :m, :n] if s["beta"] else np.zeros((m, n))
        value[g, :m, :n], magnitude[g, :m, :n] = s["alpha"] * sums + c, s["alpha"] * of_sums + np.abs(c)
    return {"d": Expected(value, count=s["k"], magnitude=magnitude)}


def problems():
    table = {
        "plain": lambda d: pointers(d, 13, 9, 11, 4, coeffs=(0.75, -1.5)),
        "columns": lambda d: pointers(d, 27, 21, 19, 5, layout=1, gap=1, order=-1),
        "transposed": lambda d: pointers(d, 20, 70, 33, 3, layout=2, coeffs=(0.5, 2)),
        "both_transposed": lambda d: pointers(d, 70, 20, 65, 3, layout=3),
        "aligned": lambda d: pointers(d, 65, 40, 72, 3, aligned=1, coeffs=(1, 1)),
        "aligned_columns": lambda d: pointers(d, 130, 72, 64, 2, layout=1, aligned=1),
        "aligned_transposed": lambda d: pointers(d, 33, 65, 40, 2, layout=2, aligned=1, order=-1),
        "shared": lambda d: pointers(d, 25, 12, 16, 3, shared=True),
        "row": lambda d: pointers(d, 1, 40, 70, 5, coeffs=(1, 1)),
        "rows": lambda d: pointers(d, 7, 33, 130, 3, layout=1),
        "aligned_rows": lambda d: pointers(d, 4, 64, 256, 3, aligned=1),
        "column": lambda d: pointers(d, 40, 1, 70, 3, layout=1),
        "zero_k": lambda d: pointers(d, 6, 5, 0, 2, coeffs=(1, -1.5)),
        "special": lambda d: pointers(d, 24, 17, 40, 3, special=True),
        "sizes": lambda d: pointers(d, 30, 50, 40, 9, sizes=inside, coeffs=(0.75, -1.5)),
        "sizes_columns": lambda d: pointers(d, 40, 20, 33, 9, layout=1, sizes=inside, gap=2, order=-1),
        "sizes_aligned": lambda d: pointers(d, 140, 72, 80, 6, layout=1, sizes=inside, aligned=1),
        "sizes_beyond": lambda d: pointers(d, 20, 17, 25, 12, sizes=beyond, coeffs=(1, 1)),
        "sizes_of_rows": lambda d: pointers(d, 5, 40, 64, 6, sizes=inside),
        "tiles": lambda d: pointers(d, 150, 136, 72, 2, layout=3, coeffs=(1, 2)),
        "large": lambda d: pointers(d, 133, 201, 130, 7, layout=1),
    }
    for seed in range(8):
        rng = np.random.default_rng(seed)
        m, n, k, batch, layout, gap = map(int, rng.integers((1, 1, 1, 1, 0, 0), (40, 40, 60, 5, 4, 3)))
        sizes = inside if seed % 2 else None
        table[f"drawn{seed}"] = functools.partial(
            pointers, m=m, n=n, k=k, batch=batch, layout=layout, gap=gap, sizes=sizes
        )
    return table


def bad():
    calls = [Bad(f"negative_{e}", 2, rf"{e} is -4", {e: -4}, can=2) for e in ("m", "n", "k", "batch")]
    calls += [Bad(f"layout_{v}", 2, rf"layout is {v}, must be", {"layout": v}, can=2) for v in (-1, 4)]
    calls += [
        Bad(f"is_aligned_{v}", 2, rf"is_aligned is {v}, must be 0 or 1", {"is_aligned": v}, can=2) for v in (-1, 2)
    ]
    for name in "abd":
        calls += [Bad(f"ld{name}_{v}", 2, rf"ld{name} is {v}, must be", {f"ld{name}": v}, can=2) for v in (-4, 2)]
        calls += [Bad(f"ld{name}_far", 2, rf"ld{name} is {2**62}", {f"ld{name}": 2**62}, can=2)]
        calls += [
            Bad(f"null_{name}", 2, rf"{name}_pointers is NULL", null=(f"{name}_pointers", "sizes")),
            Bad(f"odd_{name}", 1, rf"{name}_pointers is 0x[0-9a-f]+", shift={f"{name}_pointers": 4}, null=("sizes",)),
        ]
    return (*calls, Bad("odd_sizes", 1, r"sizes is 0x[0-9a-f]+", shift={"sizes": 1}, of="sizes"))


def grouped(draw, *extents, aligned=0, **options):
    """gemm_grouped.grouped(), except for b."""
    layout, gap = options.get("layout", 0), options.get("gap", 0)
    _, n, k, groups = extents or (options[name] for name in ("m", "n", "k", "groups"))
    size = (k, n) if layout == 0 else (n, k)
    if aligned:
        options["gap"] = pitch_of(draw, k, gap, aligned) - k
    p = gemm_grouped.grouped(draw, *extents, **options)
    b = matrices(draw, groups, *size, gap, aligned, -1)
    b.values = p.arrays.pop("b").values
    del p.scalars["stride_b"]
    p.scalars |= {"is_aligned": aligned, "ldb": b.strides[-2]}
    p.arrays["b_pointers"], p.behind["b"] = addresses(groups), b
    return p


def grouped_problems():
    beta = {"coeffs": (0.75, -1.5)}
    table = {
        "plain": lambda d: grouped(d, 13, 9, 11, 4, **beta),
        "columns": lambda d: grouped(d, 27, 21, 19, 5, layout=1, kind="inside", **beta),
        "aligned": lambda d: grouped(d, 30, 8, 24, 3, layout=1, aligned=1),
        "aligned_rows": lambda d: grouped(d, 140, 40, 32, 2, aligned=1),
        "inside": lambda d: grouped(d, 40, 17, 16, 3, kind="inside", gap=3, **beta),
        "outside": lambda d: grouped(d, 40, 16, 8, 3, kind="outside"),
        "many_empty": lambda d: grouped(d, 5, 8, 8, 70, layout=1),
        "no_group": lambda d: grouped(d, 6, 5, 7, 0, null=("b_pointers",), **beta),
        "zero_k": lambda d: grouped(d, 6, 5, 0, 2, **beta),
        "special": lambda d: grouped(d, 24, 17, 40, 3, values="special"),
        "tiles": lambda d: grouped(d, 400, 136, 72, 3, **beta),
        "large": lambda d: grouped(d, 333, 201, 130, 7, layout=1),
    }
    return table


def grouped_reference(p):
    return gemm_grouped.reference(Problem(p.scalars, p.arrays | p.behind, p.host, p.null))


def grouped_bad():
    calls = [call for call in gemm_grouped.bad(False) if not {"b", "odd_b"} & {*call.null, *call.shift, call.name}]
    return (
        *calls,
        *(Bad(f"is_aligned_{v}", 2, rf"is_aligned is {v}, must be 0 or 1", {"is_aligned": v}, can=2) for v in (-1, 2)),
        Bad("null_b", 2, r"b_pointers is NULL", null=("b_pointers",)),
        Bad("odd_b", 1, r"b_pointers is 0x[0-9a-f]+", shift={"b_pointers": 4}),
    )


CASES = (
    Case(
        row="gemm_pointers_{T}", problems=problems(), reference=reference, tolerance={"d": "gemm"},
        plain="plain", large="large", bad=bad(),
        idle=(Idle("no_rows", {"m": 0}), Idle("no_columns", {"n": 0}), Idle("no_product", {"batch": 0})),
    ),
    Case(
        row="grouped_gemm_pointers_{T}", problems=grouped_problems(), reference=grouped_reference,
        tolerance={"d": "gemm"}, plain="plain", large="large", bad=grouped_bad(),
        idle=(Idle("no_rows", {"m": 0}), Idle("no_columns", {"n": 0})),
    ),
)  # fmt: skip
