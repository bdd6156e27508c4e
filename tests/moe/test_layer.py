# SPDX-License-Identifier: Apache-2.0
"""bk.moe against the layer in float64, and properties of its pieces that no single op shows."""

import numpy as np
import pytest

import baracuda as bk
from moe import references

LAYER = (
    "moe_route_f32", "moe_sort_i32", "moe_permute_f32", "moe_combine_f32", "grouped_gemm_f32", "unary_silu_f32",
    "binary_mul_f32",
)  # fmt: skip
pytestmark = [pytest.mark.host_arrays, pytest.mark.needs_ops(*LAYER)]
TOKENS, EXPERTS, HIDDEN, INNER, TOP_K = 40, 8, 24, 16, 3
OPTIONS = {
    "softmax": {}, "plain": {"renormalize": False}, "sigmoid": {"scoring": "sigmoid", "scale": 2.5},
    "topk_softmax": {"scoring": "topk_softmax"}, "groups": {"scoring": "sigmoid", "n_group": 4, "topk_group": 2},
    "capacity": {"capacity": 5}, "silu": {"activation": "silu"}, "all": {"top_k": EXPERTS},
}  # fmt: skip


def operands(rng, halves=2):
    shapes = ((TOKENS, HIDDEN), (TOKENS, EXPERTS), (EXPERTS, halves * INNER, HIDDEN), (EXPERTS, HIDDEN, INNER))
    return [rng.standard_normal(shape).astype(np.float32) for shape in shapes]


def near(got, want):
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4 * np.abs(want).max())


@pytest.mark.parametrize("name", OPTIONS)
def test_layer(rng, name):
    options = {"top_k": TOP_K, **OPTIONS[name]}
    given = operands(rng, 1 if name == "silu" else 2)
    near(bk.moe(*given, **options), references.moe(*[each.astype(np.float64) for each in given], **options))


@pytest.mark.needs_ops("linear_f32", "binary_add_f32")
def test_shared_expert_and_bias(rng):
    given = operands(rng)
    more = {
        "selection_bias": rng.standard_normal(EXPERTS).astype(np.float32),
        "shared_gate_up": rng.standard_normal((2 * INNER, HIDDEN)).astype(np.float32),
        "shared_down": rng.standard_normal((HIDDEN, INNER)).astype(np.float32),
    }
    wide = {name: each.astype(np.float64) for name, each in more.items()}
    near(bk.moe(*given, TOP_K, **more), references.moe(*[each.astype(np.float64) for each in given], TOP_K, **wide))


def test_leading_axes(rng):
    x, logits, *weights = operands(rng)
    whole = bk.moe(x, logits, *weights, TOP_K)
    batched = bk.moe(x.reshape(4, 10, HIDDEN), logits.reshape(4, 10, EXPERTS), *weights, TOP_K)
    assert np.array_equal(batched, whole.reshape(4, 10, HIDDEN))


def test_no_tokens_and_one_expert(rng):
    x, logits, *weights = operands(rng)
    assert bk.moe(x[:0], logits[:0], *weights, TOP_K).shape == (0, HIDDEN)
    logits[:] = -np.inf
    logits[:, 2] = 0  # all tokens choose it
    near(bk.moe(x, logits, *weights, 1), references.moe(x, logits, *[w.astype(np.float64) for w in weights], 1))


def test_routing_and_sums_do_not_depend_on_the_batch(rng):
    logits = rng.standard_normal((50, EXPERTS)).astype(np.float32)
    weights, ids = bk.moe_route(logits, TOP_K)
    for k in (0, 7, 49):
        own = bk.moe_route(logits[k : k + 1], TOP_K)
        assert np.array_equal(own[0][0], weights[k]) and np.array_equal(own[1][0], ids[k])
    order, position, *_ = bk.moe_sort(ids, EXPERTS)
    y = rng.standard_normal((order.size, 33)).astype(np.float32)
    out = bk.moe_combine(y, order, position, weights)
    one = bk.moe_combine(y, order, position[7:8], weights[7:8])
    assert np.array_equal(one[0], out[7])


def test_order_and_position_are_inverse(rng):
    ids = rng.integers(-1, EXPERTS + 1, (60, 5))
    order, position, expert_of, counts, offsets = bk.moe_sort(ids, EXPERTS, capacity=20)
    kept = order[order >= 0]
    assert np.array_equal(position.reshape(-1)[kept], np.arange(kept.size))
    assert np.array_equal(ids.reshape(-1)[kept], expert_of[: kept.size])
    assert np.array_equal(np.diff(offsets), counts) and counts.max() <= 20
    assert (position < 0).sum() == (order < 0).sum() == ids.size - kept.size


def test_gradient_of_a_permutation_is_its_transpose(rng):
    ids = rng.integers(-1, EXPERTS, (30, 4))
    order, position, *_ = bk.moe_sort(ids, EXPERTS)
    x, dy = (rng.standard_normal((n, 16)).astype(np.float32) for n in (30, 120))
    left = (bk.moe_permute(x, order, position).astype(np.float64) * dy).sum()
    right = (x.astype(np.float64) * bk.moe_permute_backward(dy, order, position)).sum()
    assert left == pytest.approx(right, rel=1e-5)


@pytest.mark.parametrize("scoring", references.SCORING)
@pytest.mark.parametrize("renormalize", [False, True])
def test_gradient_of_routing_by_differences(rng, scoring, renormalize):
    """Central differences of the float64 reference, whose choice does not change."""
    z = rng.standard_normal((1, 12)).astype(np.float32) * 2
    options = {"scoring": scoring, "renormalize": renormalize, "scale": 1.5}
    weights, ids = bk.moe_route(z, 4, **options)
    g = rng.standard_normal(weights.shape).astype(np.float32)
    got = bk.moe_route_backward(g, z, ids, **options)
    numbers = {"scoring": references.SCORING.index(scoring), "renormalize": renormalize, "top_k": 4, "scale": 1.5}
    numbers |= {"n_group": 1, "topk_group": 1, "group_score": 0}
    for j in range(12):
        step = np.zeros(12)
        step[j] = 1e-5
        values = [(references.routed(z[0] + sign * step, None, numbers)[1] * g[0]).sum() for sign in (1, -1)]
        assert got[0, j] == pytest.approx((values[0] - values[1]) / 2e-5, rel=1e-4, abs=1e-5)


def test_errors_name_the_argument(rng):
    x, logits, w_gate_up, w_down = operands(rng)
    for text, arguments, options in (
        (r"activation is 'tanh', must be one of", (x, logits, w_gate_up, w_down, 2), {"activation": "tanh"}),
        (r"router_logits has shape \(40, 7\), expected \(40, 8\)", (x, logits[:, :7], w_gate_up, w_down, 2), {}),
        (r"x has shape \(40, 23\), must be \(..., 24\)", (x[:, :23], logits, w_gate_up, w_down, 2), {}),
        (r"w_gate_up has shape \(8, 32, 24\) and w_down \(8, 24, 15\)", (x, logits, w_gate_up, w_down[..., :15], 2), {}),
        (r"shared_down is None", (x, logits, w_gate_up, w_down, 2), {"shared_gate_up": w_gate_up[0]}),
        (r"scoring is 'relu', must be one of softmax, sigmoid, topk_softmax", (x, logits, w_gate_up, w_down, 2),
         {"scoring": "relu"}),
        (r"top_k is 9, must be in \[0, 8\]", (x, logits, w_gate_up, w_down, 9), {}),
    ):  # fmt: skip
        with pytest.raises(bk.InvalidProblemError, match=text):
            bk.moe(*arguments, **options)


def test_grouped_linear(rng):
    """weight is (groups, outputs, inputs); rows of no group are 0."""
    x, weight, dy = (rng.standard_normal(s).astype(np.float32) for s in ((7, 4), (3, 5, 4), (7, 5)))
    offsets = np.array([1, 3, 3, 6], np.int32)
    want, dx, dweight = np.zeros((7, 5)), np.zeros((7, 4)), np.zeros((3, 5, 4))
    for g in range(3):
        own = slice(offsets[g], offsets[g + 1])
        want[own], dx[own], dweight[g] = x[own] @ weight[g].T, dy[own] @ weight[g], dy[own].T @ x[own]
    near(bk.grouped_linear(x, weight, offsets), want)
    for got, expected in zip(bk.grouped_linear_backward(dy, x, weight, offsets), (dx, dweight)):
        near(got, expected)
    with pytest.raises(bk.InvalidProblemError, match=r"expected \(m, k\) and \(groups, n, k\)"):
        bk.grouped_linear(x, weight.swapaxes(1, 2), offsets)
