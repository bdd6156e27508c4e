# SPDX-License-Identifier: Apache-2.0
"""Top-k of rows, along an axis and of segments, and its gradient."""

import itertools
import math

import numpy as np

from tools.oracle.numerics import LARGEST, LIMITS, is_float

from ..model import Array, Bad, Case, Expected, Idle, Problem, strides_for
from .order import elements, order_of, replaced, selected

# --- rows -------------------------------------------------------------------------------------------------------------


def rows(draw, batch, length, k, largest=1, kind="normal"):
    arrays = {
        "x": elements(draw, (batch, length), kind),
        "y_vals": draw.output((batch, k)),
        "y_idx": draw.output((batch, k), dtype="i32"),
    }
    return Problem({"batch": batch, "row_len": length, "k": k, "largest": largest}, arrays)


def rows_reference(problem):
    x = problem.arrays["x"]
    values, index = selected(x, order_of(x, 1, bool(problem.scalars["largest"])), 1, problem.scalars["k"])
    return {"y_vals": Expected(values), "y_idx": Expected(index)}


ROWS = {
    "plain": (3, 40, 5), "one": (1, 1, 1), "whole": (2, 33, 33), "k64": (3, 200, 64), "row_1024": (2, 1024, 64),
    "row_1025": (2, 1025, 65, 0), "smallest": (5, 100, 7, 0), "special": (4, 90, 40, 1, "special"),
    "special_smallest": (4, 90, 40, 0, "special"), "ties": (3, 700, 100, 1, "ties"), "equal": (2, 2100, 70, 0, "equal"),
    "rising": (2, 3000, 20, 1, "rising"), "falling": (2, 3000, 300, 1, "falling"), "nan": (2, 300, 20, 1, "nan"),
    "close": (2, 4100, 600, 1, "close"), "many": (2, 5000, 2500, 0, "wide"), "short": (70, 17, 4), "pairs": (100, 2, 1),
    "long": (1, 20000, 64, 1, "wide"), "long_many": (1, 9000, 3000, 1), "large": (40, 700, 50),
    "experts": (300, 256, 8), "two_rows": (2, 130, 128, 0, "ties"),
}  # fmt: skip
BRIEF = ("plain", "special", "special_smallest", "ties", "close", "many", "long", "short", "whole")

# --- along an axis ----------------------------------------------------------------------------------------------------


def along(draw, shape, axis, k, largest=1, is_sorted=1, kind="normal", x=None, values=None, indices=None):
    """x, values and indices are options of strides_for."""
    result = replaced(shape, axis, k)
    strides = [strides_for(s, **o or {}) for s, o in ((shape, x), (result, values), (result, indices))]
    arrays = {
        "x": elements(draw, shape, kind, axis, strides[0]),
        "values": draw.output(result, strides[1]),
        "indices": draw.output(result, strides[2], draw.index),
    }
    one = replaced(shape, axis, 1)
    scalars = {
        "rows_numel": math.prod(one), "rank": len(shape), "topk_axis": axis, "axis_len": shape[axis], "k": k,
        "largest": largest, "sorted": is_sorted,
    }  # fmt: skip
    host = {"rows_shape": one} | dict(zip(("stride_x", "stride_values", "stride_indices"), strides))
    return Problem(scalars, arrays, host)


def along_reference(problem):
    x, scalars = problem.arrays["x"], problem.scalars
    axis, k = scalars["topk_axis"], scalars["k"]
    order = order_of(x, axis, bool(scalars["largest"]))
    if not scalars["sorted"]:
        order = np.sort(np.take(order, np.arange(k), axis), axis)
    values, index = selected(x, order, axis, k)
    return {"values": Expected(values), "indices": Expected(index)}


AXES = {
    "plain": ((3, 9, 5), 1, 4), "last": ((4, 60), 1, 10, 0), "first": ((70, 9), 0, 7), "vector": ((300,), 0, 30),
    "gaps": ((3, 50), 1, 6, 0, 1, "ties", {"gap": 3, "pad": 5}, {"pad": 1}, {"gap": 2}),
    "flipped": ((5, 80), 1, 9, 1, 1, "special", {"flip": (1,)}, {"flip": (0, 1)}, {"order": (1, 0)}),
    "broadcast": ((4, 33), 1, 5, 1, 1, "normal", {"broadcast": (0,)}),
    "same": ((3, 20), 1, 5, 1, 1, "normal", {"broadcast": (1,)}),
    "permuted": ((3, 4, 50, 2), 2, 11, 1, 1, "ties", {"order": (2, 0, 3, 1)}, {"order": (1, 3, 0, 2)}),
    "unsorted": ((3, 200), 1, 17, 1, 0, "ties"), "unsorted_many": ((2, 3000), 1, 2900, 0, 0),
    "unsorted_long": ((2, 6000), 1, 100, 1, 0, "wide"), "many": ((4500, 2), 0, 2200, 1, 1, "wide"),
    "rank_8": ((2, 1, 3, 1, 2, 17, 1, 2), 5, 3), "experts": ((40, 3, 64), 2, 6), "large": ((30, 50, 7), 1, 20),
    "columns": ((129, 70), 0, 128, 0),
}  # fmt: skip
AXES_BRIEF = ("plain", "flipped", "gaps", "unsorted", "many")

# --- segments ---------------------------------------------------------------------------------------------------------


def segments(draw, lengths, k, largest=1, is_sorted=1, kind="normal", offsets=None, n=None):
    """offsets: out of range or falling ones."""
    ends = np.cumsum(lengths)
    starts = np.array(offsets if offsets is not None else [0, *ends], np.int64)
    n = int(ends[-1]) if n is None and len(lengths) else n or 0
    arrays = {
        "x": elements(draw, (n,), kind), "offsets": Array(draw.index, starts.shape, starts),
        "values": draw.output((len(starts) - 1, k)), "indices": draw.output((len(starts) - 1, k), dtype=draw.index),
    }  # fmt: skip
    scalars = {
        "n": n, "segments": len(starts) - 1, "k": k, "largest": largest, "sorted": is_sorted,
    }  # fmt: skip
    return Problem(scalars, arrays)


def padding_of(dtype, largest):
    if dtype == "bool":
        return 0 if largest else 1
    if not is_float(dtype):
        return LIMITS[dtype][0 if largest else 1]
    bound = LARGEST[dtype] if dtype == "fp8e4m3" else np.inf
    return -bound if largest else bound


def segments_reference(problem):
    x, s = problem.arrays["x"], problem.scalars
    n, k, whole = s["n"], s["k"], np.asarray(x.values)
    values = np.full((s["segments"], k), padding_of(x.dtype, s["largest"]), whole.dtype)
    index = np.full((s["segments"], k), -1, np.int64)
    offsets = problem.arrays["offsets"].values
    for row, (first, end) in enumerate(itertools.pairwise(offsets)):
        first = min(max(int(first), 0), n)
        end = min(max(int(end), first), n)
        order = order_of(Array(x.dtype, (end - first,), whole[first:end]), 0, bool(s["largest"]))[:k]
        order = order if s["sorted"] else np.sort(order)
        values[row, : len(order)], index[row, : len(order)] = whole[first:end][order], order
    return {"values": Expected(values), "indices": Expected(index)}


SEGMENTS = {
    "plain": ([5, 9, 20, 3], 4), "empty": ([0, 7, 0, 0, 30, 0], 5, 0), "one": ([40], 7), "nothing": ([0, 0], 3),
    "long": ([2500, 3, 700], 600, 1, 1, "ties"), "unsorted": ([50, 60, 2], 20, 0, 0),
    "special": ([60, 90], 30, 0, 1, "special"), "many": ([5000, 10, 2600], 2300),
    "strange": ([20], 4, 1, 1, "normal", [-5, 3, 30, 7, 9, 2, 100], 20), "large": ([30] * 50 + [900] * 8, 40),
}  # fmt: skip

# --- gradients --------------------------------------------------------------------------------------------------------


def distinct_indices(draw, shape, axis, extent, spread):
    """spread: "inside", or "mixed": one in five is out of range."""
    others = replaced(shape, axis, 1)
    rows_of = [draw.rng.permutation(extent)[: shape[axis]] for _ in range(math.prod(others))]
    moved = np.array(rows_of, np.int64).reshape((*[e for d, e in enumerate(shape) if d != axis], shape[axis]))
    index = np.moveaxis(moved, -1, axis)
    if spread == "inside":
        return index
    outside = draw.rng.choice(np.array([-1, extent, extent + 9, 2**31 - 1]), shape)
    return np.where(draw.rng.random(shape) < 0.2, outside, index)


def rows_backward(draw, batch, k, length, spread="inside", kind="normal"):
    index = distinct_indices(draw, (batch, k), 1, length, spread)
    arrays = {
        "dy": draw.values((batch, k), kind), "indices": Array("i32", index.shape, index),
        "dx": draw.output((batch, length)),
    }  # fmt: skip
    return Problem({"batch": batch, "k": k, "row_len": length}, arrays)


def scattered(dy, index, axis, extent):
    """Zeros with dy at the indices along the axis that are in range."""
    result = np.zeros(replaced(dy.shape, axis, extent))
    at = list(np.indices(dy.shape))
    fits = (index >= 0) & (index < extent)
    at[axis] = np.where(fits, index, 0)
    result[tuple([each[fits] for each in at])] = dy[fits]
    return result


def rows_backward_reference(problem):
    dy, index = problem.arrays["dy"].values, problem.arrays["indices"].values
    return {"dx": Expected(scattered(dy, index, 1, problem.scalars["row_len"]))}


ROWS_BACKWARD = {
    "plain": (3, 5, 40), "one": (1, 1, 1), "whole": (2, 33, 33), "k0": (3, 0, 17), "mixed": (7, 20, 60, "mixed"),
    "special": (4, 40, 90, "inside", "special"), "long": (2, 300, 5000), "large": (40, 50, 700),
    "fibers": (600, 300, 400),
}  # fmt: skip


def along_backward(draw, shape, axis, k, spread="inside", kind="normal", dy=None, indices=None, dx=None):
    given = replaced(shape, axis, k)
    strides = [strides_for(s, **o or {}) for s, o in ((given, dy), (given, indices), (shape, dx))]
    index = distinct_indices(draw, given, axis, shape[axis], spread)
    arrays = {
        "dy": draw.values(given, kind, strides[0]), "indices": draw.array(index, draw.index, strides[1]),
        "dx": draw.output(shape, strides[2]),
    }  # fmt: skip
    one = replaced(shape, axis, 1)
    scalars = {
        "rows_numel": math.prod(one), "rank": len(shape), "topk_axis": axis, "k": k, "axis_len": shape[axis],
    }  # fmt: skip
    host = {"rows_shape": one} | dict(zip(("stride_dy", "stride_indices", "stride_dx"), strides))
    return Problem(scalars, arrays, host)


def along_backward_reference(problem):
    a, s = problem.arrays, problem.scalars
    return {"dx": Expected(scattered(a["dy"].values, a["indices"].values, s["topk_axis"], s["axis_len"]))}


AXES_BACKWARD = {
    "plain": ((3, 9, 5), 1, 4), "last": ((4, 60), 1, 10, "mixed"), "first": ((70, 9), 0, 7), "k0": ((3, 9), 1, 0),
    "flipped": ((5, 80), 1, 9, "inside", "special", {"flip": (1,)}, {"flip": (0,)}, {"flip": (0, 1)}),
    "gaps": ((3, 50), 1, 6, "mixed", "normal", {"gap": 3}, {"pad": 5}, {"gap": 2, "pad": 1}),
    "permuted": ((3, 4, 50, 2), 2, 11, "inside", "normal", {"order": (2, 0, 3, 1)}, {"order": (1, 3, 0, 2)}),
    "broadcast": ((4, 33), 1, 5, "inside", "normal", {"broadcast": (0, 1)}), "large": ((30, 50, 7), 1, 20),
}  # fmt: skip

# --- cases ------------------------------------------------------------------------------------------------------------


def problems(make, table):
    return {name: lambda draw, given=given: make(draw, *given) for name, given in table.items()}


def pointers(*arrays):
    bad = [Bad(f"null_{name}", 2, rf"{name} is NULL", null=(name,)) for name in arrays]
    return (*bad, *(Bad(f"odd_{name}", 1, rf"{name} is 0x[0-9a-f]+", shift={name: 1}) for name in arrays))


def bad_axes(names, output):
    bad = [
        Bad("negative_rows", 2, r"rows_numel is -1", {"rows_numel": -1}, can=2),
        Bad("other_rows", 2, r"rows_numel is 16, but rows_shape has 15", {"rows_numel": 16}, can=2),
        Bad("rank_9", 2, r"rank is 9", {"rank": 9}, can=2),
        Bad("axis_3", 2, r"topk_axis is 3", {"topk_axis": 3}, can=2),
        Bad("axis_of_rows", 2, r"rows_shape\[0\] is 3, must be 1", {"topk_axis": 0}, can=2),
        Bad("negative_k", 2, r"k is -4", {"k": -4}, can=2),
        Bad("negative_length", 2, r"axis_len is -4", {"axis_len": -4}, can=2),
        Bad("null_shape", 2, r"rows_shape is NULL", host={"rows_shape": None}, can=2),
    ]
    for name in names:
        bad.append(Bad(f"null_{name}", 2, rf"{name} is NULL", host={name: None}, can=2))
        bad.append(Bad(f"far_{name}", 2, rf"{name}\[0\] is {2**61}", host={name: (2**61, 9, 1)}, can=2))
        bad.append(Bad(f"far_axis_{name}", 2, rf".*{name}\[1\] is {2**61}", host={name: (9, 2**61, 1)}, can=2))
    bad.append(Bad("still", 2, rf"{output}\[1\] is 0, but an output", host={output: (9, 0, 1)}, can=2))
    bad.append(Bad("still_rows", 2, rf"{output}\[0\] is 0, but an output", host={output: (0, 9, 1)}, can=2))
    return tuple(bad)


CASES = (
    Case(
        row="topk_{T}", problems=problems(rows, ROWS), reference=rows_reference,
        tolerance={"y_vals": "exact", "y_idx": "exact"}, plain="plain", large="large", brief=BRIEF,
        full=lambda slots: slots["T"] in ("f32", "u16"),
        bad=(
            *(Bad(f"negative_{e}", 2, rf"{e} is -1", {e: -1}, can=2) for e in ("batch", "row_len", "k")),
            Bad("k_beyond", 2, r"k is 41, must be <= row_len, 40", {"k": 41}, can=2),
            Bad("k_beyond_empty", 2, r"k is 5, must be <= row_len, 0", {"row_len": 0}, can=2),
            *pointers("x", "y_vals", "y_idx"),
        ),
        idle=(Idle("no_rows", {"batch": 0}), Idle("k0", {"k": 0}), Idle("no_elements", {"k": 0, "row_len": 0})),
    ),
    Case(
        row="topk_axis{I}_{T}", problems=problems(along, AXES), reference=along_reference,
        tolerance={"values": "exact", "indices": "exact"}, plain="plain", large="large", brief=AXES_BRIEF,
        full=lambda slots: slots["T"] in ("f32", "f16") and slots["I"] == "i64",
        bad=(
            *bad_axes(("stride_x", "stride_values", "stride_indices"), "stride_values"),
            Bad("k_beyond", 2, r"k is 10, must be <= axis_len, 9", {"k": 10}, can=2),
            *pointers("x", "values", "indices"),
        ),
        idle=(Idle("no_rows", {"rows_numel": 0}, {"rows_shape": (0, 1, 5)}), Idle("k0", {"k": 0}),
              Idle("no_elements", {"k": 0, "axis_len": 0})),
    ),
    Case(
        row="topk_segments{I}_{T}", problems=problems(segments, SEGMENTS), reference=segments_reference,
        tolerance={"values": "exact", "indices": "exact"}, plain="plain", large="large",
        brief=("plain", "empty", "special", "strange"), full=lambda slots: slots["T"] in ("f32", "f16"),
        bad=(
            *(Bad(f"negative_{e}", 2, rf"{e} is -1", {e: -1}, can=2) for e in ("n", "segments", "k")),
            *pointers("x", "offsets", "values", "indices"),
        ),
        idle=(Idle("no_segments", {"segments": 0}), Idle("k0", {"k": 0})),
    ),
    Case(
        row="topk_backward_{T}", problems=problems(rows_backward, ROWS_BACKWARD), reference=rows_backward_reference,
        tolerance={"dx": "exact"}, plain="plain", large="large",
        bad=(
            *(Bad(f"negative_{e}", 2, rf"{e} is -1", {e: -1}, can=2) for e in ("batch", "row_len", "k")),
            *pointers("dy", "indices", "dx"),
        ),
        idle=(Idle("no_rows", {"batch": 0}), Idle("no_elements", {"row_len": 0})),
    ),
    Case(
        row="topk_axis_backward{I}_{T}", problems=problems(along_backward, AXES_BACKWARD),
        reference=along_backward_reference, tolerance={"dx": "exact"}, plain="plain", large="large",
        bad=(*bad_axes(("stride_dy", "stride_indices", "stride_dx"), "stride_dx"), *pointers("dy", "indices", "dx")),
        idle=(Idle("no_rows", {"rows_numel": 0}, {"rows_shape": (0, 1, 5)}), Idle("no_elements", {"axis_len": 0})),
    ),
)  # fmt: skip
