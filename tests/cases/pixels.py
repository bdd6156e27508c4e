# SPDX-License-Identifier: Apache-2.0
"""Images of bytes to planes and back, colours, and frames in NV12."""

import colorsys

import numpy as np

from tools.oracle.numerics import round_to

from .model import Bad, Case, Expected, Idle, Problem

# batch, channels, height, width
IMAGES = {
    "one": (1, 1, 1, 1), "plain": (2, 3, 5, 7), "vectors": (2, 3, 6, 16), "gray": (1, 1, 9, 13), "four": (1, 4, 3, 9),
    "many": (1, 70, 2, 3), "wide": (1, 3, 2, 2500), "large": (3, 3, 61, 67),
    "small": (70, 3, 3, 5), "points": (600, 2, 1, 1),
}  # fmt: skip


def bytes_of(draw, shape):
    values = draw.rng.integers(0, 256, shape)
    return draw.array(np.where(draw.rng.random(shape) < 0.1, draw.rng.choice([0, 1, 254, 255], shape), values), "u8")


def scales(draw, channels, null):
    """mean and std, in eighths."""
    mean, std = draw.rng.integers(-4, 9, channels) / 8, draw.rng.integers(1, 9, channels) / 8
    return {"mean": draw.array(mean, "f32"), "std": draw.array(std, "f32")}, null


def to_planes(draw, shape, margin=(0, 0, 0, 0), reverse=0, flip=0, null=()):
    batch, channels, height, width = shape
    top, left, below, right = margin
    source_h, source_w = height + top + below, width + left + right
    per_channel, null = scales(draw, channels, null)
    arrays = {"x": bytes_of(draw, (batch, source_h, source_w, channels)), **per_channel, "y": draw.output(shape)}
    scalars = {
        "batch": batch, "source_h": source_h, "source_w": source_w, "channels": channels, "height": height,
        "width": width, "top": top, "left": left, "reverse_channels": reverse, "flip_columns": flip,
        "scale": float(np.float32(1 / 255)),
    }  # fmt: skip
    return Problem(scalars, arrays, null=null)


def per_channel(problem):
    channels = problem.scalars["channels"]
    return [
        (np.full(channels, default) if name in problem.null else problem.arrays[name].values)
        for name, default in (("mean", 0.0), ("std", 1.0))
    ]


def ordered(image, problem):
    """An image (batch, height, width, channels) with columns and channels in the order of the problem."""
    s = problem.scalars
    return image[:, :, :: -1 if s["flip_columns"] else 1, :: -1 if s["reverse_channels"] else 1]


def to_planes_reference(problem):
    s, x = problem.scalars, problem.arrays["x"].values.astype(float)
    window = x[:, s["top"] : s["top"] + s["height"], s["left"] : s["left"] + s["width"]]
    scaled = (ordered(window, problem) * s["scale"]).transpose(0, 3, 1, 2)
    mean, std = (each[None, :, None, None] for each in per_channel(problem))
    return {"y": Expected((scaled - mean) / std, count=4, magnitude=(np.abs(scaled) + np.abs(mean)) / std)}


def to_pixels(draw, shape, reverse=0, flip=0, null=(), kind="normal"):
    """Values whose bytes are not halfway between two."""
    batch, channels, height, width = shape
    per_channel, null = scales(draw, channels, null)
    scalars = {
        "batch": batch, "channels": channels, "height": height, "width": width, "reverse_channels": reverse,
        "flip_columns": flip, "scale": 255.0,
    }  # fmt: skip
    arrays = {
        "y": draw.floats(shape, kind),
        **per_channel,
        "x": draw.output((batch, height, width, channels), dtype="u8"),
    }
    problem = Problem(scalars, arrays, null=null)
    exact = np.clip(np.nan_to_num(unrounded(problem)), -1, 256)
    near = np.abs(exact - np.floor(exact) - 0.5) < 0.01
    values = np.where(near, 0.0, arrays["y"].values)
    arrays["y"] = draw.array(values)
    return problem


def unrounded(problem):
    mean, std = (each[None, :, None, None] for each in per_channel(problem))
    with np.errstate(invalid="ignore", over="ignore"):
        return (problem.arrays["y"].values * std + mean) * problem.scalars["scale"]


def to_pixels_reference(problem):
    value = np.rint(np.clip(np.nan_to_num(unrounded(problem), nan=0.0, posinf=255, neginf=0), 0, 255))
    return {"x": Expected(ordered(value.transpose(0, 2, 3, 1), problem).astype(np.int64))}


CODES = (
    "rgb_to_bgr", "rgb_to_gray", "bgr_to_gray", "gray_to_rgb", "rgb_to_ycc601", "ycc601_to_rgb", "rgb_to_ycc709",
    "ycc709_to_rgb", "rgb_to_hsv", "hsv_to_rgb",
)  # fmt: skip


def channels_of(code):
    name = CODES[code]
    return 1 if name.startswith("gray") else 3, 1 if name.endswith("gray") else 3


def color(draw, code, batch=2, pixels=37, last=0, kind="unit"):
    before, after = channels_of(code)
    shape = (batch, before, pixels)
    if draw.dtype == "u8":
        x = bytes_of(draw, shape)
    elif kind == "unit":
        levels = draw.rng.integers(0, 65, shape) / 64  # greys and equal channels occur
        x = draw.array(round_to(np.where(draw.rng.random(shape) < 0.3, levels, draw.rng.random(shape)), draw.dtype))
    else:
        x = draw.floats(shape, kind)
    scalars = {"batch": batch, "pixels": pixels, "color_code": code, "channels_last": last}
    problem = Problem(scalars, {"x": x, "y": draw.output((batch, after, pixels))})
    if draw.dtype == "u8" and CODES[code] not in MOVES:  # black in place of bytes halfway between two
        exact = np.clip(color_values(problem)[0], 0, 255)
        near = (np.abs(exact - np.floor(exact) - 0.5) < 1e-3).any(1, keepdims=True)
        problem.arrays["x"] = draw.array(in_memory(np.where(near, 0, planes_of(problem)), problem), "u8")
    return problem


LUMA = {"601": (0.299, 0.114), "709": (0.2126, 0.0722)}


def ycc(rgb, luma):
    red, blue = luma
    y = red * rgb[0] + (1 - red - blue) * rgb[1] + blue * rgb[2]
    return y, (rgb[2] - y) / (2 * (1 - blue)), (rgb[0] - y) / (2 * (1 - red))


def rgb_of(y, cb, cr, luma):
    red, blue = luma
    r, b = y + 2 * (1 - red) * cr, y + 2 * (1 - blue) * cb
    return r, (y - red * r - blue * b) / (1 - red - blue), b


MOVES = ("rgb_to_bgr", "gray_to_rgb")  # of which the results are inputs


def planes_of(problem):
    """The input as (batch, channels, pixels)."""
    s, x = problem.scalars, problem.arrays["x"].values
    if not s["channels_last"]:
        return x
    return x.reshape(s["batch"], s["pixels"], x.shape[1]).transpose(0, 2, 1)


def in_memory(planes, problem):
    """(batch, channels, pixels) as it lies in memory, in this shape."""
    return (planes.transpose(0, 2, 1) if problem.scalars["channels_last"] else planes).reshape(planes.shape)


def color_reference(problem):
    name, is_byte = CODES[problem.scalars["color_code"]], problem.arrays["x"].dtype == "u8"
    if name in MOVES:
        planes = planes_of(problem)
        made = in_memory(planes[:, ::-1] if name == "rgb_to_bgr" else np.repeat(planes, 3, 1), problem)
        return {"y": Expected(made.astype(np.int64) if is_byte else made)}
    value, size = (in_memory(each, problem) for each in color_values(problem))
    if is_byte:
        return {"y": Expected(np.clip(value, 0, 255), count=8, magnitude=size)}
    return {"y": Expected(value, count=8, magnitude=size)}


def color_values(problem):
    """Unrounded results as (batch, channels, pixels), and the magnitudes of what was added."""
    name, is_byte = CODES[problem.scalars["color_code"]], problem.arrays["x"].dtype == "u8"
    planes = planes_of(problem).astype(float)
    span, half = (255.0, 128.0) if is_byte else (1.0, 0.5)
    a, b, c = planes[:, 0], planes[:, 1], planes[:, 2]
    if name.endswith("gray"):
        made = [ycc((a, b, c) if name.startswith("rgb") else (c, b, a), LUMA["601"])[0]]
    elif "ycc" in name:
        luma = LUMA[name.partition("ycc")[2][:3]]
        made = rgb_of(a, b - half, c - half, luma)
        if name.startswith("rgb"):
            y, cb, cr = ycc((a, b, c), luma)
            made = y, cb + half, cr + half
    else:
        convert = colorsys.rgb_to_hsv if name == "rgb_to_hsv" else colorsys.hsv_to_rgb
        found = np.vectorize(convert, otypes=[float] * 3)(a / span, b / span, c / span)
        made = [each * span for each in found]
    value = np.stack(made, 1)
    size = 4 * np.maximum(np.abs(planes).max(1, keepdims=True) + half, np.abs(value)) * np.ones_like(value)
    if name == "rgb_to_hsv":  # quotients by the chroma
        chroma = planes.max(1) - planes.min(1)
        size[:, 0] += span * 4 * np.where(chroma > 0, planes.max(1) / np.where(chroma > 0, chroma, 1), 0)
    return value, size


def color_problems():
    found = {name: lambda d, k=k: color(d, k) for k, name in enumerate(CODES)}
    found |= {f"{name}_last": lambda d, k=k: color(d, k, last=1) for k, name in enumerate(CODES)}
    return found | {
        "one": lambda d: color(d, 0, 1, 1), "large": lambda d: color(d, 6, 3, 5000),
        "reverse_of_any": lambda d: color(d, 0, kind="special"),
        "gray_of_any": lambda d: color(d, 3, kind="special", last=1),
    }  # fmt: skip


def frame(draw, batch, height, width, is_709=0, full=0, last=0, bgr=0):
    rows = height + height // 2
    scalars = {"batch": batch, "height": height, "width": width, "is_709": is_709, "full_range": full,
               "channels_last": last, "bgr": bgr}  # fmt: skip
    return Problem(scalars, {"x": bytes_of(draw, (batch, rows, width)), "y": draw.output((batch, 3, height, width))})


def frame_reference(problem):
    s, x = problem.scalars, problem.arrays["x"].values.astype(float)
    y, pairs = x[:, : s["height"]], x[:, s["height"] :].reshape(s["batch"], s["height"] // 2, s["width"] // 2, 2)
    cb, cr = (np.repeat(np.repeat(pairs[..., k] - 128, 2, 1), 2, 2) for k in (0, 1))
    if not s["full_range"]:
        y, cb, cr = (y - 16) * 255 / 219, cb * 255 / 224, cr * 255 / 224
    made = np.clip(np.stack(rgb_of(y, cb, cr, LUMA["709" if s["is_709"] else "601"]), 1), 0, 255)
    made = made[:, ::-1] if s["bgr"] else made
    made = (made.transpose(0, 2, 3, 1) if s["channels_last"] else made).reshape(problem.arrays["y"].shape)
    if problem.arrays["y"].dtype == "u8":
        return {"y": Expected(made, count=8, magnitude=np.full(made.shape, 1020.0))}
    return {"y": Expected(made / 255, count=8, magnitude=np.full(made.shape, 4.0))}


FRAMES = {
    "one": (1, 2, 2), "plain": (2, 4, 6), "bt709": (1, 6, 4, 1), "full": (1, 4, 10, 0, 1), "full709": (2, 4, 4, 1, 1),
    "last": (2, 6, 8, 0, 0, 1), "bgr": (1, 4, 6, 1, 0, 0, 1), "bgr_last": (1, 4, 6, 0, 1, 1, 1), "large": (2, 70, 302),
}  # fmt: skip


def negative(*names):
    return tuple(Bad(f"negative_{n}", 2, rf"{n} is -3, must be >= 0", {n: -3}, can=2) for n in names)


def flags(*names):
    return tuple(Bad(f"{n}_{v}", 2, rf"{n} is {v}, must be 0 or 1", {n: v}, can=2) for n in names for v in (-1, 2))


def nothing(*names):
    return tuple(Idle(f"no_{name}", {name: 0}) for name in names)


ORDERS = {
    "reversed": {"reverse": 1}, "flipped": {"flip": 1}, "both": {"reverse": 1, "flip": 1},
    "no_mean": {"null": ("mean",)},
    "no_std": {"null": ("std",)}, "neither": {"null": ("mean", "std")},
}  # fmt: skip

CASES = (
    Case(
        row="pixels_to_planes_{T}",
        problems={name: lambda d, s=s: to_planes(d, s) for name, s in IMAGES.items()}
        | {name: lambda d, o=o: to_planes(d, IMAGES["plain"], **o) for name, o in ORDERS.items()}
        | {
            "window": lambda d: to_planes(d, IMAGES["plain"], (2, 3, 1, 4)),
            "flipped_window": lambda d: to_planes(d, IMAGES["vectors"], (1, 5, 0, 2), flip=1),
        },
        reference=to_planes_reference, tolerance={"y": "pointwise"}, plain="plain", large="large",
        bad=(
            *negative("batch", "source_h", "source_w", "channels", "height", "width"),
            *flags("reverse_channels", "flip_columns"),
            Bad("top", 2, r"top is 1 and height is 5, the window must be in source_h, 5", {"top": 1}, can=2),
            Bad("top_below_0", 2, r"top is -1 and height is 5", {"top": -1}, can=2),
            Bad("left", 2, r"left is 2147483647 and width is 7", {"left": 2**31 - 1}, can=2),
        ),
        idle=nothing("batch", "channels", "height", "width"),
    ),
    Case(
        row="planes_to_pixels_{T}",
        problems={name: lambda d, s=s: to_pixels(d, s) for name, s in IMAGES.items()}
        | {name: lambda d, o=o: to_pixels(d, IMAGES["plain"], **o) for name, o in ORDERS.items()}
        | {"special": lambda d: to_pixels(d, IMAGES["vectors"], kind="special")},
        reference=to_pixels_reference, tolerance={"x": "exact"}, plain="plain", large="large",
        bad=(*negative("batch", "channels", "height", "width"), *flags("reverse_channels", "flip_columns")),
        idle=nothing("batch", "channels", "height", "width"),
    ),
    Case(
        row="convert_color_{T}", problems=color_problems(), reference=color_reference, tolerance={"y": "rounded"},
        plain="rgb_to_bgr", large="large",
        bad=(
            *negative("batch", "pixels"), *flags("channels_last"),
            *(Bad(f"code_{v}", 2, rf"color_code is {v}, must be in \[0, 9\]", {"color_code": v}, can=2)
              for v in (-1, 10)),
        ),
        idle=nothing("batch", "pixels"),
    ),
    Case(
        row="nv12_to_rgb_{T}", problems={name: lambda d, a=a: frame(d, *a) for name, a in FRAMES.items()},
        reference=frame_reference, tolerance={"y": "rounded"}, plain="plain", large="large",
        bad=(
            *negative("batch", "height", "width"), *flags("is_709", "full_range", "channels_last", "bgr"),
            Bad("odd_height", 2, r"height is 3, must be even", {"height": 3}, can=2),
            Bad("odd_width", 2, r"width is 5, must be even", {"width": 5}, can=2),
        ),
        idle=nothing("batch", "height", "width"),
    ),
)  # fmt: skip
