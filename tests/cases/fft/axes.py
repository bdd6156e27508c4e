# SPDX-License-Identifier: Apache-2.0
"""fft_c2c, fft_r2c and fft_c2r: any axes, lengths and strides.

Errors of a transform of N elements grow with the logarithm of N, and with the 2-norm of what is added.
"""

import dataclasses
import math

import numpy as np

from ..model import Bad, Case, Expected, Idle, Problem, strides_for
from .references import interior_of, transform, whole_of


@dataclasses.dataclass(frozen=True)
class Given:
    """shape and out are extents of x and of the transform; along has the axes, the last of which is halved."""

    shape: tuple[int, ...]
    along: tuple[int, ...]
    out: tuple[int, ...] = ()
    x: dict = dataclasses.field(default_factory=dict)
    y: dict = dataclasses.field(default_factory=dict)
    inverse: int = 0
    scale: float = 1.0
    interior: float = 1.0
    onesided: int = 1
    kind: str = "normal"

    @property
    def lengths(self):
        return self.out or self.shape


PROBLEMS = {
    "one": Given((1,), (0,)),
    "plain": Given((3, 5, 8), (1, 2)),
    "rows": Given((5, 12), (1,), scale=1 / 12, inverse=1),
    "columns": Given((12, 37), (0,)),
    "many_rows": Given((150, 16), (1,)),
    "middle": Given((3, 30, 19), (1,), inverse=1),
    "all_radices": Given((2, 2 * 3 * 4 * 5 * 7), (1,)),
    "large_radices": Given((3, 11 * 13), (1,), inverse=1),
    "prime": Given((3, 61), (1,)),
    "chirp_prime": Given((2, 101), (1,), inverse=1),
    "chirp_columns": Given((97, 5), (0,)),
    "twice_a_prime": Given((3, 2 * 127), (1,)),
    "two_passes": Given((3, 500), (1,)),
    "two_passes_columns": Given((360, 7), (0,), inverse=1, scale=0.5),
    "cube": Given((6, 10, 9), (0, 1, 2)),
    "any_order": Given((6, 10, 9), (2, 0)),
    "first_is_half": Given((6, 10, 9), (2, 1, 0)),
    "cropped": Given((5, 20), (1,), (5, 13)),
    "padded": Given((5, 13), (1,), (5, 20)),
    "cropped_and_padded": Given((7, 12, 10), (0, 1, 2), (9, 5, 16), inverse=1),
    "padded_far": Given((2, 3), (1,), (2, 600)),
    "padded_prime": Given((3, 40), (1,), (3, 107)),
    "cropped_prime": Given((4, 150), (1,), (4, 107)),
    "to_one": Given((4, 6), (1,), (4, 1)),
    "from_nothing": Given((3, 0), (1,), (3, 4)),
    "reversed": Given((5, 24), (1,), x={"flip": (0, 1)}, y={"flip": (1,)}),
    "permuted": Given((4, 9, 10), (0, 2), x={"order": (2, 0, 1)}, y={"order": (1, 2, 0)}),
    "gaps": Given((4, 25), (1,), x={"gap": 3}, y={"gap": 2, "pad": 3}),
    "broadcast": Given((4, 6, 8), (1, 2), x={"broadcast": (0,)}),
    "broadcast_fiber": Given((4, 8), (1,), x={"broadcast": (1,)}),
    "rank8": Given((2, 1, 3, 1, 2, 1, 2, 4), (0, 2, 4, 7)),
    "long": Given((2, 8192), (1,), scale=1 / 8192),
    "long_odd": Given((1, 3**8 + 0), (1,), inverse=1),
    "long_columns": Given((4800, 3), (0,)),
    "long_prime": Given((1, 4099), (1,), scale=0.25),
    "interior": Given((3, 6, 10), (1, 2), interior=2.0),
    "interior_odd": Given((3, 9), (1,), inverse=1, interior=0.5, scale=3.0),
    "interior_long": Given((2, 1200), (1,), interior=2.0),
    "twosided": Given((5, 12), (1,), onesided=0),
    "twosided_axes": Given((5, 12, 7), (2, 0), onesided=0, inverse=1),
    "twosided_long": Given((2, 900), (1,), onesided=0),
    "twosided_chirp": Given((2, 103), (1,), (2, 109), onesided=0),
    "special": Given((24, 10), (1,), kind="special"),
    "special_columns": Given((67, 20), (0,), kind="special"),
    "large": Given((70, 9, 64), (1, 2)),
}  # fmt: skip


def halved(shape, axis, n):
    return tuple([n // 2 + 1 if d == axis and n else e for d, e in enumerate(shape)])


def problem_of(draw, given, form):
    shape, out, half = given.shape, given.lengths, given.along[-1]
    n, onesided = out[half], given.onesided
    if form == "c2r" and onesided and 0 not in shape:
        # The extents of x are such that it is cropped or padded as in the other forms.
        shape = tuple([max(1, e // 2 + 1 + (e > n)) if d == half else e for d, e in enumerate(shape)])
    result = halved(out, half, n) if form == "r2c" and onesided else out
    x = strides_for(shape, **given.x)
    y = strides_for(result, **given.y)
    other = {"c2c": draw.dtype, "r2c": {"f32": "c32", "f64": "c64"}, "c2r": {"c32": "f32", "c64": "f64"}}[form]
    dtype = other if form == "c2c" else other[draw.dtype]
    flags = tuple([int(d in given.along) for d in range(len(shape))])
    host = {"input_shape": shape, "output_shape": result, "fourier_axes": flags, "stride_x": x, "stride_y": y}
    scalars = {"rank": len(shape), "inverse": given.inverse, "scale": given.scale}
    if form != "c2c":
        scalars |= {"half_axis": half, "onesided": onesided, "interior": given.interior}
    if form == "r2c":
        scalars["length"] = n
    arrays = {"x": draw.values(shape, given.kind, x), "y": draw.output(result, y, dtype)}
    return Problem(scalars, arrays, host)


def reference_of(form):
    def reference(problem):
        s, x, out = problem.scalars, problem.arrays["x"].values, problem.host["output_shape"]
        axes = [d for d, is_along in enumerate(problem.host["fourier_axes"]) if is_along]
        lengths = {d: s["length"] if form == "r2c" and d == s["half_axis"] else out[d] for d in axes}
        with np.errstate(invalid="ignore", over="ignore"):
            y = np.asarray(x, np.clongdouble)
            if form == "c2r" and s["onesided"]:
                half = s["half_axis"]
                inside = interior_of(y.shape, half, lengths[half])
                y = np.where(inside, y * s["interior"], y) if s["interior"] != 1 else y
                for d in [d for d in axes if d != half]:
                    y = transform(y, d, lengths[d], s["inverse"])
                y = transform(whole_of(y, half, lengths[half]), half, lengths[half], s["inverse"])
            else:
                for d in axes:
                    y = transform(y, d, lengths[d], s["inverse"])
            if form == "r2c" and s["onesided"]:
                y = np.take(y, range(out[s["half_axis"]]), s["half_axis"])
                y = np.where(interior_of(y.shape, s["half_axis"], s["length"]), y * s["interior"], y)
            y = (y.real if form == "c2r" else y) * s["scale"]
            read = np.asarray(x, np.clongdouble)
            if form == "c2r" and s["onesided"] and len(axes) == 1:  # two imaginary parts are not read
                read = whole_of(read, axes[0], lengths[axes[0]])
            norm = np.sqrt(np.sum(np.abs(read) ** 2, tuple(axes), keepdims=True))
        factor = abs(s["scale"]) * max(1, s.get("interior", 1)) * (2 if form == "c2r" and s["onesided"] else 1)
        return {"y": Expected(y, math.prod(lengths.values()), np.broadcast_to(norm * factor, y.shape))}

    return reference


X = {"c2c": (3, 5, 8), "r2c": (3, 5, 8), "c2r": (3, 5, 5)}  # the extents of `plain`


def bad_calls(form):
    calls = [
        Bad("rank_9", 2, r"rank is 9", {"rank": 9}, can=2),
        Bad("no_axis", 2, r"fourier_axes has no axis",
            host={"fourier_axes": (0, 0, 0), "output_shape": X[form]}, can=2),
        Bad("other_extent", 2, r"output_shape\[0\] is 4, must be that of the input, 3",
            host={"output_shape": (4, 5, 8)}, can=2),
        Bad("negative_extent", 2, r"input_shape\[1\] is -1", host={"input_shape": (3, -1, 8)}, can=2),
        Bad("negative_result", 2, r"output_shape\[1\] is -2", host={"output_shape": (3, -2, 8)}, can=2),
        Bad("stride_0", 2, r"stride_y\[0\] is 0", host={"stride_y": (0, 8, 1)}, can=2),
        Bad("too_many", 2, r"input_shape has more than 2\^47", host={"input_shape": (3, 2**31 - 1, 2**31 - 1)}, can=2),
    ]  # fmt: skip
    if form != "c2c":
        calls += [
            Bad("half_axis_3", 2, r"half_axis is 3, must be one of fourier_axes", {"half_axis": 3}, can=2),
            Bad("half_axis_0", 2, r"half_axis is 0, must be one of fourier_axes", {"half_axis": 0}, can=2),
            Bad("half_axis_negative", 2, r"half_axis is -1", {"half_axis": -1}, can=2),
            Bad("in_place", 2, r"y ", alias={"y": "x"}),
        ]
    if form == "r2c":
        calls += [
            Bad("length_negative", 2, r"length is -1", {"length": -1}, can=2),
            Bad("length_10", 2, r"output_shape\[2\] is 5, must be 6 of length 10", {"length": 10}, can=2),
            Bad("length_twosided", 2, r"output_shape\[2\] is 5, must be 8 of length 8", {"onesided": 0}, can=2),
        ]
    return tuple(calls)


def case(form):
    problems = {name: lambda d, g=g: problem_of(d, g, form) for name, g in PROBLEMS.items()}
    if form == "c2c":
        problems = {name: make for name, make in problems.items() if not name.startswith(("interior", "twosided"))}
    empty = {"input_shape": (0, 5, 8), "output_shape": (0, 5, 5 if form == "r2c" else 8)}
    none = {"input_shape": (3, 0, 8), "output_shape": (3, 0, 5 if form == "r2c" else 8)}
    return Case(
        row=f"fft_{form}_{{T}}", problems=problems, reference=reference_of(form), tolerance={"y": "fourier"},
        plain="plain", large="large", bad=bad_calls(form),
        idle=(Idle("no_rows", {}, empty), Idle("no_length", {}, none)),
    )  # fmt: skip


CASES = tuple([case(form) for form in ("c2c", "r2c", "c2r")])
