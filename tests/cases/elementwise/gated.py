# SPDX-License-Identifier: Apache-2.0
"""Gated units: y = a f(b), where a is the first and b the second half of x along an axis, and their gradients.

An array of both halves has an axis for them in front here, of the stride `half offset`, so that they may lie anywhere.
"""

import math

import numpy as np

from tools.oracle import GATED
from tools.oracle.numerics import round_to
from tools.oracle.reals import Wide as X

from ..model import Bad, Case, Expected, Idle, Problem, strides_for
from .common import CUBE, operands

MODERATE = 2.0**40  # products of three such numbers do not overflow in f32
SUBNORMAL = 1.0  # a subnormal product of two is rounded by half a unit, before it is multiplied by at most 1
FORWARD, BACKWARD = "gated_{F}_{T}", "gated_{F}_backward_{T}"


def both_halves(shape, split, layout):
    """Strides of (half, *shape) in a tensor that is twice as long along `split`; or as `layout` has them."""
    if "half" in layout:
        return (layout["half"], *layout["strides"])
    full = tuple(e * (2 if d == split else 1) for d, e in enumerate(shape))
    strides = strides_for(full, **layout)
    return (shape[split] * strides[split], *strides)


def halves(draw, shape, kind, strides):
    x = draw.floats((2, *shape), "normal" if kind == "swept" else kind, strides)
    if kind == "swept":
        b = np.linspace(-100, 100, math.prod(shape)).reshape(shape) * draw.rng.choice([1, 0.1, 0.01], shape)
        x = draw.array(round_to(np.stack([x.values[0], b]), draw.dtype), draw.dtype, strides)
    if kind == "special":
        a, b = x.values
        x.values = np.stack([a, *tame(a, b)])
    return x


def tame(first, *others):
    """Removes infinities of one operand where another operand, or the function of one, vanishes: whether 0 times
    infinity occurs depends on the order of the products."""
    infinite = np.isinf(first)
    return [np.where(infinite & (np.abs(o) < 1e-20) & (o != 0) | infinite & (o < -10), 1.5, o) for o in others]


def problem_of(draw, shape, split, arrays, strides):
    host = {"output_shape": tuple(shape)}
    scalars = {"output_numel": math.prod(shape), "rank": len(shape), "split_dim": split}
    for name, s in strides.items():
        double = name in ("x", "dx")
        host[f"stride_{name}"] = s[1:] if double else s
        scalars |= {f"{name}_half_offset": s[0]} if double else {}
    return Problem(scalars, arrays, host, function=draw.function)


def forward(draw, shape, split, kind="normal", x=None, y=None):
    strides = {"x": both_halves(shape, split, x or {}), "y": strides_for(shape, **y or {})}
    arrays = {"x": halves(draw, shape, kind, strides["x"]), "y": draw.output(shape, strides["y"])}
    return problem_of(draw, shape, split, arrays, strides)


def backward(draw, shape, split, kind="normal", x=None, y=None, dx=None):
    """`y` is the layout of dy."""
    strides = {
        "x": both_halves(shape, split, x or {}), "dy": strides_for(shape, **y or {}),
        "dx": both_halves(shape, split, dx or {}),
    }  # fmt: skip
    arrays = {
        "x": halves(draw, shape, kind, strides["x"]),
        "dy": draw.floats(shape, "normal" if kind == "swept" else kind, strides["dy"]),
        "dx": draw.output((2, *shape), strides["dx"]),
    }
    if kind == "special":
        for name in ("x", "dy"):
            values = arrays[name].values
            arrays[name].values = np.where(np.isfinite(values), np.clip(values, -MODERATE, MODERATE), values)
        (a, b), dy = arrays["x"].values, arrays["dy"].values
        a, b = tame(dy, a, b)
        (dy,) = tame(a, dy)
        arrays["x"].values, arrays["dy"].values = np.stack([a, b]), dy
    return problem_of(draw, shape, split, arrays, strides)


def precision(problem):
    """The dtype of the reference: reglu's single product is rounded once, so not first to longdouble's 64 bits."""
    return np.float64 if problem.function == "reglu" else X


def forward_reference(problem):
    function = GATED[problem.function].gate
    a, b = problem.arrays["x"].values.astype(precision(problem))
    with np.errstate(all="ignore"):
        value = a * function(b).astype(a.dtype)
    return {"y": Expected(value, int(problem.function != "reglu"), np.abs(value), SUBNORMAL)}


def backward_reference(problem):
    entry = GATED[problem.function]
    (a, b), dy = (problem.arrays[name].values.astype(precision(problem)) for name in ("x", "dy"))
    with np.errstate(all="ignore"):
        both = a * dy
        rising, size = entry.slope(b)
        da, db = dy * entry.gate(b), both * rising
        if problem.function == "reglu":
            da, db = (np.where(b > 0, v, 0) for v in (dy * b, both))
        magnitude = np.stack([np.abs(da), np.abs(both) * size])
    return {"dx": Expected(np.stack([da, db]), int(problem.function != "reglu"), magnitude, SUBNORMAL)}


PERMUTED = {"order": (2, 0, 1)}
VIEWS = {  # shape of y, split axis, layouts of x and y (and dx)
    "one": ((1,), 0, {}),
    "flat": ((33,), 0, {}),
    "columns": ((4, 65), 1, {}),
    "rows": ((65, 4), 0, {}),
    "plain": (CUBE, 1, {}),
    "last": ((9, 3, 33), 2, {}),
    "rank8": ((2, 1, 3, 2, 1, 2, 2, 3), 3, {"y": {"order": (3, 1, 0, 7, 5, 6, 2, 4)}}),
    "permuted_in": (CUBE, 2, {"x": PERMUTED}),
    "permuted_out": (CUBE, 2, {"y": PERMUTED}),
    "flipped": (CUBE, 1, {"x": {"flip": (0, 1, 2)}}),
    "flipped_out": (CUBE, 1, {"y": {"flip": (0, 2)}}),
    "gaps": ((13, 17), 1, {"x": {"gap": 2, "pad": 1}, "y": {"gap": 3}}),
    "padded": ((37, 65), 1, {"x": {"pad": 3}, "y": {"pad": 5}}),
    "broadcast": ((19, 24), 1, {"x": {"broadcast": (0,)}}),
    "broadcast_gate": ((19, 24), 1, {"x": {"broadcast": (1,)}}),  # a is b
    "apart": ((5, 19), 1, {"x": {"half": 1001, "strides": (21, 1)}}),
    "second_first": ((5, 19), 0, {"x": {"half": -95, "strides": (19, 1)}}),
    "wide_rows": ((2, 10007), 1, {}),
    "large": ((37, 1003), 1, {}),
}
GRADIENT_VIEWS = {
    "dx_permuted": (CUBE, 1, {"dx": PERMUTED}),
    "dx_flipped": (CUBE, 1, {"dx": {"flip": (0, 1, 2)}}),
    "dx_gaps": ((13, 17), 1, {"dx": {"gap": 3, "pad": 2}}),
    "dx_apart": ((5, 19), 1, {"dx": {"half": 1001, "strides": (21, 1)}, "x": {"half": -95, "strides": (19, 1)}}),
    "dy_broadcast": ((19, 24), 1, {"y": {"broadcast": (0,)}}),
}


def problems(make, views):
    made = {name: lambda d, s=s, a=a, k=k: make(d, s, a, **k) for name, (s, a, k) in views.items()}
    made["special"] = lambda d: make(d, (41, 50), 1, "special", x={"pad": 1})
    made["swept"] = lambda d: make(d, (16, 1024), 1, "swept")
    return made


def bad_calls(row, halved):
    """Bad calls of a problem of shape (3, 5, 7) split along axis 1; `halved` are the arrays of two halves."""
    arrays, outputs, _ = operands(row)
    bad = [
        Bad("negative", 2, r"output_numel is -2", {"output_numel": -2}, can=2),
        Bad("rank_negative", 2, r"rank is -1", {"rank": -1}, can=2),
        Bad("rank_9", 2, r"rank is 9", {"rank": 9}, can=2),
        Bad("null_shape", 2, r"output_shape is NULL", host={"output_shape": None}, can=2),
        Bad("extent_negative", 2, r"output_shape\[1\] is -5", host={"output_shape": (3, -5, 7)}, can=2),
        Bad("extent_0", 2, r"output_numel is 105\b.*\b0\b", host={"output_shape": (3, 0, 7)}, can=2),
        Bad("numel_more", 2, r"output_numel is 106\b", {"output_numel": 106}, can=2),
        Bad("numel_less", 2, r"output_numel is 104\b", {"output_numel": 104}, can=2),
        Bad("split_negative", 2, r"split_dim is -1", {"split_dim": -1}, can=2),
        *(
            Bad(
                f"empty_split_{split}",
                2,
                rf"split_dim is {split}",
                {"output_numel": 0, "split_dim": split},
                {"output_shape": (3, 0, 7)},
                can=2,
            )
            for split in (-1, 3)
        ),
        Bad("empty_rank_9", 2, r"rank is 9", {"output_numel": 0, "rank": 9}, can=2),
        Bad("empty_null_shape", 2, r"output_shape is NULL", {"output_numel": 0}, {"output_shape": None}, can=2),
        Bad("split_3", 2, r"split_dim is 3", {"split_dim": 3}, can=2),
        Bad("rank_0", 2, r"split_dim is 0", {"output_numel": 1, "rank": 0, "split_dim": 0}, can=2),
    ]
    wide = {"output_shape": (2**31 - 1,) * 8, **{f"stride_{a}": (0,) * 8 for a in arrays}}
    bad.append(Bad("overflow", 2, r"output_shape", {"rank": 8}, wide, can=2))
    for a in halved:
        for name, offset in (("far", 2**62), ("least", -(2**63))):
            scalars = {f"{a}_half_offset": offset}
            bad.append(Bad(f"{name}_half_{a}", 2, rf"{a}_half_offset is {offset}", scalars, can=2))
    for a in arrays:
        bad += [Bad(f"null_{a}", 2, rf"{a} is NULL", null=(a,)), Bad(f"odd_{a}", 1, rf"{a} is 0x", shift={a: 1})]
        bad.append(Bad(f"null_stride_{a}", 2, rf"stride_{a} is NULL", host={f"stride_{a}": None}, can=2))
        for name, stride in (("far", 2**62), ("least", -(2**63))):
            host = {f"stride_{a}": (stride, 7, 1)}
            bad.append(Bad(f"{name}_{a}", 2, rf"stride_{a}\[0\] is {stride}", host=host, can=2))
    for a in outputs:
        bad.append(Bad(f"still_{a}", 2, rf"stride_{a}\[1\] is 0", host={f"stride_{a}": (35, 0, 1)}, can=2))
    return tuple(bad)


def case(row, make, reference, views, halved, brief):
    _, outputs, _ = operands(row)
    return Case(
        row=row, problems=problems(make, views), reference=reference, tolerance=dict.fromkeys(outputs, "gated"),
        plain="plain", large="large", bad=bad_calls(row, halved), brief=brief,
        idle=(Idle("numel_0", {"output_numel": 0}, {"output_shape": (3, 0, 7)}),),
    )  # fmt: skip


BRIEF = ("plain", "gaps", "flipped", "special", "swept")
CASES = (
    case(FORWARD, forward, forward_reference, VIEWS, ("x",), BRIEF),
    case(BACKWARD, backward, backward_reference, VIEWS | GRADIENT_VIEWS, ("x", "dx"), (*BRIEF, "dx_gaps")),
)
