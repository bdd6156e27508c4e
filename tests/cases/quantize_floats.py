# SPDX-License-Identifier: Apache-2.0
"""Narrow floats, MX and NVFP4 blocks, blocks of four and eight bits, and fp8 with f32 scales."""

import numpy as np

from harness.launch import ROWS
from tools.oracle import low_floats
from tools.oracle.code_books import BOOKS
from tools.oracle.numerics import encode, round_to

from .model import Array, Bad, Case, Expected, Idle, Problem

F32 = np.float32


def bytes_of(draw, shape, high=256):
    return Array("u8", shape, draw.rng.integers(0, high, shape))


def pointers(row):
    """Calls without a required pointer, and with a misaligned one."""
    nulls = [Bad(f"null_{p.name}", 2, rf"{p.name} is NULL", null=(p.name,)) for p in row.pointers if p.is_required]
    wide = [
        p for p in row.pointers if p.dtype not in ("u8",) and not row.slots.get(p.dtype, ("",))[0].startswith("fp8")
    ]
    wide = [p for p in wide if row.slots.get(p.dtype) != ("u8",)]
    return (*nulls, *(Bad(f"odd_{p.name}", 1, rf"{p.name} is 0x", shift={p.name: 1}) for p in wide))


def negative(*names):
    return tuple(Bad(f"negative_{e}", 2, rf"{e} is -4", {e: -4}, can=2) for e in names)


def choices(name, count):
    return tuple(
        Bad(f"{name}_{v}", 2, rf"{name} is {v}, must be 0 to {count - 1}", {name: v}, can=2) for v in (-1, count)
    )


# --- narrow floats ---


def boundaries(form, dtype):
    """Midpoints of neighbouring values, their neighbours in the dtype, and the values themselves."""
    table = low_floats.values(low_floats.NAMES[form])
    table = np.unique(table[np.isfinite(table)])
    middle = (table[1:] + table[:-1]) / 2
    found = np.concatenate([table, middle, [table[-1] * 1.0625, table[-1] * 1.5, np.inf, np.nan, 0.0]])
    found = np.concatenate([found, -found])
    found = round_to(found, dtype)
    bits = encode(found, dtype).astype(np.int64)
    width = {"f32": 32}.get(dtype, 16)
    near = np.concatenate([bits, bits + 1, bits - 1]) % (1 << width)
    from tools.oracle.numerics import bits_type, decode

    return decode(near.astype(bits_type(dtype)), dtype)


def encode_floats(draw, form, numel=None, kind="normal"):
    x = draw.array(boundaries(form, draw.dtype)) if numel is None else draw.floats((numel,), kind)
    arrays = {"x": x, "codes": draw.output(x.shape, dtype="u8")}
    return Problem({"numel": x.shape[0], "float_format": form}, arrays)


def encoded(p):
    name = low_floats.NAMES[p.scalars["float_format"]]
    return {"codes": Expected(low_floats.encode(name, p.arrays["x"].values))}


def decode_floats(draw, form, numel=None):
    codes = Array("u8", (256,), np.arange(256)) if numel is None else bytes_of(draw, (numel,))
    return Problem({"numel": codes.shape[0], "float_format": form}, {"codes": codes, "y": draw.output(codes.shape)})


def decoded(p):
    table = low_floats.values(low_floats.NAMES[p.scalars["float_format"]])
    return {"y": Expected(table[p.arrays["codes"].values % len(table)])}


def narrow_cases():
    forms = {name: form for form, name in enumerate(low_floats.NAMES)}
    row = ROWS["encode_floats_{T}"]
    yield Case(
        row=row.name, reference=encoded, tolerance={"codes": "exact"}, plain="plain", large="large",
        problems={
            "plain": lambda d: encode_floats(d, 3, 37), "one": lambda d: encode_floats(d, 0, 1),
            "large": lambda d: encode_floats(d, 3, 40_000),
            **{name: lambda d, f=form: encode_floats(d, f) for name, form in forms.items()},
            **{f"wide_{name}": lambda d, f=form: encode_floats(d, f, 500, "wide") for name, form in forms.items()},
        },
        bad=(*negative("numel"), *choices("float_format", 8), *pointers(row)), idle=(Idle("empty", {"numel": 0}),),
    )  # fmt: skip
    row = ROWS["decode_floats_{T}"]
    yield Case(
        row=row.name, reference=decoded, tolerance={"y": "exact"}, plain="plain", large="large",
        problems={
            "plain": lambda d: decode_floats(d, 3, 37), "one": lambda d: decode_floats(d, 0, 1),
            "large": lambda d: decode_floats(d, 3, 40_000),
            **{name: lambda d, f=form: decode_floats(d, f) for name, form in forms.items()},
        },
        bad=(*negative("numel"), *choices("float_format", 8), *pointers(row)), idle=(Idle("empty", {"numel": 0}),),
    )  # fmt: skip


# --- MX and NVFP4 ---


def mx_shapes(rows, n, form, layout):
    block, bits = low_floats.MX[form][1], low_floats.mx_bits(form)
    scales = (rows, n // block) if layout == 0 else (-(-rows // 128) * 128, -(-(n // block) // 4) * 4)
    return (rows, n * bits // 8), scales


def blocks_of(draw, rows, n, kind):
    """Rows of normal numbers, whose blocks have several magnitudes, zeros and what is not finite among them."""
    x = draw.floats((rows, n), kind if kind in ("special", "wide") else "normal").values.copy()
    if kind == "blocks":
        span = 6 if draw.dtype == "f16" else 60
        x *= np.ldexp(1.0, np.repeat(draw.rng.integers(-span, span, (rows, n // 16)), 16, 1))
        x[draw.rng.random((rows, n)) < 0.1] = 0
        x[0, : n // 2] = 0
    return draw.array(round_to(x, draw.dtype))


def quantize_mx(draw, rows, n, form, rule=0, layout=0, kind="blocks", scale=None):
    codes, scales = mx_shapes(rows, n, form, layout)
    arrays = {
        "x": blocks_of(draw, rows, n, kind),
        "tensor_scale": draw.array(round_to(np.array([1.0 if scale is None else scale]), "f32"), "f32"),
        "codes": draw.output(codes, dtype="u8"), "scales": draw.output(scales, dtype="u8"),
    }  # fmt: skip
    scalars = {"rows": rows, "n": n, "mx_format": form, "scale_rule": rule, "scale_layout": layout}
    return Problem(scalars, arrays, null=("tensor_scale",) if scale is None else ())


def scale_of(p):
    return 1.0 if "tensor_scale" in p.null else float(p.arrays["tensor_scale"].values[0])


def mx_quantized(p):
    form = p.scalars["mx_format"]
    codes, scales = low_floats.quantize_mx(p.arrays["x"].values, form, p.scalars["scale_rule"], scale_of(p))
    if p.scalars["scale_layout"]:
        scales = low_floats.swizzled(scales)
    return {"codes": Expected(low_floats.pack(codes, low_floats.mx_bits(form))), "scales": Expected(scales)}


def rule_boundaries(draw, form, rule):
    """Blocks whose largest magnitude is at a boundary of the scale rules."""
    element, block = low_floats.MX[form]
    table = low_floats.values(element)
    table = np.unique(np.abs(table[np.isfinite(table)]))
    largest = np.concatenate([table, (table[1:] + table[:-1]) / 2, [1.75, 1.5, 1.875, 1.9375, 1.9921875, 2.0, 3.5]])
    largest = round_to(largest, draw.dtype)
    bits = encode(largest, draw.dtype).astype(np.int64)
    near = np.unique(np.concatenate([bits, bits + 1, np.maximum(bits - 1, 0)]))
    from tools.oracle.numerics import bits_type, decode

    largest = decode(near.astype(bits_type(draw.dtype)), draw.dtype)
    largest = largest[np.isfinite(largest)]
    x = draw.rng.uniform(-1, 1, (largest.size, block)) * largest[:, None]
    x[:, 3] = largest * draw.rng.choice([-1, 1], largest.size)
    problem = quantize_mx(draw, largest.size, block, form, rule, kind="normal")
    problem.arrays["x"] = draw.array(round_to(x, draw.dtype))
    return problem


def dequantize_mx(draw, rows, n, form, layout=0, scale=None):
    codes, scales = mx_shapes(rows, n, form, layout)
    arrays = {
        "codes": bytes_of(draw, codes), "scales": bytes_of(draw, scales),
        "tensor_scale": draw.array(round_to(np.array([1.0 if scale is None else scale]), "f32"), "f32"),
        "y": draw.output((rows, n)),
    }  # fmt: skip
    scalars = {"rows": rows, "n": n, "mx_format": form, "scale_layout": layout}
    return Problem(scalars, arrays, null=("tensor_scale",) if scale is None else ())


def mx_dequantized(p):
    form, n = p.scalars["mx_format"], p.scalars["n"]
    scales = p.arrays["scales"].values
    if p.scalars["scale_layout"]:
        scales = low_floats.unswizzled(scales, p.scalars["rows"], n // low_floats.MX[form][1])
    codes = low_floats.unpack(p.arrays["codes"].values, low_floats.mx_bits(form))
    return {"y": Expected(low_floats.dequantize_mx(codes, scales, form, scale_of(p)))}


def mx_cases():
    row = ROWS["quantize_mx_{T}"]
    problems = {
        "plain": lambda d: quantize_mx(d, 5, 64, 0), "one": lambda d: quantize_mx(d, 1, 32, 0),
        "large": lambda d: quantize_mx(d, 130, 640, 0, layout=1),
        "special": lambda d: quantize_mx(d, 20, 256, 0, kind="special"),
        "nv_special": lambda d: quantize_mx(d, 20, 256, 6, kind="special", scale=0.01),
        "nv_scaled": lambda d: quantize_mx(d, 7, 48, 6, scale=2.0**-8), "nv_swizzled": lambda d: quantize_mx(d, 3, 80, 6, layout=1),
    }  # fmt: skip
    for form in range(7):
        problems[f"format{form}"] = lambda d, f=form: quantize_mx(d, 33, 96, f)
        problems[f"wide{form}"] = lambda d, f=form: quantize_mx(d, 9, 96, f, kind="wide")
        problems[f"swizzled{form}"] = lambda d, f=form: quantize_mx(d, 131, 160, f, layout=1)
        for rule in range(3):
            if form < 6:
                problems[f"boundaries{form}_{rule}"] = lambda d, f=form, r=rule: rule_boundaries(d, f, r)
    shared = (*negative("rows", "n"), *choices("mx_format", 7), *choices("scale_layout", 2))
    n_of = Bad("n", 2, "n is 40, must be a multiple of 32, the format's block", {"n": 40}, can=2)
    idle = (Idle("no_rows", {"rows": 0}), Idle("no_columns", {"n": 0}))
    yield Case(
        row=row.name, problems=problems, reference=mx_quantized, tolerance={"codes": "exact", "scales": "exact"},
        plain="plain", large="large", bad=(*shared, *choices("scale_rule", 3), n_of, *pointers(row)), idle=idle,
    )  # fmt: skip
    row = ROWS["dequantize_mx_{T}"]
    problems = {
        "plain": lambda d: dequantize_mx(d, 5, 64, 0), "one": lambda d: dequantize_mx(d, 1, 32, 0),
        "large": lambda d: dequantize_mx(d, 130, 640, 0, 1), "nv_scaled": lambda d: dequantize_mx(d, 7, 48, 6, 0, 0.01),
    }  # fmt: skip
    for form in range(7):
        problems[f"format{form}"] = lambda d, f=form: dequantize_mx(d, 33, 96, f)
        problems[f"swizzled{form}"] = lambda d, f=form: dequantize_mx(d, 131, 160, f, 1)
    yield Case(
        row=row.name, problems=problems, reference=mx_dequantized, tolerance={"y": "exact"}, plain="plain",
        large="large", bad=(*shared, n_of, *pointers(row)), idle=idle,
    )  # fmt: skip
    row = ROWS["swizzle_scales_{T}"]
    yield Case(
        row=row.name, reference=swizzle_reference, tolerance={"y": "exact"}, plain="plain", large="large",
        problems={
            "plain": lambda d: swizzle(d, 5, 7), "one": lambda d: swizzle(d, 1, 1),
            "backward": lambda d: swizzle(d, 130, 6, 1), "large": lambda d: swizzle(d, 300, 33),
            "whole": lambda d: swizzle(d, 256, 8), "whole_backward": lambda d: swizzle(d, 256, 8, 1),
        },
        bad=(*negative("rows", "blocks"), *choices("backward", 2), *pointers(row)),
        idle=(Idle("no_rows", {"rows": 0}), Idle("no_blocks", {"blocks": 0})),
    )  # fmt: skip


def swizzle(draw, rows, blocks, backward=0):
    tiled = (-(-rows // 128) * 128, -(-blocks // 4) * 4)
    sides = ((rows, blocks), tiled)
    arrays = {"x": bytes_of(draw, sides[backward]), "y": draw.output(sides[1 - backward])}
    return Problem({"rows": rows, "blocks": blocks, "backward": backward}, arrays)


def swizzle_reference(p):
    x = p.arrays["x"].values
    if p.scalars["backward"]:
        return {"y": Expected(low_floats.unswizzled(x, p.scalars["rows"], p.scalars["blocks"]))}
    return {"y": Expected(low_floats.swizzled(x))}


# --- four and eight bits ---


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
    from tools.oracle.numerics import bits_type, decode

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
    null = ("absmax",) if nested else ("absmax_codes", "absmax_map", "absmax_outer", "absmax_offset")
    return arrays, null


def maxima_of(p):
    """In f32."""
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
        Bad("no_maxima", 2, "absmax is NULL, and so is absmax_codes", null=("absmax",)),
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
    problems = {name: lambda d, s=s: dequantize_4bit(d, *s) for name, s in SIZES.items()}
    problems |= {
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
        "plain": lambda d: gemv_4bit(d, 3, 7, 64, 32), "one": lambda d: gemv_4bit(d, 1, 1, 1, 2),
        "nested": lambda d: gemv_4bit(d, 2, 9, 128, 16, 0, True), "fp4": lambda d: gemv_4bit(d, 5, 6, 96, 32, 1),
        "odd_k": lambda d: gemv_4bit(d, 2, 11, 77, 16), "across_rows": lambda d: gemv_4bit(d, 4, 10, 24, 64),
        "eight": lambda d: gemv_4bit(d, 8, 16, 256, 64), "many": lambda d: gemv_4bit(d, 19, 12, 160, 32),
        "no_bias": lambda d: gemv_4bit(d, 1, 33, 512, 64, bias=False), "no_k": lambda d: gemv_4bit(d, 2, 3, 0, 4),
        "special": lambda d: gemv_4bit(d, 3, 7, 64, 32, kind="special"),
        "large": lambda d: gemv_4bit(d, 4, 130, 1024, 64),
    }  # fmt: skip
    yield Case(
        row=row.name, problems=problems, reference=four_bit_products, plain="plain", large="large",
        idle=(Idle("no_rows", {"m": 0}), Idle("no_results", {"n": 0})), tolerance={"y": "gemm"},
        bad=(*negative("m", "n", "k"), *block, *choices("book", 2), *maxima_bad, *pointers(row)),
    )  # fmt: skip
    row = ROWS["quantize_8bit_blocks_{T}"]
    problems = {name: lambda d, s=s: quantize_8bit(d, *s) for name, s in SIZES.items()}
    problems |= {
        "special": lambda d: quantize_8bit(d, 4000, 16, "special"), "wide": lambda d: quantize_8bit(d, 4000, 128, "wide"),
        "offset": lambda d: quantize_8bit(d, 700, 256, offset=True), "large": lambda d: quantize_8bit(d, 60_000, 256),
    }  # fmt: skip
    yield Case(
        row=row.name, problems=problems, reference=eight_bit_quantized, plain="plain", large="large", idle=empty,
        tolerance={"codes": "exact", "absmax": "exact"}, bad=(*negative("numel"), *block, *pointers(row)),
    )  # fmt: skip
    row = ROWS["dequantize_8bit_blocks_{T}"]
    problems = {name: lambda d, s=s: dequantize_8bit(d, *s) for name, s in SIZES.items()}
    problems |= {
        "offset": lambda d: dequantize_8bit(d, 700, 256, True), "large": lambda d: dequantize_8bit(d, 60_000, 256)
    }  # fmt: skip
    yield Case(
        row=row.name, problems=problems, reference=eight_bit_values, plain="plain", large="large", idle=empty,
        tolerance={"y": "exact"}, bad=(*negative("numel"), *block, *pointers(row)),
    )  # fmt: skip


# --- fp8 with f32 scales ---


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


CASES = (*narrow_cases(), *mx_cases(), *block_cases(), *fp8_cases())

__all__ = ["CASES"]
