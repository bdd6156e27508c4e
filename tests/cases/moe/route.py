# SPDX-License-Identifier: Apache-2.0
"""Routing of tokens to experts, its gradient, and the order of pairs by expert."""

import numpy as np

from tools.oracle.numerics import round_to

from ..model import Bad, Case, Expected, Idle, Problem

SCORING = ("softmax", "sigmoid", "topk_softmax")
RULES = {
    "softmax": {}, "softmax_plain": {"renormalize": 0}, "sigmoid": {"scoring": 1},
    "sigmoid_plain": {"scoring": 1, "renormalize": 0}, "topk_softmax": {"scoring": 2, "renormalize": 0},
}  # fmt: skip
# tokens, experts, top_k
SHAPES = {
    "one": (1, 1, 1), "plain": (13, 24, 4), "odd": (9, 37, 5), "all": (7, 12, 12), "wide": (5, 640, 8),
    "uncached": (3, 2600, 3), "many": (300, 8, 2),
}  # fmt: skip


# --- routing ----------------------------------------------------------------------------------------------------------


def logits_of(draw, shape, kind):
    x = draw.rng.standard_normal(shape) * 2
    if kind == "ties":
        x = draw.rng.integers(-1, 2, shape) * np.where(draw.rng.random(shape) < 0.5, 1.0, -1.0)  # zeros of both signs
    elif kind == "low":
        x = x - 300
    elif kind == "faults":
        x[0, ::3] = np.nan
        x[1] = np.nan
        x[2, 1::2] = -np.inf
        x[3, 2] = np.inf
        x[4] = -np.inf
    return round_to(x, draw.dtype)


def route(
    draw, shape, kind="normal", *, scoring=0, renormalize=1, bias=False, n_group=1, topk_group=1, group_score=1, scale=1.0
):
    tokens, experts, top_k = shape
    scalars = {"tokens": tokens, "experts": experts, "top_k": top_k, "scoring": scoring, "renormalize": renormalize}
    scalars |= {"n_group": n_group, "topk_group": topk_group, "group_score": group_score, "scale": scale}
    arrays = {
        "logits": draw.array(logits_of(draw, (tokens, experts), kind)),
        "bias": draw.array(round_to(draw.rng.standard_normal(experts), "f32"), "f32"),
        "weights": draw.output((tokens, top_k), dtype="f32"), "ids": draw.output((tokens, top_k), dtype="i32"),
    }  # fmt: skip
    return Problem(scalars, arrays, null=() if bias else ("bias",))


def sigmoid(z):
    with np.errstate(over="ignore"):
        return 1 / (1 + np.exp(-z))


def softmax(z):
    with np.errstate(invalid="ignore"):
        e = np.exp(z - np.max(z, initial=-np.inf))
        return e / e.sum()


def chosen(values, count):
    """The first indices by falling value, NaN last."""
    order = sorted(range(len(values)), key=lambda j: (np.isnan(values[j]), -values[j] if values[j] == values[j] else 0, j))
    return order[:count]


def group_value(values, by_sum):
    finite = np.sort(values[~np.isnan(values)])[::-1]
    if not by_sum or len(values) == 1:
        return finite[0] if len(finite) else -np.inf
    return np.nan if len(finite) < len(values) else finite[:2].sum()


def routed(z, bias, s):
    scoring = SCORING[s["scoring"]]
    scores = {"softmax": softmax, "sigmoid": sigmoid, "topk_softmax": lambda z: z}[scoring](z)
    by_sum = s["group_score"] == 1
    is_grouped = s["topk_group"] < s["n_group"]
    values = z if bias is None and not (is_grouped and by_sum) else scores if bias is None else scores + bias
    if is_grouped:
        size = len(z) // s["n_group"]
        of_groups = [group_value(values[g * size : (g + 1) * size], by_sum) for g in range(s["n_group"])]
        experts = [g * size + j for g in sorted(chosen(of_groups, s["topk_group"])) for j in range(size)]
    else:
        experts = list(range(len(z)))
    ids = [experts[j] for j in chosen(values[experts], s["top_k"])]
    return ids, s["scale"] * weights_of(z, ids, s)


def weights_of(z, ids, s):
    """Weights without the scale; ratios of sigmoids by their logarithms, since they may underflow."""
    scoring = SCORING[s["scoring"]]
    with np.errstate(invalid="ignore"):
        if scoring == "sigmoid":
            return softmax(-np.logaddexp(0, -z[ids])) if s["renormalize"] else sigmoid(z[ids])
        return softmax(z[ids]) if s["renormalize"] or scoring == "topk_softmax" else softmax(z)[ids]


def route_reference(problem):
    s, z = problem.scalars, problem.arrays["logits"].values
    bias = None if "bias" in problem.null else problem.arrays["bias"].values
    found = [routed(row, bias, s) for row in z]
    weights = np.array([w for _, w in found]).reshape(len(z), s["top_k"])
    divided = np.abs(weights) * (1 + np.minimum(np.abs(np.nan_to_num(z, posinf=0, neginf=0)).max(-1, keepdims=True), 300))
    return {
        "ids": Expected(np.array([ids for ids, _ in found]).reshape(len(z), s["top_k"])),
        "weights": Expected(weights, count=z.shape[1], magnitude=np.abs(weights), divided=divided),
    }


def route_problems():
    table = {name: lambda d, s=s: route(d, s) for name, s in SHAPES.items()}
    for name, rule in RULES.items():
        table[name] = lambda d, r=rule: route(d, (20, 33, 6), scale=2.5, **r)
        table[f"{name} ties"] = lambda d, r=rule: route(d, (20, 33, 6), "ties", **r)
        table[f"{name} bias"] = lambda d, r=rule: route(d, (20, 32, 6), bias=True, **r)
        table[f"{name} groups"] = lambda d, r=rule: route(
            d, (20, 32, 6), bias=True, n_group=8, topk_group=3, group_score=1, **r
        )
        table[f"{name} faults"] = lambda d, r=rule: route(d, (6, 16, 4), "faults", **r)
    table |= {
        "low": lambda d: route(d, (9, 20, 4), "low", scoring=1), "low_softmax": lambda d: route(d, (9, 20, 4), "low"),
        "plain": lambda d: route(d, SHAPES["plain"], bias=True, n_group=6, topk_group=3, group_score=0),
        "groups_of_one": lambda d: route(d, (9, 8, 3), n_group=8, topk_group=5, group_score=1),
        "groups_by_sum": lambda d: route(d, (30, 64, 8), scoring=1, n_group=8, topk_group=4),
        "groups_faults": lambda d: route(d, (6, 16, 4), "faults", scoring=1, n_group=4, topk_group=2),
        "groups_uncached": lambda d: route(d, (4, 4096, 8), scoring=1, bias=True, n_group=512, topk_group=4),
    }  # fmt: skip
    return table


# --- gradient ---------------------------------------------------------------------------------------------------------


def backward(draw, shape, kind="normal", *, scoring=0, renormalize=1, scale=1.0, ids="routed"):
    tokens, experts, top_k = shape
    z = logits_of(draw, (tokens, experts), kind)
    own = np.argsort(-z, axis=-1, kind="stable")[:, :top_k]
    if ids == "outside":
        own = np.where(draw.rng.random(own.shape) < 0.3, draw.rng.choice([-1, experts, 2**31 - 1, -(2**31)], own.shape), own)
    scalars = {"tokens": tokens, "experts": experts, "top_k": top_k, "scoring": scoring, "renormalize": renormalize}
    arrays = {
        "dweights": draw.array(round_to(draw.rng.standard_normal(own.shape), "f32"), "f32"), "logits": draw.array(z),
        "ids": draw.array(own, "i32"), "dlogits": draw.output((tokens, experts)),
    }  # fmt: skip
    return Problem(scalars | {"scale": scale}, arrays)


def gradient(z, ids, g, s):
    """(gradient, magnitude of its summands) of a row, by the derivatives of the shares."""
    known = (ids >= 0) & (ids < len(z))
    ids, g = ids[known], g[known]
    found, size = np.zeros(len(z)), np.zeros(len(z))
    scoring = SCORING[s["scoring"]]
    if scoring == "softmax" and not s["renormalize"]:
        p, own = softmax(z), np.zeros(len(z))
        own[ids] = g
        mean = (own * p).sum()
        return s["scale"] * p * (own - mean), s["scale"] * p * (np.abs(own) + (np.abs(own) * p).sum())
    slope = sigmoid(-z[ids]) if scoring == "sigmoid" else np.ones(len(ids))
    if scoring == "sigmoid" and not s["renormalize"]:
        found[ids] = s["scale"] * g * sigmoid(z[ids]) * slope
        size[ids] = np.abs(found[ids])
    elif len(ids):
        p = weights_of(z, ids, s)
        found[ids] = s["scale"] * p * (g - (g * p).sum()) * slope
        size[ids] = s["scale"] * p * (np.abs(g) + (np.abs(g) * p).sum()) * slope
    return found, size


def backward_reference(problem):
    arrays, s = problem.arrays, problem.scalars
    rows = [gradient(*row, s) for row in zip(*[arrays[n].values for n in ("logits", "ids", "dweights")])]
    value, size = (np.array([row[k] for row in rows]).reshape(arrays["logits"].shape) for k in range(2))
    spread = 1 + np.minimum(np.abs(arrays["logits"].values).max(initial=0), 300)
    return {"dlogits": Expected(value, count=s["experts"], magnitude=size, divided=size * spread)}


def backward_problems():
    table = {name: lambda d, s=s: backward(d, s) for name, s in SHAPES.items()}
    for name, rule in RULES.items():
        table[name] = lambda d, r=rule: backward(d, (20, 33, 6), scale=2.5, **r)
        table[f"{name} outside"] = lambda d, r=rule: backward(d, (20, 33, 6), ids="outside", **r)
    return table | {"none_chosen": lambda d: backward(d, (4, 9, 0)),
                    "low": lambda d: backward(d, (9, 20, 4), "low", scoring=1)}  # fmt: skip


# --- order ------------------------------------------------------------------------------------------------------------


def ids_of(draw, shape, experts, kind):
    if kind == "one":
        return np.full(shape, max(experts - 1, 0))
    if kind == "skewed":
        return np.minimum((draw.rng.random(shape) ** 4 * experts).astype(int), max(experts - 1, 0))
    ids = draw.rng.integers(0, max(experts, 1), shape)
    if kind == "dropped":
        outside = [-1, experts, 2**31 - 1, -(2**31)]
        outside += [2**32, 2**32 + 1, -(2**63)] if draw.dtype == "i64" else []
        ids = np.where(draw.rng.random(shape) < 0.4, draw.rng.choice(np.array(outside, np.int64), shape), ids)
    return ids


def sort(draw, tokens, top_k, experts, kind="normal", capacity=0):
    pairs = tokens * top_k
    arrays = {
        "ids": draw.array(ids_of(draw, (tokens, top_k), experts, kind)),
        **{n: draw.output((pairs,), dtype="i32") for n in ("order", "expert_of")},
        "position": draw.output((tokens, top_k), dtype="i32"), "counts": draw.output((experts,), dtype="i32"),
        "offsets": draw.output((experts + 1,), dtype="i32"),
    }  # fmt: skip
    return Problem({"tokens": tokens, "top_k": top_k, "experts": experts, "capacity": capacity}, arrays)


def sorted_pairs(ids, experts, capacity):
    """order, position, expert_of, counts, offsets of flat ids."""
    lists = [[] for _ in range(experts)]
    for pair, expert in enumerate(ids):
        if 0 <= expert < experts and (not capacity or len(lists[expert]) < capacity):
            lists[expert].append(pair)
    order = [pair for each in lists for pair in each]
    position = np.full(len(ids), -1)
    position[order] = np.arange(len(order))
    expert_of = [e for e, each in enumerate(lists) for _ in each]
    rest = [-1] * (len(ids) - len(order))
    counts = np.array([len(each) for each in lists], np.int64)
    return np.array(order + rest, np.int64), position, np.array(expert_of + rest, np.int64), counts, np.append(
        0, np.cumsum(counts)
    )


def sort_reference(problem):
    s = problem.scalars
    found = sorted_pairs(problem.arrays["ids"].values.reshape(-1), s["experts"], s["capacity"])
    values = dict(zip(("order", "position", "expert_of", "counts", "offsets"), found))
    return {name: Expected(value.reshape(problem.arrays[name].shape)) for name, value in values.items()}


SORTS = {
    "one": (1, 1, 1), "plain": (17, 3, 8), "duplicates": (40, 7, 3), "one_expert": (33, 4, 9, "one"),
    "empty_experts": (9, 2, 300), "dropped": (50, 5, 12, "dropped"), "all_dropped": (5, 5, 0),
    "capacity": (64, 4, 6, "skewed", 11), "capacity_dropped": (64, 4, 6, "dropped", 5), "no_tokens": (0, 4, 6),
    "chunks": (1500, 2, 40, "skewed"), "large": (4000, 8, 128, "skewed"), "many_experts": (300, 4, 3000),
}  # fmt: skip


def negative(*names):
    return tuple(Bad(f"negative_{n}", 2, rf"{n} is -3, must be", {n: -3}, can=2) for n in names)


def choice(name, most):
    return tuple(
        Bad(f"{name}_{v}", 2, rf"{name} is {v}, must be in \[0, {most}\]", {name: v}, can=2) for v in (-1, most + 1)
    )


def huge(**others):
    scalars = {"tokens": 2**30, "top_k": 4, **others}
    return Bad("too_many_pairs", 3, r"tokens \* top_k is 4294967296, at most 2147483647", scalars, can=3)


CASES = (
    Case(
        row="moe_route_{T}", problems=route_problems(), reference=route_reference,
        tolerance={"weights": "softmax", "ids": "exact"}, plain="plain", large="many",
        bad=(
            *negative("tokens", "experts", "top_k", "n_group", "topk_group"), *choice("scoring", 2),
            *choice("renormalize", 1), *choice("group_score", 1),
            Bad("top_k", 2, r"top_k is 25, must be in \[0, 24\]", {"top_k": 25}, can=2),
            Bad("n_group", 2, r"n_group is 5, must divide experts 24", {"n_group": 5}, can=2),
            Bad("topk_group", 2, r"topk_group is 7, must be in \[1, 6\]", {"topk_group": 7}, can=2),
            Bad("few", 2, r"top_k is 13, but topk_group 3 groups of 4", {"top_k": 13}, can=2),
        ),
        idle=(Idle("no_tokens", {"tokens": 0}), Idle("none_chosen", {"top_k": 0})),
    ),
    Case(
        row="moe_route_backward_{T}", problems=backward_problems(), reference=backward_reference,
        tolerance={"dlogits": "softmax"}, plain="plain", large="many",
        bad=(
            *negative("tokens", "experts", "top_k"), *choice("scoring", 2), *choice("renormalize", 1),
            Bad("top_k", 2, r"top_k is 25, must be in \[0, 24\]", {"top_k": 25}, can=2),
        ),
        idle=(Idle("no_tokens", {"tokens": 0}), Idle("no_experts", {"experts": 0, "top_k": 0})),
    ),
    Case(
        row="moe_sort_{T}", problems={name: lambda d, s=s: sort(d, *s) for name, s in SORTS.items()},
        reference=sort_reference,
        tolerance=dict.fromkeys(("order", "position", "expert_of", "counts", "offsets"), "exact"),
        plain="plain", large="large",
        bad=(*negative("tokens", "top_k", "experts", "capacity"), huge()),
        idle=(),
    ),
)  # fmt: skip


