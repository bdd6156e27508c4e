# SPDX-License-Identifier: Apache-2.0
"""Millions of draws against exact probabilities, by chi-square; the same test must refuse a wrong distribution. Rows do
not depend on the batch, and launches repeat their bits.
"""

import numpy as np
import pytest

import baracuda as bk
from tools.oracle import sampling

ON_FIBERS = bk.default_library().build_info.get("device") == "fibers"
DRAWS = 30_000 if ON_FIBERS else 5_000_000
SPECULATIVE_DRAWS = 3_000 if ON_FIBERS else 300_000
VOCAB = 20
# Quantiles of the normal distribution: a right sampler fails 1 test in 3 million, at fixed seeds never.
FAR = 5.0


def run(library, plan_name, fields, operands, outputs, **options):
    """The outputs of a plan, on NumPy values; outputs are name -> (shape, dtype)."""
    descriptor = getattr(bk, f"{plan_name}Descriptor")(*fields, element=bk.f32, **options)
    plan = getattr(bk, f"{plan_name}Plan").select(None, descriptor, library=library)
    given = {name: bk.upload(value, library=library) for name, value in operands.items()}
    made = {name: bk.empty(shape, dtype, library=library) for name, (shape, dtype) in outputs.items()}
    plan.run(None, bk.workspace(plan), plan.args_type(**given, **made))
    return [bk.download(made[name]) for name in outputs]


def chi_square(counts, probabilities):
    """The statistic as a quantile of the normal distribution (Wilson and Hilferty 1931). Tokens that cannot be drawn
    must have no counts."""
    assert not counts[probabilities == 0].any()
    cells = probabilities > 0
    want = probabilities[cells] * counts.sum()
    freedom = max(cells.sum() - 1, 1)
    statistic = ((counts[cells] - want) ** 2 / want).sum()
    return ((statistic / freedom) ** (1 / 3) - (1 - 2 / (9 * freedom))) / np.sqrt(2 / (9 * freedom))


def logits(seed=0):
    return (np.random.default_rng(seed).standard_normal(VOCAB) * 1.5).astype(np.float32)


FILTERS = {
    "all": {}, "temperature": {"temperature": 0.5}, "top_k": {"top_k": 7}, "top_p": {"top_p": 0.8},
    "min_p": {"min_p": 0.1},
    "joint": {"temperature": 1.5, "top_k": 12, "top_p": 0.9, "min_p": 0.05},
}  # fmt: skip


def share_of(name):
    x, numbers = logits(), dict(FILTERS[name])
    weights = sampling.weights_of_logits(x, numbers.pop("temperature", 1.0))
    weights = weights * sampling.sequential(x, weights, **numbers)
    return weights / weights.sum()


def sampled(library, name, count, **options):
    x = np.broadcast_to(logits(), (count, VOCAB)).copy()
    outputs = {"token": ((count,), bk.i32), "valid": ((count,), bk.u8)}
    token, valid = run(library, "SampleTokens", (count, VOCAB), {"x": x}, outputs, **FILTERS[name], **options)
    assert valid.all()
    return np.bincount(token, minlength=VOCAB)


@pytest.mark.parametrize("name", FILTERS)
def test_draws_have_the_distribution(library, name):
    """Subsequences of a seed: a row each."""
    assert chi_square(sampled(library, name, DRAWS // 6, seed=11), share_of(name)) < FAR


def test_the_test_finds_a_wrong_distribution(library):
    """Negative control: a part of the likeliest token's share goes to the next one."""
    counts, share = sampled(library, "all", DRAWS // 6, seed=11), share_of("all")
    part = 0.01 * (5_000_000 / DRAWS) ** 0.5
    order = np.argsort(-share)
    share[order[1]] += share[order[0]] * part
    share[order[0]] *= 1 - part
    assert chi_square(counts, share) > FAR


@pytest.mark.parametrize("of", ["seeds", "offsets"])
def test_seeds_and_offsets_are_independent(library, of):
    """A row with a seed of its own, or an offset two draws behind the one before."""
    count = DRAWS // 10
    x = np.broadcast_to(logits(), (count, VOCAB)).copy()
    numbers = np.arange(count, dtype=np.int64)
    operands = {"x": x, "seed_of": numbers if of == "seeds" else np.zeros(count, np.int64)}
    operands["offset_of"] = 2 * numbers if of == "offsets" else np.zeros(count, np.int64)
    (token,) = run(library, "SampleTokens", (count, VOCAB), operands, {"token": ((count,), bk.i32)})
    assert chi_square(np.bincount(token, minlength=VOCAB), share_of("all")) < FAR
    pairs = np.bincount(token[:-1] * VOCAB + token[1:], minlength=VOCAB**2)
    assert chi_square(pairs, np.outer(share_of("all"), share_of("all")).ravel()) < FAR


def test_flashinfer_samplers_have_the_distribution(library):
    count = DRAWS // 10
    p = sampling.weights_of_logits(logits())
    p = (p / p.sum()).astype(np.float32)
    probs = np.broadcast_to(p, (count, VOCAB)).copy()
    for kind, numbers in (
        (bk.SamplerKind.TOP_K, {"top_k": 6}), (bk.SamplerKind.TOP_P, {"top_p": 0.75}),
        (bk.SamplerKind.MIN_P, {"min_p": 0.2}),
        (bk.SamplerKind.TOP_K_TOP_P, {"top_k": 9, "top_p": 0.85}),
    ):  # fmt: skip
        outputs = {"output": ((count,), bk.i32)}
        (token,) = run(
            library, "TopKTopPSampling", (kind, count, VOCAB), {"probs": probs}, outputs, seed_val=3, **numbers
        )
        share = p.astype(np.float64) * sampling.original(p, **numbers)
        assert chi_square(np.bincount(token, minlength=VOCAB), share / share.sum()) < FAR


@pytest.mark.parametrize("by_blocks", [False, True])
def test_speculative_tokens_have_the_target_distribution(library, by_blocks):
    """The first token of each row, and the second where the first was accepted."""
    rng, count, vocab, drafted = np.random.default_rng(5), SPECULATIVE_DRAWS, 6, 3
    draft, target = rng.dirichlet(np.ones(vocab), drafted), rng.dirichlet(np.ones(vocab), drafted + 1)
    draft, target = draft.astype(np.float32), target.astype(np.float32)
    tokens = [rng.choice(vocab, count, p=p.astype(np.float64) / p.sum(dtype=np.float64)) for p in draft]
    operands = {
        "draft_probs": np.broadcast_to(draft, (count, *draft.shape)).copy(),
        "draft_tokens": np.stack(tokens, 1).astype(np.int32),
        "target_probs": np.broadcast_to(target, (count, *target.shape)).copy(),
    }
    outputs = {"tokens": ((count, drafted + 1), bk.i32), "accepted": ((count,), bk.i32)}
    fields = (count, drafted, vocab, by_blocks)
    found, accepted = run(library, "SpeculativeSample", fields, operands, outputs, seed=9)
    share = target.astype(np.float64) / target.sum(1, keepdims=True, dtype=np.float64)
    assert chi_square(np.bincount(found[:, 0], minlength=vocab), share[0]) < FAR
    assert chi_square(np.bincount(found[accepted >= 1, 1], minlength=vocab), share[1]) < FAR
    assert chi_square(np.bincount(found[accepted >= 2, 2], minlength=vocab), share[2]) < FAR
    assert chi_square(np.bincount(found[:, 0], minlength=vocab), draft[0].astype(np.float64) / draft[0].sum()) > FAR


def test_blocks_accept_more(library):
    rng, count, vocab, drafted = np.random.default_rng(6), SPECULATIVE_DRAWS // 15, 8, 4
    draft, target = rng.dirichlet(np.ones(vocab), drafted), rng.dirichlet(np.ones(vocab), drafted + 1)
    tokens = [rng.choice(vocab, count, p=p) for p in draft]
    operands = {
        "draft_probs": np.broadcast_to(draft.astype(np.float32), (count, *draft.shape)).copy(),
        "draft_tokens": np.stack(tokens, 1).astype(np.int32),
        "target_probs": np.broadcast_to(target.astype(np.float32), (count, *target.shape)).copy(),
    }
    outputs = {"tokens": ((count, drafted + 1), bk.i32), "accepted": ((count,), bk.i32)}
    singly, together = (
        run(library, "SpeculativeSample", (count, drafted, vocab, by_blocks), operands, outputs, seed=2)[1].mean()
        for by_blocks in (False, True)
    )
    assert together > singly


def test_rows_do_not_depend_on_the_batch(library):
    """Each row alone, and the rows in another order, have the tokens of the whole batch."""
    rng = np.random.default_rng(8)
    x = (rng.standard_normal((9, 5000)) * 4).astype(np.float32)
    seeds = rng.integers(-(2**62), 2**62, 9)
    numbers = {"temperature": 0.8, "top_k": 300, "top_p": 0.95, "min_p": 1e-4}

    def tokens(rows):
        operands = {"x": x[rows], "seed_of": seeds[rows]}
        return run(library, "SampleTokens", (len(rows), 5000), operands, {"token": ((len(rows),), bk.i32)}, **numbers)[
            0
        ]

    whole = tokens(np.arange(9))
    order = rng.permutation(9)
    assert np.array_equal(tokens(order), whole[order])
    assert [tokens(np.array([row]))[0] for row in range(9)] == whole.tolist()
    assert np.array_equal(tokens(np.arange(9)), whole)


def test_exactly_k_tokens_of_equal_ones(library):
    x = np.zeros((3, 4000), np.float32)
    outputs = {"y": ((3, 4000), bk.f32)}
    (y,) = run(library, "FilterTokens", (3, 4000), {"x": x}, outputs, top_k=1234)
    assert np.array_equal(np.isfinite(y), np.broadcast_to(np.arange(4000) < 1234, y.shape))


def test_greedy_is_argmax(library):
    """Greedy sampling is argmax of logits that differ in the last bit."""
    rng = np.random.default_rng(4)
    x = np.nextafter(np.float32(3), np.float32(4)) * np.ones((50, 777), np.float32)
    x[rng.random(x.shape) < 0.9] = 3
    for numbers in ({"top_k": 1}, {"temperature": 0.0}, {"top_p": 0.0}, {"top_p": 1e-9}):
        (token,) = run(library, "SampleTokens", x.shape, {"x": x}, {"token": ((50,), bk.i32)}, seed=1, **numbers)
        assert np.array_equal(token, x.argmax(1)), numbers
