# SPDX-License-Identifier: Apache-2.0
"""Attention of decoding, contiguous and in pages, and merges of partial results."""

import math

import numpy as np

from tools.bench.check import compare, picks, rows, shape
from tools.bench.record import Bench, Bound, Operand

PAGE = 16
UNMEASURED = {
    "attention_ragged_{T}": "the core is that of the dense rows",
    "attention_paged_{T}_fp8e5m2": "as fast as e4m3",
    "paged_kv_append_{T}": "some kilobytes a step: the launch is what it costs",
    "flashinfer_merge_state_in_place_{T}": "the kernel is that of merge_attention_states",
    "flashinfer_merge_states_{T}": "the kernel is that of merge_attention_states",
    "ring_attention_init": "a fill",
    "ring_attention_{T}_step": "bound by the transfers of a ring, which needs several devices",
    "ring_attention_{T}_finalize": "bound by the transfers of a ring, which needs several devices",
    "hyper_connection_{T}_bf16": "no peer computes it",
    "hyper_connection_{T}_f32": "no peer computes it",
}


def softmax_rows(problem, heads, kv_heads, keys_of):
    """Compares some rows of y with the formula; keys_of(batch, kv head) gives keys and values."""
    total = math.prod(shape(problem, "q")[:-1])
    chosen = picks(problem, total)[:8]
    scale, wrong = problem.values["scale"], ""
    for row in chosen:
        q = rows(problem, "q", np.array([row]))
        k, v = keys_of(row // heads, row % heads // (heads // kv_heads))
        scores = scale * q @ k.T
        weights = np.exp(scores - scores.max())
        weights /= weights.sum()
        wrong = wrong or compare(problem, rows(problem, "y", np.array([row])), weights @ v, 4 * weights @ np.abs(v))
    return wrong


def check_decode(problem):
    _, heads, _ = shape(problem, "q")
    _, kv_heads, keys, _ = shape(problem, "k")

    def keys_of(b, g):
        at = (b * kv_heads + g) * keys + np.arange(keys)
        return rows(problem, "k", at), rows(problem, "v", at)

    return softmax_rows(problem, heads, kv_heads, keys_of)


def check_paged(problem):
    _, heads, _ = shape(problem, "q")
    _, kv_heads, size, _ = shape(problem, "k_cache")
    ids, starts = problem.indices["page_ids"], problem.indices["page_offsets"]

    def keys_of(b, g):
        pages = ids[starts[b] : starts[b + 1]]
        at = ((pages[:, None] * kv_heads + g) * size + np.arange(size)).ravel()
        return rows(problem, "k_cache", at), rows(problem, "v_cache", at)

    return softmax_rows(problem, heads, kv_heads, keys_of)


def check_merge(problem):
    states, count, _ = shape(problem, "values")
    chosen = picks(problem, count)
    lse = np.stack([rows(problem, "lse", np.array([s]))[0][chosen] for s in range(states)])
    weights = np.exp(lse - lse.max(axis=0))
    weights /= weights.sum(axis=0)
    values = np.stack([rows(problem, "values", s * count + chosen) for s in range(states)])
    return compare(problem, rows(problem, "y", chosen), (weights[..., None] * values).sum(axis=0), 4.0)


def attended(torch, t, scalars):
    q = t["q"][:, :, None]
    grouped = t["k"].shape[1] != q.shape[1]
    return lambda: torch.nn.functional.scaled_dot_product_attention(
        q, t["k"], t["v"], scale=scalars["scale"], enable_gqa=grouped
    )


def merged(torch, t, scalars):
    return lambda: (torch.softmax(t["lse"], 0)[..., None] * t["values"]).sum(0)


def decode_bench(backend, batch, heads, kv_heads, keys, d):
    arrays = {
        "q": Operand((batch, heads, d), "normal"), "k": Operand((batch, kv_heads, keys, d), "normal"),
        "v": Operand((batch, kv_heads, keys, d), "normal"), "y": Operand((batch, heads, d)),
    }  # fmt: skip
    scalars = dict(zip(("batch", "heads", "kv_heads", "k_len", "d_k", "d_v"), (batch, heads, kv_heads, keys, d, d)))
    scalars |= {f"stride_{x}_b": kv_heads * keys * d for x in "kv"} | {f"stride_{x}_h": keys * d for x in "kv"}
    scalars |= {f"stride_{x}_s": d for x in "kv"} | {f"stride_{x}_b": heads * d for x in "qy"}
    scalars |= {f"stride_{x}_h": d for x in "qy"} | {"scale": d**-0.5}
    bounds = (Bound("copy", 0.95),) if backend == "cuda" else (Bound("peer", 1.0),)
    return Bench(
        name=f"attention_decode {batch} x {keys}, {heads}:{kv_heads}", row="attention_decode_{T}", dtypes=("bf16",),
        arrays=arrays, scalars=scalars, check=check_decode, torch=(attended,), workspace=True, bounds=bounds,
    )  # fmt: skip


def paged_bench(backend, row, batch, heads, kv_heads, keys, d):
    pages = batch * keys // PAGE
    arrays = {
        "q": Operand((batch, heads, d), "normal"), "k_cache": Operand((pages, kv_heads, PAGE, d), "normal"),
        "v_cache": Operand((pages, kv_heads, PAGE, d), "normal"),
        "page_ids": Operand((pages,), lambda rng: rng.permutation(pages)),
        "page_offsets": Operand((batch + 1,), lambda rng: np.arange(batch + 1) * (keys // PAGE)),
        "last_page_len": Operand((batch,), lambda rng: np.full(batch, PAGE)), "y": Operand((batch, heads, d)),
    }  # fmt: skip
    scalars = {
        "batch": batch, "total_q": batch, "num_pages": pages, "page_size": PAGE, "num_page_ids": pages, "heads": heads,
        "kv_heads": kv_heads, "d_k": d, "d_v": d, "scale": d**-0.5, "is_causal": 0, "window": -1, "softcap": 0.0,
        "is_base2": 0,
    }  # fmt: skip
    name = row.partition("_{T}")[2].strip("_")
    return Bench(
        name=f"attention_paged {name} {batch} x {keys}, {heads}:{kv_heads}".replace("  ", " "), row=row,
        dtypes=("bf16",),
        arrays=arrays, scalars=scalars, check=check_paged, workspace=True,
        bounds=(Bound("copy", 0.85),) if backend == "cuda" else (),
    )  # fmt: skip


def benches(backend):
    on_gpu = backend == "cuda"
    extents = (16, 32, 8, 8192, 128) if on_gpu else (2, 8, 2, 2048, 64)
    states, count, d = (8, 65536, 128) if on_gpu else (4, 4096, 64)
    merge = Bench(
        name="merge_attention_states", row="merge_attention_states_{T}", dtypes=("f32", "bf16"), check=check_merge,
        arrays={"values": Operand((states, count, d), "normal"), "lse": Operand((states, count), "normal"),
                "y": Operand((count, d))},
        scalars={"num_states": states, "num_rows": count, "head_dim": d, "is_base2": 0}, torch=(merged,),
    )  # fmt: skip
    return (
        decode_bench(backend, *extents),
        paged_bench(backend, "attention_paged_{T}", *extents),
        paged_bench(backend, "attention_paged_{T}_fp8e4m3", *extents),
        merge,
    )
