# SPDX-License-Identifier: Apache-2.0
"""Top-k of rows, along an axis and of segments; order statistics; and gradients."""

import numpy as np

from tools.bench.check import cells, compare, rows, same, sample_indices
from tools.bench.record import COUNTS, LENGTHS, Bench, Bound, Operand, Sweep

KS = (1, 2, 8, 32, 64, 128, 512, 1024, 2048, 2049, 4096, 8192)


def torch_topk(k, axis=-1):
    return lambda torch, t, scalars: lambda: torch.topk(t["x"], k, axis)


def numpy_topk(k, axis=-1):
    """The k best, sorted: what a NumPy user writes."""

    def peer(a, scalars):
        def call():
            x = a["x"]
            index = np.argpartition(x, x.shape[axis] - k, axis)
            best = np.take(index, np.arange(x.shape[axis] - k, x.shape[axis]), axis)
            values = np.take_along_axis(x, best, axis)
            order = np.flip(np.argsort(values, axis), axis)
            return np.take_along_axis(values, order, axis), np.take_along_axis(best, order, axis)

        return call

    return peer


def check(problem):
    """Compares a few rows with a stable sort."""
    names = ("y_vals", "y_idx") if "y_vals" in problem.buffers else ("values", "indices")
    chosen = sample_indices(problem, problem.buffers["x"].operand.shape[0], 3)
    x, values, index = (rows(problem, name, chosen) for name in ("x", *names))
    expected = np.argsort(-x, 1, kind="stable")[:, : values.shape[1]]
    if not np.array_equal(index.astype(np.int64), expected):
        return "indices are wrong"
    return "" if np.array_equal(values, np.take_along_axis(x, expected, 1)) else "values are wrong"


def check_columns(problem):
    """Compares a few columns with a stable sort."""
    (length, columns), (k, _) = (problem.buffers[name].operand.shape for name in ("x", "values"))
    for column in np.unique(sample_indices(problem, columns, 2)):
        x = cells(problem, "x", np.arange(length) * columns + column)
        best, at = np.argsort(-x, kind="stable")[:k], np.arange(k) * columns + column
        wrong = same(problem, "indices", at, best) or same(problem, "values", at, x[best])
        if wrong:
            return wrong
    return ""


def check_segments(problem):
    """Compares a few segments, all of one length, with a stable sort."""
    count, k = problem.buffers["values"].operand.shape
    length = problem.buffers["x"].operand.shape[0] // count
    for segment in np.unique(sample_indices(problem, count, 2)):
        x = cells(problem, "x", np.arange(length) + segment * length)
        best, at = np.argsort(-x, kind="stable")[:k], np.arange(k) + segment * k
        wrong = same(problem, "indices", at, best) or same(problem, "values", at, x[best])
        if wrong:
            return wrong
    return ""


def check_backward(problem):
    """dx of a few rows is dy at the indices."""
    chosen = sample_indices(problem, problem.buffers["dy"].operand.shape[0], 3)
    dy, index, dx = (rows(problem, name, chosen) for name in ("dy", "indices", "dx"))
    expected = np.zeros(dx.shape)
    np.put_along_axis(expected, index.astype(np.int64), dy, 1)
    return "" if np.array_equal(dx, expected) else "dx is wrong"


def of_rows(name, batch, length, k, bound, *, dtypes=("f32", "bf16")):
    scalars = {"batch": batch, "row_len": length, "k": k, "largest": 1}
    return Bench(
        name=name, row="topk_{T}", dtypes=dtypes, scalars=scalars, check=check, bounds=(bound,), workspace=True,
        arrays={"x": Operand((batch, length), "normal"), "y_vals": Operand((batch, k)), "y_idx": Operand((batch, k))},
        torch=(torch_topk(k),), numpy=(numpy_topk(k),),
    )  # fmt: skip


def of_columns(name, length, columns, k, bound):
    scalars = {
        "rows_numel": columns, "rank": 2, "topk_axis": 0, "axis_len": length, "k": k, "largest": 1, "sorted": 1,
        "rows_shape": (1, columns),
    }  # fmt: skip
    result = Operand((k, columns))
    return Bench(
        name=name, row="topk_axis{I}_{T}", dtypes=("f32",), index="i64", scalars=scalars, check=check_columns,
        bounds=(bound,), workspace=True, torch=(torch_topk(k, 0),), numpy=(numpy_topk(k, 0),),
        arrays={"x": Operand((length, columns), "normal"), "values": result, "indices": result},
    )  # fmt: skip


def of_segments(name, count, length, k, bound):
    offsets = Operand((count + 1,), lambda rng: np.arange(count + 1) * length)
    result = Operand((count, k))
    return Bench(
        name=name, row="topk_segments{I}_{T}", dtypes=("f32",), index="i32", check=check_segments, bounds=(bound,),
        scalars={"n": count * length, "segments": count, "k": k, "largest": 1, "sorted": 1}, workspace=True,
        arrays={"x": Operand((count * length,), "normal"), "offsets": offsets, "values": result, "indices": result},
    )  # fmt: skip


def distinct(batch, length, k):
    return lambda rng: np.argsort(rng.random((batch, length)), 1)[:, :k]


def benches(backend):
    on_gpu = backend == "cuda"
    numel = 2**27 if on_gpu else 2**22
    bound = Bound("copy", 0.25) if on_gpu else Bound("peer", 1.0)  # it reads x and writes little: a copy does both
    for length in (4096, 32768, 262144):
        yield of_rows(f"topk 64 of rows of {length}", numel // length, length, 64, bound)
    yield of_rows("topk 2048 of rows of 2^20", numel // 2**20, 2**20, 2048, bound)
    yield of_rows("topk 64 of one row", 1, numel // 4, 64, bound, dtypes=("f32",))
    yield of_rows("topk 8 of rows of 256", numel // 256, 256, 8, bound)
    yield of_columns("topk 16 along axis 0", 4096, numel // 4096, 16, Bound("peer", 1.0))
    yield of_segments("topk 64 of segments of 4096", numel // 4096, 4096, 64, bound if on_gpu else Bound("copy", 0.05))
    batch, length, k = numel // 4096, 4096, 64
    index = Operand((batch, k), distinct(batch, length, k))
    arrays = {"dy": Operand((batch, k), "normal"), "indices": index, "dx": Operand((batch, length))}
    scattered = Bound("copy", 0.4) if on_gpu else Bound("copy", 0.2)
    yield Bench(
        name="topk_backward of rows", row="topk_backward_{T}", dtypes=("f32",), check=check_backward,
        bounds=(scattered,), scalars={"batch": batch, "k": k, "row_len": length}, arrays=arrays,
    )  # fmt: skip
    yield from order_statistics(backend)
    scalars = {"rows_numel": batch, "rank": 2, "topk_axis": 1, "axis_len": length, "k": k, "rows_shape": (batch, 1)}
    yield Bench(
        name="topk_backward along axis 1", row="topk_axis_backward{I}_{T}", dtypes=("f32",), index="i64",
        check=check_backward, bounds=(scattered,), scalars=scalars, arrays=arrays,
    )  # fmt: skip


def along_rows(batch, length):
    return {"rows_numel": batch, "rank": 2, "order_axis": 1, "axis_len": length, "rows_shape": (batch, 1)}


def check_rank(problem):
    """Compares a few rows with NumPy's partition."""
    chosen = sample_indices(problem, problem.buffers["x"].operand.shape[0], 3)
    x, values = rows(problem, "x", chosen), rows(problem, "values", chosen)
    rank = problem.bench.scalars.get("k", (x.shape[1] - 1) // 2)
    return "" if np.array_equal(values[:, 0], np.partition(x, rank, 1)[:, rank]) else "values are wrong"


def check_mode(problem):
    """The smallest of the most frequent elements of a few rows, and where it is last."""
    chosen = sample_indices(problem, problem.buffers["x"].operand.shape[0], 3)
    x, values, index = (rows(problem, name, chosen) for name in ("x", "values", "indices"))
    for row, value, last in zip(x, values[:, 0], index[:, 0]):
        found, counts = np.unique(row, return_counts=True)
        expected = found[np.argmax(counts)]
        if value != expected or last != np.flatnonzero(row == expected)[-1]:
            return f"the mode is {value} at {last:.0f}, expected {expected}"
    return ""


def check_quantiles(problem):
    """Compares a few rows with NumPy's quantiles of them in float64."""
    batch = problem.buffers["x"].operand.shape[0]
    chosen, q = sample_indices(problem, batch, 3), cells(problem, "q", np.arange(3)).astype(np.float64)
    x = rows(problem, "x", chosen)
    got = np.stack([cells(problem, "y", k * batch + chosen) for k in range(3)])
    return compare(problem, got, np.quantile(x, q, 1), np.abs(x).max())


def check_spread(problem):
    """dx of a few rows: shares of dy at the lower and the upper elements."""
    batch = problem.buffers["dx"].operand.shape[0]
    chosen = sample_indices(problem, batch, 3)
    dx = rows(problem, "dx", chosen)
    expected = np.zeros(dx.shape)
    for k in range(3):
        dy, lower, upper, weight = (cells(problem, n, k * batch + chosen) for n in ("dy", "lower", "upper", "weight"))
        np.add.at(expected, (np.arange(len(chosen)), lower.astype(np.int64)), dy * (1.0 - weight))
        np.add.at(expected, (np.arange(len(chosen)), upper.astype(np.int64)), dy * (1.0 * weight))
    return compare(problem, dx, expected, np.abs(expected))


def torch_order(name, *arguments):
    return lambda torch, t, scalars: lambda: getattr(torch, name)(t["x"], *arguments, dim=1)


def one_result(name, row, batch, length, torch, numpy=(), *, check=check_rank, function="", **scalars):
    arrays = {"x": Operand((batch, length), "normal"), "values": Operand((batch, 1)), "indices": Operand((batch, 1))}
    return Bench(
        name=name, row=row, function=function, dtypes=("f32",), index="i64", check=check, torch=(torch,), numpy=numpy,
        scalars=along_rows(batch, length) | scalars, arrays=arrays, bounds=(Bound("peer", 1.0),),
        workspace=row.startswith("mode"),
    )  # fmt: skip


def order_statistics(backend):
    batch, length = (2**13, 2**13) if backend == "cuda" else (2**8, 2**13)
    middle = (length - 1) // 2
    yield one_result(
        "kthvalue of rows", "kthvalue{I}_{T}", batch, length, torch_order("kthvalue", middle + 1),
        (lambda a, scalars: lambda: np.partition(a["x"], middle, 1)[:, middle],), k=middle,
    )  # fmt: skip
    for function in ("median", "nanmedian"):
        yield one_result(
            f"{function} of rows", "{F}{I}_{T}", batch, length, torch_order(function), function=function
        )  # fmt: skip
    yield one_result("mode of rows", "mode{I}_{T}", batch // 8, length, torch_order("mode"), check=check_mode)
    table, q = Operand((3, batch)), np.array([0.25, 0.5, 0.75])
    quantiles = {"lower": table, "upper": table, "weight": table}
    yield Bench(
        name="quantile of rows", row="{F}_{T}", function="quantile", dtypes=("f32",), check=check_quantiles,
        scalars=along_rows(batch, length) | {"q_count": 3, "interpolation": 0}, bounds=(Bound("peer", 1.0),),
        arrays={"x": Operand((batch, length), "normal"), "q": Operand((3,), 0.5), "y": table, **quantiles},
        torch=(lambda torch, t, scalars: lambda: torch.quantile(t["x"], t["q"].to(t["x"].dtype), 1),),
        numpy=(lambda a, scalars: lambda: np.quantile(a["x"], q, 1),),
    )  # fmt: skip
    index = Operand((3, batch), lambda rng: rng.integers(0, length, (3, batch)))
    yield Bench(
        name="quantile_backward of rows", row="{F}_backward_{T}", function="quantile", dtypes=("f32",),
        check=check_spread, scalars=along_rows(batch, length) | {"q_count": 3}, bounds=(Bound("copy", 0.2),),
        arrays={"dy": Operand((3, batch), "normal"), "lower": index, "upper": index,
                "weight": Operand((3, batch), 0.25), "dx": Operand((batch, length))},
    )  # fmt: skip


def sweeps(backend):
    numel, none = 2**25 if backend == "cuda" else 2**20, Bound("peer", 1.0)
    lengths = {n: of_rows("topk", numel // n, n, 64, none) for n in LENGTHS if n >= 64}
    yield Sweep(name=f"topk 64, {numel} elements", axis="row length", points=lengths, level=True)
    ks = {k: of_rows("topk", numel // 2**15, 2**15, k, none) for k in KS}
    yield Sweep(name="topk of rows of 32768", axis="k", points=ks)
    many = {count: of_rows("topk", count, 2**15, 64, none) for count in COUNTS if count <= numel // 2**15}
    yield Sweep(name="topk 64 of rows of 32768", axis="rows", points=many)
