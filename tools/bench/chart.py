# SPDX-License-Identifier: Apache-2.0
"""The chart of the README: python -m tools.bench.chart [--check]

Each family has a row: peer time / our time over all its problems and dtypes, on a logarithmic axis. The chart is made
from the committed results; --check compares the committed chart with them and writes nothing.
"""

from __future__ import annotations

import argparse
import dataclasses
import html
import json
import math
import pathlib
import statistics
import sys
from typing import Any

from baracuda._library.op_table import ops
from tools.bench.markdown import CHART, RESULTS, Row, best_paths

GPU, CPU = "h100_cuda.json", "cpu_epyc_2threads.json"
LEAST, MOST = 0.25, 64.0  # ends of the axis; what lies outside is drawn at the end
TICKS = (0.25, 1.0, 4.0, 16.0, 64.0)
LEFT, WIDTH, GAP, TOP, ROW = 104, 268, 84, 74, 22  # of the panels, in units of the drawing
LEGEND = (
    "Time of the peer, the faster one where there are two, over that of baracuda: all problems and dtypes, with a",
    "workspace where one helps. Circle and number: median; bar: middle half; line: worst to best, cut off at the ends.",
)
STYLE = """
text { font: 12px system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; fill: #1f2328; }
.back { fill: #ffffff; stroke: #d1d9e0; }
.head { font-weight: 600; font-size: 14px; }
.small { font-size: 11px; fill: #59636e; }
.grid { stroke: #d1d9e0; }
.level { stroke: #59636e; stroke-dasharray: 3 3; }
.range { stroke: #8c959f; stroke-width: 1.5; }
.half { fill: #0e8a7d; }
.median { fill: #ffffff; stroke: #0b5f56; stroke-width: 2; }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3; }
.back { fill: #0d1117; stroke: #3d444d; }
.small { fill: #9198a1; }
.grid { stroke: #2a313c; }
.level { stroke: #9198a1; }
.range { stroke: #656c76; }
.half { fill: #2aa598; }
.median { fill: #0d1117; stroke: #7fe0d5; }
}
"""


@dataclasses.dataclass
class Spread:
    """Quantiles of the ratios of a family's problems."""

    worst: float
    low: float
    median: float
    high: float
    best: float

    @classmethod
    def of(cls, ratios: list[float]) -> Spread:
        low, median, high = statistics.quantiles(ratios, n=4) if len(ratios) > 1 else ratios * 3
        return cls(min(ratios), low, median, high, max(ratios))


def spreads(result: dict[str, Any]) -> dict[str, Spread]:
    """Spreads by family, in alphabetical order. A problem timed with and without a workspace counts with it."""
    found: dict[str, list[float]] = {}
    rows: list[Row] = [row for row in result["rows"] if row["of_copy"] and row["times_peer"]]
    for row in best_paths(rows):
        found.setdefault(ops()[row["op"]].row.family, []).append(row["times_peer"])
    return {family: Spread.of(ratios) for family, ratios in sorted(found.items())}


def position(ratio: float) -> float:
    """The position along the axis, 0 to 1."""
    bounded = min(max(ratio, LEAST), MOST)
    return math.log(bounded / LEAST) / math.log(MOST / LEAST)


def panel(x: float, families: list[str], found: dict[str, Spread], titles: tuple[str, str]) -> list[str]:
    bottom = TOP + ROW * len(families)
    parts = [f'<text class="head" x="{x}" y="28">{html.escape(titles[0])}</text>']
    parts.append(f'<text class="small" x="{x}" y="46">{html.escape(titles[1])}</text>')
    for tick in TICKS:
        at = x + WIDTH * position(tick)
        kind = "level" if tick == 1 else "grid"
        parts.append(f'<line class="{kind}" x1="{at:.1f}" y1="{TOP - 6}" x2="{at:.1f}" y2="{bottom}"/>')
        parts.append(f'<text class="small" x="{at:.1f}" y="{bottom + 16}" text-anchor="middle">{tick:g}</text>')
    for i, family in enumerate(families):
        if family not in found:
            continue
        spread, y = found[family], TOP + ROW * i + ROW // 2
        worst, low, median, high, best = (x + WIDTH * position(ratio) for ratio in dataclasses.astuple(spread))
        parts.append(f'<line class="range" x1="{worst:.1f}" y1="{y}" x2="{best:.1f}" y2="{y}"/>')
        parts.append(f'<rect class="half" x="{low:.1f}" y="{y - 4}" width="{max(high - low, 1):.1f}" height="8"/>')
        parts.append(f'<circle class="median" cx="{median:.1f}" cy="{y}" r="4"/>')
        parts.append(f'<text x="{x + WIDTH + 14}" y="{y + 4}">{spread.median:.2f} x</text>')
    return parts


def machine(facts: dict[str, Any]) -> tuple[str, str]:
    """The machine, and the versions of the software."""
    on = facts["device"] + (f", {facts['threads']} threads" if facts.get("threads") else "")
    numpy = "" if facts["backend"] == "cuda" else f" or NumPy {facts['numpy']}"
    return on, f"{facts['library']['compiler']}, beside PyTorch {facts['torch']}{numpy}"


def chart(gpu: dict[str, Any], cpu: dict[str, Any]) -> str:
    """The SVG, with a background and with colours for light and dark schemes."""
    found = [spreads(gpu), spreads(cpu)]
    families = sorted({*found[0], *found[1]})
    width, bottom = LEFT + 2 * (WIDTH + GAP), TOP + ROW * len(families)
    says = "Time of PyTorch over the time of baracuda by family: median, middle half and range of the problems"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {bottom + 74}" role="img" aria-label="{says}">',
        f"<style>{STYLE}</style>",
        f'<rect class="back" x="0.5" y="0.5" width="{width - 1}" height="{bottom + 73}" rx="6"/>',
    ]
    for i, family in enumerate(families):
        y = TOP + ROW * i + ROW // 2 + 4
        parts.append(f'<text x="{LEFT - 14}" y="{y}" text-anchor="end">{family.replace("_", " ")}</text>')
    for i, (result, of) in enumerate(zip((gpu, cpu), found)):
        parts += panel(LEFT + i * (WIDTH + GAP), families, of, machine(result["environment"]))
    for i, line in enumerate(LEGEND):
        parts.append(f'<text class="small" x="16" y="{bottom + 42 + 16 * i}">{line}</text>')
    return "\n".join([*parts, "</svg>", ""])


def made() -> str:
    return chart(*(json.loads((RESULTS / name).read_text()) for name in (GPU, CPU)))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.bench.chart", description=__doc__)
    parser.add_argument("--check", action="store_true", help="fail if the chart differs from the results")
    options = parser.parse_args()
    path: pathlib.Path = CHART
    if options.check:
        if path.read_text() != made():
            print(f"{path.name} does not match the results: python -m tools.bench.chart writes it", file=sys.stderr)
            return 1
        return 0
    path.write_text(made())
    return 0


if __name__ == "__main__":
    sys.exit(main())
