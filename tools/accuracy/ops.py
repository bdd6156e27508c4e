# SPDX-License-Identifier: Apache-2.0
"""Errors of ops that are not elementwise, on the benchmark's problems: their checks compare our results and PyTorch's
with float64."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import baracuda as bk
from tools.accuracy.library import has
from tools.bench import problems
from tools.bench.check import ULP
from tools.bench.data import FILLS, Data
from tools.bench.problem import Problem
from tools.bench.record import Bench, row_named

# Replaces multiples of 1/16, whose sums are exact.
INEXACT = FILLS | {"sixteenths": FILLS["normal"]}


def measure(library: bk.Library, torch: Any, only: str, dtypes: Sequence[str], families: Sequence[str]) -> list[Any]:
    """A row per problem that compares numbers."""
    on_gpu = library.backend == "cuda"
    data = Data(library, torch, 0, fills=INEXACT)
    found = []
    for bench in problems.benches(library.backend, [only] if only else (), of=families):
        if row_named(bench.row).family == "elementwise":
            continue
        for dtype in (dtype for dtype in bench.dtypes if dtype in dtypes):
            if has(library, bench.op(dtype).name) and (row := measured(data, bench, dtype, on_gpu)):
                found.append(row)
    return found


def measured(data: Data, bench: Bench, dtype: str, on_gpu: bool) -> dict[str, Any] | None:
    problem = Problem(data, bench, dtype)
    if bench.workspace and problem.workspace is None:
        return None  # equals the variant without a workspace
    problem.launch()()
    bk.synchronize(data.stream, library=data.library)
    wrong = problem.check()
    if not problem.errors and not wrong:
        return None  # the op is exact
    ours, theirs = worst(problem), None
    for name, call in problem.peers(on_gpu):
        if name == "torch" and theirs is None:
            theirs = of_peer(problem, call)
    return {"op": problem.op, "name": bench.name, "dtype": dtype, "error": ours, "torch": theirs, "wrong": wrong}


def worst(problem: Problem) -> float | None:
    """JSON has no NaN."""
    found, problem.errors = max(problem.errors, default=np.nan), []
    return found if np.isfinite(found) else None


def of_peer(problem: Problem, call: Any) -> float | None:
    """The error of PyTorch's results, compared in place of our outputs.

    An error of a quarter of the largest value means another problem: some peers recompute our op's inputs, or draw
    other random numbers.
    """
    torch = problem.data.torch
    written = [p for p in problem.row.params if p.is_output and p.name in problem.buffers]
    if any(p.direction.startswith("in") for p in written):
        return None
    outputs = [problem.buffers[p.name].torch for p in written]
    with torch.no_grad():
        for output in outputs:
            output.fill_(float("nan") if output.is_floating_point() else 0)
    result = call()
    found = [result] if isinstance(result, torch.Tensor) else [r for r in result if r is not None]
    with torch.no_grad():
        # A call with `out` returns that output.
        for output, tensor in zip(outputs, found):
            if tensor.is_sparse or extents(tensor) != extents(output):
                return None
            if tensor.data_ptr() != output.data_ptr():
                output.copy_(tensor.reshape(output.shape))
    problem.check()
    found = worst(problem)
    return found if found is not None and found * ULP[problem.dtype] < 0.25 else None


def extents(tensor: Any) -> list[int]:
    return [extent for extent in tensor.shape if extent != 1]
