# SPDX-License-Identifier: Apache-2.0
"""Gradients of the cos and sin tables of rotary position embeddings."""

import numpy as np

from ..model import Bad, Case, Expected, Idle, Problem

WORDS = ("outer", "places", "inner", "d")
SHAPES = {  # outer, positions, inner, d
    "one": (1, 1, 1, 2),
    "small": (3, 5, 2, 8),
    "shared": (7, 5, 1, 22),
    "own": (1, 35, 1, 12),
    "tokens": (1, 9, 8, 32),
    "vector": (4, 16, 1, 128),
    "wide": (2, 3, 2, 1030),
    "many_rows": (130, 2, 9, 16),
    "one_place": (1000, 1, 1, 66),
    "no_rows": (0, 3, 2, 8),
    "large": (21, 40, 3, 48),
}


def sums(draw, shape, is_half=0, kind="normal", null=()):
    data = {name: draw.floats(shape, kind) for name in ("dy", "x")}
    compute = {"f16": "f32", "bf16": "f32"}.get(draw.dtype, draw.dtype)
    tables = {name: draw.output((shape[1], shape[3] // 2), dtype=compute) for name in ("dcos", "dsin")}
    return Problem(dict(zip(WORDS, shape)) | {"is_half": is_half}, data | tables, null=null)


def reference(problem):
    pairs, is_half = problem.scalars["d"] // 2, problem.scalars["is_half"]
    first, second = (slice(0, pairs), slice(pairs, None)) if is_half else (slice(0, None, 2), slice(1, None, 2))
    dy, x = (problem.arrays[name].values.astype(np.longdouble) for name in ("dy", "x"))
    da, db, a, b = dy[..., first], dy[..., second], x[..., first], x[..., second]
    with np.errstate(invalid="ignore", over="ignore"):
        summands = {"dcos": (da * a, db * b), "dsin": (db * a, -da * b)}
        count = 2 * dy.shape[0] * dy.shape[2] + 1
        return {
            name: Expected(
                sum(term.sum((0, 2)) for term in of).astype(np.float64),
                count,
                sum(np.abs(term).sum((0, 2)) for term in of).astype(np.float64),
            )
            for name, of in summands.items()
            if name not in problem.null
        }


def problems():
    def add(name, *args, **options):
        table[name] = lambda d: sums(d, *args, **options)

    table = {}
    for name, shape in SHAPES.items():
        for is_half in (0, 1):
            add(f"{name}_half" if is_half else name, shape, is_half)
    add("special", (4, 5, 3, 12), kind="special")
    add("cosines", SHAPES["small"], null=("dsin",))
    add("sines", SHAPES["small"], 1, null=("dcos",))
    add("nothing", SHAPES["small"], null=("dcos", "dsin"))
    return table


ARRAYS = ("dy", "x", "dcos", "dsin")
CASES = (
    Case(
        row="rope_tables_backward_{T}",
        problems=problems(),
        reference=reference,
        tolerance=dict.fromkeys(("dcos", "dsin"), "total_of_products"),
        plain="small",
        large="large",
        bad=(
            *(Bad(f"negative_{e}", 2, rf"{e} is -4", {e: -4}, can=2) for e in WORDS),
            Bad("no_features", 2, r"d is 0, must be even", {"d": 0}, can=2),
            Bad("odd_features", 2, r"d is 7, must be even", {"d": 7}, can=2),
            Bad("null_dy", 2, r"dy is NULL", null=("dy",)),
            Bad("null_x", 2, r"x is NULL, but dcos reads it", null=("x",)),
            *(Bad(f"odd_{a}", 1, rf"{a} is 0x[0-9a-f]+", shift={a: 1}) for a in ARRAYS),
        ),
        idle=(Idle("no_places", {"places": 0}),),
    ),
)
