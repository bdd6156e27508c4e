# SPDX-License-Identifier: Apache-2.0
"""Activations as q8_1 blocks."""

import numpy as np

from tools.oracle.block_formats import q8_1_blocks
from tools.oracle.numerics import round_to

from ..model import Bad, Case, Expected, Idle, Problem


def activations(draw, rows, columns, kind="normal"):
    if kind == "halves":  # a scale of 1, and codes halfway between integers, or next to them
        x = draw.rng.integers(-126, 127, (rows, columns)) + draw.rng.choice([0.5, 0.499, 0.0], (rows, columns))
        x[:, ::32] = 127
        source = draw.array(round_to(x, draw.dtype))
    else:
        source = draw.floats((rows, columns), kind)
    return Problem(
        {"kx": columns, "ny": rows},
        {"src": source, "dst_q8_1": draw.output((rows, -(-columns // 32) * 36), dtype="u8")},
    )


def reference(wide):
    def expected(problem):
        x = problem.arrays["src"].values.astype(np.float32)
        return {"dst_q8_1": Expected(q8_1_blocks(x, wide=wide).astype(np.int64))}

    return expected


def case(row, wide):
    return Case(
        row=row,
        problems={
            "plain": lambda d: activations(d, 3, 100),
            "one": lambda d: activations(d, 1, 1),
            "whole": lambda d: activations(d, 7, 96),
            "odd_rows": lambda d: activations(d, 13, 35),
            "halves": lambda d: activations(d, 5, 64, "halves"),
            "wide": lambda d: activations(d, 9, 160, "wide"),
            "special": lambda d: activations(d, 9, 160, "special"),
            "large": lambda d: activations(d, 65, 4101),
            "rows": lambda d: activations(d, 1000, 4),
        },
        reference=reference(wide),
        tolerance={"dst_q8_1": "exact"},
        plain="plain",
        large="large",
        bad=(
            Bad("negative_kx", 2, r"kx is -1, must be >= 0", {"kx": -1}, can=2),
            Bad("negative_ny", 2, r"ny is -1, must be >= 0", {"ny": -1}, can=2),
            *(Bad(f"no_{name}", 2, rf"{name} is NULL", null=(name,)) for name in ("src", "dst_q8_1")),
            Bad("odd_src", 1, r"src is 0x", shift={"src": 1}),
        ),
        idle=(Idle("no_rows", {"ny": 0}), Idle("no_columns", {"kx": 0})),
    )


CASES = (case("quantize_q8_1_{T}", False), case("quantize_q8_1_wide_{T}", True))
