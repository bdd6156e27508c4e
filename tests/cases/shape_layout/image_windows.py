# SPDX-License-Identifier: Apache-2.0
"""im2col and its adjoint col2im: windows of images as columns."""

import itertools
import math

import numpy as np

from ..model import Bad, Case, Expected, Idle, Problem, strides_for
from .pad import summed
from .repeat import MOVE_BRIEF, of_each_width

ENTRIES = ("kernel_size", "dilation", "padding", "steps")


def counts_of(spatial, kernel, dilation, padding, steps):
    return [(e + 2 * p - d * (k - 1) - 1) // s + 1 for e, k, d, p, s in zip(spatial, kernel, dilation, padding, steps)]


def columns(x, kernel, dilation, padding, steps, blank=0):
    """A slice of the padded images for each kernel position; `blank` fills the padding."""
    counts = counts_of(x.shape[2:], kernel, dilation, padding, steps)
    wide = np.pad(x, [(0, 0), (0, 0), *[(p, p) for p in padding]], constant_values=blank)
    slices = [
        wide[(..., *[slice(k * d, k * d + s * (c - 1) + 1, s) for k, d, s, c in zip(taps, dilation, steps, counts)])]
        for taps in itertools.product(*map(range, kernel))
    ]
    return np.stack(slices, 2).reshape(x.shape[0], x.shape[1] * len(slices), math.prod(counts))


def scalars_of(count, number, shape):
    return {count: number, "rank": len(shape)}


def im2col(draw, shape, *entries, x=None, y=None, kind="normal"):
    out = columns(np.zeros(shape), *entries).shape
    x, y = strides_for(shape, **x or {}), strides_for(out, **y or {})
    host = {"input_shape": shape, **dict(zip(ENTRIES, entries)), "stride_x": x, "stride_y": y}
    arrays = {"x": draw.values(shape, kind, x), "y": draw.output(out, y)}
    return Problem(scalars_of("output_numel", math.prod(out), shape), arrays, host)


def col2im(draw, shape, *entries, x=None, y=None, kind="normal"):
    out = columns(np.zeros(shape), *entries).shape
    dx, dy = strides_for(shape, **x or {}), strides_for(out, **y or {})
    host = {"input_shape": shape, **dict(zip(ENTRIES, entries)), "stride_dy": dy, "stride_dx": dx}
    arrays = {"dy": draw.floats(out, kind, dy), "dx": draw.output(shape, dx)}
    return Problem(scalars_of("input_numel", math.prod(shape), shape), arrays, host)


def reference(problem):
    return {"y": Expected(columns(problem.arrays["x"].values, *[problem.host[name] for name in ENTRIES]))}


def reference_of_sums(problem):
    shape = problem.host["input_shape"]
    flat_indices = np.arange(math.prod(shape)).reshape(shape)
    source = columns(flat_indices, *[problem.host[name] for name in ENTRIES], blank=-1).ravel()
    return {"dx": summed(problem.arrays["dy"].values.ravel()[source >= 0], source[source >= 0], shape)}


IMAGES = {  # shape, kernel, dilation, padding, steps, layouts of image and columns
    "one": ((1, 1, 1), (1,), (1,), (0,), (1,), {}),
    "plain": ((2, 3, 5, 7), (2, 3), (1, 1), (0, 0), (1, 1), {}),
    "padded": ((2, 3, 5, 7), (3, 3), (1, 1), (1, 1), (1, 1), {}),
    "steps": ((2, 2, 9, 16), (3, 4), (1, 1), (1, 0), (2, 3), {}),
    "patches": ((2, 3, 8, 32), (4, 16), (1, 1), (0, 0), (4, 16), {}),
    "long_patches": ((2, 3, 72, 96), (8, 12), (1, 1), (0, 0), (8, 12), {}),
    "long_patches_gaps": ((2, 3, 80, 64), (10, 8), (1, 1), (0, 0), (10, 8), {"x": {"gap": 2}, "y": {"gap": 3}}),
    "gaps_between": ((1, 2, 11, 13), (2, 1), (1, 1), (0, 0), (4, 3), {}),
    "dilated": ((2, 2, 12, 17), (3, 4), (2, 3), (2, 0), (1, 1), {}),
    "dilated_steps": ((2, 2, 14, 40), (3, 5), (4, 6), (3, 9), (2, 4), {}),
    "apart_steps": ((1, 2, 30, 31), (4, 3), (3, 5), (0, 4), (5, 3), {}),
    "all_padding": ((1, 2, 1, 2), (2, 5), (1, 1), (5, 9), (1, 2), {}),
    "no_rows": ((2, 2, 0, 3), (1, 2), (1, 1), (1, 0), (1, 1), {}),
    "whole": ((3, 2, 6, 4), (6, 4), (1, 1), (0, 0), (1, 1), {}),
    "points": ((3, 4, 6, 40), (1, 1), (1, 1), (0, 0), (1, 1), {}),
    "points_apart": ((3, 4, 6, 40), (1, 1), (7, 9), (1, 0), (2, 3), {}),
    "rank1": ((3, 4, 700), (5,), (2,), (4,), (1,), {}),
    "long_rank1": ((2, 2, 17000), (3,), (1,), (1,), (1,), {}),
    "frames": ((2, 1, 8003), (401,), (1,), (5,), (160,), {}),
    "large_patches": ((2, 3, 64, 256), (16, 16), (1, 1), (0, 0), (16, 16), {}),
    "wide_patches": ((2, 2, 28, 112), (14, 14), (1, 1), (0, 0), (14, 14), {}),
    "odd_patches": ((1, 2, 42, 126), (14, 14), (1, 1), (0, 0), (14, 14), {}),
    "rank1_patches": ((2, 3, 9616), (16,), (1,), (0,), (16,), {}),
    "cubes": ((1, 2, 4, 6, 36), (2, 3, 4), (1, 1, 1), (0, 0, 0), (2, 3, 4), {}),
    "volume": ((2, 2, 4, 5, 6), (2, 3, 2), (1, 2, 1), (1, 2, 0), (2, 1, 1), {}),
    "channels_last": ((2, 3, 5, 7), (3, 2), (1, 1), (1, 1), (1, 2), {"x": {"order": (0, 2, 3, 1)}}),
    "rows_of_windows": ((2, 3, 5, 7), (3, 2), (1, 1), (1, 0), (1, 1), {"y": {"order": (0, 2, 1)}}),
    "flipped": ((2, 3, 9, 14), (2, 3), (1, 2), (1, 1), (1, 1), {"x": {"flip": (0, 2, 3)}, "y": {"flip": (1, 2)}}),
    "gaps": ((2, 3, 9, 14), (2, 3), (1, 1), (0, 1), (2, 1), {"x": {"gap": 2}, "y": {"gap": 3, "pad": 2}}),
    "large": ((3, 5, 33, 64), (3, 3), (1, 1), (1, 1), (1, 1), {}),
    "many": ((5, 16, 64, 65), (2, 2), (1, 1), (0, 1), (1, 1), {}),
}  # fmt: skip
SPECIAL = ((1, 2, 7, 9), (3, 2), (1, 1), (1, 1), (2, 1))


def problems(make):
    def maker(given):
        *problem, layouts = given
        return lambda draw: make(draw, *problem, **layouts)

    return {name: maker(given) for name, given in IMAGES.items() if make is im2col or name != "no_rows"} | {
        "special": lambda d: make(d, *SPECIAL, kind="special")
    }


def bad(count, whole, image, matrix):
    """Bad calls of the plain problem; columns have three strides."""
    first, last = f"stride_{image}", f"stride_{matrix}"
    written = f"stride_{'dx' if image == 'dx' else 'y'}"
    still = {written: (105, 35, 7, 0) if image == "dx" else (0, 24, 1)}
    return (
        Bad("negative", 2, rf"{count} is -2", {count: -2}, can=2),
        Bad("count_wrong", 2, rf"{count} is 17\b, but input_shape makes it {whole}", {count: 17}, can=2),
        Bad("rank_negative", 2, r"rank is -1", {"rank": -1}, can=2),
        Bad("rank_0", 2, r"rank is 0", {"rank": 0}, can=2),
        Bad("rank_2", 2, r"rank is 2, must be in \[3, 5\]", {"rank": 2}, can=2),
        Bad("rank_9", 2, r"rank is 9", {"rank": 9}, can=2),
        Bad("null_shape", 2, r"input_shape is NULL", host={"input_shape": None}, can=2),
        Bad("extent_negative", 2, r"input_shape\[1\] is -3", host={"input_shape": (2, -3, 5, 7)}, can=2),
        *(Bad(f"null_{e}", 2, rf"{e} is NULL", host={e: None}, can=2) for e in ENTRIES),
        *(
            Bad(f"zero_{e}", 2, rf"{e}\[1\] is 0, must be >= 1", host={e: (1, 0)}, can=2)
            for e in ("kernel_size", "dilation", "steps")
        ),
        Bad("padding_negative", 2, r"padding\[0\] is -1, must be >= 0", host={"padding": (-1, 0)}, can=2),
        Bad("wide", 2, r"kernel_size\[1\] is 8: .* input_shape\[3\], 7, and", host={"kernel_size": (2, 8)}, can=2),
        Bad("spread", 2, r"kernel_size\[0\] is 2: with dilation 5 no window", host={"dilation": (5, 1)}, can=2),
        Bad(
            "many", 2, rf"kernel_size\[0\] is {2**30}: columns would have 2\^31 elements or more",
            host={"kernel_size": (2**30, 4), "padding": (2**30, 4)}, can=2,
        ),
        Bad(f"null_{first}", 2, rf"{first} is NULL", host={first: None}, can=2),
        Bad(f"null_{last}", 2, rf"{last} is NULL", host={last: None}, can=2),
        Bad(f"far_{first}", 2, rf"{first}\[0\] is {2**61}", host={first: (2**61, 35, 7, 1)}, can=2),
        Bad(f"far_{last}", 2, rf"{last}\[0\] is {2**61}", host={last: (2**61, 20, 1)}, can=2),
        *(Bad(f"null_{a}", 2, rf"{a} is NULL", null=(a,)) for a in (image, matrix)),
        *(Bad(f"odd_{a}", 1, rf"{a} is 0x[0-9a-f]+", shift={a: 1}) for a in (image, matrix)),
        Bad("still", 2, rf"{written}\[\d\] is 0", host=still, can=2),
    )  # fmt: skip


CASES = (
    Case(
        row="im2col_{T}",
        problems=problems(im2col),
        reference=reference,
        tolerance={"y": "exact"},
        plain="plain",
        large="large",
        brief=MOVE_BRIEF,
        full=of_each_width,
        bad=bad("output_numel", 720, "x", "y"),
        idle=(Idle("count_0", {"output_numel": 0}, {"input_shape": (2, 0, 5, 7)}),),
    ),
    Case(
        row="col2im_{T}",
        problems=problems(col2im),
        reference=reference_of_sums,
        tolerance={"dx": "total"},
        plain="plain",
        large="large",
        bad=bad("input_numel", 210, "dx", "dy"),
        idle=(Idle("count_0", {"input_numel": 0}, {"input_shape": (0, 3, 5, 7)}),),
    ),
)
