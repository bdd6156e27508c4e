# SPDX-License-Identifier: Apache-2.0
"""Gathers and scatters along an axis: gather, index_select, take, gather_rows, scatter, put."""

import math

import numpy as np

from ..model import Array, Bad, Case, Expected, Idle, Problem, strides_for

I32_MAX = 2**31 - 1


def some_indices(draw, shape, extent, spread="mixed", dtype=""):
    """spread: "inside"; "mixed": one in five outside; "outside"; "one": all the same; "zipf": the k-th about 1 / k^1.2
    times as often as the first; "rising" and "falling" in row-major order."""
    dtype = dtype or draw.index
    inside = draw.rng.integers(0, max(extent, 1), shape)
    if spread == "one":
        inside = np.full(shape, extent // 2)
    elif spread == "zipf":
        inside = np.minimum(draw.rng.zipf(1.2, shape) - 1, max(extent - 1, 0))
    elif spread in ("rising", "falling"):
        inside = np.sort(inside, None)[:: 1 if spread == "rising" else -1].reshape(shape)
    bad = {
        "i32": [-1, extent, extent + 7, -(2**31), I32_MAX],
        "i64": [-1, extent, 2**32, 2**32 + extent // 2, -(2**32), 2**63 - 1, -(2**63)],
        "u32": [extent, extent + 1, 2**31, 2**32 - 1],
        "u8": [min(extent, 255), 255],
    }[dtype]
    bad = [value for value in bad if not 0 <= value < extent]
    if dtype == "u8":
        inside = np.minimum(inside, 255)
    if not bad or spread not in ("mixed", "outside"):
        return inside
    outside = draw.rng.choice(np.array(bad, np.int64), shape)
    return outside if spread == "outside" or not extent else np.where(draw.rng.random(shape) < 0.2, outside, inside)


def index_array(draw, values, strides=None):
    """Elements that share memory have one index."""
    return draw.array(values, draw.index, strides)


def replaced(shape, axis, extent):
    return (*shape[:axis], extent, *shape[axis + 1 :])


def inside(index, extent):
    return (index >= 0) & (index < extent)


def coordinates_of(index, axis, extent):
    """Coordinates of every element, and of its target where the index is in range."""
    own = list(np.indices(index.shape))
    own[axis] = np.where(inside(index, extent), index, 0).astype(np.int64)
    return tuple(own)


def gather(draw, shape, axis, extent, spread="mixed", kind="normal", src=None, index=None, out=None, null=()):
    own = replaced(shape, axis, extent)
    strides = [strides_for(s, **k or {}) for s, k in ((own, src), (shape, index), (shape, out))]
    arrays = {
        "src": draw.values(own, kind, strides[0]),
        "index": index_array(draw, some_indices(draw, shape, extent, spread), strides[1]),
        "out": draw.values(shape, "normal", strides[2]),
    }
    host = {"out_shape": tuple(shape), "stride_src": strides[0], "stride_index": strides[1], "stride_out": strides[2]}
    scalars = {"out_numel": math.prod(shape), "rank": len(shape), "gather_dim": axis, "src_dim_size": extent}
    return Problem(scalars, arrays, host, null)


def gathered(old, src, index, axis, extent):
    """Elements whose index is out of range keep their old value."""
    if not extent or not index.size:
        return old
    return np.where(inside(index, extent), src[coordinates_of(index, axis, extent)], old)


def gather_reference(problem):
    a, s = problem.arrays, problem.scalars
    return {
        "out": Expected(
            gathered(a["out"].values, a["src"].values, a["index"].values, s["gather_dim"], s["src_dim_size"])
        )
    }


def select(draw, shape, axis, extent, spread="mixed", kind="normal", src=None, out=None, null=()):
    own = replaced(shape, axis, extent)
    strides = [strides_for(s, **k or {}) for s, k in ((own, src), (shape, out))]
    arrays = {
        "src": draw.values(own, kind, strides[0]),
        "idx": index_array(draw, some_indices(draw, (shape[axis],), extent, spread)),
        "out": draw.values(shape, "normal", strides[1]),
    }
    host = {"out_shape": tuple(shape), "stride_src": strides[0], "stride_out": strides[1]}
    scalars = {"out_numel": math.prod(shape), "rank": len(shape), "select_dim": axis, "src_dim_size": extent}
    return Problem(scalars, arrays, host, null)


def select_reference(problem):
    a, s = problem.arrays, problem.scalars
    shape, axis = a["out"].shape, s["select_dim"]
    index = np.broadcast_to(a["idx"].values.reshape([-1 if d == axis else 1 for d in range(len(shape))]), shape)
    return {"out": Expected(gathered(a["out"].values, a["src"].values, index, axis, s["src_dim_size"]))}


def take(draw, count, extent, spread="mixed", kind="normal", null=()):
    arrays = {
        "src": draw.values((extent,), kind),
        "index": index_array(draw, some_indices(draw, (count,), extent, spread)),
        "out": draw.values((count,)),
    }
    return Problem({"numel": count, "src_numel": extent}, arrays, null=null)


def take_reference(problem):
    a = problem.arrays
    value = gathered(a["out"].values, a["src"].values, a["index"].values, 0, problem.scalars["src_numel"])
    return {"out": Expected(value)}


def rows(draw, n, h, v, spread="mixed", kind="normal"):
    arrays = {
        "dest": draw.output((n, h)), "table": draw.values((v, h), kind),
        "idx": Array("u32", (n,), some_indices(draw, (n,), v, spread, "u32")),
    }  # fmt: skip
    return Problem({"v": v, "h": h, "n": n}, arrays)


def rows_reference(problem):
    table, index = problem.arrays["table"].values, problem.arrays["idx"].values
    valid = inside(index, len(table))
    return {"dest": Expected(np.where(valid[:, None], table[np.where(valid, index, 0)], np.zeros_like(table[:1])))}


# --- scatter ----------------------------------------------------------------------------------------------------------


def alike(updates, targets):
    """All updates of one target get the last one's value: without a workspace any of them may win."""
    flat, last = updates.reshape(-1), {}
    for position, target in enumerate(targets):
        last[target] = position
    return flat[[last[target] for target in targets]].reshape(updates.shape)


def scatter(
    draw, shape, axis, extent, spread="mixed", kind="normal", updates=None, index=None, out=None, last=False, null=()
):
    """`last`: updates of one target differ, and the last one must win."""
    own = replaced(shape, axis, extent)
    strides = [strides_for(s, **k or {}) for s, k in ((shape, updates), (shape, index), (own, out))]
    by = index_array(draw, some_indices(draw, shape, extent, spread), strides[1])
    given = draw.values(shape, kind, strides[0])
    if not last and given.values.size and not (updates or {}).get("broadcast"):
        flat = np.arange(math.prod(own)).reshape(own)
        valid = inside(by.values, extent)
        targets = flat[coordinates_of(by.values, axis, extent)] if extent else np.zeros(shape, np.int64)
        keys = np.where(valid, targets, -1 - np.arange(valid.size).reshape(valid.shape))
        given.values = alike(np.asarray(given.values), keys.ravel().tolist())
    arrays = {"updates": given, "index": by, "out": draw.values(own, "normal", strides[2])}
    host = {"upd_shape": tuple(shape), "stride_updates": strides[0], "stride_index": strides[1]}
    host["stride_out"] = strides[2]
    scalars = {"upd_numel": math.prod(shape), "rank": len(shape), "scatter_dim": axis, "out_dim_size": extent}
    return Problem(scalars, arrays, host, null)


def scattered(old, updates, index, axis, extent):
    value, valid = old.copy(), inside(index, extent)
    if valid.any():
        where = [c[valid] for c in coordinates_of(index, axis, extent)]
        order = np.argsort(np.indices(index.shape)[axis][valid], kind="stable")  # the last update along the axis wins
        value[tuple(c[order] for c in where)] = updates[valid][order]
    return value


def scatter_reference(problem):
    a, s = problem.arrays, problem.scalars
    value = scattered(a["out"].values, a["updates"].values, a["index"].values, s["scatter_dim"], s["out_dim_size"])
    return {"out": Expected(value)}


def put(draw, count, extent, spread="mixed", kind="normal", last=False):
    one = scatter(draw, (count,), 0, extent, spread, kind, last=last)
    return Problem({"numel": count, "out_numel": extent}, one.arrays)


def put_reference(problem):
    a = problem.arrays
    value = scattered(a["out"].values, a["updates"].values, a["index"].values, 0, problem.scalars["out_numel"])
    return {"out": Expected(value)}


# --- problems ---------------------------------------------------------------------------------------------------------

PERMUTED = {"order": (2, 0, 1)}
SHAPES = {  # shape, axis, extent along it of the indexed operand, options
    "one": ((1,), 0, 1, {"spread": "inside"}),
    "row": ((1003,), 0, 37, {}),
    "long_row": ((20001,), 0, 251, {}),
    "last": ((7, 61), 1, 19, {}),
    "last_vectors": ((6, 64), 1, 128, {}),
    "first": ((17, 9), 0, 5, {}),
    "first_vectors": ((16, 64), 0, 12, {}),
    "plain": ((3, 5, 7), 1, 6, {}),
    "middle_wide": ((3, 8, 132), 1, 11, {}),
    "outside": ((3, 5, 7), 2, 4, {"spread": "outside"}),
    "one_target": ((4, 33), 1, 9, {"spread": "one"}),
    **{spread: ((9, 130), 1, 33, {"spread": spread}) for spread in ("zipf", "rising", "falling")},
    "no_extent": ((3, 5), 1, 0, {"spread": "outside"}),
    "extent_1": ((5, 1, 9), 1, 7, {}),
    "rank8": ((2, 1, 2, 1, 3, 1, 2, 3), 4, 5, {}),
    "special": ((9, 40), 1, 40, {"kind": "special"}),
    "large": ((37, 130), 1, 300, {}),
    "large_first": ((130, 260), 0, 41, {}),
}


def layouts(indexed, plain, index):
    """Problems with other layouts; arguments are the names of the indexed operand, of the other and of the index."""
    shape, axis, extent = (6, 5, 8), 1, 7
    made = {
        "permuted_indexed": {indexed: PERMUTED}, "permuted_plain": {plain: PERMUTED},
        "flipped": {indexed: {"flip": (0, 1, 2)}, plain: {"flip": (1,)}},
        "gaps": {indexed: {"gap": 3, "pad": 2}, plain: {"gap": 2}}, "padded": {plain: {"pad": 8}, indexed: {"pad": 4}},
    }  # fmt: skip
    if index:
        made |= {
            "permuted_index": {index: PERMUTED}, "flipped_index": {index: {"flip": (0, 2), "pad": 1}},
            "rows": {index: {"broadcast": (2,)}}, "rows_wide": {index: {"broadcast": (2,)}},
            "rows_alike": {index: {"broadcast": (0,)}},
        }  # fmt: skip
    return {
        name: ((6, 5, 64) if name == "rows_wide" else shape, axis, extent, options) for name, options in made.items()
    }


def problems(make, table):
    return {name: lambda d, s=s, a=a, e=e, k=k: make(d, s, a, e, **k) for name, (s, a, e, k) in table.items()}


def bad_calls(count, shape, axis, extent, arrays, strides, indexed):
    bad = [
        Bad("negative", 2, rf"{count} is -2", {count: -2}, can=2),
        Bad("rank_negative", 2, r"rank is -1", {"rank": -1}, can=2),
        Bad("rank_9", 2, r"rank is 9", {"rank": 9}, can=2),
        Bad("rank_0", 2, rf"{axis} is 1", {"rank": 0, count: 1}, can=2),
        Bad("axis_negative", 2, rf"{axis} is -1", {axis: -1}, can=2),
        Bad("axis_3", 2, rf"{axis} is 3", {axis: 3}, can=2),
        Bad("extent_negative", 2, rf"{extent} is -6", {extent: -6}, can=2),
        Bad(f"null_{shape}", 2, rf"{shape} is NULL", host={shape: None}, can=2),
        Bad("shape_negative", 2, rf"{shape}\[2\] is -7", host={shape: (3, 5, -7)}, can=2),
        Bad("count_wrong", 2, rf"{count} is 17\b", {count: 17}, can=2),
        Bad("empty_wrong", 2, rf"{count} is 0\b", {count: 0}, can=2),
        Bad("empty_axis", 2, rf"{axis} is 9", {count: 0, axis: 9}, {shape: (3, 0, 7)}, can=2),
        Bad("overflow", 2, shape, {"rank": 8}, {shape: (I32_MAX,) * 8, **dict.fromkeys(strides, (0,) * 8)}, can=2),
        Bad("far_extent", 2, "stride", {extent: I32_MAX}, {f"stride_{indexed}": (1, 2**30, 1)}, can=2),
    ]
    for s in strides:
        bad.append(Bad(f"null_{s}", 2, rf"{s} is NULL", host={s: None}, can=2))
        bad.append(Bad(f"far_{s}", 2, rf"{s}\[1\] is {2**61}", host={s: (1, 2**61, 1)}, can=2))
        bad.append(Bad(f"least_{s}", 2, rf"{s}\[1\] is -{2**63}", host={s: (1, -(2**63), 1)}, can=2))
        bad.append(Bad(f"empty_null_{s}", 2, rf"{s} is NULL", {count: 0}, {shape: (3, 0, 7), s: None}, can=2))
    bad.append(Bad("still", 2, r"stride_out\[0\] is 0", host={"stride_out": (0, 7, 1)}, can=2))
    bad.append(Bad("still_axis", 2, r"stride_out\[1\] is 0", host={"stride_out": (7, 0, 1)}, can=2))
    return (*bad, *pointers(arrays))


def pointers(arrays):
    bad = [Bad(f"null_{a}", 2, rf"{a} is NULL", null=(a,)) for a in arrays]
    return (*bad, *(Bad(f"odd_{a}", 1, rf"{a} is 0x[0-9a-f]+", shift={a: 1}) for a in arrays))


def overlaps(output, arrays):
    return tuple(Bad(f"{output}_is_{a}", 2, rf"{output}|{a}", alias={output: a}) for a in arrays)


ROW_COUNTS = (1, 2, 3, 4, 5, 8, 16, 31, 64, 100, 128, 257, 1030)
GATHER = layouts("src", "out", "index")
SELECT = layouts("src", "out", "")
SCATTER = layouts("out", "updates", "index")
LINEAR = {
    "one": (1, 1, {"spread": "inside"}), "plain": (61, 23, {}), "outside": (33, 5, {"spread": "outside"}),
    "one_target": (301, 9, {"spread": "one"}), "no_extent": (7, 0, {"spread": "outside"}),
    "special": (90, 60, {"kind": "special"}), "vectors": (4096, 1000, {"spread": "inside"}), "large": (20003, 3001, {}),
}  # fmt: skip


def linear(make):
    return {name: lambda d, c=c, e=e, k=k: make(d, c, e, **k) for name, (c, e, k) in LINEAR.items()}


def linear_bad(count, extent, arrays):
    return (
        Bad("negative", 2, rf"{count} is -2", {count: -2}, can=2),
        Bad("negative_extent", 2, rf"{extent} is -3", {extent: -3}, can=2),
        Bad("negative_beside_0", 2, rf"{extent} is -3", {count: 0, extent: -3}, can=2),
        Bad("far", 2, rf"{extent} is {2**60}", {extent: 2**60}, can=2),
        *pointers(arrays),
    )


CASES = (
    Case(
        row="gather{I}_{T}", problems=problems(gather, SHAPES | GATHER), reference=gather_reference,
        tolerance={"out": "exact"}, plain="plain", large="large",
        bad=(
            *bad_calls("out_numel", "out_shape", "gather_dim", "src_dim_size", ("src", "index", "out"),
                       ("stride_src", "stride_index", "stride_out"), "src"),
            *overlaps("out", ("src", "index")),
        ),
        idle=(Idle("nothing", {"out_numel": 0}, {"out_shape": (3, 0, 7)}),),
    ),
    Case(
        row="index_select{I}_{T}", problems=problems(select, SHAPES | SELECT), reference=select_reference,
        tolerance={"out": "exact"}, plain="plain", large="large",
        bad=(
            *bad_calls("out_numel", "out_shape", "select_dim", "src_dim_size", ("src", "idx", "out"),
                       ("stride_src", "stride_out"), "src"),
            *overlaps("out", ("src",)),
        ),
        idle=(Idle("nothing", {"out_numel": 0}, {"out_shape": (3, 0, 7)}),),
    ),
    Case(
        row="take{I}_{T}", problems=linear(take), reference=take_reference, tolerance={"out": "exact"}, plain="plain",
        large="large", bad=(*linear_bad("numel", "src_numel", ("src", "index", "out")), *overlaps("out", ("src",))),
        idle=(Idle("nothing", {"numel": 0}),),
    ),
    Case(
        row="gather_rows_{T}",
        problems={f"h{h}": lambda d, h=h: rows(d, 61, h, 23) for h in ROW_COUNTS}
        | {
            "one": lambda d: rows(d, 1, 1, 1, "inside"), "outside": lambda d: rows(d, 9, 5, 3, "outside"),
            "special": lambda d: rows(d, 30, 9, 40, kind="special"), "large": lambda d: rows(d, 1001, 36, 251),
        },
        reference=rows_reference, tolerance={"dest": "exact"}, plain="h5", large="large",
        bad=(
            *(Bad(f"none_{e}", 2, rf"{e} is 0", {e: 0}, can=2) for e in ("v", "h")),
            *(Bad(f"negative_{e}", 2, rf"{e} is -4", {e: -4}, can=2) for e in ("v", "h", "n")),
            Bad("far", 2, rf"h is {2**60}", {"h": 2**60}, can=2),
            *pointers(("dest", "table", "idx")), *overlaps("dest", ("table",)),
        ),
        idle=(Idle("no_rows", {"n": 0}),),
    ),
    Case(
        row="scatter{I}_{T}", problems=problems(scatter, SHAPES | SCATTER), reference=scatter_reference,
        tolerance={"out": "exact"}, plain="plain", large="large",
        bad=(
            *bad_calls("upd_numel", "upd_shape", "scatter_dim", "out_dim_size", ("updates", "index", "out"),
                       ("stride_updates", "stride_index", "stride_out"), "out"),
            *overlaps("out", ("updates", "index")),
        ),
        idle=(
            Idle("nothing", {"upd_numel": 0}, {"upd_shape": (3, 0, 7)}), Idle("no_targets", {"out_dim_size": 0}),
        ),
    ),
    Case(
        row="put{I}_{T}", problems=linear(put), reference=put_reference, tolerance={"out": "exact"}, plain="plain",
        large="large",
        bad=(*linear_bad("numel", "out_numel", ("updates", "index", "out")), *overlaps("out", ("updates",))),
        idle=(Idle("nothing", {"numel": 0}), Idle("no_targets", {"out_numel": 0})),
    ),
)  # fmt: skip
