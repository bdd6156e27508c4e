# SPDX-License-Identifier: Apache-2.0
"""Pooling of dense images with a fixed number of axes: the functions of the reference ABI."""

import math

import numpy as np

from tools.oracle.numerics import round_to

from ..model import Bad, Case, Expected, Idle, Problem
from . import geometry
from .geometry import Axis

LETTERS = {1: "l", 2: "hw", 3: "dhw"}
# batch, channels, extents, kernel, steps, padding
WINDOWS = {
    1: {
        "plain": (2, 3, (11,), (3,), (2,), (1,)), "one": (1, 1, (1,), (1,), (1,), (0,)),
        "whole": (3, 2, (70,), (70,), (1,), (0,)), "large": (4, 6, (301,), (4,), (3,), (2,)),
    },
    2: {
        "plain": (2, 3, (5, 7), (2, 3), (2, 1), (1, 0)), "halves": (2, 3, (8, 12), (2, 2), (2, 2), (0, 0)),
        "overlap": (2, 2, (9, 40), (3, 3), (1, 1), (1, 1)), "gaps": (1, 2, (11, 13), (2, 1), (4, 3), (0, 0)),
        "whole": (3, 5, (11, 13), (11, 13), (1, 1), (0, 0)), "large": (3, 5, (33, 40), (3, 3), (2, 2), (1, 1)),
    },
    3: {
        "plain": (2, 2, (4, 5, 6), (2, 3, 2), (2, 1, 1), (1, 1, 0)), "whole": (2, 3, (4, 3, 5), (4, 3, 5), (1, 1, 1),
            (0, 0, 0)),
        "large": (2, 4, (9, 8, 10), (3, 3, 3), (2, 2, 2), (1, 1, 1)),
    },
}  # fmt: skip


def counts(extents, kernel, steps, padding):
    return tuple([(e + 2 * p - k) // s + 1 for e, k, s, p in zip(extents, kernel, steps, padding)])


def scalars_of(given):
    batch, channels, extents, kernel, steps, padding = given
    letters = LETTERS[len(extents)]
    found = {"batch": batch, "channels": channels}
    found |= {f"{x}_in": e for x, e in zip(letters, extents)}
    found |= {f"{x}_out": o for x, o in zip(letters, counts(extents, kernel, steps, padding))}
    for name, each in (("k", kernel), ("s", steps), ("p", padding)):
        found |= {f"{name}{x}": value for x, value in zip(letters, each)}
    return found


def shapes_of(given):
    """Shapes of x and y."""
    batch, channels, extents, *windows = given
    return (batch, channels, *extents), (batch, channels, *counts(extents, *windows))


def axes_of(scalars):
    letters = LETTERS[sum(name.endswith("_in") for name in scalars)]
    return [
        Axis.windows(scalars[f"{x}_in"], *[scalars[f"{name}{x}"] for name in ("k", "s", "p", "p")], 1, False)
        for x in letters
    ]


def coarse(draw, shape, kind="normal"):
    """Every value occurs several times, so that windows have equal cells."""
    values = draw.floats(shape, kind).values
    return np.round(values * 4) / 4 if kind == "normal" else values


def forward(draw, given, kind="normal", **scalars):
    x, y = shapes_of(given)
    arrays = {"x": draw.array(coarse(draw, x, kind)), "y": draw.output(y)}
    return Problem(scalars_of(given) | scalars, arrays)


def backward(draw, given, kind="normal", null=(), **scalars):
    x, y = shapes_of(given)
    values, all_scalars = coarse(draw, x, kind), scalars_of(given) | scalars
    arrays = {
        "y": draw.array(geometry.maxima(values, axes_of(all_scalars))[0]), "dy": draw.floats(y),
            "x": draw.array(values),
        "dx": draw.output(x),
    }  # fmt: skip
    return Problem(all_scalars, arrays, null=null)


def max_reference(problem):
    return {"y": Expected(geometry.maxima(problem.arrays["x"].values, axes_of(problem.scalars))[0])}


def max_backward_reference(problem):
    x, dy = problem.arrays["x"].values, problem.arrays["dy"].values
    return {"dx": geometry.by_numbers(dy, geometry.maxima(x, axes_of(problem.scalars))[1], x.shape)}


def divisor_of(problem):
    includes = bool(problem.scalars["count_include_pad"])
    return geometry.divisors(axes_of(problem.scalars), includes_padding=includes)


def avg_reference(problem):
    return {"y": geometry.averages(problem.arrays["x"].values, axes_of(problem.scalars), divisor_of(problem))}


def avg_backward_reference(problem):
    dy, s = problem.arrays["dy"].values, problem.scalars
    shape = (s["batch"], s["channels"], *[value for name, value in s.items() if name.endswith("_in")])
    return {"dx": geometry.gradient_of_averages(dy, axes_of(s), shape, divisor_of(problem))}


def bad_windows(rank):
    x = LETTERS[rank][0]
    out = counts(*WINDOWS[rank]["plain"][2:])[0]
    return (
        Bad("batch", 2, r"batch is -1, must be >= 0", {"batch": -1}, can=2),
        Bad("channels", 2, r"channels is -2, must be >= 0", {"channels": -2}, can=2),
        Bad("extent", 2, rf"{x}_in is 0, must be > 0", {f"{x}_in": 0}, can=2),
        Bad("kernel", 2, rf"k{x} is 0, must be > 0", {f"k{x}": 0}, can=2),
        Bad("step", 2, rf"s{x} is -1, must be > 0", {f"s{x}": -1}, can=2),
        Bad("padding", 2, rf"p{x} is -1, must be >= 0", {f"p{x}": -1}, can=2),
        Bad("wide_padding", 2, rf"p{x} is 9, must be at most half of the window", {f"p{x}": 9}, can=2),
        Bad("no_outputs", 2, rf"{x}_out is 0, must be > 0", {f"{x}_out": 0}, can=2),
        Bad("outputs", 2, rf"{x}_out is {out + 1}, but {out} windows fit", {f"{x}_out": out + 1}, can=2),
    )


NOTHING = (Idle("no_images", {"batch": 0}), Idle("no_channels", {"channels": 0}))


def window_cases(rank):
    given = WINDOWS[rank]
    common = {"plain": "plain", "large": "large", "bad": bad_windows(rank), "idle": NOTHING}
    yield Case(
        row=f"max_pool_{rank}d_fw_{{T}}",
        problems={name: lambda d, g=g: forward(d, g) for name, g in given.items()}
        | {"special": lambda d: forward(d, given["plain"], "special")},
        reference=max_reference, tolerance={"y": "exact"}, **common,
    )  # fmt: skip
    yield Case(
        row=f"max_pool_{rank}d_bw_{{T}}",
        problems={name: lambda d, g=g: backward(d, g) for name, g in given.items()}
        | {"special": lambda d: backward(d, given["plain"], "special")},
        reference=max_backward_reference, tolerance={"dx": "total"}, **common,
    )  # fmt: skip
    pads = {"": 1, "_exclude": 0}
    yield Case(
        row=f"avg_pool_{rank}d_fw_{{T}}",
        problems={f"{name}{end}": lambda d, g=g, i=i: forward(d, g, count_include_pad=i)
                  for name, g in given.items() for end, i in pads.items()}
        | {"special": lambda d: forward(d, given["plain"], "special", count_include_pad=1),
           "wide": lambda d: forward(d, given["whole"], "wide", count_include_pad=1)},
        reference=avg_reference, tolerance={"y": "total_of_products"}, **common,
    )  # fmt: skip
    yield Case(
        row=f"avg_pool_{rank}d_bw_{{T}}",
        problems={f"{name}{end}": lambda d, g=g, i=i: backward(d, g, count_include_pad=i)
                  for name, g in given.items() for end, i in pads.items()}
        | {"dy_alone": lambda d: backward(d, given["plain"], null=("x", "y"), count_include_pad=1)},
        reference=avg_backward_reference, tolerance={"dx": "total_of_products"}, **common,
    )  # fmt: skip


# --- p-norms ---

NAMES = {
    1: (("l_in",), ("kernel",), ("stride",), ("l_out",)),
    2: (("h_in", "w_in"), ("kh", "kw"), ("sh", "sw"), ("h_out", "w_out")),
}
# batch, channels, extents, kernel, steps, outputs
NORMS = {
    1: {
        "plain": (2, 3, (11,), (3,), (2,), (5,)), "cut": (2, 3, (11,), (4,), (3,), (4,)), "behind": (1, 2, (4,), (2,),
            (3,), (5,)),
        "long": (2, 2, (90,), (80,), (5,), (3,)), "large": (4, 6, (301,), (4,), (3,), (100,)),
    },
    2: {
        "plain": (2, 3, (5, 7), (2, 3), (2, 1), (2, 5)), "cut": (2, 3, (5, 8), (3, 3), (2, 3), (3, 3)),
        "behind": (1, 2, (3, 4), (2, 2), (2, 3), (4, 3)), "whole": (2, 2, (7, 9), (7, 9), (1, 1), (1, 1)),
        "large": (3, 5, (33, 40), (3, 3), (2, 2), (16, 19)),
    },
}  # fmt: skip


def norm_scalars(given, p, ceil):
    batch, channels, *each = given
    found = {"batch": batch, "channels": channels, "norm_p": p, "ceil_mode": ceil}
    for names, values in zip(NAMES[len(each[0])], each):
        found |= dict(zip(names, values))
    return found


def norm_axes(scalars):
    extents, kernel, steps, outputs = NAMES[1 if "l_in" in scalars else 2]
    return [
        Axis.windows(scalars[e], scalars[k], scalars[s], 0, 0, 1, False, scalars[o])
        for e, k, s, o in zip(extents, kernel, steps, outputs)
    ]


def norm(draw, given, p=2.0, kind="normal", ceil=0):
    x, y = (*given[:2], *given[2]), (*given[:2], *given[5])
    return Problem(norm_scalars(given, p, ceil), {"x": draw.floats(x, kind), "y": draw.output(y)})


def norm_reference(problem):
    s = problem.scalars
    return {"y": geometry.norms(problem.arrays["x"].values, norm_axes(s), s["norm_p"])}


def norm_backward(draw, given, p=2.0):
    x, scalars = coarse(draw, (*given[:2], *given[2])), norm_scalars(given, p, 0)
    y = round_to(geometry.norms(x, norm_axes(scalars), p).value.astype(np.float64), draw.dtype)
    arrays = {"x": draw.array(x), "y": draw.array(y), "dy": draw.floats(y.shape), "dx": draw.floats(x.shape)}
    return Problem(scalars, arrays)


def norm_backward_reference(problem):
    arrays, s = {name: a.values for name, a in problem.arrays.items()}, problem.scalars
    found = geometry.gradient_of_norms(arrays["dy"], arrays["x"], arrays["y"], norm_axes(s), s["norm_p"])
    return {"dx": plus(arrays["dx"], found)}


def plus(before, found):
    """An Expected that adds to what is there."""
    return Expected(before + found.value, count=found.count + 1, magnitude=found.magnitude + np.abs(before))


def norm_cases(rank):
    given, (extents, kernel, steps, outputs) = NORMS[rank], NAMES[rank]
    bad = (
        Bad("batch", 2, r"batch is -1, must be >= 0", {"batch": -1}, can=2),
        Bad("channels", 2, r"channels is -1, must be >= 0", {"channels": -1}, can=2),
        *(Bad(f"{names[0]}_0", 2, rf"{names[0]} is 0, must be > 0", {names[0]: 0}, can=2)
          for names in (extents, kernel, steps, outputs)),
        Bad("far", 2, rf"{outputs[0]} is 2147483647: windows would reach", {outputs[0]: 2**31 - 1}, can=2),
        *(Bad(f"norm_{p}", 3, r"norm_p is -?(nan|0|2), must be > 0", {"norm_p": p}, can=3) for p in (0.0, -2.0,
            np.nan)),
    )  # fmt: skip
    others = {f"p{p:g}": p for p in (1.0, 3.0, 0.5, np.inf)}
    yield Case(
        row=f"lp_pool_{rank}d_{{T}}",
        problems={name: lambda d, g=g: norm(d, g) for name, g in given.items()}
        | {name: lambda d, p=p: norm(d, given["cut"], p) for name, p in others.items()}
        | {"ceil": lambda d: norm(d, given["cut"], ceil=1), "wide": lambda d: norm(d, given["large"], kind="wide")},
        reference=norm_reference, tolerance={"y": "pointwise"}, plain="plain", large="large", bad=bad, idle=NOTHING,
    )  # fmt: skip
    yield Case(
        row=f"lp_pool_{rank}d_{{T}}_backward",
        problems={name: lambda d, g=g: norm_backward(d, g) for name, g in given.items()}
        | {name: lambda d, p=p: norm_backward(d, given["cut"], p) for name, p in others.items() if p >= 1},
        reference=norm_backward_reference, tolerance={"dx": "total_of_products"}, plain="plain", large="large", bad=bad,
        idle=NOTHING,
    )  # fmt: skip


# --- adaptive windows ---

# planes, extents, outputs
ADAPTIVE = {
    "plain": (6, (5, 7), (2, 3)), "rank1": (4, (40,), (7,)), "volume": (4, (4, 5, 6), (3, 2, 4)), "more": (3, (4, 5),
        (7, 9)),
    "whole": (5, (9, 13), (1, 1)), "thirds": (3, (25, 26), (3, 3)), "large": (15, (33, 40), (7, 6)),
}  # fmt: skip


def padded_to_three(extents):
    return (1,) * (3 - len(extents)) + extents


def adaptive_scalars(given):
    planes, extents, outputs = given
    found = {"nc": planes, "spatial_rank": len(extents)}
    for end, each in (("in", extents), ("out", outputs)):
        found |= {f"{end}_{x}": value for x, value in zip("dhw", padded_to_three(each))}
    return found


def adaptive_axes(s):
    return [Axis.adaptive(s[f"in_{x}"], s[f"out_{x}"]) for x in "dhw"]


def adaptive_shapes(given):
    return (given[0], *padded_to_three(given[1])), (given[0], *padded_to_three(given[2]))


def adaptive(draw, given, kind="normal"):
    x, y = adaptive_shapes(given)
    return Problem(adaptive_scalars(given), {"x": draw.array(coarse(draw, x, kind)), "y": draw.output(y)})


def adaptive_backward(draw, given, reads_x, kind="normal"):
    x, y = adaptive_shapes(given)
    arrays = {"x": draw.array(coarse(draw, x, kind))} if reads_x else {}
    return Problem(adaptive_scalars(given), arrays | {"dy": draw.floats(y), "dx": draw.output(x)})


def adaptive_max_reference(problem):
    x = problem.arrays["x"].values
    return {"y": Expected(geometry.maxima(x[None], adaptive_axes(problem.scalars))[0][0])}


def adaptive_max_backward_reference(problem):
    x, dy = problem.arrays["x"].values, problem.arrays["dy"].values
    numbers = geometry.maxima(x[None], adaptive_axes(problem.scalars))[1]
    return {"dx": first_of(geometry.by_numbers(dy[None], numbers, (1, *x.shape)))}


def first_of(found):
    return Expected(found.value[0], count=found.count[0], magnitude=found.magnitude[0])


def adaptive_avg_reference(problem):
    axes = adaptive_axes(problem.scalars)
    return {"y": first_of(geometry.averages(problem.arrays["x"].values[None], axes, geometry.divisors(axes)))}


def adaptive_avg_backward_reference(problem):
    s, axes = problem.scalars, adaptive_axes(problem.scalars)
    shape = (1, s["nc"], s["in_d"], s["in_h"], s["in_w"])
    found = geometry.gradient_of_averages(problem.arrays["dy"].values[None], axes, shape, geometry.divisors(axes))
    return {"dx": first_of(found)}


ADAPTIVE_BAD = (
    Bad("nc", 2, r"nc is -1, must be >= 0", {"nc": -1}, can=2),
    Bad("rank_0", 2, r"spatial_rank is 0, must be in \[1, 3\]", {"spatial_rank": 0}, can=2),
    Bad("rank_4", 2, r"spatial_rank is 4, must be in \[1, 3\]", {"spatial_rank": 4}, can=2),
    Bad("unused", 2, r"in_h is 5, must be 1 with spatial_rank 1", {"spatial_rank": 1}, can=2),
    *(
        Bad(name, 2, rf"{name} is 0, must be > 0", {name: 0}, can=2)
        for name in ("in_d", "in_h", "in_w", "out_h", "out_w")
    ),
)
ADAPTIVE_COMMON = {"plain": "plain", "large": "large", "bad": ADAPTIVE_BAD, "idle": (Idle("nothing", {"nc": 0}),)}

# --- fractional windows ---

# batch, channels, extents, outputs, kernel
FRACTIONAL = {
    2: {"plain": (2, 3, (5, 7), (2, 3), (2, 3)), "single": (2, 2, (6, 8), (1, 1), (3, 2)), "large": (3, 5, (33, 40),
        (9, 12), (3, 4))},
    3: {"plain": (2, 3, (4, 5, 6), (2, 3, 4), (2, 3, 2)), "large": (2, 4, (9, 8, 10), (4, 3, 5), (3, 3, 2))},
}  # fmt: skip


def fractional_scalars(given, with_kernel=True):
    batch, channels, extents, outputs, kernel = given
    letters = LETTERS[len(extents)]
    found = {"batch": batch, "channels": channels}
    for name, each in (("{}_in", extents), ("{}_out", outputs), ("k{}", kernel)):
        found |= {name.format(x): value for x, value in zip(letters, each)} if with_kernel or name != "k{}" else {}
    return found


def fractional(draw, given, kind="normal"):
    batch, channels, extents, outputs, _ = given
    samples = round_to(draw.rng.random((batch * channels * len(extents),)), "f32")
    arrays = {
        "x": draw.array(coarse(draw, (batch, channels, *extents), kind)),
        "random_samples": draw.array(np.where(samples == 1, 0, samples), "f32"),
        "y": draw.output((batch, channels, *outputs)), "indices": draw.output((batch, channels, *outputs), dtype="i64"),
    }  # fmt: skip
    return Problem(fractional_scalars(given), arrays)


def spread_starts(extent, kernel, count, u):
    last_start, u = extent - kernel, np.float32(u)
    found = [u * np.float32(last_start)] if count == 1 else [
        np.float32(o * last_start) / np.float32(count - 1) + u for o in range(count)
    ]  # fmt: skip
    return [min(int(at), last_start) for at in found]


def fractional_reference(problem):
    s, x = problem.scalars, problem.arrays["x"].values
    letters = LETTERS[x.ndim - 2]
    samples = problem.arrays["random_samples"].values.reshape(x.shape[0] * x.shape[1], -1)
    shape = (*x.shape[:2], *[s[f"{name}_out"] for name in letters])
    values, numbers = np.zeros(shape), np.zeros(shape, np.int64)
    for plane, row in enumerate(samples):
        n, c = divmod(plane, x.shape[1])
        axes = [
            Axis([list(range(at, at + s[f"k{name}"]))
                  for at in spread_starts(s[f"{name}_in"], s[f"k{name}"], s[f"{name}_out"], u)])
            for name, u in zip(letters, row)
        ]  # fmt: skip
        found = geometry.maxima(x[n : n + 1, c : c + 1], axes)
        values[n, c], numbers[n, c] = found[0][0, 0], found[1][0, 0] + plane * math.prod(x.shape[2:])
    return {"y": Expected(values), "indices": Expected(numbers)}


def fractional_backward(draw, given, strays=False):
    batch, channels, extents, outputs, _ = given
    cells, planes = math.prod(extents), batch * channels
    own = draw.rng.integers(0, cells, (planes, math.prod(outputs))) // 2 + np.arange(planes)[:, None] * cells
    if strays:
        foreign = draw.rng.choice([-1, 2**62, -(2**63), planes * cells], own.shape)
        own = np.where(draw.rng.random(own.shape) < 0.3, foreign, own)
    shape = (batch, channels, *outputs)
    arrays = {
        "dy": draw.floats(shape), "indices": draw.array(own.reshape(shape), "i64"),
        "dx": draw.floats((batch, channels, *extents)),
    }  # fmt: skip
    return Problem(fractional_scalars(given, with_kernel=False), arrays)


def fractional_backward_reference(problem):
    dx, dy, at = (problem.arrays[name].values for name in ("dx", "dy", "indices"))
    planes, cells = math.prod(dx.shape[:2]), math.prod(dx.shape[2:])
    flat = at.reshape(planes, -1)
    valid = (flat >= 0) & (flat < planes * cells)
    local = np.where(valid, flat - np.arange(planes)[:, None] * cells, -1)
    return {"dx": plus(dx, geometry.by_numbers(dy, local.reshape(at.shape), dx.shape))}


def fractional_cases(rank):
    given, x = FRACTIONAL[rank], LETTERS[rank][0]
    bad = (
        Bad("batch", 2, r"batch is -1, must be >= 0", {"batch": -1}, can=2),
        Bad("channels", 2, r"channels is -1, must be >= 0", {"channels": -1}, can=2),
        Bad("extent", 2, rf"{x}_in is 0, must be > 0", {f"{x}_in": 0}, can=2),
        Bad("outputs", 2, rf"{x}_out is 0, must be > 0", {f"{x}_out": 0}, can=2),
    )
    yield Case(
        row=f"fractional_max_pool_{rank}d_fw_{{T}}",
        problems={name: lambda d, g=g: fractional(d, g) for name, g in given.items()}
        | {"special": lambda d: fractional(d, given["plain"], "special")},
        reference=fractional_reference, tolerance={"y": "exact", "indices": "exact"}, plain="plain", large="large",
        bad=(
            *bad, Bad("kernel", 2, rf"k{x} is 0, must be > 0", {f"k{x}": 0}, can=2),
            Bad("wide_kernel", 2, rf"k{x} is 9, must be at most the extent of the input", {f"k{x}": 9}, can=2),
        ),
        idle=NOTHING,
    )  # fmt: skip
    yield Case(
        row=f"fractional_max_pool_{rank}d_bw_{{T}}",
        problems={name: lambda d, g=g: fractional_backward(d, g) for name, g in given.items()}
        | {"strays": lambda d: fractional_backward(d, given["plain"], strays=True)},
        reference=fractional_backward_reference, tolerance={"dx": "total"}, plain="plain", large="large", bad=bad,
        idle=NOTHING,
    )  # fmt: skip


CASES = (
    *[case for rank in LETTERS for case in window_cases(rank)],
    *[case for rank in NORMS for case in norm_cases(rank)],
    Case(
        row="adaptive_avg_pool_{T}_fw",
        problems={name: lambda d, g=g: adaptive(d, g) for name, g in ADAPTIVE.items()}
        | {"special": lambda d: adaptive(d, ADAPTIVE["plain"], "special")},
        reference=adaptive_avg_reference, tolerance={"y": "total_of_products"}, **ADAPTIVE_COMMON,
    ),
    Case(
        row="adaptive_avg_pool_{T}_bw",
        problems={name: lambda d, g=g: adaptive_backward(d, g, False) for name, g in ADAPTIVE.items()},
        reference=adaptive_avg_backward_reference, tolerance={"dx": "total_of_products"}, **ADAPTIVE_COMMON,
    ),
    Case(
        row="adaptive_max_pool_{T}_fw",
        problems={name: lambda d, g=g: adaptive(d, g) for name, g in ADAPTIVE.items()}
        | {"special": lambda d: adaptive(d, ADAPTIVE["plain"], "special")},
        reference=adaptive_max_reference, tolerance={"y": "exact"}, **ADAPTIVE_COMMON,
    ),
    Case(
        row="adaptive_max_pool_{T}_bw",
        problems={name: lambda d, g=g: adaptive_backward(d, g, True) for name, g in ADAPTIVE.items()}
        | {f"special_{name}": lambda d, g=ADAPTIVE[name]: adaptive_backward(d, g, True, "special")
            for name in ("plain", "thirds")},
        reference=adaptive_max_backward_reference, tolerance={"dx": "total"}, **ADAPTIVE_COMMON,
    ),
    *[case for rank in FRACTIONAL for case in fractional_cases(rank)],
)  # fmt: skip
