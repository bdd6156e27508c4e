# SPDX-License-Identifier: Apache-2.0
"""Sequences in one row, in parts from state to state, and token by token give what whole sequences give."""

import itertools

import numpy as np
import pytest

import baracuda as bk

CUTS = np.array([0, 1, 8, 8, 45, 110], np.int32)
LENGTH = int(CUTS[-1])
SPANS = [slice(int(a), int(b)) for a, b in itertools.pairwise(CUTS)]


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def normal(rng, *shape):
    return rng.standard_normal(shape).astype(np.float32)


class Conv:
    """Operands of a convolution with channels behind tokens."""

    def __init__(self, rng, length, sequences):
        self.x, self.weight, self.bias = normal(rng, length, 6), normal(rng, 6, 4), normal(rng, 6)
        self.state = normal(rng, sequences, 6, 3)

    def __call__(self, part, state, **options):
        return bk.causal_conv1d_forward(
            self.x[part], self.weight, self.bias, state, silu=True, time_first=True, **options
        )

    def step(self, t, state):
        return bk.causal_conv1d_update(self.x[t : t + 1], state, self.weight, self.bias, silu=True)


class Scan:
    """Operands of Mamba-1's scan, with two groups."""

    def __init__(self, rng, length, sequences):
        self.u, self.delta, self.z = (normal(rng, length, 6) for _ in range(3))
        self.b, self.c = normal(rng, length, 2, 5), normal(rng, length, 2, 5)
        self.a, self.d, self.bias = -np.exp(normal(rng, 6, 5)), normal(rng, 6), normal(rng, 6)
        self.state = normal(rng, sequences, 6, 5)

    def __call__(self, part, state, **options):
        of = [each[part] for each in (self.u, self.delta, self.b, self.c, self.z)]
        return bk.selective_scan_forward(
            of[0], of[1], self.a, of[2], of[3], self.d, of[4], self.bias, state, delta_softplus=True, time_first=True,
            **options,
        )  # fmt: skip

    def step(self, t, state):
        of = [each[t : t + 1] for each in (self.u, self.delta, self.b, self.c, self.z)]
        return bk.selective_state_update(
            state, of[0], of[1], self.a, of[2], of[3], self.d, of[4], self.bias, dt_softplus=True
        )


class Ssd:
    """Operands of Mamba-2's scan."""

    def __init__(self, rng, length, sequences):
        self.x, self.z = normal(rng, length, 4, 3), normal(rng, length, 4, 3)
        self.dt, self.b, self.c = normal(rng, length, 4), normal(rng, length, 2, 5), normal(rng, length, 2, 5)
        self.a, self.d, self.bias = -np.exp(normal(rng, 4)), normal(rng, 4), normal(rng, 4)
        self.state = normal(rng, sequences, 4, 3, 5)

    def __call__(self, part, state, **options):
        of = [each[part] for each in (self.x, self.dt, self.b, self.c, self.z)]
        return bk.ssd_scan_forward(
            of[0], of[1], self.a, of[2], of[3], self.d, of[4], self.bias, state, dt_softplus=True, **options
        )

    def step(self, t, state):
        of = [each[t : t + 1] for each in (self.x, self.dt, self.b, self.c, self.z)]
        return bk.selective_state_update(
            state, of[0], of[1], self.a, of[2], of[3], self.d, of[4], self.bias, dt_softplus=True
        )


LAYERS = pytest.mark.parametrize("layer", [Conv, Scan, Ssd])


def close(got, want):
    np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-5)


@LAYERS
def test_sequences_in_one_row_are_those_apart(layer, rng):
    """A sequence of no tokens keeps its state."""
    operands = layer(rng, LENGTH, len(SPANS))
    y, last = operands(slice(None), operands.state, cu_seqlens=CUTS)
    for s, span in enumerate(SPANS):
        own, state = operands(span, operands.state[s : s + 1])
        close(y[span], own)
        close(last[s : s + 1], state)


@LAYERS
def test_a_sequence_in_parts(layer, rng):
    """A sequence may be in parts shorter than a convolution's state."""
    operands = layer(rng, LENGTH, 1)
    whole, last = operands(slice(None), operands.state)
    state, parts = operands.state, []
    for span in SPANS:
        part, state = operands(span, state)
        parts.append(part)
    close(np.concatenate(parts), whole)
    close(state, last)


@LAYERS
def test_token_by_token(layer, rng):
    operands = layer(rng, 40, 1)
    whole, last = operands(slice(None), operands.state)
    state, tokens = operands.state, []
    for t in range(40):
        token, state = operands.step(t, state)
        tokens.append(token)
    close(np.concatenate(tokens), whole)
    close(state, last)


@LAYERS
def test_neighbours_do_not_matter(layer, rng):
    """The bits of a sequence do not depend on the others."""
    operands = layer(rng, LENGTH, 2)
    cuts = np.array([0, 40, LENGTH], np.int32)
    y, last = operands(slice(None), operands.state, cu_seqlens=cuts)
    other = layer(np.random.default_rng(5), LENGTH, 2)
    for name, value in vars(operands).items():
        if value.shape[0] == LENGTH:
            changed = getattr(other, name).copy()
            changed[40:] = value[40:]
            setattr(other, name, changed)
        else:
            setattr(other, name, value)
    got, state = other(slice(None), operands.state, cu_seqlens=cuts)
    assert np.array_equal(got[40:], y[40:])
    assert np.array_equal(state[1], last[1])


def test_long_decays_neither_vanish_nor_overflow(rng):
    """Rates from none at all to those that forget a token at once, over many tiles."""
    length = 3000
    u, delta = normal(rng, 1, 4, length), np.ones((1, 4, length), np.float32)
    a = -np.array([[0.0], [1e-4], [1.0], [200.0]], np.float32)
    b = c = np.ones((1, 1, length), np.float32)
    y, last = bk.selective_scan_forward(u, delta, a, b, c)
    wide, h = u.astype(np.float64), np.zeros(4)
    for t in range(length):
        h = np.exp(a[:, 0].astype(np.float64)) * h + wide[0, :, t]
        np.testing.assert_allclose(y[0, :, t], h, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(last[0, :, 0], h, rtol=1e-4, atol=1e-4)


def test_offsets_that_do_not_fit_are_refused(rng):
    x, weight = normal(rng, 2, 6, 9), normal(rng, 6, 4)
    with pytest.raises(bk.InvalidProblemError, match=r"cu_seqlens is given for a batch of 2, must be one row"):
        bk.causal_conv1d(x, weight, cu_seqlens=np.array([0, 9], np.int32))
    with pytest.raises(bk.InvalidProblemError, match=r"initial_state has shape \(1, 6, 3\), expected \(2, 6, 3\)"):
        bk.causal_conv1d(x, weight, initial_state=normal(rng, 1, 6, 3))
    with pytest.raises(bk.InvalidProblemError, match="groups do not divide 6 channels"):
        u = normal(rng, 1, 6, 5)
        bk.selective_scan(u, u, normal(rng, 6, 3), normal(rng, 1, 4, 3, 5), normal(rng, 1, 4, 3, 5))
