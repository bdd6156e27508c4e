#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Training steps of the demo's language model on 1 and on N GPUs, or ranks of the CPU, beside PyTorch's DDP.

usage: python -m tools.bench.scaling --gpus N [N ...] | --ranks N [N ...] [--size small] [--steps 30] [--batch B]
           [--is-strong] [--zero 0] [--tensor 1] [--context 1] [--peers "eager compile"] [--json FILE]
       python -m tools.bench.scaling --gpus N --losses 200

A rank has --batch texts of a batch (weak scaling); with --is-strong the ranks divide them. In a row:

    scaling    tokens a second, over N times those of one rank that runs alone
    host       until a step is enqueued, nothing being in the queue
    compute    a step of the same share of the texts without any exchange, while the other ranks make theirs
    exchange   the gradients' and values' exchanges of a step, alone
    exposed    step - compute, and how much of the exchange the rest of the step hides: 1 - exposed / exchange

A time is that of the slowest rank. The texts are random tokens. With --losses the ranks divide --batch texts of the
demo's corpus, a token a byte, and the losses of each step are compared with those of one rank.
"""

from __future__ import annotations

import argparse
import dataclasses
import gc
import itertools
import json
import os
import pathlib
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import baracuda as bk
from baracuda.demo.corpus import read_corpus
from baracuda.demo.parameters import Parameters
from baracuda.demo.train import SIZES, Size, positive
from baracuda.demo.training import Schedule, Trainer
from baracuda.distributed import launch
from baracuda.distributed.communicator import Communicator
from baracuda.distributed.mesh import Layout, Mesh
from baracuda.distributed.zero import ShardedParameters

Array = np.ndarray[Any, Any]
WARMUP, ALONE = 4, 5  # steps that are not measured, and those with nothing in the queue
EXCHANGES = 10
CORPUS_BYTES = 4_000_000


class Rank:
    """This process among the ranks."""

    def __init__(self, comm: Communicator, options: argparse.Namespace) -> None:
        self.comm, self.library, self.options = comm, comm.library, options
        size: Size = SIZES[options.size]
        self.config, self.dtype, self.count = size.config, size.dtype, comm.size
        batch = options.batch or size.schedule.batch
        is_divided = options.is_strong or options.losses
        steps = options.losses or WARMUP + ALONE + options.steps
        self.schedule = dataclasses.replace(
            size.schedule, batch=batch if is_divided else batch * self.count, steps=steps
        )
        self.mesh: Mesh | None = None
        if self.count > 1:
            divided = options.context * options.tensor
            self.mesh = Mesh(self.comm, Layout(self.count // divided, options.context, options.tensor, options.zero))

    def trainer(self, text: Array, schedule: Schedule, mesh: Mesh | None) -> Trainer:
        p = Parameters(self.config, self.dtype, self.library, has_gradients=True, mesh=mesh)
        p.initialise(schedule.seed)
        return Trainer(p, schedule, text)

    def seconds(self, work: Callable[[], object], calls: int, wait: Callable[[], object] | None = None) -> float:
        """Seconds a call, of the slowest rank."""
        self.comm.barrier()
        start = time.perf_counter()
        for _ in range(calls):
            work()
        (wait or self.comm.wait)()
        return float(max(self.comm.all_gather_objects((time.perf_counter() - start) / calls)))

    def host_seconds(self, work: Callable[[], object], wait: Callable[[], object]) -> float:
        found = []
        for _ in range(ALONE):
            self.comm.barrier()
            start = time.perf_counter()
            work()
            found.append(time.perf_counter() - start)
            wait()
        return float(max(self.comm.all_gather_objects(statistics.median(found))))

    def row(
        self, name: str, step: Callable[[], object], loss: Callable[[], float], wait: Callable[[], object]
    ) -> dict[str, Any]:
        losses = []
        for _ in range(WARMUP):
            step()
            losses.append(loss())
        host = self.host_seconds(step, wait)
        seconds = self.seconds(step, self.options.steps, wait)
        rate = self.schedule.tokens / seconds
        return {"name": name, "ranks": self.count, "step": seconds, "host": host, "rate": rate, "losses": losses}

    def ours(self, text: Array) -> dict[str, Any]:
        compute = None
        if self.mesh is not None and self.mesh.layout.data == self.count:
            share = dataclasses.replace(self.schedule, batch=self.schedule.batch // self.count)
            alone = self.trainer(text, share, None)
            for _ in range(WARMUP):
                alone.run_step()
            compute = self.seconds(alone.run_step, self.options.steps)
            del alone
            gc.collect()  # a trainer and its graph refer to one another
        trainer = self.trainer(text, self.schedule, self.mesh)
        row = self.row("baracuda", trainer.run_step, trainer.loss, self.comm.wait)
        if self.library.backend == "cuda":
            runtime, result = bk.memory.cuda_runtime(), bk.memory.runtime_result
            free, total = result(runtime.cudaMemGetInfo(), "cudaMemGetInfo")
            row["gibibytes"] = (total - free) / 2**30
        sharded = trainer.p.ranks.sharded
        if sharded is not None and sharded.comm.size > 1:
            row["exchange"] = self.exchange_seconds(sharded)
        if compute is not None:
            row["compute"], row["exposed"] = compute, row["step"] - compute
        return row

    def exchange_seconds(self, sharded: ShardedParameters) -> float:
        """The exchanges of a step between copies of the model, in their order."""
        numbers = range(len(sharded.units))

        def work() -> None:
            sharded.start()
            for number in numbers:
                sharded.open(number)
            for number in [*reversed(numbers[1:]), 0]:
                sharded.open(number)
                sharded.close_gradients(number)
            sharded.finish()
            sharded.updated()

        launched = bk.graph(work)
        launched()
        return self.seconds(launched, EXCHANGES)

    def peer(self, kind: str) -> dict[str, Any]:
        """PyTorch's step: DistributedDataParallel of several ranks."""
        import torch

        from tools.bench.training import Peer

        gc.collect()
        torch.cuda.empty_cache()
        torch.cuda.set_device(self.comm.local_rank)
        if self.count > 1 and not torch.distributed.is_initialized():
            where = os.environ["BARACUDA_RENDEZVOUS"] + ".torch"
            torch.distributed.init_process_group("nccl", init_method=where, rank=self.comm.rank, world_size=self.count)
        p = Parameters(self.config, self.dtype, self.library)
        p.initialise(self.schedule.seed)
        values = {name: bk.download(p.values[name]).astype(np.float32) for name in self.config.shapes()}
        share = dataclasses.replace(self.schedule, batch=self.schedule.batch // self.count)
        rng, shape = np.random.default_rng(self.comm.rank), (share.batch, share.length)
        draws = [rng.integers(0, self.config.vocabulary, shape) for _ in range(share.steps + 1)]
        peer = Peer(self.config, values, share, list(itertools.pairwise(draws)), kind == "compile", ranks=self.count)

        return self.row(f"torch {kind}", peer.step, peer.loss, torch.cuda.synchronize)

    def losses(self, text: Array) -> list[float]:
        trainer = self.trainer(text, self.schedule, self.mesh)
        found = []
        for _ in range(self.schedule.steps):
            trainer.run_step()
            found.append(trainer.loss())
        return found


def of_rank(options: argparse.Namespace) -> None:
    """The work of one rank; the first one writes the result."""
    rank = Rank(bk.distributed.init(), options)
    found: Any
    if options.losses:
        corpus = np.frombuffer(read_corpus(CORPUS_BYTES, 1).train, np.uint8).astype(np.int64)
        found = rank.losses(corpus % rank.config.vocabulary)
    else:
        found = [rank.ours(np.random.default_rng(0).integers(0, rank.config.vocabulary, 1_000_000))]
        for kind in options.peers.split():
            found.append(rank.peer(kind))
    rank.comm.barrier()
    if rank.comm.rank == 0:
        options.of_rank.write_text(json.dumps(found))
    rank.comm.close()


def run(arguments: list[str], count: int, backend: str) -> Any:
    """The results of `count` ranks."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "found.json")
        command = [sys.executable, "-m", "tools.bench.scaling", *arguments, "--of-rank", str(path)]
        environment = {"BARACUDA_BACKEND": backend, "NCCL_NVLS_ENABLE": os.environ.get("NCCL_NVLS_ENABLE", "0")}
        status = launch.run(command, count, environment=environment)
        if status:
            raise SystemExit(f"{count} ranks ended with status {status}")
        return json.loads(path.read_text())


def line(row: dict[str, Any], flops: int, alone: dict[str, Any]) -> str:
    parts = [
        f"{row['name']:14} {row['ranks']} ranks {1e3 * row['step']:9.2f} ms {row['rate']:12,.0f} tokens/s"
        f" {row['rate'] * flops / 1e12 / row['ranks']:7.1f} TFLOP/s each",
        f"scaling {scaling(row, alone):5.3f}",
        f"host {1e6 * row['host']:7.1f} us",
    ]
    if "gibibytes" in row:
        parts.append(f"memory {row['gibibytes']:.2f} GiB")
    parts += [f"{name} {1e3 * row[name]:.2f} ms" for name in ("compute", "exchange", "exposed") if name in row]
    if "exposed" in row:
        parts.append(f"hidden {hidden(row):.0%}")
    return "  ".join(parts)


def scaling(row: dict[str, Any], alone: dict[str, Any]) -> float:
    return float(row["rate"] / row["ranks"] / alone["rate"])


def hidden(row: dict[str, Any]) -> float:
    """The share of the exchange that the rest of the step hides."""
    return min(max(1 - row["exposed"] / row["exchange"], 0.0), 1.0)


def compare_losses(one: list[float], many: list[float]) -> tuple[float, int]:
    """The largest difference, and the first step that has it."""
    differences = np.abs(np.array(one) - np.array(many))
    return float(differences.max()), int(differences.argmax())


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.bench.scaling", description=__doc__.partition("\n")[0])
    group = parser.add_mutually_exclusive_group(required=True)
    group.add_argument("--gpus", type=positive, nargs="+")
    group.add_argument("--ranks", type=positive, nargs="+", help="of the CPU")
    parser.add_argument("--size", choices=SIZES, default="small")
    parser.add_argument("--steps", type=positive, default=30)
    parser.add_argument("--batch", type=positive, help="texts of a batch: of a rank, or of all with --is-strong")
    parser.add_argument("--is-strong", action="store_true", help="divide the same texts among the ranks")
    parser.add_argument("--losses", type=positive, help="compare the losses of so many steps")
    parser.add_argument("--zero", type=int, choices=range(4), default=0)
    parser.add_argument("--tensor", type=positive, default=1)
    parser.add_argument("--context", type=positive, default=1)
    parser.add_argument("--peers", default="", help="PyTorch's: eager, compile")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--of-rank", type=pathlib.Path, help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    given = sys.argv[1:] if arguments is None else arguments
    options = parse(given)
    if options.of_rank:
        of_rank(options)
        return 0
    backend, size = "cuda" if options.gpus else "cpu", SIZES[options.size]
    counts = [count for count in options.gpus or options.ranks if count > 1]
    length = size.schedule.length
    print(f"{options.size}: {size.config.parameters():,} parameters, texts of {length} tokens", flush=True)
    document: dict[str, Any] = {"size": options.size, "backend": backend, "rows": []}
    alone = run(given, 1, backend)
    if options.losses:
        for count in counts:
            difference, step = compare_losses(alone, many := run(given, count, backend))
            document["rows"].append({"ranks": count, "difference": difference, "step": step, "losses": [alone, many]})
            print(f"{count} ranks: losses of {options.losses} steps, from {alone[0]:.4f} to {alone[-1]:.4f}, differ by "
                  f"{difference:.2e} at most, in step {step}", flush=True)  # fmt: skip
    else:
        flops = size.config.flops(length)
        for count in (1, *counts):
            for row, single in zip(alone if count == 1 else run(given, count, backend), alone):
                document["rows"].append(row | {"scaling": scaling(row, single)})
                print(line(row, flops, single), flush=True)
    if options.json:
        options.json.write_text(json.dumps(document, indent=1))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
