# SPDX-License-Identifier: Apache-2.0
"""affine_grid_2d."""

import numpy as np

from .model import Bad, Case, Expected, Idle, Problem

X = np.longdouble
SHAPES = {
    "one": (1, 1, 1),
    "row": (1, 1, 37),
    "column": (2, 41, 1),
    "plain": (3, 5, 7),
    "even": (2, 16, 32),
    "odd": (5, 33, 31),
    "wide": (1, 2, 20011),
    "large": (17, 65, 67),
}
EXTENTS = ("batch", "height", "width")


def affine_grid(draw, shape, kind="normal"):
    arrays = {"theta": draw.floats((shape[0], 2, 3), kind), "grid": draw.output((*shape, 2))}
    return Problem(dict(zip(EXTENTS, shape)), arrays)


def centres(extent):
    return (2 * np.arange(extent).astype(X) + 1) / max(extent, 1) - 1


def reference(problem):
    batch, height, width = (problem.scalars[name] for name in EXTENTS)
    theta = problem.arrays["theta"].values.astype(X)[:, None, None]
    bx, by = centres(width)[None, None, :, None], centres(height)[None, :, None, None]
    with np.errstate(invalid="ignore", over="ignore"):
        summands = [theta[..., 0] * bx, theta[..., 1] * by, np.broadcast_to(theta[..., 2], (batch, height, width, 2))]
        return {"grid": Expected(sum(summands), 3, sum(map(np.abs, summands)))}


CASES = (
    Case(
        row="affine_grid_2d_{T}",
        problems={name: lambda d, s=s: affine_grid(d, s) for name, s in SHAPES.items()}
        | {"special": lambda d: affine_grid(d, (40, 3, 5), "special")},
        reference=reference, tolerance={"grid": "pointwise"}, plain="plain", large="large",
        bad=(
            *(Bad(f"negative_{e}", 2, rf"{e} is -3", {e: -3}, can=2) for e in EXTENTS),
            Bad("overflow", 2, rf"batch is {2**31 - 1}", dict.fromkeys(EXTENTS, 2**31 - 1), can=2),
            *(Bad(f"null_{p}", 2, rf"{p} is NULL", null=(p,)) for p in ("theta", "grid")),
            *(Bad(f"odd_{p}", 1, rf"{p} is 0x[0-9a-f]+", shift={p: 1}) for p in ("theta", "grid")),
        ),
        idle=tuple(Idle(f"no_{e}", {e: 0}) for e in EXTENTS),
    ),
)  # fmt: skip
