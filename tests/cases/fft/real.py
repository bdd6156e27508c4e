# SPDX-License-Identifier: Apache-2.0
"""fft_cosine, by matrices of its definition, and fft_convolve, by sums of products, in long double."""

import dataclasses
import itertools
import math

import numpy as np

from ..model import Bad, Case, Expected, Idle, Problem, strides_for
from .references import TWO_PI

# --- cosine and sine transforms --------------------------------------------------------------------------------------


def matrix_of(kind, is_sine, n, edge_in, edge_out):
    """The matrix of a transform of n elements, row by row of the result."""
    k, j = np.arange(n)[:, None], np.arange(n)[None, :]
    period = {1: 2 * (n + 1 if is_sine else n - 1), 2: 4 * n, 3: 4 * n, 4: 8 * n}[kind]
    s = int(is_sine)
    numerators = {
        1: (k + s) * (j + s), 2: (k + s) * (2 * j + 1), 3: (2 * k + 1) * (j + s), 4: (2 * k + 1) * (2 * j + 1)
    }[kind] % period  # fmt: skip
    angle = TWO_PI * numerators.astype(np.longdouble) / period
    found = 2 * (np.sin(angle) if is_sine else np.cos(angle))
    last = n - 1 if is_sine else 0
    if kind == 1 and not is_sine:
        found[:, [0, n - 1]] *= np.longdouble(edge_in) / 2
        found[[0, n - 1]] *= np.longdouble(edge_out)
    if kind == 2:
        found[last] *= np.longdouble(edge_out)
    if kind == 3:
        found[:, last] *= np.longdouble(edge_in) / 2
    return found


@dataclasses.dataclass(frozen=True)
class Cosine:
    shape: tuple[int, ...]
    axis: int
    length: int = 0
    x: dict = dataclasses.field(default_factory=dict)
    y: dict = dataclasses.field(default_factory=dict)
    scale: float = 1.0
    edge_in: float = 1.0
    edge_out: float = 1.0
    kinds: tuple[int, ...] = (1, 2, 3, 4)


COSINES = {
    "two": Cosine((3, 2), 1), "plain": Cosine((3, 12, 5), 1), "odd": Cosine((4, 9), 1), "prime": Cosine((3, 101), 1),
    "first": Cosine((30, 4), 0, scale=0.25), "cropped": Cosine((3, 20), 1, 7), "padded": Cosine((3, 7), 1, 20),
    "edges": Cosine((3, 10), 1, edge_in=2**0.5, edge_out=2**-0.5, scale=0.5),
    "strided": Cosine((4, 6, 7), 1, x={"order": (2, 0, 1), "flip": (1,)}, y={"order": (1, 2, 0), "gap": 2}),
    "broadcast": Cosine((4, 6), 1, x={"broadcast": (0,)}), "from_nothing": Cosine((3, 0), 1, 4),
    "long": Cosine((2, 500), 1), "large": Cosine((90, 64), 1), "power": Cosine((3, 256), 1),
    "power_edges": Cosine((128, 5), 0, edge_in=2**0.5, edge_out=2**-0.5, scale=0.5),
}  # fmt: skip


def cosine(draw, given, kind, is_sine):
    out = tuple([given.length or e if d == given.axis else e for d, e in enumerate(given.shape)])
    x, y = strides_for(given.shape, **given.x), strides_for(out, **given.y)
    host = {"input_shape": given.shape, "output_shape": out, "stride_x": x, "stride_y": y}
    scalars = {
        "rank": len(out), "fourier_axis": given.axis, "kind": kind, "is_sine": int(is_sine), "scale": given.scale,
        "edge_in": given.edge_in, "edge_out": given.edge_out,
    }  # fmt: skip
    return Problem(scalars, {"x": draw.values(given.shape, "normal", x), "y": draw.output(out, y)}, host)


def reference_of_cosine(problem):
    s, axis = problem.scalars, problem.scalars["fourier_axis"]
    n = problem.host["output_shape"][axis]
    x = np.moveaxis(problem.arrays["x"].values.astype(np.longdouble), axis, -1)[..., :n]
    matrix = matrix_of(s["kind"], s["is_sine"], n, s["edge_in"], s["edge_out"]) * np.longdouble(s["scale"])
    y = x @ matrix[:, : x.shape[-1]].T
    norm = np.sqrt(np.sum(x * x, -1, keepdims=True)) * abs(s["scale"]) * 4 * s["edge_in"]
    y, norm = np.moveaxis(y, -1, axis), np.moveaxis(np.broadcast_to(norm, y.shape), -1, axis)
    return {"y": Expected(y, 4 * n, norm)}


def cosine_case():
    kinds = itertools.product((1, 2, 3, 4), (False, True))
    problems = {
        f"{name}_{'dst' if is_sine else 'dct'}{kind}": lambda d, g=g, k=kind, s=is_sine: cosine(d, g, k, s)
        for kind, is_sine in kinds
        for name, g in COSINES.items()
    }
    problems |= {
        f"one_{'dst' if s else 'dct'}{k}": lambda d, k=k, s=s: cosine(d, Cosine((5, 1), 1), k, s)
        for k, s in ((1, True), (2, False), (2, True), (3, False), (3, True), (4, False), (4, True))
    }
    return Case(
        row="fft_cosine_{T}", problems=problems, reference=reference_of_cosine, tolerance={"y": "fourier"},
        plain="plain_dct2", large="large_dct2",
        bad=(
            Bad("kind_0", 2, r"kind is 0, must be in \[1, 4\]", {"kind": 0}, can=2),
            Bad("kind_5", 2, r"kind is 5", {"kind": 5}, can=2),
            Bad("axis_3", 2, r"fourier_axis is 3, must be in \[0, rank\), and rank is 3", {"fourier_axis": 3}, can=2),
            Bad("axis_negative", 2, r"fourier_axis is -1", {"fourier_axis": -1}, can=2),
            Bad("rank_9", 2, r"rank is 9", {"rank": 9}, can=2),
            Bad("other_extent", 2, r"output_shape\[0\] is 4, must be that of the input, 3",
                host={"output_shape": (4, 12, 5)}, can=2),
            Bad("negative_extent", 2, r"input_shape\[1\] is -1", host={"input_shape": (3, -1, 5)}, can=2),
            Bad("negative_result", 2, r"output_shape\[1\] is -2", host={"output_shape": (3, -2, 5)}, can=2),
            Bad("one_of_kind_1", 2, r"output_shape\[1\] is 1, must be >= 2", {"kind": 1},
                {"output_shape": (3, 1, 5)}, can=2),
            Bad("stride_0", 2, r"stride_y\[0\] is 0", host={"stride_y": (0, 5, 1)}, can=2),
            Bad("in_place", 2, r"y ", alias={"y": "x"}),
        ),
        idle=(Idle("no_rows", {}, {"input_shape": (0, 12, 5), "output_shape": (0, 12, 5)}),
              Idle("no_length", {}, {"input_shape": (3, 0, 5), "output_shape": (3, 0, 5)})),
    )  # fmt: skip


# --- convolution -----------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Convolution:
    """out has the extents of the window and starts where it begins, along the axes; by default it is the whole."""

    x: tuple[int, ...]
    w: tuple[int, ...]
    along: tuple[int, ...]
    starts: tuple[int, ...] = ()
    out: tuple[int, ...] = ()
    of_x: dict = dataclasses.field(default_factory=dict)
    of_w: dict = dataclasses.field(default_factory=dict)
    of_y: dict = dataclasses.field(default_factory=dict)


CONVOLUTIONS = {
    "one": Convolution((1,), (1,), (0,)),
    "plain": Convolution((3, 20, 4), (3, 5, 4), (1,)),
    "images": Convolution((2, 9, 12), (2, 3, 4), (1, 2)),
    "long_filter": Convolution((4,), (120,), (0,)),
    "same": Convolution((3, 15), (3, 6), (1,), (2,), (15,)),
    "valid": Convolution((15, 9), (6, 4), (0, 1), (5, 3), (10, 6)),
    "beyond": Convolution((2, 7), (2, 3), (1,), (-3,), (15,)),
    "outside": Convolution((2, 7), (2, 3), (1,), (20,), (4,)),
    "shared_filter": Convolution((5, 17), (1, 4), (1,)),
    "shared_input": Convolution((1, 17), (5, 4), (1,)),
    "both_spread": Convolution((3, 1, 11), (1, 4, 6), (2,)),
    "strided": Convolution((4, 10, 3), (4, 3, 3), (1,), of_x={"order": (2, 0, 1), "flip": (1,)}, of_w={"gap": 2},
                           of_y={"order": (1, 0, 2)}),
    "cube": Convolution((5, 6, 7), (2, 3, 4), (0, 1, 2)),
    "no_filter": Convolution((3, 5), (3, 0), (1,), (0,), (4,)),
    "segments": Convolution((2, 1, 700), (1, 3, 33), (2,)),
    "segments_of_window": Convolution((9, 300), (5, 1), (0,), (4,), (5,)),
    "longest_filter": Convolution((2500,), (2049,), (0,)), "longer_filter": Convolution((2500,), (2050,), (0,)),
    "large": Convolution((40, 300), (40, 50), (1,)),
}  # fmt: skip


def convolution(draw, given):
    window = iter(given.out or [max(given.x[d] + given.w[d] - 1, 0) for d in given.along])
    starts = dict(zip(given.along, given.starts or (0,) * len(given.along)))
    out = tuple([next(window) if d in given.along else max(a, b) for d, (a, b) in enumerate(zip(given.x, given.w))])
    strides = [strides_for(given.x, **given.of_x), strides_for(given.w, **given.of_w), strides_for(out, **given.of_y)]
    host = {
        "input_shape": given.x, "filter_shape": given.w, "output_shape": out,
        "fourier_axes": tuple([int(d in given.along) for d in range(len(out))]),
        "starts": tuple([starts.get(d, 0) for d in range(len(out))]),
        "stride_x": strides[0], "stride_w": strides[1], "stride_y": strides[2],
    }  # fmt: skip
    arrays = {
        "x": draw.values(given.x, "normal", strides[0]), "w": draw.values(given.w, "normal", strides[1]),
        "y": draw.output(out, strides[2]),
    }  # fmt: skip
    return Problem({"rank": len(out)}, arrays, host)


def reference_of_convolution(problem):
    host = problem.host
    x, w = (problem.arrays[name].values.astype(np.longdouble) for name in "xw")
    along = [d for d, is_along in enumerate(host["fourier_axes"]) if is_along]
    y = np.zeros(host["output_shape"], np.longdouble)
    for taps in itertools.product(*[range(w.shape[d]) for d in along]):
        at = [slice(None)] * x.ndim
        into, source = list(at), list(at)
        for d, tap in zip(along, taps):
            shift = tap - host["starts"][d]
            low, high = max(0, shift), min(y.shape[d], x.shape[d] + shift)
            at[d], into[d] = slice(tap, tap + 1), slice(low, max(low, high))
            source[d] = slice(low - shift, max(low, high) - shift)
        y[tuple(into)] += x[tuple(source)] * w[tuple(at)]
    norms = [np.sqrt(np.sum(each * each, tuple(along), keepdims=True)) for each in (x, w)]
    count = math.prod([x.shape[d] + w.shape[d] for d in along])
    return {"y": Expected(y, max(count, 1) ** 3, np.broadcast_to(norms[0] * norms[1], y.shape))}


def convolution_case():
    return Case(
        row="fft_convolve_{T}", problems={name: lambda d, g=g: convolution(d, g) for name, g in CONVOLUTIONS.items()},
        reference=reference_of_convolution, tolerance={"y": "fourier"}, plain="plain", large="large",
        bad=(
            Bad("rank_9", 2, r"rank is 9", {"rank": 9}, can=2),
            Bad("no_axis", 2, r"fourier_axes has no axis", host={"fourier_axes": (0, 0, 0)}, can=2),
            Bad("not_broadcast", 2, r"filter_shape\[0\] is 2, must be that of the input, 3, or 1",
                host={"filter_shape": (2, 5, 4)}, can=2),
            Bad("other_result", 2, r"output_shape\[2\] is 5, must be 4", host={"output_shape": (3, 24, 5)}, can=2),
            Bad("negative_extent", 2, r"input_shape\[1\] is -1", host={"input_shape": (3, -1, 4)}, can=2),
            Bad("negative_filter", 2, r"filter_shape\[1\] is -5", host={"filter_shape": (3, -5, 4)}, can=2),
            Bad("negative_result", 2, r"output_shape\[1\] is -2", host={"output_shape": (3, -2, 4)}, can=2),
            Bad("too_long", 2, r"filter_shape\[1\] is 2147483647", host={"filter_shape": (3, 2**31 - 1, 4)}, can=2),
            Bad("stride_0", 2, r"stride_y\[0\] is 0", host={"stride_y": (0, 4, 1)}, can=2),
            Bad("in_place_of_x", 2, r"y ", alias={"y": "x"}),
            Bad("in_place_of_w", 2, r"y ", alias={"y": "w"}),
        ),
        idle=(Idle("no_rows", {}, {"input_shape": (0, 20, 4), "filter_shape": (0, 5, 4), "output_shape": (0, 24, 4)}),
              Idle("no_window", {}, {"output_shape": (3, 0, 4)})),
    )  # fmt: skip


CASES = (cosine_case(), convolution_case())
