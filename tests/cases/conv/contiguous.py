# SPDX-License-Identifier: Apache-2.0
"""conv_{1,2,3}d and conv_transpose_{1,2,3}d in three directions: contiguous arrays, channels first."""

import dataclasses

import numpy as np

from ..model import Bad, Case, Expected, Idle, Problem
from .references import convolve, data_gradient, filter_gradient, spread_of, windows_of

AXES = {1: "l", 2: "hw", 3: "dhw"}
DIRECTIONS = ("fw", "bw_data", "bw_filter")


@dataclasses.dataclass(frozen=True)
class Layer:
    """Numbers of a problem; those of the axes have one for each."""

    batch: int
    c_in: int
    c_out: int
    spatial: tuple[int, ...]
    taps: tuple[int, ...]
    stride: tuple[int, ...] = ()
    pad: tuple[int, ...] = ()
    dilation: tuple[int, ...] = ()
    output_pad: tuple[int, ...] = ()
    groups: int = 1

    def __post_init__(self):
        for name, value in (("stride", 1), ("pad", 0), ("dilation", 1), ("output_pad", 0)):
            if not getattr(self, name):
                object.__setattr__(self, name, (value,) * len(self.spatial))

    @property
    def entries(self):
        return self.stride, self.pad, self.pad, self.dilation

    @property
    def rank(self):
        return len(self.spatial)

    def result(self, transposed):
        if transposed:
            return spread_of(self.spatial, self.taps, *self.entries, self.output_pad)
        return windows_of(self.spatial, self.taps, *self.entries)


LAYERS = {
    1: {
        "one": Layer(1, 1, 1, (1,), (1,)),
        "plain": Layer(2, 3, 5, (11,), (3,)),
        "padded": Layer(2, 4, 6, (19,), (5,), (2,), (2,), (2,), (1,), 2),
        "points": Layer(3, 20, 9, (70,), (1,)),
        "depthwise": Layer(2, 37, 37, (45,), (4,), (1,), (3,), groups=37),
        "all_padding": Layer(1, 2, 3, (1,), (3,), (2,), (4,)),
        "large": Layer(3, 24, 40, (260,), (3,), (1,), (1,)),
    },
    2: {
        "one": Layer(1, 1, 1, (1, 1), (1, 1)),
        "plain": Layer(2, 3, 4, (5, 7), (3, 2)),
        "padded": Layer(2, 6, 4, (9, 8), (3, 3), (2, 1), (1, 2), (1, 2), (1, 1), 2),
        "points": Layer(2, 33, 17, (6, 9), (1, 1)),
        "points_apart": Layer(1, 5, 6, (7, 9), (1, 1), (2, 3), (1, 0), (1, 1), (1, 2)),
        "depthwise": Layer(2, 21, 21, (13, 14), (3, 3), (1, 1), (1, 1), groups=21),
        "depthwise_steps": Layer(1, 9, 18, (15, 40), (5, 3), (2, 2), (2, 1), (1, 1), (1, 0), 9),
        "wide_steps": Layer(1, 3, 8, (16, 24), (4, 8), (4, 8)),
        "large": Layer(2, 16, 24, (30, 33), (3, 3), (1, 1), (1, 1)),
    },
    3: {
        "one": Layer(1, 1, 1, (1, 1, 1), (1, 1, 1)),
        "plain": Layer(2, 2, 3, (4, 5, 6), (2, 3, 2)),
        "padded": Layer(1, 4, 6, (5, 6, 4), (3, 2, 3), (2, 1, 3), (1, 0, 1), (1, 2, 1), (1, 1, 0), 2),
        "depthwise": Layer(1, 10, 10, (5, 6, 9), (3, 3, 3), (1, 1, 1), (1, 1, 1), groups=10),
        "large": Layer(2, 8, 12, (8, 9, 16), (3, 3, 3), (1, 1, 1), (1, 1, 1)),
    },
}  # fmt: skip


def names_of(rank):
    """C's names of the numbers of each axis."""
    taps = ["l_filt"] if rank == 1 else [f"k{a}" for a in AXES[rank]]
    return {
        "spatial": [f"{a}_in" for a in AXES[rank]], "result": [f"{a}_out" for a in AXES[rank]], "taps": taps,
        **{name: [f"{name}_{a}" for a in AXES[rank]] for name in ("stride", "pad", "dilation", "output_pad")},
    }  # fmt: skip


def layer_of(problem, rank):
    s, names = problem.scalars, names_of(rank)
    of = {name: tuple([s.get(each, 0) for each in names[name]])
          for name in ("spatial", "taps", "stride", "pad", "dilation", "output_pad")}  # fmt: skip
    return Layer(s["batch"], s["c_in"], s["c_out"], groups=s["groups"], **of)


def problem_of(draw, layer, direction, transposed, kind="normal"):
    names = names_of(layer.rank)
    given = {"batch": layer.batch, "c_in": layer.c_in, "c_out": layer.c_out, "groups": layer.groups}
    for name in ("spatial", "taps", "stride", "pad", "dilation", *["output_pad"] * transposed):
        given |= dict(zip(names[name], getattr(layer, name)))
    given |= dict.fromkeys(names["result"], -7)  # not read
    x, y = (layer.batch, layer.c_in, *layer.spatial), (layer.batch, layer.c_out, *layer.result(transposed))
    w = (layer.c_in, layer.c_out // layer.groups) if transposed else (layer.c_out, layer.c_in // layer.groups)
    w += layer.taps
    floats = {"input": x, "filter": w, "output": y, "grad_output": y, "grad_input": x, "grad_filter": w}
    reads, writes = {
        "fw": (("input", "filter"), "output"), "bw_data": (("grad_output", "filter"), "grad_input"),
        "bw_filter": (("input", "grad_output"), "grad_filter"),
    }[direction]  # fmt: skip
    # One factor of a product is ordinary: an overflow of finite products depends on the order of their sum.
    arrays = {name: draw.floats(floats[name], "normal" if name == reads[-1] else kind) for name in reads}
    arrays[writes] = draw.output(floats[writes])
    return Problem(given, arrays)


def value_of(layer, arrays, direction, transposed):
    at = (*layer.entries, layer.groups)
    if transposed:  # the convolution's x is the output
        result = layer.result(True)
        if direction == "fw":
            return data_gradient(arrays["input"], arrays["filter"], result, *at)
        if direction == "bw_data":
            y = convolve(arrays["grad_output"], arrays["filter"], *at)
            return y[(..., *[slice(0, e) for e in layer.spatial])]
        counts = windows_of(result, layer.taps, *layer.entries)
        padded = np.pad(arrays["input"], [(0, 0), (0, 0), *[(0, c - e) for c, e in zip(counts, layer.spatial)]])
        return filter_gradient(arrays["grad_output"], padded, layer.taps, *at)
    if direction == "fw":
        return convolve(arrays["input"], arrays["filter"], *at)
    if direction == "bw_data":
        return data_gradient(arrays["grad_output"], arrays["filter"], layer.spatial, *at)
    return filter_gradient(arrays["input"], arrays["grad_output"], layer.taps, *at)


def reference_of(rank, direction, transposed):
    def reference(problem):
        layer = layer_of(problem, rank)
        arrays = {name: array.values for name, array in problem.arrays.items() if array.values is not None}
        written = next(name for name, array in problem.arrays.items() if array.values is None)
        with np.errstate(invalid="ignore", over="ignore"):
            value = value_of(layer, arrays, direction, transposed)
            magnitude = value_of(layer, {n: np.abs(a) for n, a in arrays.items()}, direction, transposed)
        taps = int(np.prod(layer.taps))
        count = {
            "fw": layer.c_in // layer.groups * taps, "bw_data": layer.c_out // layer.groups * taps,
            "bw_filter": layer.batch * int(np.prod(layer.spatial if transposed else layer.result(False))),
        }[direction]  # fmt: skip
        return {written: Expected(value, count=count, magnitude=np.where(np.isnan(magnitude), 0, magnitude))}

    return reference


def bad_calls(rank, transposed):
    names, plain = names_of(rank), LAYERS[rank]["plain"]
    calls = [
        *(Bad(f"negative_{n}", 2, rf"{n} is -3, must be >= 0", {n: -3}, can=2) for n in ("batch", "c_in", "c_out")),
        *(
            Bad(f"negative_{n}", 2, rf"{n} is -1, must be >= 0", {n: -1}, can=2)
            for n in (*names["spatial"], *names["pad"])
        ),
        *(
            Bad(f"{n}_{value}", 2, rf"{n} is {value}, must be >= 1", {n: value}, can=2)
            for n in (*names["taps"], *names["stride"], *names["dilation"], "groups")
            for value in (0, -1)
        ),
        Bad("groups_of_c_in", 2, rf"groups is 7, must divide c_in, {plain.c_in}", {"groups": 7}, can=2),
        Bad("groups_of_c_out", 2, rf"groups is {plain.c_in}, must divide c_out, {plain.c_out}",
            {"groups": plain.c_in}, can=2),
    ]  # fmt: skip
    if transposed:
        calls += [
            *(
                Bad(f"more_{n}", 2, rf"{n} is 1, must be in \[0, 0\], below the larger of stride", {n: 1}, can=2)
                for n in names["output_pad"]
            ),
            *(Bad(f"negative_{n}", 2, rf"{n} is -1, must be in \[0, 0\]", {n: -1}, can=2) for n in names["output_pad"]),
            Bad("nothing_left", 2, rf"{names['taps'][0]} is \d: the result would have an extent of -?\d+",
                {names["pad"][0]: 50}, can=2),
            Bad("empty_axis", 2, rf"{names['spatial'][0]} is 0, must be >= 1", {names["spatial"][0]: 0}, can=2),
        ]  # fmt: skip
    else:
        calls += [
            Bad(
                f"wide_{n}",
                2,
                rf"{n} is 50: with dilation 1, \d+ elements and a padding of 0 and 0, no window",
                {n: 50},
                can=2,
            )
            for n in names["taps"]
        ]
    return tuple(calls)


def idle_calls(direction):
    """Nothing is written without images and channels, but for the sums over none."""
    if direction == "bw_filter":
        return (Idle("no_outputs", {"c_out": 0}), Idle("no_inputs", {"c_in": 0}))
    return (Idle("no_images", {"batch": 0}), Idle("no_results", {"c_out" if direction == "fw" else "c_in": 0}))


def sums_of_nothing(draw, layer, direction, transposed):
    """The result is 0 without summands."""
    if direction == "bw_filter":
        return problem_of(draw, dataclasses.replace(layer, batch=0), direction, transposed)
    none = {"fw": "c_in", "bw_data": "c_out"}[direction]
    return problem_of(draw, dataclasses.replace(layer, **{none: 0}, groups=1), direction, transposed)


def case(rank, direction, transposed):
    layers = LAYERS[rank]

    def maker(layer):
        return lambda draw: problem_of(draw, layer, direction, transposed)

    problems = {
        name: maker(layer)
        for name, layer in layers.items()
        if not transposed or min(layer.result(True)) > 0
    }  # fmt: skip
    problems["special"] = lambda draw: problem_of(draw, layers["plain"], direction, transposed, "special")
    problems["no_summands"] = lambda draw: sums_of_nothing(draw, layers["plain"], direction, transposed)
    written = {"fw": "output", "bw_data": "grad_input", "bw_filter": "grad_filter"}[direction]
    form = "_transpose" if transposed else ""
    return Case(
        row=f"conv{form}_{rank}d_{direction}_{{T}}", problems=problems,
        reference=reference_of(rank, direction, transposed), tolerance={written: "gemm"}, plain="plain", large="large",
        bad=bad_calls(rank, transposed), idle=idle_calls(direction),
    )  # fmt: skip


CASES = tuple(
    [case(rank, direction, transposed) for transposed in (False, True) for rank in AXES for direction in DIRECTIONS]
)
