# SPDX-License-Identifier: Apache-2.0
"""Sorts of dense rows and along an axis, by key, and their gradients."""

import math

import numpy as np

from tools.oracle.numerics import is_float

from ..model import Bad, Case, Expected, Idle, Problem, strides_for

# --- references -------------------------------------------------------------------------------------------------------


def order_of(values, dtype, descending, axis=-1):
    """The stable permutation: NumPy's sort has NaN last, and equal zeros. Descending, the reversed array is sorted and
    the order reversed, which keeps ties in order."""
    keys = values != 0 if dtype == "bool" else values
    if not descending:
        return np.argsort(keys, axis=axis, kind="stable")
    backwards = np.argsort(np.flip(keys, axis), axis=axis, kind="stable")
    return keys.shape[axis] - 1 - np.flip(backwards, axis)


def sorted_rows(problem):
    x = problem.arrays["x"]
    order = order_of(x.values, x.dtype, problem.scalars["descending"])
    return {"y_vals": Expected(np.take_along_axis(x.values, order, -1)), "y_idx": Expected(order)}


def rows_reference(problem):
    return {name: want for name, want in sorted_rows(problem).items() if name not in problem.null}


def argsort_reference(problem):
    return {"y_idx": sorted_rows(problem)["y_idx"]}


def by_key_reference(problem):
    keys, values = problem.arrays["keys"], problem.arrays["values"]
    order = order_of(keys.values, keys.dtype, problem.scalars["descending"])
    found = {
        "sorted_keys": Expected(np.take_along_axis(keys.values, order, -1)),
        "sorted_values": Expected(np.take_along_axis(values.values, order, -1)),
    }
    return {name: want for name, want in found.items() if name not in problem.null}


def backward_reference(problem):
    dy, indices = problem.arrays["dy"].values, problem.arrays["indices"].values
    dx = np.zeros(dy.shape)
    extent = dy.shape[1]
    for row, own, grads in zip(dx, indices, dy):
        inside = (own >= 0) & (own < extent)
        row[own[inside]] = grads[inside]
    return {"dx": Expected(dx)}


def axis_reference(problem):
    x, axis = problem.arrays["x"], problem.scalars["sort_axis"]
    order = order_of(x.values, x.dtype, problem.scalars["descending"], axis)
    found = {"y": Expected(np.take_along_axis(x.values, order, axis)), "indices": Expected(order)}
    return {name: want for name, want in found.items() if name in problem.arrays}


# --- problems ---------------------------------------------------------------------------------------------------------


def keys_of(draw, shape, kind, strides=None):
    """kind is one of draw.values, or "ties": few values, zeros of both signs and NaN among them; "equal": one value;
    "rising" and "falling": sorted already."""
    if kind == "ties" and is_float(draw.dtype):
        return draw.array(draw.rng.choice([-2.0, -1.0, -0.0, 0.0, 1.0, 2.0, np.nan], shape), strides=strides)
    if kind == "ties":
        return draw.integers(shape, "small", strides)
    if kind == "equal":
        return draw.array(np.ones(shape, np.float64 if is_float(draw.dtype) else np.int64), strides=strides)
    if kind in ("rising", "falling"):
        values = np.sort(draw.values(shape, "normal").values, -1)
        return draw.array(values[..., :: 1 if kind == "rising" else -1], strides=strides)
    return draw.values(shape, kind, strides)


def rows(draw, shape, kind="normal", descending=0, null=(), index="i32"):
    arrays = {"x": keys_of(draw, shape, kind), "y_vals": draw.output(shape), "y_idx": draw.output(shape, dtype=index)}
    scalars = {"batch": shape[0], "row_len": shape[1], "descending": descending}
    return Problem(scalars, arrays, null=null)


def wide_rows(draw, shape, **options):
    return rows(draw, shape, index="i64", **options)


def arg_rows(draw, shape, kind="normal", descending=0, null=()):
    problem = rows(draw, shape, kind, descending)
    del problem.arrays["y_vals"]
    return problem


def keyed_rows(draw, shape, kind="normal", descending=0, null=()):
    null = tuple([name for name in ("sorted_keys",) if null])
    arrays = {
        "keys": keys_of(draw, shape, kind), "values": draw.integers(shape, "normal", dtype=draw.other),
        "sorted_keys": draw.output(shape), "sorted_values": draw.output(shape, dtype=draw.other),
    }  # fmt: skip
    return Problem({"batch": shape[0], "row_len": shape[1], "descending": descending}, arrays, null=null)


def backward_rows(draw, shape, spread="permutation"):
    """spread: "permutation"; or "mixed": with equal indices, and some out of range."""
    rank = draw.rng.random(shape).argsort(-1)
    if spread == "mixed":
        rank = np.where(draw.rng.random(shape) < 0.3, draw.rng.choice([-1, shape[1], 2**31 - 1, -(2**31)], shape), rank)
    arrays = {"dy": draw.floats(shape), "indices": draw.array(rank, "i32"), "dx": draw.output(shape)}
    return Problem({"batch": shape[0], "row_len": shape[1]}, arrays)


def along_axis(outputs):
    def make(draw, shape, axis, kind="normal", descending=0, x=None, y=None, indices=None):
        layouts = {"x": strides_for(shape, **x or {})}
        arrays = {"x": keys_of(draw, shape, kind, layouts["x"])}
        for name, layout in (("y", y), ("indices", indices or y)):
            if name in outputs:
                layouts[name] = strides_for(shape, **layout or {})
                arrays[name] = draw.output(shape, layouts[name], "i64" if name == "indices" else "")
        host = {"shape": tuple(shape)} | {f"stride_{name}": strides for name, strides in layouts.items()}
        scalars = {"numel": math.prod(shape), "rank": len(shape), "sort_axis": axis, "descending": descending}
        return Problem(scalars, arrays, host)

    return make


SHAPES = {  # shape, options; lengths on both sides of what a lane, a warp and a block sort
    "plain": ((5, 9), {}),
    "one": ((1, 1), {}),
    "ones": ((300, 1), {}),
    "pairs": ((67, 2), {"kind": "ties"}),
    "rows_17": ((100, 17), {}),
    "rows_32": ((9, 32), {"kind": "special"}),
    "rows_33": ((9, 33), {"kind": "ties", "descending": 1}),
    "rows_128": ((5, 128), {"kind": "special", "descending": 1}),
    "rows_129": ((3, 129), {"kind": "ties"}),
    "rows_512": ((3, 512), {"kind": "special"}),
    "rows_513": ((3, 513), {"kind": "ties", "descending": 1}),
    "rows_1024": ((2, 1024), {}),
    "rows_1025": ((2, 1025), {"kind": "special", "descending": 1}),
    "rows_4096": ((1, 4096), {"kind": "ties"}),
    "equal": ((2, 700), {"kind": "equal"}),
    "rising": ((2, 700), {"kind": "rising", "descending": 1}),
    "falling": ((2, 700), {"kind": "falling"}),
    "special": ((4, 300), {"kind": "special", "descending": 2}),
    "ties": ((4, 100), {"kind": "ties"}),
    "values_only": ((3, 200), {"kind": "ties", "null": ("y_idx",)}),
    "indices_only": ((3, 200), {"kind": "ties", "null": ("y_vals",)}),
    "large": ((37, 1003), {"kind": "ties"}),
}
LONG = {
    "long": ((2, 20011), {"kind": "special"}),
    "long_ties": ((2, 17001), {"kind": "ties", "descending": 1}),
    "long_values": ((1, 33000), {"kind": "ties", "null": ("y_idx",)}),
}
CUBE = (5, 7, 9)
AXES = {  # shape, axis, options
    "one": ((1,), 0, {}),
    "flat": ((40,), 0, {}),
    "plain": (CUBE, 1, {}),
    "first": (CUBE, 0, {"descending": 1}),
    "last": (CUBE, 2, {"kind": "special"}),
    "columns": ((70, 40), 0, {"kind": "ties"}),
    "columns_300": ((300, 5), 0, {"kind": "ties", "descending": 1}),
    "rank8": ((2, 1, 3, 2, 1, 2, 2, 3), 3, {"y": {"order": (3, 1, 0, 7, 5, 6, 2, 4)}}),
    "permuted": (CUBE, 2, {"x": {"order": (2, 0, 1)}}),
    "flipped": (CUBE, 1, {"x": {"flip": (0, 1)}, "y": {"flip": (1, 2)}, "kind": "ties"}),
    "gaps": ((13, 150), 1, {"x": {"gap": 2, "pad": 1}, "y": {"gap": 3}, "indices": {"pad": 2}}),
    "broadcast": ((19, 24), 1, {"x": {"broadcast": (0,)}}),
    "broadcast_axis": ((19, 24), 1, {"x": {"broadcast": (1,)}}),
    "special": ((5, 90), 1, {"kind": "special", "descending": 1}),
    "ties": ((6, 50), 1, {"kind": "ties"}),
    "long": ((17003, 2), 0, {"kind": "ties"}),
    "large": ((37, 1003), 1, {"kind": "ties"}),
}


def problems(make, shapes):
    return {name: lambda draw, s=s, o=o: make(draw, s, **o) for name, (s, o) in shapes.items()}


def bad_rows(arrays):
    bad = [
        Bad("batch_negative", 2, r"batch is -1, must be >= 0", {"batch": -1}, can=2),
        Bad("row_len_negative", 2, r"row_len is -3, must be >= 0", {"row_len": -3}, can=2),
    ]
    bad += [Bad(f"null_{a}", 2, rf"{a} is NULL", null=(a,)) for a in arrays]
    return (*bad, *(Bad(f"odd_{a}", 1, rf"{a} is 0x[0-9a-f]+", shift={a: 1}) for a in arrays))


IDLE_ROWS = (Idle("no_rows", {"batch": 0}), Idle("no_elements", {"row_len": 0}))


# Lengths and strides are handled by the width of the keys, so that one dtype of a width has all problems, in two rows.
FULL = dict.fromkeys(("sort_{T}", "sort_axis_{T}"), ("f32", "f64", "bf16", "fp8e4m3", "bool"))
BRIEF = ("plain", "rows_17", "rows_129", "columns", "permuted", "special", "ties", "long")


def is_full(row):
    return lambda slots: slots["T"] in FULL.get(row, ())


def brief(shapes):
    return tuple([name for name in BRIEF if name in shapes])


def rows_case(row, make, reference, arrays, **options):
    shapes = SHAPES | LONG
    if "y_vals" not in arrays and make is arg_rows:
        shapes = {name: (s, {k: v for k, v in o.items() if k != "null"}) for name, (s, o) in shapes.items()}
    return Case(
        row=row, problems=problems(make, shapes), reference=reference, plain="plain", large="large",
        bad=bad_rows([a for a in arrays if a not in ("y_vals", "y_idx", "sorted_keys")]), idle=IDLE_ROWS,
        tolerance=dict.fromkeys([a for a in arrays if a not in ("x", "keys", "values")], "exact"), brief=brief(shapes),
        full=is_full(row), **options,
    )  # fmt: skip


def bad_axes(names, arrays):
    bad = [
        Bad("negative", 2, r"numel is -2", {"numel": -2}, can=2),
        Bad("rank_9", 2, r"rank is 9", {"rank": 9}, can=2),
        Bad("null_shape", 2, r"shape is NULL", host={"shape": None}, can=2),
        Bad("count_wrong", 2, r"numel is 17\b", {"numel": 17}, can=2),
        Bad("axis_negative", 2, r"sort_axis is -1, must be in \[0, rank\)", {"sort_axis": -1}, can=2),
        Bad("axis_3", 2, r"sort_axis is 3, must be in \[0, rank\)", {"sort_axis": 3}, can=2),
        Bad("rank_0", 2, r"sort_axis is 1, must be in \[0, rank\)", {"rank": 0, "numel": 1}, can=2),
    ]
    for s in names:
        bad.append(Bad(f"null_{s}", 2, rf"{s} is NULL", host={s: None}, can=2))
        bad.append(Bad(f"far_{s}", 2, rf"{s}\[0\] is {2**61}", host={s: (2**61, 9, 1)}, can=2))
    bad.append(Bad("still", 2, rf"{names[-1]}\[0\] is 0", host={names[-1]: (0, 9, 1)}, can=2))
    bad += [Bad(f"null_{a}", 2, rf"{a} is NULL", null=(a,)) for a in arrays]
    return (*bad, *(Bad(f"odd_{a}", 1, rf"{a} is 0x[0-9a-f]+", shift={a: 1}) for a in arrays))


def axis_case(row, outputs):
    names = ("x", *outputs)
    made = {n: lambda draw, s=s, a=a, o=o: along_axis(outputs)(draw, s, a, **o) for n, (s, a, o) in AXES.items()}
    return Case(
        row=row, problems=made, reference=axis_reference, plain="plain", large="large",
        tolerance=dict.fromkeys(outputs, "exact"), brief=brief(AXES), full=is_full(row),
        bad=bad_axes([f"stride_{name}" for name in names], names),
        idle=(
            Idle("no_rows", {"numel": 0}, {"shape": (0, 7, 9)}),
            Idle("no_elements", {"numel": 0}, {"shape": (5, 0, 9)}),
        ),
    )  # fmt: skip


BACKWARD = {
    "plain": ((5, 9), {}), "one": ((1, 1), {}), "rows_17": ((100, 17), {}), "rows_1025": ((3, 1025), {}),
    "many": ((600, 300), {}), "outside": ((40, 33), {"spread": "mixed"}), "large": ((37, 1003), {}),
    "long": ((2, 17001), {}),
}  # fmt: skip

CASES = (
    *(rows_case(row, rows, rows_reference, ("x", "y_vals", "y_idx")) for row in ("sort_{T}", "msort_{T}")),
    *(rows_case(row, arg_rows, argsort_reference, ("x", "y_idx")) for row in ("argsort_{T}", "argsort_{T}_big")),
    rows_case("sort_wide_{T}", wide_rows, rows_reference, ("x", "y_vals", "y_idx")),
    rows_case(
        "sort_by_key_{T}_{U}", keyed_rows, by_key_reference, ("keys", "values", "sorted_keys", "sorted_values"),
    ),
    *(
        Case(
            row=row, problems=problems(backward_rows, BACKWARD), reference=backward_reference, plain="plain",
            large="large", tolerance={"dx": "exact"}, bad=bad_rows(("dy", "indices", "dx")), idle=IDLE_ROWS,
        )
        for row in ("sort_backward_{T}", "msort_backward_{T}")
    ),
    axis_case("sort_axis_{T}", ("y", "indices")),
    axis_case("sort_values_axis_{T}", ("y",)),
    axis_case("argsort_axis_{T}", ("indices",)),
)  # fmt: skip
