# SPDX-License-Identifier: Apache-2.0
"""Log-likelihood of a text under a model: the sum of -ln p of its tokens, from which perplexity follows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

import baracuda as bk
from baracuda.serve.errors import RequestError
from baracuda.serve.model import Chunk, Model


def score(model: Model, tokens: Sequence[int], window: int) -> tuple[int, float]:
    """(tokens that are predicted, their -ln p), in windows whose first tokens are not predicted.

    The keys of a window are appended first; then each of its tokens is a sequence of its own on the same pages, so that
    a step gives the logits of as many tokens as it has sequences. The model must not be serving requests.
    """
    if len(tokens) < 2:
        raise RequestError(f"the text has {len(tokens)} tokens, must have 2 or more", "text")
    limits = model.limits
    window = min(window, limits.pages * limits.page_size, model.config.context)
    count, nats = 0, 0.0
    for first in range(0, len(tokens) - 1, window):
        part = tokens[first : first + window]
        pages = range(-(-len(part) // limits.page_size))
        for start in range(0, len(part), limits.tokens):
            model.forward([Chunk(part[start : start + limits.tokens], start, pages, False)])
        for start in range(0, len(part) - 1, limits.sequences):
            end = min(start + limits.sequences, len(part) - 1)
            logits = model.forward([Chunk([part[at]], at, pages, True) for at in range(start, end)])
            assert logits is not None
            logs = bk.download(bk.log_softmax(logits), library=model.library)
            nats -= float(logs[np.arange(end - start), part[start + 1 : end + 1]].sum(dtype=np.float64))
            count += end - start
    return count, nats
