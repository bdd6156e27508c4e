# SPDX-License-Identifier: Apache-2.0
"""Speculative sampling of chains and trees."""

import numpy as np

from tools.oracle import sampling
from tools.oracle.numerics import round_to

from ..model import Bad, Case, Expected, Idle, Problem
from .tokens import RANDOM, SEED, random_numbers, stream_of

# batch, drafted tokens, vocabulary
SHAPES = {
    "one": (1, 1, 1),
    "plain": (12, 3, 50),
    "odd": (9, 5, 33),
    "segments": (2, 2, 3001),
    "long": (1, 2, 20011),
    "rows": (70, 1, 4),
}


def probabilities(draw, shape, spread=1.5):
    x = np.exp(draw.rng.standard_normal(shape) * spread)
    return round_to(x / x.sum(-1, keepdims=True), draw.dtype)


def chain(draw, shape, kind="normal"):
    """Draft and target, alike in part, and tokens that the draft is likely to have."""
    batch, drafted, vocab = shape
    draft = probabilities(draw, (batch, drafted, vocab))
    target = probabilities(draw, (batch, drafted + 1, vocab))
    mixed = 0.6 * draft + 0.4 * target[:, :drafted]
    target[:, :drafted] = round_to(mixed, draw.dtype)
    tokens = draft.cumsum(-1) > draw.rng.random((batch, drafted, 1)) * draft.sum(-1, keepdims=True)
    tokens = tokens.argmax(-1)
    if kind == "equal":
        target[:, :drafted] = draft
    elif kind == "rejected":  # target has none of the tokens, and the rest as the draft: no excess
        target[:, :drafted] = draft
        np.put_along_axis(target[:, :drafted], tokens[..., None], 0.0, -1)
    elif kind == "accepted":
        draft, target[:, :drafted] = np.zeros_like(draft), 1 / 64
    elif kind == "outside":
        tokens = draw.rng.choice([-1, vocab, vocab + 5, 2**31 - 1, -(2**31)], (batch, drafted))
    elif kind == "faults":
        target[0], draft[1, 0, 0], target[2] = np.nan, np.nan, 0.0
    return draft, tokens, target


def flashinfer(draw, shape, kind="normal"):
    batch, drafted, vocab = shape
    draft, tokens, target = chain(draw, shape, kind)
    scalars = {"batch": batch, "num_speculative_tokens": drafted, "vocab": vocab, "deterministic": 1}
    scalars |= {"seed_val": SEED, "offset_val": 7}
    arrays = {
        "draft_probs": draw.array(draft), "draft_token_ids": draw.array(tokens, "i32"),
        "target_probs": draw.array(target),
        "output_token_ids": draw.output((batch, drafted + 1), dtype="i32"),
        "output_accepted_token_num": draw.integers((batch,), "small", dtype="i32"),
        "output_emitted_draft_token_num": draw.integers((batch,), "small", dtype="i32"),
    }  # fmt: skip
    return Problem(scalars, arrays)


def passes(draft, target, token, u):
    return 0 <= token < len(draft) and u * draft[token] < target[token]


def next_token(excess, target, u):
    token, ok = sampling.drawn(excess, u)
    if ok:
        return token
    refused = not np.isfinite(target).all() or not target.max() > 0
    return -1 if refused else int(target.argmax())


def excess_of(draft, target, scale=1.0):
    return np.maximum(np.float64(np.float32(scale)) * target - draft, 0)


def verified(draft, tokens, target, words, by_blocks):
    """(tokens, accepted)"""
    n = len(tokens)
    units = [sampling.uniform(word) for word in words]
    scale, accepted = 1.0, 0
    if by_blocks:
        p = 1.0
        for i, token in enumerate(tokens):
            inside = 0 <= token < draft.shape[-1]
            a, b = (draft[i, token], target[i, token]) if inside else (1.0, 0.0)
            p = min(p * b / a, 1.0) if a > 0 and p * b > 0 else float(p * b > 0)
            if i + 1 < n:
                excess = excess_of(draft[i + 1], target[i + 1], p).sum()
                passed = units[i] * (excess + 1 - p) <= excess
            else:
                passed = units[i] <= p
            if passed:
                accepted, scale = i + 1, p
    else:
        while accepted < n and passes(draft[accepted], target[accepted], tokens[accepted], units[accepted]):
            accepted += 1
    u = sampling.fraction(words[2 * n], words[2 * n + 1])
    excess = target[n] if accepted == n else excess_of(draft[accepted], target[accepted], scale)
    found = [*tokens[:accepted], next_token(excess, target[accepted], u)]
    return found + [-1] * (n - accepted), accepted


def flashinfer_reference(problem):
    arrays = {name: array.values for name, array in problem.arrays.items()}
    n = problem.scalars["num_speculative_tokens"]
    found, passed, emitted = [], [], []
    for row in range(problem.scalars["batch"]):
        draft, target = arrays["draft_probs"][row], arrays["target_probs"][row]
        tokens = arrays["draft_token_ids"][row]
        words = sampling.words(problem.scalars["seed_val"], row, problem.scalars["offset_val"], 2 * n + 2)
        each, accepted = verified(draft, tokens, target, words, False)
        fresh = [passes(draft[i], target[i], tokens[i], sampling.uniform(words[n + i])) for i in range(accepted, n)]
        found.append(each)
        emitted.append(arrays["output_emitted_draft_token_num"][row] + accepted)
        passed.append(arrays["output_accepted_token_num"][row] + accepted + sum(fresh))
    return {
        "output_token_ids": Expected(np.array(found)), "output_accepted_token_num": Expected(np.array(passed)),
        "output_emitted_draft_token_num": Expected(np.array(emitted)),
    }  # fmt: skip


def ours(draw, shape, kind="normal", by_blocks=0, **given):
    batch, drafted, vocab = shape
    draft, tokens, target = chain(draw, shape, kind)
    scalars, arrays, null = random_numbers(draw, batch, given)
    scalars |= {"batch": batch, "drafted": drafted, "vocab": vocab, "by_blocks": by_blocks}
    arrays |= {
        "draft_probs": draw.array(draft), "draft_tokens": draw.array(tokens, "i32"), "target_probs": draw.array(target),
        "tokens": draw.output((batch, drafted + 1), dtype="i32"), "accepted": draw.output((batch,), dtype="i32"),
    }  # fmt: skip
    return Problem(scalars, arrays, null=tuple(null))


def ours_reference(problem):
    arrays = {name: array.values for name, array in problem.arrays.items()}
    found, accepted = [], []
    for row in range(problem.scalars["batch"]):
        words = sampling.words(*stream_of(problem, row), 2 * problem.scalars["drafted"] + 2)
        given = (arrays["draft_probs"][row], arrays["draft_tokens"][row], arrays["target_probs"][row])
        each, count = verified(*given, words, problem.scalars["by_blocks"])
        found.append(each)
        accepted.append(count)
    return {"tokens": Expected(np.array(found)), "accepted": Expected(np.array(accepted))}


def tree(draw, shape, kind="normal", **given):
    batch, nodes, vocab = shape
    scalars, arrays, null = random_numbers(draw, batch, given)
    scalars |= {"batch": batch, "nodes": nodes, "vocab": vocab}
    parents = np.array([[max(int(draw.rng.integers(0, max(i, 1))), 0) for i in range(nodes)] for _ in range(batch)])
    node_tokens = draw.rng.integers(0, min(vocab, 6), (batch, nodes))
    target = probabilities(draw, (batch, nodes, vocab))
    if kind == "faults":
        target[0], target[1] = np.nan, 0.0
        parents[2] = draw.rng.integers(-2, nodes + 3, nodes)
        node_tokens[3] = -1
    elif kind == "chain":
        parents = np.tile(np.maximum(np.arange(nodes) - 1, 0), (batch, 1))
        node_tokens[:] = 1
        target[:] = 0
        target[..., 1] = 1
    arrays |= {
        "target_probs": draw.array(target), "node_tokens": draw.array(node_tokens, "i32"),
        "parents": draw.array(parents, "i32"), "tokens": draw.output((batch, nodes), dtype="i32"),
        "path": draw.output((batch, nodes), dtype="i32"), "accepted": draw.output((batch,), dtype="i32"),
    }  # fmt: skip
    return Problem(scalars, arrays, null=tuple(null))


def tree_reference(problem):
    arrays = {name: array.values for name, array in problem.arrays.items()}
    nodes = problem.scalars["nodes"]
    found = {"tokens": [], "path": [], "accepted": []}
    for row in range(problem.scalars["batch"]):
        words = sampling.words(*stream_of(problem, row), 2 * nodes)
        node, tokens, path = 0, [], []
        while node >= 0:
            depth = len(tokens)
            u = sampling.fraction(words[2 * depth], words[2 * depth + 1])
            token = next_token(arrays["target_probs"][row, node], arrays["target_probs"][row, node], u)
            children = [
                i
                for i in range(node + 1, nodes)
                if arrays["parents"][row, i] == node and arrays["node_tokens"][row, i] == token
            ]
            node = children[0] if children and token >= 0 else -1
            tokens.append(token)
            path.append(node)
        found["accepted"].append(len(path) - 1)
        for name, series in (("tokens", tokens), ("path", path)):
            found[name].append(series + [-1] * (nodes - len(series)))
    return {name: Expected(np.array(series)) for name, series in found.items()}


def pointers(*names):
    return (
        *(Bad(f"null_{p}", 2, rf"{p} is NULL", null=(p,)) for p in names),
        *(Bad(f"odd_{p}", 1, rf"{p} is 0x[0-9a-f]+", shift={p: 1}) for p in names),
    )


def negative(*extents):
    return tuple(Bad(f"negative_{e}", 2, rf"{e} is -3, must be >= 0", {e: -3}, can=2) for e in extents)


KINDS = ("equal", "rejected", "accepted", "outside", "faults")
OUTPUTS = ("output_token_ids", "output_accepted_token_num", "output_emitted_draft_token_num")
EXACT = dict.fromkeys(("tokens", "path", "accepted"), "exact")

CASES = (
    Case(
        row="flashinfer_chain_speculative_sampling_{T}",
        problems={name: lambda d, s=s: flashinfer(d, s) for name, s in SHAPES.items()}
        | {kind: lambda d, k=kind: flashinfer(d, (6, 4, 40), k) for kind in KINDS},
        reference=flashinfer_reference, tolerance=dict.fromkeys(OUTPUTS, "exact"), plain="plain", large="long",
        bad=(
            *(
                Bad(f"{e}_{v}", 2, rf"{e} is {v}, must be > 0", {e: v}, can=2)
                for e in ("batch", "num_speculative_tokens", "vocab")
                for v in (0, -3)
            ),
            *pointers("draft_probs", "draft_token_ids", "target_probs", *OUTPUTS),
        ),
        idle=(),
    ),
    Case(
        row="speculative_sample_{T}",
        problems={name: lambda d, s=s: ours(d, s) for name, s in SHAPES.items()}
        | {kind: lambda d, k=kind: ours(d, (6, 4, 40), k) for kind in KINDS}
        | {f"blocks, {name}": lambda d, s=s: ours(d, s, by_blocks=1) for name, s in SHAPES.items()}
        | {f"blocks, {kind}": lambda d, k=kind: ours(d, (6, 4, 40), k, 1) for kind in KINDS}
        | {name: lambda d, n=name: ours(d, (6, 2, 40), arrays=(n,)) for name in ("seed_of", "offset_of", "rng_state")}
        | {"plain": lambda d: ours(d, SHAPES["plain"], arrays=RANDOM)}
        | {"nothing_drafted": lambda d: ours(d, (5, 0, 40))},
        reference=ours_reference, tolerance={"tokens": "exact", "accepted": "exact"}, plain="plain", large="long",
        bad=(
            *negative("batch", "drafted", "vocab"),
            Bad("flag", 2, r"by_blocks is 2, must be 0 or 1", {"by_blocks": 2}, can=2),
            Bad("no_vocab", 2, r"vocab is 0, but batch is 12", {"vocab": 0}, can=2),
            *pointers("draft_probs", "draft_tokens", "target_probs", "tokens", "accepted"),
        ),
        idle=(Idle("no_rows", {"batch": 0}),),
    ),
    Case(
        row="tree_sample_{T}",
        problems={name: lambda d, s=s: tree(d, s) for name, s in SHAPES.items()}
        | {
            "plain": lambda d: tree(d, SHAPES["plain"], arrays=RANDOM), "wide": lambda d: tree(d, (20, 60, 7)),
            "chain": lambda d: tree(d, (3, 9, 7), "chain"),
            "faults": lambda d: tree(d, (6, 12, 8), "faults"),
            "rng_state": lambda d: tree(d, (6, 12, 8), arrays=("rng_state",)),
        },
        reference=tree_reference, tolerance=EXACT, plain="plain", large="long",
        bad=(
            *negative("batch", "nodes", "vocab"),
            Bad("no_vocab", 2, r"vocab is 0, but batch is 12", {"vocab": 0}, can=2),
            Bad("no_root", 2, r"nodes is 0, must have a root", {"nodes": 0}, can=2),
            *pointers("target_probs", "node_tokens", "parents", "tokens", "path", "accepted"),
        ),
        idle=(Idle("no_rows", {"batch": 0}),),
    ),
)  # fmt: skip
