# SPDX-License-Identifier: Apache-2.0
"""Scaled dot-product attention and its gradients, causal, of 128 features a head."""

import functools
import math

import numpy as np

from tools.bench.check import compare, picks, rows, shape
from tools.bench.record import Bench, Operand

DIM = 128


def probabilities(problem, row, lengths):
    """(keys that a row of q sees, its probabilities, the rows of k and v)"""
    queries, keys = lengths
    own = row // queries * keys + np.arange(row % queries + 1)
    scores = (
        rows(problem, "k", own).astype(np.float64) @ rows(problem, "q", [row])[0].astype(np.float64) / math.sqrt(DIM)
    )
    p = np.exp(scores - scores.max())
    return p / p.sum(), own


def check(problem):
    batch, heads, queries, _ = shape(problem, "q")
    keys = shape(problem, "k")[2]
    rounded = 2.0**15 if problem.dtype in ("f16", "bf16") else 16.0  # probabilities are rounded to the dtype
    for row in picks(problem, batch * heads * queries, 6):
        p, own = probabilities(problem, row, (queries, keys))
        v = rows(problem, "v", own).astype(np.float64)
        if wrong := compare(problem, rows(problem, "y", [row])[0], p @ v, rounded * (p @ np.abs(v))):
            return f"y[{row}] {wrong}"
    return ""


def torch_sdpa(torch, t, scalars):
    return lambda: torch.nn.functional.scaled_dot_product_attention(t["q"], t["k"], t["v"], is_causal=True)


def benches(backend):
    batch, heads, length = (4, 32, 4096) if backend == "cuda" else (1, 8, 512)
    extents = (batch, heads, length, DIM)
    given, result = Operand(extents, "sixteenths"), Operand(extents)
    scalars = {"batch": batch, "heads": heads, "q_len": length, "k_len": length, "d_k": DIM, "d_v": DIM}
    scalars["scale"] = 1 / math.sqrt(DIM)
    flops = 2 * batch * heads * length * length * DIM  # half of two products, a multiplication and an addition each
    made = functools.partial(
        Bench, dtypes=("bf16", "f32"), check=check, torch=(torch_sdpa,), workspace=True, flops=flops
    )  # fmt: skip
    operands = {"q": given, "k": given, "v": given, "y": result}
    general = dict.fromkeys(("stride_bias", "stride_mask"), (0, 0, 0, 0))
    general |= {
        "softcap": 0.0,
        "dropout": 0.0,
        "kv_heads": heads,
        "is_causal": 1,
        "aligns_ends": 0,
        "window_left": -1,
        "window_right": -1,
    }
    return (
        made(name="attention", row="attention_{T}", arrays=operands, scalars=scalars | general),
        made(name="flash_sdpa", row="flash_sdpa_{T}", arrays=operands | {"lse": Operand(extents[:3])},
             scalars=scalars | {"is_causal": 1}),
    )  # fmt: skip


_FORWARD = "the kernels of [attention_{T}], which is measured"
_BACKWARD = "no problem yet: its operands follow from a forward call"
UNMEASURED = {
    **dict.fromkeys((
        "sdpa_{T}", "sdpa_{T}_strided", "flash_sdpa_sm89_{T}", "flash_sdpa_sm89_{T}_strided", "sdpa_{T}_arbmask",
        "sdpa_{T}_block_sparse", "fa2_sdpa_{T}", "fa2_sdpa_{T}_v2", "fa2_sdpa_varlen_{T}", "attention_varlen_{T}",
    ), _FORWARD),
    **dict.fromkeys((
        "sdpa_backward_{T}", "sdpa_backward_{T}_strided", "flash_sdpa_backward_{T}", "fa2_sdpa_backward_{T}",
        "fa2_sdpa_varlen_backward_{T}", "attention_backward_{T}", "attention_varlen_backward_{T}",
    ), _BACKWARD),
}  # fmt: skip
