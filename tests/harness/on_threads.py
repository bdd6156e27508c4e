# SPDX-License-Identifier: Apache-2.0
"""Runs a problem on the CPU library with several numbers of threads, with and without a workspace."""

import itertools

import tolerances
from cases import CASES, Draw

from . import OPS, launch, workspaces
from .outcomes import check_outcome

THREADS = (1, 2, 3)


def check_on_threads(library, set_threads, op, make, *arguments, **options):
    """Asserts right and equal results for any number of threads. make(draw, *arguments, **options) is the problem."""
    row, slots = OPS[op]
    case = CASES[row.name]
    problem = make(Draw(slots, f"{op} {arguments}"), *arguments, **options)
    expected = case.reference(problem)
    found = {}
    for threads, workspace in itertools.product(THREADS, workspaces(library, op, problem)):
        set_threads(threads)
        outcome = launch(library, op, problem, workspace=workspace)
        check_outcome(library, case, op, problem, outcome, workspace, expected)
        first = found.setdefault(workspace, outcome)
        for name, bits in first.bits.items():
            tolerances.check_bits(f"{op}: {name}, {threads} threads", outcome.bits[name], bits, first.dtypes[name])
