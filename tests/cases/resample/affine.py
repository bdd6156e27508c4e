# SPDX-License-Identifier: Apache-2.0
"""affine_grid in two and three dimensions, and the gradient of its map."""

import math

import numpy as np

from ..model import Bad, Case, Expected, Idle, Problem

X = np.longdouble
NAMES = ("batch", "dims", "depth", "height", "width", "align_corners")
PROBLEMS = {
    "one": (1, 2, 0, 1, 1, 0),
    "plain": (3, 2, 0, 5, 7, 0),
    "aligned": (3, 2, 1, 5, 7, 1),
    "aligned_row": (2, 2, 0, 1, 9, 1),
    "volume": (2, 3, 3, 4, 5, 0),
    "volume_aligned": (2, 3, 1, 4, 5, 1),
    "slices": (2, 2, 0, 70, 131, 0),
    "large": (5, 3, 17, 33, 31, 0),
}


def shapes_of(batch, dims, depth, height, width, _align):
    return (batch, dims, dims + 1), (batch, depth if dims == 3 else 1, height, width, dims)


def forward(draw, *given, kind="normal"):
    theta, grid = shapes_of(*given)
    return Problem(dict(zip(NAMES, given)), {"theta": draw.floats(theta, kind), "grid": draw.output(grid)})


def backward(draw, *given, kind="normal"):
    theta, grid = shapes_of(*given)
    return Problem(dict(zip(NAMES, given)), {"dgrid": draw.floats(grid, kind), "dtheta": draw.output(theta)})


def centres(n, align):
    i = np.arange(n).astype(X)
    if align:
        return 2 * i / (n - 1) - 1 if n > 1 else np.zeros(n, X)
    return (2 * i + 1) / max(n, 1) - 1


def cells(problem):
    """(x, y, 1) or (x, y, z, 1) of each cell, [cells, dims + 1]."""
    _, dims, depth, height, width, align = (problem.scalars[name] for name in NAMES)
    z, y, x = np.meshgrid(*[centres(n, align) for n in (depth if dims == 3 else 1, height, width)], indexing="ij")
    return np.stack([x, y, *([z] if dims == 3 else []), np.ones_like(x)], -1).reshape(-1, dims + 1)


def reference(problem):
    theta, base = problem.arrays["theta"].values.astype(X), cells(problem)
    with np.errstate(invalid="ignore", over="ignore"):
        summands = theta[:, None] * base[None, :, None]  # [batch, cells, dims, dims + 1]
        shape = problem.arrays["grid"].shape
        return {"grid": Expected(summands.sum(-1).reshape(shape), 6, np.abs(summands).sum(-1).reshape(shape))}


def reference_backward(problem):
    shape = problem.arrays["dtheta"].shape
    base, dgrid = cells(problem), problem.arrays["dgrid"].values.astype(X)
    flat = dgrid.reshape(shape[0], -1, shape[1])
    count = 4 + 2 * math.isqrt(len(base) + 1)
    value, size = (np.einsum("bcd,ck->bdk", a, b) for a, b in ((flat, base), (np.abs(flat), np.abs(base) + 1)))
    return {"dtheta": Expected(value, count + 6, size)}


def bad(arrays):
    yield from (Bad(f"negative_{e}", 2, rf"{e} is -3", {e: -3}, can=2) for e in ("batch", "depth", "height", "width"))
    yield from (Bad(f"dims_{d}", 2, rf"dims is {d}", {"dims": d}, can=2) for d in (1, 4, -1))
    yield Bad("deep", 2, r"depth is 2", {"depth": 2}, can=2)
    yield Bad("align_2", 2, r"align_corners is 2", {"align_corners": 2}, can=2)
    yield Bad("overflow", 2, r"\w+ is 2147483647", {"batch": 2**31 - 1, "height": 2**31 - 1, "width": 2**31 - 1}, can=2)
    yield from (Bad(f"null_{a}", 2, rf"{a} is NULL", null=(a,)) for a in arrays)
    yield from (Bad(f"odd_{a}", 1, rf"{a} is 0x[0-9a-f]+", shift={a: 1}) for a in arrays)


CASES = (
    Case(
        row="affine_grid_{T}",
        problems={name: lambda d, s=s: forward(d, *s) for name, s in PROBLEMS.items()}
        | {"special": lambda d: forward(d, 40, 2, 0, 3, 5, 0, kind="special")},
        reference=reference, tolerance={"grid": "pointwise"}, plain="plain", large="large",
        bad=tuple(bad(("theta", "grid"))), idle=tuple(Idle(f"no_{e}", {e: 0}) for e in ("batch", "height", "width")),
    ),
    Case(
        row="affine_grid_backward_{T}",
        problems={name: lambda d, s=s: backward(d, *s) for name, s in PROBLEMS.items()}
        | {"no_cells": lambda d: backward(d, 2, 2, 0, 0, 5, 0), "no_layers": lambda d: backward(d, 2, 3, 0, 4, 5, 0)},
        reference=reference_backward, tolerance={"dtheta": "pointwise"}, plain="plain", large="large",
        bad=(*bad(("dgrid", "dtheta")), Bad("no_workspace", 4, r"workspace", short=True)),
        idle=(Idle("no_batch", {"batch": 0}),),
    ),
)  # fmt: skip
