# SPDX-License-Identifier: Apache-2.0
"""repeat and its gradient."""

import math

import numpy as np

from tools.bench.check import compare, rows, sample_indices, shape
from tools.bench.record import Bench, Bound, Operand

REPEATS = (4, 4)


def torch_repeat(torch, t, scalars):
    return lambda: t["x"].repeat(*REPEATS)


def split(repeated, small):
    """Extents of the repeated array with an axis for each repetition."""
    return [e for o, i in zip(repeated.shape, small.shape) for e in (o // i, i)]


def torch_expanded(torch, t, scalars):
    x, y = t["x"], t["y"]
    return lambda: y.view(split(y, x)).copy_(x.view([e for i in x.shape for e in (1, i)]))


def torch_repeat_backward(torch, t, scalars):
    dy, dx = t["dy"], t["dx"]
    parts = split(dy, dx)
    return lambda: torch.sum(dy.view(parts), tuple(range(0, len(parts), 2)), out=dx)


def numpy_repeat(a, scalars):
    x, y = a["x"], a["y"]
    source = x.reshape([e for i in x.shape for e in (1, i)])
    return lambda: np.copyto(y.reshape(split(y, x)), source)


def numpy_repeat_backward(a, scalars):
    dy, dx = a["dy"], a["dx"]
    parts = dy.reshape(split(dy, dx))
    return lambda: np.sum(parts, tuple(range(0, parts.ndim, 2)), out=dx)


def check(problem):
    (height, columns), (all_rows, all_columns) = shape(problem, "x"), shape(problem, "y")
    chosen = sample_indices(problem, all_rows)
    expected = np.tile(rows(problem, "x", chosen % height), (1, all_columns // columns))
    return compare(problem, rows(problem, "y", chosen), expected, 0.0)


def check_backward(problem):
    (height, columns), (all_rows, _) = shape(problem, "dx"), shape(problem, "dy")
    chosen = sample_indices(problem, height)
    firsts = range(0, all_rows, height)
    parts = [rows(problem, "dy", chosen + first).reshape(len(chosen), -1, columns) for first in firsts]
    return compare(problem, rows(problem, "dx", chosen), np.sum(parts, (0, 2)), np.abs(parts).sum((0, 2)))


def benches(backend):
    small = (2048, 4096) if backend == "cuda" else (1024, 1024)
    repeated = tuple(i * r for i, r in zip(small, REPEATS))

    def bound(copy):
        return (Bound("copy", copy) if backend == "cuda" else Bound("peer", 1.0),)

    yield Bench(
        name="repeat", row="repeat_{T}", dtypes=("f32", "bf16"), check=check, bounds=bound(0.75),
        scalars={"output_numel": math.prod(repeated), "input_shape": small, "output_shape": repeated},
        arrays={"x": Operand(small, "sixteenths"), "y": Operand(repeated)}, torch=(torch_repeat, torch_expanded),
        numpy=(numpy_repeat,),
    )  # fmt: skip
    yield Bench(
        name="repeat_backward", row="repeat_backward_{T}", dtypes=("f32", "bf16"), check=check_backward,
        bounds=bound(0.92), scalars={"input_numel": math.prod(small), "input_shape": small, "repeats": REPEATS},
        arrays={"dy": Operand(repeated, "sixteenths"), "dx": Operand(small)}, torch=(torch_repeat_backward,),
        numpy=(numpy_repeat_backward,), workspace=True,
    )  # fmt: skip
