# SPDX-License-Identifier: Apache-2.0
"""Helpers of the elementwise cases: makers of problems, lists of problems, bad calls, sums of gradients, benchmarks.

A maker is a function that makes one Problem; where a row's flat arrays are all [numel] and its strided ones all
[shape], flat_maker() and strided_maker() read it off the op table:

    make(draw, numel, kind="normal", null=(), **scalars)             flat
    make(draw, shape, kind="normal", null=(), **scalars, **layouts)  strided; a layout is strides_for()'s keywords

A scalar given to them is a number or a function of the draw. Then:

    flat_problems(make, sizes=SIZES)               {name: problem} "n<size>", "special", "wide"
    strided_problems(make, inputs, outputs)        {name: problem} over all kinds of strides, "plain" is (3, 5, 7)
    gradient_problems(make, gradients)             {name: problem} with gradients that are NULL or summed over axes
    flat_calls(row), strided_calls(row)            Case's plain, large, brief, bad, idle, by the row's operands;
                                                   `Case(..., **flat_calls(row))`, `| {"bad": ...}` to add to them
    gradients(problem, {"da": value}, op)          {output: Expected}, summed where its stride is 0; class "ulp"
    flat_bad(arrays, optional)                     the parts of these
    strided_bad(arrays, outputs, gradients, optional), strided_idle(arrays)
    strided(shape, names, **layouts)               (host arrays, strides by operand)

An instance that is not full (model.Case) has the problems FLAT_BRIEF or STRIDED_BRIEF alone: functions of a row but the
first. A row without functions but of many dtypes says which are full, e.g. `full=lambda slots: slots["T"] == "f32"`.
References are functions of a Problem, whose `function` is the row's F. Tolerance "exact" is for what the dtype holds
(integers are always compared so); "ulp" for rounded values, with Expected.op as the key of an exception in
oracle.ULPS. Every module of this package has CASES.
"""

import itertools
import math

import numpy as np

from harness.launch import ROWS

from ..model import Bad, Expected, Idle, Problem, strides_for

SIZES = (1, 2, 3, 7, 8, 9, 31, 33, 255, 1000, 4097, 70001)
EVEN_SIZES = (2, 4, 6, 14, 16, 18, 34, 62, 256, 1000, 4098, 70002)  # for packed dtypes
FLAT_BRIEF, STRIDED_BRIEF = ("n33", "special", "wide"), ("mixed",)
CUBE = (3, 5, 7)  # shape of the strided "plain" problem, which the bad calls vary


# --- makers ----------------------------------------------------------------------------------------------------------


def make_array(draw, param, shape, kind, strides, fill):
    """The array of a pointer parameter. `fill(draw, param, shape, kind, strides)` may make it, or return None."""
    dtype = param.dtype_of(draw.slots)
    made = fill(draw, param, shape, kind, strides) if fill else None
    if made is None and param.direction.startswith("out"):
        made = draw.output(shape, strides, dtype)
    return draw.values(shape, kind, strides, dtype) if made is None else made


def scalars_of(draw, scalars):
    return {name: value(draw) if callable(value) else value for name, value in scalars.items()}


def flat_maker(row, fill=None, **scalars):
    """make(draw, numel, kind, null, **scalars) of a row whose arrays all have numel elements."""

    def make(draw, numel, kind="normal", null=(), **given):
        arrays = {p.name: make_array(draw, p, (numel,), kind, None, fill) for p in ROWS[row].pointers}
        all_scalars = {"numel": numel, **scalars_of(draw, scalars), **given}
        return Problem(all_scalars, arrays, null=tuple(null), function=draw.function)

    return make


def strided_maker(row, fill=None, **scalars):
    """make(draw, shape, kind, null, **scalars, **layouts) of a row whose arrays all have one shape."""
    operands = tuple(p.name for p in ROWS[row].pointers)

    def make(draw, shape, kind="normal", null=(), **given):
        layouts = {name: given.pop(name) for name in operands if name in given}
        host, strides = strided(shape, operands, **layouts)
        arrays = {p.name: make_array(draw, p, tuple(shape), kind, strides[p.name], fill) for p in ROWS[row].pointers}
        all_scalars = {"numel": math.prod(shape), "rank": len(shape), **scalars_of(draw, scalars), **given}
        return Problem(all_scalars, arrays, host, tuple(null), draw.function)

    return make


def strided(shape, names, **layouts):
    """(host arrays, strides by operand) for the row's `stride_<name>` parameters."""
    strides = {name: strides_for(shape, **layouts.get(name, {})) for name in names}
    return {"shape": tuple(shape), **{f"stride_{name}": s for name, s in strides.items()}}, strides


# --- problems --------------------------------------------------------------------------------------------------------


def flat_problems(make, sizes=SIZES):
    problems = {f"n{n}": lambda d, n=n: make(d, n) for n in sizes}
    for kind, numel in (("special", 500), ("wide", 1000)):
        problems[kind] = lambda d, kind=kind, numel=numel: make(d, numel, kind)
    return problems


def strided_problems(make, inputs, outputs):
    """Inputs may broadcast, outputs not; each of the first three inputs and two outputs has layouts of its own."""
    first, second, third, *_ = (*inputs, None, None, None)
    out, other, *_ = (*outputs, None, None)
    permuted = {"order": (2, 0, 1)}
    views = {
        "rank0": ((), {}),
        "ones": ((1, 1, 1), {first: {"gap": 5}}),
        "plain": (CUBE, {}),
        "dense": ((4, 3, 33), {}),
        "rank8": ((2, 1, 3, 2, 1, 2, 2, 3), {out: {"order": (3, 1, 0, 7, 5, 6, 2, 4)}}),
        "permuted_in": (CUBE, {first: permuted}),
        "permuted_out": (CUBE, {out: permuted}),
        "permuted_all": (CUBE, dict.fromkeys((*inputs, *outputs), permuted)),
        "flipped": (CUBE, {first: {"flip": (0, 1, 2)}, third: {"flip": (0,)}}),
        "flipped_out": (CUBE, {out: {"flip": (1,)}, second: {"flip": (2,)}, other: {"flip": (2,)}}),
        "gaps": ((13, 17), {first: {"gap": 3}, out: {"pad": 4}, second: {"pad": 1}, other: {"pad": 1}}),
        "rows": ((37, 65), {name: {"pad": 3} for name in (*inputs, *outputs)}),
        "long_rows": ((2, 20011), {first: {"pad": 1}}),
        "rows_apart": ((3, 4096), {name: {"pad": 16} for name in (*inputs, *outputs)}),
        "tiles": ((70, 90), {first: {"order": (1, 0)}}),
        "tiles_apart": ((3, 66, 34), {first: {"order": (0, 2, 1)}, third: {"order": (0, 2, 1)}, out: {"pad": 2}}),
        "long_gaps": ((20011,), {out: {"gap": 2}}),
        "broadcast_row": ((19, 24), {first: {"broadcast": (0,)}}),
        "broadcast_column": ((19, 24), {first: {"broadcast": (1,)}}),
        "broadcast_all": ((9, 5), {first: {"broadcast": (0, 1)}}),
        "broadcast_second": ((19, 24), {second: {"broadcast": (1,)}, third: {"broadcast": (0,)}}),
        "broadcast_each": ((9, 8, 7), {first: {"broadcast": (0,)}, second: {"broadcast": (1,)},
                                       third: {"broadcast": (2,)}}),
        "many": ((70, 11, 13), {first: {"order": (1, 2, 0)}, second: {"flip": (0,)}, other: {"flip": (0,)}}),
    }  # fmt: skip
    views = {name: (s, {k: v for k, v in layouts.items() if k}) for name, (s, layouts) in views.items()}
    problems = {name: lambda d, s=s, k=k: make(d, s, **k) for name, (s, k) in views.items()}
    special = {k: v for k, v in {first: {"order": (1, 0)}}.items() if k}
    problems["special"] = lambda d: make(d, (21, 23), "special", **special)
    mixed = {first: permuted, second: {"broadcast": (0,)}, third: {"pad": 2}, out: {"pad": 1}, other: {"flip": (0,)}}
    mixed = {k: v for k, v in mixed.items() if k}
    problems["mixed"] = lambda d: make(d, (5, 7, 11), "special", **mixed)
    return problems


def gradient_problems(make, gradients):
    """A strided row whose gradients may be NULL, and are summed over the axes of their zero strides."""
    first, *_, last = gradients
    views = {
        "sum_rows": ((19, 24), {first: {"broadcast": (0,)}}),
        "sum_columns": ((19, 24), {last: {"broadcast": (1,)}}),
        "sum_each": ((19, 24), {first: {"broadcast": (0,)}, last: {"broadcast": (1,)}}),
        "sum_all": ((31, 33), {name: {"broadcast": (0, 1)} for name in gradients}),
        "sum_middle": ((5, 41, 9), {first: {"broadcast": (1,)}, last: {"broadcast": (0, 2), "flip": (1,)}}),
        "sum_padded": ((7, 11, 5), {first: {"broadcast": (0,), "gap": 2}, last: {"broadcast": (2,), "pad": 3}}),
        "sum_long": ((3, 5003), {first: {"broadcast": (1,)}, last: {"broadcast": (0,)}}),
        "sum_tall": ((5003, 3), {first: {"broadcast": (0,)}, last: {"broadcast": (1,)}}),
        "sum_one": ((1, 7), {first: {"broadcast": (0,)}}),
    }
    problems = {name: lambda d, s=s, k=k: make(d, s, **k) for name, (s, k) in views.items()}
    for name in gradients:
        others = tuple(g for g in gradients if g != name)
        problems[f"null_{name}"] = lambda d, name=name: make(d, CUBE, null=(name,))
        problems[f"sum_{name}_alone"] = lambda d, name=name, others=others: make(
            d, (17, 13), null=others, **{name: {"broadcast": (1,)}}
        )
    problems["null_all"] = lambda d: make(d, CUBE, null=tuple(gradients))
    return problems


# --- references ------------------------------------------------------------------------------------------------------


def gradients(problem, values, op, dtype=""):
    """The expected value of each gradient that is wanted; along axes where its strides are 0 it is summed.

    values  name -> array of the problem's shape, before any sum, float64 or longdouble
    op      key of oracle.ULPS
    """
    expected = {}
    for name, value in values.items():
        if name in problem.null:
            continue
        strides, value = problem.arrays[name].strides, np.asarray(value)
        axes = tuple(d for d, s in enumerate(strides or ()) if s == 0 and value.shape[d] > 1)
        if not axes:
            expected[name] = Expected(value, op=op)
            continue
        with np.errstate(invalid="ignore", over="ignore"):
            total, size = (v.sum(axes, keepdims=True) for v in (value, np.abs(value)))
        count = math.prod(value.shape[d] for d in axes)
        total, size = (np.broadcast_to(v, value.shape) for v in (total, size))
        expected[name] = Expected(total, count, size, op=op)
    return expected


# --- calls that fail or do nothing -----------------------------------------------------------------------------------


def flat_bad(arrays, optional=()):
    """`optional` arrays may be NULL."""
    bad = [Bad("negative", 2, r"numel is -1", {"numel": -1}, can=2)]
    bad.append(Bad("bytes_overflow", 2, rf"numel is {2**63 - 1}", {"numel": 2**63 - 1}, can=2))
    bad += [Bad(f"null_{a}", 2, rf"{a} is NULL", null=(a,)) for a in arrays if a not in optional]
    return (*bad, *(Bad(f"odd_{a}", 1, rf"{a} is 0x[0-9a-f]+", shift={a: 1}) for a in arrays))


def one_output(outputs):
    """No two outputs may be one array."""
    return tuple(
        Bad(f"one_output_{a}_{b}", 2, rf"({a}|{b}) ", alias={b: a}) for a, b in itertools.combinations(outputs, 2)
    )


def strided_bad(arrays, outputs, gradients=(), optional=()):
    """Bad calls of a problem of shape (3, 5, 7). `gradients` are outputs whose stride may be 0, which sums them."""
    bad = [
        *flat_bad(arrays, optional),
        Bad("rank_negative", 2, r"rank is -1", {"rank": -1}, can=2),
        Bad("rank_9", 2, r"rank is 9", {"rank": 9}, can=2),
        Bad("null_shape", 2, r"shape is NULL", host={"shape": None}, can=2),
        Bad("extent_negative", 2, r"shape\[1\] is -5", host={"shape": (3, -5, 7)}, can=2),
        Bad("extents_negative", 2, r"shape\[\d\] is -\d", host={"shape": (-3, -5, 7)}, can=2),
        Bad("extent_0", 2, r"numel is 105\b.*\b0\b", host={"shape": (3, 0, 7)}, can=2),
        Bad("numel_more", 2, r"numel is 106\b.*\b105\b", {"numel": 106}, can=2),
        Bad("numel_less", 2, r"numel is 104\b.*\b105\b", {"numel": 104}, can=2),
        Bad("numel_0", 2, r"numel is 0\b.*\b105\b", {"numel": 0}, can=2),
        Bad("empty_rank_9", 2, r"rank is 9", {"rank": 9, "numel": 0}, can=2),
        Bad("empty_null_shape", 2, r"shape is NULL", {"numel": 0}, {"shape": None}, can=2),
    ]
    # every entry of an overlong shape array must exist: the strides are padded to rank 8 as well
    wide = {"shape": (2**31 - 1,) * 8, **{f"stride_{a}": (0,) * 8 for a in arrays}}
    bad.append(Bad("overflow", 2, r"shape", {"rank": 8}, wide, can=2))
    for a in arrays:
        bad.append(Bad(f"null_stride_{a}", 2, rf"stride_{a} is NULL", host={f"stride_{a}": None}, can=2))
        far = {f"stride_{a}": (2**62, 7, 1)}
        bad.append(Bad(f"far_{a}", 2, rf"stride_{a}\[0\] is {2**62}", host=far, can=2))
        least = {f"stride_{a}": (-(2**63), 7, 1)}
        bad.append(Bad(f"least_{a}", 2, rf"stride_{a}\[0\] is -{2**63}", host=least, can=2))
        for name, entries, text in (
            ("null", None, "is NULL"), ("far", (7, 2**60, 1), rf"\[1\] is {2**60}"),
            ("beside", (7, 7, -(2**46)), rf"\[2\] is -{2**46}"),
        ):  # fmt: skip
            host = {"shape": (3, 0, 7), f"stride_{a}": entries}
            bad.append(
                Bad(
                    f"empty_{name}_{a}",
                    2,
                    rf"stride_{a}{text}" if entries else rf"stride_{a} {text}",
                    {"numel": 0},
                    host,
                    can=2,
                )
            )
    for a in outputs:
        if a not in gradients:
            still = {f"stride_{a}": (35, 0, 1)}
            bad.append(Bad(f"still_{a}", 2, rf"stride_{a}\[1\] is 0", host=still, can=2))
    return tuple(bad)


def strided_idle(names):
    """Row-major strides of an empty array may be 0 along an axis that is not empty."""
    empty = {"shape": (3, 0, 7)}
    still = {f"stride_{n}": (0, 7, 1) for n in names}
    return (Idle("numel_0", {"numel": 0}, empty), Idle("numel_0_still", {"numel": 0}, empty | still))


def operands(row):
    """(all, outputs, optional) array names of a row."""
    pointers = ROWS[row].pointers
    outputs = tuple(p.name for p in pointers if p.is_output)
    return tuple(p.name for p in pointers), outputs, tuple(p.name for p in pointers if not p.is_required)


def flat_calls(row, plain="n33", large="n70001", brief=FLAT_BRIEF):
    """Keywords for Case."""
    arrays, outputs, optional = operands(row)
    return {
        "plain": plain, "large": large, "brief": brief, "bad": (*flat_bad(arrays, optional), *one_output(outputs)),
        "idle": (Idle("numel_0", {"numel": 0}),),
    }  # fmt: skip


def strided_calls(row, plain="plain", large="many", brief=STRIDED_BRIEF):
    """Keywords for Case. Gradients are summed in rows with a workspace; "sum_long" needs one if any problem does."""
    arrays, outputs, optional = operands(row)
    summed = outputs if ROWS[row].workspace else ()
    bad = (*strided_bad(arrays, outputs, summed, optional), *one_output(outputs))
    return {"plain": plain, "large": large, "brief": brief, "bad": bad, "idle": strided_idle(arrays)}
