# SPDX-License-Identifier: Apache-2.0
"""Runs of equal adjacent elements, and unique elements: unique_consecutive, unique_runs, unique, unique_rows."""

import numpy as np

from ..indexing.copies import pointers
from ..model import Array, Bad, Case, Expected, Idle, Problem
from .searchsorted import in_order, some_values, truth


def repeated(draw, rows, n, width, kind, mean):
    """Rows of n slices of `width`: runs of `mean` equal ones on average, a value now and then repeated behind a run."""
    few = draw.values((max(2, n // max(mean, 1)), width), kind).values
    starts = draw.rng.random((rows, n)) < 1 / mean
    chosen = np.where(starts, draw.rng.integers(0, len(few), (rows, n)), -1)
    chosen[:, :1] = 0
    at = np.maximum.accumulate(np.where(chosen >= 0, np.arange(n), 0), 1)
    return few[np.take_along_axis(chosen, at, 1)]


def heads_of(x, is_float, equal_nan):
    """Whether each slice along the first axis differs from the one before."""
    differ = x[1:] != x[:-1]
    if is_float and equal_nan:
        differ &= ~(np.isnan(x[1:]) & np.isnan(x[:-1]))
    within = differ.reshape(len(differ), int(np.prod(x.shape[1:]))).any(1)
    return np.concatenate([np.ones(min(1, len(x)), bool), within])


def starts_and_lengths(x, equal_nan):
    heads = heads_of(x, x.dtype.kind == "f", equal_nan)
    starts = np.flatnonzero(heads)
    return heads, starts, np.diff(np.append(starts, len(x)))


def unique_consecutive(draw, rows, n, most=None, kind="normal", mean=3, null=()):
    x = draw.array(repeated(draw, rows, n, 1, kind, mean)[:, :, 0])
    most = n if most is None else most
    arrays = {
        "x": x, "y_vals": draw.values((rows, most)), "y_counts": draw.output((rows, most), dtype="i32"),
        "counter": draw.output((rows,), dtype="i32"),
    }  # fmt: skip
    return Problem({"batch": rows, "row_len": n, "max_unique": most}, arrays, null=null)


def unique_consecutive_reference(problem):
    a, most = problem.arrays, problem.scalars["max_unique"]
    values, counts = a["y_vals"].values.copy(), np.zeros(a["y_counts"].shape, np.int64)
    totals = []
    for row, x in enumerate(truth(a["x"])):
        _, starts, lengths = starts_and_lengths(x, False)
        kept = min(most, len(starts))
        values[row, :kept] = a["x"].values[row, starts[:kept]]
        counts[row, :kept] = lengths[:kept]
        totals.append(len(starts))
    expected = {"y_vals": values, "y_counts": counts, "counter": np.array(totals, np.int64)}
    return {name: Expected(each) for name, each in expected.items() if name not in problem.null}


def unique_runs(draw, n, width=1, most=None, equal_nan=1, kind="normal", mean=3, order="given", null=()):
    x = draw.array(repeated(draw, 1, n, width, kind, mean)[0])
    most = n if most is None else most
    permutation = draw.rng.permutation(n) if order == "given" else np.arange(n)
    arrays = {
        "x": x, "order": draw.indices(permutation), "values": draw.values((most, width)),
        "first": draw.integers((most,), dtype=draw.index), "inverse": draw.integers((n,), dtype=draw.index),
        "counts": draw.output((most,), dtype=draw.index), "counter": draw.output((1,), dtype=draw.index),
    }  # fmt: skip
    if order != "given":
        null = (*null, "order")
    return Problem({"n": n, "width": width, "max_unique": most, "equal_nan": equal_nan}, arrays, null=null)


def unique_runs_reference(problem):
    a, s = problem.arrays, problem.scalars
    heads, starts, lengths = starts_and_lengths(truth(a["x"]), s["equal_nan"] != 0)
    kept, order = min(s["max_unique"], len(starts)), a["order"].values.astype(np.int64)
    values, first, inverse = (a[name].values.copy() for name in ("values", "first", "inverse"))
    values[:kept] = a["x"].values[starts[:kept]]
    first[:kept] = order[starts[:kept]]
    inverse[order] = np.cumsum(heads) - 1
    counts = np.zeros(s["max_unique"], np.int64)
    counts[:kept] = lengths[:kept]
    expected = {"values": values, "first": first, "inverse": inverse, "counts": counts}
    expected["counter"] = np.array([len(starts)])
    return {name: Expected(each) for name, each in expected.items() if name not in problem.null}


def unique(draw, n, most=None, equal_nan=1, kind="ties", null=()):
    x = some_values(draw, (n,), kind)
    most = n if most is None else most
    arrays = {
        "x": x, "values": draw.values((most,)), "first": draw.integers((most,), dtype=draw.index),
        "inverse": draw.output((n,), dtype=draw.index), "counts": draw.output((most,), dtype=draw.index),
        "counter": draw.output((1,), dtype=draw.index),
    }  # fmt: skip
    return Problem({"n": n, "max_unique": most, "equal_nan": equal_nan}, arrays, null=null)


def unique_reference(problem):
    a, s = problem.arrays, problem.scalars
    order = in_order(a["x"].values, a["x"].dtype)
    heads, starts, lengths = starts_and_lengths(truth(a["x"])[order], s["equal_nan"] != 0)
    kept = min(s["max_unique"], len(starts))
    values, first = a["values"].values.copy(), a["first"].values.copy()
    values[:kept], first[:kept] = a["x"].values[order[starts[:kept]]], order[starts[:kept]]
    inverse, counts = np.zeros(s["n"], np.int64), np.zeros(s["max_unique"], np.int64)
    inverse[order], counts[:kept] = np.cumsum(heads) - 1, lengths[:kept]
    expected = {"values": values, "first": first, "inverse": inverse, "counts": counts}
    expected["counter"] = np.array([len(starts)])
    return {name: Expected(each) for name, each in expected.items() if name not in problem.null}


def unique_rows(draw, rows, n, most=None, kind="ties", null=()):
    most = n if most is None else most
    arrays = {
        "x": some_values(draw, (rows, n), kind), "sorted_scratch": draw.output((rows, n)),
        "sorted_idx_scratch": draw.output((rows, n), dtype="i32"), "y_vals": draw.values((rows, most)),
        "y_counts": draw.output((rows, most), dtype="i32"), "counter": draw.output((rows,), dtype="i32"),
    }  # fmt: skip
    return Problem({"batch": rows, "row_len": n, "max_unique": most}, arrays, null=null)


def unique_rows_reference(problem):
    x = problem.arrays["x"]
    order = in_order(x.values, x.dtype)
    ordered = np.take_along_axis(x.values, order, 1)
    arrays = {**problem.arrays, "x": Array(x.dtype, x.shape, ordered)}
    found = unique_consecutive_reference(Problem(problem.scalars, arrays, null=problem.null))
    return {"sorted_scratch": Expected(ordered), "sorted_idx_scratch": Expected(order.astype(np.int64)), **found}


ROWS = {  # rows, n, options
    "one": (1, 1, {}), "plain": (5, 33, {}), "equal": (3, 5000, {"mean": 10**9}),
    "special": (7, 301, {"kind": "special"}),
    "fewer": (5, 2001, {"most": 100}), "no_slot": (5, 33, {"most": 0}), "uncounted": (5, 33, {"null": ("y_counts",)}),
    "many": (700, 17, {}), "long": (2, 70001, {}), "long_fewer": (2, 70001, {"most": 3000}), "row": (1, 40003, {}),
    "different": (3, 9001, {"mean": 1}), "large": (40, 4099, {}),
}  # fmt: skip
RUNS = {  # n, options
    "one": (1, {}), "plain": (301, {}), "no_order": (301, {"order": None}), "equal": (30011, {"mean": 10**9}),
    "special": (3001, {"kind": "special"}), "nan_differs": (3001, {"kind": "special", "equal_nan": 0}),
    "fewer": (9001, {"most": 100}), "no_slot": (9001, {"most": 0}), "slices": (2001, {"width": 7}),
    "special_slices": (501, {"width": 3, "kind": "special", "order": None}), "more": (301, {"most": 400}),
    "values_only": (9001, {"null": ("first", "inverse", "counts")}), "different": (20001, {"mean": 1, "order": None}),
    "inverse_only": (9001, {"null": ("first", "counts"), "order": None}), "no_width": (9, {"width": 0}),
    "large": (150001, {"order": None}),
}  # fmt: skip
UNIQUE = {  # n, options
    "one": (1, {}), "plain": (301, {}), "any": (3001, {"kind": "normal"}), "special": (3001, {"kind": "special"}),
    "nan_differs": (3001, {"kind": "special", "equal_nan": 0}), "fewer": (3001, {"kind": "normal", "most": 100}),
    "no_slot": (301, {"most": 0}), "more": (301, {"most": 400}), "long": (70001, {"kind": "normal"}),
    "values_only": (9001, {"null": ("first", "inverse", "counts")}), "large": (40001, {}),
}  # fmt: skip
UNIQUE_ROWS = {  # rows, n, options
    "one": (1, 1, {}), "plain": (5, 33, {}), "special": (7, 301, {"kind": "special"}), "many": (301, 17, {}),
    "fewer": (5, 2001, {"most": 3}), "no_slot": (5, 33, {"most": 0}), "uncounted": (5, 33, {"null": ("y_counts",)}),
    "any": (3, 9001, {"kind": "normal"}), "long": (2, 40003, {"kind": "normal"}), "large": (40, 1031, {}),
}  # fmt: skip

CASES = (
    Case(
        row="unique_consecutive_{T}",
        problems={name: lambda d, r=r, n=n, k=k: unique_consecutive(d, r, n, **k) for name, (r, n, k) in ROWS.items()}
        | {"empty": lambda d: unique_consecutive(d, 3, 0, 5)},
        reference=unique_consecutive_reference,
        tolerance={"y_vals": "exact", "y_counts": "exact", "counter": "exact"}, plain="plain", large="large",
        bad=(
            Bad("negative", 2, r"batch is -2", {"batch": -2}, can=2),
            Bad("negative_row", 2, r"row_len is -2", {"row_len": -2}, can=2),
            Bad("negative_most", 2, r"max_unique is -2", {"max_unique": -2}, can=2),
            *pointers(("x", "y_vals", "counter")),
        ),
        idle=(Idle("nothing", {"batch": 0}),),
    ),
    Case(
        row="unique_runs{I}_{T}",
        problems={name: lambda d, n=n, k=k: unique_runs(d, n, **k) for name, (n, k) in RUNS.items()}
        | {"empty": lambda d: unique_runs(d, 0, most=5)},
        reference=unique_runs_reference,
        tolerance=dict.fromkeys(("values", "first", "inverse", "counts", "counter"), "exact"),
        plain="plain", large="large",
        bad=(
            Bad("negative", 2, r"n is -2", {"n": -2}, can=2),
            Bad("negative_width", 2, r"width is -2", {"width": -2}, can=2),
            Bad("negative_most", 2, r"max_unique is -2", {"max_unique": -2}, can=2),
            *pointers(("x", "values", "counter")),
        ),
        idle=(),
    ),
    Case(
        row="unique{I}_{T}",
        problems={name: lambda d, n=n, k=k: unique(d, n, **k) for name, (n, k) in UNIQUE.items()}
        | {"empty": lambda d: unique(d, 0, most=5)},
        reference=unique_reference,
        tolerance=dict.fromkeys(("values", "first", "inverse", "counts", "counter"), "exact"),
        plain="plain", large="large",
        bad=(
            Bad("negative", 2, r"n is -2", {"n": -2}, can=2),
            Bad("negative_most", 2, r"max_unique is -2", {"max_unique": -2}, can=2),
            *pointers(("x", "values", "counter")),
        ),
        idle=(),
    ),
    Case(
        row="unique_rows_{T}",
        problems={name: lambda d, r=r, n=n, k=k: unique_rows(d, r, n, **k) for name, (r, n, k) in UNIQUE_ROWS.items()}
        | {"empty": lambda d: unique_rows(d, 3, 0, 5)},
        reference=unique_rows_reference,
        tolerance=dict.fromkeys(("sorted_scratch", "sorted_idx_scratch", "y_vals", "y_counts", "counter"), "exact"),
        plain="plain", large="large",
        bad=(
            Bad("negative", 2, r"batch is -2", {"batch": -2}, can=2),
            Bad("negative_row", 2, r"row_len is -2", {"row_len": -2}, can=2),
            Bad("negative_most", 2, r"max_unique is -2", {"max_unique": -2}, can=2),
            *pointers(("x", "sorted_scratch", "sorted_idx_scratch", "y_vals", "counter")),
        ),
        idle=(Idle("nothing", {"batch": 0}),),
    ),
)  # fmt: skip
