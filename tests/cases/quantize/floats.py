# SPDX-License-Identifier: Apache-2.0
"""Narrow floats, and MX and NVFP4 blocks."""

import numpy as np

from harness.launch import ROWS
from tools.oracle import low_floats
from tools.oracle.numerics import bits_type, decode, encode, round_to

from ..model import Array, Bad, Case, Expected, Idle, Problem

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
        "plain": lambda d: quantize_mx(d, 5, 64, 6, scale=0.25), "one": lambda d: quantize_mx(d, 1, 32, 0),
        "large": lambda d: quantize_mx(d, 130, 640, 0, layout=1),
        "special": lambda d: quantize_mx(d, 20, 256, 0, kind="special"),
        "nv_special": lambda d: quantize_mx(d, 20, 256, 6, kind="special", scale=0.01),
        "nv_scaled": lambda d: quantize_mx(d, 7, 48, 6, scale=2.0**-8),
        "nv_swizzled": lambda d: quantize_mx(d, 3, 80, 6, layout=1),
    }  # fmt: skip
    for form in range(7):
        problems[f"format{form}"] = lambda d, f=form: quantize_mx(d, 33, 96, f)
        problems[f"wide{form}"] = lambda d, f=form: quantize_mx(d, 9, 96, f, kind="wide")
        problems[f"swizzled{form}"] = lambda d, f=form: quantize_mx(d, 131, 160, f, layout=1)
        for rule in range(3):
            if form < 6:
                problems[f"boundaries{form}_{rule}"] = lambda d, f=form, r=rule: rule_boundaries(d, f, r)
    shared = (*negative("rows", "n"), *choices("mx_format", 7), *choices("scale_layout", 2))
    n_of = Bad("n", 2, "n is 40, must be a multiple of 16, the format's block", {"n": 40}, can=2)
    idle = (Idle("no_rows", {"rows": 0}), Idle("no_columns", {"n": 0}))
    yield Case(
        row=row.name, problems=problems, reference=mx_quantized, tolerance={"codes": "exact", "scales": "exact"},
        plain="plain", large="large", bad=(*shared, *choices("scale_rule", 3), n_of, *pointers(row)), idle=idle,
    )  # fmt: skip
    row = ROWS["dequantize_mx_{T}"]
    problems = {
        "plain": lambda d: dequantize_mx(d, 5, 64, 6, 0, 0.25), "one": lambda d: dequantize_mx(d, 1, 32, 0),
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


CASES = (*narrow_cases(), *mx_cases())
