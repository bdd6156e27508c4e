# SPDX-License-Identifier: Apache-2.0
"""fftshift and ifftshift of rows, fftshift_nd, and scale_inplace."""

import math

import numpy as np

from ..model import Bad, Case, Expected, Idle, Problem

CELLS = {4: "u32", 8: "u64", 16: "c64"}
ROWS = {
    "one": (1, 1), "plain": (3, 7), "even": (5, 8), "two": (4, 2), "long": (2, 40001), "large": (300, 129),
}  # fmt: skip
ARRAYS = {  # shape, shift_amt
    "one": ((1,), (0,)), "plain": ((3, 4, 5), (2, 2, 3)), "untouched": ((6, 7), (0, 4)), "last": ((9, 64), (0, 32)),
    "beyond": ((5, 6), (7, -4)), "rank0": ((), ()), "rank8": ((2, 1, 3, 1, 2, 1, 2, 3), (1, 0, 1, 0, 1, 0, 1, 2)),
    "large": ((33, 40, 21), (17, 20, 11)),
}  # fmt: skip


def rows(draw, dtype, batch, n, kind="normal"):
    arrays = {"x": draw.values((batch, n), kind, dtype=dtype), "y": draw.output((batch, n), dtype=dtype)}
    return Problem({"batch": batch, "n": n}, arrays)


def reference_of_rows(is_inverse):
    def reference(problem):
        x, n = problem.arrays["x"].values, problem.scalars["n"]
        return {"y": Expected(np.roll(x, -(n // 2) if is_inverse else n // 2, 1))}

    return reference


def nd(draw, dtype, shape, shift, kind="normal"):
    total = math.prod(shape)
    strides = tuple([math.prod(shape[d + 1 :]) for d in range(len(shape))])
    host = {"shape": shape, "shift_amt": shift, "stride": strides}
    arrays = {"x": draw.values((total,), kind, dtype=dtype), "y": draw.output((total,), dtype=dtype)}
    return Problem({"total": total, "rank": len(shape)}, arrays, host)


def reference_nd(problem):
    x, host = problem.arrays["x"].values, problem.host
    shape, shift = host["shape"], host["shift_amt"]
    found = np.roll(x.reshape(shape), [-s for s in shift], tuple(range(len(shape)))) if shape else x
    return {"y": Expected(found.reshape(-1))}


def row_case(name, size, dtype):
    problems = {n: lambda d, g=g: rows(d, dtype, *g) for n, g in ROWS.items()}
    problems["special"] = lambda d: rows(d, dtype, 7, 9, "special")
    return Case(
        row=f"{name}_{size}", problems=problems, reference=reference_of_rows(name == "ifftshift"),
        tolerance={"y": "exact"}, plain="plain", large="large",
        bad=(
            Bad("negative_batch", 2, r"batch is -1", {"batch": -1}, can=2),
            Bad("negative_n", 2, r"n is -7", {"n": -7}, can=2),
            Bad("in_place", 2, r"y ", alias={"y": "x"}),
        ),
        idle=(Idle("no_rows", {"batch": 0}), Idle("no_columns", {"n": 0})),
    )  # fmt: skip


def nd_case(size, dtype):
    problems = {n: lambda d, g=g: nd(d, dtype, *g) for n, g in ARRAYS.items()}
    problems["special"] = lambda d: nd(d, dtype, (7, 9), (3, 5), "special")
    return Case(
        row=f"fftshift_nd_{size}", problems=problems, reference=reference_nd, tolerance={"y": "exact"}, plain="plain",
        large="large",
        bad=(
            Bad("negative_total", 2, r"total is -1", {"total": -1}, can=2),
            Bad("other_total", 2, r"total is 61, but shape has 60 elements", {"total": 61}, can=2),
            Bad("rank_9", 2, r"rank is 9", {"rank": 9}, can=2),
            Bad("rank_negative", 2, r"rank is -1", {"rank": -1}, can=2),
            Bad("negative_extent", 2, r"shape\[1\] is -4", host={"shape": (3, -4, 5)}, can=2),
            Bad("strides", 2, r"stride\[0\] is 21, must be 20, as of a row-major array",
                host={"stride": (21, 5, 1)}, can=2),
            Bad("in_place", 2, r"y ", alias={"y": "x"}),
        ),
        idle=(Idle("total_0", {"total": 0}, {"shape": (3, 0, 5)}),),
    )  # fmt: skip


def scaled(draw, numel, scale, kind="normal"):
    return Problem({"numel": numel, "scale": scale}, {"y": draw.values((numel,), kind)})


def reference_scaled(problem):
    y, scale = problem.arrays["y"].values, problem.scalars["scale"]
    with np.errstate(invalid="ignore", over="ignore"):
        if np.iscomplexobj(y):
            pairs = np.ascontiguousarray(y).view(np.float64) * scale
            single = problem.arrays["y"].dtype == "c32"
            pairs = pairs.astype(np.float32).astype(np.float64) if single else pairs
            return {"y": Expected(pairs.view(np.complex128))}
        return {"y": Expected(y * scale)}


def scale_case(row):
    sizes = {"one": 1, "plain": 13, "large": 100_003}
    problems = {n: lambda d, size=size: scaled(d, size, 0.125 if size == 1 else -1.75) for n, size in sizes.items()}
    problems["special"] = lambda d: scaled(d, 40, 0.5, "special")
    problems["by_zero"] = lambda d: scaled(d, 9, 0.0)
    return Case(
        row=row, problems=problems, reference=reference_scaled, tolerance={"y": "exact"}, plain="plain", large="large",
        bad=(Bad("negative_numel", 2, r"numel is -1", {"numel": -1}, can=2),), idle=(Idle("numel_0", {"numel": 0}),),
    )  # fmt: skip


CASES = (
    *[row_case(name, size, dtype) for name in ("fftshift", "ifftshift") for size, dtype in CELLS.items()],
    *[nd_case(size, dtype) for size, dtype in CELLS.items()],
    scale_case("scale_inplace_{T}"),
    scale_case("scale_inplace_real_{T}"),
)
