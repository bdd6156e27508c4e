# SPDX-License-Identifier: Apache-2.0
"""Softmax along an axis, its variants, and their gradients."""

import dataclasses
import math

import numpy as np

from tools.bench.check import compare, rows, sample_indices
from tools.bench.record import COUNTS, LENGTHS, Bench, Bound, Operand, Sweep
from tools.oracle.philox import uniform

STRIDED = tuple(f"{log}softmax{backward}_{{T}}_strided" for log in ("", "log_") for backward in ("", "_backward"))
UNMEASURED = dict.fromkeys(STRIDED, "another name of the row without it") | dict.fromkeys(
    ("gumbel_softmax_param_{T}", "gumbel_softmax_param_backward_{T}"), "the kernel of the row whose temperature is f32"
)


def torch_forward(name):
    def peer(torch, t, scalars):
        function = torch.log_softmax if name.startswith("log") else torch.softmax
        return lambda: function(t["x"], scalars["softmax_axis"], out=t["y"])

    return peer


def torch_backward(name):
    def peer(torch, t, scalars):
        function = torch._log_softmax_backward_data if name.startswith("log") else torch._softmax_backward_data
        return lambda: function(t["dy"], t["y"], scalars["softmax_axis"], t["dy"].dtype)

    return peer


def torch_sorted(torch, t, scalars):
    """Sparsemax by the code of the paper: PyTorch has none."""
    axis, n = scalars["softmax_axis"], scalars["softmax_extent"]
    ranks = torch.arange(1, n + 1, device=t["x"].device, dtype=t["x"].dtype)

    def peer():
        z = t["x"] - t["x"].amax(axis, keepdim=True)
        ordered = z.sort(axis, descending=True).values
        sums = ordered.cumsum(axis) - 1
        support = (ranks * ordered > sums).sum(axis, keepdim=True)
        return torch.clamp(z - sums.gather(axis, support - 1) / support, min=0)

    return peer


def torch_gumbel(torch, t, scalars):
    def peer():
        noise = -torch.log(-torch.log(t["u_rand"].view(t["x"].shape)))
        return torch.softmax((t["x"] + noise) * scalars["inv_tau"], scalars["softmax_axis"])

    return peer


def softmax(x):
    e = np.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def sparsemax(x):
    ordered = -np.sort(-x, 1)
    sums, ranks = np.cumsum(ordered, 1), np.arange(1, x.shape[1] + 1)
    support = (1 + ranks * ordered > sums).sum(1, keepdims=True)
    return np.maximum(x - (np.take_along_axis(sums, support - 1, 1) - 1) / support, 0)


def check(name):
    """Some rows against float64; those along axis 0 are compared as they lie."""

    def rows_are_right(problem):
        scalars, bench = problem.bench.scalars, problem.bench
        if scalars["softmax_axis"] != 1:
            return ""  # axes as in tests/cases
        chosen = sample_indices(problem, bench.arrays["y"].shape[0])
        if "backward" in name:
            dy, y = rows(problem, "dy", chosen), rows(problem, "y", chosen)
            total = (dy if name.startswith("log") else dy * y).sum(1, keepdims=True)
            want = dy - np.exp(y) * total if name.startswith("log") else y * (dy - total)
            if name.startswith("sparsemax"):
                active = y > 0
                mean = (dy * active).sum(1, keepdims=True) / np.maximum(active.sum(1, keepdims=True), 1)
                want = np.where(active, dy - mean, 0)
            want = want * scalars.get("inv_tau", 1)
            return compare(problem, rows(problem, "dx", chosen), want, 8 * (np.abs(want).max() + np.abs(dy).max()))
        x = rows(problem, "x", chosen)
        if name.startswith("gumbel"):
            x = x * scalars["inv_tau"]  # the noise is the same everywhere
        want = sparsemax(x) if name.startswith("sparsemax") else softmax(x)
        want = np.log(want) if name.startswith("log") else want
        return compare(problem, rows(problem, "y", chosen), want, 8 * np.abs(want).max())

    return rows_are_right


def check_seeded(gradient):
    """Some rows of 1024 elements against float64, with the op's random numbers."""

    def rows_are_right(problem):
        scalars, width = problem.bench.scalars, problem.bench.arrays["x"].shape[1]
        chosen = sample_indices(problem, problem.bench.arrays["x"].shape[0], 4)
        u = np.array([uniform(scalars["seed"], int(row) * width, width, "f32") for row in chosen])
        y = softmax((rows(problem, "x", chosen) - np.log(-np.log1p(-u))) * scalars["inv_tau"])
        if not gradient:
            return compare(problem, rows(problem, "y", chosen), y, 32 * np.abs(y).max())
        dy = rows(problem, "dy", chosen)
        want = scalars["inv_tau"] * y * (dy - (y * dy).sum(1, keepdims=True))
        return compare(problem, rows(problem, "dx", chosen), want, 64 * np.abs(want).max())

    return rows_are_right


def torch_seeded(torch, t, scalars):
    return lambda: torch.nn.functional.gumbel_softmax(t["x"], 1 / scalars["inv_tau"], dim=scalars["softmax_axis"])


def made(name, row, shape, axis, bound, *, arrays, torch, **scalars):
    steps = {f"softmax_stride_{name}": math.prod(shape[axis + 1 :]) for name in arrays if name in ("x", "dy", "y")}
    return Bench(
        name=name, row=row, dtypes=("f32", "bf16"), arrays=arrays,
        scalars={"softmax_axis": axis, "softmax_extent": shape[axis]} | steps | scalars,
        check=check(row), bounds=(bound,), workspace="sparsemax_{T}" not in row, torch=(torch,),
    )  # fmt: skip


def forward(name, op, shape, bound, axis=1):
    arrays = {"x": Operand(shape, "normal"), "y": Operand(shape)}
    return made(name, f"{op}_{{T}}", shape, axis, bound, arrays=arrays, torch=torch_forward(op))


def backward(name, op, shape, bound, axis=1):
    # Rows of nearly equal elements, like those of a softmax, would leave only rounding errors of dy.
    fill = -math.log(shape[axis]) if op.startswith("log") else 1 / shape[axis]
    arrays = {"dy": Operand(shape, "normal"), "y": Operand(shape, fill), "dx": Operand(shape)}
    return made(name, f"{op}_backward_{{T}}", shape, axis, bound, arrays=arrays, torch=torch_backward(op))


def benches(backend):
    on_gpu = backend == "cuda"
    count = 2**26 if on_gpu else 2**24
    fast = Bound("copy", 0.92) if on_gpu else Bound("peer", 1.0)
    level = Bound("peer", 1.0)
    for length in (128, 1024, 32768, 131072):
        shape = (count // length, length)
        yield forward(f"softmax of {length}", "softmax", shape, fast)
        yield forward(f"log_softmax of {length}", "log_softmax", shape, fast)
        slower = Bound("copy", 0.90) if on_gpu else level
        yield backward(f"softmax_backward of {length}", "softmax", shape, slower)
        yield backward(f"log_softmax_backward of {length}", "log_softmax", shape, slower)
    few = (
        [(rows, length) for rows in (1, 8, 64) for length in (1024, 32768, 131072)]
        if on_gpu
        else [(1, 131072), (64, 1024)]
    )
    for shape in few:
        yield forward(f"softmax of {shape[0]} x {shape[1]}", "softmax", shape, level)
    yield forward("softmax of 50257", "softmax", (count // 50257, 50257), level)
    yield forward("softmax of one row", "softmax", (1, count), level)
    yield forward("softmax outer", "softmax", (1024, count // 1024), level, axis=0)
    shape = (count // 1024, 1024)
    noise = {"x": Operand(shape, "normal"), "u_rand": Operand((math.prod(shape),), 0.25), "y": Operand(shape)}
    yield made(
        "gumbel_softmax", "gumbel_softmax_{T}", shape, 1, level, arrays=noise, torch=torch_gumbel, inv_tau=2.0, hard=0
    )
    gradient = {"dy": Operand(shape, "normal"), "y": Operand(shape, 1 / 1024), "dx": Operand(shape)}
    yield made("gumbel_softmax_backward", "gumbel_softmax_backward_{T}", shape, 1, level, arrays=gradient,
               torch=torch_backward("softmax"), inv_tau=2.0)  # fmt: skip
    plain = {"x": Operand(shape, "normal"), "y": Operand(shape)}
    drawn = {"inv_tau": 2.0, "seed": 5, "offset": 0}
    yield dataclasses.replace(
        made("gumbel_softmax_seeded", "gumbel_softmax_seeded_{T}", shape, 1, level, arrays=plain, torch=torch_seeded,
             hard=0, **drawn), check=check_seeded(False),
    )  # fmt: skip
    again = {"dy": Operand(shape, "normal"), "x": Operand(shape, "normal"), "dx": Operand(shape)}
    yield dataclasses.replace(
        made("gumbel_softmax_seeded_backward", "gumbel_softmax_seeded_backward_{T}", shape, 1, level, arrays=again,
             torch=torch_seeded, **drawn), check=check_seeded(True), torch=(),
    )  # fmt: skip
    yield made("sparsemax", "sparsemax_{T}", shape, 1, level, arrays=plain, torch=torch_sorted)
    yield made("sparsemax_backward", "sparsemax_backward_{T}", shape, 1, level, arrays=gradient,
               torch=torch_backward("softmax"))  # fmt: skip


def sweeps(backend):
    numel, none = 2**26 if backend == "cuda" else 2**21, Bound("peer", 1.0)
    for op in ("softmax", "log_softmax"):
        for what, make in (("", forward), ("_backward", backward)):
            along = {n: make(f"{op}{what}", op, (numel // n, n), none) for n in LENGTHS}
            yield Sweep(name=f"{op}{what}, {numel} elements", axis="row length", points=along, level=True)
    few = {n: forward("softmax", "softmax", (64, n), none) for n in LENGTHS}
    yield Sweep(name="softmax, 64 rows", axis="row length", points=few)
    many = {count: forward("softmax", "softmax", (count, 1000), none) for count in COUNTS}
    yield Sweep(name="softmax, rows of 1000", axis="rows", points=many)
    for op, make in (("softmax", forward), ("softmax_backward", backward)):
        outer = {n: make(f"{op} outer", "softmax", (n, numel // n), none, axis=0) for n in LENGTHS}
        yield Sweep(name=f"{op} along axis 0, {numel} elements", axis="axis length", points=outer, level=True)
