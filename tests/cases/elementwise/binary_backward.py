# SPDX-License-Identifier: Apache-2.0
"""Gradients of functions of two floats."""

import math

import numpy as np

from tolerances import summation
from tools.oracle import BINARY

from ..model import Case, Expected
from .binary import fill, tied
from .common import (
    flat_calls,
    flat_maker,
    flat_problems,
    gradient_problems,
    strided_calls,
    strided_maker,
    strided_problems,
)

ROW, LINEAR, LDEXP = "binary_{F}_backward_{T}", "binary_{F}_backward_{T} linear", "binary_ldexp_backward_{T}"


def expected_gradients(problem, partials):
    """The expected value of each gradient that is wanted, of class "pointwise"; summed over the axes where its strides
    are 0.

    partials  name -> oracle.pairs.Partial
    """
    expected = {}
    for name, (value, count, beyond) in partials.items():
        if name in problem.null:
            continue
        value = np.asarray(value)
        size = np.where(beyond, np.inf, np.abs(value))
        strides = problem.arrays[name].strides
        axes = tuple(d for d, s in enumerate(strides or ()) if s == 0 and value.shape[d] > 1)
        with np.errstate(invalid="ignore", over="ignore"):
            if axes:
                magnitude, errors = size.sum(axes, keepdims=True), ((count + 1) * size).sum(axes, keepdims=True)
                count = np.where(np.isfinite(errors) & (magnitude > 0), errors / magnitude, 1)
                count = count + summation(math.prod(value.shape[d] for d in axes))
                value = np.broadcast_to(value.sum(axes, keepdims=True), value.shape)
                size = np.broadcast_to(magnitude, value.shape)
            else:
                size = np.where(beyond | (np.asarray(count) > 0), size, 0)
                count = np.where(beyond, 1, count)
        expected[name] = Expected(value, count, size, op=f"{problem.function}_backward")
    return expected


def reference(problem):
    values = {name: array.values for name, array in problem.arrays.items()}
    dtype = problem.arrays["dy"].dtype
    with np.errstate(all="ignore"):
        gradient = BINARY[problem.function or "ldexp"].backward
        partials = gradient(values["dy"], values.get("a"), values.get("b"), dtype)
        return expected_gradients(problem, dict(zip(("da", "db"), partials)))


def nulls(make, gradients):
    """Flat problems without one of the gradients, and without any."""
    problems = {f"null_{g}": lambda d, g=g: make(d, 33, null=(g,)) for g in gradients}
    return problems | {"null_all": lambda d: make(d, 33, null=gradients)}


def cases(row, inputs, gradients, change=lambda make: make):
    strided = row.replace("_{T}", "_{T}_strided")
    tolerance = dict.fromkeys(gradients, "pointwise")
    make = change(flat_maker(row, fill))
    yield Case(
        row=row, problems=flat_problems(make) | (nulls(make, gradients) if row != LDEXP else {}), reference=reference,
        tolerance=tolerance, **flat_calls(row),
    )  # fmt: skip
    make = change(strided_maker(strided, fill))
    summed = gradient_problems(make, gradients if row != LDEXP else ("da", "da"))
    if row == LDEXP:
        summed = {name: problem for name, problem in summed.items() if not name.startswith("null")}
    brief = ("mixed", "sum_each") if "sum_each" in summed else ("mixed",)
    yield Case(
        row=strided, problems=strided_problems(make, inputs, gradients) | summed, reference=reference,
        tolerance=tolerance, **strided_calls(strided, brief=brief),
    )  # fmt: skip


CASES = (
    *cases(ROW, ("dy", "a", "b"), ("da", "db"), tied),
    *cases(LINEAR, ("dy",), ("da", "db")),
    *cases(LDEXP, ("dy", "b"), ("da",)),
)
