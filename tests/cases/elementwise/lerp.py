# SPDX-License-Identifier: Apache-2.0
"""binary_lerp, binary_lerp_param and their gradients."""

import numpy as np

from ..model import Case, Expected
from .common import (
    SIZES,
    flat_calls,
    flat_maker,
    flat_problems,
    gradient_problems,
    gradients,
    strided_calls,
    strided_maker,
    strided_problems,
)

WEIGHTS = (0.3, 0.75, -2.0, 1.5)


def weight_of(problem, row):
    """The weight in the arithmetic's precision: rounded to f32 where the row or the dtype has no more."""
    p = problem.scalars["p"]
    wide = "_param" in row and next(iter(problem.arrays.values())).dtype == "f64"
    return p if wide else float(np.float32(p))


def interpolated(a, b, w):
    """Returns (a + w (b - a), its distance from the operand that it is computed from).

    For a weight of at least one half the step is taken from b, which matters at the end only: 1 - w is 0 there.
    """
    step = (w if w < 0.5 else 1 - w) * (b - a)
    return a + step if w < 0.5 else b - step, step


def lerp_partials(dy, w):
    return (1 - w) * dy, w * dy


def lerp_reference(row):
    def reference(problem):
        a, b = problem.arrays["a"].values, problem.arrays["b"].values
        with np.errstate(invalid="ignore", over="ignore"):
            value, step = interpolated(a, b, weight_of(problem, row))
        # the difference, 1 - w and the product are rounded before the sum is
        return {"y": Expected(value, 3, np.abs(step))}

    return reference


def lerp_backward_reference(row):
    def reference(problem):
        with np.errstate(invalid="ignore", over="ignore"):
            da, db = lerp_partials(problem.arrays["dy"].values, weight_of(problem, row))
        return gradients(problem, {"da": da, "db": db}, "lerp_backward")

    return reference


def flat_lerp_problems(make):
    problems = flat_problems(make)
    problems |= {f"n{n}": lambda d, n=n, p=p: make(d, n, p=p) for n, p in zip(SIZES, WEIGHTS * 3)}
    for p in (0.0, 1.0, 0.5, 0.25, 0.999, float("nan")):
        problems[f"p{p}"] = lambda d, p=p: make(d, 131, p=p)
    for p in (0.0, 0.3, 0.7, 1.0):
        problems[f"special_p{p}"] = lambda d, p=p: make(d, 500, "special", p=p)
    return problems


def cases(name):
    """The four rows of binary_lerp or binary_lerp_param."""
    y, backward = {"y": "pointwise"}, {"da": "ulp", "db": "ulp"}
    row, strided = f"{name}_{{T}}", f"{name}_{{T}}_strided"
    yield Case(
        row=row, problems=flat_lerp_problems(flat_maker(row, p=0.3)), reference=lerp_reference(row), tolerance=y,
 **flat_calls(row),
    )  # fmt: skip
    yield Case(
        row=strided, problems=strided_problems(strided_maker(strided, p=0.3), ("a", "b"), ("y",)),
        reference=lerp_reference(row), tolerance=y, **strided_calls(strided),
    )  # fmt: skip
    row, strided = f"{name}_backward_{{T}}", f"{name}_backward_{{T}}_strided"
    flat, nulls = flat_maker(row, p=0.3), {"null_da": ("da",), "null_db": ("db",), "null_all": ("da", "db")}
    yield Case(
        row=row, problems=flat_lerp_problems(flat) | {k: lambda d, n=n: flat(d, 33, null=n) for k, n in nulls.items()},
        reference=lerp_backward_reference(row), tolerance=backward,
        **flat_calls(row),
    )  # fmt: skip
    make = strided_maker(strided, p=0.3)
    yield Case(
        row=strided, problems=strided_problems(make, ("dy",), ("da", "db")) | gradient_problems(make, ("da", "db")),
        reference=lerp_backward_reference(row), tolerance=backward,
        **strided_calls(strided),
    )  # fmt: skip


CASES = (*cases("binary_lerp"), *cases("binary_lerp_param"))
