"""Cross entropy with weights of the classes, an ignored index, label smoothing and a penalty of the normalizer."""

import numpy as np

from tools.oracle.losses import weighted_cross_entropy, weighted_cross_entropy_slope, weighted_shares
from tools.oracle.numerics import COMPUTE, round_to

from ..model import Bad, Case, Expected, Idle, Problem
from .common import MEAN, MODES, NONE, SUM, negative, pointers, reduced

IGNORED = -100
COLUMNS = (1, 2, 5, 8, 33, 64, 100, 129, 1000, 3001)


def made(draw, rows, columns, mode, *, gap=0, smoothing=0.0, z=0.0, ignored=IGNORED, weighted=True, backward=False,
         kind="normal", null=()):  # fmt: skip
    stride = columns + gap
    scalars = {
        "n_rows": rows, "class_extent": columns, "row_stride_input": stride, "reduction_mode": mode,
        "ignore_index": ignored, "label_smoothing": smoothing, "z_loss": z,
    }  # fmt: skip
    labels = draw.rng.integers(0, max(columns, 1), rows)
    invalid = np.array([-1, columns, IGNORED, 2**31 - 1, *([2**32, -(2**63)] if draw.index == "i64" else [])])
    target = draw.indices(np.where(draw.rng.random(rows) < 0.2, draw.rng.choice(invalid, rows), labels))
    dtype = COMPUTE[draw.dtype]
    weights = draw.array(round_to(np.abs(draw.rng.standard_normal(columns)) + 0.1, dtype), dtype)
    arrays = {"input": draw.floats((rows, columns), kind, (stride, 1)), "target": target, "weight": weights}
    null = (*null, *(() if weighted else ("weight",)))
    problem = Problem(scalars, arrays, null=null)
    results = rows if mode == NONE else 1
    if backward:
        arrays["divisor"] = draw.array(np.array([divisor_of(problem) or 1.0]), "f64")
        arrays["dy"] = draw.floats((results,))
        arrays["dinput"] = draw.output((rows, columns), (stride, 1))
    else:
        arrays |= {"out": draw.output((results,)), "divisor": draw.output((1,), dtype="f64")}
    return problem


def arguments(problem):
    arrays, scalars = problem.arrays, problem.scalars
    weights = 1.0 if "weight" in problem.null else arrays["weight"].values
    given = (scalars[name] for name in ("ignore_index", "label_smoothing", "z_loss"))
    return arrays["input"].values, arrays["target"].values, weights, *given


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
    mode, dy = problem.scalars["reduction_mode"], problem.arrays["dy"].values
    with np.errstate(all="ignore"):
        value, magnitude = weighted_cross_entropy_slope(*arguments(problem))
        s = dy / problem.arrays["divisor"].values[0] if mode == MEAN else dy
    s = np.broadcast_to(s, (len(value),))[:, None]
    count = problem.scalars["class_extent"] + 8
    return {"dinput": Expected(value * s, count, magnitude * np.abs(s), divided=magnitude)}


def problems(*, gradient):
    table = {}

    def add(label, *args, **options):
        table[label] = lambda draw: made(draw, *args, backward=gradient, **options)

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
    if not gradient:
        add("nothing_counts", 3, 5, MEAN, ignored=0, weighted=False)
        add("no_rows_mean", 0, 5, MEAN, null=("input", "target"))
        add("no_rows_none", 0, 5, NONE, null=("input", "target", "out"))
        add("no_columns", 4, 0, NONE, null=("input",))
    return table


EXTENTS = ("n_rows", "class_extent", "row_stride_input")
SMOOTHING = (
    Bad("smoothing_negative", 2, r"label_smoothing is -0.5, must be in", {"label_smoothing": -0.5}, can=2),
    Bad("smoothing_large", 2, r"label_smoothing is 1.5, must be in", {"label_smoothing": 1.5}, can=2),
    Bad("huge", 2, r"n_rows is \d+ and row_stride_input is \d+: \w+ would span", {"n_rows": 2**61}, can=2),
)
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
        row="loss_cross_entropy_weighted_backward{I}_{T}", problems=problems(gradient=True), reference=backward,
        tolerance={"dinput": "loss"}, plain="none", large="large",
        bad=(
            *negative(EXTENTS), *SMOOTHING,
            *pointers(("input", "target", "weight", "divisor", "dy", "dinput"), ("weight",)),
            Bad("rows_overlap", 2, r"row_stride_input is 22, must be >= class_ext", {"row_stride_input": 22}, can=2),
        ),
        idle=(Idle("no_rows", {"n_rows": 0}), Idle("no_columns", {"class_extent": 0})),
    ),
)  # fmt: skip
