# SPDX-License-Identifier: Apache-2.0
"""Functions of three operands, clamp, fma, addcmul and addcdiv, and their gradients."""

import numpy as np

from tools.oracle import TERNARY
from tools.oracle.numerics import is_float
from tools.oracle.reals import Wide

from ..model import Case, Expected
from .binary import tied
from .binary_backward import expected_gradients, nulls
from .common import (
    flat_calls,
    flat_maker,
    flat_problems,
    gradient_problems,
    strided_calls,
    strided_maker,
    strided_problems,
)

INPUTS, GRADIENTS = ("a", "b", "c"), ("da", "db", "dc")
SCALES = (1.0, -2.5, 0.1)


def scale_of(problem, wide):
    """The scale in the arithmetic's precision: rounded to f32 where the parameter or the dtype has no more."""
    scale = problem.scalars["scale"]
    return Wide(scale if wide and problem.arrays["a"].dtype == "f64" else np.float32(scale))


def operands(problem):
    return (problem.arrays[name].values for name in INPUTS)


def reference(problem):
    a, b, c = operands(problem)
    dtype = problem.arrays["a"].dtype
    if not is_float(dtype):
        return {"y": Expected(np.minimum(np.maximum(a, b), c))}
    with np.errstate(all="ignore"):
        value = TERNARY[problem.function].forward(a, b, c, dtype)
        return {"y": Expected(value, op=f"ternary_{problem.function}")}


def scaled_reference(wide):
    def reference(problem):
        scale, dtype = scale_of(problem, wide), problem.arrays["a"].dtype
        with np.errstate(all="ignore"):
            total = TERNARY[problem.function].forward(*operands(problem), dtype, scale)
            return {"y": Expected(total.value, 2, np.where(total.beyond, np.inf, np.abs(total.term)))}

    return reference


def backward_reference(problem):
    dy, dtype = problem.arrays["dy"].values, problem.arrays["dy"].dtype
    with np.errstate(all="ignore"):
        partials = TERNARY[problem.function].backward(dy, *operands(problem), dtype)
        return expected_gradients(problem, dict(zip(GRADIENTS, partials)))


def scaled_backward_reference(wide):
    def reference(problem):
        dy, dtype = problem.arrays["dy"].values, problem.arrays["dy"].dtype
        with np.errstate(all="ignore"):
            scale = scale_of(problem, wide)
            partials = TERNARY[problem.function].backward(dy, *operands(problem), dtype, scale)
            return expected_gradients(problem, dict(zip(GRADIENTS, partials)))

    return reference


def scales(make, numel=131):
    return {f"scale{s}": lambda d, s=s: make(d, numel, scale=s) for s in (0.0, *SCALES, float("nan"))}


def some(slots):
    """The full instances of rows whose scale has another dtype."""
    return slots["F"] == "addcmul" and slots["T"] in ("f64", "bf16")


def calls(row, made):
    return made | ({"full": some} if "_param" in row else {})


def forward(row, reference, **scalars):
    strided, tolerance = row.replace("_{T}", "_{T}_strided"), {"y": "pointwise" if scalars else "ulp"}
    make = tied(flat_maker(row, **scalars))
    yield Case(
        row=row, problems=flat_problems(make) | (scales(make) if scalars else {}), reference=reference,
        tolerance=tolerance, **calls(row, flat_calls(row)),
    )  # fmt: skip
    make = tied(strided_maker(strided, **scalars))
    yield Case(
        row=strided, problems=strided_problems(make, INPUTS, ("y",)), reference=reference,
        tolerance=tolerance, **calls(row, strided_calls(strided)),
    )  # fmt: skip


def backward(row, reference, **scalars):
    strided = row.replace("_{T}", "_{T}_strided")
    make, tolerance = tied(flat_maker(row, **scalars)), dict.fromkeys(GRADIENTS, "pointwise")
    yield Case(
        row=row, problems=flat_problems(make) | nulls(make, GRADIENTS) | (scales(make) if scalars else {}),
        reference=reference, tolerance=tolerance, **calls(row, flat_calls(row)),
    )  # fmt: skip
    make = tied(strided_maker(strided, **scalars))
    problems = strided_problems(make, ("dy", *INPUTS), GRADIENTS) | gradient_problems(make, GRADIENTS)
    yield Case(
        row=strided, problems=problems, reference=reference, tolerance=tolerance,
        **calls(row, strided_calls(strided, brief=("mixed", "sum_each"))),
    )  # fmt: skip


CASES = (
    *forward("ternary_{F}_{T}", reference),
    *forward("ternary_clamp_{T} integers", reference),
    *forward("ternary_{F}_{T} scaled", scaled_reference(False), scale=0.3),
    *forward("ternary_{F}_param_{T} scaled", scaled_reference(True), scale=0.3),
    *backward("ternary_{F}_backward_{T}", backward_reference),
    *backward("ternary_{F}_backward_{T} scaled", scaled_backward_reference(False), scale=0.3),
    *backward("ternary_{F}_param_backward_{T} scaled", scaled_backward_reference(True), scale=0.3),
)
