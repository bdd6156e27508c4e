# SPDX-License-Identifier: Apache-2.0
"""A request while it is served: its tokens, its pages, and the text that its reader has got."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence

from baracuda.serve.request import Delta, Logprob, Options
from baracuda.serve.tokenizer import TextStream, Tokenizer

_numbers = itertools.count()


class Request:
    """`tokens` are the prompt's and then the generated ones; the cache has `computed` of them, in `pages`."""

    def __init__(
        self, prompt: Sequence[int], options: Options, tokenizer: Tokenizer, sink: Callable[[Delta], None]
    ) -> None:
        self.number = next(_numbers)  # order of arrival
        self.tokens = list(prompt)
        self.prompt_length = len(self.tokens)
        self.options = options
        self.pages: list[int] = []
        self.computed = 0
        self.known = 0  # full pages that the pool knows or has been told of
        self.reused = 0  # tokens that were found in the cache at first
        self.is_cancelled = False
        self.is_finished = False
        self.arrived = time.monotonic()
        self._eos = frozenset() if options.ignore_eos else tokenizer.eos
        self._stream = TextStream(tokenizer)
        self._stop = StopStrings(options.stop)
        self._sink = sink

    @property
    def generated(self) -> int:
        return len(self.tokens) - self.prompt_length

    def accept(self, token: int, logprob: Logprob | None) -> None:
        """Add a token, and give its text to the reader."""
        self.tokens.append(token)
        logprobs = () if logprob is None else (logprob,)
        if token in self._eos:
            self._finish("stop", "", (token,), logprobs)
            return
        text, is_stopped = self._stop.add(self._stream.add(token))
        if is_stopped:
            self.is_finished = True
            self._sink(Delta(text, (token,), logprobs, "stop"))
        elif self.generated >= self.options.max_tokens:
            self._finish("length", text, (token,), logprobs)
        else:
            self._sink(Delta(text, (token,), logprobs))

    def fail(self, message: str) -> None:
        self.is_finished = True
        self._sink(Delta("", finish="error", error=message))

    def _finish(self, reason: str, text: str, tokens: tuple[int, ...], logprobs: tuple[Logprob, ...]) -> None:
        more, is_stopped = self._stop.add(self._stream.finish())
        rest = "" if is_stopped else self._stop.finish()
        self.is_finished = True
        self._sink(Delta(text + more + rest, tokens, logprobs, "stop" if is_stopped else reason))


class StopStrings:
    """Ends a text before the first stop string. Text that may be the beginning of one waits for what follows."""

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops, self._held = tuple(stops), ""

    def add(self, text: str) -> tuple[str, bool]:
        """The text that may go out, and whether a stop string has been found."""
        held = self._held + text
        found = [at for stop in self._stops if (at := held.find(stop)) >= 0]
        if found:
            self._held = ""
            return held[: min(found)], True
        keep = max((_overlap(held, stop) for stop in self._stops), default=0)
        self._held = held[len(held) - keep :]
        return held[: len(held) - keep], False

    def finish(self) -> str:
        held, self._held = self._held, ""
        return held


def _overlap(text: str, stop: str) -> int:
    """Length of the longest end of text that stop begins with."""
    return next((n for n in range(min(len(text), len(stop) - 1), 0, -1) if text.endswith(stop[:n])), 0)
