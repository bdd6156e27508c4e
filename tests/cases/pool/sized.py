# SPDX-License-Identifier: Apache-2.0
"""Pooling to given extents of images with any strides: adaptive and fractional windows, max_unpool, and their
gradients."""

import math

import numpy as np

from tools.oracle.numerics import round_to

from ..model import Bad, Case, Expected, Idle, Problem, strides_for
from . import geometry
from .geometry import Axis

LAST = {"order": (0, 2, 3, 1)}
# shape, output_size, layouts of the operands with cells and with outputs
SIZES = {
    "one": ((1, 1, 1), (1,)),
    "plain": ((2, 3, 5, 7), (2, 3)),
    "divides": ((2, 3, 8, 12), (2, 4)),
    "whole": ((3, 5, 9, 13), (1, 1)),
    "one_each": ((2, 3, 4, 5), (4, 5)),
    "more": ((2, 3, 4, 5), (7, 9)),
    "rank1": ((3, 4, 701), (10,)),
    "long": ((1, 2, 2100), (2,)),
    "volume": ((2, 2, 4, 5, 6), (3, 2, 4)),
    "channels_last": ((2, 16, 7, 6), (3, 4), LAST, LAST),
    "channels_last_whole": ((2, 16, 9, 8), (1, 1), LAST, LAST),
    "channels_last_few": ((2, 3, 9, 11), (2, 3), LAST, LAST),
    "channels_last_odd_whole": ((2, 19, 9, 12), (1, 1), LAST, LAST),
    "channels_last_seven": ((3, 24, 7, 7), (1, 1), LAST, LAST),
    "channels_last_rows": ((2, 24, 27, 30), (2, 2), LAST, LAST),
    "channels_last_farthest": ((1, 8, 130, 128), (1, 1), LAST, LAST),
    "channels_last_far": ((1, 12, 66, 65), (1, 1), LAST, LAST),
    "columns": ((2, 3, 80, 3), (2, 3)),
    "whole_rows": ((2, 3, 60, 8), (3, 1)),
    "whole_planes": ((5, 7, 14, 14), (1, 1)),
    "whole_volume": ((2, 3, 4, 6, 8), (1, 1, 1)),
    "whole_far": ((1, 2, 128, 136), (1, 1)),
    "far": ((1, 1, 120, 117), (2, 2)),
    "flipped": ((2, 3, 9, 14), (4, 5), {"flip": (2, 3)}, {"flip": (1, 2)}),
    "gaps": ((2, 3, 9, 14), (4, 3), {"gap": 2}, {"gap": 3, "pad": 2}),
    "large": ((3, 5, 33, 40), (7, 6)),
}  # fmt: skip
WITH_CELLS = ("x", "dx")


class Image:
    """The arguments of a problem, and its operands by name."""

    def __init__(self, draw, given, kind="normal"):
        self.draw, self.kind = draw, kind
        self.shape, self.size = given[:2]
        self.out = (*self.shape[:2], *self.size)
        self.layouts = (*given[2:], {}, {})[:2]
        self.host = {"input_shape": self.shape, "output_size": self.size}
        self.arrays = {}

    @property
    def axes(self):
        return axes_of(self.shape, self.size)

    def strides(self, name, extents):
        self.host[f"stride_{name}"] = strides_for(extents, **self.layouts[name not in WITH_CELLS])
        return self.host[f"stride_{name}"]

    def array(self, name, values, dtype=""):
        self.arrays[name] = self.draw.array(values, dtype, self.strides(name, values.shape))

    def drawn(self, name, extents):
        """Every value occurs several times, so that windows have equal cells."""
        values = self.draw.floats(extents, self.kind).values
        values = np.round(values * 4) / 4 if self.kind == "normal" else values
        self.array(name, values)
        return values

    def output(self, name, extents, dtype=""):
        self.arrays[name] = self.draw.output(extents, self.strides(name, extents), dtype)

    def problem(self, null=()):
        return Problem({"rank": len(self.shape)}, self.arrays, self.host, null=null)


def axes_of(shape, size):
    return [Axis.adaptive(*each) for each in zip(shape[2:], size)]


def axes_of_problem(problem):
    return axes_of(problem.host["input_shape"], problem.host["output_size"])


# --- adaptive windows ---


def max_pool(draw, given, kind="normal", null=()):
    image = Image(draw, given, kind)
    image.drawn("x", image.shape)
    image.output("y", image.out)
    image.output("indices", image.out, "i64")
    return image.problem(null)


def max_reference(problem):
    values, numbers = geometry.maxima(problem.arrays["x"].values, axes_of_problem(problem))
    return {"y": Expected(values)} | ({} if "indices" in problem.null else {"indices": Expected(numbers)})


def max_backward(draw, given, kind="normal"):
    image = Image(draw, given, kind)
    values = image.drawn("x", image.shape)
    image.array("dy", draw.floats(image.out).values)
    image.array("y", geometry.maxima(values, image.axes)[0])
    image.output("dx", image.shape)
    return image.problem()


def max_backward_reference(problem):
    arrays = problem.arrays
    numbers = geometry.maxima(arrays["x"].values, axes_of_problem(problem))[1]
    return {"dx": geometry.by_numbers(arrays["dy"].values, numbers, arrays["x"].shape)}


def numbers_backward(draw, given, strays=False):
    image = Image(draw, given)
    numbers = geometry.maxima(np.round(draw.floats(image.shape).values * 4) / 4, image.axes)[1]
    if strays:
        numbers = with_strays(draw, numbers)
    image.array("dy", draw.floats(image.out).values)
    image.array("indices", numbers, "i64")
    image.output("dx", image.shape)
    return image.problem()


def with_strays(draw, numbers):
    """Indices of which some are in no plane."""
    foreign = draw.rng.choice([-1, -(2**63), 2**63 - 1, 10**9], numbers.shape)
    return np.where(draw.rng.random(numbers.shape) < 0.3, foreign, numbers)


def numbers_reference(problem):
    dy, numbers = problem.arrays["dy"].values, problem.arrays["indices"].values
    return {"dx": geometry.by_numbers(dy, numbers, problem.host["input_shape"])}


def avg_pool(draw, given, kind="normal"):
    image = Image(draw, given, kind)
    image.array("x", draw.floats(image.shape, kind).values)
    image.output("y", image.out)
    return image.problem()


def avg_reference(problem):
    axes = axes_of_problem(problem)
    return {"y": geometry.averages(problem.arrays["x"].values, axes, geometry.divisors(axes))}


def avg_backward(draw, given):
    image = Image(draw, given)
    image.array("dy", draw.floats(image.out).values)
    image.output("dx", image.shape)
    return image.problem()


def avg_backward_reference(problem):
    axes, shape = axes_of_problem(problem), problem.host["input_shape"]
    return {"dx": geometry.gradient_of_averages(problem.arrays["dy"].values, axes, shape, geometry.divisors(axes))}


# --- fractional windows ---

KERNELS = {"one": (1,), "plain": (2, 3), "divides": (2, 2), "whole": (9, 13), "one_each": (1, 1), "more": (2, 1),
           "rank1": (7,), "volume": (2, 3, 1), "channels_last": (2, 2), "flipped": (3, 4), "gaps": (2, 5),
           "large": (5, 8)}  # fmt: skip


def starts(extent, kernel, count, u):
    """First cells of PyTorch's windows, computed in f32."""
    slope = np.float32(extent - kernel) / np.float32(count - 1) if count > 1 else np.float32(0)
    u = np.float32(u)
    found = [int((np.float32(o) + u) * slope) - int(u * slope) for o in range(count - 1)]
    return [min(max(at, 0), extent - kernel) for at in found] + [extent - kernel] * (count > 0)


def fractional(draw, given, kernel, kind="normal", null=()):
    image = Image(draw, given, kind)
    image.drawn("x", image.shape)
    image.host["kernel_size"] = kernel
    samples = round_to(draw.rng.random((image.shape[0] * image.shape[1], len(kernel))), "f32")
    image.arrays["samples"] = draw.array(np.where(samples == 1, 0, samples), "f32")
    image.output("y", image.out)
    image.output("indices", image.out, "i64")
    return image.problem(null)


def fractional_reference(problem):
    host, x, samples = problem.host, problem.arrays["x"].values, problem.arrays["samples"].values
    shape, size, kernel = host["input_shape"], host["output_size"], host["kernel_size"]
    values, numbers = np.zeros((*shape[:2], *size)), np.zeros((*shape[:2], *size), np.int64)
    for plane in range(shape[0] * shape[1]):
        n, c = divmod(plane, shape[1])
        axes = [
            Axis([list(range(at, at + k)) for at in starts(extent, k, count, u)])
            for extent, k, count, u in zip(shape[2:], kernel, size, samples[plane])
        ]
        found = geometry.maxima(x[n : n + 1, c : c + 1], axes)
        values[n, c], numbers[n, c] = found[0][0, 0], found[1][0, 0]
    return {"y": Expected(values)} | ({} if "indices" in problem.null else {"indices": Expected(numbers)})


# --- max_unpool ---


def unpooled_numbers(draw, shape, size, distinct):
    """Indices into the plane of size, near where a pooling has them; distinct ones if asked for."""
    planes, count, cells = math.prod(shape[:2]), math.prod(shape[2:]), math.prod(size)
    if distinct:
        each = [draw.rng.permutation(max(cells, count))[:count] for _ in range(planes)]
        return np.array(each, np.int64).reshape(shape)
    near = np.arange(count) * cells // max(count, 1)
    return np.clip(near + draw.rng.integers(-3, 4, (planes, count)), 0, cells - 1).reshape(shape)


def unpool(draw, given, strays=False, distinct=False, kind="normal"):
    image = Image(draw, given, kind)
    numbers = unpooled_numbers(draw, image.shape, image.size, distinct)
    image.layouts = image.layouts[::-1]
    image.array("x", draw.floats(image.shape, kind).values)
    image.array("indices", with_strays(draw, numbers) if strays else numbers, "i64")
    image.output("y", image.out)
    return image.problem()


def unpool_reference(problem):
    x, numbers, size = problem.arrays["x"].values, problem.arrays["indices"].values, problem.host["output_size"]
    planes, cells = math.prod(x.shape[:2]), math.prod(size)
    y = np.zeros((planes, cells))
    for plane, (values, at) in enumerate(zip(x.reshape(planes, -1), numbers.reshape(planes, -1))):
        for value, cell in zip(values, at):
            if 0 <= cell < cells:
                y[plane, cell] = value
    return {"y": Expected(y.reshape(*x.shape[:2], *size))}


def unpool_backward(draw, given, strays=False):
    image = Image(draw, given)
    numbers = unpooled_numbers(draw, image.shape, image.size, True)
    image.array("dy", draw.floats(image.out).values)
    image.array("indices", with_strays(draw, numbers) if strays else numbers, "i64")
    image.output("dx", image.shape)
    return image.problem()


def unpool_backward_reference(problem):
    dy, numbers = problem.arrays["dy"].values, problem.arrays["indices"].values
    flat, cells = dy.reshape(*dy.shape[:2], -1), math.prod(dy.shape[2:])
    at = numbers.reshape(*dy.shape[:2], -1)
    valid = (at >= 0) & (at < cells)
    found = np.where(valid, np.take_along_axis(flat, np.where(valid, at, 0), -1), 0) if cells else np.zeros(at.shape)
    return {"dx": Expected(found.reshape(numbers.shape))}


# --- cases ---


def problems(make, names=tuple(SIZES), **options):
    return {name: lambda d, g=SIZES[name]: make(d, g, **options) for name in names}


def bad(**more):
    return (
        Bad("rank_2", 2, r"rank is 2, must be in \[3, 5\]", {"rank": 2}, can=2),
        Bad("rank_9", 2, r"rank is 9, must be in \[3, 5\]", {"rank": 9}, can=2),
        Bad("extent", 2, r"input_shape\[1\] is -1, must be >= 0", host={"input_shape": (2, -1, 5, 7)}, can=2),
        Bad("no_cells", 2, r"input_shape\[3\] is 0, must be > 0", host={"input_shape": (2, 3, 5, 0)}, can=2),
        Bad("size", 2, r"output_size\[1\] is -1, must be >= 0", host={"output_size": (2, -1)}, can=2),
        *[Bad(f"shared_{name}", 2, rf"{name}\[0\] is 0, but an output has 2 elements", host={name: strides}, can=2)
          for name, strides in more.items()],
    )  # fmt: skip


SHARED_X, SHARED_Y = (0, 35, 7, 1), (0, 6, 3, 1)
NO_IMAGES = (
    Idle("no_images", {}, {"input_shape": (0, 3, 5, 7)}),
    Idle("no_channels", {}, {"input_shape": (2, 0, 5, 7)}),
)
NO_OUTPUTS = (*NO_IMAGES, Idle("no_outputs", {}, {"output_size": (2, 0)}))
NONE = ((2, 3, 5, 7), (0, 3))
UNPOOLED = ("one", "plain", "one_each", "more", "volume", "channels_last", "flipped", "gaps", "large")

CASES = (
    Case(
        row="adaptive_max_pool_{T}",
        problems=problems(max_pool)
        | {
            "special": lambda d: max_pool(d, SIZES["plain"], "special"),
            "special_whole": lambda d: max_pool(d, SIZES["whole"], "special"),
            "values_alone": lambda d: max_pool(d, SIZES["plain"], null=("indices",)),
            "values_last": lambda d: max_pool(d, SIZES["channels_last_whole"], null=("indices",)),
        },
        reference=max_reference, tolerance={"y": "exact", "indices": "exact"}, plain="plain", large="large",
        bad=bad(stride_y=SHARED_Y, stride_indices=SHARED_Y), idle=NO_OUTPUTS,
    ),
    Case(
        row="adaptive_max_pool_backward_{T}",
        problems=problems(max_backward)
        | {"special": lambda d: max_backward(d, SIZES["plain"], "special"), "none": lambda d: max_backward(d, NONE)},
        reference=max_backward_reference, tolerance={"dx": "total"}, plain="plain", large="large",
        bad=bad(stride_dx=SHARED_X), idle=NO_IMAGES,
    ),
    Case(
        row="adaptive_max_pool_indices_backward_{T}",
        problems=problems(numbers_backward)
        | {"strays": lambda d: numbers_backward(d, SIZES["plain"], strays=True), "none": lambda d: numbers_backward(d,
            NONE)},
        reference=numbers_reference, tolerance={"dx": "total"}, plain="plain", large="large",
        bad=bad(stride_dx=SHARED_X), idle=NO_IMAGES,
    ),
    Case(
        row="adaptive_avg_pool_{T}",
        problems=problems(avg_pool)
        | {"special": lambda d: avg_pool(d, SIZES["plain"], "special"), "wide": lambda d: avg_pool(d, SIZES["whole"],
            "wide")},
        reference=avg_reference, tolerance={"y": "total_of_products"}, plain="plain", large="large",
        bad=bad(stride_y=SHARED_Y), idle=NO_OUTPUTS,
    ),
    Case(
        row="adaptive_avg_pool_backward_{T}",
        problems=problems(avg_backward) | {"none": lambda d: avg_backward(d, NONE)},
        reference=avg_backward_reference, tolerance={"dx": "total_of_products"}, plain="plain", large="large",
        bad=bad(stride_dx=SHARED_X), idle=NO_IMAGES,
    ),
    Case(
        row="fractional_max_pool_{T}",
        problems={name: lambda d, g=SIZES[name], k=k: fractional(d, g, k) for name, k in KERNELS.items()}
        | {
            "special": lambda d: fractional(d, SIZES["plain"], (2, 3), "special"),
            "values_alone": lambda d: fractional(d, SIZES["plain"], (2, 3), null=("indices",)),
        },
        reference=fractional_reference, tolerance={"y": "exact", "indices": "exact"}, plain="plain", large="large",
        bad=(
            *bad(stride_y=SHARED_Y, stride_indices=SHARED_Y),
            Bad("kernel_0", 2, r"kernel_size\[0\] is 0, must be >= 1", host={"kernel_size": (0, 3)}, can=2),
            Bad("kernel_far", 2, r"kernel_size\[1\] is 8, must be at most input_shape\[3\], 7",
                host={"kernel_size": (2, 8)},
                can=2),
        ),
        idle=NO_OUTPUTS,
    ),
    Case(
        row="fractional_max_pool_backward_{T}",
        problems=problems(numbers_backward, ("one", "plain", "more", "whole", "volume", "channels_last", "gaps",
            "long", "large"))
        | {"strays": lambda d: numbers_backward(d, SIZES["plain"], strays=True), "none": lambda d: numbers_backward(d,
            NONE)},
        reference=numbers_reference, tolerance={"dx": "total"}, plain="plain", large="large",
        bad=bad(stride_dx=SHARED_X), idle=NO_IMAGES,
    ),
    Case(
        row="max_unpool_{T}",
        problems=problems(unpool, UNPOOLED)
        | {
            "distinct": lambda d: unpool(d, SIZES["more"], distinct=True),
            "strays": lambda d: unpool(d, SIZES["more"], strays=True),
            "fewer": lambda d: unpool(d, ((2, 3, 6, 8), (3, 2))),
            "special": lambda d: unpool(d, SIZES["more"], kind="special"),
            "shared_bounds": lambda d: unpool(d, ((1, 1, 1300), (2600,))),
        },
        reference=unpool_reference, tolerance={"y": "exact"}, plain="plain", large="large",
        bad=bad(stride_y=SHARED_Y), idle=NO_OUTPUTS,
    ),
    Case(
        row="max_unpool_backward_{T}",
        problems=problems(unpool_backward, UNPOOLED)
        | {"strays": lambda d: unpool_backward(d, SIZES["more"], strays=True), "none": lambda d: unpool_backward(d,
            NONE, True)},
        reference=unpool_backward_reference, tolerance={"dx": "exact"}, plain="plain", large="large",
        bad=bad(stride_dx=SHARED_X), idle=NO_IMAGES,
    ),
)  # fmt: skip
