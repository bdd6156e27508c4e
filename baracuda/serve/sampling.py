# SPDX-License-Identifier: Apache-2.0
"""Tokens of a step's logits: penalties, biases and sampling of every request in one call of each function.

Token t of a request draws from the words 2t and 2t + 1 of the Philox stream of its seed: it depends neither on the
other requests of the step nor on the steps that the request was computed in.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

import baracuda as bk
from baracuda.serve.request import Logprob
from baracuda.serve.sequence import Request

WORDS_A_TOKEN = 2


def sample(logits: bk.TensorRef, requests: Sequence[Request], library: bk.Library) -> list[tuple[int, Logprob | None]]:
    """A token for each request, -1 where its logits are not numbers; log probabilities for those that want them."""

    def upload(values: Any, dtype: bk.ElementKind) -> bk.TensorRef:
        return bk.upload(np.asarray(values), dtype, library=library)

    options = [request.options for request in requests]
    logprobs = _logprobs(logits, requests, library)
    if any(each.has_penalties for each in options):
        tokens, prompts = _padded([request.tokens for request in requests]), [r.prompt_length for r in requests]
        bk.token_penalty_lists(
            logits, upload(tokens, bk.i32), upload(prompts, bk.i32),
            upload([each.repetition_penalty for each in options], bk.f32),
            upload([each.frequency_penalty for each in options], bk.f32),
            upload([each.presence_penalty for each in options], bk.f32), out=logits,
        )  # fmt: skip
    if any(each.logit_bias for each in options):
        tokens = _padded([[token for token, _ in each.logit_bias] for each in options])
        biases = np.zeros(tokens.shape, np.float32)
        for row, each in zip(biases, options):
            row[: len(each.logit_bias)] = [bias for _, bias in each.logit_bias]
        bk.token_bias_lists(logits, upload(tokens, bk.i32), upload(biases, bk.f32), out=logits)
    parameters = tuple([(each.temperature, each.top_k, each.top_p, each.min_p, each.seed) for each in options])
    temperatures, top_ks, top_ps, min_ps, seeds = _uploaded(parameters, library)
    offsets = upload([WORDS_A_TOKEN * request.generated for request in requests], bk.i64)
    drawn, valid = bk.sample_tokens(logits, temperatures, top_ks, top_ps, min_ps, seeds, offsets)
    numbers = np.where(bk.download(valid, library=library), bk.download(drawn, library=library), -1).tolist()
    return [(token, logprobs(row, token) if each.logprobs is not None else None)
            for row, (token, each) in enumerate(zip(numbers, options))]  # fmt: skip


@functools.lru_cache(maxsize=16)
def _uploaded(options: tuple[tuple[Any, ...], ...], library: bk.Library) -> list[bk.TensorRef]:
    """Temperatures, top_k, top_p, min_p and seeds: the same requests come step after step."""
    dtypes = (bk.f32, bk.i32, bk.f32, bk.f32, bk.i64)
    return [bk.upload(np.asarray(column), dtype, library=library) for column, dtype in zip(zip(*options), dtypes)]


def _logprobs(logits: bk.TensorRef, requests: Sequence[Request], library: bk.Library) -> Any:
    """A function of row and token that gives a Logprob, from the logits as they are now."""
    counts = [request.options.logprobs for request in requests]
    if all(count is None for count in counts):
        return None
    logs = bk.log_softmax(logits)
    best, where = bk.topk(logs, min(max(1, *(count or 0 for count in counts)), logits.shape[1]))
    values, tops, tokens = (bk.download(x, library=library) for x in (logs, best, where))

    def of(row: int, token: int) -> Logprob:
        count = counts[row] or 0
        top = zip(tokens[row, :count].tolist(), tops[row, :count].tolist())
        return Logprob(token, float(values[row, token]), tuple(top))

    return of


def _padded(lists: Sequence[Sequence[int]]) -> np.ndarray[Any, Any]:
    """Lists as rows, with -1 behind them; the width is a power of two, so that few shapes occur."""
    width = 1 << max(0, max(map(len, lists)) - 1).bit_length()
    table = np.full((len(lists), width), -1, np.int32)
    for row, numbers in zip(table, lists):
        row[: len(numbers)] = numbers
    return table
