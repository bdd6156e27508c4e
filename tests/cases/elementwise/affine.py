# SPDX-License-Identifier: Apache-2.0
"""y = a x + b, for floats with one rounding, for integers modulo 2^width."""

import fractions
import math

import numpy as np

from tools.oracle.casts import EXACT, rounded
from tools.oracle.numerics import COMPUTE, is_float, round_to
from tools.oracle.pairs import nearest

from ..model import Case, Expected, Idle
from .common import (
    SIZES,
    flat_bad,
    flat_maker,
    operands,
    strided_bad,
    strided_idle,
    strided_maker,
    strided_problems,
)

ROWS = ("affine_{T}", "affine_{T}_strided", "affine_inplace_{T}", "affine_inplace_{T}_strided")
PAIRS = ((0.3, 1.7), (-2.5, 0.1), (1e-3, -1.0), (1.0, 0.0), (0.0, 2.5), (1.0, 2.0**-30), (1.5, 1e-38), (3.0, -3.0))


def fused(a, x, b, dtype):
    """a x + b rounded once to f32 or f64: by fractions where the 64 digits of EXACT do not decide."""
    product = EXACT(a) * x.astype(EXACT)
    total = product + EXACT(b)
    hair = (np.abs(product) + abs(EXACT(b))) * EXACT(2) ** -62
    hair = np.where(np.isfinite(hair) & (product != 0), hair, 0)  # 0 + b is b, and the sign of 0 + 0 is the sum's
    low, high = rounded(total - hair, dtype), rounded(total + hair, dtype)
    for k in zip(*np.nonzero((low != high) & ~np.isnan(low))):
        low[k] = nearest(fractions.Fraction(a) * fractions.Fraction(float(x[k])) + fractions.Fraction(b), dtype)
    return low.astype(np.float64)


def wrapped(a, x, b, dtype):
    """Modulo 2^64 first, then to the width, which gives the same bits for either sign."""
    a, b = (np.full(1, v % 2**64, np.uint64) for v in (a, b))
    whole = a * x.view(np.uint64) + b
    kind, width = dtype[0], int(dtype[1:])
    narrow = whole.astype(f"u{width // 8}").view(f"{kind}{width // 8}")
    return narrow.astype(np.uint64 if dtype == "u64" else np.int64)


def expected(x, a, b):
    """16-bit floats are rounded to f32 first, with a relative error far below their own."""
    values = np.atleast_1d(x.values)
    if not is_float(x.dtype):
        value = wrapped(a, np.ascontiguousarray(values), b, x.dtype)
        return {"y": Expected(value.reshape(x.shape))}
    a, b = (float(round_to(v, COMPUTE[x.dtype])) for v in (a, b))
    with np.errstate(all="ignore"):
        value = fused(a, values, b, COMPUTE[x.dtype])
        return {"y": Expected(value.reshape(x.shape), 0, np.abs(value).reshape(x.shape))}


def reference(problem):
    return expected(problem.arrays["x"], problem.scalars["a"], problem.scalars["b"])


def reference_inplace(problem):
    return expected(problem.arrays["y"], problem.scalars["scale"], problem.scalars["offset"])


def maker(row):
    """make(draw, extents, kind, **layouts); `pair` are the parameters, drawn if there are none."""
    a, b = ("scale", "offset") if "inplace" in row else ("a", "b")
    basic = strided_maker(row) if "strided" in row else flat_maker(row)

    def make(draw, extents, kind="normal", pair=None, **layouts):
        if pair is None:
            chosen = draw.rng.choice(PAIRS[:3]) if is_float(draw.dtype) else draw.integers((2,), "special").values
            pair = tuple(chosen.tolist())
        return basic(draw, extents, kind, **{a: pair[0], b: pair[1]}, **layouts)

    return make


def flat_problems(make):
    """Floats with each pair of parameters; the other problems draw their own."""

    def with_pair(draw, pair, numel=411, kind="normal"):
        return make(draw, numel, kind, pair if is_float(draw.dtype) else None)

    problems = {f"n{n}": lambda d, n=n: make(d, n) for n in SIZES}
    problems |= {f"pair{k}": lambda d, p=p: with_pair(d, p) for k, p in enumerate(PAIRS)}
    problems |= {
        f"{name}_{kind}": lambda d, p=p, kind=kind: with_pair(d, p, kind=kind)
        for kind in ("special", "wide")
        for name, p in {"normal": (0.7, -0.2), "ones": (-1.0, 1.0), "nan": (math.nan, 1.0), "inf": (math.inf, 1.0),
                        "opposite": (1.0, -math.inf), "tiny": (2.0**-20, 2.0**-140)}.items()
    }  # fmt: skip
    return problems


def without_arrays(problem):
    """Rank 0, whose host arrays may be NULL."""
    problem.host = dict.fromkeys(problem.host)
    return problem


def views_inplace(make):
    """strided_problems() for the single operand of an in-place op."""
    permuted = {"order": (2, 0, 1)}
    views = {
        "rank0": ((), {}),
        "ones": ((1, 1, 1), {"gap": 5}),
        "plain": ((3, 5, 7), {}),
        "rank8": ((2, 1, 3, 2, 1, 2, 2, 3), {"order": (3, 1, 0, 7, 5, 6, 2, 4)}),
        "permuted": ((3, 5, 7), permuted),
        "flipped": ((3, 5, 7), {"flip": (0, 1, 2)}),
        "gaps": ((13, 17), {"gap": 3, "pad": 4}),
        "rows": ((37, 65), {"pad": 3}),
        "long_rows": ((2, 20011), {"pad": 1}),
        "long_gaps": ((20011,), {"gap": 2}),
        "many": ((70, 11, 13), {"order": (1, 2, 0)}),
    }
    problems = {name: lambda d, s=s, k=k: make(d, s, y=k) for name, (s, k) in views.items()}
    return problems | {"mixed": lambda d: make(d, (5, 7, 11), "special", y={"order": (2, 0, 1), "pad": 1})}


def is_full(slots):
    return slots["T"] in ("f32", "bf16", "i32", "u8")


def flat_case(row, reference, **also):
    return Case(
        row=row, problems=flat_problems(maker(row)), reference=reference, tolerance={"y": "pointwise"}, full=is_full,
        plain="n33", large="n70001", brief=("n33", *(f"pair{k}" for k in range(0, len(PAIRS), 3)), "normal_special",
                                            "ones_wide"),
        bad=flat_bad(operands(row)[0]), idle=(Idle("numel_0", {"numel": 0}),), **also,
    )  # fmt: skip


def strided_case(row, problems, reference, **also):
    arrays, outputs, _ = operands(row)
    problems |= {"rank0_null": lambda d: without_arrays(maker(row)(d, ()))}
    return Case(
        row=row, problems=problems, reference=reference, tolerance={"y": "pointwise"}, full=is_full, plain="plain",
        large="many", brief=("mixed", "rank0_null"), bad=strided_bad(arrays, outputs), idle=strided_idle(arrays),
        **also,
    )  # fmt: skip


FLAT, STRIDED, INPLACE, INPLACE_STRIDED = ROWS
CASES = (
    flat_case(FLAT, reference),
    strided_case(STRIDED, strided_problems(maker(STRIDED), ("x",), ("y",)), reference),
    flat_case(INPLACE, reference_inplace),
    strided_case(INPLACE_STRIDED, views_inplace(maker(INPLACE_STRIDED)), reference_inplace),
)
