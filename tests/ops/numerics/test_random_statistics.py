# SPDX-License-Identifier: Apache-2.0
"""Distributions of random numbers: Kolmogorov-Smirnov and chi-square tests at fixed seeds, with controls that fail."""

import math
from statistics import NormalDist

import numpy as np
import pytest

import baracuda as bk
from baracuda._library.op_table import ops

COUNT = 1 << 17
SEED = 2024
LIMIT = 1e-4  # of the probability of a statistic: the tests run at fixed seeds, so that they either pass or do not
PHI = np.vectorize(NormalDist().cdf)


def array(call):
    found = call()
    host = np.asarray(bk.download(found) if isinstance(found, bk.TensorRef) else found)
    return host.astype(np.float64) if host.dtype.kind == "f" else host


def kolmogorov(sample, cdf):
    """The probability of a larger distance from the distribution function (Marsaglia's asymptotic series)."""
    x = np.sort(sample)
    n = len(x)
    value = cdf(x)
    distance = max(np.max(np.arange(1, n + 1) / n - value), np.max(value - np.arange(n) / n))
    t = distance * (math.sqrt(n) + 0.12 + 0.11 / math.sqrt(n))
    return min(1.0, 2 * sum((-1) ** (k - 1) * math.exp(-2 * k * k * t * t) for k in range(1, 101)))


def chi_square(observed, wanted):
    """The probability of a larger sum of squares, by Wilson and Hilferty's cube root."""
    degrees = len(observed) - 1
    x = float(np.sum((observed - wanted) ** 2 / wanted))
    z = ((x / degrees) ** (1 / 3) - (1 - 2 / (9 * degrees))) / math.sqrt(2 / (9 * degrees))
    return 1 - NormalDist().cdf(z)


CONTINUOUS = {
    "uniform": (lambda **k: bk.random.uniform(COUNT, -1, 3, **k), lambda x: (x + 1) / 4),
    "normal": (lambda **k: bk.random.normal(COUNT, 1, 2, **k), lambda x: PHI((x - 1) / 2)),
    "log_normal": (lambda **k: bk.random.log_normal(COUNT, 0, 0.5, **k), lambda x: PHI(np.log(x) / 0.5)),
    "truncated_normal": (
        lambda **k: bk.random.truncated_normal(COUNT, 0, 1, -1, 3, **k),
        lambda x: (PHI(x) - PHI(-1)) / (PHI(3) - PHI(-1)),
    ),
    "exponential": (lambda **k: bk.random.exponential(COUNT, 2, **k), lambda x: -np.expm1(-2 * x)),
    "gumbel": (lambda **k: bk.random.gumbel(COUNT, 1, 2, **k), lambda x: np.exp(-np.exp(-(x - 1) / 2))),
    "cauchy": (lambda **k: bk.random.cauchy(COUNT, 1, 2, **k), lambda x: 0.5 + np.arctan((x - 1) / 2) / np.pi),
    "laplace": (
        lambda **k: bk.random.laplace(COUNT, **k),
        lambda x: np.where(x < 0, np.exp(np.minimum(x, 0)) / 2, 1 - np.exp(-np.maximum(x, 0)) / 2),
    ),
    "logistic": (lambda **k: bk.random.logistic(COUNT, **k), lambda x: 1 / (1 + np.exp(-x))),
}  # fmt: skip


OF_DTYPES = [
    pytest.param(name, dtype, marks=pytest.mark.needs_ops(f"random_{name}_{dtype}"))
    for name in CONTINUOUS
    for dtype in ("f32", "f64")
]


@pytest.mark.parametrize(("name", "dtype"), OF_DTYPES)
def test_continuous_distributions(name, dtype):
    draw, cdf = CONTINUOUS[name]
    sample = array(lambda: draw(seed=SEED, dtype=dtype))
    assert kolmogorov(sample, cdf) > LIMIT
    shifted = sample + 0.02 * np.std(np.clip(sample, -10, 10))
    assert kolmogorov(shifted, cdf) < LIMIT, "the test does not see a shift by a fiftieth of the deviation"
    assert kolmogorov(np.repeat(sample[: COUNT // 16], 16), cdf) < LIMIT, "the test does not see repeated numbers"


def counts_of(sample, first, last):
    """Counts of first ... last - 1, and of the rest."""
    inner = [np.count_nonzero(sample == k) for k in range(first, last)]
    return np.array([*inner, len(sample) - sum(inner)], np.float64)


def poisson_weights(rate, last):
    inner = [math.exp(-rate + k * math.log(rate) - math.lgamma(k + 1)) for k in range(last)]
    return np.array([*inner, 1 - sum(inner)])


DISCRETE = {
    "integers": (lambda: bk.random.integers(0, 13, COUNT, seed=SEED), 0, 12, np.full(13, 1 / 13)),
    "bernoulli": (lambda: bk.random.bernoulli(0.3, COUNT, seed=SEED), 0, 1, np.array([0.7, 0.3])),
    "geometric": (
        lambda: bk.random.geometric(COUNT, 0.3, seed=SEED), 1, 20,
        np.array([*(0.3 * 0.7**k for k in range(19)), 0.7**19]),
    ),
    "poisson": (lambda: bk.random.poisson(np.full(COUNT, 3.0, np.float32), seed=SEED), 0, 12, poisson_weights(3.0, 12)),
    "poisson by rejection": (
        lambda: bk.random.poisson(np.full(COUNT, 12.5, np.float32), seed=SEED), 0, 28, poisson_weights(12.5, 28),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", DISCRETE)
def test_discrete_distributions(name):
    draw, first, last, weights = DISCRETE[name]
    observed = counts_of(array(draw), first, last)
    assert chi_square(observed, COUNT * weights) > LIMIT
    tilted = weights * np.linspace(0.9, 1.1, len(weights))
    assert chi_square(observed, COUNT * tilted / tilted.sum()) < LIMIT, "the test does not see a tilt by a tenth"


def test_bits_are_balanced_and_independent():
    """Each bit is set in half of the words, and each pair of neighbouring numbers differs in half of its bits."""
    words = array(lambda: bk.random.bits(COUNT, seed=SEED, dtype="i64"))
    each = (words[:, None] >> np.arange(53)) & 1
    bound = 5 / math.sqrt(COUNT) / 2
    assert np.abs(each.mean(0) - 0.5).max() < bound
    assert np.abs((each[1:] ^ each[:-1]).mean(0) - 0.5).max() < bound


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_dropout_keeps_a_share_and_the_mean(p):
    x = np.ones(COUNT, np.float32)
    y = array(lambda: bk.dropout(x, p=p, seed=SEED))
    assert abs((y == 0).mean() - p) < 5 * math.sqrt(p * (1 - p) / COUNT)
    assert set(np.unique(y)) == {0.0, np.float64(np.float32(1 / (1 - p)))}
    assert "dropout_seeded_f32" in ops()
