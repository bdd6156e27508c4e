# SPDX-License-Identifier: Apache-2.0
"""The steps of a fused linear cross entropy."""

import functools

import numpy as np

from tools.oracle.losses import cross_entropy, cross_entropy_slope

from ..model import Bad, Case, Expected, Idle, Problem
from .common import pointers

IGNORED = -100


def rows(draw, n, v, *, gap=0, scale=0.25, loss="f32"):
    labels = draw.rng.integers(0, v, n)
    ignored = draw.rng.choice(np.array([IGNORED, -1, v, 2**40], np.int64), n)
    return Problem(
        {"n_rows": n, "v": v, "row_stride": v + gap, "target_ignore": IGNORED, "scale_per_row": scale},
        {
            "logits": draw.floats((n, v), strides=(v + gap, 1)),
            "target": draw.array(np.where(draw.rng.random(n) < 0.2, ignored, labels), "i64"),
            "loss_1d": draw.output((n,), dtype=loss),
        },
    )


def rows_reference(problem):
    x, target = problem.arrays["logits"].values, problem.arrays["target"].values
    scale, count = problem.scalars["scale_per_row"], x.shape[1] + 4
    with np.errstate(all="ignore"):
        value, magnitude = cross_entropy(x, target)
        ((slope, size),) = cross_entropy_slope(x, target)
    # the loss has the error of the dtype's exponential, whatever it is stored in
    rough = 64 if problem.arrays["logits"].dtype in ("f16", "bf16") else 1
    return {
        "logits": Expected(slope * scale, count, size * scale, divided=size),
        "loss_1d": Expected(value, count, magnitude * rough),
    }


def cast(draw, n, kind="normal"):
    return Problem({"n_rows": n}, {"loss_1d": draw.floats((n,), kind, dtype="f32"), "out": draw.output((n,))})


def finalize(draw, n, null=(), loss="f32", share=0.125):
    arrays = {"loss_1d": draw.floats((n,), dtype=loss), "out": draw.output((1,))}
    return Problem({"n_rows": n, "denom_inv": share}, arrays, null=null)


def finalize_reference(problem):
    x, share = problem.arrays["loss_1d"].values, problem.scalars["denom_inv"]
    return {"out": Expected(np.array([np.sum(x) * share]), max(len(x), 1), np.sum(np.abs(x)) * share)}


def scale(draw, n, kind="normal", by=0.75):
    return Problem({"numel": n, "scalar": by}, {"buf": draw.floats((n,), kind)})


def scale_reference(problem):
    value = problem.arrays["buf"].values * problem.scalars["scalar"]
    return {"buf": Expected(value, 1, np.abs(value))}


def count(draw, n, null=()):
    target = draw.array(draw.rng.choice(np.array([IGNORED, -1, 0, 7], np.int64), n), "i64")
    arrays = {"target": target, "count_out": draw.output((1,), dtype="i64")}
    return Problem({"bt": n, "ignore_index": IGNORED}, arrays, null=null)


def count_reference(problem):
    return {"count_out": Expected(np.array([np.sum(problem.arrays["target"].values != IGNORED)]))}


def many(make, **empty):
    sizes = {"one": 1, "few": 7, "plain": 300, "large": 70_001}
    table = {name: lambda draw, n=n: make(draw, n) for name, n in sizes.items()}
    return table | {name: lambda draw, null=null: make(draw, 0, null=null) for name, null in empty.items()}


def below_zero(name, least=">= 0"):
    return Bad(f"negative_{name}", 2, rf"{name} is -4, must be {least}", {name: -4}, can=2)


# scalars that are not exact in f32
PRECISE_ROWS = functools.partial(rows, scale=0.3, loss="f64")
PRECISE_SUM = functools.partial(finalize, loss="f64", share=0.3)
PRECISE_SCALE = functools.partial(scale, by=0.3)


def of_rows(make):
    table = {f"v{v}": lambda d, v=v: make(d, 5, v) for v in (1, 2, 7, 31, 64, 65, 200, 1025, 5000)}
    return table | {
        "plain": lambda d: make(d, 6, 33), "padded": lambda d: make(d, 7, 40, gap=5),
        "large": lambda d: make(d, 300, 120), "long": lambda d: make(d, 2, 40_001),
        "vocabulary": lambda d: make(d, 2, 256_000),
    }  # fmt: skip


def case_of_rows(row, make):
    return Case(
        row=row, problems=of_rows(make),
        reference=rows_reference, tolerance={"logits": "loss", "loss_1d": "loss"}, plain="plain", large="large",
        bad=(
            *map(below_zero, ("n_rows", "v", "row_stride")), *pointers(("logits", "target", "loss_1d")),
            Bad("no_classes", 2, r"v is 0, must be >= 1", {"v": 0}, can=2),
            Bad("rows_overlap", 2, r"row_stride is 32, must be >= v, 33", {"row_stride": 32}, can=2),
        ),
        idle=(Idle("no_rows", {"n_rows": 0}),),
    )  # fmt: skip


def case_of_scale(row, make):
    return Case(
        row=row, problems=many(make) | {"special": lambda d: make(d, 90, "special")},
        reference=scale_reference, tolerance={"buf": "pointwise"}, plain="plain", large="large",
        bad=(below_zero("numel"), *pointers(("buf",))), idle=(Idle("nothing", {"numel": 0}),),
    )  # fmt: skip


def case_of_sum(row, make):
    return Case(
        row=row, problems=many(make, no_rows=("loss_1d",)),
        reference=finalize_reference, tolerance={"out": "loss"}, plain="plain", large="large",
        bad=(
            below_zero("n_rows"), *pointers(("loss_1d", "out")),
            Bad("no_rows_null_out", 2, r"out is NULL", {"n_rows": 0}, null=("out",)),
        ),
        idle=(),
    )  # fmt: skip


CASES = (
    case_of_rows("loss_flce_per_row_{T}", rows),
    case_of_rows("loss_flce_per_row_param_{T}", PRECISE_ROWS),
    case_of_scale("loss_flce_inplace_scale_{T}", scale),
    case_of_scale("loss_flce_inplace_scale_param_{T}", PRECISE_SCALE),
    case_of_sum("loss_flce_scalar_finalize_{T}", finalize),
    case_of_sum("loss_flce_scalar_finalize_param_{T}", PRECISE_SUM),
    Case(
        row="loss_flce_per_row_cast_{T}",
        problems=many(cast) | {"special": lambda d: cast(d, 90, "special")},
        reference=lambda p: {"out": Expected(p.arrays["loss_1d"].values)}, tolerance={"out": "exact"},
        plain="plain", large="large", bad=(below_zero("n_rows"), *pointers(("loss_1d", "out"))),
        idle=(Idle("no_rows", {"n_rows": 0}),),
    ),
    Case(
        row="loss_flce_count_non_ignore", problems=many(count, no_rows=("target",)), reference=count_reference,
        tolerance={"count_out": "exact"}, plain="plain", large="large",
        bad=(below_zero("bt"), *pointers(("target", "count_out"))), idle=(),
    ),
)  # fmt: skip
