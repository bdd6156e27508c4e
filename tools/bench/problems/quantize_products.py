# SPDX-License-Identifier: Apache-2.0
"""Products with GGUF and MX weights. The peer is what users have without them: PyTorch's product with bf16 weights."""

import numpy as np

from tools.bench.check import compare, rows, sample_indices
from tools.bench.record import Bench, Bound, Operand, Sweep
from tools.oracle import low_floats
from tools.oracle.block_formats import FORMATS, decoded, q8_1_blocks

NAMES = ("q4_0", "q8_0", "q4_K", "q6_K", "iq4_xs", "mxfp4")
MX = {"mxfp4": 0, "mxfp6_e2m3": 1, "mxfp8_e4m3": 3, "nvfp4": 6}
SIZES = {"cuda": (4096, 14336), "cpu": (1024, 4096)}  # rows and columns of weights


LEAST = {"cuda": 65, "cpu": 33}  # rows of bf16 from which weights are decoded into a workspace
LEAST_MX = {"cuda": 8, "cpu": 33}  # with more than four bits, whose limit is 33
MOST_CHECKED = 64  # rows of x


def ordinary(extents):
    """Bytes that are finite numbers wherever a format has floats: bit 6 of the upper byte of an f16 is clear."""
    return lambda rng: rng.integers(0, 64, extents, np.uint8)


def weights(chosen, n, k):
    extents = (n, k // chosen.values * chosen.bytes)
    return Operand(extents, ordinary(extents))


def check(chosen, w, x, y, quantized=False):
    def inspect(problem):
        n = problem.bench.arrays[w].shape[0]
        picked = sample_indices(problem, n)
        decoded_rows = decoded(chosen, problem.indices[w].reshape(n, -1)[picked]).astype(np.float64)
        if quantized:
            data = problem.indices[x]
            values = decoded(FORMATS["q8_1"], data).astype(np.float64)
        else:
            extents = problem.bench.arrays[x].shape
            count = min(extents[0], MOST_CHECKED) if len(extents) > 1 else 1
            values = rows(problem, x, np.arange(count)).reshape(count, -1) if len(extents) > 1 else None
            if values is None:
                values = rows(problem, x, np.arange(extents[0])).reshape(1, -1)
        got = rows(problem, y, np.arange(values.shape[0])) if len(problem.bench.arrays[y].shape) > 1 else None
        if got is None:
            got = rows(problem, y, np.arange(n)).reshape(1, -1)
        slack = 0.02 if quantized else slack_of(problem)  # stored sums are those before rounding
        magnitude = np.abs(values) @ np.abs(decoded_rows.T)
        return compare(problem, got[:, picked], values @ decoded_rows.T, magnitude * (1 + slack * 2**20))

    return inspect


def slack_of(problem):
    """2^-9 of the magnitude, in units of 4 * 2^-3, where weights are rounded to bf16 in the workspace."""
    return 2.0**-8 if problem.workspace is not None else 0.0


def torch_bf16(torch, t, scalars):
    x = t["x"] if "x" in t and t["x"].is_floating_point() else t["y"]
    k = x.shape[-1]
    dense = torch.ones((scalars_n(t), k), dtype=torch.bfloat16, device=x.device)
    rows_of_x = x.reshape(-1, k).to(torch.bfloat16)
    return lambda: rows_of_x @ dense.T


def scalars_n(t):
    return next(t[name] for name in ("w", "codes", "x") if name in t).shape[0]


def matmul(name, m, n, k, bounds=(), dtypes=("bf16",), least=LEAST["cuda"]):
    chosen = FORMATS[name]
    return Bench(
        name=f"quantized_matmul {name} m={m}", row="quantized_matmul_{T}", dtypes=dtypes, bounds=bounds,
        check=check(chosen, "w", "x", "y"), scalars={"format": chosen.id, "backend": 0, "k": k}, torch=(torch_bf16,),
        flops=2 * m * n * k if m > 16 else 0, workspace=m >= least,
        arrays={"x": Operand((m, k), "normal"), "w": weights(chosen, n, k), "y": Operand((m, n))},
    )  # fmt: skip


def mx_matmul(name, m, n, k, bounds=(), least=LEAST_MX["cuda"]):
    form = MX[name]
    block, bits = low_floats.MX[form][1], low_floats.mx_bits(form)

    def inspect(problem):
        picked, count = sample_indices(problem, n), min(m, 4)
        codes = low_floats.unpack(rows(problem, "codes", picked).astype(np.int64), bits)
        w = low_floats.dequantize_mx(codes, rows(problem, "scales", picked).astype(np.int64), form)
        x, got = (rows(problem, each, np.arange(count)).reshape(count, -1) for each in ("x", "y"))
        magnitude = np.abs(x) @ np.abs(w.T) * (1 + slack_of(problem) * 2**20)
        return compare(problem, got[:, picked], x @ w.T, magnitude)

    return Bench(
        name=f"mx_matmul {name} m={m}", row="mx_matmul_{T}", dtypes=("bf16",), check=inspect, torch=(torch_bf16,),
        scalars={"mx_format": form, "scale_layout": 0, "backend": 0}, flops=2 * m * n * k if m > 16 else 0,
        bounds=bounds, workspace=m >= (33 if bits == 4 else least),
        arrays={
            "x": Operand((m, k), "normal"), "codes": Operand((n, k * bits // 8), ordinary((n, k * bits // 8))),
            "scales": Operand((n, k // block), lambda rng: rng.integers(48, 64, (n, k // block), np.uint8)),
            "y": Operand((m, n)),
        },
    )  # fmt: skip


def vector(name, n, k, row, dtypes, bounds=(), scalars=()):
    chosen, title = FORMATS[name], row.replace("_{F}", "").replace("_{T}", "")
    return Bench(
        name=f"{title} {name}", row=row, function=name, dtypes=dtypes, bounds=bounds,
        check=check(chosen, "x", "y", "dst"), scalars={"ncols": k, **dict(scalars)}, torch=(torch_bf16,),
        arrays={"x": weights(chosen, n, k), "y": Operand((k,), "normal"), "dst": Operand((n,))},
    )  # fmt: skip


def quantized(m, n, k):
    chosen = FORMATS["q4_K"]

    def activations(rng):
        return q8_1_blocks(rng.standard_normal((m, k)).astype(np.float32))

    return Bench(
        name=f"mmvq_multim q4_K m={m}", row=f"mmvq_multim_{{F}}_m{m}", function="q4_K", dtypes=("f32",),
        check=check(chosen, "w_ptr", "activations_q8_1", "dst", quantized=True),
        scalars={"ncols_x": k, "w_start_byte_offset": 0},
        arrays={"w_ptr": weights(chosen, n, k), "activations_q8_1": Operand((m, k // 32 * 36), activations),
                "dst": Operand((m, n))},
    )  # fmt: skip


def benches(backend):
    n, k = SIZES[backend]
    fast = (Bound("copy", 0.85),) if backend == "cuda" else ()
    for name in NAMES:
        yield matmul(name, 1, n, k, fast)
    own, of_mx = {"least": LEAST[backend]}, {"least": LEAST_MX[backend]}
    for m in (8, 32):
        yield matmul("q4_K", m, n, k, **own)
    dense = dict.fromkeys((512, 4096), (Bound("peer", 0.7),)) if backend == "cuda" else {512: ()}
    for m, bounds in dense.items():
        yield matmul("q4_K", m, n, k, bounds, **own)
    for name in MX:
        for m in (1, 8):
            yield mx_matmul(name, m, n, k, **of_mx)
        yield mx_matmul(name, 512, n, k, dense[512], **of_mx)
    if backend == "cuda":
        yield mx_matmul("mxfp4", 4096, n, k, dense[4096], **of_mx)
    yield vector("q4_K", n, k, "mmvq_{F}", ("f32",), fast)
    yield vector("q8_0", n, k, "mmvq_{F}_{T}", ("bf16",), fast)
    strided = {"w_start_byte_offset": 0, "stride_y": 1}
    yield vector("q4_K", n, k, "mmvq_{F}_actstrided", ("f32",), scalars=strided)
    yield vector("q4_K", n, k, "mmvq_{F}_actstrided_{T}", ("bf16",), scalars=strided)
    for m in (1, 2, 4, 8):
        yield quantized(m, n, k)


def sweeps(backend):
    n, k = SIZES[backend]
    rows_of_x, own, of_mx = [2**e for e in range(12 if backend == "cuda" else 8)], LEAST[backend], LEAST_MX[backend]
    points = {m: matmul("q4_K", m, n, k, least=own) for m in rows_of_x}
    yield Sweep(name="quantized_matmul q4_K", axis="m", points=points)
    points = {m: mx_matmul("mxfp4", m, n, k, least=of_mx) for m in rows_of_x}
    yield Sweep(name="mx_matmul mxfp4", axis="m", points=points)
    yield Sweep(
        name="quantized_matmul q8_0", axis="k", points={2**e: matmul("q8_0", 1, n, 2**e) for e in range(6, 15, 2)}
    )
