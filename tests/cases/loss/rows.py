# SPDX-License-Identifier: Apache-2.0
"""Losses of each row, and their gradients."""

import dataclasses

import numpy as np

from tools.oracle.losses import ROW_LOSSES

from ..model import Bad, Case, Expected, Idle, Problem
from .common import MEAN, MODES, NONE, SUM, negative, pointers, reduced, scale_of, upstream

# columns around those where more threads share a row, or where it is no longer cached
COLUMNS = (1, 2, 3, 4, 5, 7, 8, 31, 32, 33, 63, 64, 65, 100, 127, 129, 1000, 1025, 3001)


def target_of(draw, loss, rows, columns):
    if loss.targets == "index":
        valid = draw.rng.integers(0, max(columns, 1), rows)
        invalid = np.array([-1, columns, -100, 2**32, 2**63 - 1, -(2**63)], np.int64)
        return draw.array(np.where(draw.rng.random(rows) < 0.2, draw.rng.choice(invalid, rows), valid), "i64")
    if loss.targets == "sign":
        return draw.array(draw.rng.choice([1.0, -1.0], rows))
    if loss.targets == "list":
        labels = draw.rng.integers(0, columns + 1, (rows, columns))  # columns: no class
        ends = draw.rng.integers(0, min(columns, 5) + 1, rows)
        return draw.array(np.where(np.arange(columns) < ends[:, None], labels, -1), "i64")
    shares = np.abs(draw.floats((rows, columns)).values)
    return draw.array(np.where(draw.rng.random((rows, columns)) < 0.2, 0.0, shares))


def made(draw, name, rows, columns, mode, *, gap=0, kind="normal", parameters=0, backward=False, null=(),
         wide=False):  # fmt: skip
    """`wide` parameters are not exact in f32."""
    loss = ROW_LOSSES[name]
    scalars = {"n_rows": rows, loss.columns: columns, "reduction_mode": mode}
    strides = (columns + gap, 1)
    scalars |= dict.fromkeys(loss.strides, columns + gap)
    if backward:
        scalars["scale_scalar"] = scale_of(mode, rows)
    factor = 1 + 1e-9 if wide else 1
    scalars |= {x: value * factor for x, value in zip(loss.parameters, loss.values[parameters])}
    arrays = {x: draw.floats((rows, columns), kind, strides) for x in loss.inputs}
    if loss.targets:
        target = target_of(draw, loss, rows, columns)
        if target.values.ndim == 2:
            target = draw.array(target.values, target.dtype, strides)
        arrays[loss.target] = target
    if backward:
        arrays["dy"] = draw.floats((rows if mode == NONE else 1,))
        arrays |= {x: draw.output((rows, columns), strides) for x in loss.gradients}
    else:
        arrays["out"] = draw.output((rows if mode == NONE else 1,))
    return Problem(scalars, arrays, null=null)


def arguments(problem, loss, wide=False):
    names = (*loss.inputs, *([loss.target] if loss.targets else []))
    parameters = [float((np.float64 if wide else np.float32)(problem.scalars[x])) for x in loss.parameters]
    return [*(problem.arrays[x].values for x in names), *parameters]


def forward(name, wide=False):
    loss = ROW_LOSSES[name]

    def reference(problem):
        with np.errstate(all="ignore"):
            value, magnitude = loss.term(*arguments(problem, loss, wide))
            each = problem.scalars[loss.columns]
            return {"out": reduced(value, magnitude, problem.scalars["reduction_mode"], each=each + 4)}

    return reference


def backward(name, wide=False):
    loss = ROW_LOSSES[name]

    def reference(problem):
        with np.errstate(all="ignore"):
            slopes = loss.slope(*arguments(problem, loss, wide))
            s = upstream(problem, problem.scalars["n_rows"])[:, None]
            count = problem.scalars[loss.columns] + 4
            return {
                output: Expected(value * s, count, magnitude * np.abs(s), divided=magnitude)
                for output, (value, magnitude) in zip(loss.gradients, slopes)
                if output not in problem.null
            }

    return reference


def problems(name, *, gradient):
    loss, table = ROW_LOSSES[name], {}

    def add(label, *args, **options):
        table[label] = lambda draw: made(draw, name, *args, backward=gradient, **options)

    small = loss.targets == "list"
    for k, columns in enumerate(COLUMNS):
        add(f"columns{columns}", 5 if columns < 1000 else 2, columns, (NONE, MEAN, SUM)[k % 3])
    for label, mode in MODES.items():
        add(label, 17, 23, mode)
        add(f"padded_{label}", 9, 40, mode, gap=7)
    add("rows", 1030, 6, MEAN)
    add("one_row", 1, 50, MEAN)
    for k in range(1, len(loss.values)):
        add(f"parameters{k}", 12, 30, k % 3, parameters=k)
    if loss.takes_special:
        add("special", 60, 9, NONE, kind="special")
        add("special_wide", 5, 200, NONE, kind="special")
    if not small:
        add("long", 2, 40_001, SUM)
    add("large", 600, 96, MEAN)
    if len(loss.gradients) > 1 and gradient:
        for x in loss.gradients:
            add(f"without_{x}", 7, 12, MEAN, null=(x,))
        add("without_any", 7, 12, NONE, null=loss.gradients)
    if not gradient:
        inputs = (*loss.inputs, *([loss.target] if loss.targets else []))
        add("no_rows_mean", 0, 5, MEAN, null=inputs)
        add("no_rows_sum", 0, 5, SUM, null=inputs)
        add("no_columns", 4, 0, NONE, null=loss.inputs)
    return table


def strides_too_short(loss):
    for stride in loss.strides[:1]:
        text = rf"{stride} is \d+, must be >= {loss.columns}"
        yield Bad(f"rows_overlap_{stride}", 2, text, {stride: 22}, can=2)


def cases(name):
    loss = ROW_LOSSES[name]
    extents = ("n_rows", loss.columns, *loss.strides)
    inputs = (*loss.inputs, *([loss.target] if loss.targets else []))
    ordered = sorted(inputs, key=lambda x: x != "input")
    huge = Bad("huge", 2, r"n_rows is \d+ and \w+ is \d+: \w+ would span", {"n_rows": 2**61}, can=2)
    yield Case(
        row=f"loss_{name}_{{T}}", problems=problems(name, gradient=False), reference=forward(name),
        tolerance={"out": "loss"}, plain="none", large="large",
        bad=(
            *negative(extents), *pointers((*ordered, "out")), huge,
            Bad("no_rows_null_out", 2, r"out is NULL", {"n_rows": 0, "reduction_mode": MEAN}, null=("out",)),
        ),
        idle=(Idle("no_rows", {"n_rows": 0, "reduction_mode": NONE}),),
    )  # fmt: skip
    optional = loss.gradients if len(loss.gradients) > 1 else ()
    yield Case(
        row=f"loss_{name}_backward_{{T}}", problems=problems(name, gradient=True), reference=backward(name),
        tolerance=dict.fromkeys(loss.gradients, "loss"), plain="none", large="large",
        bad=(
            *negative(extents), *pointers((*ordered, "dy", *loss.gradients), optional), *strides_too_short(loss), huge,
        ),
        idle=(Idle("no_rows", {"n_rows": 0}), Idle("no_columns", {loss.columns: 0})),
    )  # fmt: skip


def wide_problems(name, *, gradient):
    loss, table = ROW_LOSSES[name], {}

    def add(label, *args, **options):
        table[label] = lambda draw: made(draw, name, *args, backward=gradient, wide=True, **options)

    for label, mode in MODES.items():
        add(label, 17, 23, mode)
    for k in range(1, len(loss.values)):
        add(f"parameters{k}", 12, 30, k % 3, parameters=k)
    add("large", 600, 96, MEAN)
    return table


def wide_cases(name):
    """The rows whose parameters are f64."""
    for case, gradient in zip(cases(name), (False, True)):
        yield dataclasses.replace(
            case, row=f"loss_{name}_param{'_backward' * gradient}_{{T}}",
            problems=wide_problems(name, gradient=gradient),
            reference=(backward if gradient else forward)(name, wide=True),
        )  # fmt: skip


def narrow_problems(problems):
    """These problems with targets of i32."""

    def narrowed(make):
        def made(draw):
            problem = make(draw)
            target = problem.arrays["target"]
            problem.arrays["target"] = draw.array(target.values, "i32", target.strides)
            return problem

        return made

    return {label: narrowed(make) for label, make in problems.items()}


def narrow_cases(name):
    for case, gradient in zip(cases(name), (False, True)):
        row = f"loss_{name}_i32{'_backward' * gradient}_{{T}}"
        yield dataclasses.replace(case, row=row, problems=narrow_problems(case.problems))


CASES = (
    *narrow_cases("multilabel_margin"),
    *(case for name in ROW_LOSSES for case in cases(name)),
    *(case for name, loss in ROW_LOSSES.items() if loss.parameters for case in wide_cases(name)),
)
