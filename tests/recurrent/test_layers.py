# SPDX-License-Identifier: Apache-2.0
"""bk.lstm, bk.gru and bk.rnn of several layers and directions, against layers in float64."""

import numpy as np
import pytest

import baracuda as bk

pytestmark = [
    pytest.mark.host_arrays, pytest.mark.needs_ops("recurrent_cells_f32", "gemm_epilogue_f32", "concat_f32"),
]  # fmt: skip
SEQLEN, BATCH, FEATURES, HIDDEN = 6, 3, 4, 5


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def step(cell, x, w_hh, b_hh, h, c):
    s = w_hh @ h + b_hh
    if cell in ("tanh", "relu"):
        return (np.tanh(x + s) if cell == "tanh" else np.maximum(x + s, 0)), c
    if cell == "lstm":
        i, f, g, o = np.split(x + s, 4)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        return sigmoid(o) * np.tanh(c), c
    (xr, xz, xn), (sr, sz, sn) = np.split(x, 3), np.split(s, 3)
    r, z = sigmoid(xr + sr), sigmoid(xz + sz)
    if cell == "gru_reset_first":
        sn = np.split(w_hh, 3)[2] @ (r * h) + np.split(b_hh, 3)[2]
        n = np.tanh(xn + sn)
    else:
        n = np.tanh(xn + r * sn)
    return (1 - z) * n + z * h, c


def layers(cell, x, weights, h0, c0, lengths, directions, projects):
    """(y, h_n, c_n) in float64; h0 and c0 may be None."""
    each = 4 + projects
    h_n, c_n = [], []
    for k in range(0, len(weights), each * directions):
        outputs = []
        for d in range(directions):
            w_ih, w_hh, b_ih, b_hh, *w_hr = weights[k + d * each : k + (d + 1) * each]
            rows = []
            for n in range(x.shape[1]):
                at = len(h_n) // x.shape[1]
                h = h0[at, n] if h0 is not None else np.zeros(w_hh.shape[1])
                c = c0[at, n] if c0 is not None else np.zeros(w_hh.shape[0] // 4)
                y = np.zeros((x.shape[0], w_hh.shape[1]))
                order = range(lengths[n])
                for t in reversed(order) if d else order:
                    h, c = step(cell, w_ih @ x[t, n] + b_ih, w_hh, b_hh, h, c)
                    h = w_hr[0] @ h if w_hr else h
                    y[t] = h
                rows.append(y)
                h_n.append(h)
                c_n.append(c)
            outputs.append(np.stack(rows, 1))
        x = np.concatenate(outputs, -1)
    states = [np.array(s).reshape(-1, x.shape[1], len(s[0])) for s in (h_n, c_n)]
    return x, *states


def drawn(rng, gates, directions, count, projection=0):
    outputs, weights, features = projection or HIDDEN, [], FEATURES
    for _ in range(count):
        for _ in range(directions):
            shapes = [(gates * HIDDEN, features), (gates * HIDDEN, outputs), (gates * HIDDEN,), (gates * HIDDEN,)]
            shapes += [(outputs, HIDDEN)] if projection else []
            weights += [(rng.standard_normal(s) * 0.5).astype(np.float32) for s in shapes]
        features = outputs * directions
    return rng.standard_normal((SEQLEN, BATCH, FEATURES)).astype(np.float32), weights


def near(got, want):
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("directions", [1, 2])
@pytest.mark.parametrize("cell", ["tanh", "relu", "gru", "gru_reset_first"])
def test_rnn_and_gru(rng, cell, directions):
    x, weights = drawn(rng, 3 if "gru" in cell else 1, directions, 2)
    h0 = rng.standard_normal((2 * directions, BATCH, HIDDEN)).astype(np.float32)
    lengths = np.array([6, 0, 4], np.int32)
    options = {"linear_before_reset": cell == "gru"} if "gru" in cell else {"nonlinearity": cell}
    function = bk.gru if "gru" in cell else bk.rnn
    y, h_n = function(x, weights, h0, lengths, bidirectional=directions == 2, **options)
    want = layers(cell, x, weights, h0, None, lengths, directions, 0)
    near(y, want[0])
    near(h_n, want[1])


@pytest.mark.parametrize("projection", [0, 3])
@pytest.mark.parametrize("directions", [1, 2])
def test_lstm(rng, directions, projection):
    x, weights = drawn(rng, 4, directions, 2, projection)
    y, h_n, c_n = bk.lstm(x, weights, bidirectional=directions == 2, has_projections=projection > 0)
    want = layers("lstm", x, weights, None, None, [SEQLEN] * BATCH, directions, projection > 0)
    for got, expected in zip((y, h_n, c_n), want):
        near(got, expected)
    first = bk.lstm(x.swapaxes(0, 1), weights, bidirectional=directions == 2, has_projections=projection > 0,
                    batch_first=True)  # fmt: skip
    near(first[0].swapaxes(0, 1), y)


def test_without_biases(rng):
    x, weights = drawn(rng, 4, 1, 1)
    zeros = [weights[0], weights[1], np.zeros_like(weights[2]), np.zeros_like(weights[3])]
    near(bk.lstm(x, weights[:2], has_biases=False)[0], bk.lstm(x, zeros)[0])


def test_refusals(rng):
    x, weights = drawn(rng, 4, 1, 1)
    with pytest.raises(bk.InvalidProblemError, match="weights has 3 arrays, must have 4 for each layer"):
        bk.lstm(x, weights[:3])
    with pytest.raises(bk.InvalidProblemError, match="x has shape"):
        bk.lstm(x[0], weights)
    with pytest.raises(bk.InvalidProblemError, match=r"w_ih has shape .*, expected \(4 \* hidden, 3\)"):
        bk.lstm(np.ascontiguousarray(x[..., :3]), weights)
    with pytest.raises(bk.InvalidProblemError, match="nonlinearity is 'elu', must be"):
        bk.rnn(x, weights, nonlinearity="elu")
