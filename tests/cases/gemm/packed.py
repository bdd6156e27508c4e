# SPDX-License-Identifier: Apache-2.0
"""GEMM with packed elements: 4-bit integers, and bits."""

import functools

import numpy as np

from harness.launch import ROWS
from tools.oracle.numerics import LIMITS

from ..model import Array, Bad, Case, Expected, Idle, Problem
from .gemm import ACTIVATIONS, IDLE, bad_calls

SIDES = 48


def packed(values, bits):
    """Packs along the last axis, the first element in the lowest bits; a row's last byte is padded with 0."""
    count = 8 // bits
    values = np.pad(values & ((1 << bits) - 1), (*((0, 0),) * (values.ndim - 1), (0, -values.shape[-1] % count)))
    units = values.reshape(*values.shape[:-1], values.shape[-1] // count, count)
    return (units << (np.arange(count) * bits)).sum(-1)


def unpacked(array, bits, dtype=""):
    *rows, length = array.values.shape
    values = (array.values[..., None] >> (np.arange(8 // bits) * bits)) & ((1 << bits) - 1)
    values = values.reshape(*rows, length * (8 // bits))
    return (values ^ 8) - 8 if dtype == "s4" else values


def matrix(draw, rows, columns, bits, gap):
    """Rows of packed bytes, `gap` bytes apart."""
    values = packed(draw.rng.integers(0, 1 << bits, (rows, columns)), bits)
    return Array("u8", values.shape, values, (values.shape[1] + gap, 1))


def product(draw, m, n, k, *, layout, bits, gaps=(0, 0, 0, 0), coeffs=(1, 0), null=(), bias=""):
    shape_b = (n, k) if layout == "rcr" else (k, n)
    arrays = {"a": matrix(draw, m, k, bits, gaps[0]), "b": matrix(draw, *shape_b, bits, gaps[1])}
    scalars = {"m": m, "n": n, "k": k}
    if bits == 1:
        arrays["d"] = Array("i32", (m, n), None, (n + gaps[3], 1))
    else:
        arrays["c"] = matrix(draw, m, n, bits, gaps[2])
        arrays["d"] = Array("u8", (m, n // 2), None, (n // 2 + gaps[3], 1))
        scalars |= {"alpha": float(coeffs[0]), "beta": float(coeffs[1])}
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
    coeffs = (2.0**-4, 0.5)
    unit = 8 // bits

    def case(m, n, k, **more):
        more = {"coeffs": (coeffs[0], 0), **more}
        if bias:
            return lambda d: product(d, m, n, k, layout=layout, bits=bits, bias=d.other, **more)
        return lambda d: product(d, m, n, k, layout=layout, bits=bits, **more)

    table = {
        "plain": case(7, 5 * unit, 6 * unit, coeffs=coeffs),
        "gaps": case(21, 32, 5 * unit, coeffs=coeffs, gaps=(1, 3, 2, 5)),
        "small": case(40, 24, 48, coeffs=coeffs),
        "one": case(1, unit, unit, coeffs=(0.5, 0)),
        "single_bytes": case(9, unit, 3 * unit, coeffs=coeffs),
        "zero_k": case(5, 16, 0, coeffs=coeffs),
        "row": case(1, 136, 72, coeffs=coeffs),
        "tile": case(128, 128, 64 * unit),
        "past_tile": case(129, 136, 65 * unit, coeffs=coeffs),
        "short_of_tile": case(127, 56, 40, coeffs=coeffs, gaps=(1, 1, 1, 1)),
        "long": case(66, 72, 16 * 33 * unit, coeffs=(2.0**-8, 0.5)),
        "large": case(150, 208, 520, coeffs=(2.0**-8, 0.5)),
        "null_c": case(19, 24, 24, coeffs=coeffs, null=("c",)),
    }
    if bits == 1:
        del table["null_c"]
    for seed in range(8):
        rng = np.random.default_rng(seed)
        m, n, k = map(int, rng.integers(1, SIDES, 3, endpoint=True))
        gaps = tuple(map(int, rng.integers(0, 4, 4)))
        table[f"drawn{seed}"] = case(m, -(-n // unit) * unit, -(-k // unit) * unit, coeffs=coeffs, gaps=gaps)
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


# --- batches ---

NIBBLES, BITS = "gemm_dense_{T} of nibbles", "gemm_dense_bin"


def batch_of(draw, m, n, k, batch, bits, *, layout=0, coeffs=(2.0**-4, 0.5), gap=0, apart=3, shared=(), step=None):
    """Matrices of bytes, `apart` elements between them or `step` from one to the next.

    Matrices named in `shared` serve the whole batch.
    """
    shapes = {"a": (m, k), "b": (n, k) if layout else (k, n), "d": (m, n)}
    arrays = {}
    for name, (rows, columns) in shapes.items():
        values = packed(draw.rng.integers(0, 1 << bits, (1 if name in shared else batch, rows, columns)), bits)
        pitch = values.shape[-1] + gap
        if name == "d" and bits == 1:
            values, pitch = None, n + gap
        stride = 0 if name in shared else step if step is not None and name != "d" else rows * pitch + apart
        shape = (batch, rows, n if values is None else values.shape[-1])
        values = None if values is None else np.broadcast_to(values, shape)
        arrays[name] = Array("i32" if values is None else "u8", shape, values, (stride, pitch, 1))
    if bits == 4 and not coeffs[1]:
        arrays["d"].values = np.full(arrays["d"].shape, 0x99)
    scalars = {"m": m, "n": n, "k": k, "batch": batch, "layout": layout}
    scalars |= {"alpha": coeffs[0], "beta": coeffs[1]} if bits == 4 else {}
    scalars |= {f"ld{name}": array.strides[1] for name, array in arrays.items()}
    scalars |= {f"stride_{name}": array.strides[0] for name, array in arrays.items()}
    return Problem(scalars, arrays, function=draw.dtype if bits == 4 else "")


def batch_reference(p, bits):
    """A nibble problem has the nibbles' dtype as its function."""
    dtype = p.function
    a, b = (unpacked(p.arrays[name], bits, dtype) for name in "ab")
    b = np.swapaxes(b, 1, 2) if p.scalars["layout"] else b
    if bits == 1:
        return {"d": Expected(a @ (1 - b) + (1 - a) @ b)}
    z = np.float32(p.scalars["alpha"]) * (a @ b).astype(np.float32)
    if p.scalars["beta"]:
        z = z + np.float32(p.scalars["beta"]) * unpacked(p.arrays["d"], 4, dtype).astype(np.float32)
    return {"d": Expected(packed(np.clip(np.rint(z), *LIMITS[dtype]).astype(np.int64), 4))}


def batch_problems(bits):
    unit = 8 // bits

    def case(m, n, k, batch, **more):
        return lambda d: batch_of(d, m, n * unit, k * unit, batch, bits, **more)

    return {
        "plain": case(7, 5, 6, 3, apart=0),
        "columns": case(7, 5, 6, 3, layout=1, coeffs=(2.0**-4, 0)),
        "gaps": case(21, 9, 17, 2, gap=3),
        "gaps_columns": case(21, 9, 17, 2, layout=1, gap=5),
        "one": case(1, 1, 1, 1, coeffs=(0.5, 0)),
        "shared": case(9, 5, 8, 3, shared=("a",)),
        "weights": case(9, 5, 8, 3, layout=1, shared=("b",)),
        "backwards": case(4, 2, 3, 3, layout=1, step=-64),
        "zero_k": case(5, 4, 0, 2),
        "aligned": case(40, 16, 32, 4, layout=1, step=8192),
        "many": case(3, 2, 2, 50),
        "large": case(70, 40, 260 // unit, 3, layout=1, coeffs=(2.0**-8, 0.5)),
    }


def batch_case(name):
    row, bits = ROWS[name], 1 if name == BITS else 4
    return Case(
        row=name, problems=batch_problems(bits), tolerance={"d": "exact"}, plain="plain", large="large",
        reference=functools.partial(batch_reference, bits=bits),
        bad=(
            *bad_calls(row), Bad("d_step", 2, "stride_d is 0", {"stride_d": 0}, can=2),
            *(Bad(f"layout_{v}", 2, rf"layout is {v}, must be 0 \(rrr\) or 1", {"layout": v}, can=2) for v in (-1, 2)),
            *(Bad(f"shared_{x}", 3, rf"{x} is 17, must be a multiple", {x: 17}, can=3) for x in ("k", "n")),
        ),
        idle=(*IDLE, Idle("no_batch", {"batch": 0})),
    )  # fmt: skip


CASES = (
    *(case_of(row) for row in ROWS.values() if any(name in row.name for name in ("gemm_s4_", "gemm_u4_", "gemm_bin_"))),
    *map(batch_case, (NIBBLES, BITS)),
)

__all__ = ["CASES"]
