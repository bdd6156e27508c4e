# SPDX-License-Identifier: Apache-2.0
"""Every row of the op tables against its reference: case x instance x problem x layout x workspace, an item per op."""

import dataclasses

import numpy as np

import baracuda as bk
import tolerances
from cases import CASES, Draw
from harness import (
    FINITE_POISON,
    NAN_POISON,
    OPS,
    SANITIZED,
    can_implement,
    claims_determinism,
    launch,
    width,
    workspace_size,
    workspaces,
)
from harness.outcomes import check_outcome
from naming import Tries, each_row

# Element offsets of the arrays from a 256-byte boundary: aligned, all misaligned for vectors, each differently.
OFFSETS = {"aligned": 0, "offset": 1, "mixed": lambda k: (k * k) % 7}
# Garbage in outputs and workspaces, and the workspace's alignment.
NAN, FINITE = (NAN_POISON, 0), (FINITE_POISON, 1)
# The launches of a problem, and of one with long arrays, which test how work is divided: the garbage of each layout. A
# sanitizer sees accesses and not contents. Fibers take seconds for what takes a GPU microseconds: there each layout and
# each garbage occurs, and one layout twice, since fibers run the threads of every other launch in reverse.
LAUNCHES = LAUNCHES_OF_LONG = dict.fromkeys(OFFSETS, (NAN, FINITE))
ONE_LAUNCH = {"mixed": (NAN,)}
LONG = 20_000
ON_FIBERS = bk.default_library().build_info.get("device") == "fibers"
if SANITIZED:
    LAUNCHES, LAUNCHES_OF_LONG = dict.fromkeys(OFFSETS, (NAN,)), ONE_LAUNCH
elif ON_FIBERS:
    LAUNCHES = {"aligned": (NAN, FINITE), "offset": (NAN,), "mixed": (FINITE,)}
    LAUNCHES_OF_LONG = {"aligned": (NAN,), "mixed": (FINITE,)}


def launches_of(problem):
    return LAUNCHES_OF_LONG if problem.longest > LONG else LAUNCHES


def same(outcome, other):
    return (
        other is not None
        and outcome.status == other.status
        and all(np.array_equal(bits, other.bits.get(name)) for name, bits in outcome.bits.items())
    )


def check_problem(library, case, op, problem, workspace, expected, launches):
    """Each layout runs once or twice, with other garbage in memory."""
    seen = None
    for layout, garbage in launches.items():
        offset = OFFSETS[layout]
        outcomes = [
            launch(library, op, problem, workspace=workspace, offset=offset, poison=poison, workspace_offset=at)
            for poison, at in garbage
        ]
        for outcome in outcomes:
            if not same(outcome, seen):
                check_outcome(library, case, op, problem, outcome, workspace, expected)
                seen = outcome
        if claims_determinism(library, op, workspace):
            for output, bits in outcomes[0].bits.items():
                label = f"{op}: {output}, {layout}, other garbage in the output and workspace"
                tolerances.check_bits(label, bits, outcomes[-1].bits[output], outcomes[0].dtypes[output])


@each_row(OPS)
def test_reference(library, op, most_elements, one_launch):
    """run computes what can_implement accepts. The workspace size is the same whenever it is asked for."""
    row, slots = OPS[op]
    case = CASES[row.name]
    sizes = []
    with Tries() as tries:
        for name in case.names(slots):
            problem = case.problems[name](Draw(slots, name))
            if problem.longest > most_elements:
                continue
            expected = case.reference(problem)
            assert can_implement(library, op, problem) == (0, ""), name
            sizes.append((name, dataclasses.replace(problem, arrays={}), workspace_size(library, op, problem)))
            for workspace in workspaces(library, op, problem):
                with tries(f"{name}, workspace" if workspace else name):
                    launches = ONE_LAUNCH if one_launch else launches_of(problem)
                    check_problem(library, case, op, problem, workspace, expected, launches)
        for name, problem, size in reversed(sizes):
            with tries(f"{name}, asked again"):
                assert workspace_size(library, op, problem) == size


def check_in_place(library, case, op, problem, output, source, workspace=None):
    """The bits are those of a call on separate arrays.

    Sums may take another order where alignments differ, as they do between the two calls in the mixed layout.
    """
    if strides := problem.host.get(f"stride_{output}"):
        problem.host[f"stride_{source}"] = strides
        problem.arrays[source].strides = strides
    expected = case.reference(problem)
    for layout in launches_of(problem):
        offset = OFFSETS[layout]
        apart = launch(library, op, problem, workspace=workspace, offset=offset)
        outcome = launch(library, op, problem, workspace=workspace, alias={output: source}, offset=offset)
        check_outcome(library, case, op, problem, apart, workspace, expected)
        if not same(outcome, apart):
            check_outcome(library, case, op, problem, outcome, workspace, expected)
            if layout != "mixed":
                for out, bits in apart.bits.items():
                    tolerances.check_bits(f"{op}: {out}", outcome.bits[out], bits, apart.dtypes[out])


def in_halves(row):
    """Operands of two halves, whose aliases test_aliases.py tries."""
    return any(p.role == "offset" and p.of for p in row.params)


# Families whose rows may be longer than a block can cache, and are split where there is a workspace.
OF_ROWS = ("norm", "scan", "softmax", "sort")


def problems_in_place(library, op, case):
    """Pairs (name, workspace)."""
    row, slots = OPS[op]
    names = dict.fromkeys((case.plain, case.large_of(slots)))
    if row.family not in OF_ROWS and not row.workspace.startswith("needed: "):
        return [(name, None) for name in names]
    names |= dict.fromkeys(name for name in ("long", "longest") if name in case.problems)
    made = {name: case.problems[name](Draw(slots, name)) for name in names}
    return [(name, workspace) for name, each in made.items() for workspace in workspaces(library, op, each)]


@each_row([op for op, (row, _) in OPS.items() if row.in_place and not in_halves(row)])
def test_in_place(library, op, most_elements):
    """An output may alias an input of equal strides and element size where the row says so."""
    row, slots = OPS[op]
    case = CASES[row.name]
    with Tries() as tries:
        for name, workspace in problems_in_place(library, op, case):
            for output, source in [(out, x) for out, inputs in row.in_place.items() for x in inputs]:
                problem = case.problems[name](Draw(slots, name))
                if problem.longest > most_elements:
                    continue
                first, second = problem.arrays[output], problem.arrays[source]
                if (first.shape, width(first.dtype)) == (second.shape, width(second.dtype)):
                    with tries(f"{name}, {output} is {source}{', workspace' * (workspace is not None)}"):
                        check_in_place(library, case, op, problem, output, source, workspace)
