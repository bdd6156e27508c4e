# SPDX-License-Identifier: Apache-2.0
"""Causal convolutions along time, and their gradients."""

import numpy as np

from ..model import Bad, Case, Expected, Idle, Problem, strides_for
from .recurrence import logistic, spans_of
from .scan import absent, negative, normal, nothing, values_of, wanted, without_strides

TOLERANCE = "state_space"


def padded(problem, s, row, begin, end):
    """The inputs of a sequence with those in front of it: (channels, width - 1 + tokens)."""
    history = problem.scalars["width"] - 1
    initial = values_of(problem, "initial_state")
    front = np.zeros((problem.scalars["channels"], history)) if initial is None else initial[s]
    return np.concatenate([front, problem.arrays["x"].values[row][:, begin:end]], axis=1)


def sums(weight, inputs, first, of):
    """Sums over the taps of a sequence."""
    width, tokens = weight.shape[1], inputs.shape[1] - weight.shape[1] + 1
    return sum((of(weight[:, k : k + 1]) * of(inputs[:, k : k + tokens]) for k in range(width)), first)


def solve(problem):
    """(values, magnitudes) of results and gradients by name."""
    s, weight = problem.scalars, problem.arrays["weight"].values
    bias, dy, d_final = (values_of(problem, name) for name in ("bias", "dy", "d_final_state"))
    x, width = problem.arrays["x"].values, s["width"]
    spans = spans_of(x.shape[0], x.shape[2], values_of(problem, "cu_seqlens"))
    found = []
    for of in (np.asarray, np.abs):
        each = {"y": np.zeros(x.shape), "final_state": np.zeros((len(spans), s["channels"], width - 1))}
        each |= {"dx": np.zeros(x.shape), "dweight": np.zeros(weight.shape), "dbias": np.zeros(s["channels"])}
        each["d_initial_state"] = np.zeros(each["final_state"].shape)
        for q, row, begin, end in spans:
            inputs, tokens = padded(problem, q, row, begin, end), end - begin
            first = 0 if bias is None else bias[:, None]

            real, size = (sums(weight, inputs, each_of(np.asarray(first)), each_of) for each_of in (np.asarray, of))
            gate = logistic(real)
            each["y"][row][:, begin:end] = size * gate if s["use_silu"] else size
            each["final_state"][q] = of(inputs[:, tokens:])
            if dy is None:
                continue
            slope = gate * (1 + size * (1 - gate)) if s["use_silu"] else 1.0
            g = of(dy[row][:, begin:end]) * slope
            of_inputs = np.zeros(inputs.shape)
            for k in range(width):
                of_inputs[:, k : k + tokens] += of(weight[:, k : k + 1]) * g
                each["dweight"][:, k] += (g * of(inputs[:, k : k + tokens])).sum(1)
            if d_final is not None:
                of_inputs[:, tokens:] += of(d_final[q])
            each["dbias"] += g.sum(1)
            each["dx"][row][:, begin:end] = of_inputs[:, width - 1 :]
            each["d_initial_state"][q] = of_inputs[:, : width - 1]
        found.append(each)
    return found


def results(problem, names, added=()):
    values, magnitudes = solve(problem)
    s, tokens = problem.scalars, problem.arrays["x"].shape[0] * problem.arrays["x"].shape[2]
    found = {}
    for own, name in names.items():
        old = problem.arrays[own].values if own in added else 0.0
        count = s["width"] + 8 + (tokens if name in ("dweight", "dbias") else s["width"])
        found[own] = Expected(values[name] + old, count=count, magnitude=magnitudes[name] + np.abs(old))
    return wanted(problem, found)


# batch, channels, seqlen, width
SHAPES = {
    "one": (1, 1, 1, 2), "plain": (2, 5, 19, 4), "odd": (3, 7, 37, 3), "aligned": (2, 16, 64, 4), "two": (1, 9, 8, 2),
    "long": (2, 3, 4100, 4), "short": (2, 4, 2, 4),
}  # fmt: skip


def reference_problem(draw, shape, silu=1, null=(), backward=False):
    batch, channels, seqlen, width = shape
    x, weight = (batch, channels, seqlen), (channels, width)
    arrays = {"x": normal(draw, x), "weight": normal(draw, weight), "bias": normal(draw, (channels,))}
    if backward:
        arrays |= {"dy": normal(draw, x), "dx": draw.output(x)}
        arrays |= {"dw": normal(draw, weight), "db": normal(draw, (channels,))}
    else:
        arrays["y"] = draw.output(x)
    names = ("batch", "channels", "seqlen", "width")
    return Problem(dict(zip(names, shape)) | {"use_silu": silu}, arrays, null=tuple(null))


def reference_problems(**more):
    return {n: lambda d, s=s: reference_problem(d, s, **more) for n, s in SHAPES.items()} | {
        "linear": lambda d: reference_problem(d, SHAPES["odd"], silu=0, **more),
        "no_bias": lambda d: reference_problem(d, SHAPES["plain"], null=("bias", "db")[: 1 + bool(more)], **more),
    }


# batch, channels, seqlen, width
GENERAL = {
    "one": (1, 1, 1, 1), "plain": (2, 6, 19, 4), "odd": (3, 7, 37, 3), "aligned": (2, 16, 64, 4),
    "wide": (2, 16, 96, 16),
    "seven": (1, 48, 50, 7), "single": (2, 8, 9, 1), "short": (2, 4, 2, 5), "long": (2, 3, 4100, 4),
}  # fmt: skip
LAYOUTS = {"turned": {"order": (0, 2, 1)}, "gaps": {"flip": (2,), "gap": 2, "pad": 3}}
CUTS = {"lengths": [0, 5, 5, 40, 99], "gaps": [3, 4, 60, 90], "beyond": [-4, 50, 1000], "aligned": [0, 48, 50, 99]}
OPTIONS = ("bias", "initial_state")


def general(draw, shape, silu=1, null=(), backward=False, how="", cuts=None):
    batch, channels, seqlen, width = shape
    if cuts:
        batch, seqlen = 1, 99
    sequences = len(CUTS[cuts]) - 1 if cuts else batch
    x, states = (batch, channels, seqlen), (sequences, channels, width - 1)
    at = strides_for(x, **LAYOUTS.get(how, {}))
    offsets = draw.array(np.array(CUTS[cuts] if cuts else [0] * (sequences + 1)), "i32")
    arrays = {
        "x": normal(draw, x, strides=at), "weight": normal(draw, (channels, width)), "bias": normal(draw, (channels,)),
        "initial_state": normal(draw, states), "cu_seqlens": offsets,
    }  # fmt: skip
    if backward:
        arrays |= {"dy": normal(draw, x, strides=at), "d_final_state": normal(draw, states)}
        arrays |= {"dx": draw.output(x, at), "dweight": draw.output((channels, width))}
        arrays |= {"dbias": draw.output((channels,)), "d_initial_state": draw.output(states)}
    else:
        arrays |= {"y": draw.output(x, at), "final_state": draw.output(states)}
    scalars = {"batch": batch, "channels": channels, "seqlen": seqlen, "width": width, "sequences": sequences}
    host = {f"stride_{n}": at for n in (("x", "dy", "dx") if backward else ("x", "y"))}
    return Problem(scalars | {"use_silu": silu}, arrays, host=host, null=absent(null, () if cuts else ("cu_seqlens",)))


def general_problems(**more):
    made = {n: lambda d, s=s: general(d, s, **more) for n, s in GENERAL.items()}
    made |= {how: lambda d, how=how: general(d, GENERAL["odd"], how=how, **more) for how in LAYOUTS}
    made |= {
        f"turned_{n}": lambda d, n=n: general(d, GENERAL[n], how="turned", **more) for n in ("aligned", "wide", "seven")
    }
    made |= {f"cut_{c}": lambda d, c=c: general(d, GENERAL["aligned"], cuts=c, **more) for c in CUTS}
    made |= {
        f"cut_turned_{c}": lambda d, c=c: general(d, GENERAL["aligned"], how="turned", cuts=c, **more) for c in CUTS
    }
    made |= {f"no_{n}": lambda d, n=n: general(d, GENERAL["plain"], null=(n,), **more) for n in OPTIONS}
    made["linear"] = lambda d: general(d, GENERAL["odd"], silu=0, **more)
    made["no_tokens"] = lambda d: without_strides(general(d, (2, 6, 0, 4), **more))
    made["bare"] = lambda d: general(d, GENERAL["plain"], silu=0, null=OPTIONS, **more)
    if more:
        gradients = ("dx", "dweight", "dbias", "d_initial_state")
        made["dx_alone"] = lambda d: general(d, GENERAL["odd"], null=(*gradients[1:], "d_final_state"), **more)
        made["weights_alone"] = lambda d: general(d, GENERAL["odd"], null=("dx", "d_initial_state"), **more)
    return made


EXTENTS = ("batch", "channels", "seqlen")
WIDTHS = tuple(Bad(f"width_{w}", 3, rf"width is {w}, must be 2, 3 or 4", {"width": w}, can=3) for w in (0, 1, 5))
GENERAL_BAD = (
    *negative(*EXTENTS, "width", "sequences"),
    Bad("no_width", 2, r"width is 0, must be > 0", {"width": 0}, can=2),
    Bad("width_17", 3, r"width is 17, at most 16 are supported", {"width": 17}, can=3),
    Bad("sequences_5", 2, r"sequences is 5, must be batch, 2", {"sequences": 5}, can=2),
    Bad("uncut", 2, r"cu_seqlens is NULL, but sequences is 3, not batch, 1", {"sequences": 3, "batch": 1}),
    Bad("no_sequence", 2, r"sequences is 0, must be >= 1 where there are tokens", {"sequences": 0, "batch": 1}, can=2),
)  # fmt: skip


def stride_bad(inputs, output, absent_text=""):
    """Calls with bad strides; those of an output that may be absent are missed only where it is given."""
    none, can = {f"stride_{output}": None}, 0 if absent_text else 2
    return (
        *(Bad(f"no_stride_{n}", 2, rf"stride_{n} is NULL", host={f"stride_{n}": None}, can=2) for n in inputs),
        Bad(f"no_stride_{output}", 2, absent_text or rf"stride_{output} is NULL", host=none, can=can),
        Bad(f"still_{output}", 2, rf"stride_{output}\[2\] is 0, but an output has 19",
            host={f"stride_{output}": (100, 20, 0)}, can=2),
    )  # fmt: skip


GRADIENTS = ("dx", "dweight", "dbias", "d_initial_state")
CASES = (
    Case(
        row="causal_conv1d_{T}", problems=reference_problems(), reference=lambda p: results(p, {"y": "y"}),
        tolerance={"y": TOLERANCE}, plain="plain", large="long",
        bad=(*negative(*EXTENTS, "width"), *WIDTHS), idle=nothing(*EXTENTS),
    ),
    Case(
        row="causal_conv1d_{T}_backward", problems=reference_problems(backward=True),
        reference=lambda p: results(p, {"dx": "dx", "dw": "dweight", "db": "dbias"}, ("dw", "db")),
        tolerance=dict.fromkeys(("dx", "dw", "db"), TOLERANCE), plain="plain", large="long",
        bad=(*negative(*EXTENTS, "width"), *WIDTHS), idle=nothing(*EXTENTS),
    ),
    Case(
        row="causal_conv1d_general_{T}", problems=general_problems(),
        reference=lambda p: results(p, {"y": "y", "final_state": "final_state"}),
        tolerance={"y": TOLERANCE, "final_state": "exact"}, plain="plain", large="long",
        bad=(*GENERAL_BAD, *stride_bad(("x",), "y")), idle=nothing("channels"),
    ),
    Case(
        row="causal_conv1d_general_backward_{T}", problems=general_problems(backward=True),
        reference=lambda p: results(p, {name: name for name in GRADIENTS}),
        tolerance=dict.fromkeys(GRADIENTS, TOLERANCE), plain="plain", large="long",
        bad=(*GENERAL_BAD, *stride_bad(("x", "dy"), "dx", "dx is not NULL, but stride_dx is")),
        idle=(Idle("no_channels", {"channels": 0}),),
    ),
)  # fmt: skip
