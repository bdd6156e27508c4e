# SPDX-License-Identifier: Apache-2.0
"""GEMM of 8-bit operands with scales."""

import numpy as np

from tools.bench.check import sample_indices
from tools.bench.record import Bench, Bound, Operand

_MATRICES, _ROWS, _BLOCKS = range(3)  # C's numbers of the scalings
_RRR, _RCR, _CRR = range(3)  # C's numbers of the layouts
_NAMES = ("matrices", "rows", "blocks")
_WARPGROUPS, _LEAST_ROWS = 4, 64  # C's number of the wgmma backend, and the rows that it needs


def torch_scaled(torch, t, scalars):
    """Row scales where ours has them, else scales of whole matrices, which are the fastest."""
    m, n = scalars["m"], scalars["n"]
    a_scale, b_scale = t["a_scale"][:1], t["b_scale"][:1]
    if scalars["scaling"] == _ROWS:
        a_scale, b_scale = t["a_scale"].reshape(m, 1), t["b_scale"].reshape(1, n)
    scales = {"scale_a": a_scale, "scale_b": b_scale}
    layout = scalars["layout"]

    def along_k(x, is_k_major):
        """PyTorch takes operands along k alone: others are copied."""
        return x if is_k_major else x.view(torch.uint8).mT.contiguous().view(x.dtype)

    def run():
        a, b = along_k(t["a"], layout < _CRR), along_k(t["b"], layout == _RCR)
        return torch._scaled_mm(a, b.mT, **scales, out_dtype=torch.bfloat16, use_fast_accum=False)

    return run


def check(problem):
    """Sampled results against sums in float64."""
    scalars = problem.bench.scalars
    m, n, k, scaling, layout = (scalars[name] for name in ("m", "n", "k", "scaling", "layout"))
    blocks, inner = -(-k // 128), np.arange(k)

    def scales(name, row, block_rows):
        at = {_MATRICES: inner * 0, _ROWS: inner * 0 + row, _BLOCKS: row // block_rows * blocks + inner // 128}[scaling]
        return problem.data.cells(problem.buffers[name], at).astype(np.float64)

    for i, j in zip(sample_indices(problem, m, 6), sample_indices(problem, n, 6)):
        at_a, at_b = (
            i * k + inner if layout < _CRR else inner * m + i,
            j * k + inner if layout == _RCR else inner * n + j,
        )
        a = problem.data.cells(problem.buffers["a"], at_a).astype(np.float64) * scales("a_scale", i, 1)
        b = problem.data.cells(problem.buffers["b"], at_b).astype(np.float64) * scales("b_scale", j, 128)
        got = problem.data.cells(problem.buffers["d"], np.array([i * n + j])).astype(np.float64)
        error = abs(got[0] - (a * b).sum())
        if error > 2.0**-8 * abs((a * b).sum()) + 2.0**-12 * np.abs(a * b).sum():
            return f"d[{i}, {j}] is {got[0]:g}, expected {(a * b).sum():g}"
    return ""


def scaled(m, n, k, scaling, dtype, backend=0, of_b="", layout=1):
    """of_b is B's dtype, if it is not that of A."""
    blocks = -(-k // 128)
    counts = {_MATRICES: (1, 1), _ROWS: (m, n), _BLOCKS: (m * blocks, -(-n // 128) * blocks)}[scaling]
    arrays = {
        "a": Operand((m, k) if layout < _CRR else (k, m), "sixteenths"),
        "b": Operand((n, k) if layout == _RCR else (k, n), "sixteenths"),
        "a_scale": Operand((counts[0],), "positive"), "b_scale": Operand((counts[1],), "positive"),
        "d": Operand((m, n)),
    }  # fmt: skip
    scalars = {"m": m, "n": n, "k": k, "layout": layout, "scaling": scaling, "backend": backend}
    scalars |= {"alpha": 1.0, "beta": 0.0, "lda": arrays["a"].shape[1], "ldb": arrays["b"].shape[1], "ldd": n}
    of_fp8 = {"torch": (torch_scaled,), "bounds": (Bound("peer", 0.95),)} if dtype != "i8" else {}
    by = ", warp groups" if backend == _WARPGROUPS else ""
    by += ", e5m2 by e4m3" * bool(of_b) + {_RCR: "", _RRR: ", rrr", _CRR: ", crr"}[layout]
    return Bench(
        name=f"gemm scaled {_NAMES[scaling]} {m}x{n}x{k}{by}",
        row="gemm_scaled_{T}_fp8e4m3_{U}" if of_b else "gemm_scaled_{T}_{U}", other="bf16",
        dtypes=(dtype,), arrays=arrays, scalars=scalars, check=check, workspace=True,
        flops=2 * m * n * k, **of_fp8,
    )  # fmt: skip


def benches(backend):
    sizes = ((512, 512, 512),)
    if backend == "cuda":
        sizes = ((8192, 8192, 8192), (4096, 7168, 2048), (16, 7168, 4096), (1, 7168, 4096))
    for size in sizes:
        for scaling in (_MATRICES, _ROWS, _BLOCKS):
            yield scaled(*size, scaling, "fp8e4m3")
            if backend == "cuda" and size[0] >= _LEAST_ROWS:
                yield scaled(*size, scaling, "fp8e4m3", _WARPGROUPS)
        yield scaled(*size, _ROWS, "i8")
        for scaling in (_MATRICES, _BLOCKS):
            yield scaled(*size, scaling, "fp8e5m2", of_b="fp8e4m3")
    for layout in (_RRR, _CRR):  # products of a backward
        m, n, k = sizes[0]
        yield scaled(m, n, k, _MATRICES, "fp8e4m3", layout=layout)
        yield scaled(m, n, k, _MATRICES, "fp8e5m2", of_b="fp8e4m3", layout=layout)
