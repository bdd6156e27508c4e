# SPDX-License-Identifier: Apache-2.0
"""A thread that computes requests, and the functions by which others submit and cancel them."""

from __future__ import annotations

import functools
import os
import pathlib
import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence

import baracuda as bk
from baracuda.serve import config, gguf, hugging_face, tokenizer
from baracuda.serve.chat import ChatTemplate
from baracuda.serve.errors import ModelFileError, RequestError
from baracuda.serve.model import Limits, Model
from baracuda.serve.request import Delta, Options
from baracuda.serve.scheduler import Scheduler
from baracuda.serve.sequence import Request
from baracuda.serve.tokenizer import Tokenizer
from baracuda.serve.weights import Weights

MAX_WAITING = 1024  # requests


class BusyError(RuntimeError):
    """More requests wait than the engine keeps."""


class Engine:
    """A model, its tokenizer, and the thread that runs its scheduler, from the first request until `close`."""

    def __init__(self, name: str, model: Model, tokenizer: Tokenizer, template: str | None) -> None:
        self.name, self.model, self.tokenizer = name, model, tokenizer
        self.chat = ChatTemplate(template, tokenizer)
        self.scheduler = Scheduler(model)
        self.started = int(time.time())
        self._incoming: list[Request] = []
        self._condition = threading.Condition()
        self._thread: threading.Thread | None = None
        self._is_closed = False

    def submit_all(
        self, given: Sequence[tuple[Sequence[int], Options]], sink: Callable[[int, Delta], None]
    ) -> list[Request]:
        """Start requests of a prompt and options each. `sink` gets an index and a delta on the engine's thread.

        RequestError if one cannot be served, BusyError if too many wait: none is started then.
        """
        for prompt, options in given:
            self.scheduler.check(len(prompt), options.max_tokens)
            for token, _ in options.logit_bias:
                if token >= len(self.tokenizer):
                    raise RequestError(
                        f"logit_bias has token {token}, must be below {len(self.tokenizer)}", "logit_bias"
                    )
        requests = [
            Request(prompt, options, self.tokenizer, functools.partial(sink, index))
            for index, (prompt, options) in enumerate(given)
        ]
        with self._condition:
            if self._is_closed or len(self._incoming) + len(self.scheduler.waiting) + len(requests) > MAX_WAITING:
                raise BusyError("the server is shutting down" if self._is_closed else "too many requests wait")
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="baracuda.serve", daemon=True)
                self._thread.start()
            self._incoming += requests
            self._condition.notify()
        return requests

    def cancel(self, request: Request) -> None:
        """Give up a request: its pages are free before the next step."""
        request.is_cancelled = True
        with self._condition:
            self._condition.notify()

    def generate(self, prompt: Sequence[int], options: Options) -> Iterator[Delta]:
        """The deltas of a request as they come. A caller that stops early cancels it."""
        deltas: queue.SimpleQueue[Delta] = queue.SimpleQueue()
        (request,) = self.submit_all([(prompt, options)], lambda _, delta: deltas.put(delta))
        try:
            delta = Delta("")
            while not delta.finish:
                delta = deltas.get()
                if delta.error:
                    raise RuntimeError(delta.error)
                yield delta
        finally:
            self.cancel(request)

    def state(self) -> dict[str, int]:
        """The load of the engine."""
        scheduler = self.scheduler
        return {
            "running": len(scheduler.running), "waiting": len(scheduler.waiting) + len(self._incoming),
            "pages": scheduler.pool.count, "used_pages": scheduler.pool.used, "preempted": scheduler.preempted,
        }  # fmt: skip

    def close(self) -> None:
        """End the thread; requests that are not finished fail."""
        with self._condition:
            self._is_closed = True
            self._condition.notify()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while True:
            with self._condition:
                while not (self._incoming or self.scheduler.has_work or self._is_closed):
                    self._condition.wait()
                incoming, self._incoming = self._incoming, []
            for request in incoming:
                self.scheduler.submit(request)
            if self._is_closed:
                self.scheduler.fail_all("the server is shutting down")
                return
            try:
                self.scheduler.step()
            except Exception as error:  # of the library or of the device: requests end, the server lives on
                self.scheduler.fail_all(f"{type(error).__name__}: {error}")


def load(
    path: str | os.PathLike[str], library: bk.Library | None = None, *, cache_tokens: int | None = None,
    step_tokens: int = 256, sequences: int = 64, batch_invariant: bool = False, dtype: bk.ElementKind = bk.f32,
) -> Engine:  # fmt: skip
    """An engine for a GGUF file, or a folder of Hugging Face. `cache_tokens` is the number of tokens whose keys and
    values are kept, of all requests together. `dtype` is that of activations, keys and values: f32, bf16 or f16, which
    halves what a GPU reads of long texts.
    """
    library = library or bk.default_library()
    file = hugging_face.read(pathlib.Path(path)) if os.path.isdir(path) else gguf.read(path)
    words = tokenizer.from_gguf(file.metadata)
    if "token_embd.weight" not in file.tensors:
        raise ModelFileError(f"{path} has no tensor token_embd.weight")
    described = config.from_gguf(file.metadata, file.tensors["token_embd.weight"].shape[0])
    if described.vocabulary < len(words):
        raise ModelFileError(f"{path} has {len(words)} tokens, but embeds {described.vocabulary}")
    tokens = cache_tokens or min(4 * described.context, 32768)
    limits = Limits(pages=-(-tokens // Limits.page_size), tokens=max(step_tokens, sequences), sequences=sequences)
    weights = Weights(file.tensors, library, dtype=dtype)
    model = Model(described, weights, limits, library, batch_invariant=batch_invariant)
    name = file.metadata.get("general.name") or os.path.splitext(os.path.basename(path))[0]
    return Engine(name, model, words, file.metadata.get("tokenizer.chat_template"))
