# SPDX-License-Identifier: Apache-2.0
"""Output of a run: a table and JSON."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterable, Sequence
from typing import Any

_MET = {True: "yes", False: "NO", None: "-"}


def render(rows: Sequence[dict[str, Any]]) -> str:
    """The table; times in microseconds."""
    compiled = any(row.get("times_compiled") for row in rows)
    head = ["problem", "dtype", "p20", "median", "p80", "peer", "peer us", "x peer"]
    head += [*(["x compiled"] if compiled else []), "of copy", "bound", "met"]
    body = []
    for row in rows:
        ours, peer = row["ours_us"], row["peer_us"]
        cells = [row["name"], row["dtype"]]
        cells += [f"{v:.1f}" for v in (ours["p20"], ours["median"], ours["p80"])] if ours else ["FAILED", "-", "-"]
        cells += [row["peer"] or "-", f"{peer['median']:.1f}" if peer else "-", _number(row["times_peer"])]
        cells += [_number(row.get("times_compiled"))] if compiled else []
        cells += [_number(row["of_copy"]), ", ".join(map(_bound, row["bounds"])) or "-", _MET[row["met"]]]
        body.append(cells)
    return table(head, body)


def _bound(bound: dict[str, Any]) -> str:
    value = f"{bound['value']:g}"
    kinds = {"copy": f"{value} of copy", "peer": f"{value} x peer", "times": f"{value} x the time of {bound['other']}"}
    return kinds[bound["kind"]]


def render_host(rows: Sequence[dict[str, Any]]) -> str:
    body = [
        [row["call"], f"{row['ns']:.0f}", _number(row["share_of_torch"]), _number(row["bound"]), _MET[row["met"]]]
        for row in rows
    ]
    return table(["16 elements", "ns a call", "of torch", "below", "met"], body)


def table(head: Sequence[str], body: Iterable[Sequence[str]]) -> str:
    lines = [list(head), *map(list, body)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
    lines.insert(1, ["-" * width for width in widths])
    words = {"problem", "dtype", "peer", "bound", "16 elements"}
    return "\n".join(
        "  ".join(c.ljust(w) if h in words else c.rjust(w) for h, c, w in zip(head, line, widths)).rstrip()
        for line in lines
    )


def write_json(path: str, document: dict[str, Any]) -> None:
    target = pathlib.Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f"{target.name}.part")  # readers never see an incomplete file
    part.write_text(json_text(document))
    part.replace(target)


def json_text(document: dict[str, Any]) -> str:
    """JSON with a line per problem, so that a diff shows which problems changed."""
    entries = []
    for key, value in document.items():
        if isinstance(value, list) and value and isinstance(value[0], dict):
            text = "[\n" + ",\n".join(f"  {json.dumps(_rounded(row))}" for row in value) + "\n ]"
        else:
            text = json.dumps(value)
        entries.append(f" {json.dumps(key)}: {text}")
    return "{\n" + ",\n".join(entries) + "\n}\n"


def _rounded(value: Any) -> Any:
    """Floats to six significant digits: a measurement has no more."""
    if isinstance(value, dict):
        return {key: _rounded(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_rounded(each) for each in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
