# SPDX-License-Identifier: Apache-2.0
"""Reductions along any set of axes."""

import math

import numpy as np

from ..model import Bad, Case, Expected, Idle, Problem, strides_for
from .one_axis import BAD_POWERS, EXTREME, FLIPPED, PERMUTED, SKIP, is_thorough, values
from .references import count_of, reduced


def over(draw, shape, axes, kind="normal", x=None, y=None, null=(), outputs=None, **scalars):
    """x and y are options of strides_for, y for all outputs; `outputs` maps a name to its dtype, a slot or x's by
    default."""
    out = tuple(1 if a in axes else e for a, e in enumerate(shape))
    sx, sy = strides_for(shape, **x or {}), strides_for(out, **y or {})
    unused = tuple(SKIP if a in axes else s for a, s in enumerate(sy))
    host = {"shape": tuple(shape), "stride_x": sx, **{f"stride_{name}": unused for name in outputs}}
    given = {"numel": math.prod(shape), "rank": len(shape), "reduce_axes_mask": sum(1 << a for a in axes), **scalars}
    arrays = {"x": values(draw, shape, kind, sx)}
    for name, dtype in outputs.items():
        arrays[name] = draw.output(out, sy, draw.other if dtype == "U" else dtype)
    return Problem(given, arrays, host, null, draw.function)


def axes_of(problem):
    return tuple(a for a in range(problem.scalars["rank"]) if problem.scalars["reduce_axes_mask"] >> a & 1)


def forward(name=""):
    """The reference of `name`, or of the row's function."""

    def reference(problem):
        x = problem.arrays["x"]
        parameters = {key: problem.scalars[key] for key in ("correction", "p") if key in problem.scalars}
        return {"y": reduced(name or problem.function, x.values, axes_of(problem), x.dtype, **parameters)}

    return reference


def moments(problem):
    """The variance and the mean that are wanted. The running mean is as exact as the sum over the count."""
    x, axes = problem.arrays["x"].values, axes_of(problem)
    with np.errstate(all="ignore"):
        found = {
            "y": reduced(problem.function, x, axes, "f64", correction=problem.scalars["correction"]),
            "mean": reduced("mean", x, axes, "f64"),
        }
        size = np.abs(x).max(axes, keepdims=True, initial=0)
    found["mean"] = Expected(found["mean"].value, count_of(x, axes) + 8, np.where(np.isfinite(size), size, 1))
    return {name: value for name, value in found.items() if name not in problem.null}


def extremes(problem):
    x, axes = problem.arrays["x"], axes_of(problem)
    found = {
        "value": reduced(problem.function.removeprefix("arg"), x.values, axes, x.dtype),
        "place": reduced(problem.function, x.values, axes, x.dtype),
    }
    return {name: value for name, value in found.items() if name not in problem.null}


# name -> shape, axes, options
SHAPES = {
    "plain": ((3, 5, 7), (0, 2), {}),
    "rank0": ((), (), {}),
    "none": ((4, 6), (), {}),
    "all": ((30, 5, 71), (0, 1, 2), {}),
    "ones": ((1, 5, 1), (0, 2), {}),
    "first": ((9, 8, 64), (0, 1), {}),
    "last": ((9, 8, 33), (1, 2), {}),
    "ends": ((9, 20, 33), (0, 2), {}),
    "middle": ((6, 5, 4, 64), (1, 2), {}),
    "every_other": ((3, 4, 5, 6, 7), (1, 3), {}),
    "channels": ((6, 32, 50), (0, 2), {}),
    "permuted": ((6, 40, 7), (0, 1), {"x": PERMUTED}),
    "permuted_out": ((6, 7, 5, 9), (2,), {"y": {"order": (1, 3, 0, 2)}}),
    "flipped": ((5, 4, 70), (0, 2), {"x": FLIPPED}),
    "flipped_out": ((5, 4, 6), (1,), {"y": {"flip": (0, 2)}}),
    "gaps": ((9, 6, 66), (1, 2), {"x": {"gap": 2, "pad": 3}, "y": {"gap": 3}}),
    "still": ((9, 65, 4), (1, 2), {"x": {"broadcast": (1,)}}),
    "rank8": ((2, 1, 3, 2, 1, 2, 3, 2), (0, 2, 5, 7), {}),
    "spiked": ((10, 6, 16), (1, 2), {"kind": "spiked"}),
    "spiked_columns": ((6, 8, 40), (0, 1), {"kind": "spiked"}),
    "brink": ((10, 9, 17), (1, 2), {"kind": "brink"}),
    "brink_columns": ((9, 15, 40), (0, 1), {"kind": "brink"}),
    "long": ((100, 7, 301), (0, 2), {}),
    "large": ((33, 10, 103), (1, 2), {}),
    "ties": ((13, 7, 10), (1, 2), {"kind": "ties"}),
    "ties_permuted": ((6, 40, 7), (0, 1), {"x": PERMUTED, "kind": "ties"}),
    "lowest": ((13, 7, 10), (0, 2), {"kind": "lowest"}),
}
EMPTY = {"nothing": ((3, 0, 5), (1,), {}), "nothing_null": ((0, 4, 0), (0, 2), {"null": ("x",)})}
BRIEF = ("plain", "all", "spiked", "channels", "large", "brink", "brink_columns")


def problems(outputs, kind="normal", *, more=None, without=(), **scalars):
    table = {**SHAPES, **EMPTY, **(more or {})}

    def made(shape, axes, options):
        return lambda d: over(d, shape, axes, **{"kind": kind, "outputs": outputs, **scalars, **options})

    return {name: made(*given) for name, given in table.items() if name not in without}


def bad_calls(outputs):
    """Variations of "plain": (3, 5, 7) over the axes 0 and 2."""
    first, optional = next(iter(outputs)), len(outputs) > 1
    yield from (
        Bad("negative", 2, r"numel is -4", {"numel": -4}, can=2),
        Bad("rank_negative", 2, r"rank is -1", {"rank": -1}, can=2),
        Bad("rank_9", 2, r"rank is 9", {"rank": 9}, can=2),
        Bad("count_wrong", 2, r"numel is 20, but shape has 105", {"numel": 20}, can=2),
        Bad("shape_negative", 2, r"shape\[2\] is -7", host={"shape": (3, 5, -7)}, can=2),
        Bad("mask_negative", 2, r"reduce_axes_mask is -5, must have bits of the 3", {"reduce_axes_mask": -5}, can=2),
        Bad("mask_large", 2, r"reduce_axes_mask is 9, must have bits of the 3", {"reduce_axes_mask": 9}, can=2),
        Bad("far_x", 2, r"stride_x\[0\] is", host={"stride_x": (2**61, 7, 1)}, can=2),
        *(Bad(f"null_{name}", 2, rf"{name} is NULL", host={name: None}, can=2) for name in ("shape", "stride_x")),
        *(Bad(f"odd_{name}", 1, rf"{name} is 0x[0-9a-f]+", shift={name: 1}) for name in ("x", *outputs)),
        Bad("null_x", 2, r"x is NULL", null=("x",)),
    )
    for name in outputs:
        stride = f"stride_{name}"
        yield Bad(f"null_{stride}", 2, rf"{stride} is NULL", host={stride: None}, can=2)
        yield Bad(f"still_{name}", 2, rf"{stride}\[1\] is 0, but an output", host={stride: (1, 0, 1)}, can=2)
        yield Bad(f"far_{name}", 2, rf"{stride}\[1\] is", host={stride: (1, 2**61, 1)}, can=2)
        yield Bad(f"inside_{name}", 2, rf"{name} overlaps x", alias={name: "x"})
    if not optional:
        yield Bad(f"null_{first}", 2, rf"{first} is NULL", null=(first,))
        yield Bad("nothing_null_y", 2, r"y is NULL", {"numel": 0}, {"shape": (3, 5, 0)}, null=("y",))


IDLE = (Idle("no_results", {"numel": 0}, {"shape": (3, 0, 7)}),)


def case(row, outputs, kind="normal", *, reference=None, tolerance="reduction", full=is_thorough, bad=(), **options):
    return Case(
        row=row, problems=problems(outputs, kind, **options), reference=reference or forward(),
        tolerance=dict.fromkeys(outputs, tolerance), plain="plain", large="large", idle=IDLE, brief=BRIEF, full=full,
        bad=(*bad_calls(outputs), *bad),
    )  # fmt: skip


def with_p(p, kind="normal", shape=(9, 5, 64), axes=(1, 2)):
    return shape, axes, {"p": p, "kind": kind}


Y = {"y": ""}
FAR = {
    "far": ((5, 40, 100), (1, 2), {"kind": "far"}),
    "uncorrected": ((9, 1, 1), (1, 2), {}),
    "population": ((9, 5, 10), (1, 2), {"correction": 0}),
    "without_mean": ((9, 5, 10), (1, 2), {"null": ("mean",)}),
    "without_y": ((9, 5, 10), (0, 2), {"null": ("y",)}),
    "without_both": ((9, 5, 10), (0, 2), {"null": ("y", "mean")}),
}
POWERS = {f"p_{p}".replace(".", "_"): with_p(p) for p in (0.0, 0.5, 1.0, 1.5, 2.0, 10.0, math.inf)}
POWERS |= {f"spiked_p{p}": with_p(p, "spiked") for p in (1.0, 2.0, math.inf)}
POWERS |= {"extreme_p3": with_p(3.0, "extreme", (40, 3), (1,)), "holes": with_p(0.0, "holes")}
PARTS = {
    "without_value": ((9, 5, 10), (1, 2), {"null": ("value",)}),
    "without_place": ((9, 5, 10), (0, 2), {"null": ("place",)}),
    "without_both": ((9, 5, 10), (0, 2), {"null": ("value", "place")}),
}
NO_EXTREME = (Bad("nothing", 2, r"numel is 0, must be >= 1", {"numel": 0}, {"shape": (0, 5, 7)}, can=2),)

CASES = (
    case("reduce_{F}_axes_{T}", Y, "factors"),
    case("reduce_{F}_axes_{T} integers", Y, "factors", full=lambda slots: slots == {"F": "sum", "T": "i32"}),
    case("reduce_{F}_axes_{T} numbers", Y, "factors",
         full=lambda slots: slots == {"F": "fmax", "T": "f32"}),
    case("reduce_norm_p_axes_{T}", Y, reference=forward("norm_p"), p=3.0, more=POWERS,
         bad=BAD_POWERS),
    case("reduce_mean_axes_{T}_{U}", {"y": "U"}, "special", reference=forward("mean"),
         full=lambda slots: slots == {"T": "i32", "U": "f64"}),
    case("reduce_{F}_axes_{T} floats", Y, more={
        name: (shape, (axis,), options) for name, (shape, axis, options) in EXTREME.items()
    }),
    case("reduce_{F}_axes_{T} moments", {"y": "", "mean": ""}, reference=moments, more=FAR, correction=1),
    case("arg_reduce_{F}_axes_{T}_{U}", {"value": "", "place": "U"}, "ties", reference=extremes, more=PARTS,
         without=EMPTY, bad=NO_EXTREME,
         full=lambda slots: slots == {"F": "argmax", "T": "f32", "U": "i64"}),
    case("reduce_{F}_axes_{T} truth", {"y": "bool"}, "sparse"),
    case("reduce_count_nonzero_axes_{T}", {"y": "i64"}, "sparse", reference=forward("count_nonzero")),
    case("reduce_{F}_axes_{T} bool", {"y": "bool"}, "sparse", full=lambda slots: slots["F"] == "max"),
    case("reduce_sum_axes_{T}", {"y": "i64"}, "sparse", reference=forward("sum")),
)  # fmt: skip
