# SPDX-License-Identifier: Apache-2.0
"""Gradients of losses with respect to their targets and variances."""

import numpy as np

from tools.oracle.losses import TARGET_SLOPES
from tools.oracle.numerics import COMPUTE, round_to

from ..model import Bad, Case, Expected, Idle, Problem
from .common import MEAN, MODES, NONE, SUM, negative, pointers

SIZES = (1, 2, 7, 63, 64, 65, 1000, 1029)
WEIGHTS = ("weight", "pos_weight")


def operand(draw, name, n, parameters, kind):
    domain = TARGET_DOMAINS.get(name) if kind == "normal" else None
    if name in WEIGHTS:
        dtype, extent = COMPUTE[draw.dtype], parameters[f"{name}_extent"]
        return draw.array(round_to(np.abs(draw.rng.standard_normal(extent)) + 0.1, dtype), dtype)
    if domain == "probability":
        values = draw.rng.random(n)
        return draw.array(round_to(np.where(draw.rng.random(n) < 0.1, np.round(values), values), draw.dtype))
    if domain == "positive":
        return draw.array(np.abs(draw.floats((n,)).values))
    return draw.floats((n,), kind)


TARGET_DOMAINS = {"pred": "probability", "var": "positive", "input": "positive"}


def made(draw, name, n, mode, kind="normal", null=(), **parameters):
    inputs, given, output, _ = TARGET_SLOPES[name]
    parameters = given | parameters
    arrays = {x: operand(draw, x, n, parameters, kind) for x in inputs}
    arrays |= {"dy": draw.floats((n if mode == NONE else 1,)), output: draw.output((n,))}
    return Problem({"numel": n, "reduction_mode": mode, **parameters}, arrays, null=null)


def reference(name):
    inputs, _, output, slope = TARGET_SLOPES[name]

    def expected(problem):
        scalars = problem.scalars
        parameters = [
            v for k, v in scalars.items() if k not in ("numel", "reduction_mode", "batch") and "extent" not in k
        ]
        values = [None if x in problem.null else problem.arrays[x].values for x in inputs]
        with np.errstate(all="ignore"):
            value, magnitude = slope(*values, *parameters)
            over = scalars.get("batch", scalars["numel"]) if scalars["reduction_mode"] == MEAN else 1
            s = problem.arrays["dy"].values / over
            return {output: Expected(value * s, 8, magnitude * np.abs(s), divided=magnitude)}

    return expected


def problems(name, more):
    table = {}

    def add(label, *args, **options):
        table[label] = lambda draw: made(draw, name, *args, **options)

    for k, n in enumerate(SIZES):
        add(f"size{n}", n, k % 3)
    for label, mode in MODES.items():
        add(label, 300, mode)
    for label, options in more.items():
        add(label, 240, (NONE, MEAN, SUM)[len(label) % 3], **options)
    add("special", 400, NONE, kind="special")
    add("large", 50_000, MEAN)
    return table


def case(name, more=(), bad=(), extents=(), optional=()):
    inputs, _, output, _ = TARGET_SLOPES[name]
    return Case(
        row=f"loss_{name}_backward_{{T}}", problems=problems(name, dict(more)), reference=reference(name),
        tolerance={output: "loss"}, plain="none", large="large",
        bad=(*negative(("numel", *extents)), *pointers((*inputs, "dy", output), optional), *bad),
        idle=(Idle("no_elements", {"numel": 0}), Idle("no_elements_mean", {"numel": 0, "reduction_mode": MEAN})),
    )  # fmt: skip


def rows(draw, count, classes, mode, *, gap=0, kind="normal"):
    shape, strides = (count, classes), (classes + gap, 1)
    scalars = {"n_rows": count, "class_extent": classes, "row_stride": classes + gap, "reduction_mode": mode}
    arrays = {
        "input": draw.floats(shape, kind, strides), "dy": draw.floats((count if mode == NONE else 1,)),
        "dtarget": draw.output(shape, strides),
    }  # fmt: skip
    return Problem(scalars, arrays)


def rows_problems():
    table = {f"classes{c}": lambda d, c=c: rows(d, 5, c, c % 3) for c in (1, 2, 31, 32, 33, 1025)}
    for label, mode in MODES.items():
        table[label] = lambda d, mode=mode: rows(d, 9, 7, mode)
        table[f"padded_{label}"] = lambda d, mode=mode: rows(d, 6, 13, mode, gap=4)
    table["special"] = lambda d: rows(d, 20, 9, NONE, kind="special")
    table["large"] = lambda d: rows(d, 700, 70, MEAN)
    return table


def rows_reference(problem):
    x, dy, s = problem.arrays["input"].values, problem.arrays["dy"].values, problem.scalars
    with np.errstate(all="ignore"):
        share = (dy[:, None] if s["reduction_mode"] == NONE else dy) / s["class_extent"]
        share = share / s["n_rows"] if s["reduction_mode"] == MEAN else share
        value = -x * share
    return {"dtarget": Expected(value, 8, np.abs(value), divided=np.abs(x))}


WEIGHTED = {
    "classes": {"weight_extent": 1, "pos_weight_extent": 12}, "each": {"weight_extent": 240, "pos_weight_extent": 8},
    "without_weight": {"pos_weight_extent": 12, "null": ("weight",)}, "without_either": {"null": WEIGHTS},
}  # fmt: skip
CASES = (
    case("bce_target"),
    case(
        "bce_with_logits_weighted_target", WEIGHTED, extents=("weight_extent", "pos_weight_extent"), optional=WEIGHTS,
        bad=tuple(Bad(f"no_{e}", 2, rf"{e} is 0, must be >= 1", {e: 0}, can=2)
                  for e in ("weight_extent", "pos_weight_extent")),
    ),
    case(
        "kl_div_batch_target", {"shares": {"log_target_flag": 0}, "batch": {"batch": 240}}, extents=("batch",),
        bad=(Bad("no_batch", 2, r"batch is 0, must be >= 1", {"batch": 0, "reduction_mode": MEAN}, can=2),),
    ),
    case("poisson_nll_target", {"rates": {"log_input_flag": 0}}),
    case("gaussian_nll_var", {"bounded": {"eps": 0.5}}),
    case("margin_ranking_target", {"without_margin": {"margin": 0.0}}),
    Case(
        row="loss_multilabel_soft_margin_target_backward_{T}", problems=rows_problems(), reference=rows_reference,
        tolerance={"dtarget": "loss"}, plain="none", large="large",
        bad=(
            *negative(("n_rows", "class_extent", "row_stride")), *pointers(("input", "dy", "dtarget")),
            Bad("rows_overlap", 2, r"row_stride is 6, must be >= class_extent, 7", {"row_stride": 6}, can=2),
        ),
        idle=(Idle("no_rows", {"n_rows": 0}), Idle("no_classes", {"class_extent": 0})),
    ),
)  # fmt: skip
