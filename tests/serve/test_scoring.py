# SPDX-License-Identifier: Apache-2.0
"""Perplexity against float64."""

import numpy as np
import pytest

from baracuda.serve.errors import RequestError
from baracuda.serve.scoring import score
from harness.llama_reference import logits as reference


@pytest.mark.parametrize("window", [2, 30, 1000])
def test_negative_log_likelihood(window, tiny, make_model, prompt):
    path, metadata, values = tiny
    tokens = prompt(75)
    count, nats = score(make_model(path, tokens=16, sequences=8), tokens, window)
    want, predicted = 0.0, 0
    for first in range(0, len(tokens), window):
        part = tokens[first : first + window]
        logits = reference(metadata, values, part)[:-1]
        logs = logits - np.log(np.exp(logits).sum(1, keepdims=True))
        want -= logs[np.arange(len(part) - 1), part[1:]].sum()
        predicted += len(part) - 1
    assert count == predicted
    assert abs(nats - want) < 1e-5 * want


def test_a_text_without_predictions(tiny, make_model):
    with pytest.raises(RequestError, match="has 1 tokens"):
        score(make_model(tiny[0]), [5], 10)
