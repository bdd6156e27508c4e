# SPDX-License-Identifier: Apache-2.0
"""fp8 with f32 scales of tensors, rows, groups and blocks."""

import numpy as np

from harness.launch import ROWS
from tools.oracle.numerics import round_to

from ..model import Bad, Case, Expected, Idle, Problem
from .floats import choices, negative, pointers

F32 = np.float32


def tiles(extent):
    return -(-extent // 128)


def fp8_scale_count(rows, columns, scaling):
    return (1, rows, rows * tiles(columns), tiles(rows) * tiles(columns))[scaling]


def fp8(draw, rows, columns, scaling, kind="normal", powers=0, null=()):
    arrays = {
        "x": draw.floats((rows, columns), kind), "y": draw.output((rows, columns), dtype=draw.other),
        "scale": draw.output((fp8_scale_count(rows, columns, scaling),), dtype="f32"),
        "y_t": draw.output((columns, rows), dtype=draw.other),
        "scale_t": draw.output((fp8_scale_count(columns, rows, scaling),), dtype="f32"),
    }  # fmt: skip
    scalars = {"rows": rows, "columns": columns, "fp8_scaling": scaling, "powers_of_two": powers}
    return Problem(scalars, arrays, null=null)


def fp8_side(x, scaling, powers, dtype):
    """(codes' values, flat scales) of one orientation."""
    rows, columns = x.shape
    finite = np.where(np.isfinite(x), np.abs(x), 0)
    padded = np.zeros((tiles(rows) * 128, tiles(columns) * 128))
    padded[:rows, :columns] = finite
    by_tile = padded.reshape(-1, 128, tiles(columns), 128)
    largest = (
        finite.max(keepdims=True), finite.max(1, keepdims=True), by_tile.max(3).reshape(-1, tiles(columns))[:rows],
        by_tile.max((1, 3)),
    )[scaling]  # fmt: skip
    scale = (largest.astype(F32) / F32(57344 if dtype == "fp8e5m2" else 448)).astype(F32)
    scale = np.maximum(scale, F32(2.0**-126))
    if powers:
        mantissa, exponent = np.frexp(scale.astype(np.float64))
        scale = np.ldexp(1.0, exponent - (mantissa == 0.5)).astype(F32)
    scale = np.where(largest == 0, F32(1), scale).astype(F32)
    each = {0: scale, 1: scale, 2: np.repeat(scale, 128, 1)[:, :columns],
            3: np.repeat(np.repeat(scale, 128, 0), 128, 1)[:rows, :columns]}[scaling]  # fmt: skip
    with np.errstate(all="ignore"):
        scaled = x.astype(F32) * (F32(1) / each)
    most = 57344.0 if dtype == "fp8e5m2" else 448.0
    scaled = np.where(np.isfinite(x), np.clip(scaled.astype(np.float64), -most, most), np.nan)
    return round_to(scaled, dtype), scale.reshape(-1).astype(np.float64)


def fp8_quantized(p):
    x, scaling, powers = p.arrays["x"].values, p.scalars["fp8_scaling"], p.scalars["powers_of_two"]
    dtype = p.arrays["y"].dtype
    found = dict(zip(("y", "scale"), fp8_side(x, scaling, powers, dtype)))
    found |= dict(zip(("y_t", "scale_t"), fp8_side(x.T, scaling, powers, dtype)))
    return {name: Expected(value) for name, value in found.items() if name not in p.null}


def fp8_back(draw, rows, columns, scaling):
    arrays = {
        "x": draw.floats((rows, columns), "special"),
        "scale": draw.floats((fp8_scale_count(rows, columns, scaling),), "positive", dtype="f32"),
        "y": draw.output((rows, columns), dtype=draw.other),
    }  # fmt: skip
    return Problem({"rows": rows, "columns": columns, "fp8_scaling": scaling}, arrays)


def fp8_values(p):
    x, scaling = p.arrays["x"].values, p.scalars["fp8_scaling"]
    rows, columns = x.shape
    scale = p.arrays["scale"].values
    if scaling == 1:
        scale = scale[:, None]
    elif scaling == 2:
        scale = np.repeat(scale.reshape(rows, -1), 128, 1)[:, :columns]
    elif scaling == 3:
        scale = np.repeat(np.repeat(scale.reshape(tiles(rows), -1), 128, 0), 128, 1)[:rows, :columns]
    with np.errstate(all="ignore"):
        return {"y": Expected((x.astype(F32) * scale.astype(F32)).astype(np.float64))}


def fp8_cases():
    row = ROWS["quantize_fp8_{T}_{U}"]
    problems = {"plain": lambda d: fp8(d, 5, 200, 2), "one": lambda d: fp8(d, 1, 1, 2)}
    for scaling in range(4):
        of = {"": (140, 300), "_odd": (77, 131), "_aligned": (128, 256), "_row": (1, 500), "_column": (500, 1)}
        problems |= {f"scaling{scaling}{name}": lambda d, s=s, k=scaling: fp8(d, *s, k) for name, s in of.items()}
        problems |= {
            f"special{scaling}": lambda d, k=scaling: fp8(d, 40, 150, k, "special"),
            f"wide{scaling}": lambda d, k=scaling: fp8(d, 40, 150, k, "wide"),
            f"powers{scaling}": lambda d, k=scaling: fp8(d, 40, 150, k, powers=1),
            f"no_transpose{scaling}": lambda d, k=scaling: fp8(d, 30, 140, k, null=("y_t", "scale_t")),
            f"transpose{scaling}": lambda d, k=scaling: fp8(d, 30, 140, k, null=("y", "scale")),
        }  # fmt: skip
    problems["large"] = lambda d: fp8(d, 260, 520, 1)
    exact = dict.fromkeys(("y", "scale", "y_t", "scale_t"), "exact")
    extents = (*negative("rows", "columns"), *choices("fp8_scaling", 4))
    idle = (Idle("no_rows", {"rows": 0}), Idle("no_columns", {"columns": 0}))
    yield Case(
        row=row.name, problems=problems, reference=fp8_quantized, tolerance=exact, plain="plain", large="large",
        bad=(
            *extents, *choices("powers_of_two", 2), *pointers(row),
            Bad("no_results", 2, "y and y_t are NULL", null=("y", "y_t")),
            Bad("no_scale", 2, "scale is NULL, but y is not", null=("scale",)),
            Bad("no_scale_t", 2, "scale_t is NULL, but y_t is not", null=("scale_t",)),
        ),
        idle=idle,
    )  # fmt: skip
    row = ROWS["dequantize_fp8_{T}_{U}"]
    problems = {"plain": lambda d: fp8_back(d, 5, 200, 2), "one": lambda d: fp8_back(d, 1, 1, 2)}
    problems |= {f"scaling{k}": lambda d, k=k: fp8_back(d, 140, 300, k) for k in range(4)}
    problems |= {f"odd{k}": lambda d, k=k: fp8_back(d, 77, 131, k) for k in range(4)}
    problems["large"] = lambda d: fp8_back(d, 260, 520, 2)
    yield Case(
        row=row.name, problems=problems, reference=fp8_values, tolerance={"y": "exact"}, plain="plain", large="large",
        bad=(*extents, *pointers(row)), idle=idle,
    )  # fmt: skip


CASES = (*fp8_cases(),)
