"""scatter_reduce: sums, products, means and extremes of elements that go where an index says."""

import numpy as np

from tools.oracle.numerics import is_float

from .indexing_sums import bad_calls, idle_calls
from .indexing_sums import problems as scattered
from .model import Bad, Case, Expected
from .segment import operand

ROW = "scatter_reduce{I}_{T}"
SUM, PROD, MEAN, AMAX, AMIN = range(5)
FOLDS = {SUM: np.add, PROD: np.multiply, MEAN: np.add, AMAX: np.maximum, AMIN: np.minimum}
INTEGERS = {"i32": np.int32, "i64": np.int64}


def identity(reduce, dtype):
    if reduce in (AMAX, AMIN):
        low, high = (
            (-np.inf, np.inf) if is_float(dtype) else (np.iinfo(INTEGERS[dtype]).min, np.iinfo(INTEGERS[dtype]).max)
        )
        return low if reduce == AMAX else high
    return 1 if reduce == PROD else 0


def ruled(make, reduce, include_self, kind=""):
    """A problem of scatter_add by another rule: of factors whose products are ordinary, or of `kind`."""

    def made(draw):
        problem = make(draw)
        updates, out = problem.arrays["updates"], problem.arrays["out"]
        if kind or (reduce == PROD and is_float(draw.dtype)):
            for array in (updates, out):
                array.values = draw.array(operand(draw, array.shape, kind or "factors").values, "", array.strides).values
        if reduce in (AMAX, AMIN) and is_float(draw.dtype):  # of two zeros any may stay
            for array in (updates, out):
                array.values = array.values + 0.0
        problem.scalars |= {"reduce": reduce, "include_self": include_self}
        return problem

    return made


def cells_of(problem, axis_name="scatter_dim", extent_name="out_dim_size"):
    """Places of the kept updates, and the cells that they go to."""
    index, axis = problem.arrays["index"].values, problem.scalars[axis_name]
    at = np.nonzero((index >= 0) & (index < problem.scalars[extent_name]))
    return at, tuple(index[at].astype(np.int64) if d == axis else at[d] for d in range(index.ndim))


def reference(problem):
    s, dtype = problem.scalars, problem.arrays["out"].dtype
    reduce, include_self = s["reduce"], s["include_self"] != 0
    at, cells = cells_of(problem)
    x, value = problem.arrays["updates"].values[at], problem.arrays["out"].values.copy()
    n = np.zeros(value.shape, np.int64)
    np.add.at(n, cells, 1)
    hit, n = n > 0, n + include_self
    if not include_self:
        value[hit] = identity(reduce, dtype)
    size = np.abs(value)
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        if not is_float(dtype):
            value = value.astype(INTEGERS[dtype])
            FOLDS[reduce].at(value, cells, x.astype(INTEGERS[dtype]))
            if reduce == MEAN:
                value = np.where(hit, value // np.maximum(n, 1), value)
            return {"out": Expected(value.astype(np.int64))}
        FOLDS[reduce].at(value, cells, x)
        if reduce == MEAN:
            value = np.where(hit, value / np.maximum(n, 1), value)
        if reduce in (AMAX, AMIN):
            return {"out": Expected(value)}
        np.add.at(size, cells, np.abs(x))
        terms = np.abs(value) if reduce == PROD else size / np.maximum(n, 1) if reduce == MEAN else size
        return {"out": Expected(value, np.where(hit, n, 0), terms)}


def problems():
    """Those of scatter_add, each by one of the rules, and some by all of them."""
    table, base = {}, scattered(ROW)
    rules = [(reduce, own) for own in (1, 0) for reduce in range(5)]
    for k, (name, make) in enumerate(base.items()):
        table[name] = ruled(make, *rules[k % 10])
    for reduce, own in rules:
        label = f"{('sum', 'prod', 'mean', 'amax', 'amin')[reduce]}_{'with' if own else 'without'}"
        for name in ("line_mixed", "last_hot", "blocks_33", "blocks_16", "gaps", "giant_line"):
            table[f"{label}_{name}"] = ruled(base[name], reduce, own)
    table["plain"], table["large"] = ruled(base["plain"], MEAN, 1), ruled(base["large"], MEAN, 0)
    for reduce, kind in ((PROD, "spiked"), (PROD, "holes"), (AMAX, "spiked"), (AMIN, "spiked"), (AMAX, "ties"),
                         (AMAX, "lowest"), (SUM, "special"), (MEAN, "special")):  # fmt: skip
        table[f"{kind}_{reduce}"] = ruled(base["special"], reduce, 1, kind)
        table[f"{kind}_{reduce}_without"] = ruled(base["special"], reduce, 0, kind)
    return table


CASES = (
    Case(
        row=ROW, problems=problems(), reference=reference, tolerance={"out": "pointwise"},
        tolerance_without_workspace={"out": "atomic_reduced"}, plain="plain", large="large",
        bad=(
            *bad_calls(ROW), Bad("reduce_5", 3, r"reduce is 5", {"reduce": 5}, can=3),
            Bad("reduce_negative", 3, r"reduce is -1", {"reduce": -1}, can=3),
        ),
        idle=idle_calls(ROW),
    ),
)  # fmt: skip

__all__ = ["CASES", "cells_of"]
