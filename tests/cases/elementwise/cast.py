# SPDX-License-Identifier: Apache-2.0
"""Casts between all storage formats, by lengths and layouts. test_casts.py has every value of the short formats."""

import numpy as np

from tools.oracle import casts
from tools.oracle.numerics import PACKED, decode, encode

from ..model import Bad, Case, Expected, Idle
from .common import EVEN_SIZES, SIZES, flat_bad, flat_maker, strided_calls, strided_maker, strided_problems

FLAT, STRIDED = "cast_{T}_{U}", "cast_{T}_{U}_strided"
UNPACK, PACK, REPACK = (f"cast_{{T}}_{{U}} {what}" for what in ("unpack", "pack", "repack"))


def reference(problem):
    x, y = problem.arrays["x"], problem.arrays["y"]
    bits = np.ascontiguousarray(encode(x.values, x.dtype)).reshape(-1)
    if x.dtype in PACKED:
        bits = casts.packed_pairs(bits)
        made = (casts.repack if y.dtype in PACKED else casts.unpack)(bits, x.dtype, y.dtype)
    else:
        made = (casts.pack if y.dtype in PACKED else casts.cast)(bits, x.dtype, y.dtype)
    if y.dtype in PACKED:
        made = casts.nibbles(made)
    return {"y": Expected(decode(made, y.dtype).reshape(y.shape))}


def flat_problems(row, sizes):
    make = flat_maker(row)
    problems = {f"n{n}": lambda d, n=n: make(d, n) for n in sizes}
    return problems | {kind: lambda d, kind=kind: make(d, 500, kind) for kind in ("special", "wide")}


# casts between elements of one size, to wider and to narrower ones
FULL = {("f32", "bf16"), ("f16", "f32"), ("i64", "u8"), ("bool", "i16")}


def packed_case(row, full):
    return Case(
        row=row, problems=flat_problems(row, EVEN_SIZES), reference=reference, tolerance={"y": "exact"}, plain="n34",
        large="n70002", idle=(Idle("numel_0", {"numel": 0}),), brief=("n62",),
        bad=(
            *flat_bad(("x", "y")),
            Bad("odd_numel", 2, r"numel is 33\b", {"numel": 33}, can=2),
            Bad("one_element", 2, r"numel is 1\b", {"numel": 1}, can=2),
        ),
        full=lambda slots: (slots["T"], slots["U"]) in full,
    )  # fmt: skip


CASES = (
    Case(
        row=FLAT, problems=flat_problems(FLAT, SIZES), reference=reference, tolerance={"y": "exact"}, plain="n33",
        large="n70001", bad=flat_bad(("x", "y")), idle=(Idle("numel_0", {"numel": 0}),), brief=("n255",),
        full=lambda slots: (slots["T"], slots["U"]) in FULL,
    ),
    Case(
        row=STRIDED, problems=strided_problems(strided_maker(STRIDED), ("x",), ("y",)), reference=reference,
        tolerance={"y": "exact"}, full=lambda slots: (slots["T"], slots["U"]) in FULL, **strided_calls(STRIDED),
    ),
    packed_case(UNPACK, {("s4", "f32"), ("u4", "i8"), ("s4", "i64")}),
    packed_case(PACK, {("f32", "s4"), ("u8", "u4"), ("f64", "u4")}),
    packed_case(REPACK, {("s4", "u4")}),
)  # fmt: skip
