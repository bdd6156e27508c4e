# SPDX-License-Identifier: Apache-2.0
"""Dequantisation of GGUF blocks."""

import numpy as np

from tools.oracle.block_formats import FORMATS, decoded
from tools.oracle.numerics import round_to

from ..model import Bad, Case, Expected, Idle, Problem

BY_ID = {each.id: each for each in FORMATS.values()}


def blocks_of(draw, chosen, count, kind="any"):
    """Bytes of blocks. "any": all bit patterns; "finite": the f16 and f32 numbers of q-formats are ordinary."""
    data = draw.rng.integers(0, 256, (count, chosen.bytes), np.int64)
    if kind == "zero":
        data[:] = 0
    return data


def expected(chosen, data, dtype):
    values = decoded(chosen, data.astype(np.uint8))
    with np.errstate(over="ignore"):
        return round_to(values.astype(np.float64), dtype)


# --- formats by name ---


def named(draw, count, kind="any"):
    chosen = FORMATS[draw.function]
    data = blocks_of(draw, chosen, count, kind).reshape(-1)
    numel = count * chosen.values
    arrays = {"x": draw.array(data, "u8"), "y": draw.output((numel,), dtype="f32")}
    return Problem({"numel": numel}, arrays, function=draw.function)


def named_reference(problem):
    chosen = FORMATS[problem.function]
    return {"y": Expected(expected(chosen, problem.arrays["x"].values, "f32"))}


# --- any format ---


def rows_of(draw, name, shape, kind="any"):
    chosen, (rows, blocks) = FORMATS[name], shape
    data = blocks_of(draw, chosen, rows * blocks, kind).reshape(rows, blocks * chosen.bytes)
    scalars = {"rows": rows, "columns": blocks * chosen.values, "format": chosen.id}
    return Problem(scalars, {"x": draw.array(data, "u8"), "y": draw.output((rows, blocks * chosen.values))})


def rows_reference(problem):
    y = problem.arrays["y"]
    return {"y": Expected(expected(BY_ID[problem.scalars["format"]], problem.arrays["x"].values, y.dtype))}


def taken(draw, name, shape, indices):
    chosen, (rows, blocks) = FORMATS[name], shape
    data = blocks_of(draw, chosen, rows * blocks).reshape(rows, blocks * chosen.bytes)
    columns, indices = blocks * chosen.values, draw.indices(indices)
    scalars = {"num_indices": indices.shape[0], "num_rows": rows, "columns": columns, "format": chosen.id}
    y = draw.output((indices.shape[0], columns))
    return Problem(scalars, {"x": draw.array(data, "u8"), "indices": indices, "y": y})


def taken_reference(problem):
    indices, y = problem.arrays["indices"].values, problem.arrays["y"]
    rows = problem.scalars["num_rows"]
    values = expected(BY_ID[problem.scalars["format"]], problem.arrays["x"].values, y.dtype)
    inside = (indices >= 0) & (indices < rows)
    found = values[np.where(inside, indices, 0)] if rows else np.zeros(y.shape)
    return {"y": Expected(np.where(inside[:, None], found, 0.0))}


SOME = (5, 0, 3, 3, -1, 7, 6, 2**31 - 1, 1)
BAD_FORMAT = (
    Bad("no_format", 3, r"format is 4, which is no block format", {"format": 4}, can=3),
    Bad("part_of_a_block", 2, r"columns is 33, must be a multiple of", {"columns": 33}, can=2),
    Bad("negative_columns", 2, r"columns is -32", {"columns": -32}, can=2),
)
NAMED = Case(
    row="dequantize_{F}",
    problems={
        "plain": lambda d: named(d, 5),
        "one": lambda d: named(d, 1),
        "tile": lambda d: named(d, 128),
        "large": lambda d: named(d, 1201),
        "zero": lambda d: named(d, 3, "zero"),
    },
    reference=named_reference,
    tolerance={"y": "exact"},
    plain="plain",
    large="large",
    full=lambda slots: True,
    bad=(
        Bad("negative", 2, r"numel is -1, must be >= 0", {"numel": -1}, can=2),
        Bad("part_of_a_block", 2, r"numel is 31, must be a multiple of", {"numel": 31}, can=2),
        Bad("too_many", 2, r"", {"numel": 2**62}, can=2),
        *(Bad(f"no_{name}", 2, rf"{name} is NULL", null=(name,)) for name in ("x", "y")),
        Bad("odd_y", 1, r"y is 0x", shift={"y": 1}),
    ),
    idle=(Idle("nothing", {"numel": 0}),),
)
ROWS = Case(
    row="dequantize_blocks_{T}",
    problems={
        **{name: lambda d, n=name: rows_of(d, n, (3, 7)) for name in FORMATS},
        "large": lambda d: rows_of(d, "q4_K", (33, 17)),
        "zero": lambda d: rows_of(d, "q6_K", (2, 3), "zero"),
    },
    reference=rows_reference,
    tolerance={"y": "exact"},
    plain="q4_0",
    large="large",
    bad=(
        *BAD_FORMAT,
        Bad("negative_rows", 2, r"rows is -1", {"rows": -1}, can=2),
        *(Bad(f"no_{name}", 2, rf"{name} is NULL", null=(name,)) for name in ("x", "y")),
        Bad("odd_y", 1, r"y is 0x", shift={"y": 1}),
    ),
    idle=(Idle("no_rows", {"rows": 0}), Idle("no_columns", {"columns": 0})),
)
TAKEN = Case(
    row="take_blocks{I}_{T}",
    problems={
        **{name: lambda d, n=name: taken(d, n, (7, 2), SOME) for name in FORMATS},
        "one": lambda d: taken(d, "q8_0", (1, 1), (0,)),
        "long": lambda d: taken(d, "q4_K", (4, 33), (2, 9, 0)),
        "no_rows": lambda d: taken(d, "q4_K", (0, 2), (0, 1)),
        "large": lambda d: taken(d, "q5_0", (300, 9), d.rng.integers(-5, 310, 700)),
    },
    reference=taken_reference,
    tolerance={"y": "exact"},
    plain="q4_0",
    large="large",
    bad=(
        *BAD_FORMAT,
        Bad("negative_rows", 2, r"num_rows is -1", {"num_rows": -1}, can=2),
        Bad("negative_indices", 2, r"num_indices is -1", {"num_indices": -1}, can=2),
        *(Bad(f"no_{name}", 2, rf"{name} is NULL", null=(name,)) for name in ("x", "indices", "y")),
        *(Bad(f"odd_{name}", 1, rf"{name} is 0x", shift={name: 1}) for name in ("indices", "y")),
    ),
    idle=(Idle("no_indices", {"num_indices": 0}), Idle("no_columns", {"columns": 0})),
)
CASES = (NAMED, ROWS, TAKEN)
