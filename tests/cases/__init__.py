# SPDX-License-Identifier: Apache-2.0
"""The case table: one Case a row of the op tables, of the modules here and in subfolders that have CASES. model.py
explains fields."""

import dataclasses
import importlib
import pkgutil

from baracuda._library.op_table import rows

from .model import Array, Bad, Case, Draw, Expected, Idle, Problem, strides_for
from .signs import never_negative

MODULES = [importlib.import_module(module.name) for module in pkgutil.walk_packages(__path__, f"{__name__}.")]
BYTES = {"fp8e4m3", "fp8e5m2", "i8", "u8", "bool"}  # which no address misaligns
# Families whose calls with a misaligned pointer, a NULL for a required one or a negative extent follow from their rows.
FOLLOWING = (
    *("conv", "fft", "image", "linalg", "moe", "pool", "quantize", "recurrent", "sampling", "search", "sort", "ssm"),
    "topk",
)
FOLLOWING_ROWS = ("quantized_linear", "matmul_integer", "qlinear_matmul")


def completed(case: Case) -> Case:
    """The case with the bad calls that follow from its row and that it does not make itself."""
    row = next(row for row in rows() if row.name == case.row)
    if row.family not in FOLLOWING and not row.name.startswith(FOLLOWING_ROWS):
        return case
    shifts, nulls = {a for b in case.bad for a in b.shift}, {a for b in case.bad for a in b.null}
    negative = {a for b in case.bad for a, value in b.scalars.items() if value < 0}
    more = [
        Bad(f"misaligned_{p.name}", 1, rf"{p.name} is 0x", shift={p.name: 1})
        for p in row.pointers
        if p.name not in shifts and not BYTES.issuperset(row.slots.get(p.dtype, (p.dtype,)))
    ]
    more += [
        Bad(f"no_{p.name}", 2, rf"{p.name} is NULL", null=(p.name,))
        for p in row.pointers
        if p.is_required and p.name not in nulls
    ]
    more += [
        Bad(f"below_{p.name}", status, rf"{p.name} is -1", {p.name: -1}, can=status)
        for p in row.problem
        for status in (3 if p.name == "format" else 2,)  # a format is known or not supported
        if never_negative(row, p) and p.name not in negative
    ]
    ranks = [p.name for p in row.problem if p.role == "rank" and any(q.direction == "host" for q in row.problem)]
    more += [
        Bad("rank_0", 2, rf"{name} is 0", {name: 0}, can=2)
        for name in ranks
        if not any(p.role == "axis" for p in row.problem) and "rank0" not in case.problems
    ]
    more += [
        Bad(f"no_{p.name}", 2, rf"{p.name} is NULL", host={p.name: None}, can=2)
        for p in row.problem
        if p.direction == "host" and not any(p.name in b.host and b.host[p.name] is None for b in case.bad)
    ]
    return dataclasses.replace(case, bad=(*case.bad, *more))


CASES: dict[str, Case] = {
    case.row: completed(case) for module in MODULES for case in getattr(module, "CASES", ())
}  # fmt: skip

__all__ = [
    "CASES", "Array", "Bad", "Case", "Draw", "Expected", "Idle", "Problem",
    "strides_for",
]  # fmt: skip
