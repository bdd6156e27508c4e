"""Products of matrices whose elements share bytes: 4-bit integers, and bits."""

import functools

import numpy as np

from harness.launch import ROWS
from tools.oracle.numerics import LIMITS

from .gemm import ACTIVATIONS, IDLE, bad_calls
from .model import Array, Bad, Case, Expected, Problem

SIDES = 48


def packed(values, bits):
    """Along the last axis, the first element the lowest; what a row lacks of its last byte is 0."""
    count = 8 // bits
    values = np.pad(values & ((1 << bits) - 1), ((0, 0), (0, -values.shape[1] % count)))
    return (values.reshape(values.shape[0], values.shape[1] // count, count) << (np.arange(count) * bits)).sum(-1)


def unpacked(array, bits, dtype=""):
    rows, length = array.values.shape
    values = (array.values[..., None] >> (np.arange(8 // bits) * bits)) & ((1 << bits) - 1)
    values = values.reshape(rows, length * (8 // bits))
    return (values ^ 8) - 8 if dtype == "s4" else values


def matrix(draw, rows, columns, bits, gap):
    """Rows of bytes, `gap` apart."""
    values = packed(draw.rng.integers(0, 1 << bits, (rows, columns)), bits)
    return Array("u8", values.shape, values, (values.shape[1] + gap, 1))


def product(draw, m, n, k, *, layout, bits, gaps=(0, 0, 0, 0), numbers=(1, 0), null=(), bias=""):
    shape_b = (n, k) if layout == "rcr" else (k, n)
    arrays = {"a": matrix(draw, m, k, bits, gaps[0]), "b": matrix(draw, *shape_b, bits, gaps[1])}
    scalars = {"m": m, "n": n, "k": k}
    if bits == 1:
        arrays["d"] = Array("i32", (m, n), None, (n + gaps[3], 1))
    else:
        arrays["c"] = matrix(draw, m, n, bits, gaps[2])
        arrays["d"] = Array("u8", (m, n // 2), None, (n // 2 + gaps[3], 1))
        scalars |= {"alpha": float(numbers[0]), "beta": float(numbers[1])}
    if bias == "i32":
        arrays["bias"] = draw.integers((n,), "small", dtype=bias)
    elif bias:  # multiples of 1/4, so that z is exact
        arrays["bias"] = draw.array(np.round(draw.floats((n,), dtype=bias).values * 4) / 4, bias)
    scalars |= {f"ld{name}": arrays[name].strides[0] for name in "abcd" if name in arrays}
    return Problem(scalars, arrays, null=tuple(null), function=draw.function)


def differences(p, layout):
    a, b = unpacked(p.arrays["a"], 1), unpacked(p.arrays["b"], 1)
    b = b.T if layout == "rcr" else b
    return {"d": Expected(a @ (1 - b) + (1 - a) @ b)}


def nibbles(p, layout, dtype):
    a, b = (unpacked(p.arrays[name], 4, dtype) for name in "ab")
    z = np.float32(p.scalars["alpha"]) * (a @ (b.T if layout == "rcr" else b)).astype(np.float32)
    if p.scalars["beta"] and "c" not in p.null:
        z = z + np.float32(p.scalars["beta"]) * unpacked(p.arrays["c"], 4, dtype).astype(np.float32)
    if "bias" in p.arrays:
        z = z + p.arrays["bias"].values.astype(np.float32)
    z = ACTIVATIONS[p.function](z.astype(np.float64)).astype(np.float32)
    return {"d": Expected(packed(np.clip(np.rint(z), *LIMITS[dtype]).astype(np.int64), 4))}


def problems(layout, bits, bias):
    numbers = (2.0**-4, 0.5)
    unit = 8 // bits

    def case(m, n, k, **more):
        more = {"numbers": (numbers[0], 0), **more}
        if bias:
            return lambda d: product(d, m, n, k, layout=layout, bits=bits, bias=d.other, **more)
        return lambda d: product(d, m, n, k, layout=layout, bits=bits, **more)

    table = {
        "plain": case(7, 5 * unit, 6 * unit, numbers=numbers),
        "gaps": case(21, 32, 5 * unit, numbers=numbers, gaps=(1, 3, 2, 5)),
        "small": case(40, 24, 48, numbers=numbers),
        "one": case(1, unit, unit, numbers=(0.5, 0)),
        "single_bytes": case(9, unit, 3 * unit, numbers=numbers),
        "no_terms": case(5, 16, 0, numbers=numbers),
        "row": case(1, 136, 72, numbers=numbers),
        "tile": case(128, 128, 64 * unit),
        "past_tile": case(129, 136, 65 * unit, numbers=numbers),
        "short_of_tile": case(127, 56, 40, numbers=numbers, gaps=(1, 1, 1, 1)),
        "long": case(66, 72, 16 * 33 * unit, numbers=(2.0**-8, 0.5)),
        "large": case(150, 208, 520, numbers=(2.0**-8, 0.5)),
        "null_c": case(19, 24, 24, numbers=numbers, null=("c",)),
    }
    if bits == 1:
        del table["null_c"]
    for seed in range(8):
        rng = np.random.default_rng(seed)
        m, n, k = map(int, rng.integers(1, SIDES, 3, endpoint=True))
        gaps = tuple(map(int, rng.integers(0, 4, 4)))
        table[f"drawn{seed}"] = case(m, -(-n // unit) * unit, -(-k // unit) * unit, numbers=numbers, gaps=gaps)
    return table


def case_of(row):
    layout = "rcr" if "_rcr" in row.name else "rrr"
    bits = 1 if "_bin_" in row.name else 4
    bias = any(p.name == "bias" for p in row.pointers)
    unit = 8 // bits
    sides = ("k",) if bits == 1 and layout == "rcr" else ("k", "n")
    shared = tuple(
        Bad(f"shared_{side}", 3, rf"{side} is 17, must be a multiple of {unit}", {side: 17}, can=3) for side in sides
    )
    if bits == 1:
        reference = functools.partial(differences, layout=layout)
    else:
        reference = functools.partial(nibbles, layout=layout, dtype=row.slots["T"][0])
    return Case(
        row=row.name, problems=problems(layout, bits, bias), reference=reference, tolerance={"d": "exact"},
        plain="plain", large="large", bad=(*bad_calls(row), *shared), idle=IDLE,
        brief=("gaps", "past_tile", "drawn1") if bias else (),
        full=lambda slots: slots.get("F", "relu") == "relu" and slots.get("U") == "f32",
    )  # fmt: skip


CASES = tuple(
    case_of(row) for row in ROWS.values() if any(part in row.name for part in ("gemm_s4_", "gemm_u4_", "gemm_bin_"))
)

__all__ = ["CASES"]
