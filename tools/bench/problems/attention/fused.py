# SPDX-License-Identifier: Apache-2.0
"""Fused attention: forward and backward, of dense and of packed sequences.

FLOPs are counted as the FlashAttention papers do: two products forward, five backward, halved by a causal mask.
"""

import functools
import math
import time

import numpy as np

from tools.bench.check import compare, rows, sample_indices
from tools.bench.record import Bench, Bound, Operand, Sweep

LEVEL = (Bound("peer", 1.0),)
_CORE = "the kernels of attention_{T}"
UNMEASURED = {
    **dict.fromkeys(
        (
            "flash_sdpa_{T}", "flash_sdpa_sm89_{T}", "flash_sdpa_sm89_{T}_strided", "sdpa_{T}_arbmask",
            "sdpa_{T}_block_sparse", "fa2_sdpa_{T}", "fa2_sdpa_{T}_v2", "flash_sdpa_backward_{T}",
            "fa2_sdpa_backward_{T}", "fa2_sdpa_varlen_{T}", "fa2_sdpa_varlen_backward_{T}",
        ), _CORE,
    ),
    **dict.fromkeys(
        ("sdpa_{T}", "sdpa_{T}_strided", "sdpa_backward_{T}", "sdpa_backward_{T}_strided"),
        "stores the probabilities, which its callers read: a copy of them bounds it",
    ),
}  # fmt: skip


# --- references ------------------------------------------------------------------------------------------------------


def visible(problem, row):
    """Row numbers of the keys that a row of q sees. Rows of packed tensors are (token, head)."""
    s = problem.bench.scalars
    group = s["heads"] // s["kv_heads"]
    if "cu_seqlens_q" in problem.indices:
        token, h = divmod(row, s["heads"])
        offsets = problem.indices["cu_seqlens_q"]
        begin = offsets[np.searchsorted(offsets, token, "right") - 1]
        end = token + 1 if s["is_causal"] else offsets[np.searchsorted(offsets, token, "right")]
        return np.arange(begin, end) * s["kv_heads"] + h // group
    head, i = divmod(row, s["q_len"])
    b, h = divmod(head, s["heads"])
    last = min(s["k_len"], i + 1) if s["is_causal"] else s["k_len"]
    first = max(0, i - s["window_left"]) if s["window_left"] >= 0 else 0
    return (b * s["kv_heads"] + h // group) * s["k_len"] + np.arange(first, last)


def scores_of(problem, row, keys):
    s = problem.bench.scalars
    scores = rows(problem, "k", keys) @ rows(problem, "q", [row])[0] * s["scale"]
    return s["softcap"] * np.tanh(scores / s["softcap"]) if s["softcap"] else scores


def count_of(problem):
    return math.prod(problem.buffers["q"].operand.shape[:-1])


def check_forward(problem):
    for row in sample_indices(problem, count_of(problem), 4):
        keys = visible(problem, row)
        scores = scores_of(problem, row, keys)
        p = np.exp(scores - scores.max())
        p /= p.sum()
        v = rows(problem, "v", keys)
        if wrong := compare(problem, rows(problem, "y", [row])[0], p @ v, p @ np.abs(v), problem.dtype):
            return f"y[{row}] {wrong}"
    return ""


def check_backward(problem):
    """dq of sampled rows from the formulas, with the given lse and y: delta is the sum of y dy."""
    s = problem.bench.scalars
    lse = problem.bench.arrays["lse"].fill
    for row in sample_indices(problem, count_of(problem), 4):
        keys = visible(problem, row)
        p = np.exp(scores_of(problem, row, keys) - lse)
        dy, y = (rows(problem, name, [row])[0] for name in ("dy", "y"))
        slope, k = p * (rows(problem, "v", keys) @ dy - dy @ y) * s["scale"], rows(problem, "k", keys)
        got, magnitude = rows(problem, "dq", [row])[0], 4 * np.abs(slope) @ np.abs(k)
        if wrong := compare(problem, got, slope @ k, magnitude, problem.dtype):
            return f"dq[{row}] {wrong}"
    return ""


# --- peers -----------------------------------------------------------------------------------------------------------


def fastest(torch, makes):
    """The fastest of the calls that work, by a short trial."""
    timed = []
    for make in makes:
        try:
            call = make()
            for _ in range(2):
                call()
            if torch.cuda.is_available():
                torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(3):
                call()
            if torch.cuda.is_available():
                torch.cuda.synchronize()
        except RuntimeError:  # a backend that does not serve the problem
            continue
        timed.append((time.perf_counter() - start, len(timed), call))
    return min(timed)[2]


def with_backends(torch, on_gpu, call):
    """The call under each of PyTorch's backends."""
    if not on_gpu:
        return [lambda: call]
    kinds = torch.nn.attention.SDPBackend
    names = (kinds.CUDNN_ATTENTION, kinds.FLASH_ATTENTION, kinds.EFFICIENT_ATTENTION)

    def under(kind):
        def run():
            with torch.nn.attention.sdpa_kernel(kind):
                return call()

        return run

    return [functools.partial(under, kind) for kind in names]


def attend(torch, t, s):
    q, k, v = t["q"], t["k"], t["v"]
    given = {"is_causal": bool(s["is_causal"]), "scale": s["scale"], "enable_gqa": q.shape[1] != k.shape[1]}
    if s["window_left"] >= 0:
        i = torch.arange(q.shape[2], device=q.device)
        near = (i[None] <= i[:, None]) & (i[None] >= i[:, None] - s["window_left"])
        given |= {"is_causal": False, "attn_mask": near}
    return lambda: torch.nn.functional.scaled_dot_product_attention(q, k, v, **given)


def torch_forward(torch, t, s):
    return fastest(torch, with_backends(torch, t["q"].is_cuda, attend(torch, t, s)))


def torch_softcap(torch, t, s):
    """FlexAttention, compiled."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    q, k, v, cap = t["q"], t["k"], t["v"], s["softcap"]
    mask = None
    if s["is_causal"]:
        mask = create_block_mask(lambda b, h, i, j: i >= j, None, None, q.shape[2], k.shape[2], device=q.device)
    compiled = torch.compile(flex_attention, dynamic=False)
    return lambda: compiled(q, k, v, score_mod=lambda x, b, h, i, j: cap * torch.tanh(x / cap), block_mask=mask)


def torch_backward(torch, t, s):
    leaves = {name: t[name].detach().requires_grad_() for name in ("q", "k", "v")}

    def make(forward):
        y = forward()()
        return lambda: torch.autograd.grad(y, tuple(leaves.values()), t["dy"], retain_graph=True)

    makes = with_backends(torch, t["q"].is_cuda, attend(torch, leaves, s))
    return fastest(torch, [functools.partial(make, each) for each in makes])


def torch_varlen(torch, t, s):
    q, k, v = t["q"], t["k"], t["v"]
    offsets = t["cu_seqlens_q"].to(torch.int32)
    longest, causal, scale = s["max_q_len"], bool(s["is_causal"]), s["scale"]
    attention = torch.ops.aten._flash_attention_forward
    return lambda: attention(q, k, v, offsets, offsets, longest, longest, 0.0, causal, False, scale=scale)


# --- problems --------------------------------------------------------------------------------------------------------


def numbers(batch, heads, kv_heads, q_len, k_len, d_k, d_v, *, causal=False, window=-1, softcap=0.0):
    return {
        "batch": batch, "heads": heads, "kv_heads": kv_heads, "q_len": q_len, "k_len": k_len, "d_k": d_k, "d_v": d_v,
        "scale": 1 / math.sqrt(d_k), "is_causal": int(causal), "aligns_ends": 0, "window_left": window,
        "window_right": -1, "softcap": softcap, "dropout": 0.0, "is_batch_invariant": 0, "stride_bias": (0,) * 4,
        "stride_mask": (0,) * 4,
    }  # fmt: skip


def dense(name, *extents, dtypes=("bf16",), peer=torch_forward, bounds=LEVEL, **rules):
    s = numbers(*extents, **rules)
    b, h, g, q, k, d, e = extents
    share = 0.5 if s["is_causal"] else 1.0
    return Bench(
        name=f"attention {name}", row="attention_{T}", dtypes=dtypes, scalars=s, check=check_forward, workspace=True,
        arrays={"q": Operand((b, h, q, d), "normal"), "k": Operand((b, g, k, d), "normal"),
                "v": Operand((b, g, k, e), "normal"), "y": Operand((b, h, q, e)),
                "lse": Operand((b, h, q))},
        torch=(peer,), bounds=bounds, flops=int(2 * b * h * q * k * (d + e) * share),
    )  # fmt: skip


def gradients(name, *extents, dtypes=("bf16",), bounds=LEVEL, **rules):
    s = numbers(*extents, **rules)
    b, h, g, q, k, d, e = extents
    share = 0.5 if s["is_causal"] else 1.0
    return Bench(
        name=f"attention backward {name}", row="attention_backward_{T}", dtypes=dtypes, scalars=s,
        check=check_backward, workspace=True,
        arrays={"q": Operand((b, h, q, d), "normal"), "k": Operand((b, g, k, d), "normal"),
                "v": Operand((b, g, k, e), "normal"), "y": Operand((b, h, q, e), "normal"),
                "lse": Operand((b, h, q), math.log(k) + 1.0), "dy": Operand((b, h, q, e), "normal"),
                "dq": Operand((b, h, q, d)), "dk": Operand((b, g, k, d)), "dv": Operand((b, g, k, e))},
        torch=(torch_backward,), bounds=bounds, flops=int(2 * b * h * q * k * (3 * d + 2 * e) * share),
    )  # fmt: skip


def packed_lengths(rng, count, mean):
    """Offsets of `count` sequences of half to one and a half times `mean` rows."""
    lengths = rng.integers(mean // 2, mean + mean // 2, count)
    lengths[-1] += count * mean - lengths.sum()
    return np.concatenate(([0], np.cumsum(np.maximum(lengths, 1))))


def varlen(name, row, count, mean, heads, kv_heads, d, *, causal=True, bounds=LEVEL):
    offsets = packed_lengths(np.random.default_rng(5), count, mean)
    total, longest = int(offsets[-1]), int(np.diff(offsets).max())
    s = numbers(count, heads, kv_heads, longest, longest, d, d, causal=causal)
    s |= {"max_q_len": longest, "max_k_len": longest, "total_q": total, "total_k": total, "offsets": count + 1}
    flops = int(4 * d * heads * (np.diff(offsets).astype(float) ** 2).sum() * (0.5 if causal else 1.0))
    ids = Operand((count + 1,), lambda rng: offsets)
    is_backward = "backward" in row
    arrays = {
        "q": Operand((total, heads, d), "normal"), "k": Operand((total, kv_heads, d), "normal"),
        "v": Operand((total, kv_heads, d), "normal"), "cu_seqlens_q": ids, "cu_seqlens_k": ids,
        "y": Operand((total, heads, d), "normal" if is_backward else "empty"),
        "lse": Operand((heads, total), 9.0 if is_backward else "empty"),
    }  # fmt: skip
    if is_backward:
        arrays |= {"dy": Operand((total, heads, d), "normal")}
        arrays |= {f"d{x}": Operand(arrays[x].shape) for x in "qkv"}
    return Bench(
        name=f"attention varlen {name}", row=row, dtypes=("bf16",), scalars=s, arrays=arrays, workspace=True,
        check=check_backward if is_backward else check_forward, torch=() if is_backward else (torch_varlen,),
        bounds=() if is_backward else bounds, flops=flops * 5 // 2 if is_backward else flops,
    )  # fmt: skip


def benches(backend):
    if backend == "cpu":
        yield dense("1x8x1024 d64", 1, 8, 8, 1024, 1024, 64, 64, dtypes=("f32", "bf16"))
        yield dense("1x8x1024 d128 causal", 1, 8, 8, 1024, 1024, 128, 128, dtypes=("f32", "bf16"), causal=True)
        yield gradients("1x8x1024 d64", 1, 8, 8, 1024, 1024, 64, 64, dtypes=("f32", "bf16"))
        yield varlen("mean 256", "attention_varlen_{T}", 4, 256, 8, 8, 64, bounds=())
        yield varlen("backward mean 256", "attention_varlen_backward_{T}", 4, 256, 8, 8, 64)
        return
    for length, batch in ((4096, 4), (16384, 1)):
        for causal in (True, False):
            name = f"d128 {'causal ' * causal}{batch}x32x{length}"
            yield dense(name, batch, 32, 32, length, length, 128, 128, causal=causal)
            yield gradients(name, batch, 32, 32, length, length, 128, 128, causal=causal)
    for d, e, heads in ((64, 64, 32), (96, 96, 32), (192, 192, 16), (192, 128, 16), (256, 256, 16)):
        name = f"d{d}x{e} causal 4x{heads}x4096"
        yield dense(name, 4, heads, heads, 4096, 4096, d, e, causal=True)
        yield gradients(name, 4, heads, heads, 4096, 4096, d, e, causal=True)
    grouped = (4, 32, 8, 4096, 4096, 128, 128)
    yield dense("d128 causal 32:8 4096", *grouped, causal=True)
    yield gradients("d128 causal 32:8 4096", *grouped, causal=True)
    yield dense("d128 window 1024", *grouped, causal=True, window=1024)
    yield dense(
        "d128 softcap causal",
        4,
        32,
        32,
        4096,
        4096,
        128,
        128,
        causal=True,
        softcap=30.0,
        peer=torch_softcap,
        bounds=(Bound("peer", 2.0),),
    )
    yield dense("d64 f32 causal 4096", 2, 16, 16, 4096, 4096, 64, 64, dtypes=("f32",), causal=True)
    yield gradients("d64 f32 causal 4096", 2, 16, 16, 4096, 4096, 64, 64, dtypes=("f32",), causal=True)
    yield varlen("mean 2048", "attention_varlen_{T}", 16, 2048, 32, 8, 128)
    yield varlen("backward mean 2048", "attention_varlen_backward_{T}", 16, 2048, 32, 8, 128)


def sweeps(backend):
    lengths = (1, 2, 4, 16, 63, 64, 65, 128, 256, 512, 1024, 2048, 4096, 8192, 16384) if backend == "cuda" else (
        1, 16, 64, 65, 256, 1024)  # fmt: skip
    batch, heads = (4, 16) if backend == "cuda" else (1, 8)
    yield Sweep(
        name="attention d128 causal", axis="length",
        points={n: dense(f"d128 causal length {n}", batch, heads, heads, n, n, 128, 128, causal=True) for n in lengths},
    )  # fmt: skip
    yield Sweep(
        name="attention backward d128 causal", axis="length",
        points={
            n: gradients(f"d128 causal length {n}", batch, heads, heads, n, n, 128, 128, causal=True) for n in lengths
        },
    )  # fmt: skip
    length = 2048 if backend == "cuda" else 256
    dims = (8, 16, 32, 40, 64, 72, 80, 96, 112, 128, 160, 192, 224, 256) if backend == "cuda" else (16, 40, 64, 128)
    yield Sweep(
        name=f"attention causal {length}", axis="head dimension",
        points={
            d: dense(f"causal {length} d{d}", batch, heads, heads, length, length, d, d, causal=True) for d in dims
        },
    )  # fmt: skip
    if backend == "cuda":
        yield Sweep(
            name="attention d128 causal 1024", axis="heads",
            points={
                n: dense(f"d128 causal heads {n}", 1, n, n, 1024, 1024, 128, 128, causal=True)
                for n in (1, 2, 4, 8, 16, 24, 33, 64, 128)
            },
        )  # fmt: skip
