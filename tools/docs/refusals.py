# SPDX-License-Identifier: Apache-2.0
"""Errors of a group's C functions, from the failing calls of the tests."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

from tools.docs.groups import Group

STATUS = {
    1: "1, misaligned", 2: "2, invalid problem", 3: "3, unsupported", 4: "4, workspace too small", 5: "5, internal",
}  # fmt: skip


def refusals(group: Group, library: Any) -> list[tuple[str, str]]:
    """(status, text) of failing calls, without addresses; one of those whose texts differ only in numbers. The first
    dtype of a row represents all.
    """
    from cases import CASES, Draw
    from harness import itemsize, launch, workspace_size

    found: dict[str, tuple[str, str]] = {}
    for row, _ in group.members:
        case = CASES[row.name]
        op, slots = next((op, slots) for op, (of, slots) in group.ops.items() if of is row)
        for bad in case.bad:
            name = bad.of or case.plain
            base = case.problems[name](Draw(slots, name))
            problem = dataclasses.replace(
                base, scalars=base.scalars | bad.scalars, host=base.host | bad.host, null=bad.null
            )
            if any(count % itemsize(problem.arrays[array].dtype) == 0 for array, count in bad.shift.items()):
                continue  # still aligned
            short = max(0, workspace_size(library, op, problem) - 1) if bad.short else None
            outcome = launch(library, op, problem, shift=bad.shift, alias=bad.alias, workspace=short)
            if outcome.status:
                text = re.sub(r"0x[0-9a-f]+", "0x...", outcome.text.partition(": ")[2])
                found.setdefault(re.sub(r"\d+", "", text).replace("-", ""), (STATUS[outcome.status], text))
    return list(found.values())
