"""Every row of the op tables against its float64 reference: case x dtype x index x problem x layout x workspace."""

import pytest

import tolerances
from cases import CASES, Draw
from harness import FINITE_POISON, NAN_POISON, OPS, ROWS, claims_determinism, launch

# Element offsets of the arrays from a 256-byte boundary: aligned, all misaligned for vectors, each differently.
OFFSETS = {"aligned": 0, "offset": 1, "mixed": lambda k: (k * k) % 7}


def workspaces(row):
    return (None, "full") if ROWS[row].workspace else (None,)


def variants():
    for row, case in CASES.items():
        for op, slots in ROWS[row].instances():
            for problem in case.problems:
                for workspace in workspaces(row):
                    mark = f"{op}-{problem}" + ("-workspace" if workspace else "")
                    yield pytest.param(case, op, slots, problem, workspace, id=mark)


def check_outcome(library, case, op, problem, outcome, workspace, expected=None):
    assert outcome.status == 0, outcome.text
    expected = case.reference(problem) if expected is None else expected
    assert set(expected) == set(outcome.bits), "the reference and the op disagree about what is written"
    for name, want in expected.items():
        tolerance = case.tolerance_of(name, workspace is not None)
        tolerances.check(f"{op}: {name}", outcome.values(name), outcome.dtypes[name], want, tolerance)


@pytest.mark.parametrize(("case", "op", "slots", "name", "workspace"), list(variants()))
def test_reference(library, case, op, slots, name, workspace):
    problem = case.problems[name](Draw(slots, name))
    expected = case.reference(problem)
    for layout, offset in OFFSETS.items():
        outcomes = [
            launch(library, op, problem, workspace=workspace, offset=offset, poison=poison, workspace_offset=at)
            for poison, at in ((NAN_POISON, 0), (FINITE_POISON, 1))
        ]
        for outcome in outcomes:
            check_outcome(library, case, op, problem, outcome, workspace, expected)
        if claims_determinism(library, op, workspace):
            for output, bits in outcomes[0].bits.items():
                label = f"{op}: {output}, {layout}, other garbage in the output and workspace"
                tolerances.check_bits(label, bits, outcomes[1].bits[output], outcomes[0].dtypes[output])


def aliased():
    for row, case in CASES.items():
        for op, slots in ROWS[row].instances():
            for output, source in case.aliases:
                for problem in (case.plain, case.large):
                    yield pytest.param(
                        case, op, slots, problem, output, source, id=f"{op}-{problem}-{output}_is_{source}"
                    )


@pytest.mark.parametrize(("case", "op", "slots", "name", "output", "source"), list(aliased()))
def test_in_place(library, case, op, slots, name, output, source):
    """An output may be an input of equal strides where the row says so, with the bits of a call on separate arrays.

    Sums may take another order where alignments differ, as they do between the two calls in the mixed layout.
    """
    problem = case.problems[name](Draw(slots, name))
    if strides := problem.host.get(f"stride_{output}"):
        problem.host[f"stride_{source}"] = strides
        problem.arrays[source].strides = strides
    for layout, offset in OFFSETS.items():
        apart = launch(library, op, problem, offset=offset)
        outcome = launch(library, op, problem, alias={output: source}, offset=offset)
        for each in (apart, outcome):
            check_outcome(library, case, op, problem, each, None)
        if layout != "mixed":
            for out, bits in apart.bits.items():
                tolerances.check_bits(f"{op}: {out}", outcome.bits[out], bits, apart.dtypes[out])


def test_the_table_is_covered():
    assert set(CASES) == set(ROWS)
    assert {op for row in CASES for op, _ in ROWS[row].instances()} == set(OPS)
