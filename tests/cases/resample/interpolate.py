# SPDX-License-Identifier: Apache-2.0
"""interpolate and its gradient, with every mode and option."""

import math

import numpy as np

from ..model import Bad, Case, Expected, Idle, Problem, strides_for
from .matrices import (
    AREA,
    BOX,
    CUBIC,
    FILTERS,
    HAMMING,
    LANCZOS,
    LINEAR,
    NEAREST,
    NEAREST_EXACT,
    applied,
    blurred,
    matrix,
    of_bytes,
)

LAST = {"order": (0, 2, 3, 1)}  # channels last
PROBLEMS = {  # input shape, spatial extents of the output, mode, options and layouts
    "one": ((1, 1, 1), (1,), LINEAR, {}),
    "plain": ((2, 3, 5, 7), (9, 11), LINEAR, {}),
    "twice": ((2, 3, 5, 8), (10, 16), LINEAR, {}),
    "half": ((2, 9, 12, 10), (6, 5), LINEAR, {}),
    "aligned": ((2, 3, 5, 7), (9, 4), LINEAR, {"align": True}),
    "aligned_to_one": ((1, 2, 5, 1), (1, 6), LINEAR, {"align": True}),
    "line": ((3, 4, 33), (70,), LINEAR, {}),
    "volume": ((1, 3, 4, 5, 6), (7, 3, 9), LINEAR, {}),
    "volume_aligned": ((1, 2, 3, 4, 5), (4, 4, 8), LINEAR, {"align": True}),
    "factor": ((1, 3, 5, 7), (12, 15), LINEAR, {"scale": (0.0, 2.5, 2.2)}),
    "factor_far": ((1, 2, 6, 5), (9, 8), LINEAR, {"scale": (0.0, 0.25, 40.0)}),
    "factor_aligned": ((1, 2, 6, 5), (9, 8), LINEAR, {"align": True, "scale": (0.0, 1.5, 0.0)}),
    "nearest": ((2, 3, 5, 7), (9, 3), NEAREST, {}),
    "nearest_line": ((2, 3, 10), (23,), NEAREST, {}),
    "nearest_volume": ((1, 2, 3, 4, 5), (5, 7, 3), NEAREST, {}),
    "nearest_factor": ((1, 2, 7, 5), (10, 11), NEAREST, {"scale": (0.0, 1.5, 2.25)}),
    "exact": ((2, 3, 5, 7), (9, 3), NEAREST_EXACT, {}),
    "exact_factor": ((1, 2, 7, 5), (10, 11), NEAREST_EXACT, {"scale": (0.0, 1.5, 2.25)}),
    "cubic": ((2, 3, 5, 7), (9, 11), CUBIC, {}),
    "cubic_small": ((1, 2, 2, 3), (7, 1), CUBIC, {}),
    "cubic_aligned": ((1, 2, 6, 5), (4, 12), CUBIC, {"align": True, "a": -0.5}),
    "cubic_volume": ((1, 2, 4, 5, 3), (3, 8, 5), CUBIC, {}),
    "area": ((2, 3, 9, 7), (4, 3), AREA, {}),
    "area_up": ((1, 3, 3, 4), (7, 9), AREA, {}),
    "area_line": ((2, 3, 100), (7,), AREA, {}),
    "area_one": ((2, 3, 9, 8), (1, 1), AREA, {}),
    "smooth": ((2, 3, 17, 23), (5, 7), LINEAR, {"antialias": True}),
    "smooth_up": ((1, 3, 5, 6), (9, 7), LINEAR, {"antialias": True}),
    "smooth_aligned": ((1, 2, 9, 8), (4, 3), LINEAR, {"antialias": True, "align": True}),
    "smooth_cubic": ((1, 3, 17, 9), (5, 9), CUBIC, {"antialias": True, "a": -0.5}),
    "smooth_line": ((2, 3, 50), (9,), CUBIC, {"antialias": True, "a": -0.5}),
    "smooth_volume": ((1, 2, 7, 6, 9), (3, 4, 4), LINEAR, {"antialias": True}),
    "smooth_factor": ((1, 2, 12, 9), (5, 4), LINEAR, {"antialias": True, "scale": (0.0, 0.45, 0.5)}),
    "lanczos": ((1, 3, 15, 14), (6, 21), LANCZOS, {}),
    "box": ((1, 2, 12, 9), (5, 11), BOX, {}),
    "hamming": ((1, 2, 12, 9), (5, 11), HAMMING, {}),
    "same": ((1, 3, 4, 5), (4, 5), LANCZOS, {}),
    "channels_last": ((2, 37, 5, 6), (8, 11), LINEAR, {"x": LAST, "y": LAST}),
    "to_channels_last": ((2, 5, 7, 6), (3, 4), LINEAR, {"y": LAST, "antialias": True}),
    "channels_last_area": ((1, 9, 7, 6), (3, 4), AREA, {"x": LAST, "y": LAST}),
    "flipped": ((2, 3, 5, 7), (6, 9), CUBIC, {"x": {"flip": (2, 3)}, "y": {"flip": (1,)}}),
    "gaps": ((2, 3, 5, 7), (6, 9), NEAREST, {"x": {"gap": 2, "pad": 3}, "y": {"gap": 3}}),
    "large": ((3, 20, 33, 31), (64, 66), LINEAR, {}),
}
BYTES_EXACT = ("lanczos", "hamming")  # sines of NumPy and C differ by a bit: those of bytes are compared elsewhere


def scalars_of(shape, out, mode, options, count):
    scale = options.get("scale", (0.0, 0.0, 0.0))
    return {
        count: math.prod(shape if count == "input_numel" else (*shape[:2], *out)), "rank": len(shape),
        **dict(zip(("scale_z", "scale_y", "scale_x"), scale)), "resample_mode": mode,
        "align_corners": int(options.get("align", False)), "antialias": int(options.get("antialias", False)),
        "cubic_a": options.get("a", -0.75),
    }  # fmt: skip


def forward(draw, shape, out, mode, options, kind="normal"):
    large = (*shape[:2], *out)
    x, y = strides_for(shape, **options.get("x", {})), strides_for(large, **options.get("y", {}))
    host = {"input_shape": shape, "output_shape": large, "stride_x": x, "stride_y": y}
    arrays = {"x": draw.values(shape, kind, x), "y": draw.output(large, y)}
    return Problem(scalars_of(shape, out, mode, options, "output_numel"), arrays, host)


def backward(draw, shape, out, mode, options, kind="normal"):
    large = (*shape[:2], *out)
    dx, dy = strides_for(shape, **options.get("x", {})), strides_for(large, **options.get("y", {}))
    host = {"input_shape": shape, "output_shape": large, "stride_dy": dy, "stride_dx": dx}
    arrays = {"dy": draw.values(large, kind, dy), "dx": draw.output(shape, dx)}
    return Problem(scalars_of(shape, out, mode, options, "input_numel"), arrays, host)


def matrices_of(problem):
    s, small, large = problem.scalars, problem.host["input_shape"], problem.host["output_shape"]
    scales = (s["scale_z"], s["scale_y"], s["scale_x"])[5 - len(small) :]
    return [
        matrix(s["resample_mode"], n, m, bool(s["align_corners"]), factor, s["cubic_a"], bool(s["antialias"]))
        for n, m, factor in zip(small[2:], large[2:], scales)
    ]


def expected(of, x, mode):
    """A sum of weighted elements, with its error bound."""
    if (
        mode in (NEAREST, NEAREST_EXACT)
        and all((each.sum(1) == 1).all() for each in of)
        and x.shape[-1] == of[-1].shape[1]
    ):
        rows = [each.argmax(1) for each in of]
        return Expected(x[(slice(None), slice(None), *np.ix_(*rows))])
    summands = sum(int((each != 0).sum(1).max(initial=0)) for each in of)
    with np.errstate(invalid="ignore"):
        magnitude = applied(blurred(of), np.abs(x))
    return Expected(applied(of, x), 16 + 2 * summands, magnitude)


def reference(problem):
    of, x, mode = matrices_of(problem), problem.arrays["x"], problem.scalars["resample_mode"]
    if x.dtype == "u8":
        return {"y": Expected(of_bytes(of, x.values))}
    return {"y": expected(of, x.values, mode)}


def reference_backward(problem):
    of = [each.T for each in matrices_of(problem)]
    dy = problem.arrays["dy"].values
    summands = math.prod(max(int((each != 0).sum(1).max(initial=0)), 1) for each in of)
    return {"dx": Expected(applied(of, dy), 16 + 2 * summands, applied(blurred(of), np.abs(dy)))}


def bad(count, arrays, first, last):
    large, small = (2, 3, 9, 11), (2, 3, 5, 7)
    yield Bad("negative", 2, rf"{count} is -2", {count: -2}, can=2)
    yield Bad("count_wrong", 2, rf"{count} is 17\b", {count: 17}, can=2)
    yield from (Bad(f"rank_{r}", 2, rf"rank is {r}", {"rank": r}, can=2) for r in (-1, 2, 6))
    yield from (Bad(f"null_{h}", 2, rf"{h} is NULL", host={h: None}, can=2)
                for h in ("input_shape", "output_shape", first, last))  # fmt: skip
    yield Bad("extent_negative", 2, r"input_shape\[2\] is -3", host={"input_shape": (2, 3, -3, 7)}, can=2)
    yield Bad("other_batch", 2, r"output_shape\[0\] is 1", host={"output_shape": (1, *large[1:])}, can=2)
    yield Bad("other_channels", 2, r"output_shape\[1\] is 4", host={"output_shape": (2, 4, 9, 11)}, can=2)
    yield Bad("from_nothing", 2, r"input_shape\[3\] is 0", host={"input_shape": (*small[:3], 0)}, can=2)
    yield from (Bad(f"mode_{m}", 2, rf"resample_mode is {m}", {"resample_mode": m}, can=2) for m in (-1, 8))
    yield from (Bad(f"{f}_2", 2, rf"{f} is 2", {f: 2}, can=2) for f in ("align_corners", "antialias"))
    yield Bad("aligned_nearest", 2, r"align_corners is 1", {"align_corners": 1, "resample_mode": 0}, can=2)
    yield Bad("smooth_nearest", 2, r"antialias is 1", {"antialias": 1, "resample_mode": 1}, can=2)
    yield Bad("a_nan", 2, r"cubic_a is -?nan", {"cubic_a": math.nan}, can=2)
    yield from (Bad(f"scale_{v}", 2, rf"scale_{axis} is", {f"scale_{axis}": v}, can=2)
                for axis, v in (("x", -1.0), ("y", math.nan), ("x", math.inf)))  # fmt: skip
    yield Bad("scale_of_volumes", 2, r"scale_z is -2", {"scale_z": -2.0}, can=2, of="smooth_volume")
    yield Bad("no_workspace", 4, r"workspace", {"antialias": 1}, short=True)
    yield from (Bad(f"null_{a}", 2, rf"{a} is NULL", null=(a,)) for a in arrays)
    yield from (Bad(f"odd_{a}", 1, rf"{a} is 0x[0-9a-f]+", shift={a: 1}) for a in arrays)
    yield from (Bad(f"far_{s}", 2, rf"{s}\[0\] is {2**61}", host={s: (2**61, 9, 1, 1)}, can=2) for s in (first, last))
    yield Bad("still", 2, rf"{last}\[0\] is 0", host={last: (0, 99, 11, 1)}, can=2)


def of_floats(make, given, **options):
    return lambda draw: make(draw, *given, **options)


def or_bytes(make, name, given):
    """Filters whose weights are sines are replaced by a cubic one for bytes."""

    def problem(draw):
        shape, out, mode, options = given
        return make(
            draw, shape, out, CUBIC if draw.dtype == "u8" and mode in FILTERS and mode != BOX else mode, options
        )

    return problem


CASES = (
    Case(
        row="interpolate_{T}",
        problems={name: or_bytes(forward, name, given) for name, given in PROBLEMS.items()}
        | {
            "special": of_floats(forward, ((2, 3, 5, 6), (10, 12), LINEAR, {}), kind="special"),
            "special_nearest": of_floats(forward, ((2, 3, 5, 6), (7, 3), NEAREST, {}), kind="special"),
            "broadcast": of_floats(forward, ((4, 3, 5, 6), (7, 9), LINEAR, {"x": {"broadcast": (0,)}})),
        },
        reference=reference, tolerance={"y": "pointwise"}, plain="plain", large="large",
        bad=tuple(bad("output_numel", ("x", "y"), "stride_x", "stride_y")),
        idle=(
            Idle("no_images", {"output_numel": 0}, {"input_shape": (0, 3, 5, 7), "output_shape": (0, 3, 9, 11)}),
            Idle("no_rows", {"output_numel": 0}, {"output_shape": (2, 3, 0, 11)}),
        ),
    ),
    Case(
        row="interpolate_backward_{T}",
        problems={name: of_floats(backward, given) for name, given in PROBLEMS.items()}
        | {
            "special": of_floats(backward, ((2, 3, 5, 6), (10, 12), LINEAR, {}), kind="special"),
            "from_nothing": of_floats(backward, ((2, 3, 5, 6), (0, 12), LINEAR, {})),
        },
        reference=reference_backward, tolerance={"dx": "pointwise"}, plain="plain", large="large",
        bad=tuple(bad("input_numel", ("dy", "dx"), "stride_dy", "stride_dx")),
        idle=(Idle("no_images", {"input_numel": 0}, {"input_shape": (0, 3, 5, 7), "output_shape": (0, 3, 9, 11)}),),
    ),
)  # fmt: skip
