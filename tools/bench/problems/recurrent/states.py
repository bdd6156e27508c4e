# SPDX-License-Identifier: Apache-2.0
"""Recurrences of matrix states: training lengths, one long sequence, and steps of one token.

PyTorch's peer is the recurrence by its own operators, token by token, for the first head alone, since that takes long.
"""

import numpy as np

from tools.bench.check import compare, rows
from tools.bench.record import Bench, Bound, Operand, Sweep

KEYS = VALUES = 128
UNMEASURED = {
    "recurrent_gated_linear_attention_update_{T}": "the kernel of the delta rule's update, without its first pass",
    "rwkv7_update_{T}": "the kernel of recurrent_gated_delta_rule_update",
}


def gate(rng, shape):
    return -rng.gamma(1, 0.05, shape)


def row_of(problem, name, head, heads, t):
    return rows(problem, name, [t * heads + head])[0]


def check_gated(problem):
    """The first tokens of the first head of gated linear attention, whose state begins with 0."""
    s = problem.bench.scalars
    state = np.zeros((s["d_k"], s["d_v"]))
    for t in range(min(s["seqlen"], 4)):
        q, k, v = (row_of(problem, n, 0, s["heads"], t) for n in "qkv")
        g = row_of(problem, "g", 0, s["heads"], t)
        state = np.exp(g)[:, None] * state + k[:, None] * v
        want, size = s["scale"] * (q @ state), s["scale"] * (np.abs(q) @ np.abs(state))
        if wrong := compare(problem, row_of(problem, "y", 0, s["heads"], t), want, 64 * size):
            return f"y[{t}] {wrong}"
    return ""


def check_delta(problem):
    s = problem.bench.scalars
    state = np.zeros((s["d_k"], s["d_v"]))
    for t in range(min(s["seqlen"], 4)):
        q, k = (row_of(problem, n, 0, s["qk_heads"], t) for n in "qk")
        q, k = (x / np.sqrt((x * x).sum() + 1e-6) for x in (q, k))
        v = row_of(problem, "v", 0, s["heads"], t)
        g, beta = (rows(problem, n, [t])[0][0] for n in ("g", "beta"))
        state = np.exp(g) * state
        state = state + k[:, None] * (beta * (v - k @ state))
        want, size = s["scale"] * (q @ state), s["scale"] * (np.abs(q) @ np.abs(state))
        if wrong := compare(problem, row_of(problem, "y", 0, s["heads"], t), want, 64 * size + 1e-3):
            return f"y[{t}] {wrong}"
    return ""


def torch_gated(torch, t, scalars):
    def call():
        q, k, v, g = (t[n][0, :, 0].float() for n in ("q", "k", "v", "g"))
        state, out = torch.zeros(KEYS, VALUES, device=q.device), []
        for step in range(len(q)):
            state = g[step].exp()[:, None] * state + k[step][:, None] * v[step]
            out.append(q[step] @ state)
        return torch.stack(out)

    return call


def delta(batch, seqlen, qk_heads, heads, backward=False):
    tokens = (batch, seqlen)
    keys, values = Operand((*tokens, qk_heads, KEYS), "normal"), Operand((*tokens, heads, VALUES), "normal")
    inputs = {
        "q": keys, "k": keys, "v": values, "beta": Operand((*tokens, heads), "probability"),
        "g": Operand((*tokens, heads), lambda rng: gate(rng, (*tokens, heads))),
    }  # fmt: skip
    scalars = {
        "batch": batch, "seqlen": seqlen, "sequences": batch, "qk_heads": qk_heads, "heads": heads, "d_k": KEYS,
        "d_v": VALUES, "normalizes": 1, "scale": KEYS**-0.5,
    }  # fmt: skip
    size = f"{batch} x {seqlen}, {qk_heads}/{heads} heads"
    if backward:
        results = {
            "dq": Operand(keys.shape), "dk": Operand(keys.shape), "dv": Operand(values.shape),
            "dbeta": Operand((*tokens, heads)), "dg": Operand((*tokens, heads)),
        }  # fmt: skip
        return Bench(
            name=f"gated_delta_rule_backward {size}", row="recurrent_gated_delta_rule_backward_{T}", dtypes=("bf16",),
            check=lambda problem: "", workspace=True, scalars=scalars, arrays={"dy": values} | inputs | results,
        )  # fmt: skip
    return Bench(
        name=f"gated_delta_rule {size}", row="recurrent_gated_delta_rule_{T}", dtypes=("bf16", "f32"),
        check=check_delta, workspace=True, scalars=scalars, arrays=inputs | {"y": Operand(values.shape)},
    )  # fmt: skip


def gated(batch, seqlen, heads, backward=False, peer=True):
    shape = (batch, seqlen, heads, KEYS)
    each = Operand(shape, "normal")
    inputs = {"q": each, "k": each, "v": each, "g": Operand(shape, lambda rng: gate(rng, shape))}
    scalars = {
        "batch": batch, "seqlen": seqlen, "sequences": batch, "qk_heads": heads, "heads": heads, "d_k": KEYS,
        "d_v": VALUES, "gate_width": KEYS, "scale": KEYS**-0.5,
    }  # fmt: skip
    size = f"{batch} x {seqlen}, {heads} heads"
    if backward:
        results = {f"d{n}": Operand(shape) for n in "qkvg"}
        return Bench(
            name=f"gated_linear_attention_backward {size}", row="recurrent_gated_linear_attention_backward_{T}",
            dtypes=("bf16",), check=lambda problem: "", workspace=True, scalars=scalars,
            arrays={"dy": each} | inputs | results,
        )  # fmt: skip
    return Bench(
        name=f"gated_linear_attention {size}", row="recurrent_gated_linear_attention_{T}", dtypes=("bf16", "f32"),
        check=check_gated, workspace=True, scalars=scalars, arrays=inputs | {"y": Operand(shape)},
        torch=(torch_gated,) if peer else (), bounds=(Bound("peer", 1.0),) if peer else (),
    )  # fmt: skip


def rwkv7(batch, seqlen, heads, backward=False):
    shape = (batch, seqlen, heads, 64)
    each, small = Operand(shape, "normal"), Operand(shape, lambda rng: rng.standard_normal(shape) / 8)
    inputs = {
        "r": each, "w": Operand(shape, lambda rng: gate(rng, shape)), "k": small, "v": each,
        "a": Operand(shape, lambda rng: -np.abs(rng.standard_normal(shape)) / 16), "b": small,
    }  # fmt: skip
    scalars = {
        "batch": batch, "seqlen": seqlen, "sequences": batch, "heads": heads, "d_k": 64, "d_v": 64, "scale": 1.0,
    }  # fmt: skip
    results = {f"d{n}": Operand(shape) for n in "rwkvab"} if backward else {"y": Operand(shape)}
    return Bench(
        name=f"rwkv7{'_backward' * backward} {batch} x {seqlen}, {heads} heads",
        row=f"rwkv7{'_backward' * backward}_{{T}}", dtypes=("bf16",), check=lambda problem: "", workspace=True,
        scalars=scalars, arrays=({"dy": each} if backward else {}) | inputs | results,
    )  # fmt: skip


def update(batch, heads):
    keys, state = Operand((batch, heads, KEYS), "normal"), (batch, heads, KEYS, VALUES)
    return Bench(
        name=f"gated_delta_rule_update {batch}, {heads} heads", row="recurrent_gated_delta_rule_update_{T}",
        dtypes=("bf16",), check=lambda problem: "", bounds=(Bound("copy", 0.8),),
        scalars={
            "batch": batch, "qk_heads": heads, "heads": heads, "d_k": KEYS, "d_v": VALUES, "normalizes": 1,
            "scale": KEYS**-0.5,
        },
        arrays={
            "q": keys, "k": keys, "v": Operand((batch, heads, VALUES), "normal"),
            "beta": Operand((batch, heads), "probability"),
            "g": Operand((batch, heads), lambda rng: gate(rng, (batch, heads))), "state": Operand(state, "normal"),
            "y": Operand((batch, heads, VALUES)), "new_state": Operand(state),
        },
    )  # fmt: skip


def benches(backend):
    if backend == "cuda":
        yield delta(1, 65536, 2, 8)
        yield delta(8, 4096, 16, 32)
        yield delta(8, 4096, 16, 32, backward=True)
        yield gated(8, 4096, 16)
        yield gated(8, 4096, 16, backward=True)
        yield rwkv7(8, 4096, 32)
        yield rwkv7(8, 4096, 32, backward=True)
        yield update(256, 32)
        return
    for backward in (False, True):
        yield delta(1, 512, 2, 4, backward)
        yield gated(1, 512, 2, backward)
        yield rwkv7(1, 512, 4, backward)
    yield update(8, 4)


def sweeps(backend):
    lengths = (1, 2, 31, 32, 33, 64, 256, 1024) if backend == "cuda" else (1, 2, 31, 32, 33, 64, 256)
    yield Sweep(name="gated_delta_rule", axis="tokens", points={n: delta(4, n, 2, 2) for n in lengths})
