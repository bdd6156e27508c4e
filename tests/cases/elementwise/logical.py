# SPDX-License-Identifier: Apache-2.0
"""Functions of two bools; every byte but 0 is True."""

import numpy as np

from tools.oracle import TRUTH

from ..model import Case, Expected
from .common import flat_calls, flat_maker, flat_problems, strided_calls, strided_maker, strided_problems

ROW, STRIDED = "binary_{F}_{T} bool", "binary_{F}_{T}_strided bool"


def reference(problem):
    a, b = (problem.arrays[name].values != 0 for name in ("a", "b"))
    return {"y": Expected(TRUTH[problem.function].holds(a, b).astype(np.int64))}


CASES = (
    Case(
        row=ROW, problems=flat_problems(flat_maker(ROW)), reference=reference, tolerance={"y": "exact"},
 **flat_calls(ROW),
    ),
    Case(
        row=STRIDED, problems=strided_problems(strided_maker(STRIDED), ("a", "b"), ("y",)), reference=reference,
        tolerance={"y": "exact"}, **strided_calls(STRIDED),
    ),
)  # fmt: skip
