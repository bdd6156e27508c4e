# SPDX-License-Identifier: Apache-2.0
"""Checked arguments of a request, and the text that it gets, step by step."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from baracuda.serve.errors import RequestError

MAX_LOGPROBS = 20
MAX_STOPS = 16
SEED_MAX = 2**63 - 1


@dataclasses.dataclass(frozen=True)
class Options:
    """Sampling of a request: temperature, then top_k, top_p of what it leaves, then min_p, as bk.sample_tokens has it.

    frequency and presence penalties count generated tokens, repetition those of the prompt as well. `logprobs` is the
    number of alternatives whose log probabilities are wanted, of the distribution before any of these, None for none.
    """

    max_tokens: int = 256
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    seed: int = 0
    repetition_penalty: float = 1.0
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    logit_bias: tuple[tuple[int, float], ...] = ()
    stop: tuple[str, ...] = ()
    ignore_eos: bool = False
    logprobs: int | None = None

    def __post_init__(self) -> None:
        _within(self, "max_tokens", 1, 2**31 - 1)
        _within(self, "temperature", 0, 100)
        _within(self, "top_k", -1, 2**31 - 1)
        _within(self, "top_p", 0, 1)
        _within(self, "min_p", 0, 1)
        _within(self, "seed", -SEED_MAX - 1, SEED_MAX)
        _within(self, "repetition_penalty", 1e-3, 100)
        _within(self, "frequency_penalty", -2, 2)
        _within(self, "presence_penalty", -2, 2)
        for token, bias in self.logit_bias:
            if not -100 <= bias <= 100:
                raise RequestError(f"logit_bias of token {token} is {bias}, must be within -100 and 100", "logit_bias")
        if len(self.stop) > MAX_STOPS or not all(self.stop):
            raise RequestError(f"stop must be at most {MAX_STOPS} strings, none of them empty", "stop")
        if self.logprobs is not None:
            _within(self, "logprobs", 0, MAX_LOGPROBS)

    @property
    def has_penalties(self) -> bool:
        return (self.repetition_penalty, self.frequency_penalty, self.presence_penalty) != (1, 0, 0)


def _within(options: Options, name: str, least: float, most: float) -> None:
    value: Any = getattr(options, name)
    if not math.isfinite(value) or not least <= value <= most:
        raise RequestError(f"{name} is {value}, must be within {least} and {most}", name)


@dataclasses.dataclass(frozen=True)
class Logprob:
    """A token's log probability, and the most probable tokens with theirs."""

    token: int
    logprob: float
    top: tuple[tuple[int, float], ...]


@dataclasses.dataclass(frozen=True)
class Delta:
    """Text that a step adds to a request. `finish` is "stop", "length" or "error" with the last delta."""

    text: str
    tokens: tuple[int, ...] = ()
    logprobs: tuple[Logprob, ...] = ()
    finish: str | None = None
    error: str | None = None
