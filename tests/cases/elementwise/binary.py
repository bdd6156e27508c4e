# SPDX-License-Identifier: Apache-2.0
"""Functions of two floats: binary_add to binary_remainder, and binary_ldexp, whose second operand is an integer."""

import numpy as np

from tools.oracle import BINARY

from ..model import Case, Expected
from .common import (
    flat_calls,
    flat_maker,
    flat_problems,
    strided_calls,
    strided_maker,
    strided_problems,
)

ROW, LDEXP = "binary_{F}_{T}", "binary_ldexp_{T}"


def tied(make):
    """Makes every fourth element of b equal to that of a."""

    def made(draw, *args, **given):
        problem = make(draw, *args, **given)
        a, b = problem.arrays["a"], problem.arrays["b"]
        values = np.where(draw.rng.random(a.shape) < 0.25, a.values, b.values)
        problem.arrays["b"] = draw.array(values, b.dtype, b.strides)
        return problem

    return made


def is_power(draw):
    return draw.function in BINARY and BINARY[draw.function].base


def fill(draw, param, shape, kind, strides):
    """Bases of powers are positive and exponents of ldexp small, unless the problem is about special values."""
    if kind == "normal" and is_power(draw) and param.name == "a":
        values = draw.floats(shape, kind, strides)
        values.values = np.abs(values.values)
        return values
    if kind == "wide" and is_power(draw) and param.name == "dy":
        # a power beyond the range of the compute type times 0 would be NaN
        values = draw.floats(shape, kind, strides)
        values.values = np.where(values.values == 0, 1.0, values.values)
        return values
    if kind == "normal" and param.dtype == "i32":
        return draw.array(draw.rng.integers(-20, 20, shape, endpoint=True), "i32", strides)
    return None


def reference(problem):
    a, b = problem.arrays["a"], problem.arrays["b"]
    function = problem.function or "ldexp"
    with np.errstate(all="ignore"):
        return {"y": Expected(BINARY[function].forward(a.values, b.values, a.dtype), op=f"binary_{function}")}


def cases(row, functions):
    strided = f"{row}_strided"
    yield Case(
        row=row, problems=flat_problems(functions(flat_maker(row, fill))), reference=reference,
        tolerance={"y": "ulp"}, **flat_calls(row),
    )  # fmt: skip
    make = functions(strided_maker(strided, fill))
    yield Case(
        row=strided, problems=strided_problems(make, ("a", "b"), ("y",)), reference=reference,
        tolerance={"y": "ulp"}, **strided_calls(strided),
    )  # fmt: skip


CASES = (*cases(ROW, tied), *cases(LDEXP, lambda make: make))
