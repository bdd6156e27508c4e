# SPDX-License-Identifier: Apache-2.0
"""Properties of recurrences of matrix states: steps of one token, splits of sequences, and gates that forget."""

import numpy as np
import pytest

import baracuda as bk

pytestmark = [
    pytest.mark.host_arrays,
    pytest.mark.needs_ops("recurrent_gated_delta_rule_f32", "recurrent_gated_linear_attention_f32", "rwkv7_f32"),
]
TOKENS, HEADS, KEYS, VALUES = 70, 2, 12, 5


def drawn(rng, name, tokens=TOKENS):
    shape = (1, tokens, HEADS, KEYS)
    q, k, x, b = (rng.standard_normal(shape).astype(np.float32) for _ in range(4))
    v = rng.standard_normal((1, tokens, HEADS, VALUES)).astype(np.float32)
    k, x = (each / np.linalg.norm(each, axis=-1, keepdims=True) for each in (k, x))
    g = -rng.gamma(1, 0.3, shape).astype(np.float32)
    if name == "rwkv7":
        return [q, g, k, v, -x, x * np.abs(np.tanh(b))]
    return [q, k, v, rng.random((1, tokens, HEADS)).astype(np.float32), g[..., 0]] if "delta" in name else [q, k, v, g]


def near(got, want):
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=2e-5 * max(np.abs(want).max(initial=0), 1))


NAMES = ("gated_delta_rule", "gated_linear_attention", "rwkv7")


@pytest.mark.parametrize("name", NAMES)
def test_tokens_one_by_one(rng, name):
    """Chunks give what steps of one token give."""
    given = drawn(rng, name)
    y, final = getattr(bk, name)(*given)
    state = np.zeros_like(final)
    for t in range(TOKENS):
        own = [each[:, t] for each in given]
        behind = {"gated_delta_rule": 4, "gated_linear_attention": 3, "rwkv7": 6}[name]
        own.insert(behind, state)
        step, state = getattr(bk, f"{name}_update")(*own)
        near(step, y[:, t])
    near(state, final)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("cut", [1, 16, 31, 32, 33, 69])
def test_a_sequence_in_two_parts(rng, name, cut):
    """The final state of a part is the initial state of the next."""
    given = drawn(rng, name)
    y, final = getattr(bk, name)(*given)
    first, state = getattr(bk, name)(*[each[:, :cut] for each in given])
    second, state = getattr(bk, name)(*[each[:, cut:] for each in given], initial_state=state)
    near(np.concatenate([first, second], 1), y)
    near(state, final)


@pytest.mark.parametrize("name", NAMES)
def test_packed_sequences_are_independent(rng, name):
    """A sequence has the same bits alone and beside others, one of which is all NaN."""
    given = drawn(rng, name)
    given[0][:, 40:] = np.nan
    offsets = np.array([0, 7, 40, 70], np.int32)
    y, states = getattr(bk, name)(*given, cu_seqlens=offsets)
    for n, (begin, end) in enumerate([(0, 7), (7, 40)]):
        alone, state = getattr(bk, name)(*[each[:, begin:end] for each in given])
        assert np.array_equal(alone, y[:, begin:end])
        assert np.array_equal(state[0], states[n])
    assert np.isnan(y[:, 40:]).all()


@pytest.mark.parametrize("name", NAMES)
def test_a_gate_of_minus_infinity_forgets(rng, name):
    given = drawn(rng, name)
    gates = given[{"gated_delta_rule": 4, "gated_linear_attention": 3, "rwkv7": 1}[name]]
    gates[:, 20] = -np.inf
    if name == "rwkv7":
        given[5][:, 20] = 0  # b writes what a reads of the old state
    y, final = getattr(bk, name)(*given)
    rest, state = getattr(bk, name)(*[each[:, 20:] for each in given])
    near(y[:, 20:], rest)
    near(final, state)


def test_the_delta_rule_stores_pairs(rng):
    """With beta 1 and keys of unit length the value of the last key is read back."""
    k = rng.standard_normal((1, 40, 1, 16)).astype(np.float32)
    v = rng.standard_normal((1, 40, 1, 3)).astype(np.float32)
    y, _ = bk.gated_delta_rule(k, k, v, np.ones((1, 40, 1), np.float32), l2norm=True, scale=1.0)
    np.testing.assert_allclose(y, v, atol=1e-4)


def test_retention_is_a_gate_of_one_number(rng):
    q, k, v, _ = drawn(rng, "gated_linear_attention", 40)
    decay = np.full((1, 40, HEADS, 1), np.log(0.9), np.float32)
    y, _ = bk.gated_linear_attention(q, k, v, decay, scale=1.0)
    powers = np.tril(0.9 ** (np.arange(40)[:, None] - np.arange(40)).clip(0))
    near(y, np.einsum("ts,bthk,bshk,bshv->bthv", powers, q, k, v))


def test_refusals(rng):
    q, k, v, g = drawn(rng, "gated_linear_attention", 6)
    with pytest.raises(bk.InvalidProblemError, match="cu_seqlens is not NULL, but batch is 2, not 1"):
        pair = [np.concatenate([each, each]) for each in (q, k, v, g)]
        bk.gated_linear_attention(*pair, cu_seqlens=np.array([0, 6], np.int32))
    with pytest.raises(bk.InvalidProblemError, match="states are of 2 sequences, expected 1"):
        bk.gated_linear_attention(q, k, v, g, initial_state=np.zeros((2, HEADS, KEYS, VALUES), np.float32))
    with pytest.raises(bk.InvalidProblemError, match=r"k has shape .*, expected"):
        bk.gated_linear_attention(q, k[:, :5], v, g)
    with pytest.raises(bk.InvalidProblemError, match="cu_seqlens has shape"):
        bk.gated_linear_attention(q, k, v, g, cu_seqlens=np.zeros(0, np.int32))
