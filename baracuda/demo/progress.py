# SPDX-License-Identifier: Apache-2.0
"""Progress of a training: a bar on a terminal, some lines elsewhere."""

from __future__ import annotations

import sys
import time


class Progress:
    """`flops_of_step` over the time of a step is compared with `peak`, both in floating point operations."""

    WIDTH = 24
    LINES = 10

    def __init__(self, first: int, steps: int, tokens_of_step: int, flops_of_step: float, peak: float) -> None:
        self.first, self.steps, self.tokens, self.flops, self.peak = first, steps, tokens_of_step, flops_of_step, peak
        self.start = self.drawn = time.perf_counter()
        self.is_bar = sys.stdout.isatty()

    def is_due(self, done: int, every: int) -> bool:
        """Whether to update after `done` steps: every so many, where a line is printed, and after the last one."""
        return done % every == 0 or done % self.steps_of_line == 0 or done == self.steps

    @property
    def steps_of_line(self) -> int:
        return max(1, self.steps // self.LINES)

    def pause(self, seconds: float) -> None:
        """Leave out time that no step has taken."""
        self.start += seconds

    def update(self, done: int, loss: float) -> None:
        """Shows the progress after `done` steps in all."""
        now = time.perf_counter()
        rate = (done - self.first) / (now - self.start)
        remaining = (self.steps - done) / rate
        line = (
            f"step {done:{len(str(self.steps))}}/{self.steps}  loss {loss:.3f}  {rate * self.tokens:,.0f} tokens/s  "
            f"{rate * self.flops / self.peak:.0%} of peak  {remaining:.0f} s left"
        )
        is_last = done == self.steps
        if self.is_bar and (is_last or now - self.drawn > 0.1):
            self.drawn = now
            filled = self.WIDTH * done // self.steps
            print(f"\r  [{'#' * filled:{self.WIDTH}}] {line}  ", end="\n" if is_last else "", flush=True)
        elif not self.is_bar and (is_last or done % self.steps_of_line == 0):
            print(f"  {line}", flush=True)
