#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Speed of training steps of the demo's language model, beside the same model in PyTorch, eager and compiled.

usage: python -m tools.bench.training [--size small] [--steps 30] [--batch N] [--peers "eager compile"] [--json FILE]

PyTorch computes in bf16 by autocast, with f32 parameters, scaled_dot_product_attention, clip_grad_norm_ and its fused
AdamW; ours has bf16 parameters with f32 masters. All begin with the same parameters and see the same texts of random
tokens, which ours chooses on the device, and PyTorch copies from pinned memory. `host` is the time until a step
returns, and `memory` the greatest that the device has in use.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import pathlib
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch.nn import functional as F

import baracuda as bk
from baracuda.demo.forward import EPS
from baracuda.demo.parameters import ROPE_BASE, Config, Parameters
from baracuda.demo.train import SIZES
from baracuda.demo.training import Schedule, Trainer

Array = np.ndarray[Any, Any]
WARMUP, ALONE = 4, 5  # steps that are not measured, and those with nothing in the queue


class Model(torch.nn.Module):
    """The model of baracuda.demo.forward, with its loss."""

    def __init__(self, config: Config, values: dict[str, torch.Tensor]) -> None:
        super().__init__()
        self.config = config
        self.names = {name: name.replace(".", "_") for name in values}
        for name, value in values.items():
            self.register_parameter(self.names[name], torch.nn.Parameter(value))
        half = config.head_dim // 2
        device = next(iter(values.values())).device
        angles = torch.arange(config.context, device=device)[:, None] * ROPE_BASE ** (
            -torch.arange(half, device=device) / half
        )
        self.cos, self.sin = angles.cos()[:, None], angles.sin()[:, None]

    def value(self, name: str) -> torch.Tensor:
        found: torch.Tensor = getattr(self, self.names[name])
        return found

    def rotated(self, x: torch.Tensor) -> torch.Tensor:
        first, second = x.float().chunk(2, -1)
        y = torch.cat((first * self.cos - second * self.sin, second * self.cos + first * self.sin), -1)
        return y.to(x.dtype)

    def forward(self, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        c, shape = self.config, tokens.shape
        x = F.embedding(tokens, self.value("embedding"))
        for number in range(c.layers):

            def w(name: str, number: int = number) -> torch.Tensor:
                return self.value(f"layers.{number}.{name}")

            h = F.rms_norm(x, (c.width,), w("attention_norm"), EPS)
            q = self.rotated(F.linear(h, w("q")).view(*shape, c.heads, c.head_dim))
            k = self.rotated(F.linear(h, w("k")).view(*shape, c.kv_heads, c.head_dim))
            v = F.linear(h, w("v")).view(*shape, c.kv_heads, c.head_dim)
            y = F.scaled_dot_product_attention(
                q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), is_causal=True, enable_gqa=True
            )
            x = x + F.linear(y.transpose(1, 2).reshape(*shape, c.width), w("o"))
            linear, gate = F.linear(F.rms_norm(x, (c.width,), w("mlp_norm"), EPS), w("up")).chunk(2, -1)
            x = x + F.linear(linear * F.silu(gate), w("down"))
        logits = F.linear(F.rms_norm(x, (c.width,), self.value("norm"), EPS), self.value("embedding"))
        return F.cross_entropy(logits.float().view(-1, logits.shape[-1]), targets.reshape(-1))


@dataclasses.dataclass(frozen=True)
class Result:
    name: str
    milliseconds: float
    host_microseconds: float
    tokens: int  # of a step
    gibibytes: float
    losses: list[float]

    @property
    def rate(self) -> float:
        return self.tokens / self.milliseconds * 1000


def used_bytes() -> int:
    free, total = torch.cuda.mem_get_info()
    return total - free


def measure(
    name: str, step: Callable[[], object], loss: Callable[[], float], tokens: int, steps: int, before: int
) -> Result:
    losses = []
    for _ in range(WARMUP):
        step()
        losses.append(loss())
    torch.cuda.synchronize()
    hosts = []
    for _ in range(ALONE):
        start = time.perf_counter()
        step()
        hosts.append(time.perf_counter() - start)
        torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(steps):
        step()
    torch.cuda.synchronize()
    seconds = (time.perf_counter() - start) / steps
    memory = (used_bytes() - before) / 2**30
    return Result(name, seconds * 1e3, statistics.median(hosts) * 1e6, tokens, memory, losses)


def ours(
    config: Config, dtype: bk.ElementKind, schedule: Schedule, text: Array, steps: int
) -> tuple[Result, dict[str, Array], list[tuple[Array, Array]]]:
    before, library = used_bytes(), bk.default_library()
    p = Parameters(config, dtype, library, has_gradients=True)
    p.initialise(schedule.seed)
    values = {name: bk.download(p.values[name]).astype(np.float32) for name in config.shapes()}
    trainer = Trainer(p, schedule, text)
    texts = [trainer.texts.host(step) for step in range(WARMUP + ALONE + steps)]
    return measure("baracuda", trainer.run_step, trainer.loss, schedule.tokens, steps, before), values, texts


class Peer:
    """PyTorch's training step on the texts that ours sees; of several ranks, whose group is there, on their own."""

    def __init__(
        self, config: Config, values: dict[str, Array], schedule: Schedule, texts: list[tuple[Array, Array]],
        is_compiled: bool, *, ranks: int = 1,
    ) -> None:  # fmt: skip
        self.schedule, self.number = schedule, 0
        shape = (schedule.batch, schedule.length)
        self.texts = [tuple(torch.from_numpy(x).view(shape).pin_memory() for x in pair) for pair in texts]
        model: torch.nn.Module = Model(config, {name: torch.from_numpy(value).cuda() for name, value in values.items()})
        matrices, gains = ([p for p in model.parameters() if (p.ndim > 1) is kind] for kind in (True, False))
        groups = [{"params": matrices, "weight_decay": schedule.weight_decay}, {"params": gains, "weight_decay": 0.0}]
        self.optimizer = torch.optim.AdamW(groups, lr=schedule.rate, betas=schedule.betas, fused=True)
        self.parameters = list(model.parameters())
        if ranks > 1:
            model = torch.nn.parallel.DistributedDataParallel(
                model, device_ids=[torch.cuda.current_device()], gradient_as_bucket_view=True
            )
        self.model = torch.compile(model) if is_compiled else model
        self.last = torch.zeros(())

    def step(self) -> None:
        schedule = self.schedule
        tokens, targets = (x.cuda(non_blocking=True) for x in self.texts[self.number])
        for group in self.optimizer.param_groups:
            group["lr"] = schedule.rate_of(self.number)
        with torch.autocast("cuda", torch.bfloat16):
            loss = self.model(tokens, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.parameters, schedule.max_norm)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.last = loss.detach()
        self.number += 1

    def loss(self) -> float:
        return float(self.last)


def show(r: Result, flops: int) -> None:
    print(f"{r.name:14} {r.milliseconds:9.2f} ms {r.rate:11,.0f} tokens/s {r.rate * flops / 1e12:7.1f} TFLOP/s"
          f" host {r.host_microseconds:9.1f} us memory {r.gibibytes:6.2f} GiB"
          f" losses {' '.join([f'{loss:.4f}' for loss in r.losses])}", flush=True)  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.bench.training", description=__doc__.partition("\n")[0])
    parser.add_argument("--size", choices=SIZES, default="small")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--batch", type=int, help="texts of a batch")
    parser.add_argument("--peers", default="eager compile")
    parser.add_argument("--json", type=pathlib.Path)
    args = parser.parse_args()
    size = SIZES[args.size]
    schedule = dataclasses.replace(size.schedule, batch=args.batch or size.schedule.batch)
    text = np.random.default_rng(0).integers(0, size.config.vocabulary, 1_000_000)
    print(f"{torch.cuda.get_device_name()}, {args.size}: {size.config.parameters():,} parameters, "
          f"{schedule.batch} x {schedule.length} tokens a step", flush=True)  # fmt: skip
    flops = size.config.flops(schedule.length)
    result, values, texts = ours(size.config, size.dtype, schedule, text, args.steps)
    results = [result]
    show(result, flops)
    for kind in args.peers.split():
        torch.cuda.empty_cache()
        before = used_bytes()
        peer = Peer(size.config, values, schedule, texts, kind == "compile")
        results.append(measure(f"torch {kind}", peer.step, peer.loss, schedule.tokens, args.steps, before))
        show(results[-1], flops)
        del peer
    if args.json:
        document = {"device": torch.cuda.get_device_name(), "torch": torch.__version__, "size": args.size}
        args.json.write_text(json.dumps(document | {"results": [dataclasses.asdict(r) for r in results]}, indent=1))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
