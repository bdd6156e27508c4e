# SPDX-License-Identifier: Apache-2.0
"""pad in its modes, and their gradients."""

import dataclasses
import math

import numpy as np

from tools.oracle.numerics import decode

from ..elementwise.fill import BYTES_OR_BITS, value_of
from ..model import Array, Bad, Case, Expected, Idle, Problem, strides_for
from .repeat import MOVE_BRIEF, PERMUTED, bad_calls, of_each_width

NUMPY = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}


def pad(draw, shape, low, high, x=None, y=None, kind="normal", value=None):
    out = tuple(e + lo + hi for e, lo, hi in zip(shape, low, high))
    x, y = strides_for(shape, **x or {}), strides_for(out, **y or {})
    host = {
        "input_shape": tuple(shape), "output_shape": out, "pad_low": tuple(low), "stride_x": x, "stride_y": y
    }  # fmt: skip
    scalars = {"output_numel": math.prod(out), "rank": len(shape)}
    if value is not None:
        scalars |= halves_of(draw, value) if draw.dtype == "c64" else {"value": value_of(draw, value)}
    return Problem(scalars, {"x": draw.values(shape, kind, x), "y": draw.output(out, y)}, host)


def halves_of(draw, kind):
    """The bits of the components of a random value, or of one with special components."""
    bits = draw.values((1,), "normal" if kind == "normal" else "special").bits()
    return dict(zip(("value", "value_high"), np.frombuffer(bits.tobytes(), np.uint64).tolist()))


def value_in(problem):
    value, dtype = np.asarray(problem.scalars["value"]), problem.arrays["x"].dtype
    if dtype == "c64":
        return np.array([problem.scalars[name] for name in ("value", "value_high")], np.uint64).view(np.complex128)[0]
    if dtype == "c32":
        return decode(value.astype(np.uint64), dtype)
    if dtype in BYTES_OR_BITS:
        return decode(value.astype(np.uint16 if dtype in ("f16", "bf16") else np.uint8), dtype)
    return value.astype(np.uint64) if dtype == "u64" else value


def reference(mode):
    def of(problem):
        x, out, low = problem.arrays["x"].values, problem.host["output_shape"], problem.host["pad_low"]
        sources = [np.arange(o) - lo for o, lo in zip(out, low)]
        if mode == "constant":
            inside = [(p >= 0) & (p < e) for p, e in zip(sources, x.shape)]
            y = np.full(out, value_in(problem), x.dtype)
            if not x.ndim:
                return {"y": Expected(x)}
            y[np.ix_(*inside)] = x[np.ix_(*(p[i] for p, i in zip(sources, inside)))]
            return {"y": Expected(y)}
        # np.pad extends the operand far enough on either side, and the result is a window of it
        for axis, p in enumerate(sources):
            before, behind = max(0, -p[0]), max(0, p[-1] + 1 - x.shape[axis])
            widths = [(before, behind) if d == axis else (0, 0) for d in range(x.ndim)]
            x = np.take(np.pad(x, widths, NUMPY[mode]), p + before, axis)
        return {"y": Expected(x)}

    return of


def pad_backward(draw, shape, low, high, dy=None, dx=None, kind="normal"):
    out = tuple(e + lo + hi for e, lo, hi in zip(shape, low, high))
    dy, dx = strides_for(out, **dy or {}), strides_for(shape, **dx or {})
    host = {"input_shape": tuple(shape), "pad_low": tuple(low), "stride_dy": dy, "stride_dx": dx}
    arrays = {"dy": draw.values(out, kind, dy), "dx": draw.output(shape, dx)}
    return Problem({"input_numel": math.prod(shape), "rank": len(shape)}, arrays, host)


def mode_backward(draw, shape, low, high, dy=None, dx=None, kind="normal", null=()):
    problem = pad_backward(draw, shape, low, high, dy, dx, kind)
    problem.host["output_shape"] = problem.arrays["dy"].shape
    problem.null = null
    return problem


def summed(dy, source, shape):
    """The sum of the elements of dy for each element of `shape`, whose flat index is `source`."""
    dy, source, size = dy.ravel(), source.ravel(), math.prod(shape)
    with np.errstate(invalid="ignore", over="ignore"):
        total, magnitude = (np.bincount(source, values, size) for values in (dy, np.abs(dy)))
    count = np.bincount(source, minlength=size)
    single = count[source] == 1
    total[source[single]] = dy[single]  # a single summand keeps the sign of zero
    return Expected(total.reshape(shape), count.reshape(shape), magnitude.reshape(shape))


def reference_of_mode(mode):
    def of(problem):
        dy, shape = problem.arrays["dy"].values, problem.host["input_shape"]
        if not dy.size:
            return {"dx": Expected(np.zeros(shape))}
        flat_indices = Array("i64", shape, np.arange(math.prod(shape)).reshape(shape))
        forward = Problem({}, {"x": flat_indices}, {"output_shape": dy.shape, "pad_low": problem.host["pad_low"]})
        return {"dx": summed(dy, reference(mode)(forward)["y"].value, shape)}

    return of


def reference_backward(problem):
    window = tuple(slice(lo, lo + e) for lo, e in zip(problem.host["pad_low"], problem.host["input_shape"]))
    return {"dx": Expected(problem.arrays["dy"].values[window])}


PADS = {  # shape, low, high, layouts
    "one": ((1,), (2,), (3,), {}),
    "rank0": ((), (), (), {}),
    "nothing": ((3, 5, 7), (0, 0, 0), (0, 0, 0), {}),
    "plain": ((3, 5, 7), (1, 2, 3), (2, 0, 4), {}),
    "inner": ((9, 61), (0, 3), (0, 64), {}),
    "inner_vectors": ((9, 64), (0, 32), (0, 32), {}),
    "outer": ((9, 64), (2, 0), (3, 0), {}),
    "images": ((2, 3, 13, 17), (0, 0, 1, 1), (0, 0, 1, 1), {}),
    "channels_last": ((2, 13, 17, 5), (0, 2, 2, 0), (0, 3, 1, 0), {}),
    "deep": ((4, 3), (13, 9), (17, 8), {}),
    "crop": ((9, 40), (-2, -3), (-1, -5), {}),
    "crop_and_pad": ((9, 40), (-2, 3), (4, -5), {}),
    "long": ((20000,), (9001,), (7777,), {}),
    "rank8": ((2, 1, 2, 1, 2, 1, 2, 3), (0, 1, 0, 2, 1, 0, 1, 1), (1, 0, 0, 0, 1, 1, 0, 2), {}),
    "permuted_in": ((3, 5, 7), (1, 2, 3), (2, 1, 0), {"x": PERMUTED}),
    "permuted_out": ((3, 5, 7), (1, 2, 3), (2, 1, 0), {"y": PERMUTED}),
    "flipped": ((9, 40), (1, 2), (2, 1), {"x": {"flip": (0, 1)}}),
    "flipped_out": ((9, 40), (1, 2), (2, 1), {"y": {"flip": (0, 1)}}),
    "gaps": ((9, 11), (2, 3), (3, 4), {"x": {"gap": 2}, "y": {"gap": 3, "pad": 2}}),
    "broadcast": ((9, 11), (2, 3), (3, 4), {"x": {"broadcast": (0,)}}),
    "short_rows": ((600, 6), (0, 1), (0, 1), {}),
    "borders": ((2, 3, 40, 126), (0, 0, 3, 3), (0, 0, 3, 3), {}),
    "large": ((37, 19, 65), (1, 2, 3), (2, 1, 4), {}),
}
SLICES = {name: given for name, given in PADS.items() if "crop" not in name and name != "broadcast"}


def idle_calls(**host):
    shapes = {"output_shape": (3, 0, 7), "input_shape": (3, 0, 7)} | host
    return (Idle("count_0", {"output_numel": 0}, shapes),)


def case(mode, form=""):
    extra = {"value": "normal"} if mode == "constant" else {}
    problems = {
        n: lambda d, s=s, lo=lo, hi=hi, k=k: pad(d, s, lo, hi, **k, **extra) for n, (s, lo, hi, k) in PADS.items()
    }
    problems["special"] = lambda d: pad(d, (7, 9), (2, 1), (3, 4), kind="special", **extra)
    if mode == "constant":
        problems["empty_source"] = lambda d: pad(d, (3, 0, 7), (1, 2, 0), (0, 3, 0), value="normal")
        problems["beside"] = lambda d: pad(d, (3, 5), (9, 0), (-8, 0), value="normal")
        problems["largest"] = lambda d: pad(d, (3, 5), (2, 1), (1, 1), value="largest")
        problems["least"] = lambda d: pad(d, (3, 5), (2, 1), (1, 1), value="least")
    bad = bad_calls(
        "output_numel", "output_shape", ("input_shape", (3, -1, 7), r"input_shape\[1\] is -1"), ("x", "y"),
        ("stride_x", "stride_y"),
    )  # fmt: skip
    own = [Bad("null_pad_low", 2, r"pad_low is NULL", host={"pad_low": None}, can=2)]
    if mode != "constant":
        own.append(Bad("no_source", 2, r"input_shape\[1\] is 0", host={"input_shape": (3, 0, 7)}, can=2))
    return Case(
        row=f"pad_{mode}_{{T}}{form}", problems=problems, reference=reference(mode), tolerance={"y": "exact"},
        plain="plain", large="large", brief=MOVE_BRIEF, bad=(*bad, *own), idle=idle_calls(),
        full=lambda slots: bool(form) or of_each_width(slots),
    )  # fmt: skip


def renamed(layouts):
    return {{"x": "dx", "y": "dy"}[operand]: layout for operand, layout in layouts.items()}


def of_empty_ones(calls):
    """dy is empty if x is."""
    for call in calls:
        is_empty = call.name.startswith("empty_far")
        yield dataclasses.replace(call, host=call.host | {"output_shape": (6, 0, 14)}) if is_empty else call


def backward_case(mode):
    given = {name: each for name, each in PADS.items() if name != "broadcast"}
    problems = {
        n: lambda d, s=s, lo=lo, hi=hi, k=k: mode_backward(d, s, lo, hi, **renamed(k))
        for n, (s, lo, hi, k) in given.items()
    }
    problems["special"] = lambda d: mode_backward(d, (7, 9), (2, 1), (3, 4), kind="special")
    problems["broadcast_dy"] = lambda d: mode_backward(d, (9, 11), (2, 3), (3, 4), dy={"broadcast": (1,)})
    problems["far"] = lambda d: mode_backward(d, (5, 3, 600), (11, 7, 0), (8, 9, 700))
    problems["single"] = lambda d: mode_backward(d, (1, 9), (4, 0), (5, 0))
    problems["nothing_left"] = lambda d: mode_backward(d, (3, 5), (-3, 0), (0, 1), null=("dy",))
    return Case(
        row=f"pad_{mode}_backward_{{T}}", problems=problems, reference=reference_of_mode(mode),
        tolerance={"dx": "total"}, plain="plain", large="large",
        bad=(
            *of_empty_ones(
                bad_calls("input_numel", "input_shape", ("output_shape", (6, -7, 14), r"output_shape\[1\] is -7"),
                          ("dy", "dx"), ("stride_dy", "stride_dx"))
            ),
            Bad("null_pad_low", 2, r"pad_low is NULL", host={"pad_low": None}, can=2),
            Bad("no_source", 2, r"input_shape\[1\] is 0", {"input_numel": 0}, {"input_shape": (3, 0, 7)}, can=2),
        ),
        idle=(Idle("count_0", {"input_numel": 0}, {"input_shape": (3, 0, 7), "output_shape": (6, 0, 14)}),),
    )  # fmt: skip


CASES = (
    *[case(mode) for mode in ("constant", "reflect", "replicate", "circular")],
    case("constant", " halves"),
    *[backward_case(mode) for mode in ("reflect", "replicate", "circular")],
    Case(
        row="pad_constant_backward_{T}",
        problems={
            name: lambda d, s=s, lo=lo, hi=hi, k=k: pad_backward(
                d, s, lo, hi, **renamed(k)
            )
            for name, (s, lo, hi, k) in SLICES.items()
        }
        | {"special": lambda d: pad_backward(d, (7, 9), (2, 1), (3, 4), kind="special")},
        reference=reference_backward, tolerance={"dx": "exact"}, plain="plain", large="large", brief=MOVE_BRIEF,
        full=of_each_width,
        bad=(
            *bad_calls("input_numel", "input_shape", ("pad_low", (1, -2, 3), r"pad_low\[1\] is -2"), ("dy", "dx"),
                       ("stride_dy", "stride_dx")),
            Bad("pad_far", 2, r"pad_low\[0\] is 2147483647", host={"pad_low": (2**31 - 1, 0, 0)}, can=2),
        ),
        idle=(Idle("count_0", {"input_numel": 0}, {"input_shape": (3, 0, 7)}),),
    ),
)  # fmt: skip
