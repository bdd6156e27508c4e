# SPDX-License-Identifier: Apache-2.0
"""Results as tables: python -m tools.bench.markdown RESULT... [--write]

Full tables: the elementwise family, with its hundreds of problems, by dtype, and its problems that are far from a copy
one by one; the other families one by one; results of the CPU library by their ratio to the peer alone. Short tables, on
the page about performance: the elementwise family by dtype, the other families by family.

With --write the full tables go to tools/bench/results/README.md, the short ones between the two marks of
tools/docs/pages/performance/index.md; without it both are printed. `python -m tools.bench.chart` draws the chart of the
project's README.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import statistics
import sys
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from baracuda._library.op_table import ops
from tools.bench.problems import benches

Row = dict[str, Any]

FLOATS = ("f32", "f16", "bf16", "f64")
SMALL = 1 << 20  # bytes; below, the launch takes longer
LARGE = 1 << 26  # bytes; from here on the device is busy
NEAR, FAR = 0.95, 0.9  # of copy
BEGIN, END = "<!-- measured -->", "<!-- end of what was measured -->"
ROOT = pathlib.Path(__file__).resolve().parents[2]
RESULTS = ROOT / "tools" / "bench" / "results"
FULL = RESULTS / "README.md"
SHORT = ROOT / "tools" / "docs" / "pages" / "performance" / "index.md"
CHART = ROOT / "tools" / "docs" / "pages" / "assets" / "speed.svg"
# Peak TFLOP/s of dense products in NVIDIA's data sheets, by operand dtype: f32 is without tensor cores, tf32 with them.
PEAKS = {
    "NVIDIA H200": {"f16": 989.0, "bf16": 989.0, "tf32": 495.0, "f32": 67.0, "f64": 67.0, "i8": 1979.0, "fp8": 1979.0},
    "NVIDIA H100": {"f16": 989.0, "bf16": 989.0, "tf32": 495.0, "f32": 67.0, "f64": 67.0, "i8": 1979.0, "fp8": 1979.0},
}
ARRAYS = {"numpy": "NumPy", "torch": "PyTorch", "cupy": "CuPy"}
BUSY = 1e9  # flops; below, the launch takes longer
HEAD = """# Measured

Written by `python -m tools.bench.markdown RESULT... --write` from the JSON files of `make bench` beside it. Times are
medians. "Of copy": the fewest bytes that the problem moves, over its time, as a fraction of a device copy's rate;
gathers that hit the cache exceed 1. "x PyTorch": its time over ours. Products: multiplications and additions a second,
and their share of what tensor cores reach with dense matrices by the data sheet."""


def report(result: dict[str, Any]) -> str:
    """Full tables: every problem that is worth a row."""
    rows = measured(result)
    if result["environment"]["backend"] == "cpu":
        parts = [cpu_report(result["environment"], rows, behind=True), functions(result.get("functions", ()))]
        return "\n\n".join(filter(None, parts))
    elementwise = [row for row in rows if is_elementwise(row)]
    arithmetic = flops_of(result["problems"])
    of_products = [row for row in rows if row["name"] in arithmetic]
    others = [row for row in rows if not is_elementwise(row) and row["name"] not in arithmetic]
    parts = [device(result)]
    if elementwise:
        parts += [by_dtype(elementwise), far_from_copy(elementwise), small_ones(elementwise)]
    if others:
        parts.append(one_by_one(others))
    if of_products:
        parts.append(products(of_products, arithmetic, result["environment"]["device"]))
    parts += [host(result["host"]), functions(result.get("functions", ()))]
    return "\n\n".join(filter(None, parts))


def summary(result: dict[str, Any]) -> str:
    """Short tables that fit on a screen."""
    rows = measured(result)
    if result["environment"]["backend"] == "cpu":
        return cpu_report(result["environment"], rows, behind=False)
    elementwise = [row for row in rows if is_elementwise(row)]
    others = [row for row in rows if not is_elementwise(row)]
    parts = [device(result)]
    if elementwise:
        parts.append(by_dtype(elementwise))
    if others:
        parts.append(by_family(others))
    return "\n\n".join(parts)


def measured(result: dict[str, Any]) -> list[Row]:
    for row in result["rows"]:
        if not row["of_copy"]:
            print(f"left out: {row['name']} {row['dtype']}: {row['error']}", file=sys.stderr)
    return [row for row in result["rows"] if row["of_copy"]]


def is_elementwise(row: Row) -> bool:
    op = ops().get(row["op"])
    return op is not None and op.row.family == "elementwise"


def device(result: dict[str, Any]) -> str:
    """Commits of the rows: a run may keep rows of earlier ones."""
    facts = result["environment"]
    library = facts["library"]
    commits = list(dict.fromkeys(row.get("commit", library["commit"]) for row in result["rows"]))
    text = f"{facts['device']}, {library['compiler']}, PyTorch {facts['torch']}, "
    return text + ("commit " if len(commits) == 1 else "rows of the commits ") + ", ".join(commits) + ":"


def group_of(row: Row) -> str:
    """Group of a row: a float dtype, all integers, or casts."""
    if row["name"].startswith("cast "):
        return "casts"
    return row["dtype"] if row["dtype"] in FLOATS else "integers"


def by_dtype(rows: Sequence[Row]) -> str:
    groups: dict[str, list[Row]] = {}
    for row in rows:
        if row["bytes"] >= SMALL:
            groups.setdefault(group_of(row), []).append(row)
    lines = []
    for group in sorted(groups, key=(*FLOATS, "integers", "casts").index):
        reached = [row["of_copy"] for row in groups[group]]
        ratios = [row["times_peer"] for row in groups[group] if row["times_peer"]]
        near = f"{sum(share >= NEAR for share in reached)} of {len(reached)}"
        lines.append([group, *map(number, (min(reached), statistics.median(reached))), near, *spread(ratios)])
    head = ["elementwise", "of copy: worst", "median", f"{NEAR} and more", "x PyTorch: worst", "median"]
    return table(head, lines)


def spread(ratios: Sequence[float]) -> list[str]:
    return [number(min(ratios)), number(statistics.median(ratios))] if ratios else ["", ""]


def far_from_copy(rows: Sequence[Row]) -> str:
    """A row per problem, a column per dtype: share of copy, and ratio to PyTorch."""
    slow = [row for row in rows if row["bytes"] >= SMALL and row["of_copy"] < FAR]
    if not slow:
        return f"No elementwise problem is below {FAR} of copy."
    dtypes = sorted({row["dtype"] for row in slow}, key=lambda t: (FLOATS.index(t) if t in FLOATS else len(FLOATS), t))
    cells: dict[str, dict[str, str]] = {}
    for row in sorted(slow, key=lambda row: row["of_copy"]):
        ratio = f", {number(row['times_peer'])} x" if row["times_peer"] else ""
        cells.setdefault(row["name"], {}).setdefault(row["dtype"], number(row["of_copy"]) + ratio)
    lines = [[name, *(found.get(dtype, "") for dtype in dtypes)] for name, found in cells.items()]
    return f"Below {FAR} of copy, with their ratio to PyTorch:\n\n{table(['problem', *dtypes], lines)}"


def small_ones(rows: Sequence[Row]) -> str:
    ratios = [row["times_peer"] for row in rows if row["bytes"] < SMALL and row["times_peer"]]
    if not ratios:
        return ""
    worst, median = spread(ratios)
    return (
        f"{len(ratios)} elementwise problems of less than 1 MiB, where the launch is nearly all: at worst {worst} x "
        f"PyTorch, median {median}."
    )


def one_by_one(rows: Sequence[Row]) -> str:
    """A row per problem, f32 then bf16."""
    problems: dict[str, dict[str, Row]] = {}
    for row in rows:
        problems.setdefault(row["name"], {})[row["dtype"]] = row
    lines = []
    for name, found in problems.items():
        both = [found.get(dtype, {}) for dtype in ("f32", "bf16")]
        lines.append([name, *(number(row.get(key)) for row in both for key in ("of_copy", "times_peer"))])
    return table(["problem", "f32: of copy", "x PyTorch", "bf16: of copy", "x PyTorch"], lines)


def flops_of(size: str) -> dict[str, int]:
    """Name -> flops of the matrix products."""
    return {bench.name: bench.flops for bench in benches(size) if bench.flops}


def operand_type(row: Row) -> str:
    """Key of PEAKS; both fp8 formats are one."""
    dtype: str = row["dtype"]
    return "tf32" if "tf32" in row["op"] else "fp8" if dtype.startswith("fp8") else dtype


def products(rows: Sequence[Row], arithmetic: Mapping[str, int], device: str) -> str:
    """A row per problem and dtype."""
    peaks = next((peaks for name, peaks in PEAKS.items() if device.startswith(name)), {})
    lines = []
    for row in rows:
        flops = arithmetic[row["name"]]
        rate, peak = flops / row["ours_us"]["median"] / 1e6, peaks.get(operand_type(row))
        reached = [f"{rate:.0f}" if rate >= 10 else f"{rate:.2f}", number(rate / peak if peak else None)]
        cells = reached if flops >= BUSY else ["", ""]
        lines.append([row["name"], row["dtype"], *cells, *map(number, (row["of_copy"], row["times_peer"]))])
    return table(["product", "factors", "TFLOP/s", "of peak", "of copy", "x PyTorch"], lines)


def best_paths(rows: Sequence[Row]) -> list[Row]:
    """Rows with a workspace, and rows of problems that were measured only without."""
    with_workspace = {(row["name"], row["dtype"]) for row in rows}

    def has_better(row: Row) -> bool:
        name = row["name"].removesuffix(", no workspace")
        return name != row["name"] and (name, row["dtype"]) in with_workspace

    return [row for row in rows if not has_better(row)]


def by_family(rows: Sequence[Row]) -> str:
    """A row per family over f32 and bf16; problems that take a workspace count with it."""
    families: dict[str, dict[str, list[Row]]] = {}
    for row in best_paths(rows):
        families.setdefault(ops()[row["op"]].row.family, {}).setdefault(row["dtype"], []).append(row)
    lines = []
    for family, found in sorted(families.items()):
        cells = []
        for dtype in ("f32", "bf16"):
            large = [row for row in found.get(dtype, ()) if row["bytes"] >= LARGE]
            shares = [row["of_copy"] for row in large]
            ratios = [row["times_peer"] for row in found.get(dtype, ()) if row["times_peer"]]
            cells += [number(statistics.median(shares)) if shares else "", *(spread(ratios))]
        if any(cells):
            lines.append([family, str(max(map(len, found.values()))), *cells])
    head = [
        "",
        "problems",
        *(f"{dtype}: {x}" for dtype in ("f32", "bf16") for x in ("of copy", "x PyTorch: worst", "median")),
    ]
    return table(head, lines)


def host(calls: Sequence[Row]) -> str:
    shares = {call["call"]: number(call["share_of_torch"]) for call in calls if call["share_of_torch"]}
    if not shares:
        return ""
    return (
        f"On 16 elements `plan.run` takes the host {shares['plan.run']} and a bound launch {shares['bound launch']} of "
        "what `torch.add(a, b, out=c)` does; the kernel launch itself is nearly all of it."
    )


def functions(rows: Sequence[Row]) -> str:
    """Host time of functions, a column per framework."""
    if not rows:
        return ""
    kinds = list(dict.fromkeys(row["arrays"] for row in rows))
    found = {(row["call"], row["arrays"]): row for row in rows}
    lines = []
    for call in dict.fromkeys(row["call"] for row in rows):
        cells = [call if " " in call and "(" not in call else f"`{call}`"]
        for kind in kinds:
            row = found.get((call, kind))
            cells += [number(row["us"]) if row else "", number(row["own_us"]) if row else ""]
        lines.append(cells)
    head = ["", *(text for kind in kinds for text in (f"{ARRAYS[kind]} arrays", "its own"))]
    text = (
        "Host time of a call in microseconds, on 16 elements where nothing else is said, results allocated by the "
        "framework of the arrays, beside what its own function takes:"
    )
    return f"{text}\n\n{table(head, lines)}"


def cpu_report(facts: dict[str, Any], rows: Sequence[Row], *, behind: bool) -> str:
    """The number of problems that reach 0.95 of the peer, and those that do not."""
    rows = [row for row in rows if row["times_peer"]]
    slower = sorted((row for row in rows if row["times_peer"] < NEAR), key=lambda row: row["times_peer"])
    most = max(row["times_peer"] for row in rows)
    threads = "1 thread" if facts["threads"] == 1 else f"{facts['threads']} threads"
    text = (
        f"The CPU library, {threads} of {facts['device']}, against the faster of PyTorch "
        f"{facts['torch']} and NumPy {facts['numpy']} on the same threads: level or faster (up to {most:.0f} x) on "
        f"{len(rows) - len(slower)} of {len(rows)} problems"
    )
    if behind and slower:
        text += "; behind: " + ", ".join(f"{row['name']} {row['dtype']} {number(row['times_peer'])}" for row in slower)
    elif slower:
        text += f", at worst {number(slower[0]['times_peer'])} x"
    return text + "."


def number(value: float | None) -> str:
    return f"{value:.2f}" if value else ""


def table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *lines))


def wrapped(text: str) -> str:
    """Wraps text at 120 characters, except tables."""
    lines = text.split("\n")
    return "\n".join(line if line.startswith("|") else textwrap.fill(line, 120) for line in lines)


def replace(path: pathlib.Path, text: str) -> None:
    before, rest = path.read_text().split(BEGIN)
    _, after = rest.split(END)
    path.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.bench.markdown", description=__doc__)
    parser.add_argument("results", nargs="+", type=pathlib.Path, metavar="RESULT", help="JSON files of tools.bench")
    parser.add_argument("--write", action="store_true", help="write to the two pages instead of printing")
    options = parser.parse_args()
    results = [json.loads(path.read_text()) for path in options.results]
    short, full = (wrapped("\n\n".join(map(form, results))) for form in (summary, report))
    if options.write:
        replace(SHORT, short)
        FULL.write_text(f"{HEAD}\n\n{full}\n")
    else:
        print(short, full, sep="\n\n")


if __name__ == "__main__":
    main()
