# SPDX-License-Identifier: Apache-2.0
"""Measures the error of every elementwise function against its true value, and of other ops; see `--help`."""

from __future__ import annotations

import argparse
import math
import os
import sys
import time
from typing import Any

import baracuda as bk
from tools.accuracy import device, host, ops, report
from tools.accuracy.functions import DTYPES, Function, functions
from tools.accuracy.library import has
from tools.environment import environment, import_torch


def main() -> int:
    options = parse()
    if options.action == "table":
        report.write_readme()
        return 0
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    library = bk.load(backend=options.backend) if options.backend else bk.default_library()
    torch = None if options.no_torch else import_torch(library.backend)
    dtypes = options.dtypes.split(",")
    start = time.perf_counter()
    if options.action == "ops":
        rows = ops.measure(library, torch, options.only, dtypes, options.families)
        finish(options, report.ops_lines(rows), rows, environment(library, torch), start)
        return 1 if any(row["wrong"] for row in rows) else 0
    wanted = list(functions(options.only))
    rows = []
    exhaustive: list[Function] = []
    if library.backend == "cuda" and torch is not None and "f32" in dtypes:
        exhaustive = [f for f in wanted if f.kind != "binary" and has(library, f.op("f32"))]
        found = device.measure(library, torch, exhaustive, 0 if options.quick else options.limit)
        rows += [report.row(f, "f32", every, *pair) for f, (*pair, every) in found.items()]
        say(f"f32 on the device: {time.perf_counter() - start:.0f} s")
    for f in wanted:
        for dtype in dtypes:
            if dtype == "f32" and f in exhaustive:
                continue
            if f.kind == "binary" and dtype not in ("f32", "f16", "bf16"):
                continue  # the reference has too few digits
            if not has(library, f.op(dtype)):
                say(f"the library lacks {f.op(dtype)}")
                continue
            every = f.kind != "binary" and dtype in ("f16", "bf16")
            rows.append(report.row(f, dtype, every, *host.measure(library, torch, f, dtype, options.quick)))
    order = {f.label + f.kind: i for i, f in enumerate(wanted)}
    rows.sort(key=lambda r: (order[r["function"] + r["kind"]], DTYPES.index(r["dtype"])))
    finish(options, report.lines(rows), rows, environment(library, torch) | {"quick": options.quick}, start)
    return 0


def finish(options: argparse.Namespace, lines: str, rows: list[Any], facts: dict[str, Any], start: float) -> None:
    facts["seconds"] = round(time.perf_counter() - start, 1)
    if options.json:
        report.write_json(options.json, {"environment": facts, "rows": rows})
    say(lines)
    say(f"{len(rows)} rows of {facts['backend']}, {facts['device']}, in {facts['seconds']:.0f} s")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.accuracy", description=__doc__)
    parser.add_argument("action", nargs="?", choices=("run", "ops", "table"), default="run",
                        help="run: functions; ops: problems of tools.bench; table: write the README")  # fmt: skip
    parser.add_argument("--backend", choices=("cpu", "cuda"), help="default: the backend of the library that is found")
    parser.add_argument("--quick", action="store_true", help="f32 on the GPU: one value of 64; smaller samples")
    parser.add_argument(
        "--limit", type=float, default=math.inf, metavar="S", help="f32 on a GPU: as --quick after S seconds"
    )
    parser.add_argument("--json", metavar="FILE", help="also write the results to FILE")
    parser.add_argument("--only", default="", metavar="TEXT", help="only functions whose name contains TEXT")
    parser.add_argument("--families", nargs="+", default=(), metavar="FAMILY", help="only ops of these families")
    parser.add_argument("--dtypes", default=",".join(DTYPES), help=f"default: {','.join(DTYPES)}")
    parser.add_argument("--no-torch", action="store_true", help="do not use PyTorch")
    return parser.parse_args()


def say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main())
