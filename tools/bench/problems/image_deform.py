# SPDX-License-Identifier: Apache-2.0
"""Columns of deformable convolutions of a detector's stage; PyTorch has no such op."""

import numpy as np

from tools.bench.check import cells, sample_indices
from tools.bench.record import Bench, Operand, Sweep


def finite(name):
    def check(problem):
        at = sample_indices(problem, int(np.prod(problem.bench.arrays[name].shape)))
        return "" if np.isfinite(cells(problem, name, at)).all() else f"{name} has values that are not finite"

    return check


def deform(batch, channels, side, dtypes, backward=False):
    scalars = dict.fromkeys(("stride_h", "stride_w", "pad_h", "pad_w", "dilation_h", "dilation_w"), 1)
    scalars |= {"kernel_h": 3, "kernel_w": 3, "offset_groups": 1}
    image, columns = (batch, channels, side, side), (batch, 9 * channels, side, side)
    arrays = {
        "input": Operand(image, "normal"), "offset": Operand((batch, 18, side, side), "normal"),
        "mask": Operand((batch, 9, side, side), "probability"),
    }  # fmt: skip
    size = f"{batch} x {channels} x {side} x {side}"
    if not backward:
        return Bench(
            name=f"deform_columns {size}", row="deform_columns_{T}", dtypes=dtypes, scalars=scalars,
            check=finite("columns"), arrays=arrays | {"columns": Operand(columns)},
        )  # fmt: skip
    gradients = {f"d{name}": Operand(each.shape) for name, each in arrays.items()}
    return Bench(
        name=f"deform_columns_backward {size}", row="deform_columns_backward_{T}", dtypes=dtypes, scalars=scalars,
        workspace=True, check=finite("dinput"), arrays={"dcolumns": Operand(columns, "normal"), **arrays, **gradients},
    )  # fmt: skip


def benches(backend):
    size = (2, 256, 64) if backend == "cuda" else (1, 16, 32)
    yield deform(*size, ("f32", "f16"))
    yield deform(*size, ("f32",), backward=True)


def sweeps(backend):
    """Channels, across chunks of a team."""
    channels = (1, 8, 16, 17, 64, 256) if backend == "cuda" else (1, 8, 16, 17)
    side = 64 if backend == "cuda" else 16
    points = {c: deform(1, c, side, ("f32",)) for c in channels}
    yield Sweep(name="deform_columns", axis="channels", points=points)
