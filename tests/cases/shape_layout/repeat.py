# SPDX-License-Identifier: Apache-2.0
"""repeat and its gradient."""

import math

import numpy as np

from ..model import Bad, Case, Expected, Idle, Problem, strides_for

MOVE_BRIEF = ("plain", "large", "special")


def of_each_width(slots):
    """Copy kernels are chosen by element width: the dtypes that are tried with everything."""
    return slots["T"] in ("f32", "bf16", "f64", "u8")


def repeat(draw, shape, out_shape, x=None, y=None, kind="normal"):
    x, y = strides_for(shape, **x or {}), strides_for(out_shape, **y or {})
    host = {"input_shape": tuple(shape), "output_shape": tuple(out_shape), "stride_x": x, "stride_y": y}
    arrays = {"x": draw.values(shape, kind, x), "y": draw.output(out_shape, y)}
    return Problem({"output_numel": math.prod(out_shape), "rank": len(shape)}, arrays, host)


def repeat_reference(problem):
    shape, out_shape = problem.host["input_shape"], problem.host["output_shape"]
    x = problem.arrays["x"].values
    if not shape:
        return {"y": Expected(x)}
    return {"y": Expected(x[np.ix_(*(np.arange(o) % i for i, o in zip(shape, out_shape)))])}


def repeat_backward(draw, shape, repeats, dy=None, dx=None, kind="normal", null=()):
    long_shape = tuple(i * r for i, r in zip(shape, repeats))
    dy, dx = strides_for(long_shape, **dy or {}), strides_for(shape, **dx or {})
    host = {"input_shape": tuple(shape), "repeats": tuple(repeats), "stride_dy": dy, "stride_dx": dx}
    arrays = {"dy": draw.floats(long_shape, kind, dy), "dx": draw.output(shape, dx)}
    return Problem({"input_numel": math.prod(shape), "rank": len(shape)}, arrays, host, null)


def repeat_backward_reference(problem):
    shape, repeats = problem.host["input_shape"], problem.host["repeats"]
    dy = problem.arrays["dy"].values
    split = dy.reshape([e for pair in zip(repeats, shape) for e in pair])
    axes = tuple(range(0, 2 * len(shape), 2))
    with np.errstate(invalid="ignore", over="ignore"):
        total, size = split.sum(axes), np.abs(split).sum(axes)
    return {"dx": Expected(np.asarray(total), math.prod(repeats), np.asarray(size))}


PERMUTED = {"order": (2, 0, 1)}
REPEATS = {  # shape, output shape, layouts
    "one": ((1,), (1,), {}),
    "rank0": ((), (), {}),
    "fill": ((1,), (1003,), {}),
    "fill_rows": ((5, 1), (5, 257), {}),
    "stack": ((33,), (33 * 9,), {}),
    "stack_rows": ((1, 65), (40, 65), {}),
    "same": ((3, 5, 7), (3, 5, 7), {}),
    "plain": ((3, 5, 7), (6, 15, 7), {}),
    "all": ((3, 5, 7), (6, 10, 21), {}),
    "whole_vectors": ((8, 64), (16, 256), {}),
    "odd_vectors": ((8, 63), (16, 252), {}),
    "no_multiple": ((3, 5, 7), (4, 13, 16), {}),
    "shorter": ((6, 40), (4, 23), {}),
    "rank8": ((2, 1, 2, 1, 2, 1, 2, 3), (2, 2, 4, 1, 2, 3, 3, 5), {}),
    "permuted_in": ((3, 5, 7), (6, 10, 14), {"x": PERMUTED}),
    "permuted_out": ((3, 5, 7), (6, 10, 14), {"y": PERMUTED}),
    "flipped": ((3, 5, 7), (6, 10, 14), {"x": {"flip": (0, 2)}}),
    "flipped_out": ((3, 5, 7), (6, 11, 14), {"y": {"flip": (1, 2)}}),
    "gaps": ((9, 11), (18, 33), {"x": {"gap": 2}, "y": {"gap": 3, "pad": 2}}),
    "broadcast": ((9, 11), (18, 33), {"x": {"broadcast": (0,)}}),
    "large": ((37, 1, 65), (74, 19, 130), {}),
}
SUMS = {  # shape, repeats, layouts
    "one": ((1,), (1,), {}),
    "rank0": ((), (), {}),
    "single": ((1,), (3001,), {}),
    "single_rows": ((5, 1), (1, 301), {}),
    "stack": ((33,), (57,), {}),
    "same": ((3, 5, 7), (1, 1, 1), {}),
    "plain": ((3, 5, 7), (2, 3, 1), {}),
    "all": ((3, 5, 7), (2, 3, 4), {}),
    "whole_vectors": ((8, 64), (5, 3), {}),
    "odd_vectors": ((8, 63), (5, 3), {}),
    "wide": ((3, 700), (4, 1), {}),
    "long": ((2, 3), (300, 20), {}),
    "rank8": ((2, 1, 2, 1, 2, 1, 2, 3), (1, 2, 2, 2, 1, 3, 2, 2), {}),
    "zero_repeat": ((3, 5, 7), (2, 0, 4), {}),
    "permuted_in": ((3, 5, 7), (2, 3, 4), {"dy": PERMUTED}),
    "permuted_out": ((3, 5, 7), (2, 3, 4), {"dx": PERMUTED}),
    "flipped": ((3, 5, 7), (2, 3, 4), {"dy": {"flip": (0, 1, 2)}}),
    "flipped_out": ((3, 5, 7), (2, 3, 4), {"dx": {"flip": (0, 2)}}),
    "gaps": ((9, 11), (4, 5), {"dy": {"gap": 2, "pad": 3}, "dx": {"gap": 3}}),
    "broadcast": ((9, 11), (4, 5), {"dy": {"broadcast": (1,)}}),
    "large": ((37, 65), (12, 5), {}),
}


def bad_calls(count, shape, other, arrays, strides):
    """Bad calls of a problem of rank 3 whose plain extents are in `shape` (the counted one) and `other`."""
    other_name, other_bad, other_text = other
    bad = [
        Bad("negative", 2, rf"{count} is -2", {count: -2}, can=2),
        Bad("rank_negative", 2, r"rank is -1", {"rank": -1}, can=2),
        Bad("rank_9", 2, r"rank is 9", {"rank": 9}, can=2),
        Bad(f"null_{shape}", 2, rf"{shape} is NULL", host={shape: None}, can=2),
        Bad(f"null_{other_name}", 2, rf"{other_name} is NULL", host={other_name: None}, can=2),
        Bad("extent_negative", 2, rf"{shape}\[2\] is -7", host={shape: (6, 15, -7)}, can=2),
        Bad("extent_0", 2, rf"{count} is \d+\b.*\b0\b", host={shape: (6, 0, 7)}, can=2),
        Bad("count_wrong", 2, rf"{count} is 17\b", {count: 17}, can=2),
        Bad(f"{other_name}_bad", 2, other_text, host={other_name: other_bad}, can=2),
    ]
    wide = {shape: (2**31 - 1,) * 8, other_name: (1,) * 8, **dict.fromkeys(strides, (0,) * 8)}
    bad.append(Bad("overflow", 2, shape, {"rank": 8}, wide, can=2))
    for s in strides:
        bad.append(Bad(f"null_{s}", 2, rf"{s} is NULL", host={s: None}, can=2))
        bad.append(Bad(f"far_{s}", 2, rf"{s}\[1\] is {2**61}", host={s: (1, 2**61, 1)}, can=2))
        bad.append(Bad(f"least_{s}", 2, rf"{s}\[1\] is -{2**63}", host={s: (1, -(2**63), 1)}, can=2))
        bad.append(Bad(f"empty_null_{s}", 2, rf"{s} is NULL", {count: 0}, {shape: (3, 0, 7), s: None}, can=2))
        far = {shape: (3, 0, 7), s: (1, 7, 2**60)}
        bad.append(Bad(f"empty_far_{s}", 2, rf"{s}\[2\] is {2**60}", {count: 0}, far, can=2))
    bad.append(Bad("empty_rank_9", 2, r"rank is 9", {count: 0, "rank": 9}, can=2))
    bad.append(Bad("empty_wrong", 2, rf"{count} is 0\b", {count: 0}, can=2))
    still = strides[1]
    bad.append(Bad("still", 2, rf"{still}\[0\] is 0", host={still: (0, 7, 1)}, can=2))
    bad += [Bad(f"null_{a}", 2, rf"{a} is NULL", null=(a,)) for a in arrays]
    return (*bad, *(Bad(f"odd_{a}", 1, rf"{a} is 0x[0-9a-f]+", shift={a: 1}) for a in arrays))


def idle_calls(count, shape):
    return (Idle("count_0", {count: 0}, {shape: (3, 0, 7)}),)


CASES = (
    Case(
        row="repeat_{T}",
        problems={name: lambda d, s=s, o=o, k=k: repeat(d, s, o, **k) for name, (s, o, k) in REPEATS.items()}
        | {"special": lambda d: repeat(d, (7, 9), (14, 30), kind="special")},
        reference=repeat_reference, tolerance={"y": "exact"}, plain="plain", large="large", brief=MOVE_BRIEF,
        full=of_each_width,
        bad=bad_calls("output_numel", "output_shape", ("input_shape", (3, 0, 7), r"input_shape\[1\] is 0"),
                      ("x", "y"), ("stride_x", "stride_y")),
        idle=idle_calls("output_numel", "output_shape"),
    ),
    Case(
        row="repeat_backward_{T}",
        problems={name: lambda d, s=s, r=r, k=k: repeat_backward(d, s, r, **k) for name, (s, r, k) in SUMS.items()}
        | {
            "zero_repeat_null": lambda d: repeat_backward(d, (3, 5, 7), (2, 0, 4), null=("dy",)),
            "special": lambda d: repeat_backward(d, (7, 9), (2, 3), kind="special"),
            "positive": lambda d: repeat_backward(d, (7, 9), (20, 30), kind="positive"),
        },
        reference=repeat_backward_reference, tolerance={"dx": "total"}, plain="plain", large="large",
        bad=(
            *bad_calls("input_numel", "input_shape", ("repeats", (2, -3, 1), r"repeats\[1\] is -3"),
                       ("dy", "dx"), ("stride_dy", "stride_dx")),
            Bad("repeats_overflow", 2, r"repeats", host={"repeats": (2**31 - 1,) * 3, "stride_dy": (0, 0, 0)}, can=2),
        ),
        idle=idle_calls("input_numel", "input_shape"),
    ),
)  # fmt: skip
