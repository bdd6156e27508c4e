# SPDX-License-Identifier: Apache-2.0
"""A loss curve as an SVG file, for light and dark pages."""

from __future__ import annotations

import html
import math
import pathlib
from collections.abc import Sequence

WIDTH, HEIGHT = 720, 360
LEFT, RIGHT, TOP, BOTTOM = 56, 16, 40, 44  # margins
STYLE = """
text { font: 12px system-ui, sans-serif; fill: #333 }
.title { font-size: 14px; font-weight: 600 }
.grid { stroke: #8884; stroke-width: 1 }
.train { fill: none; stroke: #8aa4d6; stroke-width: 1 }
.smooth { fill: none; stroke: #2456b8; stroke-width: 2 }
.baseline { stroke: #c2410c; stroke-width: 1.5; stroke-dasharray: 5 4 }
.held { fill: #15803d }
@media (prefers-color-scheme: dark) { text { fill: #ddd } .smooth { stroke: #7aa2f7 } .held { fill: #4ade80 } }
"""


def write_chart(
    path: pathlib.Path, title: str, losses: Sequence[float], held_out: Sequence[tuple[int, float]],
    baseline: tuple[str, float],
) -> None:  # fmt: skip
    """Losses of steps, their running mean, losses of held-out text after some steps, and a loss to compare with."""
    every = [*losses, *[loss for _, loss in held_out], baseline[1]]
    low, high = math.floor(min(every)), math.ceil(max(every))
    steps = len(losses)

    def x(step: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * step / steps

    def y(loss: float) -> float:
        return TOP + (HEIGHT - TOP - BOTTOM) * (high - loss) / (high - low)

    def line(values: Sequence[float], name: str) -> str:
        points = " ".join([f"{x(step):.1f},{y(value):.1f}" for step, value in enumerate(values, 1)])
        return f'<polyline class="{name}" points="{points}"/>'

    parts = [f'<text class="title" x="{LEFT}" y="22">{html.escape(title)}</text>']
    for tick in range(low, high + 1):
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(tick):.1f}" y2="{y(tick):.1f}"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y(tick) + 4:.1f}" text-anchor="end">{tick}</text>')
    for tick in _ticks(steps):
        parts.append(f'<text x="{x(tick):.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{tick:,}</text>')
    parts.append(f'<text x="{WIDTH / 2}" y="{HEIGHT - 8}" text-anchor="middle">step (loss in nats a token)</text>')
    parts += [line(losses, "train"), line(running_mean(losses), "smooth")]
    name, value = baseline
    parts.append(f'<line class="baseline" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(value):.1f}" y2="{y(value):.1f}"/>')
    parts.append(f'<text x="{LEFT + 8}" y="{y(value) + 16:.1f}">{html.escape(name)} {value:.2f}</text>')
    for step, loss in held_out:
        parts.append(f'<circle class="held" cx="{x(step):.1f}" cy="{y(loss):.1f}" r="4"/>')
    if held_out:
        step, loss = held_out[-1]
        at = f'x="{x(step) - 8:.1f}" y="{y(loss) + 18:.1f}"'
        parts.append(f'<text {at} text-anchor="end">held out {loss:.2f}</text>')
    body = "\n".join(parts)
    path.write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="{html.escape(title)}">\n<style>{STYLE}</style>\n{body}\n</svg>\n'
    )


def running_mean(values: Sequence[float], share: float = 0.05) -> list[float]:
    """Exponentially weighted means, whose first values are means of those so far."""
    means: list[float] = []
    mean = 0.0
    for number, value in enumerate(values, 1):
        mean += (value - mean) * max(share, 1 / number)
        means.append(mean)
    return means


def _ticks(steps: int) -> list[int]:
    """Four to ten round numbers up to `steps`."""
    unit = 10 ** max(len(str(steps)) - 1, 0)
    spacing = next(s for s in (2 * unit, unit, unit // 2, unit // 5, 1) if s and (steps / s >= 4 or s == 1))
    return list(range(0, steps + 1, spacing))
