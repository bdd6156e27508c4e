# SPDX-License-Identifier: Apache-2.0
"""Gradients of an embedding table with every option: of rows by index and of bags, scaled by frequency or not."""

import dataclasses

import numpy as np

from ..model import Array, Bad, Case, Expected, Idle
from .bags import MEAN, bag_backward, problems
from .rows import NO_ROWS, embedding_backward, row_bad_calls, row_problems, valid_of
from .weighted import bad, valid_by_bag, weighted


def frequencies(problem):
    """The number of indices that name each row; 1 for all where gradients are not scaled by frequency."""
    indices, s = problem.arrays["indices"].values, problem.scalars
    if not s["scale_grad_by_freq"]:
        return np.ones(s["num_embeddings"])
    return np.bincount(indices[valid_of(problem)].astype(np.int64), minlength=s["num_embeddings"])


def rows_backward(draw, n, rows, dim, *more, **options):
    """Gradients are scaled by frequency in about three problems of four."""
    problem = embedding_backward(draw, n, rows, dim, *more, **options)
    problem.scalars["scale_grad_by_freq"] = int((n + rows + dim) % 4 > 0)
    return problem


def rows_reference(problem):
    dout, valid, often = problem.arrays["dout"].values, valid_of(problem), frequencies(problem)
    rows, value = problem.arrays["indices"].values[valid], problem.arrays["dweight"].values.copy()
    size, count = np.abs(value), np.ones_like(value)
    with np.errstate(invalid="ignore", over="ignore"):
        summands = dout[valid] / often[rows, None]
        np.add.at(value, rows, summands)
        np.add.at(size, rows, np.abs(summands))
        np.add.at(count, rows, 1)
    return {"dweight": Expected(value, count + 2 * (count > 1), size)}


def bags_backward(draw, bags, rows, dim, mode=0, **options):
    """Half of the problems have weights, and all with 5 columns; half have the last bag's end among the offsets; three
    in four scale by frequency. The extents decide, so that a captured problem can be replayed with others of its kind.
    """
    by_weights, has_last, by_frequency = bags % 2, rows % 2, (bags + rows + dim) % 4
    problem = weighted(bag_backward)(draw, bags, rows, dim, MEAN if has_last else 0, **options)
    problem.scalars |= {"mode": mode, "scale_grad_by_freq": int(by_frequency > 0)}
    if not by_weights and dim != 5:
        problem.null = (*problem.null, "per_sample_weights")
    return problem


def bags_reference(problem):
    dout, indices, s = problem.arrays["dout"].values, problem.arrays["indices"].values, problem.scalars
    value, often = problem.arrays["dweight"].values.copy(), frequencies(problem)
    scales = problem.arrays["per_sample_weights"].values
    if "per_sample_weights" in problem.null:
        scales = np.ones(len(indices))
    size, divided, count = np.abs(value), np.zeros_like(value), np.ones_like(value)
    with np.errstate(invalid="ignore", over="ignore"):
        for b, k in enumerate(valid_by_bag(problem)):
            rows, bag_divisor = indices[k], len(k) if s["mode"] == MEAN and len(k) else 1
            summands = (scales[k] / often[rows])[:, None] * (dout[b] / bag_divisor)
            np.add.at(value, rows, summands)
            np.add.at(size, rows, np.abs(summands))
            np.add.at(count, rows, 1)
            if bag_divisor > 1:
                np.add.at(divided, rows, np.abs(summands))
    return {"dweight": Expected(value, count + 3 * (count > 1), size, divided)}


def sparse(make):
    """A problem of a dense gradient as one whose outputs are the table's rows that indices name, their values and
    count."""

    def made(draw, *args, **options):
        problem = make(draw, *args, **options)
        arrays, (n,) = problem.arrays, problem.arrays["indices"].shape
        dim = arrays.pop("dweight").shape[1]
        arrays |= {"rows": draw.output((n,), dtype=draw.index), "values": draw.output((n, dim))}
        arrays["count"] = draw.output((1,), dtype=draw.index)
        return problem

    return made


def sparse_reference(dense, positions):
    """`positions` selects the indices that are summed, of a problem with or without bags."""

    def of(problem):
        s, (n,) = problem.scalars, problem.arrays["indices"].shape
        table = np.zeros((s["num_embeddings"], s["embedding_dim"]))
        whole = dataclasses.replace(problem, arrays=problem.arrays | {"dweight": Array("f64", table.shape, table)})
        found = np.unique(problem.arrays["indices"].values[positions(problem)].astype(np.int64))
        if not s["embedding_dim"]:
            found = found[:0]
        rows = np.full(n, -1)
        rows[: len(found)] = found
        sums, columns = dense(whole)["dweight"], {}
        for name in ("value", "count", "magnitude", "divided"):
            of_rows = np.zeros((n, s["embedding_dim"]))
            of_rows[: len(found)] = np.broadcast_to(getattr(sums, name), table.shape)[found]
            columns[name] = of_rows
        return {"rows": Expected(rows), "values": Expected(**columns), "count": Expected(np.array([len(found)]))}

    return of


def valid_positions(problem):
    return np.concatenate([np.zeros(0, np.int64), *valid_by_bag(problem)]).astype(np.int64)


ROWS = ("dout", "indices", "dweight")
SPARSE = ("rows", "values", "count")
SPARSE_CLASSES = {"rows": "exact", "values": "total_of_quotients", "count": "exact"}
MODES = tuple([Bad(f"mode_{mode}", 3, rf"mode is {mode}", {"mode": mode}, can=3) for mode in (-1, 2)])
ODD_WEIGHTS = Bad("odd_weights", 1, r"per_sample_weights is 0x[0-9a-f]+", shift={"per_sample_weights": 1})
CASES = (
    Case(
        row="embedding_dense_backward{I}_{T}", problems=row_problems(rows_backward), reference=rows_reference,
        tolerance={"dweight": "total_of_quotients"},
        tolerance_without_workspace={"dweight": "atomic_total_of_quotients"}, plain="d5", large="large",
        bad=row_bad_calls(ROWS), idle=(*NO_ROWS, Idle("no_embeddings", {"num_embeddings": 0})),
    ),
    Case(
        row="embedding_bag_dense_backward{I}{O}_{T}", problems=problems(bags_backward, any_offsets=False),
        reference=bags_reference, tolerance={"dweight": "total_of_quotients"},
        tolerance_without_workspace={"dweight": "atomic_total_of_quotients"}, plain="d5", large="large",
        bad=(
            *bad("dout", "dweight"), ODD_WEIGHTS, *MODES,
            Bad("mode_before_null", 3, r"mode is 7", {"mode": 7}, null=("dweight",), can=3),
        ),
        idle=tuple(Idle(f"no_{e}", {e: 0}) for e in ("num_bags", "embedding_dim", "total_indices", "num_embeddings")),
    ),
    Case(
        row="embedding_sparse_backward{I}_{T}",
        problems=row_problems(sparse(rows_backward)) | {
            "no_embeddings": lambda d: sparse(rows_backward)(d, 9, 0, 5),
            "no_indices": lambda d: sparse(rows_backward)(d, 0, 9, 5),
        },
        reference=sparse_reference(rows_reference, valid_of), tolerance=SPARSE_CLASSES, plain="d5", large="large",
        bad=row_bad_calls((*ROWS[:2], *SPARSE)), idle=(),
    ),
    Case(
        row="embedding_bag_sparse_backward{I}{O}_{T}",
        problems=problems(sparse(bags_backward), any_offsets=False),
        reference=sparse_reference(bags_reference, valid_positions),
        tolerance=SPARSE_CLASSES, plain="d5", large="large",
        bad=(
            *(b for b in bad("dout", "values", "rows", "count") if "0" not in b.name), ODD_WEIGHTS, *MODES,
        ),
        idle=(),
    ),
)  # fmt: skip
