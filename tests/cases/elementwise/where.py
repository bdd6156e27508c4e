# SPDX-License-Identifier: Apache-2.0
"""Selection (where), whose condition is any nonzero integer, and its gradients."""

import numpy as np

from ..model import Case, Expected
from .common import (
    flat_calls,
    flat_maker,
    flat_problems,
    gradient_problems,
    strided_calls,
    strided_maker,
    strided_problems,
)


def condition(draw, param, shape, kind, strides):
    """0 in half of the elements; elsewhere any bits, often a single bit, or with all low bits clear."""
    if param.name != "cond":
        return None
    dtype = param.dtype_of(draw.slots)
    some = draw.integers(shape, "special", dtype=dtype).values
    return draw.array(np.where(draw.rng.random(shape) < 0.5, some, 0 * some), dtype, strides)


def reference(problem):
    a, b = problem.arrays["a"].values, problem.arrays["b"].values
    return {"y": Expected(np.where(problem.arrays["cond"].values != 0, a, b))}


def summed(problem, values):
    """The expected value of each gradient that is wanted, summed where its strides are 0.

    A gradient that is not summed has magnitude 0, so that the class of a sum requires correct rounding.
    """
    expected = {}
    for name, value in values.items():
        if name in problem.null:
            continue
        strides = problem.arrays[name].strides or ()
        axes = tuple(d for d, s in enumerate(strides) if s == 0 and value.shape[d] > 1)
        if not axes:
            expected[name] = Expected(value)
            continue
        with np.errstate(invalid="ignore", over="ignore"):
            total = value.sum(axes, keepdims=True, dtype=np.longdouble)
            size = np.abs(value).sum(axes, keepdims=True)
        count = value.size // total.size
        total, size = (np.broadcast_to(v, value.shape) for v in (total, size))
        expected[name] = Expected(total, count, size)
    return expected


def backward_reference(problem):
    cond, dy = problem.arrays["cond"].values != 0, problem.arrays["dy"].values
    return summed(problem, {"da": np.where(cond, dy, 0.0), "db": np.where(cond, 0.0, dy)})


def forward(row, first, **also):
    """The row and its strided form; `first` is the dtype with every problem."""

    def full(slots):
        return slots["T"] in first

    problems = strided_problems(strided_maker(f"{row}_strided", condition), ("cond", "a", "b"), ("y",))
    return (
        Case(
            row=row, problems=flat_problems(flat_maker(row, condition)), reference=reference, tolerance={"y": "exact"},
            full=full, **flat_calls(row, brief=("special",)), **also,
        ),
        Case(
            row=f"{row}_strided", problems=problems, reference=reference, tolerance={"y": "exact"}, full=full,
 **strided_calls(f"{row}_strided"),
        ),
    )  # fmt: skip


BACKWARD, BACKWARD_STRIDED = "where_backward_{T}", "where_backward_{T}_strided"
flat_backward = flat_maker(BACKWARD, condition)
strided_backward = strided_maker(BACKWARD_STRIDED, condition)
GRADIENTS = ("da", "db")

CASES = (
    *forward("where_{T}", ("f32", "bf16")),
    *forward("where_u8cond_{T}", ("u8",)),
    *forward("where_u32cond_{T}", ("i64",)),
    *forward("where_i64cond_{T}", ("i16",)),
    Case(
        row=BACKWARD,
        problems=flat_problems(flat_backward) | {
            "null_da": lambda d: flat_backward(d, 301, null=("da",)),
            "null_db": lambda d: flat_backward(d, 301, null=("db",)),
            "null_both": lambda d: flat_backward(d, 301, null=GRADIENTS),
        },
        reference=backward_reference, tolerance=dict.fromkeys(GRADIENTS, "exact"),
        **flat_calls(BACKWARD),
    ),
    Case(
        row=BACKWARD_STRIDED,
        problems=strided_problems(strided_backward, ("dy", "cond"), GRADIENTS)
        | gradient_problems(strided_backward, GRADIENTS),
        reference=backward_reference, tolerance=dict.fromkeys(GRADIENTS, "total"),
        full=lambda slots: slots["T"] in ("f32", "bf16"),
        **strided_calls(BACKWARD_STRIDED, brief=("mixed", "sum_each", "sum_all", "null_da")),
    ),
)  # fmt: skip
