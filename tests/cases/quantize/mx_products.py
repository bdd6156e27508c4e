# SPDX-License-Identifier: Apache-2.0
"""Products of activations with weights in MX formats and NVFP4."""

import numpy as np

from harness.launch import ROWS
from tools.oracle import low_floats
from tools.oracle.numerics import round_to

from ..model import Bad, Case, Expected, Idle, Problem
from .floats import choices, mx_shapes, scale_of

E4M3, E5M2, NVFP4 = 3, 4, 6  # of low_floats.MX
EXPONENTS = {2: 4, E4M3: 8, E5M2: 15}  # of elements that are larger than 8
TILES, DECODED = (6, 7, 8), 9  # backends


def codes_of(draw, rows, k, form):
    """Codes without infinities and NaN."""
    bits = low_floats.mx_bits(form)
    codes = draw.rng.integers(0, 1 << bits, (rows, k))
    if form in (E4M3, E5M2):
        codes[(codes & 0x7F) >= (0x7F if form == E4M3 else 0x7C)] = 0
    return low_floats.pack(codes, bits)


def scales_of(draw, shape, form, kind):
    """Ordinary scales, "nan" some that are NaN."""
    least = 118 - EXPONENTS.get(form, 0)
    low, high, nan = (0x18, 0x40, 0x7F) if form == NVFP4 else (least, least + 8, 0xFF)
    scales = draw.rng.integers(low, high, shape)
    if kind == "nan":
        scales[draw.rng.random(shape) < 0.1] = nan
    return scales


def product(draw, m, n, k, form, *, layout=0, kind="normal", bias=True, scale=None, backend=0):
    _, scales = mx_shapes(n, k, form, layout)
    arrays = {
        "x": draw.floats((m, k)), "codes": draw.array(codes_of(draw, n, k, form).astype(np.int64), "u8"),
        "scales": draw.array(scales_of(draw, scales, form, kind), "u8"),
        "tensor_scale": draw.array(round_to(np.array([1.0 if scale is None else scale]), "f32"), "f32"),
        "bias": draw.floats((n,)), "y": draw.output((m, n)),
    }  # fmt: skip
    scalars = {"m": m, "n": n, "k": k, "mx_format": form, "scale_layout": layout, "backend": backend}
    return Problem(scalars, arrays, null=(*(("bias",) * (not bias)), *(("tensor_scale",) * (scale is None))))


def reference(p):
    a, s = p.arrays, p.scalars
    form, scales = s["mx_format"], a["scales"].values
    if s["scale_layout"]:
        scales = low_floats.unswizzled(scales, s["n"], s["k"] // low_floats.MX[form][1])
    codes = low_floats.unpack(a["codes"].values, low_floats.mx_bits(form)).reshape(s["n"], s["k"])
    w = low_floats.dequantize_mx(codes, scales, form, scale_of(p)).astype(np.float64)
    x = a["x"].values.astype(np.float64)
    value, magnitude = x @ w.T, np.abs(x) @ np.abs(w.T)
    if "bias" not in p.null:
        value, magnitude = value + a["bias"].values, magnitude + np.abs(a["bias"].values)
    sums = np.broadcast_to(np.abs(x).sum(1, keepdims=True), value.shape)
    return {"y": Expected(value, s["k"], magnitude, sums)}


def case():
    row = ROWS["mx_matmul_{T}"]
    nulls = [Bad(f"null_{p.name}", 2, rf"{p.name} is NULL", null=(p.name,)) for p in row.pointers if p.is_required]
    odd = [Bad(f"odd_{n}", 1, rf"{n} is 0x", shift={n: 1}) for n in ("x", "tensor_scale", "bias", "y")]
    problems = {
        "plain": lambda d: product(d, 3, 5, 64, NVFP4, scale=0.25),
        "one": lambda d: product(d, 1, 1, 32, 0, bias=False),
        "nv_scaled": lambda d: product(d, 7, 19, 80, NVFP4, scale=0.01),
        "nv_one": lambda d: product(d, 1, 3, 16, NVFP4, scale=2.0),
        "no_columns": lambda d: product(d, 3, 7, 0, 0),
        "nan": lambda d: product(d, 9, 40, 96, 0, kind="nan"),
        "invariant": lambda d: product(d, 21, 18, 96, 3, backend=5),
        "large": lambda d: product(d, 70, 130, 416, 0, layout=1),
        **{f"m{m}": lambda d, m=m: product(d, m, 35, 288, 0, bias=m % 2 == 0) for m in (1, 2, 8, 9, 17, 33)},
        "decoded_rows": lambda d: product(d, 131, 136, 96, NVFP4, scale=0.25, bias=False, backend=DECODED),
        "decoded_nan": lambda d: product(d, 9, 40, 96, 0, kind="nan", backend=DECODED),
        "invariant_rows": lambda d: product(d, 40, 18, 96, 3, backend=5),
        **{f"few{m}": lambda d, m=m: product(d, m, 35, 320, NVFP4 * (m % 2), layout=m // 8 % 2) for m in (1, 8, 9, 33)},
        "few_invariant": lambda d: product(d, 40, 18, 192, 0, backend=5),
        "few_nan": lambda d: product(d, 9, 40, 128, 0, kind="nan"),
        **{f"tile{b}": lambda d, b=b: product(d, 70, 67, 224, 0, backend=b) for b in TILES},
    }  # fmt: skip
    for form in range(len(low_floats.MX)):
        problems[f"format{form}"] = lambda d, f=form: product(d, 4, 19, 160, f)
        problems[f"rows{form}"] = lambda d, f=form: product(d, 11, 9, 96, f, layout=1)
        problems[f"tile_of_format{form}"] = lambda d, f=form: product(d, 5, 70, 192, f, layout=f % 2, backend=6)
        problems[f"decoded{form}"] = lambda d, f=form: product(d, 35, 67, 160, f, layout=f % 2, backend=DECODED)
    return Case(
        row=row.name, problems=problems, reference=reference, tolerance={"y": "gemm_of_rounded"},
        tolerance_without_workspace={"y": "gemm"}, plain="plain", large="large",
        bad=(
            *(Bad(f"negative_{e}", 2, rf"{e} is -1, must be >= 0", {e: -1}, can=2) for e in "mnk"),
            *choices("mx_format", 7), *choices("scale_layout", 2),
            Bad("part_of_a_block", 2, "k is 40, must be a multiple of 16, the format's block", {"k": 40}, can=2),
            Bad("no_backend", 2, r"backend is 1, must be 0, 5 \(batch-invariant\), 6 to 8", {"backend": 1}, can=2),
            *nulls, *odd,
        ),
        idle=(Idle("no_rows", {"m": 0}), Idle("no_weights", {"n": 0})),
    )  # fmt: skip


CASES = (case(),)
