# SPDX-License-Identifier: Apache-2.0
"""GEMM with an epilogue, and batched GEMM."""

import dataclasses
import functools
import math

import numpy as np

from harness.launch import ROWS
from tools.oracle.functions.activations import gelu_tanh
from tools.oracle.numerics import FP8, LARGEST, LIMITS, is_float, round_to

from ..model import Array, Bad, Case, Draw, Expected, Idle, Problem

SIDES = 40  # random problems have M, N and K up to this


def rounded_to_tf32(values):
    """Rounds to 11 significant bits, ties away from zero; NaN and infinities are unchanged."""
    bits = np.asarray(values, np.float32).view(np.uint32)
    special = (bits & 0x7F800000) == 0x7F800000
    return np.where(special, bits, (bits + 0x1000) & np.uint32(0xFFFFE000)).view(np.float32).astype(np.float64)


def gelu(z):
    with np.errstate(invalid="ignore"):
        return z * np.vectorize(lambda x: 0.5 * math.erfc(-x / math.sqrt(2)), otypes=[float])(z)


def silu(z):
    return z / (1 + np.exp(-np.clip(z, -700, 700)))


ACTIVATIONS = {  # the C ABI's names of activations
    "": lambda z: z, "relu": lambda z: np.where(z > 0, z, 0), "gelu": gelu, "silu": silu,
    "gelu_tanh": lambda z: np.asarray(gelu_tanh(z), float),
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class RowTraits:
    """Traits of a row: how B is stored, whether operands are rounded to TF32, and what a NULL C means."""

    layout: str
    tf32: bool = False
    null_c: str = "d"


def matrix(draw, rows, columns, gap=0, kind="normal", dtype="", batch=()):
    """A matrix whose rows are `gap` elements apart; `batch` is empty or the number of matrices and their stride."""
    shape, strides = (rows, columns), (columns + gap, 1)
    if batch:
        shape, strides = (batch[0], *shape), (batch[1], *strides)
    if is_float(dtype or draw.dtype):
        return draw.floats(shape, kind, strides, dtype)
    return draw.integers(shape, "small" if kind == "small" else "normal", strides, dtype)


def product(
    draw, m, n, k, *, traits=RowTraits("rcr"), gaps=(0, 0, 0, 0), coeffs=(1, 0), null=(), values="normal", bias=""
):
    """`gaps` follow the rows of A, B, C and D; `coeffs` are alpha and beta; `bias` is the bias's dtype."""
    whole = not is_float(draw.dtype)
    shape_b = (n, k) if traits.layout == "rcr" else (k, n)
    arrays = {
        "a": matrix(draw, m, k, gaps[0], values), "b": matrix(draw, *shape_b, gaps[1], values),
        "c": matrix(draw, m, n, gaps[2], "small" if whole else "normal"),
        "d": Array(draw.dtype, (m, n), None, (n + gaps[3], 1)),
    }  # fmt: skip
    if "c" in null and traits.null_c == "d" and coeffs[1]:
        arrays["d"] = matrix(draw, m, n, gaps[3], "normal")
    if bias:
        arrays["bias"] = draw.integers((n,), "small", dtype=bias) if bias == "i32" else draw.floats((n,), dtype=bias)
        if whole and bias == "f32":  # multiples of 1/4, so that z is exact
            arrays["bias"] = draw.array(np.round(arrays["bias"].values * 4) / 4, "f32")
    if values == "special":
        for name in ("a", "b"):
            cells = arrays[name].values.copy()
            for value in (np.nan, np.inf, -np.inf):
                cells.flat[draw.rng.integers(cells.size)] = value
            arrays[name].values = round_to(cells, draw.dtype)
    scalars = {"m": m, "n": n, "k": k, "alpha": float(coeffs[0]), "beta": float(coeffs[1])}
    scalars |= {f"ld{name}": arrays[name].strides[0] for name in "abcd"}
    return Problem(scalars, arrays, null=tuple(null), function=draw.function)


def expected(p, a, b, c, bias):
    """The epilogue applied to a b, both matrices of float64 or integers."""
    whole = not is_float(p.arrays["d"].dtype)
    alpha, beta = p.scalars["alpha"], p.scalars["beta"]
    if whole:
        sums = np.matmul(a.astype(np.int64), b.astype(np.int64))
        z = np.float32(alpha) * sums.astype(np.float32) + np.float32(beta) * c.astype(np.float32)
        z = (z + bias.astype(np.float32)).astype(np.float64)
        z = ACTIVATIONS[p.function](z).astype(np.float32)
        value = np.clip(np.rint(z), *LIMITS[p.arrays["d"].dtype]).astype(np.int64)
        return {"d": Expected(value)}
    with np.errstate(invalid="ignore", over="ignore"):
        z = alpha * np.matmul(a, b) + beta * c + bias
        largest = LARGEST[p.arrays["d"].dtype] if p.arrays["d"].dtype in FP8 else np.inf  # fp8 saturates
        magnitude = np.abs(alpha) * np.matmul(np.abs(a), np.abs(b)) + np.abs(beta * c) + np.abs(bias)
        z = np.clip(ACTIVATIONS[p.function](z), -largest, largest)
        return {"d": Expected(z, count=p.scalars["k"], magnitude=np.where(np.isnan(magnitude), 0, magnitude))}


def product_reference(p, traits):
    arrays = p.arrays
    a, b = arrays["a"].values, arrays["b"].values
    if traits.layout == "rcr":
        b = b.T
    if traits.tf32:
        a, b = rounded_to_tf32(a), rounded_to_tf32(b)
    c = np.zeros(arrays["d"].shape)
    if p.scalars["beta"] and "c" not in p.null:
        c = arrays["c"].values
    elif p.scalars["beta"] and traits.null_c == "d":
        c = arrays["d"].values
    bias = arrays["bias"].values if "bias" in arrays and "bias" not in p.null else np.zeros(arrays["d"].shape[1])
    return expected(p, a, b, c, bias)


def drawn(seed):
    """Random extents and gaps of a small product."""
    rng = np.random.default_rng(seed)
    return tuple(map(int, rng.integers(1, SIDES, 3, endpoint=True))), tuple(map(int, rng.integers(0, 4, 4)))


def every_side():
    """Extents and gaps of small products, in which each extent takes every value from 1 to SIDES once."""
    rng = np.random.default_rng(40)
    extents = zip(*[rng.permutation(SIDES) + 1 for _ in range(3)])
    return [(tuple(map(int, each)), tuple(map(int, rng.integers(0, 4, 4)))) for each in extents]


def problems(traits, whole, bias, bias_may_be_null):
    coeffs = (2.0**-6, 0.5) if whole else (0.75, -1.5)

    def case(m, n, k, **more):
        more = {"coeffs": (coeffs[0], 0), **more}
        return lambda d: product(
            d, m, n, k, traits=traits, bias={"U": d.other, "T": d.dtype}.get(bias, bias) or "", **more
        )

    table = {
        "plain": case(7, 9, 11, coeffs=coeffs, gaps=(0, 0, 0, 0)),
        "gaps": case(21, 33, 35, coeffs=coeffs, gaps=(1, 3, 2, 5)),
        "small": case(40, 24, 48, coeffs=coeffs),
        "one": case(1, 1, 1, coeffs=(1, 0) if not whole else (0.5, 0)),
        "zero_k": case(5, 6, 0, coeffs=coeffs),
        "zero_k_beta0": case(5, 6, 0),
        "row": case(1, 130, 70, coeffs=coeffs),
        "column": case(131, 1, 70, coeffs=coeffs),
        "tile": case(128, 128, 64),
        "past_tile": case(129, 130, 68, coeffs=coeffs),
        "short_of_tile": case(127, 63, 33, coeffs=coeffs, gaps=(1, 1, 1, 1)),
        "large": case(150, 201, 517, coeffs=(2.0**-12, 0.5) if whole else coeffs),
        "null_c": case(19, 18, 17, coeffs=coeffs, null=("c",)),
        "null_c_beta0": case(19, 18, 17, null=("c",)),
    }
    for k, (extents, gaps) in enumerate(every_side()):
        table[f"drawn{k}"] = case(*extents, coeffs=coeffs if k % 2 else (coeffs[0], 0), gaps=gaps)
    if not whole:
        table["special"] = case(24, 17, 40, coeffs=coeffs, values="special")
    if bias and bias_may_be_null:
        table["null_bias"] = case(9, 10, 13, coeffs=coeffs, null=("bias",))
    return table


def bad_calls(row, negative_steps=()):
    names = {p.name for p in row.params}
    extents = [e for e in ("m", "n", "k", "batch", "batch_count") if e in names]
    bad = [Bad(f"negative_{e}", 2, rf"{e} is -4", {e: -4}, can=2) for e in extents]
    bad += [Bad(f"negative_beside_0_{e}", 2, rf"{e} is -1", {"m": 0, e: -1}, can=2) for e in ("n", "k")]
    for name in ("a", "b", "d"):
        ld = f"ld{name}"
        bad += [Bad(f"{ld}_{v}", 2, rf"{ld} is {v}, must be", {ld: v}, can=2) for v in (-4, 0, 2)]
        bad += [Bad(f"{ld}_far", 2, rf"{ld} is {2**62}", {ld: 2**62}, can=2)]
    if "c" in names:
        bad += [Bad(f"ldc_{v}", 2, rf"ldc is {v}, must be", {"ldc": v}, can=2) for v in (-4, 2)]
        bad += [Bad("ldc_0", 2, r"c is 0x[0-9a-f]+, but ldc is 0, must be >= \d+", {"ldc": 0})]
        bad += [Bad("ldc_far", 2, rf"ldc is {2**62}", {"ldc": 2**62}, can=2)]
        bad += [Bad("ldc_2_unread", 2, r"ldc is 2, must be", {"ldc": 2, "beta": 0}, can=2)]
    bad += [Bad(f"null_{p.name}", 2, rf"{p.name} is NULL", null=(p.name,)) for p in row.pointers if p.is_required]
    return (*bad, *(Bad(f"odd_{p.name}", 1, rf"{p.name} is 0x[0-9a-f]+", shift={p.name: 1}) for p in row.pointers))


IDLE = (Idle("no_rows", {"m": 0}), Idle("no_columns", {"n": 0}))


def product_case(row):
    traits = RowTraits(
        layout="rcr" if "_rcr" in row.name else "rrr",
        tf32="_t{T}" in row.name,
        null_c="zero" if "NullC::kIsZero" in row.doc or "and is zeros" in row.doc else "d",
    )
    bias = next((p for p in row.pointers if p.name == "bias"), None)
    whole = not is_float(row.slots["T"][0])
    table = problems(traits, whole, bias and bias.dtype, bias is not None and not bias.is_required)
    if row.functions:
        table.pop("special", None)
    return Case(
        row=row.name, problems=table, reference=functools.partial(product_reference, traits=traits),
        tolerance={"d": "gemm"}, plain="plain", large="large", bad=bad_calls(row), idle=IDLE,
        brief=("gaps", "past_tile", "drawn1") if row.functions or bias else (),
        full=lambda slots, row=row: slots.get("F", "relu") == "relu" and slots["T"] in ("f32", "bf16", "i8", "fp8e4m3"),
    )  # fmt: skip


def is_elsewhere(row):
    """Whether another file has the case of the row."""
    return any(
        name in row.name
        for name in (
            "_s4_",
            "_u4_",
            "_bin",
            " of nibbles",
            "_sparse24_",
            "_epilogue_",
            "_gated_",
            "_scaled_",
            "_backward_",
        )
    )


# --- batches ---

LAYOUTS = ("rrr", "rcr", "crr", "ccr")


def batched(
    draw, m, n, k, batch, *, layout=1, steps=(None, None, None, None), coeffs=(0.75, 0.0), gap=0, null=(), dense=False,
    apart=3, sums=False
):  # fmt: skip
    """`steps` are the batch strides of A, B, C and D; None leaves a gap of `apart` elements between matrices."""
    shapes = {
        "a": (k, m) if layout >= 2 else (m, k), "b": (n, k) if layout % 2 else (k, n), "c": (m, n), "d": (m, n),
    }  # fmt: skip
    arrays = {}
    for (name, (rows, columns)), step in zip(shapes.items(), steps):
        step = max(rows * (columns + gap), 1) + apart if step is None else step
        arrays[name] = matrix(draw, rows, columns, gap, batch=(batch, step))
    if not dense and not ("c" in null and coeffs[1]):
        arrays["d"].values = None
    if dense:
        del arrays["c"]
        if not coeffs[1] and is_float(draw.dtype):
            arrays["d"].values = np.full(arrays["d"].shape, np.nan)
    if sums:
        arrays["d"] = Array("i32", arrays["d"].shape, None, arrays["d"].strides)
    scalars = {"m": m, "n": n, "k": k} | ({} if sums else {"alpha": coeffs[0], "beta": coeffs[1]})
    scalars |= {"batch": batch, "layout": layout} if dense else {"batch_count": batch}
    for name, array in arrays.items():
        scalars |= {f"ld{name}": array.strides[1], f"stride_{name}": array.strides[0]}
        if dense and min(array.shape[1:]) == 0:
            scalars[f"ld{name}"] = max(array.strides[1], 1)
    return Problem(scalars, arrays, null=tuple(null))


def batched_reference(p):
    layout = LAYOUTS[p.scalars.get("layout", 1)]
    a, b = p.arrays["a"].values, p.arrays["b"].values
    a = a.transpose(0, 2, 1) if layout[0] == "c" else a
    b = b.transpose(0, 2, 1) if layout[1] == "c" else b
    if "beta" not in p.scalars:
        sums = np.matmul(a.astype(np.int64), b.astype(np.int64))
        return {"d": Expected(np.clip(sums, *LIMITS["i32"]))}
    c = np.zeros(p.arrays["d"].shape)
    if p.scalars["beta"]:
        c = p.arrays["c" if "c" in p.arrays and "c" not in p.null else "d"].values
    return expected(p, a, b, c, np.zeros(p.scalars["n"]))


BATCHED = {
    "plain": lambda d: batched(d, 7, 9, 11, 3, coeffs=(0.75, -1.5), apart=0),
    "gaps": lambda d: batched(d, 20, 17, 40, 2, gap=3, coeffs=(1.0, 0.5)),
    "one": lambda d: batched(d, 33, 12, 24, 1, steps=(0, 0, 0, 0), coeffs=(2.0, 1.0)),
    "shared": lambda d: batched(d, 16, 24, 32, 3, steps=(0, None, 0, None), coeffs=(1.0, 1.0)),
    "backwards": lambda d: batched(d, 6, 5, 8, 4, steps=(-48, -41, -33, -30), coeffs=(1.0, 1.0)),
    "null_c": lambda d: batched(d, 6, 5, 8, 4, null=("c",), coeffs=(1.0, 1.0)),
    "zero_k": lambda d: batched(d, 6, 5, 0, 2, coeffs=(1.0, 1.0)),
    "large": lambda d: batched(d, 130, 140, 70, 5, coeffs=(1.0, 0.5)),
    "many": lambda d: batched(d, 16, 16, 16, 70),
}


def dense_problems(layouts, rows, sums=False):
    table = {}
    for layout in layouts:
        make = functools.partial(batched, layout=layout, dense=True, sums=sums)
        few, m = min(rows, 7), min(rows, 21)
        table |= {
            f"{LAYOUTS[layout]}_plain": lambda d, f=make, m=few: f(d, m, 9, 11, 3, coeffs=(0.75, -1.5), apart=0),
            f"{LAYOUTS[layout]}_gaps": lambda d, f=make, m=m: f(d, m, 33, 35, 2, gap=3),
            f"{LAYOUTS[layout]}_one": lambda d, f=make, m=m: f(d, m, 70, 9, 1, steps=(0, 0, 0, 0), coeffs=(1.0, 1.0)),
            f"{LAYOUTS[layout]}_shared": lambda d, f=make, m=m: f(d, m, 64, 40, 3, steps=(0, None, None, None)),
            f"{LAYOUTS[layout]}_weights": lambda d, f=make, m=m: f(d, m, 64, 40, 3, steps=(None, 0, None, None)),
            f"{LAYOUTS[layout]}_backwards": lambda d, f=make, m=m: f(d, m, 5, 8, 3, steps=(-200, -50, None, None)),
            f"{LAYOUTS[layout]}_zero_k": lambda d, f=make, m=m: f(d, m, 5, 0, 2, coeffs=(1.0, 2.0)),
            f"{LAYOUTS[layout]}_zero_k_beta0": lambda d, f=make, m=m: f(d, m, 5, 0, 2),
            f"{LAYOUTS[layout]}_tiles": lambda d, f=make, m=m: f(d, min(rows, 129), 136, 72, 1),
            f"{LAYOUTS[layout]}_long": lambda d, f=make, m=m: f(d, min(rows, 3), 200, 700, 1),
            f"{LAYOUTS[layout]}_lent": lambda d, f=make, m=m: f(d, min(rows, 203), 300, 130, 2),
        }
        for seed in range(8):
            (drawn_m, n, k), gaps = drawn(100 + seed)
            extents = min(rows, drawn_m), n, k
            table[f"{LAYOUTS[layout]}_drawn{seed}"] = lambda d, f=make, e=extents, g=gaps: f(d, *e, 1 + g[1], gap=g[0])
    first = LAYOUTS[layouts[0]]
    table["plain"] = table.pop(f"{first}_plain")
    table["large"] = lambda d: batched(
        d, min(rows, 150), 201, 517, 2, layout=layouts[0], dense=True, coeffs=(1.0, 0.5), sums=sums
    )
    return table


def dense_bad(row, gemv):
    layouts = (-1, 1, 2) if gemv else (-1, 4)
    bad = [Bad(f"layout_{v}", 2, rf"layout is {v}, must be", {"layout": v}, can=2) for v in layouts]
    bad += [Bad("rows", 2, "m is 2, must be 0 or 1", {"m": 2}, can=2)] if gemv else []
    bad += [Bad("d_step", 2, "stride_d is 0", {"stride_d": 0}, can=2)]
    bad += [Bad("lda_32bits", 2, rf"lda is {2**31}", {"lda": 2**31}, can=2)]
    return tuple(bad)


ROWS_OF = [row for row in ROWS.values() if row.name.startswith(("gemm_", "gemv_")) and not is_elsewhere(row)]
SPECIAL = ("gemm_batched_{T}_rcr_sm80", "gemm_dense_{T}", "gemv_dense_m1_{T}")
NARROW = ("gemm_dense_{T} of integers", "gemm_dense_{T} of fp8", "gemm_dense_{T}_i32", "gemm_dense_{T}_3xtf32")
STEP = (Bad("d_step", 2, "stride_d is 0", {"stride_d": 0}, can=2),)


def special_cases():
    row = ROWS[SPECIAL[0]]
    yield Case(
        row=row.name, problems=BATCHED, reference=batched_reference, tolerance={"d": "gemm"}, plain="plain",
        large="large", bad=(*bad_calls(row), *STEP), idle=(*IDLE, Idle("no_batch", {"batch_count": 0})),
    )  # fmt: skip
    every = tuple([(name, (0, 1, 2, 3), 1000) for name in (SPECIAL[1], *NARROW)])
    for name, layouts, rows in (*every, (SPECIAL[2], (0,), 1)):
        row, sums = ROWS[name], "_i32" in name
        yield Case(
            row=name, problems=dense_problems(layouts, rows, sums), reference=batched_reference,
            tolerance={"d": "exact" if sums else "gemm_3xtf32" if "3x" in name else "gemm"}, plain="plain",
            large="large",
            bad=(*bad_calls(row), *dense_bad(row, rows == 1)), idle=(*IDLE, Idle("no_batch", {"batch": 0})),
        )  # fmt: skip


CASES = (*(product_case(row) for row in ROWS_OF if row.name not in SPECIAL + NARROW), *special_cases())

__all__ = ["CASES", "Draw", "batched", "product", "round_to"]
