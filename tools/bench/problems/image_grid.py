# SPDX-License-Identifier: Apache-2.0
"""grid_sample and its gradients beside PyTorch's: feature maps at random positions."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tools.bench.check import cells, compare, sample_indices
from tools.bench.record import Bench, Bound, Operand, Sweep

UNMEASURED = {
    "grid_sample_2d_{T}": "the kernel of grid_sample",
    "grid_sample_2d_backward_{T}": "the kernels of grid_sample_backward",
    "affine_grid_{T}": "an element for each cell, as affine_grid_2d, which is measured",
    "affine_grid_backward_{T}": "sums of slices of the grid, small beside what samples at it",
}
NUMBERS = {"rank": 4, "sample_mode": 0, "padding_mode": 0, "align_corners": 0}


def torch_sample(torch: Any, t: dict[str, Any], scalars: Any) -> Callable[[], Any]:
    grid = t["grid"].view(scalars["output_shape"][0], *scalars["output_shape"][2:], 2)
    return lambda: torch.nn.functional.grid_sample(t["x"], grid, align_corners=False)


def torch_backward(torch: Any, t: dict[str, Any], scalars: Any) -> Callable[[], Any]:
    grid = t["grid"].view(scalars["output_shape"][0], *scalars["output_shape"][2:], 2)
    return lambda: torch.ops.aten.grid_sampler_2d_backward(t["dy"], t["x"], grid, 0, 0, False, [True, True])


def taps(g: Any, extent: int) -> list[tuple[int, float]]:
    """The two elements of a coordinate that are inside, and their weights."""
    p = (float(np.float32(np.float32(g) + np.float32(1)) * np.float32(extent)) - 1) / 2
    base = math.floor(p)
    return [(base + k, w) for k, w in ((0, 1 - p + base), (1, p - base)) if 0 <= base + k < extent]


def check(problem: Any) -> str:
    shape, large = problem.bench.scalars["input_shape"], problem.bench.scalars["output_shape"]
    for flat in sample_indices(problem, math.prod(large)):
        n, c, y, x = (int(k) for k in np.unravel_index(int(flat), large))
        point = (n * large[2] + y) * large[3] + x
        gx, gy = cells(problem, "grid", [2 * point, 2 * point + 1]).ravel()
        found = [(i, j, v * w) for i, v in taps(gy, shape[2]) for j, w in taps(gx, shape[3])]
        at = [np.ravel_multi_index((n, c, i, j), shape) for i, j, _ in found]
        products = cells(problem, "x", at).ravel() * np.array([w for *_, w in found]) if at else np.zeros(1)
        if wrong := compare(problem, cells(problem, "y", [flat]), products.sum(), 64 * np.abs(products).sum() + 1e-3):
            return f"y[{n}, {c}, {y}, {x}] {wrong}"
    return ""


def check_backward(problem: Any) -> str:
    """The gradient of positions; that of the images sums over positions anywhere, which tests compare."""
    shape, large = problem.bench.scalars["input_shape"], problem.bench.scalars["output_shape"]
    for point in sample_indices(problem, large[0] * large[2] * large[3]):
        n, y, x = (int(k) for k in np.unravel_index(int(point), (large[0], *large[2:])))
        gx, gy = cells(problem, "grid", [2 * point, 2 * point + 1]).ravel()
        rows, columns = taps(gy, shape[2]), taps(gx, shape[3])
        p = (gx + 1) * shape[3] / 2 - 0.5
        total = size = 0.0
        dy = cells(problem, "dy", [np.ravel_multi_index((n, c, y, x), large) for c in range(large[1])]).ravel()
        for i, v in rows:
            for j, _ in columns:
                values = cells(problem, "x", [np.ravel_multi_index((n, c, i, j), shape) for c in range(large[1])])
                dot = float((values.ravel() * dy).sum())
                total += (1 if j > math.floor(p) else -1) * v * dot * shape[3] / 2
                size += v * float(np.abs(values.ravel() * dy).sum()) * shape[3] / 2
        if wrong := compare(problem, cells(problem, "dgrid", [2 * point]), total, 64 * size + 1e-2):
            return f"dgrid[{point}] {wrong}"
    return ""


def arrays_of(shape: tuple[int, ...], large: tuple[int, ...]) -> dict[str, Operand]:
    return {"x": Operand(shape, "normal"), "grid": Operand((large[0] * large[2] * large[3], 2), "inside one")}


def bench(name: str, shape: tuple[int, ...], size: tuple[int, int], bounds: tuple[Bound, ...] = ()) -> Bench:
    large = (*shape[:2], *size)
    return Bench(
        name=f"grid_sample, {name}", row="grid_sample_{T}", dtypes=("f32",), check=check, torch=(torch_sample,),
        scalars=NUMBERS | {"input_shape": shape, "output_shape": large, "output_numel": math.prod(large)},
        arrays=arrays_of(shape, large) | {"y": Operand(large)}, bounds=bounds,
    )  # fmt: skip


def gradient(name: str, shape: tuple[int, ...], size: tuple[int, int], bounds: tuple[Bound, ...] = ()) -> Bench:
    large = (*shape[:2], *size)
    given = arrays_of(shape, large)
    return Bench(
        name=f"grid_sample backward, {name}", row="grid_sample_backward_{T}", dtypes=("f32",), check=check_backward,
        torch=(torch_backward,), workspace=True, bounds=bounds,
        scalars=NUMBERS | {"input_shape": shape, "output_shape": large, "input_numel": math.prod(shape)},
        arrays={"dy": Operand(large, "normal"), **given, "dx": Operand(shape), "dgrid": Operand(given["grid"].shape)},
    )  # fmt: skip


def benches(backend: str) -> Iterator[Bench]:
    shape = (16, 64, 128, 128) if backend == "cuda" else (2, 32, 64, 64)
    size = shape[2:]
    yield bench("random positions", shape, (size[0], size[1]), (Bound("peer", 1.0),))
    yield gradient("random positions", shape, (size[0], size[1]))


def sweeps(backend: str) -> Iterator[Sweep]:
    total = 1 << (24 if backend == "cuda" else 18)
    channels = (1, 2, 3, 4, 8, 16, 33, 64, 100)
    yield Sweep(
        name="grid_sample, 64 x 64", axis="channels", level=True,
        points={c: bench(f"{c} channels", (max(total // (c << 12), 1), c, 64, 64), (64, 64)) for c in channels},
    )  # fmt: skip
