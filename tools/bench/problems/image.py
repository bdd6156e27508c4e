# SPDX-License-Identifier: Apache-2.0
"""affine_grid: sampling positions of an affine map."""

import numpy as np

from tools.bench.check import compare, rows, sample_indices
from tools.bench.record import Bench, Bound, Operand


def torch_affine_grid(torch, t, scalars):
    size = (scalars["batch"], 1, scalars["height"], scalars["width"])
    return lambda: torch.nn.functional.affine_grid(t["theta"], size, align_corners=False)


def check(problem):
    batch, height, width = (problem.bench.scalars[name] for name in ("batch", "height", "width"))
    chosen = sample_indices(problem, batch * height * width, 512)
    image, pixel = chosen // (height * width), chosen % (height * width)
    x, y = ((2 * k + 1) / extent - 1 for k, extent in ((pixel % width, width), (pixel // width, height)))
    theta = rows(problem, "theta", np.arange(2 * batch)).reshape(batch, 2, 3)[image]
    products = theta * np.stack([x, y, np.ones_like(x)], -1)[:, None, :]
    return compare(problem, rows(problem, "grid", chosen), products.sum(-1), np.abs(products).sum(-1))


def benches(backend):
    extents = (64, 1024, 512) if backend == "cuda" else (16, 256, 512)
    yield Bench(
        name="affine_grid_2d", row="affine_grid_2d_{T}", dtypes=("f32",), check=check, torch=(torch_affine_grid,),
        scalars=dict(zip(("batch", "height", "width"), extents)), bounds=(Bound("peer", 1.0),),
        arrays={"theta": Operand((extents[0], 2, 3), "sixteenths"), "grid": Operand((*extents, 2))},
    )  # fmt: skip
