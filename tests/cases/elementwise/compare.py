# SPDX-License-Identifier: Apache-2.0
"""Comparisons of floats, integers and bools."""

import numpy as np

from tools.oracle import TRUTH

from ..model import Case, Expected
from .binary import tied
from .common import flat_calls, flat_maker, flat_problems, strided_calls, strided_maker, strided_problems

ROW, STRIDED = "binary_cmp_{F}_{T}", "binary_cmp_{F}_{T}_strided"


def compare(function, a, b, dtype):
    """Any byte but 0 is True as a bool."""
    a, b = ((x != 0) if dtype == "bool" else x for x in (a, b))
    return TRUTH[function].holds(a, b).astype(np.int64)


def reference(problem):
    a, b = problem.arrays["a"], problem.arrays["b"]
    return {"y": Expected(compare(problem.function, a.values, b.values, a.dtype))}


CASES = (
    Case(
        row=ROW, problems=flat_problems(tied(flat_maker(ROW))), reference=reference, tolerance={"y": "exact"},
        **flat_calls(ROW),
    ),
    Case(
        row=STRIDED, problems=strided_problems(tied(strided_maker(STRIDED)), ("a", "b"), ("y",)), reference=reference,
        tolerance={"y": "exact"}, **strided_calls(STRIDED),
    ),
)  # fmt: skip
