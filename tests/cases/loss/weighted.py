# SPDX-License-Identifier: Apache-2.0
"""Losses over the classes of [N, C, d...] with class weights: cross entropy of an index, with an ignored one, label
smoothing and z-loss, or of probabilities, and nll."""

import numpy as np

from tools.oracle.losses import (
    soft_cross_entropy,
    soft_cross_entropy_slope,
    soft_cross_entropy_target_slope,
    weighted_cross_entropy,
    weighted_cross_entropy_slope,
    weighted_nll,
    weighted_shares,
)
from tools.oracle.numerics import COMPUTE, round_to

from ..model import Bad, Case, Expected, Idle, Problem
from .common import MEAN, MODES, NONE, SUM, negative, pointers, reduced

IGNORED = -100
LENGTHS = (31, 32, 1023, 1024, 1025, 12_001, 131_072)
COLUMNS = (1, 2, 5, 8, 33, 64, 100, 129, 1000, 3001)


def targets(draw, rows, columns, inner, ignored, share=0.2):
    """A `share` of them is ignored."""
    shape = (rows, inner)
    labels = draw.rng.integers(0, max(columns, 1), shape)
    invalid = np.array([-1, columns, ignored, 2**31 - 1, *([2**32, -(2**63)] if draw.index == "i64" else [])])
    return draw.indices(np.where(draw.rng.random(shape) < share, draw.rng.choice(invalid, shape), labels))


def class_weights(draw, columns):
    dtype = COMPUTE[draw.dtype]
    return draw.array(round_to(np.abs(draw.rng.standard_normal(columns)) + 0.1, dtype), dtype)


def rows_of(values):
    """The classes at each position of (items, classes, positions), as rows."""
    items, classes, inner = values.shape
    return np.moveaxis(values, 1, 2).reshape(items * inner, classes)


def items_of(rows, problem):
    """The inverse of rows_of."""
    items, classes, inner = (problem.scalars[name] for name in ("n_rows", "class_extent", "inner_extent"))
    return np.moveaxis(np.broadcast_to(rows, (items * inner, classes)).reshape(items, inner, classes), 2, 1)


def weights_of(problem):
    return 1.0 if "weight" in problem.null else problem.arrays["weight"].values


def made(draw, rows, columns, mode, *, inner=1, gap=0, smoothing=0.0, z=0.0, ignored=IGNORED, weighted=True,
         forward=True, backward=False, scaled=True, kind="normal", share=0.2, null=()):  # fmt: skip
    stride = columns * inner + gap
    scalars = {
        "n_rows": rows, "class_extent": columns, "inner_extent": inner, "row_stride_input": stride,
        "reduction_mode": mode, "ignore_index": ignored, "label_smoothing": smoothing, "z_loss": z,
    }  # fmt: skip
    shape, strides = (rows, columns, inner), (stride, inner, 1)
    arrays = {
        "input": draw.floats(shape, kind, strides), "target": targets(draw, rows, columns, inner, ignored, share),
        "weight": class_weights(draw, columns),
    }  # fmt: skip
    null = (*null, *(() if weighted else ("weight",)), *(() if scaled else ("dy",)))
    problem = Problem(scalars, arrays, null=null)
    results = rows * inner if mode == NONE else 1
    if backward:
        arrays["dy"] = draw.floats((results,))
        arrays["dinput"] = draw.output(shape, strides)
    if forward:
        arrays |= {"out": draw.output((results,)), "divisor": draw.output((1,), dtype="f64")}
    else:
        arrays["divisor"] = draw.array(np.array([divisor_of(problem) or 1.0]), "f64")
    return problem


def arguments(problem):
    arrays, scalars = problem.arrays, problem.scalars
    given = (scalars[name] for name in ("ignore_index", "label_smoothing", "z_loss"))
    return rows_of(arrays["input"].values), arrays["target"].values.ravel(), weights_of(problem), *given


def divisor_of(problem):
    x, target, weights, ignored, *_ = arguments(problem)
    return weighted_shares(x, target, weights, ignored, 0.0)[1].sum()


def forward(problem):
    mode = problem.scalars["reduction_mode"]
    with np.errstate(all="ignore"):
        divisor = divisor_of(problem)
        value, magnitude = weighted_cross_entropy(*arguments(problem))
        if mode == MEAN:
            value, magnitude = value / divisor, magnitude / divisor
        each = problem.scalars["class_extent"] + 8
        out = reduced(value, magnitude, mode if mode == NONE else SUM, each=each)
        if mode == MEAN and not divisor:
            out = Expected(np.array([np.nan]))
    found = {"out": out, "divisor": Expected(np.array([divisor]), len(value) + 1, np.array([divisor]))}
    return {name: value for name, value in found.items() if name not in problem.null}


def backward(problem):
    mode = problem.scalars["reduction_mode"]
    dy = np.ones(1) if "dy" in problem.null else problem.arrays["dy"].values
    with np.errstate(all="ignore"):
        value, magnitude = weighted_cross_entropy_slope(*arguments(problem))
        s = dy / (divisor_of(problem) or 1.0) if mode == MEAN else dy
    s = np.broadcast_to(s, (len(value),))[:, None]
    count = problem.scalars["class_extent"] + 8
    found = (items_of(each, problem) for each in (value * s, magnitude * np.abs(s), magnitude))
    value, size, divided = found
    return {"dinput": Expected(value, count, size, divided=divided)}


def both(problem):
    """The loss and its gradient."""
    found = forward(problem)
    if "dinput" not in problem.null:
        found |= backward(problem)
    return found


def problems(*, gradient, value=True):
    table = {}

    def add(label, *args, **options):
        table[label] = lambda draw: made(draw, *args, forward=value, backward=gradient, **options)

    for k, columns in enumerate(COLUMNS):
        add(f"columns{columns}", 5 if columns < 1000 else 2, columns, k % 3, smoothing=(0.0, 0.1)[k % 2])
    for label, mode in MODES.items():
        add(label, 17, 23, mode, smoothing=0.1, z=1e-2)
        add(f"unweighted_{label}", 17, 23, mode, weighted=False)
        add(f"smooth_{label}", 17, 40, mode, weighted=False, smoothing=0.3)
        add(f"padded_{label}", 9, 40, mode, gap=7, smoothing=0.05)
    add("penalty", 12, 30, MEAN, weighted=False, z=0.5)
    add("all_smooth", 12, 30, SUM, smoothing=1.0)
    add("ignored_class", 40, 5, MEAN, ignored=3)
    add("rows", 1030, 6, MEAN)
    add("long", 2, 40_001, SUM, smoothing=0.1)
    add("special", 60, 9, NONE, kind="special", weighted=False)
    add("large", 600, 96, MEAN, smoothing=0.1)
    of_positions(add)
    add("positions_padded", 3, 7, SUM, inner=5, gap=4)
    add("positions_long", 2, 1030, MEAN, inner=3, smoothing=0.1)
    for k, columns in enumerate(() if value and gradient else LENGTHS):
        add(f"length{columns}", 3, columns, k % 3, smoothing=(0.0, 0.1)[k % 2])
    add("vocabulary", 2, 256_000, MEAN, weighted=False, z=1e-4)
    if value:
        unread = ("dy", "dinput") if gradient else ()
        add("nothing_counts", 3, 5, MEAN, share=1.0, weighted=False)
        add("no_rows_mean", 0, 5, MEAN, null=("input", "target", *unread))
        add("no_rows_none", 0, 5, NONE, null=("input", "target", "out", *unread))
        add("no_positions_sum", 3, 5, SUM, inner=0, null=("input", "target", *unread))
        add("no_columns", 4, 0, NONE, null=("input", *unread))
    if value and gradient:
        for label, mode in MODES.items():
            add(f"unscaled_{label}", 9, 40, mode, scaled=False)
    return table


def of_positions(add):
    """[N, C, d...] with fewer and with more positions than a partial sum covers."""
    for label, mode in MODES.items():
        add(f"positions_{label}", 4, 9, mode, inner=21)
    add("positions_few", 700, 3, MEAN, inner=2)
    add("positions_some", 3, 5, SUM, inner=300)
    add("positions_many", 2, 4, MEAN, inner=1100)
    add("single_item", 1, 6, NONE, inner=65)


# --- nll -------------------------------------------------------------------------------------------------------------


def likelihoods(draw, rows, columns, mode, *, inner=1, ignored=IGNORED, weighted=True, backward=False, kind="normal",
                share=0.2, null=()):  # fmt: skip
    scalars = {
        "n_rows": rows, "class_extent": columns, "inner_extent": inner, "reduction_mode": mode, "ignore_index": ignored,
    }  # fmt: skip
    arrays = {"target": targets(draw, rows, columns, inner, ignored, share), "weight": class_weights(draw, columns)}
    null = (*null, *(() if weighted else ("weight",)))
    problem = Problem(scalars, arrays, null=null)
    results = rows * inner if mode == NONE else 1
    if backward:
        divisor = weighted_nll(np.zeros((rows * inner, columns)), *of_likelihoods(problem))[2].sum()
        arrays["divisor"] = draw.array(np.array([divisor or 1.0]), "f64")
        arrays |= {"dy": draw.floats((results,)), "dinput": draw.output((rows, columns, inner))}
    else:
        arrays["input"] = draw.floats((rows, columns, inner), kind)
        arrays |= {"out": draw.output((results,)), "divisor": draw.output((1,), dtype="f64")}
    return problem


def of_likelihoods(problem):
    return problem.arrays["target"].values.ravel(), weights_of(problem), problem.scalars["ignore_index"]


def nll_forward(problem):
    mode = problem.scalars["reduction_mode"]
    with np.errstate(all="ignore"):
        value, magnitude, shares = weighted_nll(rows_of(problem.arrays["input"].values), *of_likelihoods(problem))
        divisor = shares.sum()
        if mode == MEAN:
            value, magnitude = value / divisor, magnitude / divisor
        out = reduced(value, magnitude, mode if mode == NONE else SUM, each=4)
    if mode == MEAN and not divisor:
        out = Expected(np.array([np.nan]))
    found = {"out": out, "divisor": Expected(np.array([divisor]), len(value) + 1, np.array([divisor]))}
    return {name: value for name, value in found.items() if name not in problem.null}


def nll_backward(problem):
    mode, dy, target = problem.scalars["reduction_mode"], problem.arrays["dy"].values, of_likelihoods(problem)[0]
    like = np.zeros((len(target), problem.scalars["class_extent"]))
    *_, shares = weighted_nll(like, *of_likelihoods(problem))
    s = dy / problem.arrays["divisor"].values[0] if mode == MEAN else dy
    value = np.where(np.arange(like.shape[1]) == target[:, None], -(s * shares)[:, None], 0.0)
    value = items_of(value, problem)
    return {"dinput": Expected(value, 4, np.abs(value), divided=np.abs(value))}


def nll_problems(*, gradient):
    table = {}

    def add(label, *args, **options):
        table[label] = lambda draw: likelihoods(draw, *args, backward=gradient, **options)

    for k, columns in enumerate((1, 2, 7, 64, 65, 1000)):
        add(f"columns{columns}", 9, columns, k % 3)
    for label, mode in MODES.items():
        add(label, 70, 10, mode)
        add(f"unweighted_{label}", 33, 10, mode, weighted=False)
    of_positions(add)
    add("ignored_class", 40, 5, MEAN, ignored=3)
    add("large", 500, 12, MEAN, inner=10)
    if not gradient:
        add("special", 100, 7, NONE, kind="special", weighted=False)
        add("nothing_counts", 3, 5, MEAN, share=1.0, weighted=False)
        add("no_rows_mean", 0, 5, MEAN, null=("input", "target"))
        add("no_rows_none", 0, 5, NONE, null=("input", "target", "out"))
        add("no_positions_sum", 3, 5, SUM, inner=0, null=("input", "target"))
        add("no_columns", 4, 0, NONE, null=("input",))
    return table


# --- probabilities ---------------------------------------------------------------------------------------------------


def mixed(draw, rows, columns, mode, *, inner=1, smoothing=0.0, weighted=True, backward=False, kind="normal", null=()):
    """Target probabilities that sum to anything, some of them 0."""
    scalars = {
        "n_rows": rows, "class_extent": columns, "inner_extent": inner, "reduction_mode": mode,
        "label_smoothing": smoothing,
    }  # fmt: skip
    shape = (rows, columns, inner)
    shares = draw.rng.random(shape) * (draw.rng.random(shape) < 0.7)
    arrays = {
        "input": draw.floats(shape, kind), "target": draw.array(round_to(shares, draw.dtype)),
        "weight": class_weights(draw, columns),
    }  # fmt: skip
    results = rows * inner if mode == NONE else 1
    if backward:
        arrays |= {"dy": draw.floats((results,)), "dinput": draw.output(shape), "dtarget": draw.output(shape)}
    else:
        arrays["out"] = draw.output((results,))
    return Problem(scalars, arrays, null=(*null, *(() if weighted else ("weight",))))


def of_mixed(problem):
    """Returns (logits, probabilities with their weights, the factor of a probability)."""
    e, weights = problem.scalars["label_smoothing"], weights_of(problem)
    q = rows_of(problem.arrays["target"].values) * (1 - e) + e / max(problem.scalars["class_extent"], 1)
    return rows_of(problem.arrays["input"].values), q * weights, (1 - e) * weights


def soft_forward(problem):
    with np.errstate(all="ignore"):
        value, magnitude = soft_cross_entropy(*of_mixed(problem)[:2])
    each = problem.scalars["class_extent"] + 8
    return {"out": reduced(value, magnitude, problem.scalars["reduction_mode"], each=each)}


def soft_backward(problem):
    x, q, factor = of_mixed(problem)
    mode, dy = problem.scalars["reduction_mode"], problem.arrays["dy"].values
    with np.errstate(all="ignore"):
        ((value, magnitude),) = soft_cross_entropy_slope(x, q)
        of_target, size = soft_cross_entropy_target_slope(x)
        s = np.broadcast_to(dy / len(x) if mode == MEAN else dy, (len(x),))[:, None]
    count, found = problem.scalars["class_extent"] + 8, {}
    for name, each, absolute in (("dinput", value, magnitude), ("dtarget", of_target * factor, size * np.abs(factor))):
        if name not in problem.null:
            results = (items_of(each_row, problem) for each_row in (each * s, absolute * np.abs(s), absolute))
            result, sizes, divided = results
            found[name] = Expected(result, count, sizes, divided=divided)
    return found


def soft_problems(*, gradient):
    table = {}

    def add(label, *args, **options):
        table[label] = lambda draw: mixed(draw, *args, backward=gradient, **options)

    for k, columns in enumerate(COLUMNS):
        add(f"columns{columns}", 5 if columns < 1000 else 2, columns, k % 3, smoothing=(0.0, 0.1)[k % 2])
    for label, mode in MODES.items():
        add(label, 17, 23, mode, smoothing=0.1)
        add(f"unweighted_{label}", 17, 23, mode, weighted=False)
        if gradient:
            add(f"logits_alone_{label}", 9, 40, mode, null=("dtarget",))
            add(f"targets_alone_{label}", 9, 40, mode, null=("dinput",))
    of_positions(add)
    add("long", 2, 40_001, SUM, smoothing=0.1)
    add("large", 300, 96, MEAN, smoothing=0.1)
    if not gradient:
        add("no_rows_mean", 0, 5, MEAN, null=("input", "target"))
        add("no_positions_sum", 3, 5, SUM, inner=0, null=("input", "target"))
        add("no_columns", 4, 0, NONE, null=("input", "target"))
    return table


ITEMS = ("n_rows", "class_extent", "inner_extent")
EXTENTS = (*ITEMS, "row_stride_input")
SMOOTHING = (
    Bad("smoothing_negative", 2, r"label_smoothing is -0.5, must be in", {"label_smoothing": -0.5}, can=2),
    Bad("smoothing_large", 2, r"label_smoothing is 1.5, must be in", {"label_smoothing": 1.5}, can=2),
    Bad("huge", 2, r"n_rows is \d+ and row_stride_input is \d+: \w+ would span", {"n_rows": 2**61}, can=2),
)
HUGE = Bad("huge", 2, r"n_rows is \d+: \w+ would have more", {"n_rows": 2**61}, can=2)
HUGE_ITEM = Bad("huge_item", 2, r"inner_extent is \d+: \w+ would have more", {"inner_extent": 2**62}, can=2)
CASES = (
    Case(
        row="loss_cross_entropy_weighted{I}_{T}", problems=problems(gradient=False), reference=forward,
        tolerance={"out": "loss", "divisor": "reduction"}, plain="none", large="large", idle=(),
        bad=(
            *negative(EXTENTS), *pointers(("input", "target", "weight", "out", "divisor"), ("weight",)), *SMOOTHING,
            Bad("no_rows_null_out", 2, r"out is NULL", {"n_rows": 0, "reduction_mode": MEAN}, null=("out",)),
        ),
    ),
    Case(
        row="loss_cross_entropy_weighted_backward{I}_{T}", problems=problems(gradient=True, value=False),
        reference=backward,
        tolerance={"dinput": "loss"}, plain="none", large="large",
        bad=(
            *negative(EXTENTS), *SMOOTHING,
            *pointers(("input", "target", "weight", "divisor", "dy", "dinput"), ("weight",)),
            Bad("rows_overlap", 2, r"row_stride_input is 22, must be >= class_extent \* inner_extent, 23",
                {"row_stride_input": 22}, can=2),
        ),
        idle=(Idle("no_rows", {"n_rows": 0}), Idle("no_columns", {"class_extent": 0})),
    ),
    Case(
        row="loss_cross_entropy_with_gradient{I}_{T}", problems=problems(gradient=True), reference=both,
        tolerance={"out": "loss", "divisor": "reduction", "dinput": "loss"}, plain="none", large="large", idle=(),
        bad=(
            *negative(EXTENTS), *SMOOTHING,
            *pointers(("input", "target", "weight", "dy", "out", "divisor", "dinput"), ("weight", "dy")),
            Bad("rows_overlap", 2, r"row_stride_input is 22, must be >= class_extent \* inner_extent, 23",
                {"row_stride_input": 22}, can=2),
        ),
    ),
    Case(
        row="loss_nll_weighted{I}_{T}", problems=nll_problems(gradient=False), reference=nll_forward,
        tolerance={"out": "loss", "divisor": "reduction"}, plain="none", large="large", idle=(),
        bad=(
            *negative(ITEMS), *pointers(("input", "target", "weight", "out", "divisor"), ("weight",)), HUGE, HUGE_ITEM,
            Bad("no_rows_null_out", 2, r"out is NULL", {"n_rows": 0, "reduction_mode": MEAN}, null=("out",)),
        ),
    ),
    Case(
        row="loss_nll_weighted_backward{I}_{T}", problems=nll_problems(gradient=True), reference=nll_backward,
        tolerance={"dinput": "loss"}, plain="none", large="large",
        bad=(
            *negative(ITEMS), HUGE, HUGE_ITEM,
            *pointers(("target", "weight", "divisor", "dy", "dinput"), ("weight",)),
        ),
        idle=(Idle("no_rows", {"n_rows": 0}), Idle("no_columns", {"class_extent": 0})),
    ),
    Case(
        row="loss_cross_entropy_soft_weighted_{T}", problems=soft_problems(gradient=False), reference=soft_forward,
        tolerance={"out": "loss"}, plain="none", large="large",
        bad=(
            *negative(ITEMS), *pointers(("input", "target", "weight", "out"), ("weight",)), HUGE, HUGE_ITEM,
            *SMOOTHING[:2],
            Bad("no_rows_null_out", 2, r"out is NULL", {"n_rows": 0, "reduction_mode": MEAN}, null=("out",)),
        ),
        idle=(Idle("no_rows", {"n_rows": 0, "reduction_mode": NONE}),),
    ),
    Case(
        row="loss_cross_entropy_soft_weighted_backward_{T}", problems=soft_problems(gradient=True),
        reference=soft_backward, tolerance={"dinput": "loss", "dtarget": "loss"}, plain="none", large="large",
        bad=(
            *negative(ITEMS), *SMOOTHING[:2], HUGE, HUGE_ITEM,
            *pointers(("input", "target", "weight", "dy", "dinput", "dtarget"), ("weight", "dinput", "dtarget")),
        ),
        idle=(Idle("no_rows", {"n_rows": 0}), Idle("no_columns", {"class_extent": 0})),
    ),
)  # fmt: skip
