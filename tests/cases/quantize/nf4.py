# SPDX-License-Identifier: Apache-2.0
"""NF4 weights whose bytes pair two rows."""

import numpy as np

from harness.launch import ROWS
from tools.oracle.code_books import NF4

from ..model import Array, Bad, Case, Expected, Problem


def pairs(draw, n, k, block, kind="normal"):
    absmax = draw.floats((n, k // block), kind, dtype="f32")
    packed = draw.rng.integers(0, 256, (n // 2, k))
    return {"w_packed": Array("u8", (n // 2, k), packed), "absmax": absmax}


def codes_of(packed):
    """(n, k) codes: the low halves are the even rows."""
    return np.stack([packed & 15, packed >> 4], 1).reshape(-1, packed.shape[1])


def weights(p):
    """Weights in float64, not rounded."""
    with np.errstate(invalid="ignore"):
        absmax = np.repeat(p.arrays["absmax"].values, p.scalars["block_size"], 1)
        return NF4[codes_of(p.arrays["w_packed"].values)] * absmax


def dequantize(draw, n, k, block, kind="normal"):
    arrays = pairs(draw, n, k, block, kind) | {"out": draw.output((n, k))}
    return Problem({"n": n, "k": k, "block_size": block}, arrays)


def every_code(draw):
    """Each code with each of some magnitudes, in both halves of a byte."""
    problem = dequantize(draw, 4, 256, 1)
    problem.arrays["w_packed"] = Array("u8", (2, 256), np.stack([np.arange(256), np.arange(256)[::-1]]))
    return problem


def dequantized(p):
    value = weights(p)
    # the product is rounded to f32, then to T
    with np.errstate(over="ignore"):
        return {"out": Expected(value.astype(np.float32).astype(np.float64))}


SHAPES = {
    "plain": (6, 12, 4), "one": (2, 1, 1), "odd_blocks": (4, 35, 5), "rows": (130, 24, 24), "blocks_of_3": (2, 33, 3),
    "aligned": (4, 256, 64), "few": (50, 320, 64), "few_long": (34, 1152, 128),
    "tiles": (2, 9000, 100), "whole_row": (6, 77, 77),
}  # fmt: skip


def bad(row):
    positive = [Bad(f"{name}_{v}", 2, f"{name} is {v}, must be > 0", {name: v}, can=2)
                for name in ("n", "k", "block_size") for v in (0, -4)]  # fmt: skip
    return (
        *positive,
        *(Bad(f"null_{p.name}", 2, rf"{p.name} is NULL", null=(p.name,)) for p in row.pointers),
        *(Bad(f"odd_{p.name}", 1, rf"{p.name} is 0x", shift={p.name: 1}) for p in row.pointers if p.dtype != "u8"),
        Bad("odd_n", 2, "n is 5, must be even", {"n": 5}, can=2),
        Bad("blocks", 2, "k is 12, must be a multiple of block_size, 5", {"block_size": 5}, can=2),
    )


def gemv(draw, m, n, k, block, kind="normal"):
    arrays = pairs(draw, n, k, block) | {"y": draw.floats((m, k), kind), "out": draw.output((m, n))}
    return Problem({"n": n, "k": k, "block_size": block}, arrays)


def products(p):
    w, y = weights(p), p.arrays["y"].values
    with np.errstate(invalid="ignore"):
        magnitude = np.abs(y) @ np.abs(w).T
        return {"out": Expected(y @ w.T, count=y.shape[1] + 2, magnitude=np.where(np.isnan(magnitude), 0, magnitude))}


def cases():
    row = ROWS["nf4_dequantize_{T}"]
    yield Case(
        row=row.name,
        problems={name: lambda d, s=s: dequantize(d, *s) for name, s in SHAPES.items()}
        | {
            "every_code": every_code,
            "special": lambda d: dequantize(d, 8, 64, 4, "special"),
            "large": lambda d: dequantize(d, 300, 2048, 64),
        },
        reference=dequantized, tolerance={"out": "exact"}, plain="plain", large="large", bad=bad(row), idle=(),
    )  # fmt: skip
    for m in (1, 2, 4, 8):
        row = ROWS[f"nf4_gemv_m{m}_{{T}}"]
        yield Case(
            row=row.name,
            problems={name: lambda d, s=s, m=m: gemv(d, m, *s) for name, s in SHAPES.items()}
            | {
                "special": lambda d, m=m: gemv(d, m, 8, 64, 4, "special"),
                "large": lambda d, m=m: gemv(d, m, 130, 2048, 64),
            },
            reference=products, tolerance={"out": "gemm"}, plain="plain", large="large", bad=bad(row), idle=(),
        )  # fmt: skip


CASES = tuple(cases())
