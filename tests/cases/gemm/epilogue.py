# SPDX-License-Identifier: Apache-2.0
"""GEMM with every step of the epilogue, and gated GEMM."""

import functools

import numpy as np

from ..model import Bad, Case, Expected, Idle, Problem
from .gemm import ACTIVATIONS, LAYOUTS, matrix, rounded_to_tf32

BY_ACTIVATION = tuple(ACTIVATIONS.values())
OPTIONAL = ("c", "bias", "row_bias", "row_scale", "column_scale", "r", "z")
ROW = "gemm_epilogue_{T}"
TF32, WIDE, GATED = "gemm_epilogue_t{T}", "gemm_epilogue_{T}_{U}", "gemm_gated_{T}"


def compute_of(dtype):
    return "f64" if dtype == "f64" else "f32"


def pitches(arrays, *, batch=True):
    found = {}
    for name, array in arrays.items():
        if len(array.shape) == (3 if batch else 2):
            found[f"ld{name}"] = max(array.strides[-2], 1)
            found |= {f"stride_{name}": array.strides[0]} if batch else {}
    return found


def epilogue(
    draw, m, n, k, batch=1, *, layout=0, activation=0, coeffs=(0.75, -1.5), gap=0, null=(), shared=(), values="normal",
):  # fmt: skip
    """Matrices named in `shared` serve the whole batch; those of a batch lie 3 elements apart."""
    of_d = draw.other or draw.dtype
    sizes = {
        "a": (k, m) if layout >= 2 else (m, k), "b": (n, k) if layout % 2 else (k, n), "c": (m, n), "r": (m, n),
        "z": (m, n), "d": (m, n),
    }  # fmt: skip
    arrays = {}
    for name, (rows, columns) in sizes.items():
        step = 0 if name in shared else max(rows * (columns + gap), 1) + 3
        arrays[name] = matrix(
            draw,
            rows,
            columns,
            gap,
            values if name in "ab" else "normal",
            of_d if name in "crzd" else "",
            (batch, step),
        )
    if not ("c" in null and coeffs[1]):
        arrays["d"].values = None
    arrays["z"].values = None
    of_steps = {"bias": (n, ""), "row_bias": (m, ""), "row_scale": (m, "compute"), "column_scale": (n, "compute")}
    for name, (size, kind) in of_steps.items():
        arrays[name] = draw.floats((size,), dtype=compute_of(draw.dtype) if kind else "")
    scalars = {"m": m, "n": n, "k": k, "batch": batch, "layout": layout, "activation": activation, "backend": 0}
    scalars |= {"alpha": coeffs[0], "beta": coeffs[1]} | pitches(arrays)
    return Problem(scalars, arrays, null=tuple(null))


def operands(p, b, *, tf32=False):
    a, b = p.arrays["a"].values, p.arrays[b].values
    layout = LAYOUTS[p.scalars["layout"]]
    a = np.swapaxes(a, -1, -2) if layout[0] == "c" else a
    b = np.swapaxes(b, -1, -2) if layout[1] == "c" else b
    return (rounded_to_tf32(a), rounded_to_tf32(b)) if tf32 else (a, b)


def reference(p, tf32=False):
    s, arrays = p.scalars, {name: array.values for name, array in p.arrays.items() if name not in p.null}
    a, b = operands(p, "b", tf32=tf32)
    scale = np.full((s["m"], s["n"]), s["alpha"])
    scale = scale * arrays["row_scale"][:, None] if "row_scale" in arrays else scale
    scale = scale * arrays["column_scale"] if "column_scale" in arrays else scale
    with np.errstate(invalid="ignore", over="ignore"):
        z, magnitude = scale * np.matmul(a, b), np.abs(scale) * np.matmul(np.abs(a), np.abs(b))
        more = [arrays["bias"]] if "bias" in arrays else []
        more += [arrays["row_bias"][:, None]] if "row_bias" in arrays else []
        more += [s["beta"] * arrays["c" if "c" in arrays else "d"]] if s["beta"] else []
        for each in more:
            z, magnitude = z + each, magnitude + np.abs(each)
        magnitude = np.where(np.isnan(magnitude), 0, magnitude)
        found = {} if "z" in p.null else {"z": Expected(z, count=s["k"], magnitude=magnitude)}
        d = BY_ACTIVATION[s["activation"]](z)
        if "r" in arrays:
            d, magnitude = d + arrays["r"], magnitude + np.abs(arrays["r"])
        return found | {"d": Expected(d, count=s["k"], magnitude=magnitude)}


def without(*names):
    return tuple(name for name in OPTIONAL if name not in names)


PROBLEMS = {
    "plain": lambda d: epilogue(d, 7, 9, 11, activation=4),
    "batch": lambda d: epilogue(d, 7, 9, 11, 3, activation=4),
    "none": lambda d: epilogue(d, 21, 19, 24, coeffs=(0.5, 0), null=OPTIONAL),
    "adds": lambda d: epilogue(d, 21, 19, 24, null=OPTIONAL),
    "scales": lambda d: epilogue(d, 33, 20, 17, layout=1, null=without("row_scale", "column_scale")),
    "row_bias": lambda d: epilogue(d, 18, 40, 9, layout=2, activation=3, null=without("row_bias")),
    "residual": lambda d: epilogue(d, 40, 24, 33, 2, layout=1, activation=2, coeffs=(1, 0), null=without("r", "bias")),
    "residual_alone": lambda d: epilogue(d, 40, 24, 33, 2, layout=1, coeffs=(0.5, 0), gap=3, null=without("r")),
    "residual_on_d": lambda d: epilogue(d, 21, 19, 24, 2, null=without("r")),
    "saved": lambda d: epilogue(d, 30, 26, 8, layout=1, activation=4, null=without("z", "bias")),
    "gaps": lambda d: epilogue(d, 20, 17, 40, 2, layout=2, activation=1, gap=3),
    "both_transposed": lambda d: epilogue(d, 21, 19, 24, 2, layout=3, activation=3, gap=1),
    "both_transposed_few_rows": lambda d: epilogue(d, 6, 70, 300, layout=3, activation=2),
    "both_transposed_tile": lambda d: epilogue(d, 136, 72, 64, layout=3, null=OPTIONAL, coeffs=(1, 0)),
    "shared": lambda d: epilogue(d, 16, 24, 32, 3, layout=1, shared=("b", "c", "r")),
    "row": lambda d: epilogue(d, 1, 130, 70, layout=1, activation=2),
    "few_rows": lambda d: epilogue(d, 5, 64, 96, 2, activation=3),
    "column": lambda d: epilogue(d, 131, 1, 70, activation=4),
    "zero_k": lambda d: epilogue(d, 6, 5, 0, 2, activation=2),
    "past_tile": lambda d: epilogue(d, 129, 130, 68, layout=1, activation=4),
    "long": lambda d: epilogue(d, 3, 40, 1500, activation=4, null=without("bias", "r")),
    "special": lambda d: epilogue(d, 24, 17, 40, values="special", null=without("bias")),
    "large": lambda d: epilogue(d, 150, 201, 517, layout=1, activation=4),
}
BRIEF = ("none", "scales", "saved", "few_rows", "past_tile")


def gated(draw, m, n, k, *, layout=0, activation=3, alpha=0.75, gap=0, null=()):
    sizes = {"a": (k, m) if layout >= 2 else (m, k), "z1": (m, n), "z2": (m, n), "d": (m, n)}
    sizes |= dict.fromkeys(("b1", "b2"), (n, k) if layout % 2 else (k, n))
    arrays = {name: matrix(draw, *size, gap) for name, size in sizes.items()}
    for name in ("z1", "z2", "d"):
        arrays[name].values = None
    arrays |= {name: draw.floats((n,)) for name in ("bias1", "bias2")}
    scalars = {"m": m, "n": n, "k": k, "layout": layout, "activation": activation, "backend": 0, "alpha": alpha}
    return Problem(scalars | pitches(arrays, batch=False), arrays, null=tuple(null))


def gated_reference(p):
    z, magnitude = {}, {}
    for k in "12":
        a, b = operands(p, f"b{k}")
        bias = 0 if f"bias{k}" in p.null else p.arrays[f"bias{k}"].values
        z[k] = p.scalars["alpha"] * (a @ b) + bias
        magnitude[k] = np.abs(p.scalars["alpha"]) * (np.abs(a) @ np.abs(b)) + np.abs(bias)
    k, left = p.scalars["k"], BY_ACTIVATION[p.scalars["activation"]](z["1"])
    found = {f"z{x}": Expected(z[x], count=k, magnitude=magnitude[x]) for x in "12" if f"z{x}" not in p.null}
    both = 1.1 * (magnitude["1"] * np.abs(z["2"]) + (np.abs(left) + 1e-3 * magnitude["1"]) * magnitude["2"])
    return found | {"d": Expected(left * z["2"], count=k, magnitude=both)}


WITHOUT_Z = ("z1", "z2")
GATED_PROBLEMS = {
    "plain": lambda d: gated(d, 7, 9, 11),
    "columns": lambda d: gated(d, 21, 40, 24, layout=1, null=WITHOUT_Z),
    "transposed": lambda d: gated(d, 21, 19, 24, layout=2, activation=4, null=("bias1", "bias2", "z1")),
    "gaps": lambda d: gated(d, 20, 17, 40, layout=1, activation=2, gap=3, null=("z2",)),
    "row": lambda d: gated(d, 1, 130, 70, layout=1, null=WITHOUT_Z),
    "few_rows": lambda d: gated(d, 5, 136, 330, layout=1, null=("z1",)),
    "few_rows_wide": lambda d: gated(d, 3, 136, 330, activation=2),
    "column": lambda d: gated(d, 131, 1, 70, activation=1),
    "zero_k": lambda d: gated(d, 6, 5, 0, activation=0),
    "aligned": lambda d: gated(d, 64, 96, 64, layout=1, activation=4),
    "both_transposed": lambda d: gated(d, 40, 24, 35, layout=3, gap=1),
    "both_transposed_aligned": lambda d: gated(d, 64, 96, 64, layout=3, activation=4),
    "past_tile": lambda d: gated(d, 129, 72, 68, null=("bias1",)),
    "large": lambda d: gated(d, 150, 201, 517, layout=1),
}


def bad(operands, optional, aligned, extents):
    calls = [Bad(f"negative_{e}", 2, rf"{e} is -4", {e: -4}, can=2) for e in extents]
    for name, values in (("layout", (-1, 4)), ("activation", (-1, 5)), ("backend", (-1, 6))):
        calls += [Bad(f"{name}_{v}", 2, rf"{name} is {v}, must be 0 \(", {name: v}, can=2) for v in values]
    calls += [Bad(f"of_others_{v}", 3, rf"backend is {v}, but ", {"backend": v}, can=3) for v in (3, 4)]
    for name in operands:
        calls += [Bad(f"null_{name}", 2, rf"{name} is NULL", null=(name,))]
        far = {"ldb1": 2**62, "ldb2": 2**62} if name.startswith("b") and "b1" in operands else {f"ld{name}": 2**62}
        calls += [Bad(f"ld{name}_far", 2, rf"ld\w+ is {2**62}", far, can=2)]
        if name != "b2":
            calls += [Bad(f"ld{name}_{v}", 2, rf"ld{name} is {v}, must be", {f"ld{name}": v}, can=2) for v in (-4, 2)]
    for name in optional:
        calls += [Bad(f"ld{name}_{v}", 2, rf"ld{name} is {v}, must be", {f"ld{name}": v}) for v in (-4, 2)]
        calls += [Bad(f"ld{name}_0", 2, rf"{name} is 0x[0-9a-f]+, but ld{name} is 0, must be", {f"ld{name}": 0})]
    return (*calls, *(Bad(f"odd_{p}", 1, rf"{p} is 0x[0-9a-f]+", shift={p: 1}) for p in aligned))


BAD = (
    *bad("abd", "crz", ("a", "b", "d", *OPTIONAL), ("m", "n", "k", "batch")),
    Bad("d_step", 2, "stride_d is 0", {"stride_d": 0, "batch": 2}, can=2),
    Bad("z_step", 2, "stride_z is 0", {"stride_z": 0, "batch": 2}),
)
GATED_BAD = (
    *bad(("a", "b1", "b2", "d"), ("z1", "z2"), ("a", "b1", "b2", "bias1", "bias2", "z1", "z2", "d"), ("m", "n", "k")),
    *(Bad(f"ldb2_{v}", 2, rf"ldb2 is {v}, must be ldb1", {"ldb2": v}, can=2) for v in (-4, 12)),
)
IDLE = (Idle("no_rows", {"m": 0}), Idle("no_columns", {"n": 0}))

CASES = (
    *(
        Case(
            row=row, problems=PROBLEMS, reference=functools.partial(reference, tf32=row == TF32),
            tolerance={"z": "gemm", "d": "gemm"}, plain="plain", large="large", bad=BAD,
            idle=(*IDLE, Idle("no_batch", {"batch": 0})), brief=BRIEF if row != ROW else (),
            full=lambda slots, row=row: row == ROW,
        )
        for row in (ROW, TF32, WIDE)
    ),
    Case(
        row=GATED, problems=GATED_PROBLEMS, reference=gated_reference,
        tolerance={"z1": "gemm", "z2": "gemm", "d": "gemm"}, plain="plain", large="large", bad=GATED_BAD,
        idle=IDLE,
    ),
)  # fmt: skip
