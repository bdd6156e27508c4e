# SPDX-License-Identifier: Apache-2.0
"""Losses of each element, and their gradients."""

import dataclasses

import numpy as np

from tools.oracle.losses import LOSSES
from tools.oracle.numerics import round_to

from ..model import Bad, Case, Expected, Idle, Problem
from .common import MEAN, MODES, NONE, SUM, negative, pointers, reduced, scale_of, upstream

SIZES = (1, 2, 7, 63, 64, 65, 1000, 1023, 1024, 1029, 4100)


def operand(draw, loss, name, n, kind, integer="i64"):
    if name in loss.integers:
        other = 2**32 + 1 if integer == "i64" else 2**31 - 1
        return draw.array(draw.rng.choice(np.array([1, -1, 0, 2, other]), n), integer)
    domain = loss.domain.get(name)
    if domain == "probability" and kind != "special":
        values = draw.rng.random(n)
        edges = draw.rng.random(n) < 0.1
        return draw.array(round_to(np.where(edges, np.round(values), values), draw.dtype))
    if domain == "positive" and kind != "special":
        return draw.array(np.abs(draw.floats((n,)).values))
    return draw.floats((n,), kind)


def made(draw, name, n, mode, kinds=None, parameter=0, backward=False, null=(), wide=False,
         integer="i64"):  # fmt: skip
    """`kinds` of the operands that are not ordinary, by name; `wide` parameters are not exact in f32."""
    loss, kinds = LOSSES[name], kinds or {}
    scalars = {"numel": n, "reduction_mode": mode}
    if backward:
        scalars["scale_scalar"] = scale_of(mode, n)
    if loss.parameter:
        scalars[loss.parameter] = loss.values[parameter] * (1 + 1e-9 if wide else 1)
    inputs = (loss.reads or loss.inputs) if backward else loss.inputs
    arrays = {x: operand(draw, loss, x, n, kinds.get(x, "normal"), integer) for x in inputs}
    results = n if mode == NONE else 1
    if backward:
        arrays["dy"] = draw.floats((results,))
        arrays |= {x: draw.output((n,)) for x in loss.gradients}
    else:
        arrays["out"] = draw.output((results,))
    return Problem(scalars, arrays, null=null)


def arguments(problem, loss, inputs, wide=False):
    values = [problem.arrays[x].values for x in inputs]
    if not loss.parameter:
        return values
    parameter = problem.scalars[loss.parameter]
    return [*values, parameter if wide or isinstance(parameter, int) else float(np.float32(parameter))]


def forward(name, wide=False):
    loss = LOSSES[name]

    def reference(problem):
        with np.errstate(all="ignore"):
            value, magnitude = loss.term(*arguments(problem, loss, loss.inputs, wide))
            return {"out": reduced(value, magnitude, problem.scalars["reduction_mode"])}

    return reference


def backward(name, wide=False):
    loss = LOSSES[name]

    def reference(problem):
        with np.errstate(all="ignore"):
            slopes = loss.slope(*arguments(problem, loss, loss.reads or loss.inputs, wide))
            s = upstream(problem, problem.scalars["numel"])
            return {
                output: Expected(value * s, 1, magnitude * np.abs(s), divided=magnitude)
                for output, (value, magnitude) in zip(loss.gradients, slopes)
                if output not in problem.null
            }

    return reference


def problems(name, *, gradient):
    loss, table = LOSSES[name], {}

    def add(label, *args, **options):
        table[label] = lambda draw: made(draw, name, *args, backward=gradient, **options)

    for k, n in enumerate(SIZES):
        add(f"n{n}", n, (NONE, MEAN, SUM)[k % 3])
    for label, mode in MODES.items():
        add(label, 777, mode)
    for k in range(1, len(loss.values)):
        add(f"parameter{k}", 300, k % 3, parameter=k)
    for x in (loss.reads or loss.inputs) if gradient else loss.inputs:
        if x not in loss.integers:
            add(f"special_{x}", 500, NONE, {x: "special"})
            add(f"special_sum_{x}", 500, SUM, {x: "special"})
    add("long", 150_001, MEAN)
    if len(loss.gradients) > 1 and gradient:
        for x in loss.gradients:
            add(f"without_{x}", 70, MEAN, null=(x,))
        add("without_any", 70, NONE, null=loss.gradients)
    if not gradient:
        add("no_elements_mean", 0, MEAN, null=loss.inputs)
        add("no_elements_sum", 0, SUM, null=loss.inputs)
    return table


def cases(name):
    loss = LOSSES[name]
    results = ("numel",)
    outputs = loss.gradients if len(loss.gradients) > 1 else ()
    read = loss.reads or loss.inputs
    yield Case(
        row=f"loss_{name}_{{T}}", problems=problems(name, gradient=False), reference=forward(name),
        tolerance={"out": "loss"}, plain="none", large="long",
        bad=(
            *negative(results), *pointers((*loss.inputs, "out")),
            Bad("no_elements_null_out", 2, r"out is NULL", {"numel": 0, "reduction_mode": MEAN}, null=("out",)),
        ),
        idle=(Idle("no_elements", {"numel": 0, "reduction_mode": NONE}),),
    )  # fmt: skip
    yield Case(
        row=f"loss_{name}_backward_{{T}}", problems=problems(name, gradient=True), reference=backward(name),
        tolerance=dict.fromkeys(loss.gradients, "loss"), plain="none", large="long",
        bad=(*negative(results), *pointers((*read, "dy", *loss.gradients), outputs)),
        idle=(Idle("no_elements", {"numel": 0}), Idle("no_elements_mean", {"numel": 0, "reduction_mode": MEAN})),
    )  # fmt: skip


def wide_problems(name, *, gradient, integer="i64"):
    loss, table = LOSSES[name], {}

    def add(label, *args, **options):
        table[label] = lambda draw: made(
            draw, name, *args, backward=gradient, wide=draw.dtype == "f64", integer=integer, **options
        )

    for label, mode in MODES.items():
        add(label, 777, mode)
    for k in range(1, len(loss.values)):
        add(f"parameter{k}", 300, k % 3, parameter=k)
    add("long", 150_001, MEAN)
    return table


def wide_cases(name, form="param", integer="i64"):
    """The rows whose parameter is f64; with targets of another integer dtype."""
    for case, gradient in zip(cases(name), (False, True)):
        yield dataclasses.replace(
            case, row=f"loss_{name}_{form}{'_backward' * gradient}_{{T}}",
            problems=wide_problems(name, gradient=gradient, integer=integer),
            reference=(backward if gradient else forward)(name, wide=True),
        )  # fmt: skip


WIDE = tuple(name for name, loss in LOSSES.items() if loss.parameter and not isinstance(loss.values[0], int))
CASES = (
    *(case for name in LOSSES for case in cases(name)),
    *(case for name in WIDE for case in wide_cases(name)),
    *wide_cases("hinge_embedding", "i32", "i32"),
)
