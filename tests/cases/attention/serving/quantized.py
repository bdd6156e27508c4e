# SPDX-License-Identifier: Apache-2.0
"""Caches of 8-bit elements with a factor for each token and head: attention over them, and appending to them."""

import dataclasses

import numpy as np

from tools.oracle.numerics import round_to

from ...model import Bad, Case, Expected, Idle, Problem
from .pages import (
    APPEND_EXTENTS,
    APPEND_POINTERS,
    CAP,
    HEADS,
    OF_BYTES,
    PAGED_EXTENTS,
    PAGED_POINTERS,
    TOLERANCE,
    append,
    append_reference,
    paged,
    paged_reference,
    pointer_bad,
)

MOST = {"i8": 127.0, "fp8e4m3": 448.0, "fp8e5m2": 57344.0}
SCALES = ("k_scales", "v_scales")


def attention(draw, kind, **options):
    """Unused slots have NaN in their factors, and in floats."""
    problem = paged(draw, **options)
    arrays = dict(problem.arrays)
    for x in "kv":
        cache = arrays[f"{x}_cache"].values
        is_used = np.isfinite(cache).all(-1)
        if kind == "i8":
            stored = np.where(is_used[..., None], np.rint(np.clip(np.nan_to_num(cache) * 40, -127, 127)), -128)
        else:
            stored = round_to(cache * (MOST[kind] / 8), kind)
        arrays[f"{x}_cache"] = draw.array(stored, kind)
        scales = draw.rng.uniform(0.005, 0.05, is_used.shape) * (127 / MOST[kind])
        arrays[f"{x}_scales"] = draw.array(np.where(is_used, scales, np.nan), "f32")
    order = ("q", "k_cache", "v_cache", *SCALES, "page_ids", "page_offsets", "last_page_len", "q_offsets", "y", "lse")
    return Problem(problem.scalars, {name: arrays[name] for name in order}, null=problem.null)


def attention_reference(problem):
    arrays = dict(problem.arrays)
    for x in "kv":
        cache, scales = arrays[f"{x}_cache"], arrays.pop(f"{x}_scales")
        values = np.asarray(cache.values, np.float64) * np.asarray(scales.values, np.float64)[..., None]
        arrays[f"{x}_cache"] = dataclasses.replace(cache, values=values)
    return paged_reference(Problem(problem.scalars, arrays, null=problem.null))


ATTENTION = {
    "small": {"queries": (3, 2, 0, 4)},
    "decode": {"lengths": (33, 0, 70, 1), "heads": (8, 2), "d": (64, 64), "page_size": 16},
    "one": {"lengths": (1,), "heads": (1, 1), "d": (8, 8), "page_size": 1},
    "pages_of_1": {"page_size": 1, "heads": (5, 1)},
    "group_16": {"heads": (16, 1), "d": (128, 128), "lengths": (17, 250)},
    "wide": {"d": (256, 256), "heads": (2, 2), "page_size": 16},
    "wider": {"d": (300, 260), "heads": (4, 1)},
    "odd_features": {"d": (37, 21)},
    "no_keys": {"lengths": (0, 0)},
    "no_lse": {"null": ("lse",)},
    "causal": {"queries": (9, 0, 7, 3), "is_causal": 1, "heads": (4, 2), "page_size": 16},
    "softcap": {"queries": (9, 2, 7, 1), "softcap": 0.5, "window": 3, "is_base2": 1},
    "large": {"lengths": (300, 129, 0, 64, 65, 1, 17), "heads": (10, 2), "d": (64, 64), "page_size": 16},
}


def appended(draw, *arguments, **options):
    problem = append(draw, *arguments, **options)
    arrays, kind = dict(problem.arrays), draw.slots["U"]
    for x in "kv":
        cache = arrays.pop(f"{x}_cache").values
        arrays[f"{x}_cache"] = draw.array(draw.rng.integers(-8, 9, cache.shape).astype(np.float64), kind)
    for x in "kv":
        arrays[f"{x}_scales"] = draw.array(draw.rng.uniform(0.5, 2, arrays[f"{x}_cache"].values.shape[:3]), "f32")
    return Problem(problem.scalars, arrays)


def quantized(rows, kind):
    """The factors of rows, in f32, and their elements: x / scale rounded once to f32 and once to the dtype."""
    rows = np.asarray(rows, np.float32)
    with np.errstate(all="ignore"):
        largest = np.abs(rows).max(-1, initial=0)
        largest = np.where(np.isnan(largest), np.inf, largest)
        scales = (largest / np.float32(MOST[kind])).astype(np.float32)
        ratio = np.where(scales[..., None] == 0, 0, rows / scales[..., None]).astype(np.float32)
        ratio = np.where(np.isnan(ratio), ratio, np.clip(ratio, -MOST[kind], MOST[kind]))
        whole = np.nan_to_num(np.rint(ratio) if kind == "i8" else ratio)
        elements = whole if kind == "i8" else np.where(np.isnan(ratio), np.nan, round_to(whole, kind))
    return scales, elements


def appended_reference(problem):
    """Rows are quantised, then go where whole ones would."""
    arrays, found = dict(problem.arrays), {}
    kind = problem.arrays["k_cache"].dtype
    factors = {}
    for x in "kv":
        scales, elements = quantized(arrays[f"{x}_new"].values, kind)
        arrays[f"{x}_new"] = dataclasses.replace(arrays[f"{x}_new"], values=elements)
        factors |= {f"{x}_new": scales[..., None], f"{x}_cache": arrays[f"{x}_scales"].values[..., None]}
    found |= append_reference(Problem(problem.scalars, arrays))
    replaced = {
        name: dataclasses.replace(arrays[name], values=values) for name, values in factors.items()
    }  # one factor is a row of one element
    moved = append_reference(Problem(problem.scalars, {**arrays, **replaced}))
    return found | {f"{x}_scales": Expected(moved[f"{x}_cache"].value[..., 0]) for x in "kv"}


def attention_case(kind):
    return Case(
        row=f"attention_paged_quantized_{{T}}_{kind}",
        problems={name: lambda d, o=options: attention(d, kind, **o) for name, options in ATTENTION.items()},
        reference=attention_reference, tolerance=TOLERANCE, plain="small", large="large",
        bad=(
            *(Bad(f"negative_{e}", 2, rf"{e} is -3", {e: -3}, can=2) for e in PAGED_EXTENTS),
            HEADS, *CAP, *pointer_bad((*PAGED_POINTERS, *SCALES), ("q_offsets", "lse"), OF_BYTES),
            Bad("rows_without_offsets", 2, r"q_offsets is NULL, but total_q, 9, is not batch, 4", null=("q_offsets",)),
        ),
        idle=(Idle("no_batch", {"batch": 0, "total_q": 0}), Idle("no_heads", {"heads": 0, "kv_heads": 0})),
    )  # fmt: skip


CASES = (
    *map(attention_case, MOST),
    Case(
        row="paged_kv_append_quantized_{T}_{U}",
        problems={
            "small": appended,
            "one": lambda d: appended(d, (1,), 1, (1, 1), 1, 1),
            "wide": lambda d: appended(d, (40, 3, 0, 17), 2, (64, 128), 16, 30),
            "keys": lambda d: appended(d, d=(8, 0)),
            "wild": lambda d: appended(d, (90, 0, 4), 2, (16, 16), 4, 60, wild=True),
            "large": lambda d: appended(d, (300, 200), 4, (64, 64), 16, 450),
        },
        reference=appended_reference, tolerance=dict.fromkeys(("k_cache", "v_cache", *SCALES), "exact"),
        plain="small", large="large",
        bad=(
            *(Bad(f"negative_{e}", 2, rf"{e} is -3", {e: -3}, can=2) for e in APPEND_EXTENTS),
            Bad("no_page_size", 2, r"page_size is 0, must be > 0", {"page_size": 0}, can=2),
            *pointer_bad((*APPEND_POINTERS, *SCALES), (), OF_BYTES),
        ),
        idle=tuple(Idle(f"no_{e}", {e: 0}) for e in ("num_tokens", "num_pages", "heads")),
    ),
)  # fmt: skip
