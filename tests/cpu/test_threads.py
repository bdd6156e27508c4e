# SPDX-License-Identifier: Apache-2.0
"""The CPU library with any number of OpenMP threads: results are right and bitwise equal."""

import itertools

import tolerances
from cases import CASES, Draw
from harness import OPS, SANITIZED, launch, workspaces
from harness.outcomes import check_outcome
from naming import each_row

THREADS = (3,) if SANITIZED else (1, 2, 3, 8)  # under a sanitizer one number of threads is enough
PROBLEMS = {  # problems whose work is divided by size or by content
    "segment": ("many_tiny", "long_segment"),
    "embedding": ("many_bags", "hot_row"),
    "attention": ("heads", "batch"),
}


def full_ops():
    """Full instances alone, since the code around a function divides the work, not the function."""
    return [op for op, (row, slots) in OPS.items() if CASES[row.name].is_full(slots)]


def test_problems_are_those_of_cases():
    for family, names in PROBLEMS.items():
        of_family = set().union(*(CASES[row.name].problems for row, _ in OPS.values() if row.family == family))
        assert of_family.issuperset(names), family


@each_row(full_ops())
def test_threads(library, set_threads, op):
    row, slots = OPS[op]
    case = CASES[row.name]
    for name in (case.large, *(name for name in PROBLEMS.get(row.family, ()) if name in case.problems)):
        problem = case.problems[name](Draw(slots, name))
        expected = case.reference(problem)
        for threads, workspace in itertools.product(THREADS, workspaces(library, op, problem)):
            set_threads(threads)
            first, again = (launch(library, op, problem, workspace=workspace) for _ in range(2))
            check_outcome(library, case, op, problem, first, workspace, expected)
            for output, bits in first.bits.items():
                label = f"{op}: {output}, {threads} threads"
                tolerances.check_bits(label, again.bits[output], bits, first.dtypes[output])
