# SPDX-License-Identifier: Apache-2.0
"""Measures functions of f32 on all 2^32 values, on a GPU, against the oracle's formulas in float64.

The formulas are accurate to 2^-36 of the value, also near zeros at irrational arguments, since the nearest f32 is some
2^-25 away from them.
"""

from __future__ import annotations

import dataclasses
import math
import time
from typing import Any

import baracuda as bk
from tools.accuracy.functions import Function
from tools.accuracy.library import call
from tools.accuracy.ulp import FAR, Worst

CHUNK = 1 << 26
QUICK_STEP = 64
_END, _BEYOND = 2.0**128, 2.0**128 - 2.0**103  # the next power of two; values from here on round to infinity
_LEAST, _MOST = 2.0**-126, 2.0**127
_EXPONENT = 0x7FF0000000000000


def arguments(torch: Any, start: int, count: int, step: int, device: str) -> Any:
    """f32 with the bits start, start + step, ...; with a step above 1 the lower bits vary."""
    bits = torch.arange(start, start + count * step, step, dtype=torch.int64, device=device)
    if step > 1:
        bits += (bits // step * 37) & (step - 1)
    return bits.to(torch.int32).view(torch.float32)


class Tally:
    """Worst and mean error, accumulated on the device until `result`."""

    def __init__(self, torch: Any, names: tuple[str, ...]) -> None:
        self.torch, self.names, self.parts, self.count = torch, names, [], 0

    def add(self, got: Any, wanted: Any, operands: tuple[Any, ...], outside: Any = None) -> None:
        """Adds errors, except of elements in `outside`."""
        torch = self.torch
        actual = got.double()
        nan = wanted.isnan() | actual.isnan()
        lost = wanted.isnan() != actual.isnan()
        if outside is not None:
            nan, lost = nan | outside, lost & ~outside
        beyond = wanted.abs() >= _BEYOND
        true = torch.where(beyond, torch.copysign(torch.full_like(wanted, _END), wanted), wanted)
        infinite = actual.isinf()
        # the power of two of the true value, from its exponent bits
        binade = (true.abs().view(torch.int64) & _EXPONENT).view(torch.float64).clamp_(_LEAST, _MOST)
        error = (actual.clamp_(-_END, _END) - true).abs_().div_(binade).mul_(2.0**23)
        special = lost | ((infinite != beyond) & (error > FAR) & ~nan)
        error.masked_fill_(special | nan, 0.0)
        largest, k = error.max(0)
        first = special.to(torch.uint8).argmax()
        gather = [torch.stack([v[i].double() for v in (*operands, got, wanted)]) for i in (k, first)]
        self.parts.append((largest, error.clamp_(max=FAR).sum(), special.sum(), *gather))
        self.count += error.numel() if outside is None else int(error.numel() - outside.sum())

    def result(self) -> Worst:
        total = Worst()
        names = (*self.names, "got", "expected")
        for largest, summed, special, worst, first in self.parts:
            bad = int(special)
            points = [dict(zip(names, point.tolist())) for point in (worst, first)]
            total.add(Worst(0, float(largest), float(summed), points[0], bad, points[1] if bad else None))
        total.count = self.count
        return total


@dataclasses.dataclass
class _Run:
    function: Function
    dy: float | None
    domain: tuple[float, float]
    other: Any
    ours: Tally
    theirs: Tally


def measure(
    library: bk.Library, torch: Any, functions: list[Function], limit: float = math.inf, span: int = 1 << 32
) -> dict[Function, Any]:
    """Function -> (our error, PyTorch's or None, whether ours covers every value).

    Both are measured on each 64th value, gradients for two dy; then ours on all values, gradients for dy = 1, one
    function after another until `limit` seconds have passed.
    """
    if library.backend == "cuda":
        with torch.cuda.stream(torch.cuda.Stream()):
            return _measure(library, torch, functions, limit, span, torch.cuda.current_stream().cuda_stream)
    return _measure(library, torch, functions, limit, span, 0)


def _measure(
    library: bk.Library, torch: Any, functions: list[Function], limit: float, span: int, stream: int
) -> dict[Function, Any]:
    start = time.perf_counter()
    device = library.backend
    runs = [run for f in functions for run in _runs(torch, f)]

    def sweep(wanted: list[_Run], step: int, peer: bool) -> None:
        total = span // step
        for begin in range(0, total, CHUNK):
            x = arguments(torch, -(span // 2) + begin * step, min(CHUNK, total - begin), step, device)
            wide = x.double()
            y = torch.empty_like(x)
            for r in wanted:
                operands = (x,) if r.dy is None else (torch.full_like(x, r.dy), x)
                widened = (wide,) if r.dy is None else (operands[0].double(), wide)
                expected = r.function.true_on_device(*widened)
                outside = None
                if r.dy is not None and r.domain != (-math.inf, math.inf):
                    outside = (x < r.domain[0]) | (x > r.domain[1])
                call(library, r.function, "f32", x.numel(), [v.data_ptr() for v in operands], y.data_ptr(), stream)
                r.ours.add(y, expected, operands, outside)
                if peer and r.other is not None:
                    try:
                        r.theirs.add(r.other(*operands).detach(), expected, operands, outside)
                    except (RuntimeError, NotImplementedError):
                        r.other, r.theirs = None, Tally(torch, r.function.operands)

    sweep(runs, QUICK_STEP, peer=True)
    every: set[Function] = set()
    for r in runs:
        if r.dy not in (None, 1.0):
            continue
        if device == "cuda":
            torch.cuda.current_stream().synchronize()
        if time.perf_counter() - start >= limit:
            break
        r.ours = Tally(torch, r.function.operands)
        sweep([r], 1, peer=False)
        every.add(r.function)
    return {f: (*pair, f in every) for f, pair in _merged(runs).items()}


def _runs(torch: Any, f: Function) -> list[_Run]:
    gradients = (None,) if f.kind == "unary" else (1.0, float(torch.tensor(-math.e / 2, dtype=torch.float32)))
    domain = (-math.inf, math.inf) if f.kind == "unary" else f.domain("f32")
    other = f.peer(torch)
    return [_Run(f, dy, domain, other, Tally(torch, f.operands), Tally(torch, f.operands)) for dy in gradients]


def _merged(runs: list[_Run]) -> dict[Function, Any]:
    found: dict[Function, Any] = {}
    for r in runs:
        ours, theirs = found.setdefault(r.function, (Worst(), Worst()))
        ours.add(r.ours.result())
        theirs.add(r.theirs.result())
    return {f: (ours, theirs if theirs.count else None) for f, (ours, theirs) in found.items()}
