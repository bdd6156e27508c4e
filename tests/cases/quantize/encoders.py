# SPDX-License-Identifier: Apache-2.0
"""Values as GGUF blocks, in the formats of formulas; tests/quantize/test_block_encoders.py has the searches."""

import numpy as np

from tools.oracle.block_encoders import ENCODERS, encoded
from tools.oracle.block_formats import FORMATS
from tools.oracle.numerics import round_to

from ..model import Bad, Case, Expected, Idle, Problem

BY_ID = {each.id: each.name for each in FORMATS.values()}


def values(draw, name, shape, kind="normal", null=("importance",)):
    chosen, (rows, blocks) = FORMATS[name], shape
    columns = blocks * chosen.values
    x = draw.floats((rows, columns), "normal" if kind == "model" else kind)
    if kind == "model":  # blocks of zeros, of one value, of one sign, of ties, and a few outliers
        made = x.values.copy()
        made[0] = 0
        made[1] = -3.5
        made[2] = np.abs(made[2])
        made[3] = np.round(made[3] * 2) / 2
        made[4, ::37] *= 30
        x = draw.array(round_to(made, draw.dtype))
    arrays = {"x": x, "importance": draw.output((columns,), dtype="f32")}
    if not null:
        arrays["importance"] = draw.array(round_to(draw.rng.random(columns), "f32"), "f32")
    else:
        arrays["importance"] = draw.array(np.ones(columns), "f32")
    arrays["y"] = draw.output((rows, blocks * chosen.bytes), dtype="u8")
    return Problem({"rows": rows, "columns": columns, "format": chosen.id}, arrays, null=null)


def reference(problem):
    name = BY_ID[problem.scalars["format"]]
    return {"y": Expected(encoded(name, problem.arrays["x"].values.astype(np.float32)))}


CASES = (
    Case(
        row="quantize_blocks_{T}",
        problems={
            **{name: lambda d, n=name: values(d, n, (3, 5)) for name in ENCODERS},
            **{f"{name} model": lambda d, n=name: values(d, n, (6, 3), "model") for name in ENCODERS},
            **{f"{name} special": lambda d, n=name: values(d, n, (4, 3), "special") for name in ENCODERS},
            "one": lambda d: values(d, "q8_0", (1, 1)),
            "importance": lambda d: values(d, "q8_0", (3, 4), null=()),  # nearest codes, whatever the weights
            "large": lambda d: values(d, "q4_1", (70, 41)),
        },
        reference=reference,
        tolerance={"y": "exact"},
        plain="importance",
        large="large",
        bad=(
            *(
                Bad(f"format_{k}", 3, rf"format is {k}, which is no block format", {"format": k}, can=3)
                for k in (4, 9, 16)
            ),
            Bad("part_of_a_block", 2, r"columns is 33, must be a multiple of", {"columns": 33}, can=2),
            Bad("negative_columns", 2, r"columns is -32", {"columns": -32}, can=2),
            Bad("negative_rows", 2, r"rows is -1", {"rows": -1}, can=2),
            *(Bad(f"no_{name}", 2, rf"{name} is NULL", null=(name, "importance")) for name in ("x", "y")),
            Bad("odd_x", 1, r"x is 0x", shift={"x": 1}),
        ),
        idle=(Idle("no_rows", {"rows": 0}), Idle("no_columns", {"columns": 0})),
    ),
)
