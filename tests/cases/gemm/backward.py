# SPDX-License-Identifier: Apache-2.0
"""Gradients of batched GEMM."""

import functools

import numpy as np

from ..model import Bad, Case, Expected, Idle, Problem
from .epilogue import pitches
from .gemm import LAYOUTS, drawn, matrix
from .grouped import product


def gradients(draw, m, n, k, batch=1, *, layout=0, alpha=0.75, gap=0, apart=3, null=(), steps=None):
    """Matrices of a batch lie `apart` elements apart, or as `steps` says by name."""
    sizes = {"dd": (m, n), "a": (k, m) if layout >= 2 else (m, k), "b": (n, k) if layout % 2 else (k, n)}
    arrays = {}
    for name, (rows, columns) in sizes.items():
        step = (steps or {}).get(name, max(rows * (columns + gap), 1) + apart)
        arrays[name] = matrix(draw, rows, columns, gap, batch=(batch, step))
    scalars = {"m": m, "n": n, "k": k, "batch": batch, "layout": layout, "alpha": alpha} | pitches(arrays)
    arrays |= {f"d{name}": draw.output((batch, *sizes[name])) for name in "ab"}
    return Problem(scalars, arrays, null=tuple(null))


def reference(p):
    """Column-major matrices are transposed, and so are their gradients."""
    s, layout = p.scalars, LAYOUTS[p.scalars["layout"]]
    dd, a, b = (p.arrays[name].values for name in ("dd", "a", "b"))
    a = np.swapaxes(a, 1, 2) if layout[0] == "c" else a
    b = np.swapaxes(b, 1, 2) if layout[1] == "c" else b
    of_a, of_b = product(dd, np.swapaxes(b, 1, 2)), product(np.swapaxes(a, 1, 2), dd)
    of_a = [np.swapaxes(x, 1, 2) for x in of_a] if layout[0] == "c" else of_a
    of_b = [np.swapaxes(x, 1, 2) for x in of_b] if layout[1] == "c" else of_b
    found = {"da": (of_a, s["n"]), "db": (of_b, s["m"])}
    return {
        name: Expected(s["alpha"] * value, count=count, magnitude=np.abs(s["alpha"]) * magnitude)
        for name, ((value, magnitude), count) in found.items() if name not in p.null
    }  # fmt: skip


PROBLEMS = {
    "one": lambda d: gradients(d, 1, 1, 1, alpha=1.0),
    "no_rows": lambda d: gradients(d, 0, 9, 11, 2),
    "no_columns": lambda d: gradients(d, 7, 0, 11, 2),
    "row": lambda d: gradients(d, 1, 130, 70, 2),
    "tokens": lambda d: gradients(d, 1300, 24, 16),
    "shared": lambda d: gradients(d, 16, 24, 8, 3, steps={"dd": 0, "b": 0}),
    "backwards": lambda d: gradients(d, 6, 5, 8, 3, steps={"dd": -40, "a": -50, "b": -60}),
    "da": lambda d: gradients(d, 24, 16, 8, layout=1, null=("a", "db")),
    "db": lambda d: gradients(d, 24, 16, 8, layout=2, null=("b", "da")),
    "large": lambda d: gradients(d, 150, 201, 130, 2, layout=1),
    **{
        f"{name}_{kind}": lambda d, layout=layout, kind=kind: {
            "plain": functools.partial(gradients, d, 7, 9, 11, 3),
            "gaps": functools.partial(gradients, d, 21, 33, 35, 2, gap=3),
            "aligned": functools.partial(gradients, d, 64, 72, 136, apart=0, alpha=1.0),
            "drawn": functools.partial(gradients, d, *drawn(400 + layout)[0]),
        }[kind](layout=layout)
        for layout, name in enumerate(LAYOUTS) for kind in ("plain", "gaps", "aligned", "drawn")
    },
}  # fmt: skip
PROBLEMS["plain"] = PROBLEMS.pop("rrr_plain")
EXTENTS = ("m", "n", "k", "batch")
BAD = (
    *(Bad(f"negative_{e}", 2, rf"{e} is -4", {e: -4}, can=2) for e in EXTENTS),
    *(Bad(f"layout_{v}", 2, rf"layout is {v}, must be", {"layout": v}, can=2) for v in (-1, 4)),
    *(Bad(f"ld{x}_{v}", 2, rf"ld{x} is {v}", {f"ld{x}": v}, can=2) for x in ("dd", "a", "b") for v in (-4, 2, 2**62)),
    *(Bad(f"null_{p}", 2, rf"{p} is NULL", null=(p,)) for p in ("dd", "a", "b")),
    *(Bad(f"odd_{p}", 1, rf"{p} is 0x[0-9a-f]+", shift={p: 1}) for p in ("dd", "a", "b", "da", "db")),
)
CASES = (
    Case(
        row="gemm_dense_backward_{T}", problems=PROBLEMS, reference=reference,
        tolerance={"da": "gemm", "db": "gemm"}, plain="plain", large="large", bad=BAD,
        idle=(Idle("zero_k", {"k": 0}), Idle("no_batch", {"batch": 0}), Idle("nothing", {"m": 0, "n": 0})),
    ),
)  # fmt: skip
