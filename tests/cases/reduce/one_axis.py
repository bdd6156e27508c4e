# SPDX-License-Identifier: Apache-2.0
"""Reductions along an axis, to a shape, and of a diagonal."""

import math

import numpy as np

from tools.oracle.numerics import LARGEST, LIMITS, is_float, round_to

from ..model import Bad, Case, Idle, Problem, strides_for
from .references import reduced

SKIP = 10**6  # an entry that is ignored


def values(draw, shape, kind, strides):
    """Operands of one reduction. kind, beside those of a Draw: "factors": a product of thousands of them stays in
    range; "spiked": one number in eight is NaN or infinite, in some rows none, in others of one sort only; "far": far
    from 0, compared to their differences; "sparse": one number in a hundred is not 0, and zeros have either sign;
    "ties": few values, each often; "lowest": the lowest finite value; "extreme": squares overflow or vanish; "holes":
    about one 0 per row; "alternating": large numbers of alternating sign; "brink": near the ends of the range, so that
    partial sums and products leave it where means and products do not; "brink_factors": the same for products."""
    rng, real = draw.rng, is_float(draw.dtype)
    if not real:
        low, high = LIMITS[draw.dtype]
        own = {
            "ties": (max(low, -2), min(high, 2)),
            "sparse": (0, 1),
            "lowest": (low, low),
            "factors": (max(low, -3), min(high, 3)),
        }
        if kind not in own:
            extremes = ("spiked", "far", "extreme", "alternating", "brink")
            return draw.values(shape, "special" if kind in extremes else kind, strides)
        found = rng.integers(*own[kind], shape, endpoint=True)
        return draw.array(np.where(rng.random(shape) < 0.01, found, 0) if kind == "sparse" else found, strides=strides)
    x = rng.standard_normal(shape)
    if kind in ("brink", "brink_factors"):
        return draw.array(brink(draw, shape, "prod" if kind == "brink_factors" else draw.function), strides=strides)
    if kind == "alternating" and draw.function != "prod":
        return draw.array(alternating(draw, shape), strides=strides)
    if kind in ("factors", "alternating"):
        x = np.exp(x / 64) * rng.choice([1, -1], shape)
    elif kind == "far":
        x = x + 100
    elif kind == "ties":
        x = np.round(x)
    elif kind == "lowest":
        x = np.full(shape, -np.inf)
    elif kind == "sparse":
        x = np.where(rng.random(shape) < 0.01, x, rng.choice([0.0, -0.0], shape))
    elif kind == "holes":
        x = np.where(rng.random(shape) < 1 / shape[-1], 0, np.exp(x / 64))
    elif kind == "extreme":
        x = draw.floats(shape, "wide").values
    elif kind == "spiked":
        sort = rng.integers(0, 5, (*shape[:1], *[1] * (len(shape) - 1)))
        spike = np.choose(sort, [x, np.inf, -np.inf, np.nan, rng.choice([np.nan, np.inf, -np.inf], shape)])
        x = np.where(rng.random(shape) < 0.125, spike, x)
    else:
        return draw.values(shape, kind, strides)
    return draw.array(round_to(x, draw.dtype).reshape(shape), strides=strides)


def alternating(draw, shape):
    """Large numbers of alternating sign along each axis, whose squares have finite sums."""
    size = (3e4 if draw.dtype == "f16" else 1e15) * (1 + draw.rng.random(shape) / 2)
    return round_to(size * (1 - 2 * (np.indices(shape).sum(0) % 2)), draw.dtype)


def brink(draw, shape, function):
    """Sums and means: one sign in half of the rows, both in the others. Products: large and small numbers alternate
    along each axis. Other functions: ordinary numbers."""
    rng, at = draw.rng, np.indices(shape).sum(0) if shape else np.zeros(shape)
    if function in ("sum", "mean"):
        one_sign = rng.random((*shape[:1], *[1] * (len(shape) - 1))) < 0.5
        x = LARGEST[draw.dtype] * ((1 + rng.random(shape)) / 2) * np.where(one_sign, 1, rng.choice([1, -1], shape))
    elif function == "prod":
        size = {"f16": 12, "f64": 1000}.get(draw.dtype, 120)
        x = np.ldexp(np.exp(rng.standard_normal(shape) / 64), size * (1 - 2 * (at % 2))) * rng.choice([1, -1], shape)
    else:
        x = rng.standard_normal(shape)
    return round_to(x, draw.dtype).reshape(shape)


def along(draw, shape, axis, kind="normal", x=None, y=None, null=(), output="", function="", **scalars):
    """A reduction along one axis; x and y are options of strides_for."""
    out = tuple(1 if a == axis else e for a, e in enumerate(shape))
    sx, sy = strides_for(shape, **x or {}), strides_for(out, **y or {})
    host = {"output_shape": out, "stride_x": tuple(SKIP if a == axis else s for a, s in enumerate(sx)), "stride_y": sy}
    given = {
        "output_numel": math.prod(out), "rank": len(shape), "reduce_axis": axis, "reduce_extent": shape[axis],
        "reduce_stride_x": sx[axis], **scalars,
    }  # fmt: skip
    arrays = {"x": values(draw, shape, kind, sx), "y": draw.output(out, sy, draw.other if output == "U" else output)}
    return Problem(given, arrays, host, null, draw.function or function or "count_nonzero")


def along_reference(problem):
    parameters = {key: problem.scalars[key] for key in ("correction",) if key in problem.scalars}
    x = problem.arrays["x"]
    return {"y": reduced(problem.function, x.values, (problem.scalars["reduce_axis"],), x.dtype, **parameters)}


PERMUTED, FLIPPED = {"order": (2, 0, 1)}, {"flip": (0, 2)}
# name -> shape, axis, options
SHAPES = {
    "plain": ((3, 5, 7), 1, {}),
    "one": ((1,), 0, {}),
    "pair": ((2,), 0, {}),
    "one_of_many": ((40, 1, 9), 1, {}),
    "first": ((5, 6, 7), 0, {}),
    "last": ((5, 6, 7), 2, {}),
    "vectors": ((6, 64), 1, {}),
    "columns": ((37, 64), 0, {}),
    "wide_columns": ((9, 1300), 0, {}),
    "few_columns": ((700, 3), 0, {}),
    "middle": ((4, 33, 50), 1, {}),
    "short_rows": ((301, 5), 1, {}),
    "rank8": ((2, 1, 3, 2, 1, 2, 3, 2), 2, {}),
    "permuted": ((6, 40, 7), 1, {"x": PERMUTED}),
    "permuted_last": ((6, 40, 70), 2, {"x": {"order": (2, 1, 0)}}),
    "permuted_out": ((6, 7, 40), 2, {"y": {"order": (1, 0, 2)}}),
    "flipped": ((5, 4, 70), 2, {"x": FLIPPED}),
    "flipped_columns": ((70, 4, 33), 0, {"x": FLIPPED, "y": {"flip": (1,)}}),
    "gaps": ((9, 66), 1, {"x": {"gap": 2, "pad": 3}, "y": {"gap": 3}}),
    "padded": ((9, 66), 1, {"x": {"pad": 2}}),
    "padded_columns": ((66, 8), 0, {"x": {"pad": 8}}),
    "still": ((9, 65), 1, {"x": {"broadcast": (1,)}}),
    "still_rows": ((9, 64), 1, {"x": {"broadcast": (0,)}}),
    **{f"row{n}": ((3, n), 1, {}) for n in (1, 2, 31, 32, 33, 127, 128, 129, 255, 1000, 1023, 1024, 1025, 4099, 12001)},
    "long": ((70001,), 0, {}),
    "long_rows": ((3, 20000), 1, {}),
    "long_columns": ((5003, 20), 0, {}),
    "large": ((33, 1030), 1, {}),
    "alternating": ((5, 1025), 1, {"kind": "alternating"}),
    "alternating_columns": ((1025, 5), 0, {"kind": "alternating"}),
    "spiked": ((40, 37), 1, {"kind": "spiked"}),
    "spiked_columns": ((37, 40), 0, {"kind": "spiked"}),
    **{f"brink_{n}": ((9, n), 1, {"kind": "brink"}) for n in (3, 20, 1025)},
    "brink_columns": ((1025, 5), 0, {"kind": "brink"}),
    "brink_long": ((70001,), 0, {"kind": "brink"}),
}
EMPTY = {"nothing": ((3, 0, 5), 1, {}), "nothing_null": ((4, 0), 1, {"null": ("x",)})}
BRIEF = (
    "plain", "large", "columns", "vectors", "spiked", "few_columns", "row129", "brink_20", "brink_1025",
    "brink_columns", "brink_long",
)  # fmt: skip


def problems(kind="normal", *, output="", more=None, without=(), **scalars):
    table = {**SHAPES, **EMPTY, **(more or {})}

    def made(shape, axis, options):
        return lambda d: along(d, shape, axis, **{"kind": kind, "output": output, **scalars, **options})

    return {name: made(*given) for name, given in table.items() if name not in without}


def bad_calls():
    """Variations of "plain": (3, 5, 7) along axis 1."""
    return (
        Bad("negative", 2, r"output_numel is -4", {"output_numel": -4}, can=2),
        Bad("rank_negative", 2, r"rank is -1", {"rank": -1}, can=2),
        Bad("rank_9", 2, r"rank is 9", {"rank": 9}, can=2),
        Bad("rank_0", 2, r"reduce_axis is 1.*rank is 0", {"rank": 0, "output_numel": 1}, can=2),
        Bad("axis_negative", 2, r"reduce_axis is -1", {"reduce_axis": -1}, can=2),
        Bad("axis_rank", 2, r"reduce_axis is 3", {"reduce_axis": 3}, can=2),
        Bad("axis_kept", 2, r"output_shape\[0\] is 3, must be 1", {"reduce_axis": 0}, can=2),
        Bad("extent_negative", 2, r"reduce_extent is -5", {"reduce_extent": -5}, can=2),
        Bad("count_wrong", 2, r"output_numel is 20\b", {"output_numel": 20}, can=2),
        Bad("shape_negative", 2, r"output_shape\[2\] is -7", host={"output_shape": (3, 1, -7)}, can=2),
        *(
            Bad(f"null_{name}", 2, rf"{name} is NULL", host={name: None}, can=2)
            for name in ("output_shape", "stride_x", "stride_y")
        ),
        Bad("still_output", 2, r"stride_y\[0\] is 0", host={"stride_y": (0, 7, 1)}, can=2),
        Bad("far_x", 2, r"stride_x\[0\] is", host={"stride_x": (2**61, 0, 1)}, can=2),
        Bad("far_axis", 2, r"stride_x\[1\] is", {"reduce_stride_x": -(2**61)}, can=2),
        Bad("far_y", 2, r"stride_y\[0\] is", host={"stride_y": (2**61, 0, 1)}, can=2),
        *(Bad(f"null_{name}", 2, rf"{name} is NULL", null=(name,)) for name in ("x", "y")),
        *(Bad(f"odd_{name}", 1, rf"{name} is 0x[0-9a-f]+", shift={name: 1}) for name in ("x", "y")),
        Bad("inside", 2, r"y overlaps x", alias={"y": "x"}),
        Bad("nothing_null_y", 2, r"y is NULL", {"reduce_extent": 0}, null=("y",)),
    )  # fmt: skip


IDLE = (Idle("no_results", {"output_numel": 0}, {"output_shape": (3, 1, 0)}),)


def is_thorough(slots):
    return slots["T"] == "f32" and slots.get("F") in ("sum", "argmax", "any", "var", "norm2", "max", None)


def case(row, kind="normal", tolerance="reduction", *, full=is_thorough, bad=(), **options):
    return Case(
        row=row, problems=problems(kind, **options), reference=along_reference, tolerance={"y": tolerance},
        plain="plain", large="large", idle=IDLE, brief=BRIEF, full=full,
        bad=(*(call for call in bad_calls() if call.name not in {own.name for own in bad}), *bad),
    )  # fmt: skip


# --- to a shape ------------------------------------------------------------------------------------------------------


def to_shape(draw, shape, out, kind="factors", src=None, null=(), output="", function="", **scalars):
    strides = strides_for(shape, **src or {})
    host = {"input_shape": tuple(shape), "input_stride": strides, "output_shape": tuple(out)}
    arrays = {"src": values(draw, shape, kind, strides), "dst": draw.output(out, dtype=output)}
    return Problem({"rank_in": len(shape), **scalars}, arrays, host, null, draw.function or function)


def to_reference(problem):
    src, out = problem.arrays["src"], problem.host["output_shape"]
    axes = [d for d, (have, want) in enumerate(zip(src.shape, out)) if want == 1 and have != 1]
    parameters = {key: problem.scalars[key] for key in ("correction", "p") if key in problem.scalars}
    found = reduced(problem.function, src.values, axes, src.dtype, **parameters)
    for name in ("value", "magnitude"):
        setattr(found, name, np.broadcast_to(getattr(found, name), out))
    return {"dst": found}


TO = {  # shape, output shape, options
    "plain": ((3, 5, 7), (3, 1, 7), {}),
    "rank0": ((), (), {}),
    "same": ((3, 5, 7), (3, 5, 7), {}),
    "all": ((30, 50, 7), (1, 1, 1), {}),
    "outer": ((9, 8, 64), (1, 1, 64), {}),
    "ends": ((9, 20, 33), (1, 20, 1), {}),
    "repeated": ((4, 1, 6), (4, 5, 1), {}),
    "permuted": ((4, 5, 6), (1, 5, 1), {"src": PERMUTED}),
    "flipped": ((4, 5, 64), (4, 1, 1), {"src": FLIPPED}),
    "still": ((4, 5, 6), (4, 5, 1), {"src": {"broadcast": (0, 2)}}),
    "rank8": ((2, 3, 1, 2, 3, 2, 2, 3), (2, 1, 1, 2, 1, 2, 1, 3), {}),
    "spiked": ((20, 6, 6), (20, 1, 1), {"kind": "spiked"}),
    "nothing": ((3, 0, 7), (3, 1, 7), {}),
    "nothing_null": ((3, 0), (3, 1), {"null": ("src",)}),
    "large": ((37, 4, 300), (37, 1, 1), {}),
    "long": ((100, 1001), (1, 1), {}),
}
TO_BAD = (
    Bad("rank_negative", 2, r"rank_in is -1", {"rank_in": -1}, can=2),
    Bad("rank_9", 2, r"rank_in is 9", {"rank_in": 9}, can=2),
    *(
        Bad(f"null_{name}", 2, rf"{name} is NULL", host={name: None}, can=2)
        for name in ("input_shape", "input_stride", "output_shape")
    ),
    Bad("negative_input", 2, r"input_shape\[1\] is -5", host={"input_shape": (3, -5, 7)}, can=2),
    Bad("negative_output", 2, r"output_shape\[1\] is -1", host={"output_shape": (3, -1, 7)}, can=2),
    Bad("other", 2, r"output_shape\[1\] is 4, must be 1 or", host={"output_shape": (3, 4, 7)}, can=2),
    Bad("empty_kept", 2, r"output_shape\[0\] is 3, must be 1 or", host={"input_shape": (0, 5, 7)}, can=2),
    Bad("far", 2, r"input_stride\[0\] is", host={"input_stride": (2**61, 7, 1)}, can=2),
    Bad("huge", 2, r"input_shape has more", host={"input_shape": (2**31 - 1,) * 3, "output_shape": (1, 1, 1)}, can=2),
    *(Bad(f"null_{name}", 2, rf"{name} is NULL", null=(name,)) for name in ("src", "dst")),
    *(Bad(f"odd_{name}", 1, rf"{name} is 0x[0-9a-f]+", shift={name: 1}) for name in ("src", "dst")),
    Bad("inside", 2, r"dst overlaps src", alias={"dst": "src"}),
    Bad("nothing_null_dst", 2, r"dst is NULL", host={"input_shape": (3, 0, 7)}, null=("dst",)),
)

# --- trace -----------------------------------------------------------------------------------------------------------


def trace(draw, n, kind="normal", x=None, null=()):
    strides = strides_for((n, n), **x or {})
    arrays = {"x": values(draw, (n, n), kind, strides), "y": draw.output((1,))}
    return Problem({"rows": n, "stride_row": strides[0], "stride_col": strides[1]}, arrays, {}, null)


def trace_reference(problem):
    x = problem.arrays["x"]
    found = reduced("sum", np.diagonal(x.values).copy(), (0,), x.dtype)
    return {"y": found}


TRACES = {
    "plain": lambda d: trace(d, 7),
    "one": lambda d: trace(d, 1),
    "nothing": lambda d: trace(d, 0, null=("x",)),
    "large": lambda d: trace(d, 301),
    "permuted": lambda d: trace(d, 33, x={"order": (1, 0)}),
    "flipped": lambda d: trace(d, 33, x={"flip": (0,), "pad": 3}),
    "spiked": lambda d: trace(d, 33, "spiked"),
}
TRACE_BAD = (
    Bad("negative", 2, r"rows is -3", {"rows": -3}, can=2),
    Bad("far_row", 2, r"stride_row\[0\] is", {"stride_row": 2**61}, can=2),
    Bad("far_col", 2, r"stride_col\[0\] is", {"stride_col": -(2**62)}, can=2),
    *(Bad(f"null_{name}", 2, rf"{name} is NULL", null=(name,)) for name in ("x", "y")),
    *(Bad(f"odd_{name}", 1, rf"{name} is 0x[0-9a-f]+", shift={name: 1}) for name in ("x", "y")),
    Bad("inside", 2, r"y overlaps x", alias={"y": "x"}),
    Bad("nothing_null_y", 2, r"y is NULL", {"rows": 0}, null=("y",)),
)


def to_case(row, kind="factors", more=None, bad=(), full=is_thorough, **scalars):
    def made(shape, out, options):
        return lambda d: to_shape(d, shape, out, **{"kind": kind, **scalars, **options})

    return Case(
        row=row, problems={name: made(*given) for name, given in {**TO, **(more or {})}.items()},
        reference=to_reference, tolerance={"dst": "reduction"}, plain="plain", large="large", full=full,
        bad=(*TO_BAD, *bad), brief=("plain", "all", "ends", "nothing", "large", "long"),
        idle=(Idle("no_results", {}, {"output_shape": (3, 1, 0), "input_shape": (3, 5, 0)}),),
    )  # fmt: skip


MORE = {f"all_{kind}": ((13, 70), 1, {"kind": kind}) for kind in ("ties", "lowest")}
EXTREME = {f"extreme_{n}": ((40, n), 1, {"kind": "extreme"}) for n in (1, 3, 50)}
FAR = {
    "far": ((5, 4000), 1, {"kind": "far"}),
    "uncorrected": ((9, 1), 1, {}),
    "population": ((9, 50), 1, {"correction": 0}),
}
BAD_POWERS = (
    Bad("p_negative", 2, r"p is -1, must be >= 0", {"p": -1.0}, can=2),
    Bad("p_nan", 2, r"p is -?nan, must be >= 0", {"p": math.nan}, can=2),
)
NO_ARG = (Bad("nothing_null_y", 2, r"reduce_extent is 0, must be >= 1", {"reduce_extent": 0}, can=2),)

CASES = (
    case("reduce_{F}_{T}", "factors", more=MORE),
    case("reduce_{F}_{T} integers", "factors", more=MORE, full=lambda slots: slots == {"F": "sum", "T": "i32"}),
    case("reduce_{F}_{T} floats", more={**MORE, **EXTREME}),
    case("reduce_{F}_{T} moments", more=FAR, correction=1),
    case("arg_reduce_{F}_{T}", "ties", output="i64", more=MORE, without=EMPTY, bad=NO_ARG),
    case("arg_reduce_{F}_{T}_{U}", "ties", output="U", more=MORE, without=EMPTY, bad=NO_ARG),
    case("arg_reduce_{F}_{T}_{U} integers", "ties", output="U", more=MORE, without=EMPTY, bad=NO_ARG,
         full=lambda slots: False),
    case("reduce_{F}_{T} truth", "sparse", output="bool", more=MORE),
    case("reduce_count_nonzero_{T}", "sparse", output="i64", more=MORE),
    case("reduce_{F}_{T} bool", "sparse", output="bool", more=MORE, full=lambda slots: slots["F"] == "max"),
    case("reduce_sum_{T}", "sparse", output="i64", more=MORE, function="sum"),
    to_case("reduce_{F}_to_{T}"),
    to_case("reduce_{F}_to_{T} integers", full=lambda slots: slots == {"F": "sum", "T": "i32"}),
    to_case("reduce_{F}_to_{T} numbers", full=lambda slots: slots == {"F": "fmax", "T": "f32"}),
    to_case("reduce_{F}_to_{T} truth", "sparse", output="bool"),
    to_case("reduce_count_nonzero_to_{T}", "sparse", output="i64", function="count_nonzero"),
    to_case("reduce_{F}_to_{T} bool", "sparse", output="bool", full=lambda slots: slots["F"] == "max"),
    to_case("reduce_sum_to_{T}", "sparse", output="i64", function="sum"),
    to_case("reduce_norm_p_to_{T}", "normal", function="norm_p", p=3.0, bad=BAD_POWERS, more={
        f"p_{p}".replace(".", "_"): ((9, 5, 64), (9, 1, 1), {"p": p}) for p in (0.0, 0.5, 1.0, 2.0, math.inf)
    }),
    to_case("reduce_{F}_to_{T} floats", "normal"),
    to_case("reduce_{F}_to_{T} moments", "normal", correction=1),
    Case(
        row="trace_{T}", problems=TRACES, reference=trace_reference, tolerance={"y": "reduction"}, plain="plain",
        large="large", bad=TRACE_BAD, idle=(),
    ),
)  # fmt: skip
