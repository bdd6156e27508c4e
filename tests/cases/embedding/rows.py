# SPDX-License-Identifier: Apache-2.0
"""embedding and embedding_bag_max, and their gradients."""

import numpy as np

from ..model import Array, Bad, Case, Expected, Idle, Problem
from ..segment import DISTRIBUTIONS, distribution
from .bags import MEAN, NOTHING_OUT, WIDTHS, bad_calls, bag, problems, valid_by_bag


def scalars_of(n, rows, dim, padding):
    return {"num_indices": n, "num_embeddings": rows, "embedding_dim": dim, "padding_idx": padding}


def embedding(draw, n, rows, dim, padding=-1, spread="uniform", kind="normal", null=()):
    indices = draw.indices(distribution(draw, spread, n, rows))
    arrays = {"weight": draw.values((rows, dim), kind), "indices": indices, "out": draw.output((n, dim))}
    return Problem(scalars_of(n, rows, dim, padding), arrays, null=null)


def valid_of(problem):
    indices, s = problem.arrays["indices"].values, problem.scalars
    return (indices >= 0) & (indices < s["num_embeddings"]) & (indices != s["padding_idx"])


def embedding_reference(problem):
    weight, valid = problem.arrays["weight"].values, valid_of(problem)
    value = np.zeros((len(valid), problem.scalars["embedding_dim"]), weight.dtype)
    value[valid] = weight[problem.arrays["indices"].values[valid]]
    return {"out": Expected(value)}


def embedding_backward(draw, n, rows, dim, padding=-1, spread="uniform", kind="normal"):
    indices = draw.indices(distribution(draw, spread, n, rows))
    arrays = {"dout": draw.floats((n, dim), kind), "indices": indices, "dweight": draw.floats((rows, dim))}
    return Problem(scalars_of(n, rows, dim, padding), arrays)


def embedding_backward_reference(problem):
    dout, valid = problem.arrays["dout"].values, valid_of(problem)
    value = problem.arrays["dweight"].values.copy()
    size, count = np.abs(value), np.ones_like(value)
    rows = problem.arrays["indices"].values[valid]
    with np.errstate(invalid="ignore", over="ignore"):
        np.add.at(value, rows, dout[valid])
        np.add.at(size, rows, np.abs(dout[valid]))
        np.add.at(count, rows, 1)
    return {"dweight": Expected(value, count, size)}


def row_problems(make):
    def add(name, *args, **options):
        table[name] = lambda d: make(d, *args, **options)

    table = {}
    add("one", 1, 1, 1)
    for width in WIDTHS:
        add(f"d{width}", 61, 13, width)
    for spread in DISTRIBUTIONS:
        add(spread, 301, 23, 6, spread=spread)
        add(f"{spread}_wide", 301, 23, 132, spread=spread)
    add("padding", 301, 5, 6, padding=2)
    add("padding_wraps", 61, 5, 6, padding=2**32 + 2)
    add("padding_negative", 61, 5, 6, padding=-100, spread="mixed")
    add("all_padding", 61, 23, 6, padding=22, spread="giant")
    add("long_hot_row", 9000, 7, 12, spread="giant")
    add("special", 90, 60, 7, kind="special")
    add("large", 3000, 251, 36, spread="hot")
    return table


def row_bad_calls(names):
    extents = ("num_indices", "num_embeddings", "embedding_dim")
    bad = [Bad(f"negative_{e}", 2, rf"{e} is -6", {e: -6}, can=2) for e in extents]
    bad += [Bad("negative_beside_0", 2, r"embedding_dim is -1", {"num_indices": 0, "embedding_dim": -1}, can=2)]
    bad += [Bad(f"null_{a}", 2, rf"{a} is NULL", null=(a,)) for a in names]
    return (*bad, *(Bad(f"odd_{a}", 1, rf"{a} is 0x[0-9a-f]+", shift={a: 1}) for a in names))


NO_ROWS = (Idle("no_indices", {"num_indices": 0}), Idle("no_columns", {"embedding_dim": 0}))


def bag_max(draw, *args, **options):
    problem = bag(draw, *args, **options)
    del problem.scalars["mode"]
    problem.arrays["out_index"] = Array(draw.offset, problem.arrays["out"].shape, None)
    return problem


def bag_max_reference(problem):
    weight, s = problem.arrays["weight"].values, problem.scalars
    value, row = np.zeros((s["num_bags"], s["embedding_dim"])), np.full((s["num_bags"], s["embedding_dim"]), -1)
    for b, valid in enumerate(valid_by_bag(problem)):
        for k in valid.astype(np.int64):
            wins = (row[b] < 0) | (weight[k] > value[b])
            value[b], row[b] = np.where(wins, weight[k], value[b]), np.where(wins, k, row[b])
    return {"out": Expected(value), "out_index": Expected(row)}


def with_end(draw, bags, rows, dim, mode=0, **options):
    """A mode of sums, which maxima do not have, says whether an extra offset ends the last bag."""
    problem = bag_max(draw, bags, rows, dim, **options)
    problem.scalars["include_last_offset"] = int(mode == MEAN)
    if mode == MEAN:
        starts, total = problem.arrays["offsets"].values, problem.scalars["total_indices"]
        last = max(int(starts.max(initial=0)), total - 2)
        problem.arrays["offsets"] = Array(draw.offset, (bags + 1,), np.append(starts, last))
    return problem


def without_end(draw, bags, rows, dim, mode=0, **options):
    return bag_max(draw, bags, rows, dim, **options)


def bag_max_problems(make=without_end):
    """The problems of bag sums."""

    return problems(make, any_offsets=True)


def bag_max_backward(draw, bags, rows, dim, spread="uniform", kind="normal"):
    rows_of = distribution(draw, spread, bags * dim, rows).reshape(bags, dim)
    arrays = {"dout": draw.floats((bags, dim), kind), "out_index": draw.indices(rows_of)}
    arrays["dweight"] = draw.floats((rows, dim))
    return Problem({"num_embeddings": rows, "embedding_dim": dim, "num_bags": bags}, arrays)


def bag_max_backward_reference(problem):
    dout, rows = problem.arrays["dout"].values, problem.arrays["out_index"].values
    value = problem.arrays["dweight"].values.copy()
    size, count = np.abs(value), np.ones_like(value)
    at = np.nonzero((rows >= 0) & (rows < len(value)))
    cells = (rows[at], at[1])
    with np.errstate(invalid="ignore", over="ignore"):
        np.add.at(value, cells, dout[at])
        np.add.at(size, cells, np.abs(dout[at]))
        np.add.at(count, cells, 1)
    return {"dweight": Expected(value, count, size)}


def bag_max_backward_problems():
    def add(name, *args, **options):
        table[name] = lambda d: bag_max_backward(d, *args, **options)

    table = {}
    add("one", 1, 1, 1)
    for width in WIDTHS:
        add(f"d{width}", 61, 13, width)
    for spread in DISTRIBUTIONS:
        add(spread, 301, 2500, 6, spread=spread)
    add("long_hot_row", 3000, 7, 5, spread="giant")
    add("special", 90, 60, 7, kind="special")
    add("large", 600, 251, 36, spread="hot")
    return table


MAX_BAD = (
    *(b for b in bad_calls("weight", "out") if "mode" not in b.scalars),
    Bad("odd_out_index", 1, r"out_index is 0x[0-9a-f]+", shift={"out_index": 1}),
)
BACKWARD_NAMES = ("dout", "out_index", "dweight")
CASES = (
    Case(
        row="embedding{I}_{T}",
        problems=row_problems(embedding) | {
            "no_embeddings": lambda d: embedding(d, 9, 0, 5),
            "no_embeddings_null": lambda d: embedding(d, 9, 0, 5, null=("weight", "indices")),
        },
        reference=embedding_reference, tolerance={"out": "exact"}, plain="d5", large="large",
        bad=(
            *row_bad_calls(("weight", "indices", "out")),
            Bad("null_out_no_embeddings", 2, r"out is NULL", {"num_embeddings": 0}, null=("out",)),
        ),
        idle=NO_ROWS,
    ),
    Case(
        row="embedding_backward{I}_{T}", problems=row_problems(embedding_backward),
        reference=embedding_backward_reference, tolerance={"dweight": "total"},
        tolerance_without_workspace={"dweight": "atomic_total"}, plain="d5", large="large",
        bad=row_bad_calls(("dout", "indices", "dweight")),
        idle=(*NO_ROWS, Idle("no_embeddings", {"num_embeddings": 0})),
    ),
    Case(
        row="embedding_bag_max{I}{O}_{T}",
        problems=bag_max_problems()
        | {"no_embeddings_null": lambda d: bag_max(d, 9, 0, 5, null=("weight", "indices", "offsets"))},
        reference=bag_max_reference, tolerance={"out": "exact", "out_index": "exact"}, plain="d5", large="large",
        bad=(
            *MAX_BAD,
            *(Bad(f"null_{a}_no_{e}", 2, rf"{a} is NULL", {e: 0}, null=(a,))
              for e in ("total_indices", "num_embeddings") for a in ("out", "out_index")),
        ),
        idle=NOTHING_OUT,
    ),
    Case(
        row="embedding_bag_max_last_offset{I}{O}_{T}", problems=bag_max_problems(with_end),
        reference=bag_max_reference, tolerance={"out": "exact", "out_index": "exact"}, plain="d5", large="large",
        bad=(*MAX_BAD, *(Bad(f"null_{a}", 2, rf"{a} is NULL", null=(a,)) for a in ("out", "out_index"))),
        idle=NOTHING_OUT,
    ),
    Case(
        row="embedding_bag_max_backward{I}_{T}", problems=bag_max_backward_problems(),
        reference=bag_max_backward_reference, tolerance={"dweight": "total"},
        tolerance_without_workspace={"dweight": "atomic_total"}, plain="d5", large="large",
        bad=(
            *(Bad(f"negative_{e}", 2, rf"{e} is -6", {e: -6}, can=2)
              for e in ("num_embeddings", "embedding_dim", "num_bags")),
            *(Bad(f"null_{a}", 2, rf"{a} is NULL", null=(a,)) for a in BACKWARD_NAMES),
            *(Bad(f"odd_{a}", 1, rf"{a} is 0x[0-9a-f]+", shift={a: 1}) for a in BACKWARD_NAMES),
        ),
        idle=tuple(Idle(f"no_{e}", {e: 0}) for e in ("num_embeddings", "embedding_dim", "num_bags")),
    ),
)  # fmt: skip
