# SPDX-License-Identifier: Apache-2.0
"""Pooling by windows of images with any strides: maxima, averages, p-norms, and their gradients."""

import numpy as np

from tools.oracle.numerics import round_to

from ..model import Bad, Case, Expected, Idle, Problem, strides_for
from . import geometry
from .geometry import Axis

LAST = {"order": (0, 2, 3, 1)}
# shape, kernel, steps, padding before, padding behind, dilation, ceil_mode, layouts of the operands with cells and
# windows
WINDOWS = {
    "one": ((1, 1, 1), (1,), (1,), (0,), (0,), (1,), 0),
    "plain": ((2, 3, 5, 7), (2, 3), (2, 1), (1, 0), (0, 1), (1, 1), 0),
    "halves": ((2, 3, 8, 12), (2, 2), (2, 2), (0, 0), (0, 0), (1, 1), 0),
    "overlap": ((2, 2, 9, 11), (3, 3), (2, 2), (1, 1), (1, 1), (1, 1), 0),
    "same": ((1, 3, 6, 40), (3, 3), (1, 1), (1, 1), (1, 1), (1, 1), 0),
    "gaps_between": ((1, 2, 11, 13), (2, 1), (4, 3), (0, 0), (0, 0), (1, 1), 0),
    "dilated": ((2, 2, 12, 17), (3, 4), (1, 2), (2, 1), (1, 3), (2, 3), 0),
    "steps_over": ((1, 1, 2, 3), (2, 2), (1, 1), (1, 2), (1, 1), (3, 3), 0),
    "ceil": ((2, 2, 7, 10), (3, 4), (2, 3), (0, 1), (0, 1), (1, 1), 1),
    "ceil_alone": ((1, 2, 3, 4), (5, 2), (3, 9), (0, 0), (0, 0), (1, 1), 1),
    "ceil_behind": ((1, 2, 4, 5), (2, 2), (5, 4), (1, 1), (1, 1), (1, 1), 1),
    "wide_windows": ((2, 3, 9, 14), (7, 7), (1, 2), (3, 3), (3, 3), (1, 1), 0),
    "whole": ((3, 5, 11, 13), (11, 13), (1, 1), (0, 0), (0, 0), (1, 1), 0),
    "rank1": ((3, 4, 700), (5,), (2,), (2,), (2,), (1,), 0),
    "long_rank1": ((1, 2, 3000), (3,), (1,), (1,), (1,), (1,), 0),
    "long_windows": ((1, 2, 2200), (1100,), (550,), (0,), (0,), (1,), 0),
    "far_windows": ((1, 2, 1500), (3,), (7,), (0,), (0,), (600,), 0),
    "volume": ((2, 2, 4, 5, 6), (2, 3, 2), (2, 1, 1), (1, 1, 0), (0, 1, 1), (1, 1, 2), 0),
    "channels_last": ((2, 16, 7, 6), (3, 2), (2, 1), (1, 1), (1, 0), (1, 1), 0, LAST, LAST),
    "channels_last_wide": ((2, 16, 9, 9), (8, 9), (1, 1), (0, 0), (0, 0), (1, 1), 0, LAST, LAST),
    "channels_last_many": ((1, 136, 5, 6), (2, 2), (1, 2), (0, 0), (1, 0), (1, 1), 0, LAST, LAST),
    "channels_last_few": ((2, 3, 9, 8), (3, 3), (2, 2), (1, 1), (1, 1), (1, 1), 0, LAST, LAST),
    "channels_last_halves": ((2, 20, 7, 6), (3, 3), (2, 2), (1, 1), (1, 1), (1, 1), 0, LAST, LAST),
    "channels_last_pairs": ((1, 10, 7, 6), (6, 6), (1, 1), (1, 0), (1, 0), (1, 1), 0, LAST, LAST),
    "channels_last_odd": ((2, 9, 5, 6), (3, 3), (1, 1), (1, 1), (1, 1), (1, 1), 0, LAST, LAST),
    "to_channels_last": ((2, 16, 5, 6), (2, 2), (1, 1), (0, 0), (0, 0), (1, 1), 0, {}, LAST),
    "flipped": ((2, 3, 9, 14), (2, 3), (1, 2), (1, 1), (0, 1), (1, 1), 0, {"flip": (0, 2, 3)}, {"flip": (1, 2)}),
    "gaps": ((2, 3, 9, 14), (2, 3), (2, 1), (0, 1), (1, 1), (1, 1), 0, {"gap": 2}, {"gap": 3, "pad": 2}),
    "ragged": ((2, 5, 14, 30), (3, 3), (2, 2), (1, 1), (1, 1), (1, 1), 0, {"pad": 3}, {"pad": 1}),
    "large": ((3, 5, 33, 40), (3, 3), (2, 2), (1, 1), (1, 1), (1, 1), 0),
}  # fmt: skip
HOST = ("kernel_size", "steps", "padding_low", "padding_high", "dilation")
WITH_CELLS, WITH_WINDOWS = ("x", "dx"), ("y", "dy", "indices")


def axes_of(shape, kernel, steps, low, high, dilation, ceil):
    each = zip(shape[2:], kernel, steps, low, high, dilation)
    return [Axis.windows(*numbers, ceil) for numbers in each]


class Image:
    """The arguments of a problem, and its operands by name."""

    def __init__(self, draw, given, kind="normal"):
        self.draw, self.kind, (self.shape, *numbers) = draw, kind, given[:7]
        self.axes = axes_of(self.shape, *numbers)
        self.out = geometry.windows_shape(self.shape, self.axes)
        self.layouts = (*given[7:], {}, {})[:2]
        self.host = {"input_shape": self.shape, **dict(zip(HOST, numbers))}
        self.scalars = {"rank": len(self.shape), "ceil_mode": numbers[-1]}
        self.arrays = {}

    def strides(self, name, extents):
        layout = dict(self.layouts[name in WITH_WINDOWS])
        if name in ("x", "dy") and "flip" in layout:
            layout["flip"] = (0, *layout["flip"][1:])
        self.host[f"stride_{name}"] = strides_for(extents, **layout)
        return self.host[f"stride_{name}"]

    def cells(self, values):
        self.arrays["x"] = self.draw.array(values, strides=self.strides("x", self.shape))

    def drawn_cells(self):
        """Every value occurs several times, so that windows have equal cells."""
        values = self.draw.floats(self.shape, self.kind).values
        if self.kind == "normal":
            values = np.round(values * 4) / 4
        self.cells(values)
        return values

    def windows(self, name, values, dtype=""):
        self.arrays[name] = self.draw.array(values, dtype, self.strides(name, self.out))

    def output(self, name, dtype=""):
        extents = self.shape if name in WITH_CELLS else self.out
        self.arrays[name] = self.draw.output(extents, self.strides(name, extents), dtype)

    def problem(self, null=(), **scalars):
        return Problem(self.scalars | scalars, self.arrays, self.host, null=null)


def axes_of_problem(problem):
    host = problem.host
    return axes_of(host["input_shape"], *[host[name] for name in HOST], problem.scalars["ceil_mode"])


# --- maxima ---


def max_pool(draw, given, kind="normal", null=()):
    image = Image(draw, given, kind)
    image.drawn_cells()
    image.output("y")
    image.output("indices", "i64")
    return image.problem(null)


def max_reference(problem):
    values, numbers = geometry.maxima(problem.arrays["x"].values, axes_of_problem(problem))
    return {"y": Expected(values)} | ({} if "indices" in problem.null else {"indices": Expected(numbers)})


def max_backward(draw, given, kind="normal"):
    image = Image(draw, given, kind)
    values = image.drawn_cells()
    image.windows("dy", draw.floats(image.out).values)
    image.windows("y", geometry.maxima(values, image.axes)[0])
    image.output("dx")
    return image.problem()


def max_backward_reference(problem):
    arrays = problem.arrays
    numbers = geometry.maxima(arrays["x"].values, axes_of_problem(problem))[1]
    return {"dx": geometry.by_numbers(arrays["dy"].values, numbers, arrays["x"].shape)}


def indexed_backward(draw, given, strays=False):
    image = Image(draw, given)
    values = np.round(draw.floats(image.shape).values * 4) / 4
    numbers = geometry.maxima(values, image.axes)[1]
    if strays:
        foreign = draw.rng.choice([-1, -(2**63), 2**63 - 1, 10**9], numbers.shape)
        numbers = np.where(draw.rng.random(numbers.shape) < 0.3, foreign, numbers)
    image.windows("dy", draw.floats(image.out).values)
    image.windows("indices", numbers, "i64")
    image.output("dx")
    return image.problem()


def indexed_reference(problem):
    numbers, dy = problem.arrays["indices"].values, problem.arrays["dy"].values
    return {"dx": geometry.by_numbers(dy, numbers, problem.host["input_shape"])}


# --- averages ---


def divisor_of(problem):
    s = problem.scalars
    return geometry.divisors(
        axes_of_problem(problem), includes_padding=bool(s["count_include_pad"]), fixed=s["divisor_override"]
    )


def avg_pool(draw, given, kind="normal", include=1, fixed=0):
    image = Image(draw, given, kind)
    image.cells(draw.floats(image.shape, kind).values)
    image.output("y")
    return image.problem(count_include_pad=include, divisor_override=fixed)


def avg_reference(problem):
    return {"y": geometry.averages(problem.arrays["x"].values, axes_of_problem(problem), divisor_of(problem))}


def avg_backward(draw, given, include=1, fixed=0):
    image = Image(draw, given)
    image.windows("dy", draw.floats(image.out).values)
    image.output("dx")
    return image.problem(count_include_pad=include, divisor_override=fixed)


def avg_backward_reference(problem):
    dy, shape = problem.arrays["dy"].values, problem.host["input_shape"]
    return {"dx": geometry.gradient_of_averages(dy, axes_of_problem(problem), shape, divisor_of(problem))}


# --- p-norms ---


def lp_pool(draw, given, kind="normal", p=2.0):
    image = Image(draw, given, kind)
    image.cells(draw.floats(image.shape, kind).values)
    image.output("y")
    return image.problem(norm_p=p)


def lp_reference(problem):
    return {"y": geometry.norms(problem.arrays["x"].values, axes_of_problem(problem), problem.scalars["norm_p"])}


def lp_backward(draw, given, p=2.0):
    image = Image(draw, given)
    values = image.drawn_cells()
    image.windows("dy", draw.floats(image.out).values)
    norms = geometry.norms(values, image.axes, p).value.astype(np.float64)
    image.windows("y", round_to(norms, draw.dtype))
    image.output("dx")
    return image.problem(norm_p=p)


def lp_backward_reference(problem):
    arrays, p = problem.arrays, problem.scalars["norm_p"]
    found = geometry.gradient_of_norms(
        arrays["dy"].values, arrays["x"].values, arrays["y"].values, axes_of_problem(problem), p
    )
    return {"dx": found}


# --- cases ---

PLAIN = WINDOWS["plain"]
NORM_WINDOWS = (
    "plain",
    "overlap",
    "dilated",
    "ceil",
    "whole",
    "volume",
    "channels_last",
    "channels_last_wide",
    "large",
)


def problems(make, names=tuple(WINDOWS), **options):
    return {name: lambda d, g=WINDOWS[name]: make(d, g, **options) for name in names}


def bad(**more):
    """Bad calls that all rows have; `more` maps names of host arrays to strides that share elements."""
    return (
        Bad("rank_2", 2, r"rank is 2, must be in \[3, 5\]", {"rank": 2}, can=2),
        Bad("rank_9", 2, r"rank is 9, must be in \[3, 5\]", {"rank": 9}, can=2),
        Bad("extent", 2, r"input_shape\[1\] is -1, must be >= 0", host={"input_shape": (2, -1, 5, 7)}, can=2),
        Bad("no_cells", 2, r"input_shape\[3\] is 0, must be > 0", host={"input_shape": (2, 3, 5, 0)}, can=2),
        Bad("kernel_0", 2, r"kernel_size\[1\] is 0, must be >= 1", host={"kernel_size": (2, 0)}, can=2),
        Bad("steps_0", 2, r"steps\[0\] is 0, must be >= 1", host={"steps": (0, 1)}, can=2),
        Bad("padding", 2, r"padding_low\[0\] is -1, must be >= 0", host={"padding_low": (-1, 0)}, can=2),
        Bad("padding_behind", 2, r"padding_high\[1\] is -2, must be >= 0", host={"padding_high": (0, -2)}, can=2),
        Bad("dilation_0", 2, r"dilation\[1\] is 0, must be >= 1", host={"dilation": (1, 0)}, can=2),
        Bad("all_padding", 2, r"padding_low\[0\] is 2, must be less than the window, 2", host={"padding_low": (2, 0)},
            can=2),
        Bad("none_fits", 2, r"kernel_size\[1\] is 9: with dilation 1 no window fits", host={"kernel_size": (2, 9)},
            can=2),
        Bad("steps_far", 2, r"steps\[0\] is 2147483647: with padding", host={"steps": (2**31 - 1, 1)}, can=2),
        *[Bad(f"shared_{name}", 2, rf"{name}\[0\] is 0, but an output has 2 elements", host={name: strides}, can=2)
          for name, strides in more.items()],
    )  # fmt: skip


SHARED_X, SHARED_Y = (0, 35, 7, 1), (0, 18, 6, 1)
NO_IMAGES = (
    Idle("no_images", {}, {"input_shape": (0, 3, 5, 7)}),
    Idle("no_channels", {}, {"input_shape": (2, 0, 5, 7)}),
)

CASES = (
    Case(
        row="max_pool_{T}",
        problems=problems(max_pool)
        | {
            "special": lambda d: max_pool(d, WINDOWS["overlap"], "special"),
            "special_last": lambda d: max_pool(d, WINDOWS["channels_last"], "special"),
            "values_alone": lambda d: max_pool(d, PLAIN, null=("indices",)),
            "values_last": lambda d: max_pool(d, WINDOWS["channels_last"], null=("indices",)),
            "values_special": lambda d: max_pool(d, WINDOWS["wide_windows"], "special", null=("indices",)),
        },
        reference=max_reference, tolerance={"y": "exact", "indices": "exact"}, plain="plain", large="large",
        bad=bad(stride_y=SHARED_Y, stride_indices=SHARED_Y), idle=NO_IMAGES,
    ),
    Case(
        row="max_pool_backward_{T}",
        problems=problems(max_backward) | {"special": lambda d: max_backward(d, WINDOWS["overlap"], "special")},
        reference=max_backward_reference, tolerance={"dx": "total"}, plain="plain", large="large",
        bad=bad(stride_dx=SHARED_X), idle=NO_IMAGES,
    ),
    Case(
        row="max_pool_indices_backward_{T}",
        problems=problems(indexed_backward) | {"strays": lambda d: indexed_backward(d, WINDOWS["overlap"],
            strays=True)},
        reference=indexed_reference, tolerance={"dx": "total"}, plain="plain", large="large",
        bad=bad(stride_dx=SHARED_X), idle=NO_IMAGES,
    ),
    Case(
        row="avg_pool_{T}",
        problems=problems(avg_pool)
        | {f"{name}_exclude": lambda d, g=WINDOWS[name]: avg_pool(d, g, include=0) for name in ("plain", "ceil",
            "dilated")}
        | {
            "exclude_last": lambda d: avg_pool(d, WINDOWS["channels_last"], include=0),
            "fixed": lambda d: avg_pool(d, PLAIN, fixed=7), "negative": lambda d: avg_pool(d, PLAIN, fixed=-3),
            "special": lambda d: avg_pool(d, WINDOWS["overlap"], "special"),
            "wide": lambda d: avg_pool(d, WINDOWS["whole"], "wide"),
            "wide_last": lambda d: avg_pool(d, WINDOWS["channels_last_wide"], "wide"),
        },
        reference=avg_reference, tolerance={"y": "total_of_products"}, plain="plain", large="large",
        bad=bad(stride_y=SHARED_Y), idle=NO_IMAGES,
    ),
    Case(
        row="avg_pool_backward_{T}",
        problems=problems(avg_backward)
        | {f"{name}_exclude": lambda d, g=WINDOWS[name]: avg_backward(d, g, include=0)
           for name in ("plain", "ceil", "dilated", "channels_last")}
        | {"fixed": lambda d: avg_backward(d, PLAIN, fixed=7)},
        reference=avg_backward_reference, tolerance={"dx": "total_of_products"}, plain="plain", large="large",
        bad=bad(stride_dx=SHARED_X), idle=NO_IMAGES,
    ),
    Case(
        row="lp_pool_{T}",
        problems=problems(lp_pool)
        | {f"p{p:g}_{name}": lambda d, p=p, g=WINDOWS[name]: lp_pool(d, g, p=p)
           for p in (1.0, 3.0, 0.5, np.inf) for name in ("plain", "wide_windows", "channels_last")}
        | {f"wide_{name}": lambda d, p=p, g=WINDOWS[name]: lp_pool(d, g, "wide", p=p)
           for p, name in ((2.0, "overlap"), (2.0, "channels_last"), (2.0, "whole"), (4.0, "halves"))},
        reference=lp_reference, tolerance={"y": "pointwise"}, plain="plain", large="large",
        bad=(
            *bad(stride_y=SHARED_Y),
            *(Bad(f"norm_{p}", 3, r"norm_p is -?(nan|0|1), must be > 0", {"norm_p": p}, can=3) for p in (0.0, -1.0,
                np.nan)),
        ),
        idle=NO_IMAGES,
    ),
    Case(
        row="lp_pool_backward_{T}",
        problems=problems(lp_backward, NORM_WINDOWS)
        | {f"p{p:g}_{name}": lambda d, p=p, g=WINDOWS[name]: lp_backward(d, g, p=p)
           for p in (1.0, 3.0, 1.5, np.inf) for name in ("plain", "wide_windows", "channels_last")},
        reference=lp_backward_reference, tolerance={"dx": "total_of_products"}, plain="plain", large="large",
        bad=(*bad(stride_dx=SHARED_X), Bad("norm_0", 3, r"norm_p is 0, must be > 0", {"norm_p": 0.0}, can=3)),
        idle=NO_IMAGES,
    ),
)  # fmt: skip
