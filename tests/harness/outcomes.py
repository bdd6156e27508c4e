# SPDX-License-Identifier: Apache-2.0
"""Compares the results of a launch with the reference of its case."""

import tolerances


def check_outcome(library, case, op, problem, outcome, workspace, expected=None):
    assert outcome.status == 0, outcome.text
    expected = case.reference(problem) if expected is None else expected
    assert set(expected) == set(outcome.bits), "the reference and the op disagree about what is written"
    for name, want in expected.items():
        tolerance = case.tolerance_of(name, workspace is not None)
        tolerances.check(f"{op}: {name}", outcome.values(name), outcome.dtypes[name], want, tolerance)
