# SPDX-License-Identifier: Apache-2.0
"""Scattered sums: scatter_add, index_add, and the gradients of gather and index_select."""

import numpy as np

from ..model import Array, Bad, Case, Expected, Idle, Problem, strides_for
from ..segment import DISTRIBUTIONS, distribution

# Parameter names of each row: axis and extent, the updates' shape, their numel, updates, index and output.
NAMES = {
    "scatter_reduce{I}_{T}": ("scatter_dim", "out_dim_size", "upd_shape", "upd_numel", "updates", "index", "out"),
    "scatter_add{I}_{T}": ("scatter_dim", "out_dim_size", "upd_shape", "upd_numel", "updates", "index", "out"),
    "gather_backward{I}_{T}": ("gather_dim", "src_dim_size", "out_shape", "out_numel", "dout", "index", "dsrc"),
    "index_add{I}_{T}": ("add_dim", "dst_dim_size", "src_shape", "src_numel", "src", "idx", "dst"),
    "index_select_backward{I}_{T}": ("select_dim", "src_dim_size", "out_shape", "out_numel", "dout", "idx", "dsrc"),
}


def at_axis(shape, axis, extent):
    return (*shape[:axis], extent, *shape[axis + 1 :])


def added(
    draw, row, shape, axis, extent, spread="uniform", kind="normal", updates=None, index=None, out=None, larger=0
):
    """updates, index and out are strides. `larger`: how much larger the output's other extents are than those of the
    updates; nothing is added there."""
    axis_name, extent_name, shape_name, numel_name, source, ids, target = NAMES[row]
    is_1d = ids == "idx"
    ids_shape = (shape[axis],) if is_1d else shape
    if draw.index == "u8":
        values = draw.rng.integers(0, min(255, max(2 * extent if spread == "mixed" else extent, 1)), ids_shape)
        values = np.full(ids_shape, min(extent - 1, 255)) if spread == "giant" else values
    else:
        values = distribution(draw, spread, int(np.prod(ids_shape)), extent).reshape(ids_shape)
    index_array = draw.array(values, draw.index, None if is_1d else index)
    own = tuple(e if d == axis else e + larger for d, e in enumerate(at_axis(shape, axis, extent)))
    strides = strides_for(own) if out is None else out
    extents = at_axis(shape, axis, extent)
    output = draw.values(extents, kind if kind != "special" else "normal", strides)
    arrays = {source: draw.values(shape, kind, updates), ids: index_array, target: output}
    host = {
        shape_name: shape, f"stride_{source}": updates or strides_for(shape), f"stride_{target}": strides,
        f"stride_{ids}": index or strides_for(shape),
    }  # fmt: skip
    if is_1d:
        del host[f"stride_{ids}"]
    scalars = {numel_name: int(np.prod(shape)), "rank": len(shape), axis_name: axis, extent_name: extent}
    return Problem(scalars, arrays, host)


def reference_of(row):
    axis_name, extent_name, _, _, source, ids, target = NAMES[row]

    def reference(problem):
        x, index = problem.arrays[source].values, problem.arrays[ids].values
        value, axis = problem.arrays[target].values.copy(), problem.scalars[axis_name]
        if index.ndim < x.ndim or ids == "idx":
            index = np.broadcast_to(index.reshape([-1 if d == axis else 1 for d in range(x.ndim)]), x.shape)
        at = np.nonzero((index >= 0) & (index < problem.scalars[extent_name]))
        cells = tuple(index[at].astype(np.int64) if d == axis else at[d] for d in range(x.ndim))
        if not np.issubdtype(value.dtype, np.floating):
            with np.errstate(over="ignore"):
                np.add.at(value, cells, x[at])
            return {target: Expected(wrapped(value, problem.arrays[target].dtype))}
        size, count = np.abs(value), np.ones_like(value)
        with np.errstate(invalid="ignore", over="ignore"):
            np.add.at(value, cells, x[at])
            np.add.at(size, cells, np.abs(x[at]))
            np.add.at(count, cells, 1)
        return {target: Expected(value, count, size)}

    return reference


def wrapped(value, dtype):
    kind = {"i32": np.int32, "u32": np.uint32, "i64": np.int64}[dtype]
    return value.astype(kind).astype(np.int64)


def problems(row):
    def add(name, *args, **options):
        table[name] = lambda d: added(d, row, *args, **options)

    table = {}
    add("plain", (4, 5, 3), 1, 7)
    add("one", (1,), 0, 1)
    add("no_updates", (4, 0, 3), 1, 7)
    for n in (1, 2, 31, 33, 257, 2049):
        add(f"fiber_{n}", (n,), 0, 29)
    for spread in DISTRIBUTIONS:
        add(f"fiber_{spread}", (301,), 0, 40, spread)
        add(f"first_{spread}", (61, 7), 0, 23, spread)
        add(f"last_{spread}", (7, 61), 1, 23, spread)
    for width in (1, 4, 8, 16, 33, 64, 130):
        add(f"rows_{width}", (37, width), 0, 11)
        add(f"blocks_{width}", (3, 37, width), 1, 11, "mixed")
    add("middle", (3, 41, 2, 5), 1, 6)
    add("eight_axes", (2, 1, 3, 2, 1, 2, 3, 2), 5, 4)
    add("short_target", (5, 200), 1, 1)
    add("long_target", (3, 5), 1, 3001)
    add("larger", (5, 6, 7), 1, 4, larger=3)
    add("larger_first", (5, 6, 7), 0, 4, larger=2)
    add("permuted", (6, 5, 4), 1, 7, updates=strides_for((6, 5, 4), order=(2, 0, 1)))
    add("permuted_out", (6, 5, 4), 1, 7, out=strides_for((6, 7, 4), order=(1, 2, 0)))
    add(
        "flipped", (6, 5, 4), 1, 7, updates=strides_for((6, 5, 4), flip=(0, 1)), out=strides_for((6, 7, 4), flip=(1, 2))
    )
    add("gaps", (6, 5, 4), 1, 7, updates=strides_for((6, 5, 4), gap=2), out=strides_for((6, 7, 4), gap=3, pad=2))
    add("broadcast", (6, 5, 4), 1, 7, updates=strides_for((6, 5, 4), broadcast=(0, 2)))
    add("broadcast_rows", (40, 16), 0, 7, updates=strides_for((40, 16), broadcast=(0,)))
    if NAMES[row][5] == "index":
        add("index_of_row", (60, 16), 0, 7, index=strides_for((60, 16), broadcast=(1,)))
        add("index_of_fiber", (7, 61), 1, 23, index=strides_for((7, 61), broadcast=(0,)))
        add("index_permuted", (6, 5, 4), 1, 7, index=strides_for((6, 5, 4), order=(2, 1, 0), flip=(1,)))
        add("one_index", (6, 5, 4), 1, 7, index=strides_for((6, 5, 4), broadcast=(0, 1, 2)))
    add("giant_fiber", (20000,), 0, 30, "giant")
    add("giant_rows", (5000, 12), 0, 30, "giant")
    add("special", (90, 7), 0, 60, kind="special")
    add("large", (300, 120), 0, 251, "hot")
    add("large_last", (50, 700), 1, 100, "hot")
    add("many_fibers", (131, 301), 1, 411, "mixed")
    add("many_short_fibers", (129, 257), 1, 40, "mixed")
    add("many_long_fibers", (128, 2100), 1, 270, "hot")
    add("many_columns", (70, 1030), 0, 411, "mixed")
    add("columns_in_tiles", (300, 512), 0, 1270)
    add("columns_of_blocks", (3, 60, 360), 1, 100, "hot")
    add("columns_at_once", (515, 1028), 0, 260, "hot")
    return table


def bad_calls(row):
    axis, extent, shape, numel, source, ids, target = NAMES[row]
    strides = [f"stride_{a}" for a in (source, target)] + ([f"stride_{ids}"] if ids == "index" else [])
    operands = (source, ids, target)
    zero = {f"stride_{target}": (21, 3, 0)}
    return (
        Bad("negative_numel", 2, rf"{numel} is -1", {numel: -1}, can=2),
        Bad("wrong_numel", 2, rf"{numel} is 59, but {shape} has 60", {numel: 59}, can=2),
        Bad("rank_9", 2, r"rank is 9", {"rank": 9}, can=2),
        Bad("rank_negative", 2, r"rank is -1", {"rank": -1}, can=2),
        Bad("axis_3", 2, rf"{axis} is 3", {axis: 3}, can=2),
        Bad("axis_negative", 2, rf"{axis} is -1", {axis: -1}, can=2),
        Bad("negative_extent", 2, rf"{extent} is -7", {extent: -7}, can=2),
        Bad("negative_shape", 2, rf"{shape}\[2\] is -3", host={shape: (4, 5, -3)}, can=2),
        Bad("null_shape", 2, rf"{shape} is NULL", host={shape: None}, can=2),
        *(Bad(f"null_{s}", 2, rf"{s} is NULL", host={s: None}, can=2) for s in strides),
        Bad("broadcast_output", 2, rf"stride_{target}\[2\] is 0", host=zero, can=2),
        *(Bad(f"null_{a}", 2, rf"{a} is NULL", null=(a,)) for a in operands),
        *(Bad(f"odd_{a}", 1, rf"{a} is 0x[0-9a-f]+", shift={a: 1}) for a in operands),
    )


def idle_calls(row):
    _, extent, shape, numel, *_ = NAMES[row]
    return (Idle("no_updates", {numel: 0}, {shape: (4, 0, 3)}), Idle("no_fibers", {numel: 0}, {shape: (0, 5, 3)}),
            Idle("no_targets", {extent: 0}))  # fmt: skip


CASES = tuple(
    Case(
        row=row, problems=problems(row), reference=reference_of(row), tolerance={NAMES[row][6]: "total"},
        tolerance_without_workspace={NAMES[row][6]: "atomic_total"}, plain="plain", large="large",
        bad=bad_calls(row), idle=idle_calls(row),
    )
    for row in NAMES
    if row != "scatter_reduce{I}_{T}"
)  # fmt: skip


def put_added(draw, n, targets, spread="uniform", kind="normal"):
    index = draw.indices(distribution(draw, spread, n, targets))
    out = draw.values((targets,), kind if kind != "special" else "normal")
    return Problem({"numel": n, "out_numel": targets},
                   {"updates": draw.values((n,), kind), "index": index, "out": out})  # fmt: skip


def put_reference(problem):
    x, index = problem.arrays["updates"].values, problem.arrays["index"].values
    value, valid = problem.arrays["out"].values.copy(), (index >= 0) & (index < problem.scalars["out_numel"])
    size, count = np.abs(value), np.ones(value.shape)
    with np.errstate(invalid="ignore", over="ignore"):
        np.add.at(value, index[valid], x[valid])
        np.add.at(size, index[valid], np.abs(x[valid]))
    np.add.at(count, index[valid], 1)
    if not np.issubdtype(value.dtype, np.floating):
        return {"out": Expected(wrapped(value, problem.arrays["out"].dtype))}
    return {"out": Expected(value, count, size)}


def put_problems():
    def add(name, *args, **options):
        table[name] = lambda d: put_added(d, *args, **options)

    table = {}
    add("plain", 60, 7)
    add("one", 1, 1)
    for spread in DISTRIBUTIONS:
        add(spread, 301, 40, spread)
    add("special", 90, 60, kind="special")
    add("large", 5003, 97, "hot")
    return table


PUT_OPERANDS = ("updates", "index", "out")
CASES += (
    Case(
        row="put_add{I}_{T}", problems=put_problems(), reference=put_reference, tolerance={"out": "total"},
        tolerance_without_workspace={"out": "atomic_total"}, plain="plain", large="large",
        bad=(
            *(Bad(f"negative_{e}", 2, rf"{e} is -6", {e: -6}, can=2) for e in ("numel", "out_numel")),
            *(Bad(f"null_{a}", 2, rf"{a} is NULL", null=(a,)) for a in PUT_OPERANDS),
            *(Bad(f"odd_{a}", 1, rf"{a} is 0x[0-9a-f]+", shift={a: 1}) for a in PUT_OPERANDS),
        ),
        idle=(Idle("no_updates", {"numel": 0}), Idle("no_targets", {"out_numel": 0})),
    ),
)  # fmt: skip

__all__ = ["CASES", "Array", "at_axis"]
