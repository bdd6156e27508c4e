# SPDX-License-Identifier: Apache-2.0
"""Losses with options: weights of classes and elements, constants of likelihoods, the distance swap of triplets."""

import numpy as np

from tools.oracle import loss_options as oracle
from tools.oracle.numerics import COMPUTE, round_to

from ..model import Bad, Case, Expected, Idle, Problem
from .common import MEAN, MODES, NONE, SUM, negative, pointers, reduced

SIZES = (1, 2, 7, 63, 64, 65, 1000, 1029, 4100)
COLUMNS = (1, 2, 5, 8, 31, 32, 33, 64, 100, 129, 1000, 1025, 3001)
COUNTED = ("numel", "n_rows")


def weights(draw, count):
    dtype = COMPUTE[draw.dtype]
    return draw.array(round_to(np.abs(draw.rng.standard_normal(count)) + 0.1, dtype), dtype)


def finished(draw, scalars, arrays, count, outputs, null=()):
    """The problem with its loss, or with dy and the gradients, `outputs` by name."""
    results = count if scalars["reduction_mode"] == NONE else 1
    if "out" in outputs:
        return Problem(scalars, arrays | {"out": draw.output((results,))}, null=null)
    return Problem(scalars, arrays | {"dy": draw.floats((results,))} | outputs, null=null)


# --- a loss for each element -----------------------------------------------------------------------------------------


def probabilities(draw, n):
    values = draw.rng.random(n)
    return draw.array(round_to(np.where(draw.rng.random(n) < 0.1, np.round(values), values), draw.dtype))


def rates(draw, n, kind):
    return draw.floats((n,), kind) if kind != "normal" else draw.array(np.abs(draw.floats((n,)).values))


def counts(draw, n, kind):
    """Targets on both sides of 1, and zeros."""
    values = round_to(draw.rng.poisson(1.5, n) + draw.rng.choice([0, 0, 0.5], n), draw.dtype)
    return draw.floats((n,), kind) if kind != "normal" else draw.array(values)


ELEMENTS = {
    "pred": lambda draw, n, kind: draw.floats((n,), kind) if kind != "normal" else probabilities(draw, n),
    "var": rates, "rate": rates, "count": counts,
    "share": lambda draw, n, kind: draw.floats((n,), kind) if kind != "normal" else probabilities(draw, n),
    "real": lambda draw, n, kind: draw.floats((n,), kind),
}  # fmt: skip


def elements(draw, n, mode, inputs, params, output, kind="normal", null=(), **changed):
    """`inputs`: the kind of each operand, by the C ABI's name."""
    scalars = {"numel": n, "reduction_mode": mode} | params | changed
    arrays = {
        name: weights(draw, scalars["weight_extent"]) if name == "weight" else ELEMENTS[what](draw, n, kind)
        for name, what in inputs.items()
    }
    return finished(draw, scalars, arrays, n, {output: draw.output((n,))}, null)


def element_problems(inputs, params, output, more):
    table = {}

    def add(label, *args, **options):
        table[label] = lambda draw: elements(draw, *args, inputs, params, output, **options)

    for k, n in enumerate(SIZES):
        add(f"size{n}", n, k % 3)
    for label, mode in MODES.items():
        add(label, 300, mode)
    for label, options in more.items():
        add(label, 240, (NONE, MEAN, SUM)[len(label) % 3], **options)
    add("special", 400, NONE, kind="special")
    add("large", 50_000, MEAN)
    add("long", 300_000, SUM)
    if output == "out":
        unread = tuple(inputs)
        add("no_elements_mean", 0, MEAN, null=unread)
        add("no_elements_sum", 0, SUM, null=unread)
    return table


# --- a loss for each row ---------------------------------------------------------------------------------------------


def class_targets(draw, rows, columns):
    invalid = np.array([-1, columns, -100, 2**31 - 1, *([2**32, -(2**63)] if draw.index == "i64" else [])])
    chosen = draw.rng.random(rows) < 0.2
    return draw.indices(np.where(chosen, draw.rng.choice(invalid, rows), draw.rng.integers(0, max(columns, 1), rows)))


def shares(draw, shape):
    values = np.abs(draw.floats(shape).values)
    return np.where(draw.rng.random(shape) < 0.2, 0.0, values)


def rows(draw, count, columns, mode, names, params, outputs, gap=0, kind="normal", null=(), **changed):
    """names: (the extent of a row, the row pitches, the kind of each operand)."""
    extent, pitches, inputs = names
    strides = (columns + gap, 1)
    scalars = {"n_rows": count, extent: columns, "reduction_mode": mode} | dict.fromkeys(pitches, columns + gap)
    scalars |= params | changed
    made = {
        "real": lambda: draw.floats((count, columns), kind, strides),
        "class": lambda: class_targets(draw, count, columns),
        "share": lambda: draw.array(shares(draw, (count, columns)), strides=strides),
        "weight": lambda: weights(draw, columns),
    }
    arrays = {name: made[what]() for name, what in inputs.items()}
    return finished(draw, scalars, arrays, count, {x: draw.output((count, columns), strides) for x in outputs}, null)


def row_problems(names, params, outputs, more):
    table = {}

    def add(label, *args, **options):
        table[label] = lambda draw: rows(draw, *args, names, params, outputs, **options)

    for k, columns in enumerate(COLUMNS):
        add(f"columns{columns}", 5 if columns < 1000 else 2, columns, (NONE, MEAN, SUM)[k % 3])
    for label, mode in MODES.items():
        add(label, 17, 23, mode)
        add(f"padded_{label}", 9, 40, mode, gap=7)
    for label, options in more.items():
        add(label, 12, 30, (NONE, MEAN, SUM)[len(label) % 3], **options)
    add("rows", 1030, 6, MEAN)
    add("one_row", 1, 50, MEAN)
    add("long", 2, 40_001, SUM)
    add("large", 600, 96, MEAN)
    if "out" in outputs:
        unread = tuple(names[2])
        add("no_rows_mean", 0, 5, MEAN, null=unread)
        add("no_rows_sum", 0, 5, SUM, null=unread)
        add("no_columns", 4, 0, NONE, null=[x for x, what in names[2].items() if what != "class"])
    return table


# --- references ------------------------------------------------------------------------------------------------------


def given(problem, inputs, params):
    values = [None if x == "weight" and x in problem.null else problem.arrays[x].values for x in inputs]
    return [*values, *(problem.scalars[x] for x in params if "extent" not in x)]


def forward(term, inputs, params, extent):
    def reference(problem):
        with np.errstate(all="ignore"):
            value, magnitude = term(*given(problem, inputs, params))
            each = problem.scalars.get(extent, 0) + 4
            return {"out": reduced(value, magnitude, problem.scalars["reduction_mode"], each=each)}

    return reference


def backward(slope, inputs, params, outputs, extent):
    def reference(problem):
        with np.errstate(all="ignore"):
            slopes = slope(*given(problem, inputs, params))
            slopes = slopes if isinstance(slopes[0], tuple) else (slopes,)
            total = next(problem.scalars[x] for x in COUNTED if x in problem.scalars)
            s = problem.arrays["dy"].values / (total if problem.scalars["reduction_mode"] == MEAN else 1)
            s = s if extent is None else s[:, None]
            count = problem.scalars.get(extent, 0) + 8
            return {
                x: Expected(value * s, count, magnitude * np.abs(s), divided=magnitude)
                for x, (value, magnitude) in zip(outputs, slopes)
                if x not in problem.null
            }

    return reference


# --- cases -----------------------------------------------------------------------------------------------------------

NO_ELEMENTS = (Idle("no_elements", {"numel": 0}), Idle("no_elements_mean", {"numel": 0, "reduction_mode": MEAN}))
NO_ROWS = Idle("no_rows", {"n_rows": 0})
HUGE = Bad("huge", 2, r"numel is \d+: \w+ would have more", {"numel": 2**61}, can=2)
HUGE_ROWS = Bad("huge", 2, r"n_rows is \d+ and \w+ is \d+: \w+ would span", {"n_rows": 2**61}, can=2)
NO_WEIGHTS = Bad("no_weights", 2, r"weight_extent is 0, must be >= 1", {"weight_extent": 0}, can=2)


def of_elements(name, function, inputs, params=None, output="out", more=None, special=True):
    """A loss, or one gradient of it."""
    params, more = params or {}, more or {}
    is_loss = output == "out"
    table = element_problems(inputs, params, output, more)
    if not special:
        del table["special"]
    make = forward(function, inputs, params, None) if is_loss else backward(function, inputs, params, (output,), None)
    extents = [x for x in params if x.endswith("_extent")]
    return Case(
        row=f"loss_{name}_{{T}}", problems=table, reference=make, tolerance={output: "loss"}, plain="none",
        large="large",
        bad=(
            *negative(("numel", *extents)), HUGE, *([NO_WEIGHTS] if extents else []),
            *pointers((*inputs, *([] if is_loss else ["dy"]), output), ("weight",)),
        ),
        idle=(Idle("no_elements", {"numel": 0, "reduction_mode": NONE}),) if is_loss else NO_ELEMENTS,
    )  # fmt: skip


def of_rows(name, function, extent, pitches, inputs, params=None, outputs=("out",), more=None):
    params, more, is_loss = params or {}, dict(more or {}), "out" in outputs
    if len(outputs) > 1:
        more |= {f"without_{x}": {"null": (x,)} for x in outputs} | {"without_any": {"null": outputs}}
    names = (extent, pitches, inputs)
    make = forward(function, inputs, params, extent)
    make = make if is_loss else backward(function, inputs, params, outputs, extent)
    optional = ("weight", *(outputs if len(outputs) > 1 else ()))
    overlap = Bad("rows_overlap", 2, rf"{pitches[0]} is 22, must be >= {extent}", {pitches[0]: 22}, can=2)
    return Case(
        row=f"loss_{name}_{{T}}", problems=row_problems(names, params, outputs, more), reference=make,
        tolerance=dict.fromkeys(outputs, "loss"), plain="none", large="large",
        bad=(
            *negative(("n_rows", extent, *pitches)), HUGE_ROWS, *([] if is_loss else [overlap]),
            *pointers((*inputs, *([] if is_loss else ["dy"]), *outputs), optional),
        ),
        idle=(Idle("no_rows", {"n_rows": 0, "reduction_mode": NONE}),) if is_loss
        else (NO_ROWS, Idle("no_columns", {extent: 0})),
    )  # fmt: skip


COUNT = {"input": "rate", "target": "count"}
POISSON = {"log_input_flag": 1, "full_flag": 1, "eps": 0.0}
OF_COUNTS = {
    "rates": {"log_input_flag": 0}, "rates_eps": {"log_input_flag": 0, "eps": 0.25},
    "rates_small_eps": {"log_input_flag": 0, "eps": 1e-8},
}  # fmt: skip
HALF = {"without_constant": {"full_flag": 0}, "rates_without": {"log_input_flag": 0, "full_flag": 0, "eps": 1e-8}}
POISSON_SLOPE = {"log_input_flag": 1, "eps": 0.0}
VALUES = {"input": "real", "target": "real", "var": "var"}
GAUSSIAN = {"full_flag": 1, "eps": 1e-6}
WEIGHT = {"weight_extent": 1}
OF_WEIGHTS = {
    "classes": {"weight_extent": 12}, "each": {"weight_extent": 240}, "longer": {"weight_extent": 1000},
    "odd": {"weight_extent": 7}, "without_weight": {"null": ("weight",)},
}  # fmt: skip
PAIR = {"pred": "pred", "target": "share", "weight": "weight"}
MARGINS = {"margin": 1.0, "p_norm": 1.0}
OF_MARGINS = {"squares": {"margin": 0.5, "p_norm": 2.0}, "cubes": {"p_norm": 3.0}, "unweighted": {"null": ("weight",)}}
CLASSES = {"input": "real", "target": "class", "weight": "weight"}
BETWEEN = ("row_stride_in", "row_stride_tgt")
SOFT = {"input": "real", "target": "share", "weight": "weight"}
UNWEIGHTED = {"unweighted": {"null": ("weight",)}}
TRIPLET = {"a": "real", "p_tensor": "real", "n_tensor": "real"}
SWAP = {"margin": 1.0, "p_norm": 2.0, "eps": 0.0, "swap_flag": 1}
OF_SWAPS = {
    "sums": {"p_norm": 1.0, "margin": 0.5}, "cubes": {"p_norm": 3.0}, "bounded": {"eps": 1e-6},
    "not_swapped": {"swap_flag": 0}, "not_swapped_bounded": {"swap_flag": 0, "eps": 0.125},
}  # fmt: skip
CASES = (
    of_elements("poisson_nll_full", oracle.full_poisson, COUNT, POISSON, more=OF_COUNTS | HALF),
    of_elements("poisson_nll_full_backward", oracle.full_poisson_slope, COUNT, POISSON_SLOPE, "dinput", OF_COUNTS),
    of_elements(
        "poisson_nll_full_target_backward", oracle.full_poisson_target, COUNT, POISSON, "dtarget", OF_COUNTS | HALF
    ),
    of_elements(
        "gaussian_nll_full", oracle.full_gaussian, VALUES, GAUSSIAN,
        more={"bounded": {"eps": 0.5}, "without_constant": {"full_flag": 0}},
    ),
    of_elements("bce_weighted", oracle.weighted_probabilities, PAIR, WEIGHT, more=OF_WEIGHTS),
    of_elements("bce_weighted_backward", oracle.weighted_probabilities_slope, PAIR, WEIGHT, "dpred", OF_WEIGHTS),
    of_elements(
        "bce_weighted_target_backward", oracle.weighted_probabilities_target, {"pred": "pred", "weight": "weight"},
        WEIGHT, "dtarget", OF_WEIGHTS,
    ),
    of_rows(
        "multi_margin_weighted{I}", oracle.weighted_multi_margin, "class_extent", ("row_stride",), CLASSES, MARGINS,
        more=OF_MARGINS,
    ),
    of_rows(
        "multi_margin_weighted_backward{I}", oracle.weighted_multi_margin_slope, "class_extent", ("row_stride",),
        CLASSES, MARGINS, ("dinput",), OF_MARGINS,
    ),
    of_rows(
        "multilabel_soft_margin_weighted", oracle.weighted_soft_margin, "class_extent", BETWEEN, SOFT, more=UNWEIGHTED
    ),
    of_rows(
        "multilabel_soft_margin_weighted_backward", oracle.weighted_soft_margin_slope, "class_extent", BETWEEN, SOFT,
        outputs=("dinput",), more=UNWEIGHTED,
    ),
    of_rows(
        "multilabel_soft_margin_weighted_target_backward", oracle.weighted_soft_margin_target, "class_extent",
        ("row_stride",), {"input": "real", "weight": "weight"}, outputs=("dtarget",), more=UNWEIGHTED,
    ),
    of_rows("triplet_margin_swap", oracle.triplet_swap, "d_extent", ("row_stride",), TRIPLET, SWAP, more=OF_SWAPS),
    of_rows(
        "triplet_margin_swap_backward", oracle.triplet_swap_slope, "d_extent", ("row_stride",), TRIPLET, SWAP,
        ("da", "dp", "dn"), OF_SWAPS,
    ),
)  # fmt: skip
