# SPDX-License-Identifier: Apache-2.0
"""flip, roll and permute, each under both of its names."""

import math

import numpy as np

from ..model import Bad, Case, Expected, Idle, Problem, strides_for
from .repeat import MOVE_BRIEF, PERMUTED, bad_calls, of_each_width


def move(draw, count, names, shape, entries, x=None, y=None, kind="normal"):
    """names: the host arrays of the shape and of `entries`."""
    out = tuple(shape[d] for d in entries) if names[1] == "dims" else tuple(shape)
    x, y = strides_for(shape, **x or {}), strides_for(out, **y or {})
    host = {names[0]: tuple(shape), names[1]: tuple(entries), "stride_x": x, "stride_y": y}
    arrays = {"x": draw.values(shape, kind, x), "y": draw.output(out, y)}
    return Problem({count: math.prod(shape), "rank": len(shape)}, arrays, host)


def flip_reference(problem):
    x = problem.arrays["x"].values
    return {"y": Expected(np.flip(x, [d for d, mask in enumerate(problem.host["flip_axes"]) if mask]))}


def roll_reference(problem):
    x, shifts = problem.arrays["x"].values, problem.host["shifts"]
    for axis, shift in enumerate(shifts):
        x = np.roll(x, shift % x.shape[axis], axis)
    return {"y": Expected(x)}


def permute_reference(problem):
    return {"y": Expected(np.transpose(problem.arrays["x"].values, problem.host["dims"]))}


FLIPS = {  # shape, entries, layouts
    "one": ((1,), (1,), {}),
    "rank0": ((), (), {}),
    "none": ((3, 5, 7), (0, 0, 0), {}),
    "plain": ((3, 5, 7), (1, 0, -1), {}),
    "inner": ((9, 65), (0, 1), {}),
    "inner_vectors": ((9, 64), (0, 5), {}),
    "outer": ((9, 64), (1, 0), {}),
    "all": ((6, 10, 14), (1, 1, 1), {}),
    "long": ((20011,), (1,), {}),
    "rank8": ((2, 1, 3, 2, 1, 4, 2, 3), (1, 0, 1, 0, 1, 1, 0, 1), {}),
    "permuted_in": ((6, 10, 14), (0, 1, 1), {"x": PERMUTED}),
    "permuted_out": ((6, 10, 14), (0, 1, 1), {"y": PERMUTED}),
    "flipped": ((9, 40), (0, 1), {"x": {"flip": (1,)}}),
    "flipped_out": ((9, 40), (0, 1), {"y": {"flip": (0, 1)}}),
    "gaps": ((9, 11), (1, 1), {"x": {"gap": 2}, "y": {"gap": 3, "pad": 2}}),
    "broadcast": ((9, 11), (1, 1), {"x": {"broadcast": (0,)}}),
    "large": ((37, 19, 130), (1, 0, 1), {}),
}
ROLLS = {
    "one": ((1,), (5,), {}),
    "rank0": ((), (), {}),
    "none": ((3, 5, 7), (0, 10, -14), {}),
    "plain": ((3, 5, 7), (1, -2, 4), {}),
    "inner": ((9, 65), (0, 33), {}),
    "inner_vectors": ((9, 64), (0, -16), {}),
    "outer": ((9, 64), (4, 0), {}),
    "far": ((6, 10, 14), (2**31 - 1, -(2**31), 1000), {}),
    "long": ((20011,), (7001,), {}),
    "short_rows": ((4000, 3), (7, 2), {}),
    "rank8": ((2, 1, 3, 2, 1, 4, 2, 3), (1, 0, 1, 0, 1, 2, 0, 1), {}),
    "permuted_in": ((6, 10, 14), (1, 2, 3), {"x": PERMUTED}),
    "permuted_out": ((6, 10, 14), (1, 2, 3), {"y": PERMUTED}),
    "flipped": ((9, 40), (2, 7), {"x": {"flip": (1,)}}),
    "flipped_out": ((9, 40), (2, 7), {"y": {"flip": (0, 1)}}),
    "gaps": ((9, 11), (4, 5), {"x": {"gap": 2}, "y": {"gap": 3, "pad": 2}}),
    "broadcast": ((9, 11), (4, 5), {"x": {"broadcast": (1,)}}),
    "large": ((37, 19, 130), (5, -3, 77), {}),
}
PERMUTES = {
    "one": ((1,), (0,), {}),
    "rank0": ((), (), {}),
    "same": ((3, 5, 7), (0, 1, 2), {}),
    "plain": ((3, 5, 7), (2, 0, 1), {}),
    "matrix": ((37, 66), (1, 0), {}),
    "matrix_vectors": ((64, 128), (1, 0), {}),
    "heads": ((2, 9, 3, 32), (0, 2, 1, 3), {}),
    "channels_last": ((2, 5, 13, 17), (0, 2, 3, 1), {}),
    "reversed": ((4, 6, 10, 18), (3, 2, 1, 0), {}),
    "rank8": ((2, 1, 3, 2, 1, 4, 2, 3), (7, 0, 5, 3, 1, 6, 2, 4), {}),
    "permuted_in": ((6, 10, 14), (1, 2, 0), {"x": PERMUTED}),
    "permuted_out": ((6, 10, 14), (1, 2, 0), {"y": PERMUTED}),
    "flipped": ((9, 40), (1, 0), {"x": {"flip": (1,)}}),
    "flipped_out": ((9, 40), (1, 0), {"y": {"flip": (0, 1)}}),
    "gaps": ((9, 11), (1, 0), {"x": {"gap": 2}, "y": {"gap": 3, "pad": 2}}),
    "broadcast": ((9, 11), (1, 0), {"x": {"broadcast": (0,)}}),
    "large": ((37, 19, 130), (2, 1, 0), {}),
}


def case(row, count, names, given, reference, bad, plain=(3, 5, 7)):
    makers = {n: lambda d, s=s, e=e, k=k: move(d, count, names, s, e, **k) for n, (s, e, k) in given.items()}
    entries = given["large"][1][:2] if names[1] != "dims" else (1, 0)
    makers["special"] = lambda d: move(d, count, names, (7, 9), entries, kind="special")
    common = [
        one
        for one in bad_calls(
            count, names[0], (names[1], None, rf"{names[1]} is NULL"), ("x", "y"), ("stride_x", "stride_y")
        )
        if one.name not in ("still", "overflow") and one.name != f"{names[1]}_bad"
    ]
    still = Bad("still", 2, r"stride_y\[0\] is 0", host={"stride_y": (0, 7, 1)}, can=2)
    return Case(
        row=row,
        problems=makers,
        reference=reference,
        tolerance={"y": "exact"},
        plain="plain",
        large="large",
        brief=MOVE_BRIEF,
        full=of_each_width,
        bad=(*common, still, *bad),
        idle=(Idle("count_0", {count: 0}, {names[0]: (3, 0, 7)}),),
    )


DIMS = (
    Bad("dims_negative", 2, r"dims\[1\] is -1", host={"dims": (2, -1, 0)}, can=2),
    Bad("dims_3", 2, r"dims\[0\] is 3", host={"dims": (3, 1, 0)}, can=2),
    Bad("dims_twice", 2, r"dims\[2\] is 1", host={"dims": (0, 1, 1)}, can=2),
)
CASES = tuple(
    case(f"{name}{form}", *rest)
    for form in ("", "_strided")
    for name, *rest in (
        ("flip_{T}", "numel", ("shape", "flip_axes"), FLIPS, flip_reference, ()),
        ("roll_{T}", "numel", ("shape", "shifts"), ROLLS, roll_reference, ()),
        ("permute_{T}", "input_numel", ("input_shape", "dims"), PERMUTES, permute_reference, DIMS),
    )
)
