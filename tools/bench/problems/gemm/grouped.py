# SPDX-License-Identifier: Apache-2.0
"""Grouped GEMM (experts whose row counts follow Zipf's law), the gradients of linear, and gated products."""

import itertools

import numpy as np

from tools.bench.check import compare, sample_indices
from tools.bench.record import FEW_ROWS, Bench, Bound, Operand, Sweep


def zipf(rows, groups):
    """Offsets of groups with sizes proportional to 1 / (g + 1), in shuffled order."""
    share = 1 / (1 + np.random.default_rng(0).permutation(groups))
    return np.rint(np.concatenate([[0], np.cumsum(share) / share.sum()]) * rows).astype(np.int64)


def torch_loop(torch, t, scalars):
    """One product per group."""
    ends = zipf(scalars["m"], scalars["groups"]).tolist()
    a, b, d = t["a"], t["b"].mT if scalars["layout"] else t["b"], t["d"]
    return lambda: [
        torch.matmul(a[i:j], b[g], out=d[i:j]) for g, (i, j) in enumerate(itertools.pairwise(ends)) if i < j
    ]


def torch_gradients(torch, t, scalars):
    ends = zipf(scalars["m"], scalars["groups"]).tolist()
    pairs = [(g, i, j) for g, (i, j) in enumerate(itertools.pairwise(ends)) if i < j]

    def call():
        for g, i, j in pairs:
            torch.matmul(t["dd"][i:j], t["b"][g], out=t["da"][i:j])
            torch.matmul(t["dd"][i:j].mT, t["a"][i:j], out=t["db"][g])

    return call


def group_of(problem, row):
    ends = zipf(problem.bench.scalars["m"], problem.bench.scalars["groups"])
    return int(np.searchsorted(ends, row, side="right")) - 1


def check(problem):
    """Sampled results of d, or of da, against sums in float64; B is column-major."""
    s, forward = problem.bench.scalars, "d" in problem.buffers
    n, k = s["n"], s["k"]
    inner, width = (k, n) if forward else (n, k)
    left, result = ("a", "d") if forward else ("dd", "da")
    along = np.arange(inner)
    for i, j in zip(sample_indices(problem, s["m"], 6), sample_indices(problem, width, 6)):
        base = group_of(problem, i) * n * k
        x = problem.data.cells(problem.buffers[left], i * inner + along).astype(np.float64)
        y = problem.data.cells(problem.buffers["b"], base + (j * k + along if forward else along * k + j))
        got = problem.data.cells(problem.buffers[result], np.array([i * width + j])).astype(np.float64)
        if wrong := compare(problem, got, np.array([(x * y).sum()]), np.abs(x * y).sum() * 4):
            return f"{result}[{i}, {j}] {wrong}"
    return ""


def torch_linear(torch, t, scalars):
    def call():
        torch.matmul(t["dy"], t["weight"], out=t["dx"])
        torch.matmul(t["dy"].mT, t["x"], out=t["dweight"])
        torch.sum(t["dy"], 0, out=t["dbias"])

    return call


def check_linear(problem):
    """Sampled results of dx and dbias."""
    m, n, k = (problem.bench.scalars[name] for name in "mnk")
    along, down = np.arange(n), np.arange(m)
    for i, j in zip(sample_indices(problem, m, 6), sample_indices(problem, k, 6)):
        x = problem.data.cells(problem.buffers["dy"], i * n + along).astype(np.float64)
        y = problem.data.cells(problem.buffers["weight"], along * k + j).astype(np.float64)
        got = problem.data.cells(problem.buffers["dx"], np.array([i * k + j])).astype(np.float64)
        if wrong := compare(problem, got, np.array([(x * y).sum()]), np.abs(x * y).sum() * 4):
            return f"dx[{i}, {j}] {wrong}"
    for j in sample_indices(problem, n, 4):
        column = problem.data.cells(problem.buffers["dy"], down * n + j).astype(np.float64)
        got = problem.data.cells(problem.buffers["dbias"], np.array([j])).astype(np.float64)
        if wrong := compare(problem, got, np.array([column.sum()]), np.abs(column).sum() * 4):
            return f"dbias[{j}] {wrong}"
    return ""


def linear(backend):
    m, n, k = (8192, 4096, 4096) if backend == "cuda" else (512, 256, 256)
    arrays = {
        "dy": Operand((m, n), "sixteenths"), "x": Operand((m, k), "sixteenths"),
        "weight": Operand((n, k), "sixteenths"),
        "dx": Operand((m, k)), "dweight": Operand((n, k)), "dbias": Operand((n,)),
    }  # fmt: skip
    yield Bench(
        name=f"linear_backward {m}x{n}x{k}", row="linear_backward_{T}", dtypes=("bf16", "f32"), arrays=arrays,
        scalars={"m": m, "n": n, "k": k}, check=check_linear, torch=(torch_linear,), workspace=True,
        flops=4 * m * n * k,
        bounds=(Bound("peer", 0.97),),
    )  # fmt: skip


def torch_gated(torch, t, scalars):
    def call():
        gate = torch.matmul(t["a"], t["b1"].mT)
        torch.mul(torch.nn.functional.silu(gate), torch.matmul(t["a"], t["b2"].mT), out=t["d"])

    return call


def check_gated(problem):
    """Sampled results, of silu."""
    m, n, k, alpha = (problem.bench.scalars[name] for name in ("m", "n", "k", "alpha"))
    along = np.arange(k)
    for i, j in zip(sample_indices(problem, m, 6), sample_indices(problem, n, 6)):
        a = problem.data.cells(problem.buffers["a"], i * k + along).astype(np.float64)
        first, second = (alpha * a * problem.data.cells(problem.buffers[b], j * k + along) for b in ("b1", "b2"))
        z = first.sum()
        want = np.array([z / (1 + np.exp(-z)) * second.sum()])
        inner = 1.2 * np.abs(first).sum() * abs(second.sum()) + (abs(z) + 1) * np.abs(second).sum()
        got = problem.data.cells(problem.buffers["d"], np.array([i * n + j])).astype(np.float64)
        if wrong := compare(problem, got, want, inner * 4):
            return f"d[{i}, {j}] {wrong}"
    return ""


def gated(backend):
    """Inputs with gates of variance 1, as in models: activations of large arguments are 0 or the identity."""
    n, k = (14336, 4096) if backend == "cuda" else (512, 256)
    for m in (1, 4096) if backend == "cuda" else (1, 256):
        yield gated_product(m, n, k)


def gated_product(m, n, k):
    arrays = {x: Operand((rows, k), "sixteenths") for x, rows in (("a", m), ("b1", n), ("b2", n))}
    return Bench(
        name=f"gemm_gated swiglu {m}x{n}x{k}", row="gemm_gated_{T}", dtypes=("bf16", "f32"),
        arrays=arrays | {"d": Operand((m, n))}, check=check_gated, torch=(torch_gated,), workspace=True,
        scalars={
            "m": m, "n": n, "k": k, "layout": 1, "activation": 3, "backend": 0, "alpha": k**-0.5,
            "lda": k, "ldb1": k, "ldb2": k, "ldz1": n, "ldz2": n, "ldd": n,
        },
        bounds=(Bound("peer", 1.0),), flops=4 * m * n * k,
    )  # fmt: skip


def grouped(m, n, k, groups):
    offsets = Operand((groups + 1,), lambda rng: zipf(m, groups))
    a, b, d = Operand((m, k), "sixteenths"), Operand((groups, n, k), "sixteenths"), Operand((m, n), "empty")
    scalars = {"m": m, "n": n, "k": k, "groups": groups, "layout": 1, "lda": k, "ldb": k, "stride_b": n * k, "ldd": n}
    return Bench(
        name=f"grouped_gemm {groups} groups, {m}x{n}x{k}", row="grouped_gemm_{T}", dtypes=("bf16", "f32"),
        arrays={"a": a, "b": b, "offsets": offsets, "d": d}, scalars=scalars | {"alpha": 1.0, "beta": 0.0}, check=check,
        torch=(torch_loop,), bounds=(Bound("peer", 1.3),), flops=2 * m * n * k,
    )  # fmt: skip


def benches(backend):
    yield from linear(backend)
    yield from gated(backend)
    m, n, k, groups = (8192, 4096, 2048, 64) if backend == "cuda" else (512, 256, 256, 16)
    forward = grouped(m, n, k, groups)
    yield forward
    a, b, offsets, scalars = *(forward.arrays[x] for x in ("a", "b", "offsets")), forward.scalars
    gradients = {
        "dd": Operand((m, n), "sixteenths"), "a": a, "b": b, "offsets": offsets, "da": Operand((m, k)),
        "db": Operand((groups, n, k)),
    }  # fmt: skip
    yield Bench(
        name=f"grouped_gemm_backward {groups} groups, {m}x{n}x{k}", row="grouped_gemm_backward_{T}", dtypes=("bf16",),
        arrays=gradients, scalars={**scalars, "lddd": n}, check=check, torch=(torch_gradients,),
        bounds=(Bound("peer", 1.3),), flops=4 * m * n * k,
    )  # fmt: skip


def sweeps(backend):
    on_gpu = backend == "cuda"
    m, n, k = (8192, 4096, 2048) if on_gpu else (512, 256, 256)
    experts = {groups: grouped(m, n, k, groups) for groups in (1, 2, 3, 4, 7, 8, 9, 16, 32, *((64,) if on_gpu else ()))}
    yield Sweep(name=f"grouped_gemm {m} x {n} x {k}", axis="experts", points=experts)
    rows = {r: grouped(r, n, k, 8) for r in (8, 16, 64, 100, 128, 256, 512, 1000, 1024, *((4096,) if on_gpu else ()))}
    yield Sweep(name=f"grouped_gemm 8 experts, M x {n} x {k}", axis="M", points=rows)
    n, k = (14336, 4096) if on_gpu else (512, 256)
    gates = {r: gated_product(r, n, k) for r in (*FEW_ROWS[::2], *((1024, 4096) if on_gpu else ()))}
    yield Sweep(name=f"linear_swiglu M x {n} x {k}", axis="M", points=gates)
