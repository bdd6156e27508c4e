# SPDX-License-Identifier: Apache-2.0
"""Ops that are deterministic only with a workspace, and the cost: from the op tables and the measured times."""

from __future__ import annotations

from typing import Any

from baracuda._library.op_table import Row, ops, rows
from tools.docs.measurements import BENCH, SPEED_FILES, machine, result, table

ENDING = " deterministic"  # suffix of problems with the workspace that makes them deterministic
MARK = "{{ determinism }}"
HEAD = ("op", "default path", "deterministic path", "its time, of the default's")
DEFAULT = "in the order in which threads come"


def determinism() -> str:
    """Table of the rows whose results may differ between launches, and the source of the times."""
    facts = result(BENCH / SPEED_FILES[0])
    found = costs(facts["rows"])
    lines = [
        (f"`{row.pattern}`", DEFAULT, path(row), found.get(row.pattern, "not measured"))
        for row in rows()
        if row.deterministic != "yes"
    ]
    return (
        f"Ops that are not named here give the same bits on every launch. Times are those of "
        f"{machine(facts['environment'])}; below 1 the deterministic path is the faster one.\n\n{table(HEAD, lines)}"
    )


def path(row: Row) -> str:
    """The path of a plan that requires determinism."""
    text = row.workspace.partition(": ")[2].removeprefix("deterministic, and ").removeprefix("deterministic, ")
    return f"with a workspace; {text}" if row.deterministic == "workspace" else "none"


def costs(measured: list[dict[str, Any]]) -> dict[str, str]:
    """Pattern of a row -> ratios of the times, by dtype, of problems that were measured both ways."""
    known = ops()
    default = {(each["name"], each["dtype"]): each for each in measured}
    found: dict[str, dict[str, list[str]]] = {}
    for each in measured:
        other = default.get((each["name"].removesuffix(ENDING), each["dtype"]))
        if not each["name"].endswith(ENDING) or other is None or each["op"] not in known:
            continue
        ratio = each["ours_us"]["median"] / other["ours_us"]["median"]
        pattern = known[each["op"]].row.pattern
        name = other["name"].removeprefix(pattern.partition("{")[0].rstrip("_")).strip() or "uniform"
        found.setdefault(pattern, {}).setdefault(name, []).append(f"{each['dtype']} {ratio:.2f}")
    return {
        pattern: "; ".join(f"{name}: {', '.join(ratios)}" for name, ratios in of.items())
        for pattern, of in found.items()
    }
