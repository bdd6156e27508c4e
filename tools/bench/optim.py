#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Speed of optimiser steps on PyTorch tensors, beside torch.optim and a device copy.

usage: python -m tools.bench.optim [--elements N] [--tensors 300] [--dtypes "f32 bf16"] [--trials 20] [--device cuda]

The tensors have sizes as in a network: a few large matrices, many vectors. `share` is the rate of the bytes that a step
must move (parameters, gradients and states read, parameters and states written) over that of a copy of as many bytes.
`host` is the time until a step returns, on a CUDA device; on the CPU a step returns when it is done.
"""

from __future__ import annotations

import argparse
import functools
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch

import baracuda.optim as optim

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16, "f64": torch.float64}
# State elements of the compute type a parameter, of ours and of torch.optim's, which has them in the parameter's dtype.
STATES = {"AdamW": 2, "SGD": 1, "Lion": 1, "RMSprop": 1, "Adagrad": 1, "Adadelta": 2, "Lamb": 2}
OPTIONS: dict[str, dict[str, Any]] = {"SGD": {"momentum": 0.9}, "RMSprop": {}, "Adagrad": {}, "Adadelta": {}}
FUSED = {"AdamW": ("cpu", "cuda"), "SGD": ("cpu", "cuda"), "Adagrad": ("cpu",)}  # where PyTorch has them


def sizes_of(tensors: int, elements: int) -> list[int]:
    """One tensor in ten has nine tenths of the elements; half of the others are vectors."""
    large = max(tensors // 10, 1)
    middle = max((tensors - large) // 2, 1)
    vectors = max(tensors - large - middle, 0)
    each = [int(0.9 * elements / large)] * large + [int(0.099 * elements / middle)] * middle
    return [max(n, 1) for n in (*each, *[max(int(0.001 * elements / max(vectors, 1)), 1)] * vectors)][:tensors]


class Clock:
    def __init__(self, device: str, trials: int) -> None:
        self.device, self.trials = device, trials

    def synchronize(self) -> None:
        if self.device == "cuda":
            torch.cuda.synchronize()

    def measure(self, call: Callable[[], object]) -> tuple[float, float]:
        """Median seconds of a call, and until it returns."""
        for _ in range(3):
            call()
        self.synchronize()
        whole, host = [], []
        for _ in range(self.trials):
            self.synchronize()
            start = time.perf_counter()
            call()
            returned = time.perf_counter()
            self.synchronize()
            whole.append(time.perf_counter() - start)
            host.append(returned - start)
        if self.device == "cuda":
            whole = [self._by_events(call) for _ in range(self.trials)]
        return statistics.median(whole), statistics.median(host)

    def _by_events(self, call: Callable[[], object], repeats: int = 5) -> float:
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        first.record()
        for _ in range(repeats):
            call()
        last.record()
        last.synchronize()
        return first.elapsed_time(last) / 1000 / repeats


def parameters(sizes: list[int], dtype: torch.dtype, device: str) -> list[torch.Tensor]:
    made = [torch.randn(n, device=device).to(dtype).requires_grad_() for n in sizes]
    for p in made:
        p.grad = torch.randn_like(p)
    return made


def contenders(name: str, params: list[torch.Tensor]) -> Iterator[tuple[str, Callable[[], object]]]:
    options = OPTIONS.get(name, {})
    yield "baracuda", getattr(optim, name)(params, **options).step
    if hasattr(torch.optim, name):
        if params[0].device.type in FUSED.get(name, ()):
            yield "torch fused", getattr(torch.optim, name)(params, fused=True, **options).step
        yield "torch foreach", getattr(torch.optim, name)(params, foreach=True, **options).step


def copy_rate(clock: Clock, elements: int) -> float:
    """Bytes a second, read and written."""
    source = torch.empty(elements, dtype=torch.float32, device=clock.device)
    target = torch.empty_like(source)
    return 8 * elements / clock.measure(lambda: target.copy_(source))[0]


def rows(args: argparse.Namespace) -> Iterator[tuple[str, str, str, float, float, float]]:
    clock, sizes = Clock(args.device, args.trials), sizes_of(args.tensors, args.elements)
    total = sum(sizes)
    rate = copy_rate(clock, 2 * total)
    yield "copy", "f32", "", 16 * total / rate, rate, 1.0
    for dtype in args.dtypes.split():
        size = torch.finfo(DTYPES[dtype]).bits // 8
        for name, states in STATES.items():
            if args.only and name not in args.only.split():
                continue
            params = parameters(sizes, DTYPES[dtype], args.device)
            for who, step in contenders(name, params):
                width = max(size, 4) if who == "baracuda" else size
                nbytes = total * (3 * size + 2 * states * width)
                seconds, host = clock.measure(step)
                yield name, dtype, who, seconds, host, nbytes / seconds / rate
        params = parameters(sizes, DTYPES[dtype], args.device)
        for who, module in (("baracuda", optim), ("torch", torch.nn.utils)):
            seconds, host = clock.measure(functools.partial(module.clip_grad_norm_, params, 1.0))
            yield "clip_grad_norm_", dtype, who, seconds, host, total * 3 * size / seconds / rate


def main() -> None:
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    on_gpu = torch.cuda.is_available()
    ap.add_argument("--elements", type=int, default=500_000_000 if on_gpu else 20_000_000)
    ap.add_argument("--tensors", type=int, default=300)
    ap.add_argument("--dtypes", default="f32 bf16")
    ap.add_argument("--trials", type=int, default=20)
    ap.add_argument("--only", default="", help="names of optimisers")
    ap.add_argument("--device", default="cuda" if on_gpu else "cpu")
    for name, dtype, who, seconds, host, share in rows(ap.parse_args()):
        line = f"{name:16s} {dtype:5s} {who:14s} {1e3 * seconds:9.3f} ms"
        print(f"{line}  {host / 1e9:.0f} GB/s" if name == "copy" else f"{line}  host {1e6 * host:8.1f} us  {share:.2f}")


if __name__ == "__main__":
    main()
