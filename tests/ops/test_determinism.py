# SPDX-License-Identifier: Apache-2.0
"""Repeated launches give the same bits wherever the op table says deterministic, whatever memory contains."""

import tolerances
from cases import CASES, Draw
from harness import FINITE_POISON, NAN_POISON, OPS, ROWS, claims_determinism, launch, workspaces
from naming import each_row

REPEATS = 6


@each_row(OPS)
def test_same_bits(library, op):
    row, slots = OPS[op]
    case = CASES[row.name]
    name = case.large_of(slots)
    problem = case.problems[name](Draw(slots, name))
    for workspace in workspaces(library, op, problem):
        if not claims_determinism(library, op, workspace):
            continue  # it is with a workspace, which the next assertion requires
        first = launch(library, op, problem, workspace=workspace)
        for k in range(1, REPEATS):
            poison = (NAN_POISON, FINITE_POISON)[k % 2]
            again = launch(library, op, problem, workspace=workspace, poison=poison, workspace_offset=5 * k)
            assert again.status == 0, again.text
            for output, bits in again.bits.items():
                tolerances.check_bits(f"{op}: {output}, launch {k}", bits, first.bits[output], first.dtypes[output])
    assert claims_determinism(library, op, "full")


def test_every_row_makes_a_promise():
    """Every row is deterministic, if only with a workspace, which it then has."""
    for row in ROWS.values():
        assert row.deterministic in ("yes", "workspace")
        assert row.deterministic == "yes" or row.workspace
