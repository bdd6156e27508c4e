# SPDX-License-Identifier: Apache-2.0
"""Unary functions of one or two parameters, and their gradients."""

import math

import numpy as np

from harness.launch import ROWS
from tools.oracle import UNARY

from ..model import Case, Expected
from .unary import function_of, unary_case

NAMES = ("p0", "p1")


def parameters(row, function, number):
    """The parameters by the row's names; integers are given as the float that two rows take, whose second one is
    ignored."""
    params = [p for p in ROWS[row].problem if p.name in NAMES]
    choices = UNARY[function].parameters
    values = (*choices[number % len(choices)], 0)
    return {p.name: v if p.dtype == "i64" else float(v) for p, v in zip(params, values)}


def seen(row, name, value, dtype):
    """A parameter in the compute type."""
    (param,) = [p for p in ROWS[row].problem if p.name == name]
    if param.dtype == "i64":
        return value
    return float(np.float32(value)) if param.dtype == "f32" or dtype != "f64" else value


def reference_of(row):
    backward = "_backward" in row

    def reference(problem):
        function, arrays = function_of(problem, row), problem.arrays
        dtype = arrays["x"].dtype
        given = [seen(row, name, problem.scalars[name], dtype) for name in NAMES if name in problem.scalars]
        if function == "powi":
            given = [math.trunc(given[0])]
        elif function == "logit":
            given.append(seen(row, "p0", 1 - np.asarray(given[0], "f8" if dtype == "f64" else "f4"), dtype))
        if backward:
            value = UNARY[function].gradient(arrays["dy"].values, arrays["x"].values, *given)
            divided = 0.0 if function in ("powf", "powi") else np.abs(arrays["dy"].values)
            return {"dx": Expected(value, divided=divided, op=f"{function}_backward")}
        return {"y": Expected(UNARY[function].value(arrays["x"].values, *given), op=function)}

    return reference


def unary_param_case(row):
    """Problems "parameters<k>" for the k-th choice of each function."""
    fixed = not ROWS[row].functions

    def function(draw):
        return function_of(draw, row)

    def extra(make):
        return {
            f"parameters{k}": lambda d, k=k: make(d, 300, "special", **parameters(row, function(d), k))
            for k in range(11)
        }

    names = [p.name for p in ROWS[row].problem if p.name in NAMES]
    scalars = {name: lambda d, name=name: parameters(row, function(d), 0)[name] for name in names}
    brief = () if fixed else tuple(f"parameters{k}" for k in range(1, 11))
    return unary_case(row, reference_of(row), brief, extra, **scalars)


CASES: tuple[Case, ...] = tuple(
    unary_param_case(name)
    for name, row in ROWS.items()
    if name.startswith("unary_") and any(p.role == "parameter" for p in row.params)
)
