"""Repeated launches give the same bits wherever the op table says deterministic, whatever lies in memory."""

import pytest

import tolerances
from cases import CASES, Draw
from harness import FINITE_POISON, NAN_POISON, OPS, ROWS, claims_determinism, launch, workspace_size

REPEATS = 6


def variants():
    made = []
    for op, (row, slots) in OPS.items():
        for workspace in (None, "full") if row.workspace else (None,):
            mark = f"{op}-workspace" if workspace else op
            made.append(pytest.param(op, CASES[row.name], slots, workspace, id=mark))
    return made


@pytest.mark.parametrize(("op", "case", "slots", "workspace"), variants())
def test_same_bits(library, op, case, slots, workspace):
    if not claims_determinism(library, op, workspace):
        workspace = "full"  # the promise that the row makes instead
    assert claims_determinism(library, op, workspace)
    problem = case.problems[case.large](Draw(slots, case.large))
    first = launch(library, op, problem, workspace=workspace)
    for k in range(1, REPEATS):
        poison = (NAN_POISON, FINITE_POISON)[k % 2]
        again = launch(library, op, problem, workspace=workspace, poison=poison, workspace_offset=5 * k)
        assert again.status == 0, again.text
        for name, bits in again.bits.items():
            tolerances.check_bits(f"{op}: {name}, launch {k}", bits, first.bits[name], first.dtypes[name])


@pytest.mark.parametrize("op", [op for op, (row, _) in OPS.items() if row.workspace])
def test_workspace_size_depends_on_the_problem_alone(library, op):
    """Asked in any order, between launches, it is the same; for every problem that the op computes."""
    row, slots = OPS[op]
    case = CASES[row.name]
    problems = {name: make(Draw(slots, name)) for name, make in case.problems.items()}
    sizes = {name: workspace_size(library, op, problem) for name, problem in problems.items()}
    launch(library, op, problems[case.large], workspace="full")
    assert {name: workspace_size(library, op, problems[name]) for name in reversed(sizes)} == sizes


def test_every_row_makes_a_promise():
    """A row that is deterministic with a workspace only has one; no row is never deterministic."""
    for row in ROWS.values():
        assert row.deterministic in ("yes", "workspace")
        assert row.deterministic == "yes" or row.workspace
