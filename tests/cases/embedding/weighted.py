# SPDX-License-Identifier: Apache-2.0
"""Embedding bags with weighted indices, and the gradients of the table and of the weights."""

import numpy as np

from ..model import Array, Bad, Case, Expected, Idle
from .bags import MEAN, bad_calls, bag, bag_backward, problems


def weighted(make):
    """A problem of embedding_bag; its mode decides whether an extra offset ends the last bag."""

    def made(draw, bags, rows, dim, mode=0, **options):
        problem = make(draw, bags, rows, dim, **options)
        total, arrays = problem.scalars["total_indices"], problem.arrays
        del problem.scalars["mode"]
        problem.scalars["include_last_offset"] = int(mode == MEAN)
        if mode == MEAN:
            starts = arrays["offsets"].values
            last = max(int(starts.max(initial=0)), total - 2)
            arrays["offsets"] = Array(draw.offset, (bags + 1,), np.append(starts, last))
        arrays["per_sample_weights"] = draw.floats((total,))
        return problem

    return made


def weights_backward(draw, *args, **options):
    problem = forward(draw, *args, **options)
    arrays = problem.arrays
    arrays["dout"] = draw.floats(arrays.pop("out").shape)
    arrays["dper_sample_weights"] = draw.output(arrays.pop("per_sample_weights").shape)
    return problem


forward, backward = weighted(bag), weighted(bag_backward)


def valid_by_bag(problem):
    """Positions of the indices that each bag sums."""
    s, arrays = problem.scalars, problem.arrays
    indices, offsets, total = arrays["indices"].values, arrays["offsets"].values, s["total_indices"]
    ends = offsets[1:] if s["include_last_offset"] else np.append(offsets[1:], total)
    for start, end in zip(np.clip(offsets[: s["num_bags"]], 0, total), np.clip(ends, 0, total)):
        k = np.arange(start, max(start, end))
        i = indices[k]
        yield k[(i >= 0) & (i < s["num_embeddings"]) & (i != s["padding_idx"])]


def reference(problem):
    s, indices = problem.scalars, problem.arrays["indices"].values
    weight, scales = problem.arrays["weight"].values, problem.arrays.get("per_sample_weights").values
    value, size, count = np.zeros((3, s["num_bags"], s["embedding_dim"]))
    with np.errstate(invalid="ignore", over="ignore"):
        for b, k in enumerate(valid_by_bag(problem)):
            summands = scales[k, None] * weight[indices[k]]
            value[b], size[b], count[b] = summands.sum(0), np.abs(summands).sum(0), len(k)
    return {"out": Expected(value, count, size)}


def backward_reference(problem):
    dout, indices = problem.arrays["dout"].values, problem.arrays["indices"].values
    scales, value = problem.arrays["per_sample_weights"].values, problem.arrays["dweight"].values.copy()
    size, count = np.abs(value), np.ones_like(value)
    with np.errstate(invalid="ignore", over="ignore"):
        for b, k in enumerate(valid_by_bag(problem)):
            summands = scales[k, None] * dout[b]
            np.add.at(value, indices[k], summands)
            np.add.at(size, indices[k], np.abs(summands))
            np.add.at(count, indices[k], 1)
    return {"dweight": Expected(value, count + (count > 1), size)}


def weights_reference(problem):
    s, indices = problem.scalars, problem.arrays["indices"].values
    dout, weight = problem.arrays["dout"].values, problem.arrays["weight"].values
    value, size = np.zeros((2, s["total_indices"]))
    with np.errstate(invalid="ignore", over="ignore"):
        for b, k in enumerate(valid_by_bag(problem)):
            summands = weight[indices[k]] * dout[b]
            value[k], size[k] = summands.sum(1), np.abs(summands).sum(1)
    return {"dper_sample_weights": Expected(value, s["embedding_dim"], size)}


def bad(first, output, *more):
    calls = [b for b in bad_calls(first, output) if "mode" not in b.scalars]
    calls += [Bad(f"null_{a}", 2, rf"{a} is NULL", null=(a,)) for a in more]
    return (*calls, *(Bad(f"odd_{a}", 1, rf"{a} is 0x[0-9a-f]+", shift={a: 1}) for a in more))


NO_TABLE = {
    "no_embeddings_null": lambda d: forward(d, 9, 0, 5, null=("weight", "indices", "offsets", "per_sample_weights"))
}
CASES = (
    Case(
        row="embedding_bag_weighted{I}{O}_{T}", problems=problems(forward, any_offsets=True) | NO_TABLE,
        reference=reference, tolerance={"out": "mean"}, plain="d5", large="large",
        bad=bad("weight", "out", "per_sample_weights"),
        idle=(Idle("no_bags", {"num_bags": 0}), Idle("no_columns", {"embedding_dim": 0})),
    ),
    Case(
        row="embedding_bag_weighted_backward{I}{O}_{T}", problems=problems(backward, any_offsets=False),
        reference=backward_reference, tolerance={"dweight": "total_of_quotients"},
        tolerance_without_workspace={"dweight": "atomic_total_of_quotients"}, plain="d5", large="large",
        bad=(
            *bad("dout", "dweight", "per_sample_weights"),
        ),
        idle=tuple(Idle(f"no_{e}", {e: 0}) for e in ("num_bags", "embedding_dim", "total_indices", "num_embeddings")),
    ),
    Case(
        row="embedding_bag_weights_backward{I}{O}_{T}", problems=problems(weights_backward, any_offsets=False),
        reference=weights_reference, tolerance={"dper_sample_weights": "total_of_products"}, plain="d5", large="large",
        bad=bad("dout", "dper_sample_weights", "weight"), idle=(Idle("no_indices", {"total_indices": 0}),),
    ),
)  # fmt: skip
