# SPDX-License-Identifier: Apache-2.0
"""Functions of two integers: arithmetic, extrema, bitwise functions and shifts."""

import numpy as np

from tools.oracle import BINARY
from tools.oracle.numerics import LIMITS, width

from ..model import Case, Expected
from .binary import tied
from .common import flat_calls, flat_maker, flat_problems, strided_calls, strided_maker, strided_problems

ROW, STRIDED = "binary_{F}_{T} integers", "binary_{F}_{T}_strided integers"


def fill(draw, param, shape, kind, strides):
    """Shift counts are about as large as the dtype is wide, unless the problem is about special values."""
    if kind == "normal" and "shift" in draw.function and param.name == "b":
        low, whole = max(-2, LIMITS[draw.dtype][0]), np.uint64 if draw.dtype == "u64" else np.int64
        return draw.array(draw.rng.integers(low, width(draw.dtype) + 2, shape, whole, endpoint=True), "", strides)
    return None


def reference(problem):
    a, b = problem.arrays["a"], problem.arrays["b"]
    return {"y": Expected(BINARY[problem.function].of_integers(a.values, b.values, a.dtype))}


CASES = (
    Case(
        row=ROW, problems=flat_problems(tied(flat_maker(ROW, fill))), reference=reference, tolerance={"y": "exact"},
 **flat_calls(ROW),
    ),
    Case(
        row=STRIDED, problems=strided_problems(tied(strided_maker(STRIDED, fill)), ("a", "b"), ("y",)),
        reference=reference, tolerance={"y": "exact"}, **strided_calls(STRIDED),
    ),
)  # fmt: skip
