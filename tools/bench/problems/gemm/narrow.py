# SPDX-License-Identifier: Apache-2.0
"""GEMM with elements of 8 bits and less, and with 2:4 sparse and 4-bit weights."""

import numpy as np

from tools.bench.check import compare, sample_indices
from tools.bench.record import Bench, Bound, Operand

_EPILOGUE = "another epilogue of a kernel that is measured: bias and activation are run-time choices"
_ALIKE = "the kernels of {} with another conversion"
UNMEASURED = {
    **{
        f"gemm_fp8_{name}_{layout}_sm89_bias{f}": _EPILOGUE
        for name in ("e4m3", "e5m2") for layout in ("rcr", "rrr") for f in ("", "_{F}")
    },
    **{
        f"gemm_{name}_{layout}_sm89_bias{f}_{{U}}": _EPILOGUE
        for name in ("s4", "u4") for layout in ("rcr", "rrr") for f in ("", "_{F}")
    },
    **{f"gemm_fp8_e5m2_{layout}_sm89": _ALIKE.format("e4m3") for layout in ("rcr", "rrr")},
    "gemm_{T}_sparse24_inflate": "the first kernel of sparse24 of many rows",
    **dict.fromkeys(("gemm_dense_{T} of nibbles", "gemm_dense_bin"), "the kernels of the single products, for a batch"),
    **{f"gemm_u4_{layout}_sm89": _ALIKE.format("s4") for layout in ("rcr", "rrr")},
}  # fmt: skip


def words(*shape):
    """Words of 32 random bits."""
    return Operand(shape, lambda rng: rng.integers(-(2**31), 2**31, shape))


def torch_scaled(torch, t, scalars):
    """torch._scaled_mm with scales of 1."""
    one = torch.ones((), device=t["a"].device)
    return lambda: torch._scaled_mm(t["a"], t["b"].mT, scale_a=one, scale_b=one, out_dtype=torch.bfloat16)


def torch_dense(torch, t, scalars):
    """The dense product of the same shape."""
    dense = t["w_compressed"].repeat(1, 2)
    return lambda: torch.matmul(t["x"], dense.mT, out=t["y"])


def elements(values, bits, signed=False):
    """Elements of bytes or words, the lowest bits first."""
    whole = np.asarray(values).astype(np.int64)[..., None]
    width = 8 * np.asarray(values).dtype.itemsize
    fields = (whole >> np.arange(0, width, bits)) & ((1 << bits) - 1)
    return ((fields ^ 8) - 8 if signed else fields).reshape(-1)


def check_product(problem):
    """Sampled results; fp8 within a few ulp."""
    bench, scalars = problem.bench, problem.bench.scalars
    m, n, k = scalars["m"], scalars["n"], scalars["k"]
    rcr, bits = "_rcr" in bench.row, 1 if "_bin_" in bench.row else 4 if "_s4_" in bench.row else 8
    each = 8 // bits
    for i, j in zip(sample_indices(problem, m, 6), sample_indices(problem, n, 6)):
        a = problem.data.cells(problem.buffers["a"], i * (k // each) + np.arange(k // each))
        across = np.arange(k) * (n // each) + j // each
        b = problem.data.cells(problem.buffers["b"], j * (k // each) + np.arange(k // each) if rcr else across)
        if bits == 8:
            z = float(np.clip((a.astype(np.float64) * b).sum() * scalars["alpha"], -448, 448))
            got = float(problem.data.cells(problem.buffers["d"], np.array([i * n + j]))[0])
            if abs(got - z) > 0.07 * abs(z) + 2.0**-9:
                return f"d[{i}, {j}] is {got:g}, expected {z:g}"
            continue
        a = elements(a.astype(np.uint8), bits, bits == 4)
        b = b.astype(np.uint8)
        b = elements(b, bits, bits == 4) if rcr else elements(b, bits, bits == 4).reshape(k, each)[:, j % each]
        if bits == 1:
            z, got = (a != b).sum(), problem.data.cells(problem.buffers["d"], np.array([i * n + j]))[0]
        else:
            z = np.clip(np.rint((a * b).sum() * scalars["alpha"]), -8, 7)
            byte = problem.data.cells(problem.buffers["d"], np.array([(i * n + j) // 2])).astype(np.uint8)
            got = elements(byte, 4, True)[j % 2]
        if got != z:
            return f"d[{i}, {j}] is {got}, expected {z}"
    return ""


def check_sparse(problem):
    scalars = problem.bench.scalars
    n, m, k = (scalars[name] for name in "nmk")
    metadata = problem.indices["w_metadata"]
    for i, j in zip(sample_indices(problem, n, 4), sample_indices(problem, m, 4)):
        x = problem.data.cells(problem.buffers["x"], i * k + np.arange(k)).astype(np.float64)
        stored = problem.data.cells(problem.buffers["w_compressed"], j * (k // 2) + np.arange(k // 2)).astype(
            np.float64
        )
        pairs = np.stack([metadata[j] & 255, metadata[j] >> 8], -1).reshape(-1)
        dense = np.zeros((k // 4, 4))
        for v, shift in enumerate((0, 2)):
            dense[np.arange(k // 4), pairs >> shift & 3] = stored.reshape(-1, 2)[:, v]
        products = x * dense.reshape(-1)
        got = problem.data.cells(problem.buffers["y"], np.array([i * m + j])).astype(np.float64)
        if wrong := compare(problem, got, np.array([products.sum()]), np.abs(products).sum() * 4):
            return f"y[{i}, {j}] {wrong}"
    return ""


def check_awq(problem):
    scalars = problem.bench.scalars
    m, k, n, group = scalars.get("M", 0), scalars.get("IC", scalars.get("K")), scalars.get("OC", scalars.get("N")), 128
    for j in sample_indices(problem, n, 4):
        q, zero = (elements(problem.indices[name][j].astype(np.int32), 4) for name in ("kernel_weights", "zeros"))
        row = problem.buffers["scaling_factors"].operand.shape[1]
        g = np.arange(k) // group
        scale = problem.data.cells(problem.buffers["scaling_factors"], j * row + g).astype(np.float64)
        w = (scale * (q - zero[g])).astype(np.float16).astype(np.float64)
        if not m:
            got = problem.data.cells(problem.buffers["out"], j * k + np.arange(k)).astype(np.float64)
            if (got != w).any():
                return f"out[{j}] differs"
            continue
        for i in sample_indices(problem, m, 2):
            x = problem.data.cells(problem.buffers["in_feats"], i * k + np.arange(k)).astype(np.float64)
            got = problem.data.cells(problem.buffers["out"], np.array([i * n + j])).astype(np.float64)
            if wrong := compare(problem, got, np.array([(x * w).sum()]), np.abs(x * w).sum() * 4):
                return f"out[{i}, {j}] {wrong}"
    return ""


def check_marlin(problem):
    scalars = problem.bench.scalars
    m, n, k = (scalars[name] for name in ("M", "N", "K"))
    words_of = problem.indices["b"]
    for j in sample_indices(problem, n, 4):
        rows = np.arange(k)
        r, upper = rows % 16, j % 16 // 8 * 4
        element = upper + r // 8 * 2 + r % 2
        column = j // 64 * 128 + (j % 8 * 4 + r % 8 // 2) * 4 + j % 64 // 16
        q = words_of[rows // 16, column].astype(np.int64) >> 4 * (element % 2 * 4 + element // 2) & 15
        slot = j // 64 * 64 + j % 8 * 8 + j % 64 // 8
        scale = problem.data.cells(problem.buffers["scales"], rows // 128 * n + slot).astype(np.float64)
        for i in sample_indices(problem, m, 2):
            x = problem.data.cells(problem.buffers["a"], i * k + rows).astype(np.float64)
            products = x * scale * (q - 8)
            got = problem.data.cells(problem.buffers["c"], np.array([i * n + j])).astype(np.float64)
            if wrong := compare(problem, got, np.array([products.sum()]), np.abs(products).sum() * 4):
                return f"c[{i}, {j}] {wrong}"
    return ""


def packed(name, row, m, n, k, dtype, each, *, layout, numbers=None, **given):
    shapes = {"a": (m, k // each), "b": (n, k // each) if layout == "rcr" else (k, n // each)}
    d = (m, n // 2) if each == 2 else (m, n)
    fill = "counts" if each > 1 else "sixteenths"
    arrays = {x: Operand(s, fill) for x, s in shapes.items()} | {"d": Operand(d)}
    scalars = {"m": m, "n": n, "k": k} | {f"ld{x}": o.shape[1] for x, o in arrays.items()}
    if numbers is not None:
        scalars |= {"alpha": numbers, "beta": 0.0, "ldc": d[1]}
    return Bench(
        name=name,
        row=row,
        dtypes=(dtype,),
        arrays=arrays,
        scalars=scalars,
        check=check_product,
        flops=2 * m * n * k,
        **given,
    )


def products(backend):
    sizes = (4096, 8192) if backend == "cuda" else (1024,)
    for side in sizes:
        for layout in ("rcr", "rrr"):
            peers = {"torch": (torch_scaled,)} if layout == "rcr" else {}
            size = (side, side, side)
            yield packed(
                f"gemm fp8 {layout} {side}^3", f"gemm_fp8_e4m3_{layout}_sm89", *size, "fp8e4m3", 1, layout=layout,
                numbers=2.0**-5, workspace=layout == "rrr", **peers,
            )  # fmt: skip
            yield packed(
                f"gemm s4 {layout} {side}^3", f"gemm_s4_{layout}_sm89", *size, "s4", 2, layout=layout, numbers=2.0**-9
            )
            yield packed(f"gemm bin {layout} {side}^3", f"gemm_bin_{layout}_sm89", *size, "u8", 8, layout=layout)


def sparse(name, n, m, k, dtypes):
    arrays = {
        "x": Operand((n, k), "sixteenths"), "w_compressed": Operand((m, k // 2), "sixteenths"),
        "w_metadata": Operand((m, k // 8), lambda rng: rng.integers(0, 1 << 16, (m, k // 8))), "y": Operand((n, m)),
    }  # fmt: skip
    return Bench(
        name=name, row="gemm_{T}_sparse24_gemm", dtypes=dtypes, arrays=arrays, scalars={"n": n, "m": m, "k": k},
        check=check_sparse, torch=(torch_dense,), workspace=n > 8, flops=2 * n * m * k,
    )  # fmt: skip


def marlin(m, n, k):
    arrays = {
        "a": Operand((m, k), "sixteenths"), "b": words(k // 16, 2 * n), "c": Operand((m, n)),
        "scales": Operand((k // 128, n), "sixteenths"),
    }  # fmt: skip
    scalars = {"M": m, "N": n, "K": k, "groupsize": 128, "max_par": 16}
    return Bench(
        name=f"marlin {m}x{n}x{k}", row="int4_marlin_gemm_{T}", dtypes=("f16",), arrays=arrays, scalars=scalars,
        check=check_marlin, bounds=(Bound("copy", 0.8),) if m <= 16 else (), flops=2 * m * n * k,
    )  # fmt: skip


def awq(m, n, k):
    row = k // 128 // 8
    arrays = {
        "in_feats": Operand((m, k), "sixteenths"), "kernel_weights": words(n, k // 8),
        "scaling_factors": Operand((n, 8 * row), "sixteenths"), "zeros": words(n, row), "out": Operand((m, n)),
    }  # fmt: skip
    scalars = {"M": m, "IC": k, "OC": n, "group_size": 128, "split_k_iters": 8}
    return Bench(
        name=f"awq {m}x{n}x{k}", row="int4_awq_gemm_{T}", dtypes=("f16",), arrays=arrays, scalars=scalars,
        check=check_awq, bounds=(Bound("copy", 0.8),) if m <= 16 else (), flops=2 * m * n * k,
    )  # fmt: skip


def awq_weights(n, k):
    row = k // 128 // 8
    arrays = {
        "kernel_weights": words(n, k // 8), "scaling_factors": Operand((n, 8 * row), "sixteenths"),
        "zeros": words(n, row), "out": Operand((n, k)),
    }  # fmt: skip
    return Bench(
        name=f"awq dequantize {n}x{k}", row="int4_awq_dequantize_{T}", dtypes=("f16",), arrays=arrays,
        scalars={"N": n, "K": k, "group_size": 128}, check=check_awq, bounds=(Bound("copy", 0.85),),
    )  # fmt: skip


def benches(backend):
    yield from products(backend)
    large = backend == "cuda"
    side = 4096 if large else 1024
    for n in (1, 8, side):
        yield sparse(f"sparse24 {n}x{side}x{side}", n, side, side, ("bf16", "f32"))
    for m in (1, 2, 4, 8, 16, 64, 512, 1024) if large else (1, 64):
        n, k = (14336, 4096) if large else (1024, 1024)
        yield marlin(m, n, k)
        yield awq(m, n, k)
    yield awq_weights(14336 if large else 1024, side)
