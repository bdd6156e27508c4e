# SPDX-License-Identifier: Apache-2.0
"""Float-coded formats at the sizes of a model's weights: quantised, dequantised, and NF4 products beside dense ones."""

import numpy as np

from tools.bench.check import rows, sample_indices
from tools.bench.record import Bench, Bound, Operand, Sweep
from tools.oracle import low_floats
from tools.oracle.code_books import BOOKS, NF4

N, K = 14_336, 4096
BLOCK = 64
MX_FORMATS = {"mxfp4": 0, "mxfp6_e2m3": 1, "mxfp8_e4m3": 3, "nvfp4": 6}
UNMEASURED = {
    "nf4_gemv_m2_{T}": "nf4_gemv_m1 and m8 are the ends of its range",
    "nf4_gemv_m4_{T}": "nf4_gemv_m1 and m8 are the ends of its range",
    "swizzle_scales_{T}": "scales are a sixteenth of the codes; quantize_mx writes them swizzled",
}


def codes_of(*shape):
    return Operand(shape, lambda rng: rng.integers(0, 256, shape))


def torch_dense(torch, t, scalars):
    """The dense product of the same shape."""
    n, k = scalars["n"], scalars["k"]
    x = t["y"] if "w_packed" in t else t["x"]
    w = torch.ones((n, k), dtype=x.dtype, device=x.device)
    return lambda: torch.nn.functional.linear(x, w)


def torch_fp8(torch, t, scalars):
    """Quantisation by groups in PyTorch's ops."""
    dtype = torch.float8_e4m3fn

    def peer():
        groups = t["x"].view(t["x"].shape[0], -1, 128).float()
        scale = groups.abs().amax(-1, keepdim=True).clamp(min=1e-4) / 448
        return (groups / scale).to(dtype), scale

    return peer


def is_nf4(problem):
    """Some rows of dequantised weights."""
    w, absmax = "w_packed", "absmax"
    for pair in sample_indices(problem, N // 2, 2):
        packed = rows(problem, w, [pair])[0].astype(np.int64)
        for half in (0, 1):
            scale = np.repeat(rows(problem, absmax, [2 * pair + half])[0], BLOCK)
            found, wanted = rows(problem, "out", [2 * pair + half])[0], NF4[packed >> 4 * half & 15] * scale
            if np.abs(found - wanted).max() > 0.005 * np.abs(wanted).max():
                return f"row {2 * pair + half} of the weights is wrong"
    return ""


def is_nf4_product(problem):
    """Results of some rows of weights."""
    y = problem.data.cells(problem.buffers["y"], np.arange(K)).astype(np.float64)
    for pair in sample_indices(problem, N // 2, 3):
        packed = rows(problem, "w_packed", [pair])[0].astype(np.int64)
        scale = np.repeat(rows(problem, "absmax", [2 * pair])[0], BLOCK)
        summands = NF4[packed & 15] * scale * y
        found = float(problem.data.cells(problem.buffers["out"], np.array([2 * pair]))[0])
        if abs(found - summands.sum()) > 1e-2 * np.abs(summands).sum():
            return f"out[0, {2 * pair}] is {found:g}, expected {summands.sum():g}"
    return ""


def is_four_bit(problem):
    """Some flat elements."""
    scalars = problem.bench.scalars
    at = np.unique(sample_indices(problem, N * K // 2, 64))
    packed = problem.data.cells(problem.buffers["codes"], at).astype(np.int64)
    scale = problem.data.cells(problem.buffers["absmax"], 2 * at // BLOCK)
    found = problem.data.cells(problem.buffers["y"], 2 * at)
    wanted = BOOKS[scalars["book"]][packed >> 4] * scale
    return "" if np.abs(found - wanted).max() <= 0.01 * np.abs(wanted).max() else "an element of y is wrong"


def is_mx(problem):
    """Some rows, within the elements' accuracy, whatever the direction."""
    scalars = problem.bench.scalars
    form = scalars["mx_format"]
    wide = "x" if "x" in problem.buffers else "y"
    for row in sample_indices(problem, scalars["rows"], 2):
        values = rows(problem, wide, [row])[0].astype(np.float64)
        codes = low_floats.unpack(rows(problem, "codes", [row]).astype(np.int64), low_floats.mx_bits(form))
        scales = rows(problem, "scales", [row]).astype(np.int64)
        made = low_floats.dequantize_mx(codes, scales, form)[0]
        both = np.isfinite(made) & np.isfinite(values)
        largest = np.abs(values[both]).max(initial=0)
        if np.abs(made[both] - values[both]).max(initial=0) > 0.3 * largest:
            return f"row {row} differs from its codes"
    return ""


def is_fp8(problem):
    """Some rows: codes times scales are near x."""
    for row in sample_indices(problem, N, 2):
        x = rows(problem, "x", [row])[0].astype(np.float64)
        scale = np.repeat(problem.data.cells(problem.buffers["scale"], row * (K // 128) + np.arange(K // 128)), 128)
        y = rows(problem, "y", [row])[0].astype(np.float64)
        wide, narrow = (x, y) if problem.bench.row.startswith("quantize") else (y, x)
        if np.abs(narrow * scale - wide).max() > 0.04 * np.abs(wide).max():
            return f"row {row} differs from its codes"
    return ""


def unchecked(_problem):
    return ""  # tests/cases has the reference


def gemv(name, row, m, n=N, k=K, bounds=()):
    return Bench(
        name=name, row=row, dtypes=("bf16",), check=is_nf4_product if (n, k) == (N, K) else unchecked,
        torch=(torch_dense,), bounds=bounds, flops=2 * m * n * k, scalars={"n": n, "k": k, "block_size": BLOCK},
        arrays={
            "w_packed": codes_of(n // 2, k), "absmax": Operand((n, k // BLOCK), "normal"),
            "y": Operand((m, k), "normal"), "out": Operand((m, n)),
        },
    )  # fmt: skip


def gemv_4bit(name, m, n=N, k=K, bounds=()):
    return Bench(
        name=name, row="gemv_4bit_{T}", dtypes=("bf16",), check=unchecked, torch=(torch_dense,), bounds=bounds,
        flops=2 * m * n * k, scalars={"m": m, "n": n, "k": k, "block_size": BLOCK, "book": 0},
        arrays={
            "x": Operand((m, k), "normal"), "codes": codes_of(n * k // 2),
            "absmax": Operand((n * k // BLOCK,), "normal"), "y": Operand((m, n)),
        },
    )  # fmt: skip


def benches(backend):
    copy = (Bound("copy", 0.9),) if backend == "cuda" else ()
    faster = (Bound("peer", 1.0),) if backend == "cuda" else ()
    products = (Bound("copy", 0.85),) if backend == "cuda" else ()
    numel = N * K
    yield Bench(
        name="nf4_dequantize", row="nf4_dequantize_{T}", dtypes=("bf16", "f32"), check=is_nf4, bounds=copy,
        scalars={"n": N, "k": K, "block_size": BLOCK},
        arrays={
            "w_packed": codes_of(N // 2, K), "absmax": Operand((N, K // BLOCK), "normal"), "out": Operand((N, K))
        },
    )  # fmt: skip
    yield gemv("nf4_gemv_m1", "nf4_gemv_m1_{T}", 1, bounds=products)
    yield gemv("nf4_gemv_m8", "nf4_gemv_m8_{T}", 8, bounds=faster)
    for m in (1, 4, 16):
        yield gemv_4bit(f"gemv_4bit, {m} rows", m, bounds=products if m == 1 else ())
    for book, name in enumerate(("nf4", "fp4")):
        flat = {"numel": numel, "block_size": BLOCK, "book": book}
        operands = {"codes": Operand((numel // 2,)), "absmax": Operand((numel // BLOCK,))}
        yield Bench(
            name=f"quantize_4bit, {name}", row="quantize_4bit_{T}", dtypes=("bf16",), check=unchecked, bounds=copy,
            scalars=flat, arrays={"x": Operand((numel,), "normal"), **operands},
        )  # fmt: skip
        yield Bench(
            name=f"dequantize_4bit, {name}", row="dequantize_4bit_{T}", dtypes=("bf16",), check=is_four_bit,
            bounds=copy, scalars=flat,
            arrays={
                "codes": codes_of(numel // 2), "absmax": Operand((numel // BLOCK,), "normal"), "y": Operand((numel,)),
            },
        )  # fmt: skip
    blocks = {"numel": numel, "block_size": 256}
    steps = Operand((256,), "normal")
    yield Bench(
        name="quantize_8bit_blocks", row="quantize_8bit_blocks_{T}", dtypes=("f32",), check=unchecked, scalars=blocks,
        arrays={
            "x": Operand((numel,), "normal"), "map": steps, "codes": Operand((numel,)),
            "absmax": Operand((numel // 256,)),
        },
    )  # fmt: skip
    yield Bench(
        name="dequantize_8bit_blocks", row="dequantize_8bit_blocks_{T}", dtypes=("f32",), check=unchecked, bounds=copy,
        scalars=blocks,
        arrays={
            "codes": codes_of(numel), "absmax": Operand((numel // 256,), "normal"), "map": steps,
            "y": Operand((numel,)),
        },
    )  # fmt: skip
    for direction in ("encode", "decode"):
        wide, bytes_ = ("x", Operand((numel,), "normal")), ("codes", codes_of(numel))
        ends = (wide, ("codes", Operand((numel,)))) if direction == "encode" else (bytes_, ("y", Operand((numel,))))
        yield Bench(
            name=f"{direction}_floats, e4m3", row=f"{direction}_floats_{{T}}", dtypes=("bf16",), check=unchecked,
            bounds=copy, scalars={"numel": numel, "float_format": 3}, arrays=dict(ends),
        )  # fmt: skip
    for name, form in MX_FORMATS.items():
        width = K * low_floats.mx_bits(form) // 8
        scales = (N, K // low_floats.MX[form][1])
        numbers = {"rows": N, "n": K, "mx_format": form, "scale_layout": 0}
        yield Bench(
            name=f"quantize_mx, {name}", row="quantize_mx_{T}", dtypes=("bf16",), check=is_mx, bounds=copy,
            scalars=numbers | {"scale_rule": 0},
            arrays={"x": Operand((N, K), "normal"), "codes": Operand((N, width)), "scales": Operand(scales)},
        )  # fmt: skip
        yield Bench(
            name=f"dequantize_mx, {name}", row="dequantize_mx_{T}", dtypes=("bf16",), check=unchecked, bounds=copy,
            scalars=numbers,
            arrays={"codes": codes_of(N, width), "scales": codes_of(*scales), "y": Operand((N, K))},
        )  # fmt: skip
    yield from fp8(copy)


def fp8(copy):
    numbers = {"rows": N, "columns": K, "powers_of_two": 0}
    counts = {"tensor": 1, "rows": N, "groups": N * K // 128, "blocks": N * K // 128**2}
    counts_t = counts | {"rows": K}
    for scaling, name in enumerate(counts):
        whole = {"x": Operand((N, K), "normal"), "y": Operand((N, K)), "scale": Operand((counts[name],))}
        yield Bench(
            name=f"quantize_fp8, {name}", row="quantize_fp8_{T}_{U}", other="fp8e4m3", dtypes=("bf16",),
            check=is_fp8 if name == "groups" else unchecked, torch=(torch_fp8,) if name == "groups" else (),
            workspace=scaling < 2, bounds=copy if scaling > 1 else (), scalars=numbers | {"fp8_scaling": scaling},
            arrays=whole,
        )  # fmt: skip
        if scaling > 1:
            both = whole | {"y_t": Operand((K, N)), "scale_t": Operand((counts_t[name],))}
            yield Bench(
                name=f"quantize_fp8, {name}, both ways", row="quantize_fp8_{T}_{U}", other="fp8e4m3", dtypes=("bf16",),
                check=unchecked, scalars=numbers | {"fp8_scaling": scaling}, arrays=both,
            )  # fmt: skip
    yield Bench(
        name="dequantize_fp8, groups", row="dequantize_fp8_{T}_{U}", other="bf16", dtypes=("fp8e4m3",), check=is_fp8,
        bounds=copy, scalars={"rows": N, "columns": K, "fp8_scaling": 2},
        arrays={
            "x": Operand((N, K), "normal"), "scale": Operand((counts["groups"],), "normal"), "y": Operand((N, K))
        },
    )  # fmt: skip


def sweeps(backend):
    """Rows of x, and K."""
    points = {m: gemv_4bit(f"{m} rows", m, 4096, 4096) for m in (1, 2, 3, 4, 8, 9, 16, 32)}
    yield Sweep(name="gemv_4bit, 4096 x 4096", axis="M", points=points)
    depths = {k: gemv_4bit(f"k {k}", 1, 4096, k) for k in (256, 1024, 4096, 4160, 14_336)}
    yield Sweep(name="gemv_4bit, one row", axis="K", points=depths)
