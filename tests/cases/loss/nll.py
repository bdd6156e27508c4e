# SPDX-License-Identifier: Apache-2.0
"""nll and its gradient."""

import numpy as np

from tools.oracle.losses import at, valid

from ..model import Bad, Case, Expected, Idle, Problem
from .common import MEAN, MODES, NONE, SUM, negative, pointers, reduced, scale_of, upstream


def made(draw, rows, columns, mode, *, gap=0, kind="normal", behind=0, backward=False, null=()):
    """`behind`: elements of dinput that follow the last row."""
    stride = columns + gap
    scalars = {"n_rows": rows, "class_extent": columns, "row_stride_input": stride, "reduction_mode": mode}
    labels = draw.rng.integers(0, max(columns, 1), rows)
    invalid = np.array([-1, columns, -100, 2**32, 2**63 - 1, -(2**63)], np.int64)
    target = draw.array(np.where(draw.rng.random(rows) < 0.2, draw.rng.choice(invalid, rows), labels), "i64")
    if not backward:
        arrays = {"input": draw.floats((rows, columns), kind, (stride, 1)), "target": target}
        return Problem(scalars, arrays | {"out": draw.output((rows if mode == NONE else 1,))}, null=null)
    scalars |= {"dinput_numel": rows * stride + behind, "scale_scalar": scale_of(mode, rows)}
    arrays = {"dy": draw.floats((rows if mode == NONE else 1,)), "target": target}
    return Problem(scalars, arrays | {"dinput": draw.output((rows * stride + behind,))}, null=null)


def forward(problem):
    with np.errstate(all="ignore"):
        chosen = -at(problem.arrays["input"].values, problem.arrays["target"].values)
        return {"out": reduced(chosen, np.abs(chosen), problem.scalars["reduction_mode"])}


def backward(problem):
    rows, columns = problem.scalars["n_rows"], problem.scalars["class_extent"]
    target, s = problem.arrays["target"].values, upstream(problem, rows)
    value = np.zeros(problem.arrays["dinput"].shape)
    known = valid(np.empty((rows, columns)), target)
    indices = np.arange(rows)[known] * problem.scalars["row_stride_input"] + target[known]
    value[indices] = -s[known]
    return {"dinput": Expected(value, 1, np.abs(value))}


def problems(*, gradient):
    table = {}

    def add(label, *args, **options):
        table[label] = lambda draw: made(draw, *args, backward=gradient, **options)

    for k, columns in enumerate((1, 2, 7, 64, 65, 1000)):
        add(f"columns{columns}", 9, columns, k % 3)
    for label, mode in MODES.items():
        add(label, 70, 10, mode)
        add(f"padded_{label}", 33, 10, mode, gap=3)
    add("one_row", 1, 50, MEAN)
    add("large", 5000, 12, SUM)
    if gradient:
        add("behind", 8, 5, NONE, behind=11)
        for label, mode in MODES.items():
            add(f"no_rows_{label}", 0, 5, mode, behind=11, null=("dy", "target"))
    else:
        add("special", 100, 7, NONE, kind="special")
        add("no_rows_mean", 0, 5, MEAN, null=("input", "target"))
        add("no_rows_sum", 0, 5, SUM, null=("input", "target"))
        add("no_columns", 4, 0, NONE, null=("input",))
    return table


EXTENTS = ("n_rows", "class_extent", "row_stride_input")
CASES = (
    Case(
        row="loss_nll_{T}", problems=problems(gradient=False), reference=forward, tolerance={"out": "loss"},
        plain="none", large="large",
        bad=(
            *negative(EXTENTS), *pointers(("input", "target", "out")),
            Bad("huge", 2, r"n_rows is \d+ and row_stride_input is 10: input would span", {"n_rows": 2**61}, can=2),
            Bad("no_rows_null_out", 2, r"out is NULL", {"n_rows": 0, "reduction_mode": MEAN}, null=("out",)),
        ),
        idle=(Idle("no_rows", {"n_rows": 0, "reduction_mode": NONE}),),
    ),
    Case(
        row="loss_nll_backward_{T}", problems=problems(gradient=True), reference=backward,
        tolerance={"dinput": "loss"}, plain="none", large="large",
        bad=(
            *negative((*EXTENTS, "dinput_numel")), *pointers(("dy", "target", "dinput")),
            Bad("rows_overlap", 2, r"row_stride_input is 9, must be >= class_ext", {"row_stride_input": 9}, can=2),
            Bad("too_few", 2, r"dinput_numel is 699, too few for 70 rows", {"dinput_numel": 699}, can=2),
        ),
        idle=(Idle("nothing", {"n_rows": 0, "dinput_numel": 0}),),
    ),
)  # fmt: skip
