# SPDX-License-Identifier: Apache-2.0
"""convolution, its gradients and its transpose: any rank and layout, a padding for each side, an epilogue."""

import dataclasses

import numpy as np

from ..gemm.gemm import ACTIVATIONS
from ..model import Bad, Case, Expected, Idle, Problem
from .references import convolve, data_gradient, filter_gradient, spread_of, to_first, to_last, windows_of

NAMES = ("", "relu", "gelu", "silu", "gelu_tanh")


@dataclasses.dataclass(frozen=True)
class General:
    """A call. c is "given", "result" for NULL, which is y, or "" for beta 0."""

    batch: int
    inputs: int  # channels of a group
    outputs: int
    spatial: tuple[int, ...]
    taps: tuple[int, ...]
    steps: tuple[int, ...] = ()
    before: tuple[int, ...] = ()
    after: tuple[int, ...] = ()
    dilation: tuple[int, ...] = ()
    output_padding: tuple[int, ...] = ()
    groups: int = 1
    layout: int = 0
    activation: int = 0
    alpha: float = 1.0
    beta: float = 0.0
    bias: bool = False
    z: bool = False
    c: bool = False
    kind: str = "normal"
    allow_tf32: bool = False  # of quarters, whose products TF32 has exactly

    def __post_init__(self):
        for name, value in (("steps", 1), ("before", 0), ("after", 0), ("dilation", 1), ("output_padding", 0)):
            if not getattr(self, name):
                object.__setattr__(self, name, (value,) * len(self.spatial))

    @property
    def entries(self):
        return self.steps, self.before, self.after, self.dilation

    def in_memory(self, first, spatial, channels):
        return (first, *spatial, channels) if self.layout else (first, channels, *spatial)


BOTH = {
    "one": General(1, 1, 1, (1,), (1,)),
    "plain": General(2, 3, 4, (5, 7), (3, 2), beta=0.5, c=True, bias=True, z=True),
    "bare": General(2, 3, 4, (5, 7), (3, 2)),
    "last": General(2, 3, 4, (5, 7), (3, 2), layout=1, bias=True),
    "groups": General(2, 3, 2, (9, 8), (3, 3), (2, 1), (1, 2), (0, 1), (1, 2), groups=2, bias=True),
    "groups_last": General(2, 3, 2, (9, 8), (3, 3), (2, 1), (1, 2), (0, 1), (1, 2), groups=2, layout=1),
    "depthwise": General(2, 1, 1, (12, 37), (3, 3), (1, 1), (1, 1), (1, 1), groups=19, bias=True),
    "depthwise_last": General(2, 1, 1, (12, 37), (3, 3), (1, 1), (1, 1), (1, 1), groups=39, layout=1, bias=True),
    "depthwise_vectors": General(2, 1, 1, (12, 37), (3, 2), (1, 1), (1, 1), (1, 1), groups=40, layout=1, bias=True),
    "depthwise_points": General(2, 1, 1, (6, 7), (1, 1), groups=24, layout=1, bias=True),
    "depthwise_steps_vectors": General(1, 1, 1, (13, 26), (3, 5), (2, 2), (1, 2), (1, 2), groups=16, layout=1),
    "depthwise_steps": General(1, 1, 1, (13, 16), (3, 5), (2, 2), (1, 2), (1, 2), groups=67, layout=1),
    "multiplied": General(1, 1, 3, (13, 16), (3, 5), (2, 2), (1, 2), (1, 2), groups=5, layout=1),
    "causal": General(2, 1, 1, (50,), (4,), (1,), (3,), groups=70, layout=1, bias=True, activation=3),
    "causal_first": General(2, 1, 1, (50,), (4,), (1,), (3,), groups=33, bias=True, activation=3),
    "points": General(2, 33, 17, (6, 9), (1, 1), layout=1, bias=True, activation=1),
    "steps": General(1, 9, 12, (15, 18), (3, 3), (3, 2), (1, 0), (2, 1), layout=1, alpha=0.5, beta=-1.5, c=True),
    "adds": General(1, 5, 6, (8, 9), (3, 3), before=(1, 1), after=(1, 1), alpha=-2.0, beta=0.75),
    "volume": General(1, 4, 6, (4, 5, 6), (3, 2, 3), (1, 2, 1), (1, 0, 2), (1, 1, 0), bias=True, z=True, activation=2),
    "volume_last": General(
        1, 4, 6, (4, 5, 6), (3, 2, 3), (1, 2, 1), (1, 0, 2), (1, 1, 0), layout=1, activation=4, z=True
    ),
    "special": General(2, 3, 4, (5, 7), (3, 2), kind="special", bias=True),
    "no_summands": General(2, 0, 4, (5, 7), (3, 2), bias=True),
    "large": General(
        2, 16, 24, (30, 33), (3, 3), before=(1, 1), after=(1, 1), bias=True, activation=2, beta=-0.5, c=True
    ),
    "large_last": General(2, 16, 24, (30, 33), (3, 3), before=(1, 1), after=(1, 1), layout=1, bias=True),
    # Problems that choose kernels of a GPU: slices of K, padded channels, slices of depthwise sums, TF32.
    "slices": General(1, 136, 24, (5, 6), (3, 3), before=(1, 1), after=(1, 1), layout=1, bias=True, activation=3),
    "padded": General(2, 20, 36, (20, 21), (3, 3)),
    "depthwise_slices": General(2, 1, 1, (40, 37), (7, 7), (1, 1), (3, 3), (3, 3), groups=24, layout=1, bias=True),
    "tf32": General(2, 20, 12, (9, 8), (3, 3), (2, 1), (1, 2), (0, 1), layout=1, bias=True, allow_tf32=True),
    "tf32_first": General(2, 16, 24, (30, 33), (3, 3), before=(1, 1), after=(1, 1), allow_tf32=True),
}  # fmt: skip
# Tiles of 128 x 128 of each direction.
FORWARD_TILES = General(4, 16, 136, (48, 44), (1, 1), layout=1, bias=True)
DATA_TILES = General(4, 136, 16, (48, 44), (1, 1), layout=1)
FILTER_TILES = General(1, 512, 512, (2, 2), (3, 3), before=(1, 1), after=(1, 1), layout=1)
SPREAD = {
    "spread": General(2, 3, 4, (5, 6), (3, 2), (2, 3), (1, 0), (0, 1), (1, 1), (1, 2), layout=1, bias=True),
    "dilated": General(1, 4, 3, (7,), (3,), (1,), (1,), (2,), (3,), (2,), groups=2),
}


def operand(draw, call, shape, kind="normal"):
    """x, w or dy."""
    if not call.allow_tf32:
        return draw.floats(shape, kind)
    return draw.array(np.rint(4 * draw.rng.standard_normal(shape)) / 4, draw.dtype)


def shapes_of(call, transposed):
    x = call.in_memory(call.batch, call.spatial, call.inputs * call.groups)
    if transposed:
        result = spread_of(call.spatial, call.taps, *call.entries, call.output_padding)
        return x, call.in_memory(call.inputs * call.groups, call.taps, call.outputs), result
    result = windows_of(call.spatial, call.taps, *call.entries)
    return x, call.in_memory(call.outputs * call.groups, call.taps, call.inputs), result


def numbers_of(draw, call, transposed):
    x, w, _ = shapes_of(call, transposed)
    scalars = {"rank": len(x), "groups": call.groups, "channels_last": call.layout, "allow_tf32": int(call.allow_tf32)}
    scalars |= {"alpha": call.alpha, "beta": call.beta}
    names = ("steps", "padding", "padding_after", "dilation")
    host = {"input_shape": x, "filter_shape": w, **dict(zip(names, call.entries))}
    return scalars, host | ({"output_padding": call.output_padding} if transposed else {})


def forward(draw, call, transposed=False):
    x, w, result = shapes_of(call, transposed)
    scalars, host = numbers_of(draw, call, transposed)
    channels = call.outputs * call.groups
    y = call.in_memory(call.batch, result, channels)
    arrays = {
        "x": operand(draw, call, x, call.kind),
        "w": operand(draw, call, w),  # products of finite numbers must not overflow, whose sums depend on their order
        "bias": draw.floats((channels,), call.kind),
    }
    arrays |= {"c": draw.floats(y, call.kind), "z": draw.output(y)}
    # A NULL c is y; what y holds then cannot be told by a case, and the call has beta 0.
    scalars["beta"] = call.beta if call.c else 0.0
    null = tuple([name for name in ("c", "bias", "z") if not getattr(call, name)])
    return Problem(scalars | {"activation": call.activation}, arrays | {"y": draw.output(y)}, host, null=null)


def backward_data(draw, call):
    x, w, result = shapes_of(call, False)
    scalars, host = numbers_of(draw, call, False)
    dy = call.in_memory(call.batch, result, call.outputs * call.groups)
    arrays = {"dy": operand(draw, call, dy, call.kind), "w": operand(draw, call, w), "dx": draw.output(x)}
    return Problem(scalars | {"beta": 0.0}, arrays, host)


def backward_filter(draw, call):
    x, w, result = shapes_of(call, False)
    scalars, host = numbers_of(draw, call, False)
    channels = call.outputs * call.groups
    dy = call.in_memory(call.batch, result, channels)
    arrays = {"x": operand(draw, call, x, call.kind), "dy": operand(draw, call, dy), "dw": draw.output(w)}
    null = () if call.bias else ("dbias",)
    return Problem(scalars | {"beta": 0.0}, arrays | {"dbias": draw.output((channels,))}, host, null=null)


# --- references -------------------------------------------------------------------------------------------------------


def read(problem):
    """Arrays with channels first by name, the entries, groups, and the function that restores the layout."""
    is_last = problem.scalars["channels_last"] == 1
    arrays = {}
    for name, array in problem.arrays.items():
        if array.values is not None and name not in problem.null:
            arrays[name] = array.values if name in ("bias", "scale") or not is_last else to_first(array.values)
    entries = [problem.host[name] for name in ("steps", "padding", "padding_after", "dilation")]
    return arrays, entries, problem.scalars["groups"], to_last if is_last else (lambda value: value)


def spatial_of(problem, name):
    shape = problem.host[name]
    return shape[1:-1] if problem.scalars["channels_last"] else shape[2:]


def inputs_of(problem, name):
    shape = problem.host[name]
    return shape[-1] if problem.scalars["channels_last"] else shape[1]


def reference_of_forward(transposed):
    def reference(problem):
        arrays, entries, groups, restore = read(problem)
        s = problem.scalars
        shape = (1, -1, *[1] * (s["rank"] - 2))

        def of(x, w):
            if not transposed:
                return convolve(x, w, *entries, groups)
            result = spread_of(x.shape[2:], w.shape[2:], *entries, problem.host["output_padding"])
            return data_gradient(x, w, result, *entries, groups)

        with np.errstate(invalid="ignore", over="ignore"):
            z = s["alpha"] * of(arrays["x"], arrays["w"])
            magnitude = np.abs(s["alpha"]) * of(np.abs(arrays["x"]), np.abs(arrays["w"]))
            if "c" in arrays and s["beta"] != 0:
                z, magnitude = z + s["beta"] * arrays["c"], magnitude + np.abs(s["beta"] * arrays["c"])
            if "bias" in arrays:
                z = z + arrays["bias"].reshape(shape)
                magnitude = magnitude + np.abs(arrays["bias"].reshape(shape))
            y = ACTIVATIONS[NAMES[s["activation"]]](z)
        magnitude = np.where(np.isfinite(magnitude), magnitude, 0)
        count = int(np.prod(problem.host["filter_shape"])) // max(problem.host["filter_shape"][0], 1)
        if transposed:
            count = problem.host["filter_shape"][0] // groups * int(np.prod(spatial_of(problem, "filter_shape")))
        found = {"y": Expected(restore(y), count=count, magnitude=restore(magnitude))}
        return (
            found
            if "z" in problem.null
            else found | {"z": Expected(restore(z), count=count, magnitude=restore(magnitude))}
        )

    return reference


def reference_of_data(problem):
    arrays, entries, groups, restore = read(problem)
    alpha, spatial = problem.scalars["alpha"], spatial_of(problem, "input_shape")
    with np.errstate(invalid="ignore", over="ignore"):
        value = alpha * data_gradient(arrays["dy"], arrays["w"], spatial, *entries, groups)
        magnitude = abs(alpha) * data_gradient(np.abs(arrays["dy"]), np.abs(arrays["w"]), spatial, *entries, groups)
    count = problem.host["filter_shape"][0] // groups * int(np.prod(spatial_of(problem, "filter_shape")))
    return {
        "dx": Expected(restore(value), count=count, magnitude=restore(np.where(np.isfinite(magnitude), magnitude, 0)))
    }


def reference_of_filter(problem):
    arrays, entries, groups, restore = read(problem)
    alpha, taps, x, dy = problem.scalars["alpha"], spatial_of(problem, "filter_shape"), arrays["x"], arrays["dy"]
    axes = (0, *range(2, dy.ndim))
    with np.errstate(invalid="ignore", over="ignore"):
        value = alpha * filter_gradient(x, dy, taps, *entries, groups)
        magnitude = abs(alpha) * filter_gradient(np.abs(x), np.abs(dy), taps, *entries, groups)
        dbias, of_dbias = dy.sum(axes), np.abs(dy).sum(axes)
    count = dy.shape[0] * int(np.prod(dy.shape[2:]))
    found = {
        "dw": Expected(restore(value), count=count, magnitude=restore(np.where(np.isfinite(magnitude), magnitude, 0)))
    }
    if "dbias" not in problem.null:
        found["dbias"] = Expected(dbias, count=count, magnitude=np.where(np.isfinite(of_dbias), of_dbias, 0))
    return found


# --- bad calls --------------------------------------------------------------------------------------------------------


def bad_calls(transposed=False, activation=True):
    entries = [
        ("steps", 1),
        ("padding", 0),
        ("padding_after", 0),
        ("dilation", 1),
        *[("output_padding", 0)] * transposed,
    ]
    plain = BOTH["plain"]
    x, w, _ = shapes_of(plain, transposed)
    channels = "must be filter_shape" if transposed else r"must be groups \* filter_shape"
    calls = [
        *(Bad(f"rank_{r}", 2, rf"rank is {r}, must be in \[3, 5\]", {"rank": r}, can=2) for r in (0, 2, 6)),
        Bad("channels_last_2", 2, r"channels_last is 2, must be 0", {"channels_last": 2}, can=2),
        Bad("no_groups", 2, r"groups is 0, must be >= 1", {"groups": 0}, can=2),
        Bad("negative_extent", 2, r"input_shape\[2\] is -5", host={"input_shape": (*x[:2], -5, x[3])}, can=2),
        Bad("channels", 2, rf"input_shape\[1\] is 9, {channels}", host={"input_shape": (x[0], 9, *x[2:])}, can=2),
        Bad("no_taps", 2, r"filter_shape\[3\] is 0, must be >= 1", host={"filter_shape": (*w[:3], 0)}, can=2),
        *(
            Bad(f"low_{name}", 2, rf"{name}\[1\] is {low - 1}, must be >= {low}", host={name: (low, low - 1)}, can=2)
            for name, low in entries
        ),
    ]
    if activation:
        calls.append(Bad("activation_9", 2, r"activation is 9, must be 0 \(none\)", {"activation": 9}, can=2))
    if transposed:
        more = r"output_padding\[0\] is 1, must be in \[0, 0\]"
        calls.append(Bad("more_padding", 2, more, host={"output_padding": (1, 0)}, can=2))
        calls.append(Bad("nothing_left", 2, r"input_shape\[2\] is 5: the result", host={"padding": (40, 0)}, can=2))
    else:
        calls.append(
            Bad(
                "wide",
                2,
                r"filter_shape is 50: with dilation 1, 7 elements",
                host={"filter_shape": (*w[:3], 50)},
                can=2,
            )
        )
    return tuple(calls)


def idle(transposed=False):
    x = shapes_of(BOTH["plain"], transposed)[0]
    return (Idle("no_images", {}, {"input_shape": (0, *x[1:])}),)


def problems_of(make, calls):
    return {name: lambda draw, call=call: make(draw, call) for name, call in calls.items()}


FORWARD = problems_of(forward, BOTH | {"large_tiles": FORWARD_TILES})
TRANSPOSED = problems_of(lambda draw, call: forward(draw, call, True), BOTH | SPREAD)
DATA = problems_of(backward_data, {n: c for n, c in BOTH.items() if n != "no_summands"} | {
    "no_summands": General(2, 3, 0, (5, 7), (3, 2)), "large_tiles": DATA_TILES,
})  # fmt: skip
FILTER = problems_of(backward_filter, {n: c for n, c in BOTH.items() if n != "no_summands"} | {
    "no_summands": General(0, 3, 4, (5, 7), (3, 2), bias=True), "large_tiles": FILTER_TILES,
})  # fmt: skip
COMMON = {"plain": "plain", "large": "large"}
CASES = (
    Case(row="convolution_{T}", problems=FORWARD, reference=reference_of_forward(False),
         tolerance={"y": "gemm", "z": "gemm"}, bad=bad_calls(), idle=idle(), **COMMON),
    Case(row="convolution_backward_data_{T}", problems=DATA, reference=reference_of_data, tolerance={"dx": "gemm"},
         bad=bad_calls(activation=False), idle=idle(), **COMMON),
    Case(row="convolution_backward_filter_{T}", problems=FILTER, reference=reference_of_filter,
         tolerance={"dw": "gemm", "dbias": "total"}, bad=bad_calls(activation=False),
         idle=(Idle("no_outputs", {}, {"filter_shape": (0, 3, 3, 2)}),), **COMMON),
    Case(row="convolution_transpose_{T}", problems=TRANSPOSED, reference=reference_of_forward(True),
         tolerance={"y": "gemm", "z": "gemm"}, bad=bad_calls(True), idle=idle(True), **COMMON),
)  # fmt: skip
