# SPDX-License-Identifier: Apache-2.0
"""fill with a value, or with the bits of one."""

import dataclasses

import numpy as np

from tools.oracle.numerics import decode, encode, is_float

from ..model import Case, Expected, Idle
from .common import SIZES, flat_bad, flat_maker, strided_bad, strided_idle, strided_maker

BYTES_OR_BITS = ("f16", "bf16", "bool", "fp8e4m3", "fp8e5m2")  # values are passed as bits
# special values; NaN where there is one
EXTREMES = {"largest": np.nanmax, "least": np.nanmin, "nan": lambda values: values[np.argmax(np.isnan(values))]}


def value_of(draw, kind):
    """A random value, or one of EXTREMES."""
    if draw.dtype == "c32":
        return int(draw.values((1,), "normal" if kind == "normal" else "special").bits()[0])
    value = draw.values((1,)).values[0] if kind == "normal" else EXTREMES[kind](draw.values((2000,), "special").values)
    if draw.dtype in BYTES_OR_BITS:
        return int(encode(value, draw.dtype))
    return float(value) if is_float(draw.dtype) else int(value)


def flat(draw, numel, kind="normal"):
    return flat_maker("fill_{T}")(draw, numel, value=value_of(draw, kind))


def strided(draw, shape, kind="normal", **layouts):
    return strided_maker("fill_{T}_strided")(draw, shape, value=value_of(draw, kind), **layouts)


def without_arrays(problem):
    """Rank 0, whose host arrays may be NULL."""
    problem.host = dict.fromkeys(problem.host)
    return problem


def reference(problem):
    y = problem.arrays["y"]
    value = np.asarray(problem.scalars["value"])
    if y.dtype in BYTES_OR_BITS:
        value = decode(value.astype(np.uint16 if y.dtype in ("f16", "bf16") else np.uint8), y.dtype)
    elif y.dtype == "u64":
        value = value.astype(np.uint64)
    return {"y": Expected(np.full(y.shape, value))}


VIEWS = {  # shape, layout of y
    "rank0": ((), {}),
    "ones": ((1, 1, 1), {"gap": 5}),
    "plain": ((3, 5, 7), {}),
    "rank8": ((2, 1, 3, 2, 1, 2, 2, 3), {"order": (3, 1, 0, 7, 5, 6, 2, 4)}),
    "permuted": ((3, 5, 7), {"order": (2, 0, 1)}),
    "flipped": ((3, 5, 7), {"flip": (0, 1, 2)}),
    "flipped_rows": ((13, 64), {"flip": (0,)}),
    "gaps": ((13, 17), {"gap": 3, "pad": 4}),
    "rows": ((37, 65), {"pad": 3}),
    "long_rows": ((2, 20011), {"pad": 1}),
    "long_gaps": ((20011,), {"gap": 2}),
    "columns": ((9, 3001), {"order": (1, 0), "pad": 1}),
    "many": ((70, 11, 13), {"order": (1, 2, 0)}),
}


def is_full(slots):
    return slots["T"] in ("f32", "bf16", "u8")


# can_implement gets numel and rank only
SEEN = ("negative", "bytes_overflow", "rank_negative", "rank_9", "empty_rank_9")

CASES = (
    Case(
        row="fill_{T}",
        problems={f"n{n}": lambda d, n=n: flat(d, n) for n in SIZES}
        | {kind: lambda d, kind=kind: flat(d, 41, kind) for kind in EXTREMES},
        reference=reference, tolerance={"y": "exact"}, plain="n33", large="n70001", bad=flat_bad(("y",)),
        idle=(Idle("numel_0", {"numel": 0}),), brief=("n255", *EXTREMES), full=is_full,
    ),
    Case(
        row="fill_{T}_strided",
        problems={name: lambda d, s=s, k=k: strided(d, s, y=k) for name, (s, k) in VIEWS.items()}
        | {kind: lambda d, kind=kind: strided(d, (5, 9), kind, y={"pad": 2}) for kind in EXTREMES}
        | {"rank0_null": lambda d: without_arrays(strided(d, ()))},
        reference=reference, tolerance={"y": "exact"}, plain="plain", large="many",
        bad=tuple(
            dataclasses.replace(b, can=2 if b.name in SEEN else 0) for b in strided_bad(("y",), ("y",))
        ),
        idle=strided_idle(("y",)), brief=("permuted", "gaps", "nan"), full=is_full,
    ),
)  # fmt: skip
