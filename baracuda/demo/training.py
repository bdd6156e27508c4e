# SPDX-License-Identifier: Apache-2.0
"""Training steps of a language model: gradient accumulation, clipping, AdamW or Muon with warm-up and cosine decay.

Everything is allocated before the first step ends, but what Muon computes on the CPU on its way. On CUDA a step is one
replay of a CUDA graph, to which nothing is copied; on the CPU its C calls are replayed. Which texts a step sees
depends on the seed and the number of the step alone, so that a run that is resumed sees the same ones.
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
from baracuda.demo.ranks import Alone
from baracuda.demo.texts import Texts
from baracuda.distributed.linear import share_of

Array = np.ndarray[Any, Any]
OPTIMIZERS = ("adamw", "muon")


@dataclasses.dataclass(frozen=True)
class Schedule:
    """Schedule of a training: `accumulate` batches a step, each of `batch` texts of `length` tokens."""

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
    optimizer: str = "adamw"  # of OPTIMIZERS

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


class Share:
    """The part of each batch that a rank computes: texts from `first` on, and of these the tokens at some positions."""

    def __init__(self, schedule: Schedule, ranks: Alone) -> None:
        mesh = ranks.mesh
        data, context = (1, 1) if mesh is None else (mesh.layout.data, mesh.layout.context)
        self.batch = share_of("the number of texts of a batch", schedule.batch, data)
        self.length = share_of("the number of tokens of a text", schedule.length, context)
        self.first = 0 if mesh is None else self.batch * mesh.data_rank
        self.positions = ranks.positions(self.length)
        self._mesh = mesh

    def means(self, values: list[float]) -> list[float]:
        """The means over the ranks, which have equal shares."""
        if self._mesh is None:
            return values
        found: list[float] = np.mean(self._mesh.replicas.all_gather_objects(values), axis=0).tolist()
        return found


@dataclasses.dataclass(frozen=True)
class Part:
    """Elements from `start` on of a flattened parameter of this rank, which it updates."""

    name: str
    start: int
    value: bk.TensorRef
    gradient: bk.TensorRef
    is_matrix: bool
    is_divided: bool  # among the ranks of a tensor group

    @property
    def named(self) -> tuple[str, bk.TensorRef]:
        return f"{self.name}[{self.start}]" if self.start else self.name, self.value


class Updated:
    """All parts, matrices first, as the optimiser has them."""

    def __init__(self, p: Parameters) -> None:
        self.p = p
        shapes, ranks = p.config.shapes(), p.ranks
        if ranks.sharded is None:
            found = [Part(name, 0, p.values[name], dx, len(dx.shape) > 1, False) for name, dx in p.gradients.items()]
        else:
            found = [
                Part(fragment.name, fragment.start, fragment.value, fragment.gradient, len(shapes[fragment.name]) == 2,
                     ranks.is_divided(fragment.name))
                for fragment in ranks.sharded.fragments()
            ]  # fmt: skip
        self.parts = sorted(found, key=lambda part: not part.is_matrix)

    def norm(self, scale: bk.TensorRef) -> Any:
        """The norm of all ranks' gradients, divided by scale. What every rank of a group has counts once."""
        p, mesh = self.p, self.p.ranks.mesh
        assert mesh is not None
        squares = bk.empty((2,), p.statistics, library=p.library)
        for k, is_divided in enumerate((True, False)):
            own = [part.gradient for part in self.parts if part.is_divided is is_divided]
            into = squares[k : k + 1]
            if own:
                norm = bk.optim.get_total_norm(own)
                bk.mul(norm.reshape(1), norm.reshape(1), out=into)
            else:
                bk.fill(into, 0.0, out=into)
        if mesh.layout.zero:
            mesh.replicas.all_reduce(squares, out=squares)
        if mesh.tensor.size > 1:
            mesh.tensor.all_reduce(squares[:1], out=squares[:1])
        norm = bk.sqrt(bk.sum(squares, axis=0, keepdims=True))
        return bk.div(norm, bk.cast(scale, p.statistics))


class Trainer:
    """`text` is the training text, in tokens."""

    def __init__(self, p: Parameters, schedule: Schedule, text: Array) -> None:
        self.p, self.schedule, self.text, self.step = p, schedule, text, 0
        share = self.share = Share(schedule, p.ranks)
        if share.length < schedule.length and schedule.dropout:
            raise bk.UnsupportedError("dropout of texts whose tokens are divided among ranks")
        self.buffers = Buffers(p, share.batch, share.length)
        self.backward = Backward(p, self.buffers)
        width = p.config.width
        self.dropout = Dropout(
            p, schedule.dropout, schedule.seed, schedule.batch * schedule.length * width,
            share.first * schedule.length * width,
        )  # fmt: skip
        shape = (schedule.accumulate, share.batch * share.length)
        self.tokens, self.targets = (bk.zeros(shape, bk.i64, library=p.library) for _ in range(2))
        self.texts = Texts(
            text, schedule.accumulate * schedule.batch, schedule.length, seed=schedule.seed,
            batches=schedule.accumulate, rows=slice(share.first, share.first + share.batch),
            positions=share.positions, library=p.library,
        )  # fmt: skip
        self.losses = bk.zeros((schedule.accumulate, 1), p.statistics, library=p.library)
        # The sum of the losses of each step, from 1 on, so that a run need not wait for every step to report them.
        self.history = bk.zeros((schedule.steps + 1, 1), p.statistics, library=p.library)
        self.rate = bk.zeros((1, 1), p.statistics, library=p.library)
        rates = np.array([schedule.rate_of(step) for step in range(schedule.steps)])
        self.rates = bk.upload(rates.reshape(-1, 1), p.statistics, library=p.library)
        self.steps = bk.zeros((1,), bk.i64, library=p.library)  # that are done
        self.batches = bk.upload(np.array([schedule.accumulate]), bk.f32, library=p.library)
        self.updated = Updated(p)
        self.optimizers = self._optimizers()
        self._launch: Any = None

    def _optimizers(self) -> list[tuple[bk.optim.Optimizer, list[Part]]]:
        """Optimisers and their parts: AdamW of all, or of those that are not Muon's, the matrices of the layers."""
        schedule, p, parts = self.schedule, self.p, self.updated.parts
        shared: dict[str, Any] = {
            "lr": self.rate.reshape(1), "zero_grads": True, "capturable": True,
            "rounding": "master" if p.dtype in (bk.bf16, bk.f16) else "nearest",
        }  # fmt: skip
        found: list[tuple[bk.optim.Optimizer, list[Part]]] = []
        if schedule.optimizer == "muon":
            if p.ranks.mesh is not None:
                raise bk.UnsupportedError("training with Muon by several ranks, which have parts of matrices")
            own = [part for part in parts if part.is_matrix and part.name != "embedding"]
            parts = [part for part in parts if not part.is_matrix or part.name == "embedding"]
            muon = bk.optim.Muon(
                [part.named for part in own], weight_decay=schedule.weight_decay, adjust_lr_fn="match_rms_adamw",
                **shared,
            )  # fmt: skip
            found.append((muon, own))
        decays = ((True, schedule.weight_decay), (False, 0.0))  # of matrices, of gains
        groups = [
            {"params": [part.named for part in parts if part.is_matrix is kind], "weight_decay": decay}
            for kind, decay in decays
            if any(part.is_matrix is kind for part in parts)
        ]
        adamw = bk.optim.AdamW(groups, betas=schedule.betas, max_norm=schedule.max_norm, **shared)
        return [*found, (adamw, parts)]

    def run_step(self) -> None:
        """Enqueue a step; `loss` waits for it."""
        if self.step >= self.schedule.steps:
            raise bk.InvalidProblemError(f"step {self.step} is behind the schedule's {self.schedule.steps} steps")
        is_graph = self.p.library.backend == "cuda"
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
        bk.upload(np.array([step]), out=self.steps, library=self.p.library)
        bk.memory.clear(self.history, library=self.p.library)
        self.texts.restart(step)
        self.dropout.restart(step * self.schedule.accumulate)

    def loss(self) -> float:
        """The mean loss of the tokens of the last step; of several ranks, which all ask for it."""
        if self.p.ranks.mesh is not None:
            self.p.ranks.mesh.world.wait()
        return self.share.means([float(bk.download(self.losses, library=self.p.library).mean())])[0]

    def losses_from(self, step: int) -> list[float]:
        """The values of `loss` after each step from number `step` on, which all of several ranks ask for."""
        if self.p.ranks.mesh is not None:
            self.p.ranks.mesh.world.wait()
        sums = bk.download(self.history[step + 1 : self.step + 1], library=self.p.library)
        return self.share.means((sums[:, 0] / self.schedule.accumulate).tolist())

    def _work(self) -> None:
        self._accumulate_gradients()
        self._update()

    def _accumulate_gradients(self) -> None:
        bk.embedding(self.steps, self.rates, out=self.rate)
        bk.add(self.steps, 1, out=self.steps)
        self.texts.draw(self.tokens, self.targets)
        for k in range(self.schedule.accumulate):
            tokens, targets, loss = self.tokens[k], self.targets[k], self.losses[k]
            self.p.ranks.begin_batch(is_first=k == 0, is_last=k == self.schedule.accumulate - 1)
            forward(self.p, self.buffers, tokens, self.dropout)
            self.backward.run(tokens, targets, loss, self.dropout)
            bk.embedding_backward(loss.reshape(1, 1), self.steps, self.schedule.steps + 1, out=self.history)
            self.dropout.advance()
        self.p.ranks.finish_gradients()

    def _update(self) -> None:
        """Clip and descend; the gradients are sums over the batches, and cleared as they are read. Muon takes their
        directions alone.
        """
        norm = self.updated.norm(self.batches) if self.p.ranks.mesh is not None else None
        for optimizer, parts in self.optimizers:
            scale: dict[str, Any] = (
                {} if isinstance(optimizer, bk.optim.Muon) else {"grad_scale": self.batches, "norm": norm}
            )
            optimizer.step([part.gradient for part in parts], **scale)
        if self.p.config.experts:
            self.backward.experts.balance()
        self.p.ranks.publish()
        self.p.products.update()


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

    def losses_of(self, text: Array, rank: int = 0, size: int = 1) -> Array:
        """The loss of each token of a text but the first; of several ranks, 0 for those that others compute."""
        batch, length = self.buffers.batch, self.buffers.length
        half = length // 2
        found = np.zeros(len(text) - 1)
        starts = np.arange(0, max(len(text) - 1 - half, 1), half)[rank::size]
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
