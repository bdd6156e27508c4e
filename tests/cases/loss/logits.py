# SPDX-License-Identifier: Apache-2.0
"""Losses of each element whose rows are their own: weighted binary cross entropy, the focal loss, and the
Kullback-Leibler divergence with batch mean or log targets."""

import numpy as np

from tools.oracle.losses import focal, focal_slope, kl_div, kl_div_of_logs, weighted_bce, weighted_bce_slope, whole
from tools.oracle.numerics import COMPUTE, round_to

from ..model import Bad, Case, Expected, Idle, Problem
from .common import MEAN, MODES, NONE, SUM, negative, pointers, reduced

SIZES = (1, 2, 7, 63, 64, 65, 1000, 1029, 4100)
WEIGHTS = ("weight", "pos_weight")


def shares(draw, n):
    values = draw.rng.random(n)
    return draw.array(round_to(np.where(draw.rng.random(n) < 0.5, np.round(values), values), draw.dtype))


def finished(draw, scalars, arrays, n, mode, backward, gradient, reads, null=()):
    """The problem with its results, or with the gradient's operands."""
    results = n if mode == NONE else 1
    if not backward:
        return Problem(scalars, arrays | {"out": draw.output((results,))}, null=null)
    arrays = {name: arrays[name] for name in reads}
    return Problem(scalars, arrays | {"dy": draw.floats((results,)), gradient: draw.output((n,))}, null=null)


def weighted(draw, n, mode, extents=(1, 1), kind="normal", backward=False, null=()):
    scalars = {"numel": n, "weight_extent": extents[0], "pos_weight_extent": extents[1], "reduction_mode": mode}
    dtype = COMPUTE[draw.dtype]
    arrays = {"logits": draw.floats((n,), kind), "target": shares(draw, n)}
    for name, extent in zip(WEIGHTS, extents):
        arrays[name] = draw.array(round_to(np.abs(draw.rng.standard_normal(extent)) + 0.1, dtype), dtype)
    return finished(draw, scalars, arrays, n, mode, backward, "dlogits", tuple(arrays), null)


def weights_of(problem):
    return [None if name in problem.null else problem.arrays[name].values for name in WEIGHTS]


def focused(draw, n, mode, alpha=0.25, gamma=2.0, kind="normal", backward=False, null=()):
    scalars = {"numel": n, "reduction_mode": mode, "alpha": alpha, "gamma": gamma}
    arrays = {"logits": draw.floats((n,), kind), "target": shares(draw, n)}
    return finished(draw, scalars, arrays, n, mode, backward, "dlogits", tuple(arrays), null)


def divergent(draw, n, mode, batch=3, flag=1, kind="normal", backward=False, null=()):
    scalars = {"numel": n, "reduction_mode": mode, "batch": batch, "log_target_flag": flag}
    target = -np.abs(draw.floats((n,)).values) if flag else draw.floats((n,)).values
    arrays = {"pred": draw.floats((n,), kind), "target": draw.array(target)}
    return finished(draw, scalars, arrays, n, mode, backward, "dinput", ("target",), null)


def divergence(x, t, flag):
    return kl_div_of_logs(x, t) if flag else kl_div(x, t)


def divergence_slope(t, flag):
    return whole(-np.exp(t) if flag else np.where(t <= 0, 0.0, -t))


# arguments of the oracle, from a problem
def of_weighted(problem):
    return problem.arrays["logits"].values, problem.arrays["target"].values, *weights_of(problem)


def of_focal(problem):
    parameters = (problem.scalars["alpha"], problem.scalars["gamma"])
    return problem.arrays["logits"].values, problem.arrays["target"].values, *parameters


def of_divergence(problem):
    flag = problem.scalars["log_target_flag"]
    return *(problem.arrays[x].values for x in ("pred", "target") if x in problem.arrays), flag


def over(problem):
    """The divisor of the mean."""
    return problem.scalars.get("batch", problem.scalars["numel"])


def forward(term, given):
    def reference(problem):
        mode = problem.scalars["reduction_mode"]
        with np.errstate(all="ignore"):
            value, magnitude = term(*given(problem))
            if mode == MEAN and len(value):
                value, magnitude = value / over(problem), magnitude / over(problem)
        return {"out": reduced(value, magnitude, SUM if mode == MEAN and len(value) else mode, each=4)}

    return reference


def backward(slope, given, gradient):
    def reference(problem):
        with np.errstate(all="ignore"):
            value, magnitude = slope(*given(problem))
        s = problem.arrays["dy"].values / (over(problem) if problem.scalars["reduction_mode"] == MEAN else 1)
        return {gradient: Expected(value * s, 8, magnitude * np.abs(s), divided=magnitude)}

    return reference


def problems(make, more, *, gradient, inputs):
    table = {}

    def add(label, *args, **options):
        table[label] = lambda draw: make(draw, *args, backward=gradient, **options)

    for k, n in enumerate(SIZES):
        add(f"size{n}", n, k % 3)
    for label, mode in MODES.items():
        add(label, 300, mode)
    for label, options in more.items():
        add(label, 240, (NONE, MEAN, SUM)[len(label) % 3], **options)
    add("large", 50_000, MEAN)
    add("long", 300_000, SUM)
    if not gradient:
        add("no_elements_mean", 0, MEAN, null=inputs)
        add("no_elements_sum", 0, SUM, null=inputs)
    return table


HUGE = Bad("huge", 2, r"numel is \d+: \w+ would have more", {"numel": 2**61}, can=2)


def cases(name, make, term, slope, given, *, inputs, gradient, reads=(), more=(), extents=(), bad=(), optional=()):
    results = ("numel", *extents)
    yield Case(
        row=f"loss_{name}_{{T}}", problems=problems(make, more, gradient=False, inputs=inputs),
        reference=forward(term, given), tolerance={"out": "loss"}, plain="none", large="large",
        bad=(*negative(results), *pointers((*inputs, "out"), optional), HUGE, *bad),
        idle=(Idle("no_elements", {"numel": 0, "reduction_mode": NONE}),),
    )  # fmt: skip
    yield Case(
        row=f"loss_{name}_backward_{{T}}", problems=problems(make, more, gradient=True, inputs=inputs),
        reference=backward(slope, given, gradient), tolerance={gradient: "loss"}, plain="none", large="large",
        bad=(*negative(results), *pointers((*(reads or inputs), "dy", gradient), optional), HUGE, *bad),
        idle=(Idle("no_elements", {"numel": 0}), Idle("no_elements_mean", {"numel": 0, "reduction_mode": MEAN})),
    )  # fmt: skip


WEIGHTED = {
    "classes": {"extents": (1, 12)}, "each": {"extents": (240, 8)}, "both": {"extents": (5, 16)},
    "without_weight": {"extents": (1, 12), "null": ("weight",)},
    "without_pos_weight": {"extents": (240, 1), "null": ("pos_weight",)}, "without_either": {"null": WEIGHTS},
    "longer": {"extents": (1000, 7)},
}  # fmt: skip
FOCAL = {
    "no_alpha": {"alpha": -1.0}, "plain_cross_entropy": {"alpha": -1.0, "gamma": 0.0}, "gamma1": {"gamma": 1.0},
    "gamma_half": {"gamma": 0.5},
}  # fmt: skip
BATCHES = {"of_shares": {"flag": 0}, "of_shares_batch": {"flag": 0, "batch": 240}, "one": {"batch": 1}}
CASES = (
    *cases("bce_with_logits_weighted", weighted, weighted_bce, weighted_bce_slope, of_weighted,
           inputs=("logits", "target", *WEIGHTS), gradient="dlogits", more=WEIGHTED, optional=WEIGHTS,
           extents=("weight_extent", "pos_weight_extent"),
           bad=tuple(Bad(f"no_{e}", 2, rf"{e} is 0, must be >= 1", {e: 0}, can=2)
                     for e in ("weight_extent", "pos_weight_extent"))),
    *cases("sigmoid_focal", focused, focal, focal_slope, of_focal, inputs=("logits", "target"), gradient="dlogits",
           more=FOCAL, bad=(Bad("gamma_negative", 2, r"gamma is -1, must be >= 0", {"gamma": -1.0}, can=2),)),
    *cases("kl_div_batch", divergent, divergence, divergence_slope, of_divergence, inputs=("pred", "target"),
           reads=("target",), gradient="dinput", more=BATCHES, extents=("batch",),
           bad=(Bad("no_batch", 2, r"batch is 0, must be >= 1", {"batch": 0, "reduction_mode": MEAN}, can=2),)),
)  # fmt: skip
