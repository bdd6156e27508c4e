# SPDX-License-Identifier: Apache-2.0
"""Blocks of codes of a code book of 16 values, or of a map of 256, with a scale each."""

import numpy as np

from harness.launch import ROWS
from tools.oracle.code_books import BOOKS
from tools.oracle.numerics import bits_type, decode, encode, round_to

from ..model import Bad, Case, Expected, Idle, Problem
from .floats import bytes_of, choices, negative, pointers

F32 = np.float32


def blocks_padded(x, block):
    padded = np.zeros(-(-x.size // block) * block)
    padded[: x.size] = x
    return padded.reshape(-1, block)


def scaled_blocks(x, block):
    """(values in [-1, 1], largest magnitudes) by f32 arithmetic; blocks that are not finite are zeros."""
    rows = blocks_padded(x, block)
    with np.errstate(all="ignore"):
        largest = np.abs(rows).max(1)
        largest = np.where(np.isfinite(largest), largest, np.nan)
        usable = np.isfinite(largest) & (largest > 0)
        factor = np.where(usable, F32(1) / np.where(usable, largest, 1).astype(F32), F32(0)).astype(F32)
        scaled = rows.astype(F32) * factor[:, None]
        scaled = np.where(np.isnan(scaled), 0, np.clip(scaled, -1, 1)).astype(np.float64)
    return scaled.reshape(-1)[: x.size], largest


def nearest(table, x):
    """Index of the nearest value of an ascending table; ties to the lower one."""
    distance = np.abs(x[:, None] - table[None, :])
    return distance.argmin(1)


def four_bit_codes(book, x):
    table = BOOKS[book]
    if book == 0:
        return nearest(table, x)
    order = np.argsort(table[:8], kind="stable")
    return order[nearest(table[:8][order], np.abs(x))] + 8 * (x < 0)


def quantize_4bit(draw, numel, block, book=0, kind="normal"):
    x = draw.floats((numel,), kind)
    arrays = {
        "x": x, "codes": draw.output((-(-numel // 2),), dtype="u8"),
        "absmax": draw.output((-(-numel // block),), dtype="f32"),
    }  # fmt: skip
    return Problem({"numel": numel, "block_size": block, "book": book}, arrays)


def book_boundaries(draw, book):
    """Blocks of 2: 1, and a value at a midpoint of the book or beside it."""
    table = np.unique(BOOKS[book])
    middle = (table[1:] + table[:-1]) / 2
    near = round_to(np.concatenate([middle, table, [0.0, -1e-30, 1e-30]]), draw.dtype)
    bits = encode(near, draw.dtype).astype(np.int64)
    width = 32 if draw.dtype == "f32" else 16
    near = decode((np.concatenate([bits, bits + 1, bits - 1]) % (1 << width)).astype(bits_type(draw.dtype)), draw.dtype)
    near = near[np.abs(near) <= 1]
    x = np.stack([np.ones(near.size), near], 1).reshape(-1)
    problem = quantize_4bit(draw, x.size, 2, book)
    problem.arrays["x"] = draw.array(x)
    return problem


def four_bit_quantized(p):
    scaled, largest = scaled_blocks(p.arrays["x"].values, p.scalars["block_size"])
    codes = four_bit_codes(p.scalars["book"], scaled)
    if codes.size % 2:
        codes = np.append(codes, 0)
    return {"codes": Expected(codes[::2] << 4 | codes[1::2]), "absmax": Expected(largest)}


def maxima(draw, numel, block, nested):
    blocks = -(-numel // block)
    outer = -(-blocks // 256)
    arrays = {
        "absmax": draw.floats((blocks,), "positive", dtype="f32"), "absmax_codes": bytes_of(draw, (blocks,)),
        "absmax_map": draw.array(np.sort(round_to(draw.rng.uniform(-1, 1, 256), "f32")), "f32"),
        "absmax_outer": draw.floats((outer,), "positive", dtype="f32"),
        "absmax_offset": draw.floats((1,), "positive", dtype="f32"),
    }  # fmt: skip
    flat = ("absmax_codes", "absmax_map", "absmax_outer", "absmax_offset")
    null = () if nested == "both" else ("absmax",) if nested else flat
    return arrays, null


def maxima_of(p):
    """Block maxima in f32."""
    if "absmax_codes" in p.null:
        return p.arrays["absmax"].values
    outer = np.repeat(p.arrays["absmax_outer"].values, 256)[: p.arrays["absmax_codes"].shape[0]].astype(F32)
    mapped = p.arrays["absmax_map"].values.astype(F32)[p.arrays["absmax_codes"].values]
    return (mapped * outer + p.arrays["absmax_offset"].values.astype(F32)).astype(np.float64)


def four_bit_values(p, numel):
    packed = p.arrays["codes"].values
    codes = np.stack([packed >> 4, packed & 15], 1).reshape(-1)[:numel]
    with np.errstate(over="ignore", invalid="ignore"):
        largest = np.repeat(maxima_of(p), p.scalars["block_size"])[:numel].astype(F32)
        return (BOOKS[p.scalars["book"]][codes].astype(F32) * largest).astype(np.float64)


def dequantize_4bit(draw, numel, block, book=0, nested=False):
    arrays, null = maxima(draw, numel, block, nested)
    arrays |= {"codes": bytes_of(draw, (-(-numel // 2),)), "y": draw.output((numel,))}
    return Problem({"numel": numel, "block_size": block, "book": book}, arrays, null=null)


def gemv_4bit(draw, m, n, k, block, book=0, nested=False, bias=True, kind="normal"):
    arrays, null = maxima(draw, n * k, block, nested)
    arrays |= {
        "x": draw.floats((m, k), kind), "codes": bytes_of(draw, (-(-n * k // 2),)), "bias": draw.floats((n,)),
        "y": draw.output((m, n)),
    }  # fmt: skip
    scalars = {"m": m, "n": n, "k": k, "block_size": block, "book": book}
    return Problem(scalars, arrays, null=null if bias else (*null, "bias"))


def four_bit_products(p):
    n, k = p.scalars["n"], p.scalars["k"]
    w, x = four_bit_values(p, n * k).reshape(n, k), p.arrays["x"].values
    bias = 0 if "bias" in p.null else p.arrays["bias"].values
    with np.errstate(invalid="ignore"):
        magnitude = np.abs(x) @ np.abs(w).T + np.abs(bias)
        value = x @ w.T + bias
        return {"y": Expected(value, count=k + 3, magnitude=np.where(np.isnan(magnitude), 0, magnitude))}


def ascending_map(draw):
    return draw.array(np.sort(round_to(np.append(draw.rng.uniform(-1, 1, 253), [-1, 0, 1]), "f32")), "f32")


def quantize_8bit(draw, numel, block, kind="normal", offset=False):
    arrays = {
        "x": draw.floats((numel,), kind), "map": ascending_map(draw),
        "offset": draw.floats((1,), "normal", dtype="f32"), "codes": draw.output((numel,), dtype="u8"),
        "absmax": draw.output((-(-numel // block),), dtype="f32"),
    }  # fmt: skip
    return Problem({"numel": numel, "block_size": block}, arrays, null=() if offset else ("offset",))


def eight_bit_quantized(p):
    x = p.arrays["x"].values
    with np.errstate(invalid="ignore", over="ignore"):
        if "offset" not in p.null:
            x = (x.astype(F32) - p.arrays["offset"].values.astype(F32)).astype(np.float64)
        scaled, largest = scaled_blocks(x, p.scalars["block_size"])
        table = p.arrays["map"].values
        above = np.clip(np.searchsorted(table, scaled, "right"), 1, 255)
        low = (scaled.astype(F32) - table[above - 1].astype(F32)).astype(F32)
        high = (table[above].astype(F32) - scaled.astype(F32)).astype(F32)
    return {"codes": Expected(np.where(high < low, above, above - 1)), "absmax": Expected(largest)}


def dequantize_8bit(draw, numel, block, offset=False):
    arrays = {
        "codes": bytes_of(draw, (numel,)), "absmax": draw.floats((-(-numel // block),), "positive", dtype="f32"),
        "map": ascending_map(draw), "offset": draw.floats((1,), "normal", dtype="f32"), "y": draw.output((numel,)),
    }  # fmt: skip
    return Problem({"numel": numel, "block_size": block}, arrays, null=() if offset else ("offset",))


def eight_bit_values(p):
    codes = p.arrays["codes"].values
    largest = np.repeat(p.arrays["absmax"].values, p.scalars["block_size"])[: codes.size].astype(F32)
    value = p.arrays["map"].values.astype(F32)[codes] * largest
    if "offset" not in p.null:
        value = value + p.arrays["offset"].values.astype(F32)
    return {"y": Expected(value.astype(np.float64))}


MAXIMA = ("absmax", "absmax_codes", "absmax_map", "absmax_outer", "absmax_offset")
SIZES = {
    "plain": (100, 32), "one": (1, 2), "odd": (77, 16), "blocks": (1024, 256), "long_blocks": (9001, 4096),
    "threads": (5000, 64), "teams": (1500, 66), "tiny": (3001, 2),
}  # fmt: skip


def block_cases():
    block = (
        Bad("odd_block", 2, "block_size is 3, must be even and > 0", {"block_size": 3}, can=2),
        Bad("no_block", 2, "block_size is 0, must be even and > 0", {"block_size": 0}, can=2),
    )
    maxima_bad = (
        Bad("no_maxima", 2, "absmax is NULL, and so is absmax_codes", null=MAXIMA),
        *(Bad(f"no_{name}", 2, f"{name} is NULL, but absmax_codes is not", null=(name,), of="nested")
          for name in ("absmax_map", "absmax_outer", "absmax_offset")),
    )  # fmt: skip
    empty = (Idle("empty", {"numel": 0}),)
    row = ROWS["quantize_4bit_{T}"]
    problems = {name: lambda d, s=s: quantize_4bit(d, *s) for name, s in SIZES.items()}
    problems |= {f"fp4_{name}": lambda d, s=s: quantize_4bit(d, *s, 1) for name, s in SIZES.items()}
    for name in ("special", "wide"):
        problems[name] = lambda d, k=name: quantize_4bit(d, 4000, 16, 0, k)
        problems[f"fp4_{name}"] = lambda d, k=name: quantize_4bit(d, 4000, 128, 1, k)
    for book in (0, 1):
        problems[f"boundaries{book}"] = lambda d, b=book: book_boundaries(d, b)
    problems["large"] = lambda d: quantize_4bit(d, 60_000, 64)
    yield Case(
        row=row.name, problems=problems, reference=four_bit_quantized, plain="plain", large="large", idle=empty,
        tolerance={"codes": "exact", "absmax": "exact"},
        bad=(*negative("numel"), *block, *choices("book", 2), *pointers(row)),
    )  # fmt: skip
    row = ROWS["dequantize_4bit_{T}"]
    problems = {"flat" if name == "plain" else name: lambda d, s=s: dequantize_4bit(d, *s) for name, s in SIZES.items()}
    problems |= {
        "plain": lambda d: dequantize_4bit(d, 100, 4, 0, "both"),
        "nested": lambda d: dequantize_4bit(d, 20_000, 16, 0, True), "fp4": lambda d: dequantize_4bit(d, 777, 32, 1),
        "large": lambda d: dequantize_4bit(d, 60_000, 64),
    }  # fmt: skip
    yield Case(
        row=row.name, problems=problems, reference=lambda p: {"y": Expected(four_bit_values(p, p.scalars["numel"]))},
        plain="plain", large="large", idle=empty, tolerance={"y": "exact"},
        bad=(*negative("numel"), *block, *choices("book", 2), *maxima_bad, *pointers(row)),
    )  # fmt: skip
    row = ROWS["gemv_4bit_{T}"]
    problems = {
        "plain": lambda d: gemv_4bit(d, 3, 7, 64, 32, 0, "both"), "flat": lambda d: gemv_4bit(d, 3, 7, 64, 32),
        "one": lambda d: gemv_4bit(d, 1, 1, 1, 2),
        "nested": lambda d: gemv_4bit(d, 2, 9, 128, 16, 0, True), "fp4": lambda d: gemv_4bit(d, 5, 6, 96, 32, 1),
        "odd_k": lambda d: gemv_4bit(d, 2, 11, 77, 16), "across_rows": lambda d: gemv_4bit(d, 4, 10, 24, 64),
        "eight": lambda d: gemv_4bit(d, 8, 16, 256, 64), "many": lambda d: gemv_4bit(d, 19, 12, 160, 32),
        "no_bias": lambda d: gemv_4bit(d, 1, 33, 512, 64, bias=False), "no_k": lambda d: gemv_4bit(d, 2, 3, 0, 4),
        "special": lambda d: gemv_4bit(d, 3, 7, 64, 32, kind="special"),
        "few": lambda d: gemv_4bit(d, 3, 35, 320, 64), "few_fp4": lambda d: gemv_4bit(d, 9, 20, 192, 128, 1),
        "few_nested": lambda d: gemv_4bit(d, 1, 50, 1088, 64, 0, True),
        "few_and_one": lambda d: gemv_4bit(d, 33, 17, 192, 256),
        "few_special": lambda d: gemv_4bit(d, 2, 9, 128, 64, kind="special"),
        "large": lambda d: gemv_4bit(d, 4, 130, 1024, 64),
    }  # fmt: skip
    yield Case(
        row=row.name, problems=problems, reference=four_bit_products, plain="plain", large="large",
        idle=(Idle("no_rows", {"m": 0}), Idle("no_results", {"n": 0})), tolerance={"y": "gemm"},
        bad=(*negative("m", "n", "k"), *block, *choices("book", 2), *maxima_bad, *pointers(row)),
    )  # fmt: skip
    row = ROWS["quantize_8bit_blocks_{T}"]
    problems = {name: lambda d, s=s, k=name: quantize_8bit(d, *s, offset=k == "plain") for name, s in SIZES.items()}
    problems |= {
        "special": lambda d: quantize_8bit(d, 4000, 16, "special"),
        "wide": lambda d: quantize_8bit(d, 4000, 128, "wide"),
        "offset": lambda d: quantize_8bit(d, 700, 256, offset=True), "large": lambda d: quantize_8bit(d, 60_000, 256),
    }  # fmt: skip
    yield Case(
        row=row.name, problems=problems, reference=eight_bit_quantized, plain="plain", large="large", idle=empty,
        tolerance={"codes": "exact", "absmax": "exact"}, bad=(*negative("numel"), *block, *pointers(row)),
    )  # fmt: skip
    row = ROWS["dequantize_8bit_blocks_{T}"]
    problems = {name: lambda d, s=s, k=name: dequantize_8bit(d, *s, k == "plain") for name, s in SIZES.items()}
    problems |= {
        "offset": lambda d: dequantize_8bit(d, 700, 256, True), "large": lambda d: dequantize_8bit(d, 60_000, 256)
    }  # fmt: skip
    yield Case(
        row=row.name, problems=problems, reference=eight_bit_values, plain="plain", large="large", idle=empty,
        tolerance={"y": "exact"}, bad=(*negative("numel"), *block, *pointers(row)),
    )  # fmt: skip


CASES = (*block_cases(),)
