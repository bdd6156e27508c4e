# SPDX-License-Identifier: Apache-2.0
"""Training steps of a language model: gradient accumulation, clipping, AdamW with warm-up and cosine decay.

Everything is allocated before the first step ends. On CUDA a step is one replay of a CUDA graph; on the CPU its C calls
are replayed. Which texts a step sees depends on the seed and the number of the step alone, so that a run that is
resumed sees the same ones.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

import baracuda as bk
from baracuda.demo.backward import Backward, Loss
from baracuda.demo.forward import Buffers, Dropout, forward
from baracuda.demo.parameters import Parameters

Array = np.ndarray[Any, Any]


@dataclasses.dataclass(frozen=True)
class Schedule:
    """How to train: `accumulate` batches a step, each of `batch` texts of `length` tokens."""

    steps: int
    batch: int
    length: int
    accumulate: int = 1
    rate: float = 3e-3  # the greatest learning rate
    final_rate: float = 0.1  # the last one, as a share of it
    warmup: int = 20  # steps
    weight_decay: float = 0.1  # of matrices
    betas: tuple[float, float] = (0.9, 0.95)
    max_norm: float = 1.0
    dropout: float = 0.0
    seed: int = 1

    @property
    def tokens(self) -> int:
        """Tokens of a step."""
        return self.accumulate * self.batch * self.length

    def rate_of(self, step: int) -> float:
        """The learning rate: linear warm-up, then half a period of a cosine (Loshchilov and Hutter 2017)."""
        if step < self.warmup:
            return self.rate * (step + 1) / self.warmup
        done = (step - self.warmup) / max(self.steps - self.warmup, 1)
        return self.rate * (self.final_rate + (1 - self.final_rate) * (1 + math.cos(math.pi * done)) / 2)


class Trainer:
    """`text` is the training text, in tokens."""

    def __init__(self, p: Parameters, schedule: Schedule, text: Array) -> None:
        self.p, self.schedule, self.text, self.step = p, schedule, text, 0
        tokens = schedule.batch * schedule.length
        self.buffers = Buffers(p, schedule.batch, schedule.length)
        self.backward = Backward(p, self.buffers)
        self.dropout = Dropout(p, schedule.dropout, schedule.seed, tokens * p.config.width)
        shape = (schedule.accumulate, tokens)
        self.tokens, self.targets = (bk.zeros(shape, bk.i64, library=p.library) for _ in range(2))
        self.losses = bk.zeros((schedule.accumulate, 1), p.statistics, library=p.library)
        self.rate = bk.zeros((1,), p.statistics, library=p.library)
        self.batches = bk.upload(np.array([schedule.accumulate]), bk.f32, library=p.library)
        matrices = {name: x for name, x in p.values.items() if len(x.shape) == 2}
        gains = {name: x for name, x in p.values.items() if len(x.shape) == 1}
        self.names = [*matrices, *gains]
        self.optimizer = bk.optim.AdamW(
            [
                {"params": list(matrices.items()), "weight_decay": schedule.weight_decay},
                {"params": list(gains.items()), "weight_decay": 0.0},
            ],
            lr=self.rate, betas=schedule.betas, max_norm=schedule.max_norm, zero_grads=True, capturable=True,
            rounding="master" if p.dtype in (bk.bf16, bk.f16) else "nearest",
        )  # fmt: skip
        self._gradients = [p.gradients[name] for name in self.names]
        self._launch: Any = None

    def run_step(self) -> None:
        """Enqueue a step; `loss` waits for it."""
        schedule, library = self.schedule, self.p.library
        inputs, targets = self.texts(self.step)
        bk.upload(inputs, out=self.tokens, library=library)
        bk.upload(targets, out=self.targets, library=library)
        bk.upload(np.array([schedule.rate_of(self.step)]), out=self.rate, library=library)
        is_graph = library.backend == "cuda"
        if self._launch is None:
            self._launch = bk.graph(self._work if is_graph else self._accumulate_gradients)
        else:
            self._launch()
        if not is_graph:
            self._update()
        self.step += 1

    def restart(self, step: int) -> None:
        """Go on with another step, after parameters and states of the optimiser were replaced."""
        self.step, self._launch = step, None
        self.dropout.restart(step * self.schedule.accumulate)

    def loss(self) -> float:
        """The mean loss of the tokens of the last step."""
        return float(bk.download(self.losses, library=self.p.library).mean())

    def texts(self, step: int) -> tuple[Array, Array]:
        """Tokens of a step at random positions of the text, and the tokens that follow them."""
        schedule = self.schedule
        count = schedule.accumulate * schedule.batch
        starts = np.random.default_rng([schedule.seed, step]).integers(0, len(self.text) - schedule.length, count)
        texts = self.text[starts[:, None] + np.arange(schedule.length + 1)]
        shape = (schedule.accumulate, schedule.batch * schedule.length)
        return texts[:, :-1].reshape(shape), texts[:, 1:].reshape(shape)

    def _work(self) -> None:
        self._accumulate_gradients()
        self._update()

    def _accumulate_gradients(self) -> None:
        for k in range(self.schedule.accumulate):
            tokens, targets, loss = self.tokens[k], self.targets[k], self.losses[k]
            forward(self.p, self.buffers, tokens, self.dropout)
            self.backward.run(tokens, targets, loss, self.dropout)
            self.dropout.advance()

    def _update(self) -> None:
        """Clip and descend; the gradients are sums over the batches, and cleared as they are read."""
        self.optimizer.step(self._gradients, grad_scale=self.batches)


class Evaluator:
    """The loss of a text, each token of which is predicted from at least half of `length` tokens before it, where there
    are so many.
    """

    def __init__(self, p: Parameters, batch: int, length: int) -> None:
        self.p, self.buffers = p, Buffers(p, batch, length)
        self.loss = Loss(p, batch * length, bk.LossReduction.NONE)
        self.losses = bk.empty((batch * length,), p.statistics, library=p.library)
        self.tokens, self.targets = (bk.zeros((batch * length,), bk.i64, library=p.library) for _ in range(2))
        self._launch: Any = None

    def losses_of(self, text: Array) -> Array:
        """The loss of each token of a text but the first."""
        batch, length = self.buffers.batch, self.buffers.length
        half = length // 2
        found = np.zeros(len(text) - 1)
        starts = np.arange(0, max(len(text) - 1 - half, 1), half)
        for first in range(0, len(starts), batch):
            some = starts[first : first + batch]
            at = np.minimum(np.resize(some, batch)[:, None] + np.arange(length + 1), len(text) - 1)
            losses = self._run(text[at[:, :-1]], text[at[:, 1:]])
            for start, row in zip(some, losses):
                begin = half if start else 0
                end = min(length, len(text) - 1 - start)
                found[start + begin : start + end] = row[begin:end]
        return found

    def _run(self, inputs: Array, targets: Array) -> Array:
        library = self.p.library
        bk.upload(inputs.reshape(-1), out=self.tokens, library=library)
        bk.upload(targets.reshape(-1), out=self.targets, library=library)
        if self._launch is None:
            self._launch = bk.graph(self._work)
        else:
            self._launch()
        losses: Array = bk.download(self.losses, library=library).reshape(inputs.shape)
        return losses

    def _work(self) -> None:
        self.loss.run(forward(self.p, self.buffers, self.tokens), self.targets, self.losses)
