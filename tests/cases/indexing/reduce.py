# SPDX-License-Identifier: Apache-2.0
"""scatter_reduce: sums, products, means and extremes of elements that are scattered by index."""

import numpy as np

from tools.oracle.numerics import is_float, round_to

from ..model import Bad, Case, Expected, Idle, strides_for
from ..segment import operand
from .sums import bad_calls, idle_calls
from .sums import problems as scattered

ROW = "scatter_reduce{I}_{T}"
SUM, PROD, MEAN, AMAX, AMIN = range(5)
UFUNCS = {SUM: np.add, PROD: np.multiply, MEAN: np.add, AMAX: np.maximum, AMIN: np.minimum}
INTEGERS = {"i32": np.int32, "i64": np.int64}


def identity(reduce, dtype):
    if reduce in (AMAX, AMIN):
        low, high = (
            (-np.inf, np.inf) if is_float(dtype) else (np.iinfo(INTEGERS[dtype]).min, np.iinfo(INTEGERS[dtype]).max)
        )
        return low if reduce == AMAX else high
    return 1 if reduce == PROD else 0


def ruled(make, reduce, include_self, kind=""):
    """A problem of scatter_add with another reduction: of operands whose products stay in range, or of `kind`."""

    def made(draw):
        problem = make(draw)
        updates, out = problem.arrays["updates"], problem.arrays["out"]
        if kind or (reduce == PROD and is_float(draw.dtype)):
            for array in (updates, out):
                drawn = operand(draw, array.shape, kind or "factors").values
                array.values = draw.array(drawn, "", array.strides).values
        if reduce in (AMAX, AMIN) and is_float(draw.dtype):  # of equal zeros either may remain
            for array in (updates, out):
                array.values = array.values + 0.0
        problem.scalars |= {"reduce": reduce, "include_self": include_self}
        return problem

    return made


def cells_of(problem, axis_name="scatter_dim", extent_name="out_dim_size"):
    """Coordinates of the updates in range, and of the elements that they go to."""
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
            UFUNCS[reduce].at(value, cells, x.astype(INTEGERS[dtype]))
            if reduce == MEAN:
                value = np.where(hit, value // np.maximum(n, 1), value)
            return {"out": Expected(value.astype(np.int64))}
        UFUNCS[reduce].at(value, cells, x)
        if reduce == MEAN:
            value = np.where(hit, value / np.maximum(n, 1), value)
        if reduce in (AMAX, AMIN):
            return {"out": Expected(value)}
        np.add.at(size, cells, np.abs(x))
        magnitude = np.abs(value) if reduce == PROD else size / np.maximum(n, 1) if reduce == MEAN else size
        return {"out": Expected(value, np.where(hit, n, 0), magnitude)}


def problems():
    """The problems of scatter_add, each with one of the reductions, and some with all of them."""
    table, base = {}, scattered(ROW)
    rules = [(reduce, own) for own in (1, 0) for reduce in range(5)]
    for k, (name, make) in enumerate(base.items()):
        table[name] = ruled(make, *rules[k % 10])
    for reduce, own in rules:
        label = f"{('sum', 'prod', 'mean', 'amax', 'amin')[reduce]}_{'with' if own else 'without'}"
        for name in ("fiber_mixed", "last_hot", "blocks_33", "blocks_16", "gaps", "giant_fiber"):
            table[f"{label}_{name}"] = ruled(base[name], reduce, own)
    table["plain"], table["large"] = ruled(base["plain"], MEAN, 1), ruled(base["large"], MEAN, 0)
    for reduce, kind in ((PROD, "spiked"), (PROD, "holes"), (AMAX, "spiked"), (AMIN, "spiked"), (AMAX, "ties"),
                         (AMAX, "lowest"), (SUM, "special"), (MEAN, "special")):  # fmt: skip
        table[f"{kind}_{reduce}"] = ruled(base["special"], reduce, 1, kind)
        table[f"{kind}_{reduce}_without"] = ruled(base["special"], reduce, 0, kind)
    return table


ROW_BACKWARD = "scatter_reduce_backward{I}_{T}"


def backward(make, reduce, include_self, kind="", wanted=("dx", "dupdates")):
    """The gradients of a problem of scatter_reduce, whose result is rounded to the dtype."""
    forward = ruled(make, reduce, include_self, kind)

    def made(draw):
        problem = forward(draw)
        x, dtype = problem.arrays.pop("out"), draw.dtype
        problem.arrays["out"] = x
        out = round_to(reference(problem)["out"].value, dtype)
        strides = problem.host["stride_out"]
        updates, index = problem.arrays["updates"], problem.arrays["index"]
        own = strides_for(x.shape)
        problem.arrays = {
            "dout": draw.floats(x.shape, strides=own), "x": x, "updates": updates, "index": index,
            "out": draw.array(out, dtype, own), "dx": draw.output(x.shape, strides),
            "dupdates": draw.output(updates.shape),
        }  # fmt: skip
        problem.host |= {
            "stride_dout": own, "stride_x": strides, "stride_out": own, "stride_dx": strides,
            "stride_dupdates": strides_for(updates.shape),
        }  # fmt: skip
        problem.null = tuple(a for a in ("dx", "dupdates") if a not in wanted)
        return problem

    return made


def same(a, b):
    return (a == b) | ((a != a) & (b != b))


def others(operands, own):
    """The product of the other operands, for each; where `own` is the whole product as stored."""
    zero = operands == 0
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        found = np.where(zero, own, own / np.where(zero, 1, operands))
        if zero.sum() == 1:
            found[zero] = np.prod(operands[~zero])
    return found


def backward_reference(problem):
    s, arrays = problem.scalars, problem.arrays
    reduce, own = s["reduce"], s["include_self"] != 0
    at, cells = cells_of(problem)
    dout, x, y = (arrays[a].values for a in ("dout", "x", "out"))
    u, target = arrays["updates"].values[at], np.ravel_multi_index(cells, dout.shape)
    dx, du = dout.astype(np.float64).copy(), np.zeros(arrays["updates"].shape)
    steps = np.zeros(dx.shape)
    order = np.argsort(target, kind="stable")
    starts = np.nonzero(np.diff(target[order], prepend=-1))[0]
    share = np.zeros(len(target))
    counts = np.zeros(len(target))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        for first, last in zip(starts, [*starts[1:], len(target)]):
            k, cell = order[first:last], np.unravel_index(target[order[first]], dout.shape)
            operands = np.concatenate((u[k], [x[cell]])) if own else u[k]
            if reduce == SUM:
                weights = np.ones(len(operands))
            elif reduce == MEAN:
                weights = np.full(len(operands), 1 / len(operands))
            elif reduce == PROD:
                weights = others(operands, y[cell])
            else:
                ties = same(operands, y[cell])
                weights = np.where(ties, 1 / max(ties.sum(), 1), 0)
            share[k] = dout[cell] * weights[: len(k)]
            dx[cell] = dout[cell] * weights[-1] if own else 0
            counts[k] = steps[cell] = 0 if reduce == SUM else len(operands) + 2 if reduce == PROD else 2
        du[at] = share
        steps_u = np.zeros(du.shape)
        steps_u[at] = counts
        magnitude, magnitude_x = (np.where(np.isfinite(d), np.abs(d), 0) for d in (du, dx))
    found = {"dx": Expected(dx, steps, magnitude_x), "dupdates": Expected(du, steps_u, magnitude)}
    return {name: value for name, value in found.items() if name not in problem.null}


def backward_problems():
    table, base = {}, scattered(ROW)
    rules = [(reduce, own) for own in (1, 0) for reduce in range(5)]
    small = [
        name for name in base if not name.startswith(("giant", "large", "permuted_out", "special", "many", "columns"))
    ]
    for k, name in enumerate(small):
        table[name] = backward(base[name], *rules[k % 10])
    for reduce, own in rules:
        label = f"{('sum', 'prod', 'mean', 'amax', 'amin')[reduce]}_{'with' if own else 'without'}"
        for name in ("fiber_mixed", "last_hot", "blocks_16", "gaps", "no_updates"):
            table[f"{label}_{name}"] = backward(base[name], reduce, own)
        table[f"{label}_holes"] = backward(base["first_uniform"], reduce, own, "holes")
        table[f"{label}_many_fibers"] = backward(base["many_short_fibers"], reduce, own, "ties")
        table[f"{label}_dx"] = backward(base["middle"], reduce, own, wanted=("dx",))
        table[f"{label}_dupdates"] = backward(base["middle"], reduce, own, wanted=("dupdates",))
    for reduce in (AMAX, AMIN):
        for own in (0, 1):
            table[f"ties_{reduce}_{own}"] = backward(base["first_hot"], reduce, own, "ties")
            table[f"spiked_{reduce}_{own}"] = backward(base["first_uniform"], reduce, own, "spiked")
    table["spiked_prod"] = backward(base["first_uniform"], PROD, 1, "spiked")
    table["zeros_prod"] = backward(base["fiber_ends"], PROD, 1, "ties")
    table["plain"], table["large"] = backward(base["plain"], MEAN, 1), backward(base["large"], AMAX, 0, "ties")
    return table


def backward_bad():
    operands = ("dout", "x", "updates", "index", "out", "dx", "dupdates")
    inputs = operands[:5]
    return (
        Bad("negative_numel", 2, r"upd_numel is -1", {"upd_numel": -1}, can=2),
        Bad("wrong_numel", 2, r"upd_numel is 59, but upd_shape has 60", {"upd_numel": 59}, can=2),
        Bad("rank_9", 2, r"rank is 9", {"rank": 9}, can=2),
        Bad("rank_negative", 2, r"rank is -1", {"rank": -1}, can=2),
        Bad("axis_3", 2, r"scatter_dim is 3", {"scatter_dim": 3}, can=2),
        Bad("axis_negative", 2, r"scatter_dim is -1", {"scatter_dim": -1}, can=2),
        Bad("negative_extent", 2, r"out_dim_size is -7", {"out_dim_size": -7}, can=2),
        Bad("negative_shape", 2, r"upd_shape\[2\] is -3", host={"upd_shape": (4, 5, -3)}, can=2),
        Bad("null_shape", 2, r"upd_shape is NULL", host={"upd_shape": None}, can=2),
        Bad("reduce_5", 3, r"reduce is 5", {"reduce": 5}, can=3),
        Bad("reduce_negative", 3, r"reduce is -1", {"reduce": -1}, can=3),
        *(Bad(f"null_stride_{a}", 2, rf"stride_{a} is NULL", host={f"stride_{a}": None}, can=2) for a in operands),
        *(Bad(f"broadcast_{a}", 2, rf"stride_{a}\[2\] is 0", host={f"stride_{a}": (21, 3, 0)}, can=2)
          for a in ("dx", "dupdates")),
        *(Bad(f"null_{a}", 2, rf"{a} is NULL", null=(a,)) for a in inputs),
        Bad("null_both", 2, r"dx and dupdates are both NULL", null=("dx", "dupdates")),
        *(Bad(f"odd_{a}", 1, rf"{a} is 0x[0-9a-f]+", shift={a: 1}) for a in operands),
    )  # fmt: skip


CASES = (
    Case(
        row=ROW_BACKWARD, problems=backward_problems(), reference=backward_reference,
        tolerance={"dx": "pointwise", "dupdates": "pointwise"}, plain="plain", large="large", bad=backward_bad(),
        idle=(Idle("no_fibers", {"upd_numel": 0}, {"upd_shape": (0, 5, 3)}),),
    ),
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
