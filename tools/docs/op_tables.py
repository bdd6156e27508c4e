# SPDX-License-Identifier: Apache-2.0
"""The page of the op tables: the names of all ops in C, by family, as in native/<family>/<table>.abi."""

from __future__ import annotations

import itertools
import re

from tools.docs import ROOT
from tools.docs.groups import TITLES, short, table_path

from abi_row import Row  # isort: skip
from abi_table import read_all  # isort: skip

HEAD = """# Op tables

`include/baracuda_kernels.h` declares and documents {functions:,} functions: {ops:,} ops, each with `_run`,
`_can_implement` and, where a workspace helps, `_workspace_size`. A symbol is `baracuda_kernels_`, the name of the op,
and one of these. `python -m baracuda ops` lists all of them, `python -m baracuda ops NAME` explains one.

In the names `{{F}}` is a function, `{{T}}` and `{{U}}` are dtypes, `{{I}}` is empty for i32 and `_i64idx` for i64
indices, and `{{O}}` is empty for i32 and `_i64off` for i64 offsets. A row marked "strided" has a second form,
`_strided`, for operands of any strides and up to 8 axes. Floats are f32, f64, f16 and bf16, integers i8 to i64 and u8
to u64; c32 is a complex number of two f32, c64 of two f64. Each table is also a choice of `FAMILIES` when a
[part of the library](../how-to/small-builds.md) is built.
"""
STRIDED = "_strided"


def op_tables() -> str:
    """The page."""
    rows = read_all()
    header = (ROOT / "include" / "baracuda_kernels.h").read_text()
    functions = len(re.findall(r"^BARACUDA_API ", header, flags=re.M))
    parts = [HEAD.format(functions=functions, ops=sum(len(list(row.instances())) for row in rows))]
    for family, of_family in itertools.groupby(sorted(rows, key=lambda row: row.family), lambda row: row.family):
        parts.append(f"## {TITLES.get(family, 'Elementwise')}\n")
        lines = ["| table | op | dtypes | |", "| --- | --- | --- | --- |"]
        for table, found in itertools.groupby(of_family, lambda row: row.table):
            lines += table_lines(table, list(found))
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)


def table_lines(table: str, rows: list[Row]) -> list[str]:
    """A row per name; the first one links to the table."""
    patterns = {row.pattern for row in rows}
    lines, label = [], f"[{table}](repo:{table_path(rows[0])})"
    for pattern, of in itertools.groupby(rows, lambda row: row.pattern):
        if pattern.endswith(STRIDED) and pattern.removesuffix(STRIDED) in patterns:
            continue
        members = list(of)
        dtypes = list(dict.fromkeys(dtype for row in members for dtype in row.slots.get("T", ())))
        count = len({function for row in members for function in row.functions})
        notes = [f"{count} functions"] * (count > 1) + ["strided"] * (pattern + STRIDED in patterns)
        lines.append(f"| {label} | `{pattern}` | {short(dtypes)} | {', '.join(notes)} |")
        label = ""
    return lines
