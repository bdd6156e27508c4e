# SPDX-License-Identifier: Apache-2.0
"""Random problems of convolutions and images, and the extents that they compute: windows, groups, pixels."""

import math

TAPS = {"l": "l_filt", "d": "kd", "h": "kh", "w": "kw"}
ONE_CHANNEL_IN, ONE_CHANNEL_OUT = (3,), (1, 2)  # conversions of grey


# --- problems --------------------------------------------------------------------------------------------------------


def drawn(rng, row) -> tuple[dict, dict] | None:
    """Scalars and host arrays of a convolution of any rank; None for rows that are drawn as all others are."""
    names = {p.name for p in row.problem}
    if not {"input_shape", "filter_shape", "steps"} <= names:
        return None
    spatial, last = int(rng.integers(1, 4)), int(rng.integers(0, 2))
    groups, inputs, outputs = (int(n) for n in rng.choice([1, 1, 2, 3], 3))
    batch = int(rng.integers(0, 4))
    extents, taps = ([int(n) for n in rng.integers(1, most, spatial)] for most in (8, 4))
    transposed = "output_padding" in names
    # filters have the outputs in front, those of transposed convolutions the inputs
    first, second = (inputs * groups, outputs) if transposed else (outputs * groups, inputs)

    def in_memory(count, channels, inner):
        return [count, *inner, channels] if last else [count, channels, *inner]

    host = {
        "input_shape": in_memory(batch, inputs * groups, extents), "filter_shape": in_memory(first, second, taps),
        **{name: [int(n) for n in rng.integers(1, 3, spatial)] for name in ("steps", "dilation")},
        **{name: [int(n) for n in rng.integers(0, 3, spatial)] for name in ("padding", "padding_after")},
    }  # fmt: skip
    if transposed:
        host["output_padding"] = [0] * spatial
    scalars = {"rank": spatial + 2, "groups": groups, "channels_last": last, "activation": int(rng.integers(0, 5))}
    scalars["allow_tf32"] = int(rng.integers(0, 2))
    return {name: value for name, value in scalars.items() if name in names}, host


def draw(rng, row, scalars) -> None:
    """Sets groups that divide the channels, and numbers of windows that fit often."""
    if row.family == "conv" and "c_in" in scalars:
        groups, inputs, outputs = (int(n) for n in rng.choice([1, 1, 2, 3], 3))
        scalars |= {"groups": groups, "c_in": groups * inputs, "c_out": groups * outputs, "batch": rng.integers(0, 4)}
        for name in scalars:
            least, most = {"st": (1, 3), "di": (1, 3), "pa": (0, 3), "ou": (0, 1)}.get(name[:2], (1, 4))
            if name.endswith("_in") and name != "c_in":
                least, most = 1, 9
            if name not in ("groups", "c_in", "c_out", "batch"):
                scalars[name] = rng.integers(least, most)
        scalars |= {name: int(value) for name, value in scalars.items()}
    elif row.pattern.startswith("affine_grid_{T}") or row.pattern.startswith("affine_grid_backward"):
        scalars["dims"], scalars["align_corners"] = int(rng.integers(2, 4)), int(rng.integers(0, 2))
        scalars["depth"] = scalars["depth"] if scalars["dims"] == 3 else 1
    elif "color_code" in scalars:
        scalars["color_code"] = int(rng.integers(0, 10))
    elif "bgr" in scalars and "is_709" in scalars:
        scalars["height"], scalars["width"] = 2 * int(rng.integers(0, 9)), 2 * int(rng.integers(0, 9))


# --- extents ---------------------------------------------------------------------------------------------------------


def quotient(whole: int, divisor: int) -> int:
    return whole // divisor if divisor > 0 and whole % divisor == 0 else -1


def windows(extent, taps, step, padding, dilation) -> int:
    """Windows of an axis; `padding` is the sum of both sides."""
    return (extent + padding - dilation * (taps - 1) - 1) // step + 1 if step > 0 else -1


def spread(extent, taps, step, padding, dilation, output_padding) -> int:
    """The extent of an axis of a transposed convolution's result."""
    return (extent - 1) * step - padding + dilation * (taps - 1) + output_padding + 1


def extents(row, names) -> dict[str, int]:
    """Extents by the op's own arguments; -1 where they do not determine them."""
    if row.family == "conv" and "c_in" in names:
        return of_convolution(row, names)
    if "offset_groups" in names:
        taps = names["kernel_h"] * names["kernel_w"]
        masks = names["offset_groups"] * taps
        return {"offset_channels": 2 * masks, "mask_channels": masks, "column_rows": names["channels"] * taps}
    if "dims" in names and "depth" in names:
        dims = names["dims"]
        return {"rows": dims, "columns": dims + 1, "layers": names["depth"] if dims == 3 else 1}
    if "r" in names and "h" in names:
        r = names["r"]
        return {"small_channels": names["c"] * r * r, "big_height": names["h"] * r, "big_width": names["w"] * r}
    if "color_code" in names:
        code = names["color_code"]
        return {"channels_in": 1 if code in ONE_CHANNEL_IN else 3, "channels_out": 1 if code in ONE_CHANNEL_OUT else 3}
    if "is_709" in names and "height" in names:
        return {"rows": names["height"] + names["height"] // 2}
    if row.pattern.startswith("fractional_max_pool") and "h_in" in names:
        return {"random_count": names["batch"] * names["channels"] * (3 if "d_in" in names else 2)}
    return {}


def of_convolution(row, names) -> dict[str, int]:
    """Contiguous convolutions of each number of axes."""
    transposed = "transpose" in row.pattern
    found = {"filter_channels": quotient(names["c_out" if transposed else "c_in"], names["groups"])}
    for axis, taps in TAPS.items():
        if f"{axis}_in" not in names:
            continue
        extent = names[f"{axis}_in"]
        step, pad, dilation = (names[f"{name}_{axis}"] for name in ("stride", "pad", "dilation"))
        own = "w" if axis == "l" else axis
        if transposed:
            found[f"x_{own}"] = spread(extent, names[taps], step, 2 * pad, dilation, names[f"output_pad_{axis}"])
        else:
            found[f"y_{own}"] = windows(extent, names[taps], step, 2 * pad, dilation)
    return found


def layout_of(call, p) -> tuple[list[int], list[int]] | bool | None:
    """Extents and strides of an operand of a convolution of any rank; None where the arguments do not determine them,
    False where the general rules hold."""
    if not {"input_shape", "filter_shape", "steps"} <= set(call.host):
        return False
    rank, last = call.scalars["rank"], call.scalars["channels_last"]
    if not 3 <= rank <= 5 or None in call.host.values() or last not in (0, 1):
        return None
    host = {name: entries[: rank if name.endswith("shape") else rank - 2] for name, entries in call.host.items()}
    transposed, groups = "output_padding" in host, call.scalars["groups"]
    channel, first = (rank - 1, 1) if last else (1, 2)
    outputs = host["filter_shape"][channel] * groups if transposed else host["filter_shape"][0]
    if p.shape == "out_channels":
        found = [outputs]
    elif " of " in p.shape or " spread " in p.shape:
        found = list(host["input_shape"])
        found[channel] = outputs
        numbers = ("steps", "padding", "padding_after", "dilation", *["output_padding"] * transposed)
        for d, (step, low, high, dilation, *more) in enumerate(zip(*(host[name] for name in numbers))):
            at = (found[first + d], host["filter_shape"][first + d], step, low + high, dilation)
            found[first + d] = spread(*at, *more) if transposed else windows(*at)
    else:
        found = list(host[p.shape.split(" ")[0]])
    return (found, [math.prod(found[d + 1 :]) for d in range(len(found))]) if min(found) >= 0 else None
