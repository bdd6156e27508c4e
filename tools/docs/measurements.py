# SPDX-License-Identifier: Apache-2.0
"""Speed and error of a group's ops, from the committed results of tools/bench and tools/accuracy."""

from __future__ import annotations

import dataclasses
import functools
import html
import json
from typing import Any

from tools.bench.markdown import SMALL
from tools.docs import ROOT
from tools.docs.groups import Group

BENCH = ROOT / "tools" / "bench" / "results"
ACCURACY = ROOT / "tools" / "accuracy" / "results"
SPEED_FILES = ("h100_cuda.json", "h200_cuda.json", "cpu_epyc_1thread.json", "cpu_epyc_2threads.json")
ERROR_FILES = ("cuda.json", "cpu.json")
OPS_ERROR_FILES = ("ops_cuda.json", "ops_cpu.json")
SUMMARIES = {"speed": "tools/bench/results/README.md", "error": "tools/accuracy/README.md"}


@dataclasses.dataclass
class Bar:
    label: str
    ours: float
    theirs: float | None


@functools.cache
def result(path: Any) -> dict[str, Any]:
    return json.loads(path.read_text())


def machine(facts: dict[str, Any]) -> str:
    threads = f", {facts['threads']} thread{'s' * (facts['threads'] > 1)}" if facts.get("threads") else ""
    return f"{facts['device']}{threads}, {facts['library']['compiler']}, PyTorch {facts['torch']}"


def speed(group: Group) -> str:
    """Speed of the group's problems on each machine, against PyTorch."""
    parts = []
    for name in SPEED_FILES:
        found = result(BENCH / name)
        rows = [row for row in found["rows"] if row["op"] in group.ops and row["of_copy"]]
        if not rows:
            continue
        facts = found["environment"]
        bars = [
            Bar(
                f"{row['name']} · {row['dtype']}",
                row["of_copy"],
                row["of_copy"] / row["times_peer"] if row["times_peer"] else None,
            )
            for row in rows
            if row["bytes"] >= SMALL
        ]
        lines = [
            (
                row["name"], row["dtype"], mebibytes(row["bytes"]), microseconds(row["ours_us"]),
                microseconds(row["peer_us"]) if row["times_peer"] else "", f"{row['of_copy']:.2f}",
                f"{row['times_peer']:.2f}" if row["times_peer"] else "",
            )
            for row in rows
        ]  # fmt: skip
        head = ("problem", "dtype", "MiB", "µs", f"µs {peer(rows)}", "of a copy", f"times {peer(rows)}")
        parts.append(
            f"### {facts['device']}\n\n{machine(facts)}, commit `{facts['library']['commit']}`.\n\n"
            f"{chart(bars, 'rate as a share of a device copy', 1.0) if bars else ''}\n\n"
            f"{details('The numbers', table(head, lines))}"
        )
    if not parts:
        return ""
    return (
        "\n\n".join(parts)
        + '\n\n"Of a copy": the fewest bytes that the problem moves, over its time, as a fraction of the rate '
        f"of a device copy in the same run. All problems: [{SUMMARIES['speed']}](repo:{SUMMARIES['speed']})."
    )


def peer(rows: list[dict[str, Any]]) -> str:
    return "PyTorch" if any(row["peer"] == "torch" for row in rows) else "NumPy"


def error(group: Group) -> str:
    """The largest error of each dtype on both targets, against PyTorch."""
    found = [(file, row) for file in ERROR_FILES for row in result(ACCURACY / file)["rows"] if belongs(row, group)]
    if not found:
        return error_of_problems(group)
    lines, bars = [], []
    for file, row in found:
        theirs = row.get("torch")
        target = "GPU" if file == "cuda.json" else "CPU"
        what = row["function"] + "_backward" * (row["kind"] == "backward")
        bars.append(Bar(f"{what} · {row['dtype']} · {target}", row["max_ulp"], theirs and theirs["max_ulp"]))
        worst = ", ".join(f"{name} = {value}" for name, value in (row["worst"] or {}).items() if name in "abcxy")
        lines.append(
            (
                what, row["dtype"], target, f"{row['inputs']:,}{' (all)' * row['every']}", ulp(row["max_ulp"]),
                f"{row['mean_ulp']:.3f}", worst, ulp(theirs["max_ulp"]) if theirs else "",
            )
        )  # fmt: skip
    head = ("function", "dtype", "target", "inputs", "largest, ulp", "mean, ulp", "largest at", "PyTorch, ulp")
    return (
        f"{chart(bars, 'largest error in ulp, cut off at 8', 0.5, 8.0)}\n\n"
        f"{details('The numbers', table(head, lines))}\n\n"
        "Errors are counted in units of the last place of the dtype; 0.5 is a correctly rounded result. How they were "
        f"measured: [{SUMMARIES['error']}](repo:{SUMMARIES['error']})."
    )


def error_of_problems(group: Group) -> str:
    """The largest error of each problem's result, against PyTorch."""
    files = [name for name in OPS_ERROR_FILES if (ACCURACY / name).exists()]
    found = [(name, row) for name in files for row in result(ACCURACY / name)["rows"] if row["op"] in group.ops]
    if not found:
        return ""
    bars, lines = [], []
    for name, row in found:
        target = "GPU" if "cuda" in name else "CPU"
        ours, theirs = row["error"], row["torch"]
        bars.append(Bar(f"{row['name']} · {row['dtype']} · {target}", ours, theirs))
        lines.append((row["name"], row["dtype"], target, ulp(ours), "" if theirs is None else ulp(theirs)))
    head = ("problem", "dtype", "target", "largest error", "PyTorch")
    return (
        f"{chart(bars, 'largest error in units of the last place of the largest value, cut off at 8', 0.5, 8.0)}\n\n"
        f"{details('The numbers', table(head, lines))}\n\n"
        "Errors of sampled results as a share of the largest, in units of 2^-23 (f32), 2^-10 (f16) and 2^-7 (bf16). "
        f"How they were measured: [{SUMMARIES['error']}](repo:{SUMMARIES['error']})."
    )


def belongs(row: dict[str, Any], group: Group) -> bool:
    arity = {"unary": "unary", "backward": "unary", "binary": "binary"}.get(row["kind"], row["kind"])
    return (arity, row["function"].partition("(")[0]) == (group.arity, group.function)


def mebibytes(count: int) -> str:
    return f"{count / 2**20:.0f}" if count >= 2**20 else f"{count / 2**20:.2g}"


def microseconds(times: dict[str, float] | None) -> str:
    return f"{times['median']:.4g}" if times else ""


def ulp(value: float) -> str:
    return f"{value:.2f}" if value < 1000 else f"{value:.2g}"


def table(head: tuple[str, ...], lines: list[tuple[str, ...]]) -> str:
    rows = [head, ("---",) * len(head), *lines]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def details(title: str, body: str) -> str:
    """Collapsible text: pymdownx.details."""
    return f'??? note "{title}"\n\n' + "\n".join(f"    {line}".rstrip() for line in body.splitlines())


LINE, LEFT, WIDTH = 20, 250, 380


def chart(bars: list[Bar], axis: str, mark: float, limit: float = 0.0) -> str:
    """Horizontal bars, ours above PyTorch's, cut off at `limit`, with a line at `mark`."""
    largest = max([mark, *(bar.ours for bar in bars), *(bar.theirs or 0.0 for bar in bars)]) * 1.05
    end = min(largest, limit) if limit else largest
    height = LINE * len(bars) + 42

    def length(value: float) -> str:
        return f"{min(value, end) / end * WIDTH:.1f}"

    parts = [f'<svg class="bk-chart" viewBox="0 0 {LEFT + WIDTH + 60} {height}" role="img" aria-label="{axis}">']
    for i, bar in enumerate(bars):
        y = i * LINE + 4
        parts.append(f'<text x="{LEFT - 8}" y="{y + 12}" text-anchor="end">{html.escape(bar.label)}</text>')
        parts.append(f'<rect class="ours" x="{LEFT}" y="{y + 1}" width="{length(bar.ours)}" height="8"/>')
        if bar.theirs is not None:
            parts.append(f'<rect class="theirs" x="{LEFT}" y="{y + 10}" width="{length(bar.theirs)}" height="5"/>')
        x = LEFT + 6 + max(float(length(bar.ours)), float(length(bar.theirs or 0.0)))
        parts.append(f'<text x="{x:.1f}" y="{y + 12}">{bar.ours:.2f}</text>')
    x, bottom = LEFT + mark / end * WIDTH, LINE * len(bars) + 6
    parts.append(f'<line x1="{x:.1f}" y1="0" x2="{x:.1f}" y2="{bottom}"/>')
    parts.append(f'<text x="{x:.1f}" y="{bottom + 12}" text-anchor="middle">{mark:g}</text>')
    parts.append(f'<text x="{LEFT}" y="{bottom + 28}">{axis}: <tspan class="ours">■ baracuda</tspan> ')
    parts.append('<tspan class="theirs">■ PyTorch</tspan></text></svg>')
    return f'<figure class="bk-figure">{"".join(parts)}</figure>'
