"""Unary functions of one or two parameters, and their gradients."""

import math

import numpy as np

from harness.launch import ROWS
from references.unary import BACKWARD, FORWARD

from ..model import Case, Expected
from .unary import function_of, unary_case

TABLES = ("unary_param", "unary_param_f32")
PARAMETERS = {  # the first of them in the problems that are not about parameters
    "leaky_relu": ((0.2,), (0.0,), (-1.5,), (1e-3,), (1.0,)),
    "hardshrink": ((0.5,), (0.0,), (1.3,), (1e-3,), (-1.0,)),
    "softshrink": ((0.5,), (0.0,), (1.3,), (1e-3,), (2.0,)),
    "logit": ((0.1,), (0.0,), (1e-6,), (-1.0,), (0.5,)),
    "elu": ((1.0,), (0.3,), (-2.0,), (0.0,), (5.0,)),
    "powf": ((1.7,), (2.0,), (0.5,), (-1.0,), (0.0,), (3.0,), (-0.5,), (math.inf,), (-math.inf,), (math.nan,), (31.0,)),
    "hardtanh": ((-1.0, 1.0), (0.0, 6.0), (-0.3, 2.7), (-math.inf, 1.0), (0.5, 0.5)),
    "softplus": ((1.0, 20.0), (2.0, 20.0), (0.5, 5.0), (1.0, -1.0), (0.1, 100.0)),
    "threshold": ((0.5, -2.0), (0.0, 0.0), (-1.0, 20.0), (1.0, math.nan), (-math.inf, 3.0)),
    "selu": ((1.6732632423543772, 1.0507009873554805), (0.3, 2.0), (2.0, -1.0), (1.0, 1.0), (0.0, 0.5)),
    "powi": ((3,), (2,), (0,), (1,), (-1,), (-3,), (10,), (-2,), (63,), (1024,), (-(2**20) - 1,)),
}  # fmt: skip
NAMES = ("p0", "p1")


def parameters(row, function, number):
    """By the row's parameter names; integers are given as the float that two rows take, its second one is ignored."""
    params = [p for p in ROWS[row].problem if p.name in NAMES]
    values = (*PARAMETERS[function][number % len(PARAMETERS[function])], 0)
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
            value = BACKWARD[function](arrays["dy"].values, arrays["x"].values, *given)
            divided = 0.0 if function in ("powf", "powi") else np.abs(arrays["dy"].values)
            return {"dx": Expected(value, divided=divided, op=f"{function}_backward")}
        return {"y": Expected(FORWARD[function](arrays["x"].values, *given), op=function)}

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
    unary_param_case(name) for name, row in ROWS.items() if row.family == "elementwise" and row.table in TABLES
)
