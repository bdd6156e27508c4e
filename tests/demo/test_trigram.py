# SPDX-License-Identifier: Apache-2.0
"""The trigram model that a language model has to beat."""

import numpy as np
import pytest

from baracuda.demo.trigram import Trigram

VOCABULARY = 5


@pytest.fixture(scope="module")
def model():
    return Trigram(np.random.default_rng(2).integers(0, 4, 60), VOCABULARY)  # token 4 never occurs


@pytest.mark.parametrize("context", [(0, 1), (3, 3), (4, 0), (4, 4)], ids=str)
def test_probabilities_sum_to_1(model, context):
    texts = [np.array([*context, token]) for token in range(VOCABULARY)]
    p = np.exp([-model.losses(text)[0] for text in texts])
    assert p.sum() == pytest.approx(1)
    assert p.min() > 0


def test_counts_by_hand():
    """0 1 2 and 0 1 3 once each: with D = 0.5, p(2 | 0 1) is (1 - D) / 2 + D p(2 | 1), and p(2 | 1) alike."""
    model = Trigram(np.array([0, 1, 2, 0, 1, 3]), 4)
    assert [order.discount for order in model.orders[2:]] == [0.5]  # no trigram occurs twice
    trigrams = [(0, 1, 2), (1, 2, 0), (2, 0, 1), (0, 1, 3)]
    bigrams = sorted({trigram[1:] for trigram in trigrams})
    followers = [second for _, second in bigrams]
    p = {}
    for token in range(4):
        count = followers.count(token)
        p[token] = max(count - model.orders[0].discount, 0) / 4 + model.orders[0].discount * len(set(followers)) / 4 / 4
    d = model.orders[1].discount
    of_bigram = (1 - d) / 2 + d * p[2]
    of_trigram = 0.5 / 2 + 0.5 * of_bigram
    assert np.exp(-model.losses(np.array([0, 1, 2]))[0]) == pytest.approx(of_trigram)


def test_a_pattern_is_predicted(model):
    text = np.tile([0, 1, 2, 3], 200)
    assert Trigram(text, 4).losses(text).mean() < 0.02
    assert model.losses(text).mean() > 1
