# SPDX-License-Identifier: Apache-2.0
"""Ops of a layer of 128 experts of 2048 x 768, top-8, on 16k tokens: uniform and skewed routing.

Routing is the same for all operands of a problem. PyTorch's peers are what a model in PyTorch calls: topk of a softmax,
a stable sort, index_select, and a weighted sum of gathered rows; products a loop over experts.
"""

import functools

import numpy as np

from tools.bench.check import compare, rows, same, sample_indices
from tools.bench.record import Bench, Bound, Operand, Sweep

EXPERTS, TOP_K, HIDDEN, INNER = 128, 8, 2048, 768
NUMBERS = {"scoring": 0, "renormalize": 1, "n_group": 1, "topk_group": 1, "group_score": 0, "scale": 1.0}
UNMEASURED = {
    "moe_permute_backward_{T}": "the kernel of moe_combine",
    "moe_wmma_gguf_{T}": "the reference's kernel, with blocks decoded as quantised products do",
    "moe_scalar_gguf": "the reference's kernel for single rows, with blocks decoded as quantised products do",
}


@functools.cache
def routing(tokens, top_k, experts, skewed):
    """ids, order, position, experts in order, offsets."""
    rng = np.random.default_rng(5)
    share = 1.0 / np.arange(1, experts + 1) if skewed else np.ones(experts)
    scores = np.log(share) + rng.gumbel(size=(tokens, experts))
    ids = np.argpartition(-scores, top_k - 1, axis=-1)[:, :top_k]
    flat = ids.reshape(-1)
    order = np.argsort(flat, kind="stable")
    position = np.empty_like(order)
    position[order] = np.arange(order.size)
    offsets = np.append(0, np.cumsum(np.bincount(flat, minlength=experts)))
    return ids, order, position.reshape(ids.shape), flat[order], offsets


def part(tokens, top_k, experts, skewed, k):
    return lambda rng: routing(tokens, top_k, experts, skewed)[k]


# --- routing ---


def torch_route(torch, t, scalars):
    def call():
        weights, ids = torch.topk(torch.softmax(t["logits"].float(), -1), scalars["top_k"])
        return weights / weights.sum(-1, keepdim=True), ids

    return call


def check_route(problem):
    top_k, tokens = problem.bench.scalars["top_k"], problem.bench.arrays["logits"].shape[0]
    for row in sample_indices(problem, tokens, 4):
        z = rows(problem, "logits", [row])[0]
        ids = np.argsort(-z, kind="stable")[:top_k]
        if wrong := same(problem, "ids", row * top_k + np.arange(top_k), ids):
            return f"ids {wrong}"
        e = np.exp(z[ids] - z[ids].max())
        if wrong := compare(problem, rows(problem, "weights", [row])[0], e / e.sum(), 16.0, "f32"):
            return f"weights[{row}] {wrong}"
    return ""


def check_sort(problem):
    operand = problem.bench.arrays["ids"]
    ids = operand.fill(None).reshape(-1)
    at = sample_indices(problem, ids.size)
    return same(problem, "order", at, np.argsort(ids, kind="stable")[at])


def torch_sort(torch, t, scalars):
    def call():
        flat = t["ids"].flatten()
        order = torch.sort(flat, stable=True)[1]
        return order, torch.argsort(order), torch.bincount(flat, minlength=scalars["experts"]).cumsum(0)

    return call


# --- rows ---


def torch_permute(torch, t, scalars):
    return lambda: torch.index_select(t["x"], 0, torch.div(t["order"], scalars["top_k"], rounding_mode="floor"))


def check_permute(problem):
    order, top_k = problem.bench.arrays["order"].fill(None), problem.bench.scalars["top_k"]
    at = sample_indices(problem, order.size)
    got, want = rows(problem, "y", at), rows(problem, "x", order[at] // top_k)
    return "" if np.array_equal(got, want) else f"rows {at} are not those of their tokens"


def torch_combine(torch, t, scalars):
    def call():
        gathered = t["y"][t["position"].long()]
        return (gathered * t["weights"][..., None].to(gathered.dtype)).sum(1)

    return call


def check_combine(problem):
    position = problem.bench.arrays["position"].fill(None)
    for token in sample_indices(problem, len(position), 4):
        products = rows(problem, "weights", [token])[0][:, None] * rows(problem, "y", position[token])
        wrong = compare(problem, rows(problem, "out", [token])[0], products.sum(0), np.abs(products).sum(0))
        if wrong:
            return f"out[{token}] {wrong}"
    return ""


def check_combine_backward(problem):
    order, top_k = problem.bench.arrays["order"].fill(None), problem.bench.scalars["top_k"]
    for p in sample_indices(problem, order.size, 4):
        token, slot = divmod(int(order[p]), top_k)
        want = rows(problem, "weights", [token])[0][slot] * rows(problem, "dout", [token])[0]
        if wrong := compare(problem, rows(problem, "dy", [p])[0], want, np.abs(want)):
            return f"dy[{p}] {wrong}"
    return ""


# --- products ---


def torch_experts(torch, t, scalars):
    def call():
        x, w, d = t["input"], t["weights"], t["output"]
        order, expert_of = t["sorted_token_ids"].long(), t["expert_ids"]
        for e in range(len(w)):  # a model's loop, with the host's knowledge of the counts
            own = order[expert_of == e]
            d[own] = x[own // scalars["topk"]] @ w[e].mT

    return call


def check_experts(problem):
    s = problem.bench.scalars
    order, expert_of = (problem.bench.arrays[n].fill(None) for n in ("sorted_token_ids", "expert_ids"))
    n = s["size_n"]
    for p, j in zip(sample_indices(problem, order.size, 6), sample_indices(problem, n, 6)):
        pair, expert = int(order[p]), int(expert_of[p])
        summands = rows(problem, "input", [pair // s["topk"]])[0] * rows(problem, "weights", [expert * n + j])[0]
        got = rows(problem, "output", [pair])[0][j : j + 1]
        if wrong := compare(problem, got, summands.sum()[None], np.abs(summands).sum()):
            return f"output[{pair}, {j}] {wrong}"
    return ""


# --- problems ---


def layer(tokens, top_k, experts, hidden, inner, skewed):
    of = functools.partial(part, tokens, top_k, experts, skewed)
    pairs, kind = tokens * top_k, "skewed" if skewed else "uniform"
    size = f"{tokens} tokens, {kind}"
    ids = {name: Operand((pairs,), of(k)) for name, k in (("order", 1), ("expert_of", 3))}
    slots = Operand((tokens, top_k), of(2))
    weights = Operand((tokens, top_k), "probability")
    extents = {"tokens": tokens, "top_k": top_k}
    yield Bench(
        name=f"moe_sort {size}", row="moe_sort_{T}", dtypes=("i32",), check=check_sort, torch=(torch_sort,),
        workspace=True,
        arrays={
            "ids": Operand((tokens, top_k), of(0)), "order": Operand((pairs,)), "position": Operand((tokens, top_k)),
            "expert_of": Operand((pairs,)), "counts": Operand((experts,)), "offsets": Operand((experts + 1,)),
        },
        scalars=extents | {"experts": experts, "capacity": 0}, bounds=(Bound("peer", 1.0),),
    )  # fmt: skip
    yield Bench(
        name=f"moe_permute {size}", row="moe_permute_{T}", dtypes=("bf16", "f32"), check=check_permute,
        torch=(torch_permute,), bounds=(Bound("copy", 0.8),), scalars=extents | {"rows": pairs, "width": hidden},
        arrays={"x": Operand((tokens, hidden), "normal"), "order": ids["order"], "y": Operand((pairs, hidden))},
    )  # fmt: skip
    yield Bench(
        name=f"moe_combine {size}", row="moe_combine_{T}", dtypes=("bf16", "f32"), check=check_combine,
        torch=(torch_combine,), bounds=(Bound("copy", 0.8),), scalars=extents | {"rows": pairs, "width": hidden},
        arrays={
            "y": Operand((pairs, hidden), "sixteenths"), "position": slots, "weights": weights,
            "out": Operand((tokens, hidden)),
        },
    )  # fmt: skip
    yield Bench(
        name=f"moe_combine_backward {size}", row="moe_combine_backward_{T}", dtypes=("bf16",),
        check=check_combine_backward,
        scalars=extents | {"rows": pairs, "width": hidden}, bounds=(Bound("copy", 0.8),),
        arrays={
            "dout": Operand((tokens, hidden), "sixteenths"), "y": Operand((pairs, hidden), "sixteenths"),
            "order": ids["order"], "position": slots, "weights": weights, "dy": Operand((pairs, hidden)),
            "dweights": Operand((tokens, top_k)),
        },
    )  # fmt: skip
    yield Bench(
        name=f"moe_wmma {size}", row="moe_wmma_{T}", dtypes=("bf16",), check=check_experts, torch=(torch_experts,),
        scalars={
            "num_experts": experts, "topk": top_k, "size_m": pairs, "size_n": inner, "size_k": hidden, "is_prefill": 1,
        },
        arrays={
            "input": Operand((tokens, hidden), "sixteenths"),
            "weights": Operand((experts, inner, hidden), "sixteenths"),
            "sorted_token_ids": ids["order"], "expert_ids": ids["expert_of"], "expert_counts": Operand((experts,)),
            "expert_offsets": Operand((experts + 1,)), "output": Operand((pairs, inner)),
        },
        flops=2 * pairs * inner * hidden, bounds=(Bound("peer", 1.0),),
    )  # fmt: skip


def route(tokens, experts, top_k, dtypes=("bf16", "f32")):
    chosen = Operand((tokens, top_k))
    return Bench(
        name=f"moe_route {tokens} x {experts}", row="moe_route_{T}", dtypes=dtypes, check=check_route,
        torch=(torch_route,), scalars=NUMBERS | {"top_k": top_k}, bounds=(Bound("peer", 1.0),),
        arrays={"logits": Operand((tokens, experts), "normal"), "weights": chosen, "ids": chosen},
    )  # fmt: skip


def route_backward(tokens, experts, top_k):
    numbers = {name: NUMBERS[name] for name in ("scoring", "renormalize", "scale")}
    ids = Operand((tokens, top_k), part(tokens, top_k, experts, False, 0))
    return Bench(
        name=f"moe_route_backward {tokens} x {experts}", row="moe_route_backward_{T}", dtypes=("bf16",),
        check=lambda problem: "", scalars=numbers | {"top_k": top_k},
        arrays={
            "dweights": Operand((tokens, top_k), "normal"), "logits": Operand((tokens, experts), "normal"), "ids": ids,
            "dlogits": Operand((tokens, experts)),
        },
    )  # fmt: skip


def benches(backend):
    tokens = 16384 if backend == "cuda" else 512
    sizes = (EXPERTS, HIDDEN, INNER) if backend == "cuda" else (32, 256, 128)
    experts, hidden, inner = sizes
    yield route(tokens, experts, TOP_K)
    yield route(tokens, 256, TOP_K, ("f32",))
    yield route_backward(tokens, experts, TOP_K)
    for skewed in (False, True):
        yield from layer(tokens, TOP_K, experts, hidden, inner, skewed)


def sweeps(backend):
    """Experts of a routing, and tokens."""
    tokens = 4096 if backend == "cuda" else 128
    counts = (8, 16, 64, 128, 129, 256, 512, 513, 1024, 4096)
    yield Sweep(name="moe_route", axis="experts", points={e: route(tokens, e, TOP_K, ("f32",)) for e in counts})
    batches = (1, 16, 256, 4096, 65_536) if backend == "cuda" else (1, 16, 256, 1024)
    points = {t: route(t, 128, TOP_K, ("f32",)) for t in batches}
    yield Sweep(name="moe_route, 128 experts", axis="tokens", points=points)
