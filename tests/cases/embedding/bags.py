# SPDX-License-Identifier: Apache-2.0
"""embedding_bag (sum and mean) and its gradient."""

import dataclasses

import numpy as np

from ..model import Array, Bad, Case, Expected, Idle, Problem
from ..segment import distribution

SUM, MEAN = 0, 1


def bag_lengths(draw, name, bags):
    if name == "even":
        return np.full(bags, 5)
    if name == "ragged":  # a third of the bags is empty
        return np.where(draw.rng.random(bags) < 0.3, 0, draw.rng.integers(1, 12, bags))
    if name == "one_long":
        lengths = np.ones(bags, np.int64)
        lengths[bags // 2] = 900
        return lengths
    if name == "empty":
        return np.zeros(bags, np.int64)
    raise ValueError(name)


def offsets_of(draw, starts, total, move):
    """The starts after `move`, since a caller may get them wrong; i64 ones have low halves that would be valid."""
    moved = np.asarray(move(starts, total) if move else starts, np.int64)
    if draw.offset == "i64":
        moved = np.where(moved >= 2**31 - 1, 2**32 + 1, np.where(moved <= -(2**31), -(2**32) + 1, moved))
    return Array(draw.offset, starts.shape, moved)


def scalars_of(total, rows, dim, bags, mode, padding):
    names = ("total_indices", "num_embeddings", "embedding_dim", "num_bags", "mode", "padding_idx")
    return dict(zip(names, (total, rows, dim, bags, mode, padding)))


def indices_of(draw, lengths, bags, rows, spread):
    lengths = bag_lengths(draw, lengths, bags) if isinstance(lengths, str) else np.asarray(lengths, np.int64)
    starts = np.concatenate([[0], np.cumsum(lengths)])[:bags].astype(np.int64)
    return draw.indices(distribution(draw, spread, int(lengths.sum()), rows)), starts


def bag(
    draw, bags, rows, dim, mode=SUM, padding=-1, lengths="ragged", spread="uniform", kind="normal", move=None, null=()
):
    indices, starts = indices_of(draw, lengths, bags, rows, spread)
    offsets = offsets_of(draw, starts, indices.shape[0], move)
    arrays = {"weight": draw.floats((rows, dim), kind), "indices": indices, "offsets": offsets}
    arrays["out"] = draw.output((bags, dim))
    return Problem(scalars_of(indices.shape[0], rows, dim, bags, mode, padding), arrays, null=null)


def valid_by_bag(problem):
    """The indices that each bag sums."""
    s = problem.scalars
    indices, offsets = problem.arrays["indices"].values, problem.arrays["offsets"].values
    ends = np.append(offsets[1:], s["total_indices"])[: s["num_bags"]]  # the last bag ends with the indices
    for start, end in zip(np.clip(offsets, 0, s["total_indices"]), np.clip(ends, 0, s["total_indices"])):
        inside = indices[start:end]
        yield inside[(inside >= 0) & (inside < s["num_embeddings"]) & (inside != s["padding_idx"])]


def with_last_offset(make):
    """A problem whose extra last offset ends the last bag one index early."""

    def made(draw, bags, rows, dim, mode=SUM, **options):
        problem = make(draw, bags, rows, dim, mode, **options)
        starts, total = problem.arrays["offsets"].values, problem.scalars["total_indices"]
        last = max(int(starts.max(initial=0)), total - 1)
        problem.arrays["offsets"] = Array(draw.offset, (bags + 1,), np.append(starts, last))
        return problem

    return made


def bag_reference(problem):
    weight, s = problem.arrays["weight"].values, problem.scalars
    value, size, count = np.zeros((3, s["num_bags"], s["embedding_dim"]))
    with np.errstate(invalid="ignore", over="ignore"):
        for b, valid in enumerate(valid_by_bag(problem)):
            divisor = max(len(valid), 1) if s["mode"] == MEAN else 1
            value[b], size[b] = weight[valid].sum(0) / divisor, np.abs(weight[valid]).sum(0) / divisor
            count[b] = len(valid)
    return {"out": Expected(value, count, size)}


def bag_backward(
    draw, bags, rows, dim, mode=SUM, padding=-1, lengths="ragged", spread="uniform", kind="normal", move=None
):
    indices, starts = indices_of(draw, lengths, bags, rows, spread)
    offsets = offsets_of(draw, starts, indices.shape[0], move)
    arrays = {"dout": draw.floats((bags, dim), kind), "indices": indices, "offsets": offsets}
    arrays["dweight"] = draw.floats((rows, dim))
    return Problem(scalars_of(indices.shape[0], rows, dim, bags, mode, padding), arrays)


def bag_backward_reference(problem):
    dout, s = problem.arrays["dout"].values, problem.scalars
    value = problem.arrays["dweight"].values.copy()
    size, divided, count = np.abs(value), np.zeros_like(value), np.ones_like(value)
    with np.errstate(invalid="ignore", over="ignore"):
        for b, valid in enumerate(valid_by_bag(problem)):
            term = dout[b] / len(valid) if s["mode"] == MEAN and len(valid) else dout[b]
            np.add.at(value, valid, term)
            np.add.at(size, valid, np.abs(term))
            np.add.at(count, valid, 1)
            if s["mode"] == MEAN and len(valid) > 1:
                np.add.at(divided, valid, np.abs(term))
    return {"dweight": Expected(value, count, size, divided)}


WIDTHS = (1, 2, 3, 4, 5, 8, 16, 31, 32, 33, 64, 100, 128, 130, 256, 257, 512, 1030)


def clamped(starts, total):
    """Out of range at both ends, still non-decreasing."""
    moved = starts.copy()
    moved[:2], moved[-2:] = (-(2**31), -3), (total + 1, 2**31 - 1)
    return moved


def shuffled(starts, total):
    """Offsets that are not sorted: bags are empty, and bags overlap."""
    return starts[np.random.default_rng(len(starts)).permutation(len(starts))]


def late(starts, total):
    """Indices before the first offset belong to no bag."""
    return np.maximum(starts, min(4, total))


def problems(make, *, any_offsets):
    def add(name, *args, **options):
        table[name] = lambda d: make(d, *args, **options)

    table = {}
    add("one", 1, 1, 1, lengths=(1,))
    for k, width in enumerate(WIDTHS):
        add(f"d{width}", 17, 19, width, (SUM, MEAN)[k % 2])
    for mode, name in ((SUM, "sum"), (MEAN, "mean")):
        for spread in ("hot", "giant", "invalid", "mixed"):
            add(f"{name}_{spread}", 41, 29, 6, mode, spread=spread)
        add(f"{name}_padding", 41, 5, 6, mode, padding=2)
        add(f"{name}_all_padding", 41, 29, 6, mode, padding=28, spread="giant")
        add(f"{name}_one_long", 21, 50, 7, mode, lengths="one_long")
        add(f"{name}_one_bag", 1, 33, 12, mode, lengths=(501,))
        add(f"{name}_empty", 13, 7, 5, mode, lengths="empty")
        add(f"{name}_special", 31, 40, 5, mode, kind="special")
        add(f"{name}_clamped", 31, 40, 5, mode, move=clamped)
        add(f"{name}_late", 31, 40, 5, mode, move=late)
        if any_offsets:
            add(f"{name}_shuffled", 31, 40, 5, mode, move=shuffled)
    add("no_embeddings", 9, 0, 5)
    add("padding_wraps", 41, 5, 6, padding=2**32 + 2)
    add("padding_negative", 41, 5, 6, padding=-100)
    for mode, name in ((SUM, "sum"), (MEAN, "mean")):  # longer than one group of threads takes, and than one tile
        add(f"{name}_long_bags", 5, 900, 12, mode, lengths=(3, 1500, 0, 700, 40))
        add(f"{name}_long_wide", 3, 50, 260, mode, lengths=(600, 1, 2600))
    add("long_hot_row", 60, 40, 132, lengths="even", spread="giant")
    add("many_bags", 3001, 200, 3, MEAN)
    add("hot_row", 700, 60, 5, MEAN, lengths="even", spread="giant")
    add("large", 600, 300, 36, MEAN, lengths="even", spread="hot")
    return table


def bad_calls(first, output):
    pointers = (first, "indices", "offsets", output)
    extents = ("total_indices", "num_embeddings", "embedding_dim", "num_bags")
    bad = [Bad(f"negative_{e}", 2, rf"{e} is -6", {e: -6}, can=2) for e in extents]
    bad += [Bad(f"mode_{m}", 3, rf"mode is {m}", {"mode": m}, can=3) for m in (2, -1)]
    bad += [Bad(f"null_{a}", 2, rf"{a} is NULL", null=(a,)) for a in pointers]
    bad += [
        # the order of the checks: extents, mode, pointers
        Bad("mode_before_null", 3, r"mode is 7", {"mode": 7}, null=(output,), can=3),
        Bad("extent_before_mode", 2, r"total_indices is -1", {"mode": 7, "total_indices": -1}, can=2),
        Bad("mode_without_bags", 3, r"mode is 9", {"num_bags": 0, "mode": 9}, can=3),
        Bad("negative_beside_0", 2, r"embedding_dim is -1", {"num_bags": 0, "embedding_dim": -1}, can=2),
        Bad("mode_without_columns", 3, r"mode is 2", {"embedding_dim": 0, "mode": 2}, can=3),
    ]
    return (*bad, *(Bad(f"odd_{a}", 1, rf"{a} is 0x[0-9a-f]+", shift={a: 1}) for a in pointers))


NOTHING_OUT = (Idle("no_bags", {"num_bags": 0}), Idle("no_columns", {"embedding_dim": 0}))
NOTHING_ADDED = tuple(Idle(f"no_{e}", {e: 0}) for e in ("total_indices", "num_embeddings"))


ZEROS = {  # operands that are not read may be NULL
    "no_indices_null": lambda d: bag(d, 13, 7, 5, MEAN, lengths="empty", null=("weight", "indices", "offsets")),
    "no_embeddings_null": lambda d: bag(d, 9, 0, 5, null=("weight", "indices", "offsets")),
}
CASES = (
    Case(
        row="embedding_bag{I}{O}_{T}", problems=problems(bag, any_offsets=True) | ZEROS, reference=bag_reference,
        tolerance={"out": "mean"}, plain="d5", large="large",
        bad=(
            *bad_calls("weight", "out"),
            *(Bad(f"null_out_no_{e}", 2, r"out is NULL", {e: 0}, null=("out",))
              for e in ("total_indices", "num_embeddings")),
        ),
        idle=NOTHING_OUT,
    ),
    Case(
        row="embedding_bag_backward{I}{O}_{T}", problems=problems(bag_backward, any_offsets=False),
        reference=bag_backward_reference, tolerance={"dweight": "total_of_quotients"},
        tolerance_without_workspace={"dweight": "atomic_total_of_quotients"}, plain="d5", large="large",
        bad=bad_calls("dout", "dweight"),
        idle=(*NOTHING_OUT, *NOTHING_ADDED),
    ),
)  # fmt: skip
CASES += tuple(
    dataclasses.replace(
        case, row=case.row.replace("embedding_bag", "embedding_bag_last_offset"),
        problems=problems(with_last_offset(make), any_offsets=make is bag),
    )
    for case, make in zip(CASES, (bag, bag_backward))
)  # fmt: skip
