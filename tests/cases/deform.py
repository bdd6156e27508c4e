# SPDX-License-Identifier: Apache-2.0
"""Columns of deformable convolutions, and their gradients."""

import numpy as np

from tools.oracle.numerics import round_to

from .model import Bad, Case, Expected, Idle, Problem

# batch, channels, height, width, kernel, stride, padding, dilation, offset groups
SHAPES = {
    "one": (1, 1, 1, 1, (1, 1), (1, 1), (0, 0), (1, 1), 1), "plain": (2, 4, 6, 7, (3, 2), (1, 1), (1, 0), (1, 1), 1),
    "groups": (1, 6, 5, 5, (3, 3), (1, 1), (1, 1), (1, 1), 3), "steps": (2, 2, 9, 8, (2, 3), (2, 3), (1, 2), (2, 1), 2),
    "channels": (1, 35, 4, 3, (1, 2), (1, 1), (0, 0), (1, 1), 1),
    "rows": (1, 2, 2, 70, (1, 3), (1, 2), (0, 1), (1, 1), 1),
    "large": (2, 20, 11, 13, (3, 3), (1, 1), (1, 1), (1, 1), 2),
}  # fmt: skip
NAMES = ("stride_h", "stride_w", "pad_h", "pad_w", "dilation_h", "dilation_w")


def scalars_of(shape):
    batch, channels, height, width, kernel, stride, padding, dilation, groups = shape
    out = [max((e + 2 * p - d * (k - 1) - 1) // s + 1, 0)
           for e, k, s, p, d in zip((height, width), kernel, stride, padding, dilation)]  # fmt: skip
    return {
        "batch": batch, "channels": channels, "height": height, "width": width, "kernel_h": kernel[0],
        "kernel_w": kernel[1], "out_h": out[0], "out_w": out[1], **dict(zip(NAMES, (*stride, *padding, *dilation))),
        "offset_groups": groups,
    }  # fmt: skip


def offsets(draw, shape, kind):
    """Eighths, so that positions and weights are exact, and some whole numbers."""
    values = draw.rng.integers(-20, 21, shape) / 8
    values = np.where(draw.rng.random(shape) < 0.2, np.floor(values), values)
    if kind == "far":
        values = values * 16
    if kind == "special":
        strange = draw.rng.choice([np.nan, np.inf, -np.inf, 3e4, -3e4], shape)
        values = np.where(draw.rng.random(shape) < 0.2, strange, values)
    if kind == "none":
        values = np.zeros(shape)
    return draw.array(round_to(values, draw.dtype))


def deform(draw, name, kind="normal", masked=True, gradient=False, null=()):
    s = scalars_of(SHAPES[name])
    taps = s["kernel_h"] * s["kernel_w"]
    image = (s["batch"], s["channels"], s["height"], s["width"])
    out = (s["out_h"], s["out_w"])
    pairs, factors = ((s["batch"], k * s["offset_groups"] * taps, *out) for k in (2, 1))
    columns = (s["batch"], s["channels"] * taps, *out)
    arrays = {"dcolumns": draw.floats(columns)} if gradient else {}
    arrays |= {"input": draw.floats(image), "offset": offsets(draw, pairs, kind), "mask": draw.floats(factors)}
    if gradient:
        arrays |= {"dinput": draw.output(image), "doffset": draw.output(pairs), "dmask": draw.output(factors)}
    else:
        arrays |= {"columns": draw.output(columns)}
    return Problem(s, arrays, null=(*null, *(() if masked else ("mask",))))


def samples(problem):
    """Yields (n, group, tap, i, j, factor, cells) of samples with a value; cells are (y, x, weight, two slopes)."""
    s, offset = problem.scalars, problem.arrays["offset"].values
    mask = None if "mask" in problem.null else problem.arrays["mask"].values
    taps = s["kernel_h"] * s["kernel_w"]
    for n, m, i, j in np.ndindex(s["batch"], s["offset_groups"] * taps, s["out_h"], s["out_w"]):
        group, tap = divmod(m, taps)
        dy, dx = offset[n, 2 * m, i, j], offset[n, 2 * m + 1, i, j]
        y = i * s["stride_h"] - s["pad_h"] + tap // s["kernel_w"] * s["dilation_h"] + dy
        x = j * s["stride_w"] - s["pad_w"] + tap % s["kernel_w"] * s["dilation_w"] + dx
        if not (-1 < y < s["height"] and -1 < x < s["width"]):
            continue
        top, left = int(np.floor(y)), int(np.floor(x))
        down, right = y - top, x - left
        cells = [
            (top + a, left + b, (down if a else 1 - down) * (right if b else 1 - right),
             (1 if a else -1) * (right if b else 1 - right), (1 if b else -1) * (down if a else 1 - down))
            for a in (0, 1) for b in (0, 1) if 0 <= top + a < s["height"] and 0 <= left + b < s["width"]
        ]  # fmt: skip
        yield n, group, tap, i, j, 1.0 if mask is None else mask[n, m, i, j], cells


def of_group(problem, group, tap):
    """Channels of an offset group, and their rows of columns."""
    s = problem.scalars
    each = s["channels"] // s["offset_groups"]
    channels = np.arange(group * each, (group + 1) * each)
    return channels, channels * s["kernel_h"] * s["kernel_w"] + tap


def columns_reference(problem):
    image = problem.arrays["input"].values
    value = np.zeros(problem.arrays["columns"].shape)
    size = np.zeros(value.shape)
    for n, group, tap, i, j, factor, cells in samples(problem):
        channels, rows = of_group(problem, group, tap)
        for y, x, weight, _, _ in cells:
            value[n, rows, i, j] += factor * weight * image[n, channels, y, x]
            size[n, rows, i, j] += np.abs(factor * weight * image[n, channels, y, x])
    return {"columns": Expected(value, count=8, magnitude=size)}


def backward_reference(problem):
    s, image, g = problem.scalars, problem.arrays["input"].values, problem.arrays["dcolumns"].values
    names = ("dinput", "doffset", "dmask")
    value = {name: np.zeros(problem.arrays[name].shape) for name in names}
    size = {name: np.zeros(each.shape) for name, each in value.items()}
    taps = s["kernel_h"] * s["kernel_w"]

    def add(name, at, summands, axis=None):
        """Adds an array at indices, or with axis its sum at one."""
        value[name][at] += summands if axis is None else summands.sum(axis)
        size[name][at] += np.abs(summands) if axis is None else np.abs(summands).sum(axis)

    for n, group, tap, i, j, factor, cells in samples(problem):
        channels, rows = of_group(problem, group, tap)
        arriving, m = g[n, rows, i, j], group * taps + tap
        for y, x, weight, along_y, along_x in cells:
            add("dinput", (n, channels, y, x), arriving * factor * weight)
            products = arriving * image[n, channels, y, x]
            add("dmask", (n, m, i, j), weight * products, 0)
            add("doffset", (n, slice(2 * m, 2 * m + 2), i, j), factor * np.outer((along_y, along_x), products), 1)
    count = max(4 * s["channels"], 4 * taps) + 8
    return {
        name: Expected(value[name], count=count, magnitude=size[name]) for name in names if name not in problem.null
    }


def problems(gradient=False):
    def of(name, **options):
        return lambda d: deform(d, name, gradient=gradient, **options)

    found = {name: of(name) for name in SHAPES} | {
        "unmasked": of("plain", masked=False), "far": of("groups", kind="far"), "special": of("steps", kind="special"),
        "unmoved": of("groups", kind="none"),
    }  # fmt: skip
    if gradient:
        found |= {f"{name}_alone": of("groups", null=tuple({"dinput", "doffset", "dmask"} - {name}))
                  for name in ("dinput", "doffset", "dmask")}  # fmt: skip
        found["no_dinput"] = of("plain", null=("dinput",))
    return found


EXTENTS = ("batch", "channels", "height", "width", "kernel_h", "kernel_w", "out_h", "out_w", "pad_h", "pad_w")
POSITIVE = ("stride_h", "stride_w", "dilation_h", "dilation_w", "offset_groups")
BAD = (
    *(Bad(f"negative_{n}", 2, rf"{n} is -3, must be >= 0", {n: -3}, can=2) for n in EXTENTS),
    *(Bad(f"{n}_{v}", 2, rf"{n} is {v}, must be > 0", {n: v}, can=2) for n in POSITIVE for v in (0, -3)),
    Bad("groups", 2, r"offset_groups is 3, must divide channels, 4", {"offset_groups": 3}, can=2),
)
HUGE = {"out_h": 2**14, "out_w": 2**14}
CASES = (
    Case(
        row="deform_columns_{T}", problems=problems(), reference=columns_reference, tolerance={"columns": "pointwise"},
        plain="plain", large="large", bad=BAD,
        idle=tuple(Idle(f"no_{n}", {n: 0}) for n in ("batch", "channels", "kernel_h", "out_w")),
    ),
    Case(
        row="deform_columns_backward_{T}", problems=problems(gradient=True), reference=backward_reference,
        tolerance=dict.fromkeys(("dinput", "doffset", "dmask"), "norm"), plain="plain", large="large",
        bad=(
            *BAD,
            Bad("samples", 3, r"batch \* offset_groups \* kernel \* windows is 3221225472, at most", HUGE, can=3),
        ),
        idle=(Idle("no_images", {"batch": 0}),),
    ),
)  # fmt: skip
