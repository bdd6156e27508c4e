# SPDX-License-Identifier: Apache-2.0
"""Scans along an axis, and their gradients."""

import dataclasses
import math

import numpy as np

from tools.bench.check import compare, rows, sample_indices
from tools.bench.record import COUNTS, LENGTHS, SIZES, Bench, Bound, Operand, Sweep

TORCH = {"cumsum": "cumsum", "cumprod": "cumprod", "log_cumsum_exp": "logcumsumexp"}
NUMPY = {"cumsum": np.add, "cumprod": np.multiply, "cummax": np.maximum, "cummin": np.minimum,
         "log_cumsum_exp": np.logaddexp}  # fmt: skip
SAVED = ("cumprod", "log_cumsum_exp")


def torch_scan(function):
    def peer(torch, t, scalars):
        if function in TORCH:
            scan = getattr(torch, TORCH[function])
            kind = {} if function == "log_cumsum_exp" else {"dtype": t["y"].dtype}  # integers would become int64
            return lambda: scan(t["x"], scalars["scan_axis"], **kind, out=t["y"])
        return lambda: getattr(torch, function)(t["x"], scalars["scan_axis"])

    return peer


def torch_gradient(function):
    def peer(torch, t, scalars):
        x = t["x"].detach().requires_grad_()
        y = getattr(torch, TORCH.get(function, function))(x, scalars["scan_axis"])
        y = y if function in TORCH else y[0]
        return lambda: torch.autograd.grad(y, x, t["dy"], retain_graph=True)

    return peer


def numpy_scan(function):
    return lambda a, scalars: lambda: NUMPY[function].accumulate(a["x"], scalars["scan_axis"], out=a["y"])


def check(problem):
    """Checks whole rows along the last axis, and a few prefixes along the first."""
    function, shape = problem.bench.function, problem.buffers["x"].operand.shape
    if problem.bench.scalars["scan_axis"] == len(shape) - 1 > 0:
        chosen = sample_indices(problem, math.prod(shape[:-1]), 4)
        x, y = rows(problem, "x", chosen), rows(problem, "y", chosen)
        expected = NUMPY[function].accumulate(x, 1)
        if problem.dtype == "i32":
            return "" if np.array_equal(y, expected) else "is not the sum of integers"
        magnitude = np.cumsum(np.abs(x), 1) if function == "cumsum" else np.abs(expected) + 1
        return compare(problem, y, expected, magnitude)
    for index in (0, 1000, shape[0] - 1) if function == "cumsum" else (0, 1000):
        if function == "cumsum":
            total, size = problem.data.row_sums(problem.buffers["x"], np.arange(index + 1))
        else:
            total = NUMPY[function].reduce(rows(problem, "x", np.arange(index + 1)), 0)
            size = np.abs(total) + 1
        if wrong := compare(problem, rows(problem, "y", [index])[0], total, size):
            return f"y[{index}] {wrong}"
    return ""


def check_indices(problem):
    chosen = sample_indices(problem, problem.buffers["x"].operand.shape[0], 4)
    x, index = rows(problem, "x", chosen), rows(problem, "indices", chosen).astype(int)
    best = np.maximum.accumulate(x, 1)
    if not np.array_equal(rows(problem, "y", chosen), best):
        return "values are wrong"
    return "" if np.array_equal(np.take_along_axis(x, index, 1), best) else "indices are wrong"


def check_exclusive(problem):
    chosen = sample_indices(problem, problem.buffers["x"].operand.shape[0], 4)
    x = rows(problem, "x", chosen)
    return compare(problem, rows(problem, "y", chosen), np.cumsum(x, 1) - x, np.cumsum(np.abs(x), 1))


def arriving(problem, chosen):
    """dy of the inclusive scan: for an exclusive scan dy moves one index earlier."""
    dy = rows(problem, "dy", chosen)
    return np.append(dy[:, 1:], np.zeros((len(dy), 1)), 1) if "exclusive" in problem.bench.row else dy


def check_sums_back(problem):
    chosen = sample_indices(problem, problem.buffers["dy"].operand.shape[0], 4)
    dy = arriving(problem, chosen)[:, ::-1]
    expected, size = np.cumsum(dy, 1)[:, ::-1], np.cumsum(np.abs(dy), 1)[:, ::-1]
    return compare(problem, rows(problem, "dx", chosen), expected, size)


def check_gradient(problem):
    """Checks a few rows against the definition of the gradient."""
    function, width = problem.bench.function, problem.buffers["x"].operand.shape[1]
    chosen = sample_indices(problem, problem.buffers["x"].operand.shape[0], 2)
    dy, x, dx = arriving(problem, chosen), *(rows(problem, name, chosen) for name in ("x", "dx"))
    if function in SAVED:
        y = rows(problem, "y", chosen)
        if function == "cumprod":
            share = [[np.sum(dy[r, j:] * y[r, j:]) / x[r, j] for j in range(width)] for r in range(len(x))]
            size = [[np.sum(np.abs(dy[r, j:] * y[r, j:])) / abs(x[r, j]) for j in range(width)] for r in range(len(x))]
        else:
            factor = [[np.exp(x[r, j] - y[r, j:]) for j in range(width)] for r in range(len(x))]
            share = [[np.sum(dy[r, j:] * factor[r][j]) for j in range(width)] for r in range(len(x))]
            size = [[8 * np.sum(np.abs(dy[r, j:]) * factor[r][j]) for j in range(width)] for r in range(len(x))]
        return compare(problem, dx, np.array(share), np.array(size))
    order = 1 if function == "cummax" else -1
    best = np.maximum.accumulate(order * x, 1)
    record = np.concatenate([np.ones((len(x), 1), bool), order * x[:, 1:] > best[:, :-1]], 1)
    index = np.maximum.accumulate(np.where(record, np.arange(width), 0), 1)
    expected, size = np.zeros(dx.shape), np.zeros(dx.shape)
    for r in range(len(x)):
        np.add.at(expected[r], index[r], dy[r])
        np.add.at(size[r], index[r], np.abs(dy[r]))
    return compare(problem, dx, expected, size)


def made(name, function, shape, axis, bound, *, fill="sixteenths", dtypes=("f32", "bf16"), row="scan_{F}_{T}"):
    scalars = {
        "scan_axis": axis, "scan_extent": shape[axis], "scan_stride_x": math.prod(shape[axis + 1 :]), "reverse": 0,
    }  # fmt: skip
    return Bench(
        name=name, row=row, function=function, dtypes=dtypes, scalars=scalars, check=check,
        arrays={"x": Operand(shape, fill), "y": Operand(shape)}, bounds=(bound,), workspace=True,
        torch=(torch_scan(function),), numpy=(numpy_scan(function),),
    )  # fmt: skip


def gradient(name, function, shape, bound):
    saved = function in SAVED
    arrays = {"dy": Operand(shape, "sixteenths"), "x": Operand(shape, 1.0 if saved else "sixteenths")}
    if saved:  # y of ones, so that the summands have a moderate size
        arrays["y"] = Operand(shape, 1.0)
    return Bench(
        name=name, row=f"scan_{{F}}_backward_{{T}}{' saved' * saved}", function=function, dtypes=("f32", "bf16"),
        scalars={"scan_axis": 1, "scan_extent": shape[1], "reverse": 0}, check=check_gradient,
        arrays=arrays | {"dx": Operand(shape)}, bounds=(bound,), workspace=True, torch=(torch_gradient(function),),
    )  # fmt: skip


def benches(backend):
    on_gpu = backend == "cuda"
    shape = (65536, 1024) if on_gpu else (16384, 1024)
    bound = Bound("copy", 0.8) if on_gpu else Bound("peer", 1.0)
    yield made("cumsum inner", "cumsum", shape, 1, bound)
    yield made("cumsum outer", "cumsum", shape, 0, bound)
    yield made("cumsum outer, many columns", "cumsum", (1024, shape[0]), 0, bound)
    yield made("cumsum of one row", "cumsum", (2**27 if on_gpu else 2**24,), 0, bound)
    yield made("cumsum of short rows", "cumsum", (math.prod(shape) // 32, 32), 1, bound)
    for function, fill in (("cumprod", 1.0), ("cummax", "sixteenths"), ("cummin", "sixteenths"),
                           ("log_cumsum_exp", "normal")):  # fmt: skip
        yield made(f"{function} inner", function, shape, 1, bound, fill=fill)
    yield made("log_cumsum_exp outer", "log_cumsum_exp", shape, 0, bound, fill="normal", dtypes=("f32",))
    yield dataclasses.replace(
        made("cummax with indices", "cummax", shape, 1, bound), row="scan_{F}_indices_{T}", check=check_indices,
        arrays={"x": Operand(shape, "sixteenths"), "y": Operand(shape), "indices": Operand(shape)},
    )  # fmt: skip
    cumsum = made("exclusive cumsum", "cumsum", shape, 1, bound)
    yield dataclasses.replace(cumsum, row="scan_exclusive_{F}_{T}", torch=(), numpy=(), check=check_exclusive)
    yield made("cumsum of integers", "cumsum", shape, 1, bound, row="scan_{F}_{T} integers", dtypes=("i32",))
    yield Bench(
        name="cumsum_backward", row="scan_cumsum_backward_{T}", dtypes=("f32", "bf16"), check=check_sums_back,
        scalars={"scan_axis": 1, "scan_extent": shape[1], "reverse": 0}, bounds=(bound,), workspace=True,
        arrays={"dy": Operand(shape, "sixteenths"), "dx": Operand(shape)},
    )  # fmt: skip
    yield Bench(
        name="exclusive cumsum_backward", row="scan_exclusive_cumsum_backward_{T}", dtypes=("f32",),
        scalars={"scan_axis": 1, "scan_extent": shape[1], "reverse": 0}, bounds=(bound,), workspace=True,
        arrays={"dy": Operand(shape, "sixteenths"), "dx": Operand(shape)}, check=check_sums_back,
    )  # fmt: skip
    integers = made("exclusive cumsum of integers", "cumsum", shape, 1, bound, dtypes=("i32",))
    yield dataclasses.replace(
        integers, row="scan_exclusive_{F}_{T} integers", torch=(), numpy=(), check=check_exclusive
    )  # fmt: skip
    small = (shape[0], 512)
    for function in ("cumprod", "cummax"):
        inclusive = gradient(f"exclusive {function}_backward", function, small, Bound("peer", 1.0))
        yield dataclasses.replace(
            inclusive, row=inclusive.row.replace("scan_", "scan_exclusive_"), torch=(), dtypes=("f32",)
        )
    for function in ("cumprod", "cummax", "cummin", "log_cumsum_exp"):
        yield gradient(f"{function}_backward", function, small, Bound("peer", 1.0))


def sweeps(backend):
    numel, none = 2**26 if backend == "cuda" else 2**21, Bound("peer", 1.0)
    for function, fill in (("cumsum", "sixteenths"), ("cummax", "sixteenths"), ("log_cumsum_exp", "normal")):
        inner = {n: made(function, function, (numel // n, n), 1, none, fill=fill) for n in LENGTHS}
        yield Sweep(name=f"{function}, {numel} elements", axis="row length", points=inner, level=True)
    outer = {n: made("cumsum", "cumsum", (n, numel // n), 0, none) for n in LENGTHS if n > 1000}
    yield Sweep(name=f"cumsum along axis 0, {numel} elements", axis="axis length", points=outer, level=True)
    many = {count: made("cumsum", "cumsum", (count, 4096), 1, none) for count in COUNTS}
    yield Sweep(name="cumsum of rows of 4096", axis="rows", points=many)
    one = {n: made("cumsum", "cumsum", (1, n), 1, none) for n in SIZES if n <= numel}
    yield Sweep(name="cumsum of one row", axis="row length", points=one)
