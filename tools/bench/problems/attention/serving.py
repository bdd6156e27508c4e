# SPDX-License-Identifier: Apache-2.0
"""Attention of decoding, contiguous and in pages, and merges of partial results."""

import math

import numpy as np

from tools.bench.check import compare, rows, sample_indices
from tools.bench.problems.attention.fused import check_forward, fastest, numbers, with_backends
from tools.bench.record import Bench, Bound, Operand, Sweep

FACTOR = 0.5  # of each row of a quantised cache
NEAR_COPY, PAGED = (Bound("copy", 0.95),), (Bound("copy", 0.85),)
UNMEASURED = {
    "attention_ragged_{T}": "the kernels of attention_varlen_{T}",
    "attention_paged_{T}_fp8e5m2": "the kernel of attention_paged_{T}_fp8e4m3",
    **dict.fromkeys(
        ("attention_paged_quantized_{T}_fp8e4m3", "attention_paged_quantized_{T}_fp8e5m2"),
        "the kernels of attention_paged_{T}_fp8e4m3",
    ),
    **dict.fromkeys(
        ("flashinfer_merge_state_in_place_{T}", "flashinfer_merge_states_{T}"),
        "the kernel of merge_attention_states_{T}",
    ),
    "paged_kv_append_{T}": "a copy of a few rows, as kv_cache_append_{T}",
    "paged_kv_append_quantized_{T}_{U}": "a few rows, as paged_kv_append_{T}",
    **dict.fromkeys(
        ("ring_attention_init", "ring_attention_{T}_step", "ring_attention_{T}_finalize"),
        "bound by the transfers of a ring, which needs several devices",
    ),
    **dict.fromkeys(
        ("hyper_connection_{T}_bf16", "hyper_connection_{T}_f32"), "no other library has it to compare with"
    ),
}


def torch_decode(torch, t, s):
    q, k, v = t["q"][:, :, None], t["k"], t["v"]
    given = {"scale": s["scale"], "enable_gqa": q.shape[1] != k.shape[1]}
    call = lambda: torch.nn.functional.scaled_dot_product_attention(q, k, v, **given)  # noqa: E731
    return fastest(torch, with_backends(torch, q.is_cuda, call))


def torch_merge(torch, t, s):
    return lambda: (torch.softmax(t["lse"], 0)[..., None] * t["values"]).sum(0)


def decode(name, batch, heads, kv_heads, keys, d, dtypes=("bf16",), bounds=NEAR_COPY):
    s = numbers(batch, heads, kv_heads, 1, keys, d, d)
    steps = {"stride_q_b": heads * d, "stride_q_h": d, "stride_y_b": heads * d, "stride_y_h": d}
    for x in "kv":
        steps |= {f"stride_{x}_b": kv_heads * keys * d, f"stride_{x}_h": keys * d, f"stride_{x}_s": d}
    return Bench(
        name=f"attention decode {name}", row="attention_decode_{T}", dtypes=dtypes, check=check_forward,
        scalars={**s, **steps}, workspace=True,
        arrays={"q": Operand((batch, heads, d), "normal"), "k": Operand((batch, kv_heads, keys, d), "normal"),
                "v": Operand((batch, kv_heads, keys, d), "normal"), "y": Operand((batch, heads, d)),
                "lse": Operand((batch, heads))},
        torch=(torch_decode,), bounds=bounds,
    )  # fmt: skip


def check_pages(problem):
    """Sequence 0, whose pages are in any order."""
    s, d = problem.bench.scalars, problem.bench.scalars["d_k"]
    size, per = s["page_size"], s["num_page_ids"] // s["batch"]
    pages = problem.indices["page_ids"][:per]
    at = (pages[:, None] * s["kv_heads"] * size + np.arange(size)).ravel()
    q, factor = rows(problem, "q", [0])[0], FACTOR if "quantized" in problem.bench.row else 1.0
    scores = rows(problem, "k_cache", at) @ q * (s["scale"] * factor)
    p = np.exp(scores - scores.max())
    p /= p.sum()
    v = rows(problem, "v_cache", at) * factor
    wrong = compare(problem, rows(problem, "y", [0])[0], p @ v, p @ np.abs(v), problem.dtype)
    return f"y of {d} {wrong}" if wrong else ""


def paged(name, batch, heads, kv_heads, keys, d, page, row="attention_paged_{T}", bounds=PAGED):
    per = keys // page
    s = {
        "batch": batch, "total_q": batch, "num_pages": batch * per, "page_size": page, "num_page_ids": batch * per,
        "heads": heads, "kv_heads": kv_heads, "d_k": d, "d_v": d, "scale": 1 / math.sqrt(d), "is_causal": 0,
        "window": -1, "softcap": 0.0, "is_base2": 0, "is_batch_invariant": 0,
    }  # fmt: skip
    caches = Operand((batch * per, kv_heads, page, d), "normal")
    factors = Operand((batch * per, kv_heads, page), lambda rng: np.full((batch * per, kv_heads, page), FACTOR))
    scales = {"k_scales": factors, "v_scales": factors} if "quantized" in row else {}
    return Bench(
        name=f"attention paged {name}", row=row, dtypes=("bf16",), scalars=s, check=check_pages, workspace=True,
        arrays={
            "q": Operand((batch, heads, d), "normal"), "k_cache": caches, "v_cache": caches, **scales,
            "page_ids": Operand((batch * per,), lambda rng: rng.permutation(batch * per)),
            "page_offsets": Operand((batch + 1,), lambda rng: np.arange(batch + 1) * per),
            "last_page_len": Operand((batch,), lambda rng: np.full(batch, page)),
            "y": Operand((batch, heads, d)), "lse": Operand((batch, heads)),
        },
        bounds=bounds,
    )  # fmt: skip


def check_latent(problem):
    """Sequence 0 and its first head."""
    s, d = problem.bench.scalars, problem.bench.scalars["d_k"]
    size, per = s["page_size"], s["num_page_ids"] // s["batch"]
    pages = problem.indices["page_ids"][:per]
    keys = rows(problem, "cache", (pages[:, None] * size + np.arange(size)).ravel())
    scores = keys @ rows(problem, "q", [0])[0] * s["scale"]
    p = np.exp(scores - scores.max())
    p /= p.sum()
    v = keys[:, : s["d_v"]]
    wrong = compare(problem, rows(problem, "y", [0])[0], p @ v, p @ np.abs(v), problem.dtype)
    return f"y of {d} {wrong}" if wrong else ""


def torch_latent(torch, t, s):
    """Attention over one list of keys for all heads, in order: PyTorch has no pages."""
    keys = t["cache"].view(s["batch"], 1, -1, s["d_k"])
    q = t["q"][:, None]  # heads are the queries of one head
    given = {"scale": s["scale"]}
    call = lambda: torch.nn.functional.scaled_dot_product_attention(q, keys, keys[..., : s["d_v"]], **given)  # noqa: E731
    return fastest(torch, with_backends(torch, q.is_cuda, call))


def latent(name, batch, heads, keys, page, d=(576, 512)):
    per = keys // page
    s = {
        "batch": batch, "total_q": batch, "num_pages": batch * per, "page_size": page, "num_page_ids": batch * per,
        "heads": heads, "d_k": d[0], "d_v": d[1], "scale": 192**-0.5, "is_causal": 0, "window": -1, "softcap": 0.0,
        "is_base2": 0, "is_batch_invariant": 0,
    }  # fmt: skip
    return Bench(
        name=f"attention latent {name}", row="attention_paged_latent_{T}", dtypes=("bf16",), scalars=s,
        check=check_latent, workspace=True, flops=2 * batch * heads * keys * sum(d), torch=(torch_latent,),
        arrays={
            "q": Operand((batch, heads, d[0]), "normal"), "cache": Operand((batch * per, page, d[0]), "normal"),
            "page_ids": Operand((batch * per,), lambda rng: rng.permutation(batch * per)),
            "page_offsets": Operand((batch + 1,), lambda rng: np.arange(batch + 1) * per),
            "last_page_len": Operand((batch,), lambda rng: np.full(batch, page)),
            "y": Operand((batch, heads, d[1])), "lse": Operand((batch, heads)),
        },
        bounds=(Bound("peer", 1.0),),
    )  # fmt: skip


def check_merge(problem):
    count = problem.bench.scalars["num_rows"]
    for row in sample_indices(problem, count, 4):
        at = np.arange(problem.bench.scalars["num_states"]) * count + row
        lse, values = problem.data.cells(problem.buffers["lse"], at), rows(problem, "values", at)
        w = np.exp(lse - lse.max())
        if wrong := compare(
            problem, rows(problem, "y", [row])[0], w @ values / w.sum(), np.abs(values).max(), problem.dtype
        ):
            return f"y[{row}] {wrong}"
    return ""


def merges(backend):
    states, count, d = (8, 1 << 18, 128) if backend == "cuda" else (8, 1 << 14, 128)
    yield Bench(
        name="merge_attention_states", row="merge_attention_states_{T}", dtypes=("f32", "bf16"), check=check_merge,
        scalars={"num_states": states, "num_rows": count, "head_dim": d, "is_base2": 0},
        arrays={"values": Operand((states, count, d), "normal"), "lse": Operand((states, count), "normal"),
                "y": Operand((count, d)), "y_lse": Operand((count,))},
        torch=(torch_merge,), bounds=(Bound("copy", 0.9),) if backend == "cuda" else (),
    )  # fmt: skip


def benches(backend):
    if backend == "cpu":
        yield decode("b1 8:2 8192", 1, 8, 2, 8192, 128, bounds=(Bound("peer", 1.0),))
        yield paged("b2 8:2 4096 pages of 16", 2, 8, 2, 4096, 128, 16, bounds=())
        yield paged("b2 8:2 4096 fp8", 2, 8, 2, 4096, 128, 16, row="attention_paged_{T}_fp8e4m3", bounds=())
        yield paged("b2 8:2 4096 int8", 2, 8, 2, 4096, 128, 16, row="attention_paged_quantized_{T}_i8", bounds=())
    else:
        for batch, keys in ((1, 1024), (1, 8192), (1, 131072), (16, 8192), (128, 8192)):
            bounds = () if keys < 8192 else NEAR_COPY
            yield decode(f"b{batch} 32:8 {keys}", batch, 32, 8, keys, 128, bounds=bounds)
        for page in (16, 64):
            yield paged(f"b16 32:8 8192 pages of {page}", 16, 32, 8, 8192, 128, page)
        yield paged("b16 32:8 8192 fp8", 16, 32, 8, 8192, 128, 16, row="attention_paged_{T}_fp8e4m3")
        yield paged("b16 32:8 8192 int8", 16, 32, 8, 8192, 128, 16, row="attention_paged_quantized_{T}_i8")
    for batch, keys in ((1, 16384), (64, 8192)) if backend == "cuda" else ((2, 1024),):
        yield latent(f"b{batch} 128 heads {keys}", batch, 128 if backend == "cuda" else 16, keys, 64)
    yield from merges(backend)


def sweeps(backend):
    keys = (1, 16, 64, 65, 256, 1024, 4096, 8192, 32768, 131072) if backend == "cuda" else (1, 64, 1024, 8192)
    yield Sweep(
        name="attention decode 32:8", axis="keys",
        points={n: decode(f"b4 32:8 {n}", 4, 32, 8, n, 128, bounds=()) for n in keys},
    )  # fmt: skip
    if backend == "cuda":
        yield Sweep(
            name="attention decode 32:8 8192", axis="batch",
            points={n: decode(f"b{n} 32:8 8192", n, 32, 8, 8192, 128, bounds=()) for n in (1, 2, 3, 4, 8, 16, 33, 64)},
        )  # fmt: skip
        yield Sweep(
            name="attention decode 8 x 4096", axis="head dimension",
            points={d: decode(f"b8 4096 d{d}", 8, 32, 8, 4096, d, bounds=()) for d in (32, 64, 80, 96, 128, 192, 256)},
        )  # fmt: skip
