# SPDX-License-Identifier: Apache-2.0
"""Segment reductions and their gradients."""

import numpy as np

from tools.bench.check import compare, rows, sample_indices, sums
from tools.bench.record import Bench, Bound, Operand


def in_order(n, segments):
    return lambda rng: np.sort(rng.integers(0, segments, n))


def at_random(n, segments):
    return lambda rng: rng.integers(0, segments, n)


def giant(n, segments):
    return lambda rng: np.full(n, segments // 2)


def apart(n, segments):
    """Segments of equal size, with rows in random order."""
    return lambda rng: rng.permutation(np.arange(n) % segments)


def torch_segment_reduce(op):
    def peer(torch, t, scalars):
        lengths = torch.bincount(t["segment_ids"], minlength=scalars["num_segments"])
        return lambda: torch.segment_reduce(t["input"], op, lengths=lengths, axis=0, unsafe=True)

    return peer


def torch_scatter_reduce(op):
    def peer(torch, t, scalars):
        ids = t["segment_ids"][:, None].expand_as(t["input"])
        return lambda: t["output"].scatter_reduce_(0, ids, t["input"], op, include_self=False)

    return peer


def torch_index_add(torch, t, scalars):
    return lambda: t["output"].zero_().index_add_(0, t["segment_ids"], t["input"])


def torch_rows(torch, t, scalars):
    return lambda: torch.index_select(t["d_output"], 0, t["segment_ids"])


def torch_rows_into(torch, t, scalars):
    return lambda: torch.index_select(t["d_output"], 0, t["segment_ids"], out=t["d_input"])


def numpy_reduceat(ufunc, empty):
    def make(a, scalars):
        ids, start = np.unique(a["segment_ids"], return_index=True)

        def peer():
            a["output"][...] = empty
            a["output"][ids] = ufunc.reduceat(a["input"], start, axis=0)

        return peer

    return make


def numpy_at(ufunc, empty):
    def make(a, scalars):
        def peer():
            a["output"][...] = empty
            ufunc.at(a["output"], a["segment_ids"], a["input"])

        return peer

    return make


def numpy_rows(mode):
    return lambda a, scalars: lambda: np.take(a["d_output"], a["segment_ids"], axis=0, out=a["d_input"], mode=mode)


def check_sum(problem):
    ids, segments = problem.indices["segment_ids"], problem.bench.scalars["num_segments"]
    chosen = np.append(sample_indices(problem, segments), ids[len(ids) // 2])
    counts = np.bincount(ids, minlength=segments)
    return sums(problem, "output", "input", chosen, counts, lambda segment: (np.flatnonzero(ids == segment), 1.0))


def check_backward(problem):
    ids = problem.indices["segment_ids"]
    chosen = sample_indices(problem, len(ids))
    return compare(problem, rows(problem, "d_input", chosen), rows(problem, "d_output", ids[chosen]), 0.0)


def rows_of(problem, op):
    """Sampled segments, and the input rows of each."""
    ids, segments = problem.indices["segment_ids"], problem.bench.scalars["num_segments"]
    for segment in np.unique(np.append(sample_indices(problem, segments), ids[len(ids) // 2])):
        found = np.flatnonzero(ids == segment)
        if len(found) <= _MOST_ROWS:
            yield segment, found, rows(problem, "input", found) if op else None


def check_fold(op):
    def check(problem):
        for segment, found, x in rows_of(problem, op):
            expected = {"max": -np.inf, "min": np.inf, "prod": 1.0, "mean": 0.0}[op]
            if len(found):
                expected = getattr(x.astype(np.float64), op)(0)
            # magnitudes for the rounding error of sums, whose summands may cancel, and of products in any order
            magnitude = {"mean": np.abs(x).sum(0), "prod": len(found) * np.abs(expected)}.get(op, 0.0)
            by_atomics = op in ("prod", "mean") and not problem.bench.workspace and problem.dtype == "bf16"
            got = rows(problem, "output", [segment])[0]
            if wrong := compare(problem, got, expected, magnitude, problem.dtype if by_atomics else "f32"):
                return f"output[{segment}] {wrong}"
        return ""

    return check


def check_gradient(op):
    def check(problem):
        counts = np.bincount(problem.indices["segment_ids"], minlength=problem.bench.scalars["num_segments"])
        for segment, found, x in rows_of(problem, op != "mean"):
            dy = rows(problem, "d_output", [segment])[0].astype(np.float64)
            if op == "mean":
                expected = np.broadcast_to(dy / max(counts[segment], 1), (len(found), len(dy)))
            elif op == "prod":
                expected = dy * (rows(problem, "output", [segment])[0].astype(np.float64) / x)
            else:
                first = (x.argmax(0) if op == "max" else x.argmin(0)) if len(found) else 0
                expected = np.where(np.arange(len(found))[:, None] == first, dy, 0.0)
            if wrong := compare(problem, rows(problem, "d_input", found), expected, np.abs(expected)):
                return f"d_input of segment {segment} {wrong}"
        return ""

    return check


_MOST_ROWS = 1 << 16  # of a sampled segment


def made(backend, name, ids, bound, *, row="", index="", segments=16, check=None, fill="sixteenths", **given):
    """`segments`: the mean number of rows per segment."""
    n, d = (2**21, 128) if backend == "cuda" else (2**17, 128)
    many, index = n // segments, index or ("i32" if backend == "cuda" else "i64")  # of PyTorch
    arrays = {"segment_ids": Operand((n,), ids(n, many))}
    row = row or name.split()[0]
    if is_backward := "backward" in row:
        arrays |= {"d_output": Operand((many, d), "sixteenths"), "d_input": Operand((n, d))}
        arrays |= {"input": Operand((n, d), fill)} if "sum" not in row and "mean" not in row else {}
        arrays |= {"output": Operand((many, d), "above one")} if "prod" in row else {}
    else:
        arrays |= {"input": Operand((n, d), fill), "output": Operand((many, d))}
    return Bench(
        name=name, row=f"{row}{{I}}_{{T}}", dtypes=("f32", "bf16"), index=index, arrays=arrays,
        scalars={"n": n, "d": d, "num_segments": many},
        check=check or (check_backward if is_backward else check_sum), bounds=(bound,), **given,
    )  # fmt: skip


def reduced(op):
    ufunc, empty, _ = OPS[op]
    numpy = (numpy_reduceat(ufunc, empty),) if ufunc else ()
    both = (torch_segment_reduce(op), torch_index_add) if op == "sum" else (torch_segment_reduce(op),)
    return {"torch": both, "numpy": numpy, "workspace": True}


def added(op):
    ufunc, empty, torch = OPS[op]
    numpy = (numpy_at(ufunc, empty),) if ufunc else ()
    return {"torch": (torch_index_add if op == "sum" else torch_scatter_reduce(torch),), "numpy": numpy}


# NumPy's ufunc and its identity, PyTorch's name
OPS = {
    "sum": (np.add, 0, "sum"), "mean": (None, 0, "mean"), "max": (np.maximum, -np.inf, "amax"),
    "min": (np.minimum, np.inf, "amin"), "prod": (np.multiply, 1, "prod"),
}  # fmt: skip
GATHERED = {"torch": (torch_rows, torch_rows_into), "numpy": (numpy_rows("raise"), numpy_rows("clip"))}


def sums_of(backend):
    if backend == "cuda":
        near = Bound("times", 1.5, "segment_sum")
        yield made(backend, "segment_sum", in_order, Bound("copy", 0.85), **reduced("sum"))
        yield made(backend, "segment_sum giant", giant, near, **reduced("sum"))
        yield made(backend, "segment_sum tiny", in_order, near, segments=2, **reduced("sum"))
        yield made(backend, "segment_sum i64", in_order, near, index="i64", **reduced("sum"))
        hot = Bound("times", 2.0, "unsorted_segment_sum")
        for how in ("", " deterministic"):
            by = {"workspace": bool(how), **added("sum")}
            yield made(backend, f"unsorted_segment_sum giant{how}", giant, hot, **by)
            yield made(backend, f"unsorted_segment_sum distinct{how}", apart, hot, segments=1, **by)
            yield made(backend, f"unsorted_segment_sum i64{how}", at_random, hot, index="i64", **by)
        yield made(backend, "unsorted_segment_sum", at_random, Bound("peer", 2.7), **added("sum"))
        yield made(
            backend, "unsorted_segment_sum deterministic", at_random, Bound("peer", 4.0), workspace=True, **added("sum")
        )
        for index in ("i32", "i64"):
            name = f"segment_sum_backward {index}"
            yield made(backend, name, in_order, Bound("copy", 0.77), index=index, **GATHERED)
    else:
        level = Bound("peer", 1.0)
        yield made(backend, "segment_sum", in_order, level, **reduced("sum"))
        yield made(backend, "unsorted_segment_sum", at_random, level, **added("sum"))
        yield made(backend, "unsorted_segment_sum deterministic", at_random, level, workspace=True, **added("sum"))
        yield made(backend, "segment_sum_backward", in_order, level, **GATHERED)
    yield made(backend, "unsorted_segment_sum_backward", at_random, Bound("peer", 1.0), **GATHERED)


def reductions_of(backend):
    on_gpu = backend == "cuda"
    for op in ("mean", "max", "min", "prod"):
        forward = Bound("copy", 0.75) if on_gpu else Bound("peer", 1.0)
        fill = "above one" if op == "prod" else "normal"
        own = {"check": check_fold(op), "fill": fill}
        name = f"segment_{op}"
        yield made(backend, name, in_order, forward, **own, **reduced(op))
        if op in ("max", "min"):
            yield made(backend, f"{name}_or_zero", in_order, forward, **own, **reduced(op))
        if on_gpu:
            yield made(backend, f"{name} giant", giant, Bound("times", 2.0, name), **own, **reduced(op))
        yield made(backend, f"unsorted_{name}", at_random, forward, **own, **added(op))
        by_sorting = Bound("times", 1.5, f"unsorted_{name}") if on_gpu else Bound("peer", 1.0)
        yield made(backend, f"unsorted_{name} deterministic", at_random, by_sorting, workspace=True, **own, **added(op))
        backward = Bound("copy", 0.75 if op == "mean" else 0.6)
        own["check"] = check_gradient(op)
        for order, ids in (("", in_order), ("unsorted_", at_random)):
            yield made(
                backend, f"{order}{name}_backward", ids, backward if on_gpu else Bound("copy", 0.5), workspace=True,
                torch=(), numpy=(), **own,
            )  # fmt: skip


def benches(backend):
    yield from sums_of(backend)
    yield from reductions_of(backend)
