# SPDX-License-Identifier: Apache-2.0
"""Continuous batching (Yu et al. 2022) with chunked prefill (Agrawal et al. 2023) over pages (Kwon et al. 2023).

A step computes the next token of every request that generates, and chunks of prompts with what is left of the step's
tokens. A request waits, first come first served, until its tokens fit into free pages; one that finds no page for its
next token makes the youngest give its pages back, which is computed again later. Nothing fails for want of memory.
"""

from __future__ import annotations

from collections import deque

from baracuda.serve.cache import PagePool
from baracuda.serve.errors import RequestError
from baracuda.serve.model import Chunk, Model
from baracuda.serve.sampling import sample
from baracuda.serve.sequence import Request


class Scheduler:
    """Requests that run and requests that wait. Not for several threads at once."""

    def __init__(self, model: Model) -> None:
        self.model, self.limits = model, model.limits
        self.pool = PagePool(model.limits.pages, model.limits.page_size)
        self.running: list[Request] = []  # by arrival
        self.waiting: deque[Request] = deque()
        self.preempted = 0

    @property
    def has_work(self) -> bool:
        return bool(self.running or self.waiting)

    @property
    def longest(self) -> int:
        """Tokens of the longest request that can be served."""
        return min(self.model.config.context, self.limits.pages * self.limits.page_size)

    def check(self, prompt_length: int, max_tokens: int) -> None:
        """RequestError for a request that could never be served."""
        if not prompt_length:
            raise RequestError("the prompt has no tokens", "prompt")
        if prompt_length + max_tokens > self.longest:
            raise RequestError(
                f"max_tokens is {max_tokens}, which with the {prompt_length} tokens of the prompt is more than the "
                f"{self.longest} tokens that fit",
                "max_tokens",
            )

    def submit(self, request: Request) -> None:
        self.check(request.prompt_length, request.options.max_tokens)
        self.waiting.append(request)

    def step(self) -> None:
        """Compute one batch, and give each request its token."""
        self._drop([request for request in self.running if request.is_cancelled])
        self.waiting = deque(request for request in self.waiting if not request.is_cancelled)
        planned = self._plan()
        if not planned:
            return
        chunks = [
            Chunk(r.tokens[r.computed : r.computed + n], r.computed, r.pages, r.computed + n == len(r.tokens))
            for r, n in planned
        ]
        logits = self.model.forward(chunks)
        for request, count in planned:
            request.computed += count
            self._learn(request)
        ready = [request for (request, _), chunk in zip(planned, chunks) if chunk.wants_logits]
        if logits is not None:
            for request, (token, logprob) in zip(ready, sample(logits, ready, self.model.library)):
                if token < 0:
                    request.fail("the logits are not numbers")
                else:
                    request.accept(token, logprob)
        self._drop([request for request in ready if request.is_finished])

    def fail_all(self, message: str) -> None:
        """End every request with an error."""
        waiting, self.waiting = self.waiting, deque()
        for request in [*self.running, *waiting]:
            request.fail(message)
        self._drop(list(self.running))

    def _plan(self) -> list[tuple[Request, int]]:
        """Requests of the next step with the number of tokens of each, whose pages they have."""
        budget = self.limits.tokens
        planned: dict[Request, int] = {}
        generating = [r for r in self.running if len(r.tokens) - r.computed == 1]
        prefilling = [r for r in self.running if len(r.tokens) - r.computed > 1]
        for request in [*generating, *prefilling]:
            count = min(len(request.tokens) - request.computed, budget)
            if count and request in self.running and self._extend(request, count, planned):
                planned[request] = count
                budget -= count
        while self.waiting and budget and len(self.running) < self.limits.sequences:
            request = self.waiting[0]
            if not self._admit(request):
                break
            self.waiting.popleft()
            count = min(len(request.tokens) - request.computed, budget)
            planned[request] = count
            budget -= count
        return list(planned.items())

    def _admit(self, request: Request) -> bool:
        """Start a request if all its tokens fit into pages: what the cache knows of them is not computed again."""
        size = self.limits.page_size
        found = self.pool.find(request.tokens[:-1])  # the last token is computed, for its logits
        more = self.pool.take(-(-len(request.tokens) // size) - len(found))
        if more is None:
            self.pool.give_back(found)
            return False
        request.pages = found + more
        request.computed = len(found) * size
        request.known = len(found)
        if not request.generated:
            request.reused = request.computed
        self.running.append(request)
        self.running.sort(key=lambda each: each.number)
        return True

    def _extend(self, request: Request, count: int, planned: dict[Request, int]) -> bool:
        """Give a request the pages for its next tokens; the youngest others give up theirs, or it its own."""
        needed = -(-(request.computed + count) // self.limits.page_size) - len(request.pages)
        while needed > 0:
            taken = self.pool.take(needed)
            if taken is not None:
                request.pages += taken
                break
            youngest = self.running[-1]
            self._preempt(youngest)
            planned.pop(youngest, None)
            if youngest is request:
                return False
        return True

    def _preempt(self, request: Request) -> None:
        self._drop([request])
        request.computed = 0
        self.waiting.appendleft(request)
        self.preempted += 1

    def _drop(self, requests: list[Request]) -> None:
        for request in requests:
            self.running.remove(request)
            self.pool.give_back(request.pages)
            request.pages = []

    def _learn(self, request: Request) -> None:
        """Tell the pool of pages that have become full."""
        size = self.limits.page_size
        while (request.known + 1) * size <= request.computed:
            at = request.known
            before = request.pages[at - 1] if at else -1
            self.pool.learn(request.pages[at], before, request.tokens[at * size : (at + 1) * size])
            request.known += 1
