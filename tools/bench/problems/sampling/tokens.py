# SPDX-License-Identifier: Apache-2.0
"""Samplers over logits and probabilities, filters, penalties and speculative sampling, at the size of a model's output.

PyTorch's peer sorts each row, as vLLM's sampler in PyTorch does.
"""

import numpy as np

from tools.bench.check import cells, compare, rows, sample_indices
from tools.bench.record import Bench, Bound, Operand, Sweep
from tools.oracle import sampling

VOCAB = 128_256
LARGE_VOCAB = 256_000
NUMBERS = {"are_probabilities": 0, "temperature": 0.75, "top_k": 50, "top_p": 0.9, "min_p": 0.0}
RANDOM = {"seed": 5, "offset": 0}
SCALARS = {"deterministic": 1, "seed_val": 5, "offset_val": 0}
FILTERS = {"top_k": {"top_k_val": 50}, "top_p": {"top_p_val": 0.9}, "min_p": {"min_p_val": 0.1}}
FILTERS["top_k_top_p"] = FILTERS["top_k"] | FILTERS["top_p"]
UNMEASURED = dict.fromkeys(
    [f"flashinfer_{kind}_sampling_{{T}}_arr" for kind in FILTERS], "the kernel of the row with one number for all rows"
)


def torch_sample(torch, t, scalars):
    """Temperature, top-k and top-p by a sort, then a draw by exponential numbers."""
    k, p = scalars["top_k"], scalars["top_p"]

    def peer():
        logits = t["x"].float() / scalars["temperature"]
        values, order = torch.sort(logits, descending=True)
        if 0 < k < logits.shape[-1]:
            values[:, k:] = -torch.inf
        q = torch.softmax(values, -1)
        q = torch.where(q.cumsum(-1) - q >= p, 0, q)
        drawn = (q / torch.empty_like(q).exponential_(1)).argmax(-1, keepdim=True)
        return order.gather(-1, drawn)

    return peer


def torch_filter(torch, t, scalars):
    def peer():
        least = torch.topk(t["x"], scalars["top_k"]).values[:, -1:]
        return torch.where(t["x"] < least, -torch.inf, t["x"])

    return peer


def torch_multinomial(torch, t, scalars):
    return lambda: torch.multinomial(t["probs"], 1)


def torch_penalty(torch, t, scalars):
    def peer():
        x, counts = t["logits"], t["counts"]
        x = torch.where(x > 0, x / 1.25, x * 1.25)
        x = x - 0.5 * counts - 0.25
        return torch.where(counts > 0, x, t["logits"])

    return peer


def is_admitted(problem):
    """The tokens of some rows are among those that the filters admit."""
    numbers, batch = problem.bench.scalars, problem.bench.arrays["x"].shape[0]
    for row in np.unique(sample_indices(problem, batch, 2)):
        x = rows(problem, "x", [row])[0]
        weights = sampling.weights_of_logits(x, numbers["temperature"])
        admitted = sampling.sequential(x, weights, numbers["top_k"], numbers["top_p"] + 1e-4, numbers["min_p"])
        token = int(cells(problem, "token", [row])[0])
        if not admitted[token]:
            return f"row {row} has token {token}, which is not admitted"
    return ""


def is_filtered(problem):
    row = rows(problem, "x", [0])[0]
    kept = np.zeros(row.size, bool)
    kept[np.argsort(-row, kind="stable")[: problem.bench.scalars["top_k"]]] = True
    return compare(problem, rows(problem, "y", [0])[0], np.where(kept, row, -np.inf), 0.0)


def is_typical(problem):
    numbers, batch = problem.bench.scalars, problem.bench.arrays["logits"].shape[0]
    for row in np.unique(sample_indices(problem, batch, 2)):
        x = rows(problem, "logits", [row])[0]
        weights = sampling.weights_of_logits(x, numbers["temperature"])
        token = int(cells(problem, "token", [row])[0])
        if not sampling.typical(x, weights, numbers["typical_p"] + 1e-4, numbers["temperature"])[token]:
            return f"row {row} has token {token}, which is not typical"
    return ""


def is_original(kind):
    """The tokens of some rows are among those that the filters on the whole row admit."""

    def check(problem):
        numbers, batch = problem.bench.scalars, problem.bench.arrays["probs"].shape[0]
        for row in np.unique(sample_indices(problem, batch, 2)):
            probs = rows(problem, "probs", [row])[0]
            top_p, min_p = numbers.get("top_p_val"), numbers.get("min_p_val")
            admitted = sampling.original(
                probs, numbers.get("top_k_val"), top_p and top_p + 1e-4, min_p and min_p - 1e-4
            )  # fmt: skip
            token = int(cells(problem, "output", [row])[0])
            if not cells(problem, "valid", [row])[0] or not admitted[token]:
                return f"{kind}: row {row} has token {token}, which is not admitted"
        return ""

    return check


def is_processed(problem):
    """The first row: penalties of tokens that occur, then -inf for those that are not allowed."""
    numbers = problem.bench.scalars
    x, counts, y = (rows(problem, name, [0])[0] for name in ("logits", "counts", "y"))
    words = cells(problem, "allowed", np.arange(numbers["words"])).astype(np.int64)
    allowed = (np.repeat(words, 32)[: x.size] >> (np.arange(x.size) % 32)) & 1
    punished = np.where(x > 0, x / numbers["repetition"], x * numbers["repetition"])
    punished = punished - numbers["frequency"] * counts - numbers["presence"]
    expected = np.where(counts > 0, punished, x)
    return compare(problem, y, np.where(allowed == 1, expected, -np.inf), np.abs(x) + 1)


def unchecked(_problem):
    return ""  # tests/cases has the reference


def sampler(name, batch, vocab, dtypes=("f32", "bf16"), bounds=(), **numbers):
    arrays = {"x": Operand((batch, vocab), "normal"), "token": Operand((batch,)), "valid": Operand((batch,))}
    return Bench(
        name=name, row="sample_tokens_{T}", dtypes=dtypes, check=is_admitted, torch=(torch_sample,), arrays=arrays,
        scalars=NUMBERS | RANDOM | {"batch": batch, "vocab": vocab} | numbers, bounds=bounds,
    )  # fmt: skip


def benches(backend):
    batch = 128 if backend == "cuda" else 8
    faster = (Bound("peer", 1.0),)
    yield sampler("sample_tokens", batch, VOCAB, bounds=faster)
    yield sampler("sample_tokens, large vocabulary", batch, LARGE_VOCAB)
    yield sampler("sample_tokens, one row", 1, LARGE_VOCAB, bounds=faster)
    yield sampler("sample_tokens, top-p", batch, VOCAB, ("f32",), top_k=0)
    yield sampler("sample_tokens, all tokens", batch, VOCAB, ("f32",), top_k=0, top_p=1.0)
    yield sampler("sample_tokens, small vocabulary", 64 * batch, 4096, ("f32",))
    shape = (batch, VOCAB)
    yield Bench(
        name="filter_tokens", row="filter_tokens_{T}", dtypes=("f32", "bf16"), check=is_filtered, torch=(torch_filter,),
        arrays={"x": Operand(shape, "normal"), "y": Operand(shape)}, bounds=faster,
        scalars=NUMBERS | {"batch": batch, "vocab": VOCAB, "normalize": 0, "top_p": 1.0, "temperature": 1.0},
    )  # fmt: skip
    yield Bench(
        name="typical_sampling", row="typical_sampling_{T}", dtypes=("f32",), check=is_typical,
        arrays={"logits": Operand(shape, "normal"), "token": Operand((batch,))},
        scalars=RANDOM | {"batch": batch, "vocab": VOCAB, "temperature": 1.0, "typical_p": 0.9},
    )  # fmt: skip
    for kind, numbers in FILTERS.items():
        yield Bench(
            name=f"flashinfer_{kind}_sampling", row=f"flashinfer_{kind}_sampling_{{T}}", dtypes=("f32",),
            check=is_original(kind),
            torch=(torch_multinomial,), scalars=SCALARS | numbers | {"batch": batch, "vocab": VOCAB},
            arrays={"probs": Operand(shape, "probability"), "output": Operand((batch,)), "valid": Operand((batch,))},
        )  # fmt: skip
    penalties = {"rep_penalty": 1.25, "freq_penalty": 0.5, "pres_penalty": 0.25}
    yield Bench(
        name="apply_token_penalty", row="apply_token_penalty_{T}", dtypes=("f32", "bf16"), check=unchecked,
        torch=(torch_penalty,), scalars=penalties | {"batch": batch, "vocab": VOCAB}, bounds=faster,
        arrays={"logits": Operand(shape, "normal"), "counts": Operand(shape, lambda rng: rng.integers(0, 2, shape))},
    )  # fmt: skip
    own = {"repetition": 1.25, "frequency": 0.5, "presence": 0.25, "batch": batch, "vocab": VOCAB}
    words = -(-VOCAB // 32)
    yield Bench(
        name="process_logits", row="process_logits_{T}", dtypes=("f32", "bf16"), check=is_processed,
        scalars=own | {"words": words},
        arrays={
            "logits": Operand(shape, "normal"), "counts": Operand(shape, lambda rng: rng.integers(0, 2, shape)),
            "allowed": Operand((batch, words), lambda rng: rng.integers(-(2**31), 2**31, (batch, words))),
            "y": Operand(shape),
        },
    )  # fmt: skip
    listed = (batch, 512)
    tokens = Operand(listed, lambda rng: rng.integers(0, VOCAB, listed))
    lists = {"logits": Operand(shape, "normal"), "tokens": tokens, "y": Operand(shape)}
    yield Bench(
        name="token_penalty_lists", row="token_penalty_lists_{T}", dtypes=("f32",), check=unchecked,
        scalars=own | {"length": listed[1]}, arrays=lists,
    )  # fmt: skip
    yield Bench(
        name="token_bias_lists", row="token_bias_lists_{T}", dtypes=("f32",), check=unchecked,
        scalars={"batch": batch, "vocab": VOCAB, "length": listed[1]}, arrays=lists,
    )  # fmt: skip
    yield from speculative(batch // 4, 4)


def speculative(batch, drafted):
    drafts, targets = (batch, drafted, VOCAB), (batch, drafted + 1, VOCAB)
    ids = Operand((batch, drafted), lambda rng: rng.integers(0, VOCAB, (batch, drafted)))
    extents = {"batch": batch, "vocab": VOCAB}
    yield Bench(
        name="flashinfer_chain_speculative_sampling", row="flashinfer_chain_speculative_sampling_{T}", dtypes=("f32",),
        check=unchecked, scalars=SCALARS | extents | {"num_speculative_tokens": drafted},
        arrays={
            "draft_probs": Operand(drafts, "probability"), "draft_token_ids": ids,
            "target_probs": Operand(targets, "probability"), "output_token_ids": Operand((batch, drafted + 1)),
            "output_accepted_token_num": Operand((batch,)), "output_emitted_draft_token_num": Operand((batch,)),
        },
    )  # fmt: skip
    for by_blocks in (0, 1):
        yield Bench(
            name=f"speculative_sample{', by blocks' * by_blocks}", row="speculative_sample_{T}", dtypes=("f32",),
            check=unchecked, scalars=RANDOM | extents | {"drafted": drafted, "by_blocks": by_blocks},
            arrays={
                "draft_probs": Operand(drafts, "probability"), "draft_tokens": ids,
                "target_probs": Operand(targets, "probability"), "tokens": Operand((batch, drafted + 1)),
                "accepted": Operand((batch,)),
            },
        )  # fmt: skip
    nodes = (batch, drafted + 1)
    yield Bench(
        name="tree_sample", row="tree_sample_{T}", dtypes=("f32",), check=unchecked,
        scalars=RANDOM | extents | {"nodes": nodes[1]},
        arrays={
            "target_probs": Operand(targets, "probability"),
            "parents": Operand(nodes, lambda rng: np.zeros(nodes, int)),
            "node_tokens": Operand(nodes, lambda rng: rng.integers(0, VOCAB, nodes)),
            "tokens": Operand(nodes), "path": Operand(nodes), "accepted": Operand((batch,)),
        },
    )  # fmt: skip


def sweeps(backend):
    """Vocabularies of one row, and batches of a model's vocabulary."""
    vocabularies = (32, 1000, 4096, 4097, 32_000, 65_537, 128_256, 256_000, 1_000_000)
    rows_of = {v: sampler(f"vocabulary {v}", 1, v, ("f32",)) for v in vocabularies}
    yield Sweep(name="sample_tokens, one row", axis="row length", points=rows_of)
    batches = (1, 2, 8, 32, 128, 512) if backend == "cuda" else (1, 2, 3, 4)
    points = {b: sampler(f"batch {b}", b, VOCAB, ("f32",)) for b in batches}
    yield Sweep(name="sample_tokens, rows of 128,256", axis="rows", points=points)
