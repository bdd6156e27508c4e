# SPDX-License-Identifier: Apache-2.0
"""Trains a language model on the source of Python's standard library, with nothing but this library's kernels.

    python -m baracuda.demo train [--size small] [--checkpoint model.safetensors] ...
    python -m baracuda.demo train --gpus 4 --zero 2       # or --ranks 4, on the CPU; torchrun starts them as well

Exits with 1 unless held-out text is predicted better than by a trigram model with back-off.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import math
import os
import pathlib
import sys
import time
from typing import Any

import numpy as np

import baracuda as bk
from baracuda.demo.chart import write_chart
from baracuda.demo.checkpoint import load, require_safetensors, save
from baracuda.demo.corpus import Corpus, read_corpus
from baracuda.demo.generate import Generator
from baracuda.demo.machine import describe_device, gemm_rate
from baracuda.demo.parameters import Config, Parameters
from baracuda.demo.progress import Progress
from baracuda.demo.tokenizer import Tokenizer, train_tokenizer
from baracuda.demo.training import OPTIMIZERS, Evaluator, Schedule, Trainer
from baracuda.demo.trigram import Trigram
from baracuda.distributed import launch
from baracuda.distributed.mesh import Layout, Mesh
from baracuda.fp8.linear import RECIPES

Array = np.ndarray[Any, Any]
QUEUED_STEPS = 8  # of a GPU, between two readings of losses
# Options that replace members of Schedule.
CHANGES = ("steps", "batch", "accumulate", "rate", "dropout", "seed", "optimizer")


@dataclasses.dataclass(frozen=True)
class Size:
    """A model, the text that it is trained on, and how."""

    config: Config
    dtype: bk.ElementKind
    train_bytes: int
    held_out_bytes: int
    schedule: Schedule


SIZES = {
    "tiny": Size(
        Config(vocabulary=2048, context=256, layers=4, width=128, heads=4, kv_heads=2, hidden=384, deviation=0.1),
        bk.f32, 1_500_000, 60_000, Schedule(steps=1300, batch=4, length=256),
    ),
    "small": Size(
        Config(vocabulary=32768, context=1024, layers=12, width=768, heads=12, kv_heads=4, hidden=2944),
        bk.bf16, 20_000_000, 200_000, Schedule(steps=500, batch=16, length=1024, rate=6e-4, warmup=50),
    ),
    "moe": Size(
        Config(
            vocabulary=32768, context=1024, layers=12, width=768, heads=12, kv_heads=4, hidden=1472, experts=8, top_k=2
        ),
        bk.bf16, 20_000_000, 200_000, Schedule(steps=500, batch=16, length=1024, rate=6e-4, warmup=50),
    ),
    "large": Size(
        Config(vocabulary=32768, context=2048, layers=18, width=2048, heads=16, kv_heads=4, hidden=6656),
        bk.bf16, 20_000_000, 200_000, Schedule(steps=500, batch=16, length=2048, rate=3e-4, warmup=50),
    ),
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Data:
    """The text in tokens, and how well a trigram model predicts the part that is held out."""

    tokenizer: Tokenizer
    train: Array
    held_out: Array
    held_out_bytes: int
    trigram_loss: float  # nats a token

    def bits_per_byte(self, loss: float) -> float:
        return loss * (len(self.held_out) - 2) / math.log(2) / self.held_out_bytes


def prepare(corpus: Corpus, vocabulary: int, tokenizer: Tokenizer | None) -> Data:
    start = time.perf_counter()
    tokenizer = tokenizer or train_tokenizer(corpus.train, vocabulary)
    train, held_out = tokenizer.encode(corpus.train), tokenizer.encode(corpus.held_out)
    loss = float(Trigram(train, len(tokenizer)).losses(held_out).mean())
    data = Data(tokenizer, train, held_out, len(corpus.held_out), loss)
    print(f"text: {corpus.files} files of the standard library, {len(corpus.train):,} bytes; "
          f"{corpus.held_out_files} files, {len(corpus.held_out):,} bytes, are held out")  # fmt: skip
    print(f"tokenizer: {len(tokenizer):,} tokens, {len(corpus.train) / len(train):.2f} bytes a token, "
          f"in {time.perf_counter() - start:.1f} s")  # fmt: skip
    return data


def evaluate(trainer: Trainer, evaluator: Evaluator, data: Data) -> float:
    """The mean loss of the held-out text, without its first two tokens, which have no trigram. Several ranks divide it,
    each with the whole model.
    """
    ranks = trainer.p.ranks
    if ranks.mesh is None:
        return float(evaluator.losses_of(data.held_out)[1:].mean())
    for name in trainer.p.values:
        evaluator.p.write(name, ranks.whole(name))
    world = ranks.mesh.world
    losses = evaluator.losses_of(data.held_out, world.rank, world.size)
    total = world.all_reduce(bk.upload(losses, bk.f64, library=evaluator.p.library))
    world.wait()
    return float(bk.download(total, library=evaluator.p.library)[1:].mean())


def train(
    trainer: Trainer, evaluator: Evaluator, data: Data, losses: list[float], options: argparse.Namespace
) -> list[tuple[int, float]]:
    """Run the steps that remain: their losses are appended; steps with losses of the held-out text are returned."""
    p, schedule = trainer.p, trainer.schedule
    flops = p.config.flops(schedule.length) * schedule.tokens
    count = 1 if p.ranks.mesh is None else p.ranks.mesh.world.size
    peak = count * gemm_rate(p.library, p.dtype)
    print(f"peak: {peak / 1e9:,.0f} GFLOP/s, of {f'{count} ranks, each ' * (count > 1)}a product of square matrices")
    progress = Progress(trainer.step, schedule.steps, schedule.tokens, flops, peak)
    evaluated = {schedule.steps * k // options.evaluations for k in range(1, options.evaluations + 1)}
    held_out: list[tuple[int, float]] = []
    # The host reads losses now and then: a GPU, and the ranks, would wait for it in each step.
    every = QUEUED_STEPS if p.library.backend == "cuda" else 1
    while trainer.step < schedule.steps:
        trainer.run_step()
        is_last, is_evaluated = trainer.step == schedule.steps, trainer.step in evaluated
        is_saved = options.checkpoint and (is_last or trainer.step % options.save_every == 0)
        if not (is_evaluated or is_saved or progress.is_due(trainer.step, every)):
            continue
        losses += trainer.losses_from(len(losses))
        progress.update(trainer.step, losses[-1])
        if is_evaluated:
            start = time.perf_counter()
            held_out.append((trainer.step, evaluate(trainer, evaluator, data)))
            progress.pause(time.perf_counter() - start)
        if is_saved:
            save(options.checkpoint, trainer, data.tokenizer, losses)
    return held_out or [(trainer.step, evaluate(trainer, evaluator, data))]


def sample(p: Parameters, tokenizer: Tokenizer, options: argparse.Namespace, seed: int) -> str:
    prompt = tokenizer.encode(options.prompt.encode())
    found = Generator(p).generate(
        prompt, options.tokens, temperature=options.temperature, top_p=options.top_p, seed=seed
    )
    return tokenizer.decode(found).decode("utf-8", "replace")


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m baracuda.demo train", description="Train a language model.")
    parser.add_argument("--size", choices=SIZES, default="tiny")
    parser.add_argument(
        "--fp8", choices=RECIPES, help="8-bit operands of products, but of experts', by a recipe for scales"
    )
    parser.add_argument("--backend", choices=("cpu", "cuda"), help="default: as the library is found")
    group = parser.add_argument_group("schedule, where it shall differ from that of the size")
    group.add_argument("--steps", type=positive)
    group.add_argument("--batch", type=positive, help="texts of a batch")
    group.add_argument("--accumulate", type=positive, help="batches of a step")
    group.add_argument("--rate", type=float, help="the greatest learning rate")
    group.add_argument("--dropout", type=float, help="probability, of what a layer adds")
    group.add_argument("--seed", type=int)
    group.add_argument("--optimizer", choices=OPTIMIZERS, help="muon: of the matrices of layers; adamw has the others")
    group = parser.add_argument_group("several ranks; each of --data, --context and --tensor divides the ranks")
    group.add_argument("--gpus", type=positive, help="GPUs of this host, a process each")
    group.add_argument("--ranks", type=positive, help="processes of the CPU")
    group.add_argument("--context", type=positive, default=1, help="ranks that divide the tokens of a text")
    group.add_argument("--tensor", type=positive, default=1, help="ranks that divide the matrices")
    group.add_argument("--zero", type=int, choices=range(4), default=0, help="stage of ZeRO")
    group = parser.add_argument_group("files")
    group.add_argument(
        "--checkpoint",
        type=pathlib.Path,
        help="where to save: a file of the package safetensors, or a folder of several ranks",
    )
    group.add_argument("--save-every", type=positive, default=500, help="steps between checkpoints")
    group.add_argument("--resume", type=pathlib.Path, help="a checkpoint, whose schedule goes on")
    group.add_argument("--curve", type=pathlib.Path, help="an SVG file for the loss curve")
    group = parser.add_argument_group("results")
    group.add_argument("--evaluations", type=positive, default=3, help="how often the held-out loss is computed")
    group.add_argument("--prompt", default="def read(", help="of the sampled text")
    group.add_argument("--tokens", type=int, default=160, help="of the sampled text")
    group.add_argument("--temperature", type=float, default=0.8)
    group.add_argument("--top-p", type=float, default=0.95)
    options = parser.parse_args(arguments)
    changed = [f"--{name}" for name in CHANGES if getattr(options, name) is not None]
    if options.resume and changed:
        parser.error(f"--resume goes on with the schedule of the checkpoint: {changed[0]} cannot change it")
    if options.gpus and options.ranks:
        parser.error("--gpus are ranks: give one of both")
    options.is_started = "RANK" in os.environ and "WORLD_SIZE" in os.environ
    options.count = int(os.environ["WORLD_SIZE"]) if options.is_started else options.gpus or options.ranks or 1
    if options.count % (options.context * options.tensor):
        parser.error(
            f"{options.count} ranks are not divided by --context {options.context} times --tensor {options.tensor}"
        )
    if options.optimizer == "muon" and options.count > 1:
        parser.error("--optimizer muon is of one rank: several have parts of matrices")
    if options.checkpoint and options.count == 1:
        require_safetensors()
    return options


def positive(text: str) -> int:
    value = int(text)
    if value <= 0:
        raise argparse.ArgumentTypeError(f"{value} is not above 0")
    return value


def main(arguments: list[str] | None = None) -> int:
    options = parse(arguments)
    if options.gpus or options.ranks:
        options.backend = "cuda" if options.gpus else "cpu"
    if options.count > 1 and not options.is_started:
        command = [sys.executable, "-m", "baracuda.demo", "train", *(sys.argv[2:] if arguments is None else arguments)]
        return launch.run(command, options.count)
    library = bk.load(backend=options.backend) if options.backend else bk.default_library()
    if options.count == 1:
        return run(options, library, None)
    layout = Layout(options.count // (options.context * options.tensor), options.context, options.tensor, options.zero)
    with bk.distributed.init(library=library) as comm, contextlib.ExitStack() as stack:
        if comm.rank > 0:  # the first one speaks
            stack.enter_context(contextlib.redirect_stdout(stack.enter_context(open(os.devnull, "w"))))
        status = run(options, library, Mesh(comm, layout))
        comm.barrier()  # a rank that has less to do must not leave before
        return status


def run(options: argparse.Namespace, library: bk.Library, mesh: Mesh | None) -> int:
    """Train and report; the exit status."""
    start = time.perf_counter()
    print(f"baracuda {bk.__version__} on {describe_device(library)}")
    if mesh is not None:
        print(f"ranks: {mesh.world.size}, {mesh.layout}")
    size = SIZES[options.size]
    resumed = load(options.resume) if options.resume else None
    corpus = read_corpus(size.train_bytes, size.held_out_bytes)
    data = prepare(corpus, size.config.vocabulary, resumed.tokenizer if resumed else None)
    config = dataclasses.replace(size.config, vocabulary=len(data.tokenizer))
    changes = {name: getattr(options, name) for name in CHANGES if getattr(options, name) is not None}
    schedule = resumed.schedule if resumed else dataclasses.replace(size.schedule, **changes)
    p = Parameters(config, size.dtype, library, has_gradients=True, mesh=mesh, fp8=options.fp8)
    p.initialise(schedule.seed)
    trainer = Trainer(p, schedule, data.train)
    losses: list[float] = []
    if resumed:
        resumed.restore(trainer)
        losses += resumed.losses
        print(f"resumed after step {trainer.step}")
    print(f"model: {config.parameters():,} parameters in {size.dtype}, {config.layers} layers of {config.width}")
    print(f"schedule: {schedule.steps} steps of {schedule.tokens:,} tokens")
    whole = p if mesh is None else Parameters(config, size.dtype, library)
    held_out = train(trainer, Evaluator(whole, trainer.share.batch, config.context), data, losses, options)
    loss, baseline = held_out[-1][1], data.trigram_loss
    print(f"held out: {loss:.3f} nats a token, {data.bits_per_byte(loss):.3f} bits a byte")
    print(f"trigram:  {baseline:.3f} nats a token, {data.bits_per_byte(baseline):.3f} bits a byte")
    if mesh is None or mesh.world.rank == 0:
        if options.curve:
            title = (
                f"{config.parameters() / 1e6:.1f} M parameters, {schedule.steps} steps of {schedule.tokens:,} tokens"
            )
            write_chart(options.curve, title, losses, held_out, ("trigram", baseline))
            print(f"loss curve: {options.curve}")
        print(f"sample:\n{sample(whole, data.tokenizer, options, schedule.seed)}")
    is_good = loss < baseline
    print(f"{'passed' if is_good else 'FAILED: a trigram model is better'}, in {time.perf_counter() - start:.0f} s")
    return 0 if is_good else 1
