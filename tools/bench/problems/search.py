# SPDX-License-Identifier: Apache-2.0
"""Searching in sorted sequences, histograms, runs and unique elements."""

import numpy as np

from tools.bench.check import cells, same, sample_indices, shape
from tools.bench.record import Bench, Bound, Operand, Sweep

RANGE = {"lo_d": -4.0, "hi_d": 4.0}


def at_random(n, extent):
    return lambda rng: rng.integers(0, extent, n)


def ascending(n, extent):
    return lambda rng: np.sort(rng.integers(0, extent, n))


def runs_of(n, mean):
    """Runs of `mean` equal elements on average."""
    return lambda rng: np.cumsum(rng.integers(0, mean, n) == 0).reshape(n)


# --- checks, by samples ----------------------------------------------------------------------------------------------


def check_positions(output, sequence="sorted_seq"):
    def check(problem):
        keys, values = problem.indices[sequence], problem.indices["values"]
        at = sample_indices(problem, values.size)
        row = keys.reshape(-1, keys.shape[-1])
        queries = values.reshape(-1)[at]
        of = at // values.shape[-1] if len(row) > 1 else np.zeros(len(at), np.int64)
        found = np.array([np.searchsorted(row[r], v) for r, v in zip(of, queries)])
        return same(problem, output, at, found)

    return check


def check_members(problem):
    keys, values = problem.indices["sorted_seq"], problem.indices["values"]
    at = sample_indices(problem, values.size)
    return same(problem, "output", at, np.isin(values[at], keys).astype(np.uint8))


def check_total(problem):
    """Counts of integers are exact; nearly all normal numbers are in a bin."""
    (bins,), (n,) = shape(problem, "output"), shape(problem, "x")
    if "x" in problem.indices:
        counts = np.bincount(problem.indices["x"], minlength=bins)
        if "edges" in problem.indices:
            edges = problem.indices["edges"]
            below = np.concatenate(([0], np.cumsum(counts)))[edges]
            below[-1] += counts[edges[-1]]  # the last bin has its right edge
            counts = np.diff(below)
        return same(problem, "output", np.arange(bins), counts[:bins])
    total = int(cells(problem, "output", np.arange(bins)).sum())
    return "" if 0.99 * n < total <= n else f"the sum of output is {total} of {n} elements"


def check_bins(problem):
    at, bins = sample_indices(problem, shape(problem, "x")[0]), problem.bench.scalars["num_bins"]
    x, edges = cells(problem, "x", at), problem.indices.get("edges", np.linspace(*RANGE.values(), bins + 1))
    found = np.where(x == edges[-1], bins, np.searchsorted(edges, x, side="right")) - 1
    return same(problem, "output", at, np.where(found == bins, -1, found))


def check_runs(counter):
    def check(problem):
        x = problem.indices["x"].reshape(-1)
        expected = len(np.unique(x)) if problem.bench.row.startswith("unique{I}") else 1 + int(np.sum(x[1:] != x[:-1]))
        return same(problem, counter, [0], np.array([expected]))

    return check


def check_consecutive(problem):
    """The runs of a few rows, and their lengths."""
    x = problem.indices["x"]
    batch, length = x.shape
    for row in np.unique(sample_indices(problem, batch, 3)):
        starts = np.flatnonzero(np.concatenate(([True], x[row, 1:] != x[row, :-1])))
        at = row * length + np.arange(len(starts))
        wrong = (same(problem, "counter", [row], np.array([len(starts)])) or
                 same(problem, "y_vals", at, x[row, starts]) or
                 same(problem, "y_counts", at, np.diff(np.append(starts, length))))  # fmt: skip
        if wrong:
            return wrong
    return ""


# --- peers -----------------------------------------------------------------------------------------------------------


def narrow(t, *names):
    """Indices are int64 for torch's peers; these are data, of our width."""
    return [t[name].int() for name in names]


def torch_search(torch, t, scalars):
    sequence, values = narrow(t, "sorted_seq", "values")
    return lambda: torch.searchsorted(sequence, values, out_int32=True)


def numpy_search(a, scalars):
    return lambda: np.searchsorted(a["sorted_seq"].reshape(-1), a["values"])


def torch_isin(torch, t, scalars):
    values, sequence = narrow(t, "values", "sorted_seq")
    return lambda: torch.isin(values, sequence)


def numpy_isin(a, scalars):
    return lambda: np.isin(a["values"], a["sorted_seq"])


def torch_bincount(torch, t, scalars):
    (x,) = narrow(t, "x")
    return lambda: torch.bincount(x, minlength=t["output"].shape[0])


def numpy_bincount(a, scalars):
    return lambda: np.bincount(a["x"], minlength=a["output"].shape[0])


def torch_histogram(torch, t, scalars):
    return lambda: torch.histc(t["x"], t["output"].shape[0], scalars["lo_d"], scalars["hi_d"])


def numpy_histogram(a, scalars):
    return lambda: np.histogram(a["x"], a["output"].shape[0], (scalars["lo_d"], scalars["hi_d"]))


def torch_edges(torch, t, scalars):
    x, edges = narrow(t, "x", "edges")
    return lambda: torch.bincount(torch.bucketize(x, edges, right=True))


def numpy_edges(a, scalars):
    return lambda: np.histogram(a["x"], a["edges"])


def torch_runs(torch, t, scalars):
    x = t["x"].int().reshape(-1)
    return lambda: torch.unique_consecutive(x, return_inverse=True, return_counts=True)


def numpy_runs(a, scalars):
    def peer():
        x = a["x"].reshape(-1)
        heads = np.concatenate(([True], x[1:] != x[:-1]))
        starts = np.flatnonzero(heads)
        return x[starts], np.cumsum(heads) - 1, np.diff(np.append(starts, len(x)))

    return peer


def torch_unique(torch, t, scalars):
    (x,) = narrow(t, "x")
    return lambda: torch.unique(x, return_inverse=True, return_counts=True)


def numpy_unique(a, scalars):
    return lambda: np.unique(a["x"], return_inverse=True, return_counts=True)


# --- problems --------------------------------------------------------------------------------------------------------


def searches(backend, of):
    n = 2**26 if backend == "cuda" else 2**22
    for length, bound in ((1000, 0.5), (2**20, 0.15)):
        yield Bench(
            name=f"searchsorted in {length}", row="searchsorted_{T}", dtypes=("i32",), check=check_positions("output"),
            bounds=of(bound), scalars={"num_queries": n, "len_sorted": length, "right": 0},
            torch=(torch_search,), numpy=(numpy_search,),
            arrays={"sorted_seq": Operand((length,), ascending(length, 2**30)),
                    "values": Operand((n,), at_random(n, 2**30)), "output": Operand((n,))},
        )  # fmt: skip
    rows, queries, length = n // 4096, 4096, 256
    yield Bench(
        name="searchsorted_rows", row="searchsorted_rows{I}_{T}", index="i32", dtypes=("i32",),
        check=check_positions("output"), bounds=of(0.5), torch=(torch_search,),
        scalars={"rows": rows, "queries": queries, "sequences": rows, "len_sorted": length, "right": 0},
        arrays={"sorted_seq": Operand((rows, length), lambda rng: np.sort(rng.integers(0, 2**30, (rows, length)), 1)),
                "values": Operand((rows, queries), at_random((rows, queries), 2**30)),
                "output": Operand((rows, queries))},
    )  # fmt: skip
    yield Bench(
        name="isin_sorted", row="isin_sorted_{T}", dtypes=("i32",), check=check_members, bounds=of(0.5),
        scalars={"numel": n, "len_sorted": 1000, "invert": 0}, torch=(torch_isin,), numpy=(numpy_isin,),
        arrays={"values": Operand((n,), at_random(n, 10000)), "sorted_seq": Operand((1000,), ascending(1000, 10000)),
                "output": Operand((n,))},
    )  # fmt: skip


def bincount(n, bins, bound, *, name="", fill=None):
    return Bench(
        name=name or f"bincount {bins}", row="bincount{I}_{T}", index="i64", dtypes=("i32",), check=check_total,
        bounds=bound, scalars={"n": n, "num_bins": bins}, torch=(torch_bincount,), numpy=(numpy_bincount,),
        arrays={"x": Operand((n,), fill or at_random(n, bins)), "output": Operand((bins,))},
    )  # fmt: skip


def histogram(n, bins, bound):
    return Bench(
        name=f"histogram {bins}", row="histogram{I}_{T}", index="i64", dtypes=("f32", "bf16"), check=check_total,
        bounds=bound, scalars={"n": n, "num_bins": bins, **RANGE}, torch=(torch_histogram,), numpy=(numpy_histogram,),
        arrays={"x": Operand((n,), "normal"), "output": Operand((bins,))},
    )  # fmt: skip


def counts(backend, of):
    n = 2**28 if backend == "cuda" else 2**24
    for bins, bound in ((10, 0.8), (1000, 0.8), (4096, 0.8), (30000, 0.5), (2**20, 0.1)):
        yield bincount(n, bins, of(bound))
    yield bincount(n, 1000, of(0.8), name="bincount of one number", fill=lambda rng: np.full(n, 7))
    yield bincount(n, 2**20, of(0.4), name="bincount of one of 1048576", fill=lambda rng: np.full(n, 70000))
    for bins, bound in ((100, 0.8), (4096, 0.8)):
        yield histogram(n, bins, of(bound))
    edges = Operand((101,), lambda rng: np.sort(rng.integers(0, 2**20, 101)))
    x = Operand((n,), at_random(n, 2**20))
    about = {"dtypes": ("i32",), "scalars": {"n": n, "num_bins": 100}}
    yield Bench(
        name="histogram_edges 100", row="histogram_edges{I}_{T}", index="i64", check=check_total, bounds=of(0.4),
        arrays={"x": x, "edges": edges, "output": Operand((100,))},
        torch=(torch_edges,), numpy=(numpy_edges,), **about,
    )  # fmt: skip
    yield Bench(
        name="histogram_edges_bins 100", row="histogram_edges_bins_{T}", check=check_bins, bounds=of(0.4),
        arrays={"x": x, "edges": edges, "output": Operand((n,))}, **about,
    )  # fmt: skip
    yield Bench(
        name="histogram_bins 100", row="histogram_bins_{T}", check=check_bins, dtypes=("f32",), bounds=of(0.8),
        arrays={"x": Operand((n,), "normal"), "output": Operand((n,))}, scalars={"n": n, "num_bins": 100, **RANGE},
    )  # fmt: skip


def runs(backend, of):
    n = 2**26 if backend == "cuda" else 2**23
    for mean in (2, 1000):
        yield Bench(
            name=f"unique_runs of {mean}", row="unique_runs{I}_{T}", index="i64", dtypes=("i32",),
            check=check_runs("counter"), bounds=of(0.5), workspace=True, torch=(torch_runs,), numpy=(numpy_runs,),
            scalars={"n": n, "width": 1, "max_unique": n, "equal_nan": 1},
            bytes=lambda size, _, m=mean: n * (size + 8) + n // m * (size + 16),
            arrays={"x": Operand((n, 1), runs_of((n, 1), mean)), "values": Operand((n, 1)), "inverse": Operand((n,)),
                    "counts": Operand((n,)), "counter": Operand((1,))},
        )  # fmt: skip
    length = 4096
    yield Bench(
        name="unique_consecutive", row="unique_consecutive_{T}", dtypes=("i32",), check=check_consecutive,
        bounds=of(0.5), scalars={"batch": n // length, "row_len": length, "max_unique": length},
        bytes=lambda size, _: n * size + n // 8 * (size + 4),
        arrays={"x": Operand((n // length, length), runs_of((n // length, length), 8)),
                "y_vals": Operand((n // length, length)), "y_counts": Operand((n // length, length)),
                "counter": Operand((n // length,))},
    )  # fmt: skip
    yield Bench(
        name="unique", row="unique{I}_{T}", index="i64", dtypes=("i32",), check=check_runs("counter"),
        bounds=(Bound("peer", 1.0),), workspace=True, torch=(torch_unique,), numpy=(numpy_unique,),
        scalars={"n": n, "max_unique": n, "equal_nan": 1}, bytes=lambda size, _: n * (size + 8),
        arrays={"x": Operand((n,), at_random(n, 2**20)), "values": Operand((n,)), "inverse": Operand((n,)),
                "counts": Operand((n,)), "counter": Operand((1,))},
    )  # fmt: skip


UNMEASURED = {"unique_rows_{T}": "sort of rows, then unique_consecutive, which both are measured"}


def benches(backend):
    def of(copy):
        return (Bound("copy", copy) if backend == "cuda" else Bound("peer", 1.0),)

    for family in (searches, counts, runs):
        yield from family(backend, of)


def sweeps(backend):
    n = 2**26 if backend == "cuda" else 2**22
    yield Sweep(
        name="bincount", axis="bins", level=True,
        points={2**k: bincount(n, 2**k, ()) for k in (0, 4, 8, 10, 12, 13, 14, 15, 16, 18, 20)},
    )  # fmt: skip
    yield Sweep(
        name="histogram of 256 bins", axis="elements",
        points={2**k: histogram(2**k, 256, ()) for k in range(8, 27 if backend == "cuda" else 23, 2)},
    )  # fmt: skip
