# SPDX-License-Identifier: Apache-2.0
"""Sorts of rows, along an axis and by key, and their gradients."""

import math

import numpy as np

from tools.bench.check import rows, sample_indices
from tools.bench.record import COUNTS, LENGTHS, SIZES, Bench, Bound, Operand, Sweep


def torch_sort(torch, t, scalars):
    return lambda: torch.sort(next(iter(t.values())), dim=-1, stable=True)


def torch_values(torch, t, scalars):
    return lambda: torch.sort(t["x"], scalars["sort_axis"]).values


def torch_axis(torch, t, scalars):
    return lambda: torch.sort(t["x"], dim=scalars["sort_axis"], stable=True)


def torch_by_key(torch, t, scalars):
    def call():
        keys, order = torch.sort(t["keys"], dim=-1, stable=True)
        return keys, torch.gather(t["values"], -1, order)

    return call


def torch_backward(torch, t, scalars):
    return lambda: torch.zeros_like(t["dy"]).scatter_(-1, t["indices"], t["dy"])


def numpy_sort(a, scalars):
    """NumPy's fast sort has no stable indices, so that the values come from the indices."""

    def call():
        order = np.argsort(a["x"], -1, kind="stable")
        return order, np.take_along_axis(a["x"], order, -1)

    return call


def numpy_values(a, scalars):
    return lambda: np.sort(a["x"], scalars["sort_axis"])


def check_rows(problem):
    """A few rows against NumPy's stable sort."""
    given = "keys" if "keys" in problem.buffers else "x"
    names = [n for n in ("y_vals", "y", "sorted_keys", "y_idx", "indices") if n in problem.buffers]
    if problem.bench.scalars.get("sort_axis") == 0:
        return ""  # the tests compare columns
    chosen = sample_indices(problem, math.prod(problem.buffers[given].operand.shape[:-1]), 4)
    x = rows(problem, given, chosen)
    order = np.argsort(x, -1, kind="stable")
    for name in names:
        is_index = name in ("y_idx", "indices")
        if not np.array_equal(rows(problem, name, chosen), order if is_index else np.take_along_axis(x, order, -1)):
            return f"{name} is wrong"
    return ""


def check_backward(problem):
    chosen = sample_indices(problem, problem.buffers["dy"].operand.shape[0], 4)
    dy, indices, dx = (rows(problem, name, chosen) for name in ("dy", "indices", "dx"))
    expected = np.zeros(dy.shape)
    np.put_along_axis(expected, indices.astype(int), dy, -1)
    return "" if np.array_equal(dx, expected) else "dx is wrong"


def of_rows(name, shape, bound, row="sort_{T}", dtypes=("f32",), fill="normal"):
    arrays = {"x": Operand(shape, fill), "y_vals": Operand(shape), "y_idx": Operand(shape)}
    if row.startswith("argsort"):
        del arrays["y_vals"]
    return Bench(
        name=name, row=row, dtypes=dtypes, arrays=arrays, scalars={"descending": 0}, check=check_rows, workspace=True,
        bounds=(bound,), torch=(torch_sort,), numpy=(numpy_sort,),
    )  # fmt: skip


def of_axis(name, shape, axis, bound, row="sort_axis_{T}"):
    arrays = {"x": Operand(shape, "normal"), "y": Operand(shape), "indices": Operand(shape)}
    if row.startswith("argsort"):
        del arrays["y"]
    if row.startswith("sort_values"):
        del arrays["indices"]
    has_indices = "indices" in arrays
    return Bench(
        name=name, row=row, dtypes=("f32",), arrays=arrays, scalars={"sort_axis": axis, "descending": 0},
        check=check_rows, workspace=True, bounds=(bound,), torch=(torch_axis if has_indices else torch_values,),
        numpy=() if has_indices else (numpy_values,),
    )  # fmt: skip


def backward(name, row, shape, bound):
    def permutations(rng):
        return rng.permuted(np.broadcast_to(np.arange(shape[1], dtype=np.int32), shape), axis=1)

    arrays = {"dy": Operand(shape, "normal"), "indices": Operand(shape, permutations), "dx": Operand(shape)}
    return Bench(name=name, row=row, dtypes=("f32",), arrays=arrays, check=check_backward, bounds=(bound,),
                 torch=(torch_backward,))  # fmt: skip


def benches(backend):
    on_gpu = backend == "cuda"
    rows_4096 = (16384, 4096) if on_gpu else (512, 4096)
    copy, peer = (Bound("copy", 0.35), Bound("peer", 1.0)) if on_gpu else (Bound("peer", 1.0),) * 2
    many, one = (2**20, 17) if on_gpu else (2**16, 17), (1, 2**27 if on_gpu else 2**22)
    yield of_rows("sort rows of 4096", rows_4096, copy, dtypes=("f32", "bf16", "i64", "i32"))
    yield of_rows("sort rows of 17", many, peer)
    yield of_rows("sort rows of 1000", (rows_4096[0] * 4, 1000), peer)
    yield of_rows("sort one row", one, peer, dtypes=("f32", "i32", "bf16"))
    yield of_rows("msort rows of 1024", (rows_4096[0], 1024), peer, row="msort_{T}")
    yield of_rows("argsort rows of 4096", rows_4096, peer, row="argsort_{T}")
    yield of_rows("argsort rows of 65536", (rows_4096[0] // 16, 65536), peer, row="argsort_{T}_big")
    yield of_rows("sort one row, i64 indices", one, peer, row="sort_wide_{T}")
    yield of_axis("sort along axis 1, i64 indices", rows_4096, 1, copy)
    yield of_axis("sort along axis 0, i64 indices", rows_4096[::-1], 0, peer)
    yield of_axis("argsort along axis 1, i64 indices", rows_4096, 1, peer, row="argsort_axis_{T}")
    yield of_axis("sort values along axis 1", rows_4096, 1, peer, row="sort_values_axis_{T}")
    yield of_axis("sort values of one row", one, 1, peer, row="sort_values_axis_{T}")
    keyed = {"keys": Operand(one, "normal"), "values": Operand(one, "sixteenths"), "sorted_keys": Operand(one),
             "sorted_values": Operand(one)}  # fmt: skip
    yield Bench(
        name="sort by key, one row", row="sort_by_key_{T}_{U}", dtypes=("f32",), other="i32", arrays=keyed,
        scalars={"descending": 0}, check=check_rows, workspace=True, bounds=(peer,), torch=(torch_by_key,),
    )  # fmt: skip
    yield backward("sort_backward rows of 4096", "sort_backward_{T}", rows_4096, peer)
    yield backward("msort_backward rows of 1024", "msort_backward_{T}", (rows_4096[0], 1024), peer)


def sweeps(backend):
    numel, none = 2**26 if backend == "cuda" else 2**20, Bound("peer", 1.0)
    inner = {n: of_rows("sort", (numel // n, n), none) for n in LENGTHS}
    yield Sweep(name=f"sort, {numel} elements", axis="row length", points=inner)
    many = {count: of_rows("sort", (count, 4096), none) for count in COUNTS if count * 4096 <= numel}
    yield Sweep(name="sort of rows of 4096", axis="rows", points=many)
    one = {n: of_rows("sort", (1, n), none) for n in SIZES if n <= numel}
    yield Sweep(name="sort of one row", axis="row length", points=one)
