# SPDX-License-Identifier: Apache-2.0
"""GEMM of 8-bit operands with scales per matrix, per row and column, or per block."""

import functools

import numpy as np

from harness.launch import ROWS
from tools.oracle.numerics import is_float

from ..model import Bad, Case, Expected, Idle, Problem
from .gemm import LAYOUTS, bad_calls, drawn, matrix, round_to

BLOCK = 128
MATRICES, ROWS_AND_COLUMNS, BLOCKS = range(3)  # the C ABI's values
OF_B = {"gemm_scaled_{T}_fp8e4m3_{U}": {"of_b": "fp8e4m3"}}


def scale_shapes(m, n, k, scaling):
    if scaling == BLOCKS:
        blocks = -(-k // BLOCK)
        return (m * blocks,), (-(-n // BLOCK) * blocks,)
    return ((m,), (n,)) if scaling == ROWS_AND_COLUMNS else ((1,), (1,))


def scaled(
    draw, m, n, k, *, layout=1, scaling=BLOCKS, coeffs=(0.75, 0.0), gaps=(0, 0, 0), null=(), values="normal",
    of_b="",
):  # fmt: skip
    """of_b is B's dtype, if it is not that of A."""
    sizes = (k, m) if layout >= 2 else (m, k), (n, k) if layout % 2 else (k, n)
    dtypes = {"a": draw.dtype, "b": of_b or draw.dtype}
    arrays = {name: matrix(draw, *size, gap, values, dtype=dtypes[name]) for name, size, gap in zip("ab", sizes, gaps)}
    if values == "special" and is_float(draw.dtype):
        for name, dtype in dtypes.items():
            cells = arrays[name].values.copy()
            cells.flat[draw.rng.integers(cells.size)] = np.nan
            arrays[name].values = round_to(cells, dtype)
    for name, shape in zip(("a_scale", "b_scale"), scale_shapes(m, n, k, scaling)):
        arrays[name] = draw.floats(shape, "positive", dtype="f32")
    arrays["bias"] = draw.floats((n,), dtype=draw.other)
    arrays["d"] = matrix(draw, m, n, gaps[2], dtype=draw.other)
    if not coeffs[1]:
        arrays["d"].values = np.full((m, n), np.nan)
    scalars = {"m": m, "n": n, "k": k, "layout": layout, "scaling": scaling, "backend": 0}
    scalars |= {"alpha": coeffs[0], "beta": coeffs[1]}
    scalars |= {f"ld{name}": arrays[name].strides[0] for name in "abd"}
    return Problem(scalars, arrays, null=tuple(null))


def dequantised(p):
    """A and B as float64, times their scales."""
    s, arrays = p.scalars, p.arrays
    a = arrays["a"].values.T if LAYOUTS[s["layout"]][0] == "c" else arrays["a"].values
    b = arrays["b"].values.T if LAYOUTS[s["layout"]][1] == "c" else arrays["b"].values
    of_a, of_b = (None if name in p.null else arrays[name].values for name in ("a_scale", "b_scale"))
    if s["scaling"] == BLOCKS:
        block_of_k, block_of_n = np.arange(s["k"]) // BLOCK, np.arange(s["n"]) // BLOCK
        of_a = None if of_a is None else of_a.reshape(s["m"], -1)[:, block_of_k]
        of_b = None if of_b is None else of_b.reshape(-(-s["n"] // BLOCK), -1)[block_of_n][:, block_of_k].T
    elif of_a is not None:
        of_a = of_a[:, None]
    return a if of_a is None else a * of_a, b if of_b is None else b * of_b


def reference(p):
    s, arrays = p.scalars, p.arrays
    (a, b), d = dequantised(p), arrays["d"].values
    rest = [np.zeros(d.shape)] if "bias" in p.null else [np.broadcast_to(arrays["bias"].values, d.shape)]
    rest += [s["beta"] * d] if s["beta"] else []
    with np.errstate(invalid="ignore"):
        z = s["alpha"] * (a @ b) + sum(rest)
        magnitude = abs(s["alpha"]) * (np.abs(a) @ np.abs(b)) + sum(map(np.abs, rest))
    return {"d": Expected(z, count=s["k"], magnitude=np.where(np.isnan(magnitude), 0, magnitude))}


def problems(scaled):
    return {
        "plain": lambda d: scaled(d, 7, 9, 11, coeffs=(0.75, -1.5)),
        "one": lambda d: scaled(d, 1, 1, 1),
        "blocks": lambda d: scaled(d, 130, 200, 320),
        "blocks_whole": lambda d: scaled(d, 64, 128, 256, coeffs=(1.0, 0.0), null=("bias",)),
        "blocks_gaps": lambda d: scaled(d, 70, 140, 300, gaps=(3, 5, 1), coeffs=(1.0, 1.0)),
        "blocks_rrr": lambda d: scaled(d, 33, 260, 200, layout=0, null=("bias",)),
        "blocks_crr": lambda d: scaled(d, 40, 129, 257, layout=2),
        "blocks_ccr": lambda d: scaled(d, 40, 150, 257, layout=3),
        "rows_ccr": lambda d: scaled(d, 64, 80, 128, layout=3, scaling=ROWS_AND_COLUMNS),
        "blocks_of_a": lambda d: scaled(d, 20, 150, 140, null=("b_scale",)),
        "blocks_of_b": lambda d: scaled(d, 20, 150, 140, null=("a_scale", "bias")),
        "matrices": lambda d: scaled(d, 40, 33, 96, scaling=MATRICES, coeffs=(0.5, 0.5)),
        "matrices_crr": lambda d: scaled(d, 21, 34, 65, layout=2, scaling=MATRICES),
        "no_scales": lambda d: scaled(d, 24, 40, 64, scaling=MATRICES, null=("a_scale", "b_scale")),
        "rows": lambda d: scaled(d, 41, 130, 160, scaling=ROWS_AND_COLUMNS),
        "rows_rrr": lambda d: scaled(d, 35, 24, 50, layout=0, scaling=ROWS_AND_COLUMNS, gaps=(1, 2, 3)),
        "row": lambda d: scaled(d, 1, 130, 400),
        "column": lambda d: scaled(d, 131, 1, 70),
        "zero_k": lambda d: scaled(d, 6, 5, 0, coeffs=(1.0, 2.0)),
        "zero_k_beta0": lambda d: scaled(d, 6, 5, 0, scaling=ROWS_AND_COLUMNS),
        "long": lambda d: scaled(d, 3, 40, 1500),
        "few_rows": lambda d: scaled(d, 7, 150, 1001, gaps=(7, 23, 1), coeffs=(0.75, -1.5)),
        "some_rows": lambda d: scaled(d, 13, 150, 2330, scaling=ROWS_AND_COLUMNS, gaps=(6, 6, 0)),
        "some_rows_blocks": lambda d: scaled(d, 16, 34, 4224, null=("bias",)),
        "special": lambda d: scaled(d, 24, 17, 140, values="special"),
        "large": lambda d: scaled(d, 150, 201, 517),
        **{
            f"drawn{seed}": lambda d, seed=seed: scaled(
                d, *drawn(300 + seed)[0], layout=seed % 4, scaling=seed % 2, gaps=drawn(300 + seed)[1]
            )
            for seed in range(6)
        },
    }


BAD = (
    *(Bad(f"layout_{v}", 2, rf"layout is {v}, must be 0 \(rrr\)", {"layout": v}, can=2) for v in (-1, 4)),
    *(Bad(f"backend_{v}", 2, rf"backend is {v}, must be 0 \(any", {"backend": v}, can=2) for v in (-1, 6)),
    *(Bad(f"of_others_{v}", 3, rf"backend is {v}, but ", {"backend": v}, can=3) for v in (2, 4)),
    *(Bad(f"scaling_{v}", 2, rf"scaling is {v}, must be 0 \(of m", {"scaling": v}, can=2) for v in (-1, 3)),
)


def scaled_case(row):
    made = problems(functools.partial(scaled, **OF_B.get(row.name, {})))
    return Case(
        row=row.name, problems=made, reference=reference, tolerance={"d": "gemm"},
        plain="plain", large="large", bad=(*bad_calls(row), *BAD),
        idle=(Idle("no_rows", {"m": 0}), Idle("no_columns", {"n": 0})),
        brief=("plain", "blocks", "rows_rrr", "matrices"),
        full=lambda slots: slots["T"] != "fp8e5m2" or row.name in OF_B,
    )  # fmt: skip


CASES = tuple(scaled_case(ROWS[name]) for name in ("gemm_scaled_{T}_{U}", "gemm_scaled_{T}_fp8e4m3_{U}"))

__all__ = ["CASES"]
