# SPDX-License-Identifier: Apache-2.0
"""searchsorted, of one sequence and of rows, and membership of a sorted sequence."""

import numpy as np

from ..indexing.copies import pointers
from ..model import Bad, Case, Expected, Idle, Problem


def truth(array):
    """The values in their order: bytes of a bool as 0 or 1."""
    return (array.values != 0).astype(np.int64) if array.dtype == "bool" else array.values


def in_order(values, dtype):
    """The order of a stable sort; NaN is last."""
    keys = (values != 0) if dtype == "bool" else values
    return np.argsort(keys, -1, kind="stable")


def some_values(draw, shape, kind):
    """kind "ties": few values, each often; else as of a Draw."""
    if kind != "ties":
        return draw.values(shape, kind)
    few = draw.values((7,), "normal").values
    return draw.array(draw.rng.choice(few, shape))


def queries_of(draw, sequence, shape, kind):
    """Half of them elements of the sequence."""
    anything = some_values(draw, shape, kind).values
    if not sequence.size:
        return draw.array(anything)
    return draw.array(np.where(draw.rng.random(shape) < 0.5, draw.rng.choice(sequence.ravel(), shape), anything))


def sequence_of(draw, shape, kind):
    values = some_values(draw, shape, kind).values
    return draw.array(np.take_along_axis(values, in_order(values, draw.dtype), -1))


def search(draw, queries, length, right=0, kind="normal", null=()):
    sequence = sequence_of(draw, (length,), kind)
    arrays = {
        "sorted_seq": sequence, "values": queries_of(draw, sequence.values, (queries,), kind),
        "output": draw.output((queries,), dtype="i32"),
    }  # fmt: skip
    return Problem({"num_queries": queries, "len_sorted": length, "right": right}, arrays, null=null)


def positions(sequence, values, right):
    return np.searchsorted(sequence, values, "right" if right else "left").astype(np.int64)


def search_reference(problem):
    a = problem.arrays
    found = positions(truth(a["sorted_seq"]), truth(a["values"]), problem.scalars["right"])
    return {"output": Expected(found)}


def search_rows(draw, rows, queries, length, right=0, shared=False, sorter="given", kind="normal", null=()):
    sequences = 1 if shared else rows
    sequence = sequence_of(draw, (sequences, length), kind)
    order = np.broadcast_to(np.arange(length), (sequences, length)).copy()
    if sorter == "given":
        order = draw.rng.permuted(order, axis=1)
        shuffled = np.empty_like(sequence.values)
        np.put_along_axis(shuffled, order, sequence.values, 1)
        given = draw.array(shuffled)
    else:
        given, null = sequence, (*null, "sorter")
    arrays = {
        "sorted_seq": given, "sorter": draw.indices(order),
        "values": queries_of(draw, sequence.values, (rows, queries), kind),
        "output": draw.output((rows, queries), dtype=draw.index),
    }  # fmt: skip
    scalars = {"rows": rows, "queries": queries, "sequences": sequences, "len_sorted": length, "right": right}
    return Problem(scalars, arrays, null=null)


def search_rows_reference(problem):
    a, right = problem.arrays, problem.scalars["right"]
    sequence = np.take_along_axis(truth(a["sorted_seq"]), a["sorter"].values.astype(np.int64), 1)
    sequence = np.broadcast_to(sequence, (problem.scalars["rows"], sequence.shape[1]))
    values = truth(a["values"])
    found = np.zeros(values.shape, np.int64)
    for row in range(len(values)):
        found[row] = positions(sequence[row], values[row], right)
    return {"output": Expected(found)}


def isin(draw, numel, length, invert=0, kind="normal", null=()):
    sequence = sequence_of(draw, (length,), kind)
    arrays = {
        "values": queries_of(draw, sequence.values, (numel,), kind), "sorted_seq": sequence,
        "output": draw.output((numel,), dtype="bool"),
    }  # fmt: skip
    return Problem({"numel": numel, "len_sorted": length, "invert": invert}, arrays, null=null)


def isin_reference(problem):
    a = problem.arrays
    found = np.isin(truth(a["values"]), truth(a["sorted_seq"]), invert=problem.scalars["invert"] != 0)
    return {"output": Expected(found.astype(np.uint8))}


SEARCHES = {  # queries, length, options
    "one": (1, 1, {}), "plain": (33, 100, {}), "right": (33, 100, {"right": 1}), "nothing": (17, 0, {}),
    "two": (300, 2, {"right": -5}), "ties": (1000, 600, {"kind": "ties"}),
    "ties_right": (1000, 600, {"kind": "ties", "right": 1}), "special": (777, 300, {"kind": "special"}),
    "special_right": (777, 300, {"kind": "special", "right": 1}), "few_in_many": (5, 40003, {}),
    "staged": (3001, 2048, {}), "two_levels": (4099, 33333, {}), "two_levels_right": (4099, 33333, {"right": 1}),
    "levels_of_ties": (4099, 33333, {"kind": "ties"}), "levels_of_special": (4099, 20001, {"kind": "special"}),
    "large": (150001, 5003, {}),
}  # fmt: skip
ROWS = {  # rows, queries, length, options
    "one": (1, 1, 1, {}), "plain": (5, 33, 20, {}), "plain_right": (5, 33, 20, {"right": 1}),
    "sorted": (5, 33, 20, {"sorter": None}), "shared": (6, 35, 50, {"shared": True}), "nothing": (3, 7, 0, {}),
    "shared_sorted": (6, 35, 50, {"shared": True, "sorter": None}), "ties": (9, 300, 77, {"kind": "ties", "right": 1}),
    "special": (9, 300, 77, {"kind": "special"}), "many": (2003, 1, 9, {}), "long": (3, 1500, 20001, {}),
    "long_sorted": (3, 3000, 20001, {"sorter": None}), "large": (40, 3001, 129, {}),
}  # fmt: skip
MEMBERS = {  # numel, length, options
    "one": (1, 1, {}), "plain": (33, 100, {}), "not": (33, 100, {"invert": 1}), "nothing": (17, 0, {}),
    "not_nothing": (17, 0, {"invert": 1}), "ties": (1000, 600, {"kind": "ties"}),
    "special": (777, 300, {"kind": "special"}), "not_special": (777, 300, {"kind": "special", "invert": 2}),
    "two_levels": (4099, 33333, {}), "few_in_many": (5, 40003, {}), "large": (150001, 5003, {}),
}  # fmt: skip

CASES = (
    Case(
        row="searchsorted_{T}",
        problems={name: lambda d, q=q, n=n, k=k: search(d, q, n, **k) for name, (q, n, k) in SEARCHES.items()}
        | {"nothing_null": lambda d: search(d, 9, 0, null=("sorted_seq",))},
        reference=search_reference, tolerance={"output": "exact"}, plain="plain", large="large",
        bad=(
            Bad("negative", 2, r"num_queries is -2", {"num_queries": -2}, can=2),
            Bad("negative_length", 2, r"len_sorted is -3", {"len_sorted": -3}, can=2),
            Bad("far", 2, rf"num_queries is {2**60}", {"num_queries": 2**60}, can=2),
            *pointers(("sorted_seq", "values", "output")),
        ),
        idle=(Idle("nothing", {"num_queries": 0}),),
    ),
    Case(
        row="searchsorted_rows{I}_{T}",
        problems={
            name: lambda d, r=r, q=q, n=n, k=k: search_rows(d, r, q, n, **k) for name, (r, q, n, k) in ROWS.items()
        },
        reference=search_rows_reference, tolerance={"output": "exact"}, plain="plain", large="large",
        bad=(
            Bad("negative", 2, r"rows is -2", {"rows": -2}, can=2),
            Bad("negative_queries", 2, r"queries is -2", {"queries": -2}, can=2),
            Bad("negative_length", 2, r"len_sorted is -3", {"len_sorted": -3}, can=2),
            Bad("sequences", 2, r"sequences is 2, must be 1 or rows, 5", {"sequences": 2}, can=2),
            *pointers(("sorted_seq", "values", "output")),
        ),
        idle=(Idle("no_rows", {"rows": 0, "sequences": 0}), Idle("no_queries", {"queries": 0})),
    ),
    Case(
        row="isin_sorted_{T}",
        problems={name: lambda d, q=q, n=n, k=k: isin(d, q, n, **k) for name, (q, n, k) in MEMBERS.items()},
        reference=isin_reference, tolerance={"output": "exact"}, plain="plain", large="large",
        bad=(
            Bad("negative", 2, r"numel is -2", {"numel": -2}, can=2),
            Bad("negative_length", 2, r"len_sorted is -3", {"len_sorted": -3}, can=2),
            *pointers(("values", "sorted_seq", "output")),
        ),
        idle=(Idle("nothing", {"numel": 0}),),
    ),
)  # fmt: skip
