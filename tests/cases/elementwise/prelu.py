# SPDX-License-Identifier: Apache-2.0
"""prelu with a weight per channel, or one for all, and its gradients."""

import numpy as np

from ..model import Array, Bad, Case, Expected, Idle, Problem
from .common import flat_bad, gradient_problems, operands, strided_calls, strided_maker, strided_problems
from .where import summed

MODERATE = 2.0**40  # sums of products do not overflow in f32
FORWARD, FORWARD_STRIDED = "prelu_{T}", "prelu_{T}_strided"
BACKWARD, BACKWARD_STRIDED = "prelu_backward_{T}", "prelu_backward_{T}_strided"
GRADIENTS = ("dx", "dweight")


def drawn(draw, shape, kind, strides=None):
    array = draw.floats(shape, kind, strides)
    if kind in ("special", "wide"):
        values = np.where(np.isfinite(array.values), np.clip(array.values, -MODERATE, MODERATE), array.values)
        array = Array(array.dtype, array.shape, values, strides)
    return array


def extents(blocks, channels, inner, scalar):
    """One weight for all channels ignores the channel axis."""
    counts = (0, 1) if scalar else (inner, channels)
    layout = dict(zip(("channel_stride", "channel_extent"), counts))
    return {"numel": blocks * channels * inner, **layout, "scalar_weight": scalar}


def forward(draw, blocks, channels, inner, kind="normal", scalar=0):
    scalars = extents(blocks, channels, inner, scalar)
    numel = (scalars["numel"],)
    weight = draw.floats((scalars["channel_extent"],), kind)
    return Problem(scalars, {"x": draw.floats(numel, kind), "weight": weight, "y": draw.output(numel)})


def backward(draw, blocks, channels, inner, kind="normal", scalar=0, null=()):
    scalars = extents(blocks, channels, inner, scalar)
    numel, channels = (scalars["numel"],), (scalars["channel_extent"],)
    arrays = {"dy": drawn(draw, numel, kind), "x": drawn(draw, numel, kind), "weight": drawn(draw, channels, kind)}
    arrays |= {"dx": draw.output(numel), "dweight": draw.output(channels)}
    return Problem(scalars, arrays, null=null)


def weights(problem):
    """The weight of each element."""
    values, weight = problem.arrays["x"].values, problem.arrays["weight"].values
    if values.shape == weight.shape and "rank" in problem.scalars:
        return weight
    if problem.scalars["scalar_weight"]:
        return np.full(values.shape, weight[0])
    return weight[np.arange(values.size) // problem.scalars["channel_stride"] % len(weight)]


def sloped(x, weight, value):
    """The value for x > 0, else the weight times it."""
    with np.errstate(all="ignore"):
        return np.where(x > 0, value, weight * value)


def forward_reference(problem):
    x = problem.arrays["x"].values
    value = sloped(x, weights(problem), x)
    return {"y": Expected(value, 0, np.where(x > 0, 0, np.abs(value)))}


def contributions(problem):
    x, dy = problem.arrays["x"].values, problem.arrays["dy"].values
    with np.errstate(all="ignore"):
        return sloped(x, weights(problem), dy), np.where(x >= 0, 0, dy * x)  # at 0 the weight does not matter


def backward_reference(problem):
    dx, products = contributions(problem)
    expected = {} if "dx" in problem.null else {"dx": Expected(dx)}
    if "dweight" not in problem.null:
        channels, inner = problem.scalars["channel_extent"], max(problem.scalars["channel_stride"], 1)
        inner = products.size if problem.scalars["scalar_weight"] else inner
        products = products.reshape(-1, channels, inner)
        with np.errstate(all="ignore"):
            total, size = products.sum((0, 2), dtype=np.longdouble), np.abs(products).sum((0, 2))
        expected["dweight"] = Expected(total, products.size // channels, size)
    return expected


def backward_reference_strided(problem):
    return summed(problem, dict(zip(GRADIENTS, contributions(problem))))


def strided_backward(draw, shape, kind="normal", null=(), **layouts):
    problem = strided_maker(BACKWARD_STRIDED)(draw, shape, kind, null, **layouts)
    for name in ("dy", "x", "weight"):
        values = problem.arrays[name].values
        problem.arrays[name].values = np.where(np.isfinite(values), np.clip(values, -MODERATE, MODERATE), values)
    return problem


def blocks(make):
    """Problems of `blocks` x channels x inner elements."""
    sizes = {
        "one": (1, 1, 1), "plain": (2, 3, 5), "vector": (1, 33, 1), "channels_last": (255, 7, 1),
        "one_channel": (3, 1, 50), "many_channels": (3, 1000, 1), "even": (4, 16, 64), "image": (2, 8, 1009),
        "long": (1, 2, 20011), "tall": (9001, 4, 1), "single_block": (1, 65, 9), "large": (7, 10, 1001),
    }  # fmt: skip
    made = {name: lambda d, s=s: make(d, *s) for name, s in sizes.items()}
    made |= {f"scalar{n}": lambda d, n=n: make(d, n, 1, 1, scalar=1) for n in (1, 7, 1000, 70001)}
    made["scalar_negative"] = lambda d: make(d, 33, 1, 1, scalar=-5)
    made |= {f"{kind}": lambda d, kind=kind: make(d, 5, 40, 7, kind) for kind in ("special", "wide")}
    made["special_scalar"] = lambda d: make(d, 301, 1, 1, "special", scalar=1)
    return made


def per_channel(make, weight, *gradients):
    """The shape (blocks, channels, inner), as of activations."""

    def made(draw, shape, axis, kind="normal", null=(), **layouts):
        still = {"broadcast": tuple(d for d in range(len(shape)) if d != axis)}
        return make(draw, shape, kind, null=null, **dict.fromkeys((weight, *gradients), still), **layouts)

    problems = {
        "channels": lambda d: made(d, (6, 5, 49), 1),
        "channels_last": lambda d: made(d, (40, 9), 1),
        "channels_first": lambda d: made(d, (9, 40), 0),
        "channels_far": lambda d: made(d, (3, 4, 3, 5, 7), 1, x={"order": (0, 2, 3, 4, 1)}),
        "one_weight": lambda d: made(d, (31, 33), None),
        "channels_special": lambda d: made(d, (6, 5, 49), 1, "special", x={"pad": 1}),
    }
    if gradients:
        problems |= {
            "channels_dx_alone": lambda d: made(d, (6, 5, 49), 1, null=("dweight",)),
            "channels_dweight_alone": lambda d: made(d, (6, 5, 49), 1, null=("dx",)),
        }
    return problems


# numel is 30, channel_extent 3, channel_stride 5
BAD_CHANNELS = (
    Bad("stride_0", 2, r"channel_stride is 0", {"channel_stride": 0}, can=2),
    Bad("empty_stride_0", 2, r"channel_stride is 0", {"numel": 0, "channel_stride": 0}, can=2),
    Bad("empty_overflow", 2, r"channel_stride is", {"numel": 0, "channel_stride": 2**62}, can=2),
    Bad("stride_negative", 2, r"channel_stride is -5", {"channel_stride": -5}, can=2),
    Bad("extent_0", 2, r"channel_extent is 0", {"channel_extent": 0}, can=2),
    Bad("extent_negative", 2, r"channel_extent is -3", {"channel_extent": -3}, can=2),
    Bad("scalar_extent_0", 2, r"channel_extent is 0", {"channel_extent": 0, "scalar_weight": -1}, can=2),
    Bad("no_multiple", 2, r"numel is 31\b", {"numel": 31}, can=2),
    Bad("part_of_channels", 2, r"numel is 20\b", {"numel": 20}, can=2),
    Bad("overflow", 2, r"(numel|channel_stride|channel_extent) is", {"channel_stride": 2**62}, can=2),
    Bad("overflow_to_0", 2, r"(numel|channel_stride|channel_extent) is",
        {"channel_stride": 2**62, "channel_extent": 4}, can=2),
)  # fmt: skip


def flat_calls(row):
    arrays, _, optional = operands(row)
    sums = tuple(a for a in arrays if a == "dweight")
    return {
        "plain": "plain", "large": "large", "bad": (*flat_bad(arrays, optional), *BAD_CHANNELS),
        "idle": (
            Idle("numel_0", {"numel": 0}, null=sums),
        ),
    }  # fmt: skip


NULLS = {f"null_{'_'.join(null)}": null for null in (("dx",), ("dweight",), GRADIENTS)}
CASES = (
    Case(
        row=FORWARD, problems=blocks(forward), reference=forward_reference, tolerance={"y": "pointwise"},
        **flat_calls(FORWARD),
    ),
    Case(
        row=FORWARD_STRIDED,
        problems=strided_problems(strided_maker(FORWARD_STRIDED), ("x", "weight"), ("y",))
        | per_channel(strided_maker(FORWARD_STRIDED), "weight"),
        reference=forward_reference, tolerance={"y": "pointwise"}, **strided_calls(FORWARD_STRIDED),
    ),
    Case(
        row=BACKWARD,
        problems=blocks(backward)
        | {name: lambda d, null=null: backward(d, 2, 9, 70, null=null) for name, null in NULLS.items()},
        reference=backward_reference, tolerance={"dx": "exact", "dweight": "total_of_products"},
        **flat_calls(BACKWARD),
    ),
    Case(
        row=BACKWARD_STRIDED,
        problems=strided_problems(strided_backward, ("x", "dy", "weight"), GRADIENTS)
        | gradient_problems(strided_backward, GRADIENTS)
        | per_channel(strided_backward, "weight", "dweight"),
        reference=backward_reference_strided, tolerance=dict.fromkeys(GRADIENTS, "total_of_products"),
 full=lambda slots: slots["T"] in ("f32", "bf16"),
        **strided_calls(BACKWARD_STRIDED, brief=("mixed", "channels", "one_weight", "channels_special", "null_dx")),
    ),
)  # fmt: skip
