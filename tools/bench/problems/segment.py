"""Sums over segments and their gradients."""

import numpy as np

from tools.bench.check import compare, picks, rows, sums
from tools.bench.record import Bench, Bound, Operand


def in_order(n, segments):
    return lambda rng: np.sort(rng.integers(0, segments, n))


def at_random(n, segments):
    return lambda rng: rng.integers(0, segments, n)


def giant(n, segments):
    return lambda rng: np.full(n, segments // 2)


def torch_segment_reduce(torch, t, scalars):
    lengths = torch.bincount(t["segment_ids"], minlength=scalars["num_segments"])
    return lambda: torch.segment_reduce(t["input"], "sum", lengths=lengths, axis=0, unsafe=True)


def torch_index_add(torch, t, scalars):
    return lambda: t["output"].zero_().index_add_(0, t["segment_ids"], t["input"])


def torch_rows(torch, t, scalars):
    return lambda: torch.index_select(t["d_output"], 0, t["segment_ids"])


def torch_rows_into(torch, t, scalars):
    return lambda: torch.index_select(t["d_output"], 0, t["segment_ids"], out=t["d_input"])


def numpy_reduceat(a, scalars):
    ids, start = np.unique(a["segment_ids"], return_index=True)

    def peer():
        a["output"][...] = 0
        a["output"][ids] = np.add.reduceat(a["input"], start, axis=0)

    return peer


def numpy_add_at(a, scalars):
    def peer():
        a["output"][...] = 0
        np.add.at(a["output"], a["segment_ids"], a["input"])

    return peer


def numpy_rows(mode):
    return lambda a, scalars: lambda: np.take(a["d_output"], a["segment_ids"], axis=0, out=a["d_input"], mode=mode)


def check(problem):
    ids, segments = problem.indices["segment_ids"], problem.bench.scalars["num_segments"]
    chosen = np.append(picks(problem, segments), ids[len(ids) // 2])
    counts = np.bincount(ids, minlength=segments)
    return sums(problem, "output", "input", chosen, counts, lambda segment: (np.flatnonzero(ids == segment), 1.0))


def check_backward(problem):
    ids = problem.indices["segment_ids"]
    chosen = picks(problem, len(ids))
    return compare(problem, rows(problem, "d_input", chosen), rows(problem, "d_output", ids[chosen]), 0.0)


def made(backend, name, ids, bound, *, row="", index="i32", segments=16, **given):
    """`segments` is the mean number of rows of one."""
    n, d = (2**21, 128) if backend == "cuda" else (2**17, 128)
    many = n // segments
    arrays = {"segment_ids": Operand((n,), ids(n, many))}
    if is_backward := "backward" in name:
        arrays |= {"d_output": Operand((many, d), "sixteenths"), "d_input": Operand((n, d))}
    else:
        arrays |= {"input": Operand((n, d), "sixteenths"), "output": Operand((many, d))}
    return Bench(
        name=name, row=f"{row or name.split()[0]}{{I}}_{{T}}", dtypes=("f32", "bf16"), index=index, arrays=arrays,
        scalars={"n": n, "d": d, "num_segments": many}, check=check_backward if is_backward else check,
        bounds=(bound,), **given,
    )  # fmt: skip


REDUCED = {"torch": (torch_segment_reduce, torch_index_add), "numpy": (numpy_reduceat,), "workspace": True}
ADDED = {"torch": (torch_index_add,), "numpy": (numpy_add_at,)}
GATHERED = {"torch": (torch_rows, torch_rows_into), "numpy": (numpy_rows("raise"), numpy_rows("clip"))}


def benches(backend):
    if backend == "cuda":
        near = Bound("times", 1.5, "segment_sum")
        yield made(backend, "segment_sum", in_order, Bound("copy", 0.85), **REDUCED)
        yield made(backend, "segment_sum giant", giant, near, **REDUCED)
        yield made(backend, "segment_sum tiny", in_order, near, segments=2, **REDUCED)
        yield made(backend, "unsorted_segment_sum", at_random, Bound("peer", 2.7), **ADDED)
        yield made(
            backend, "unsorted_segment_sum deterministic", at_random, Bound("peer", 4.0), workspace=True, **ADDED
        )
        for index in ("i32", "i64"):
            name = f"segment_sum_backward {index}"
            yield made(backend, name, in_order, Bound("copy", 0.77), index=index, **GATHERED)
    else:
        level = Bound("peer", 1.0)
        yield made(backend, "segment_sum", in_order, level, **REDUCED)
        yield made(backend, "unsorted_segment_sum", at_random, level, **ADDED)
        yield made(backend, "unsorted_segment_sum deterministic", at_random, level, workspace=True, **ADDED)
        yield made(backend, "segment_sum_backward", in_order, level, **GATHERED)
    bound = Bound("peer", 1.0)
    yield made(backend, "unsorted_segment_sum_backward", at_random, bound, **GATHERED)
