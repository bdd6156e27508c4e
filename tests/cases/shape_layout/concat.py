# SPDX-License-Identifier: Apache-2.0
"""concat2 and its gradient."""

import math

import numpy as np

from ..model import Bad, Case, Expected, Idle, Problem, strides_for
from .repeat import MOVE_BRIEF, PERMUTED, of_each_width


def problem_of(shape, axis, split, whole, operands, strides, null):
    """`whole` and `parts` are names and arrays, (name, array) and two of them."""
    scalars = {"output_numel": math.prod(shape), "rank": len(shape), "concat_dim": axis, "split_offset": split}
    host = {"output_shape": tuple(shape)} | {f"stride_{name}": own for name, own in strides.items()}
    return Problem(scalars, dict([whole, *operands]), host, null)


def halves(shape, axis, split):
    return tuple(
        tuple(split if d == axis else e for d, e in enumerate(shape)) for split in (split, shape[axis] - split)
    )


def concat(draw, shape, axis, split, a=None, b=None, y=None, kind="normal", null=()):
    first, second = halves(shape, axis, split)
    strides = {
        "a": strides_for(first, **a or {}),
        "b": strides_for(second, **b or {}),
        "y": strides_for(shape, **y or {}),
    }
    operands = [("a", draw.values(first, kind, strides["a"])), ("b", draw.values(second, kind, strides["b"]))]
    return problem_of(shape, axis, split, ("y", draw.output(shape, strides["y"])), operands, strides, null)


def concat_backward(draw, shape, axis, split, dy=None, da=None, db=None, kind="normal", null=()):
    first, second = halves(shape, axis, split)
    strides = {
        "dy": strides_for(shape, **dy or {}),
        "da": strides_for(first, **da or {}),
        "db": strides_for(second, **db or {}),
    }
    operands = [("da", draw.output(first, strides["da"])), ("db", draw.output(second, strides["db"]))]
    return problem_of(shape, axis, split, ("dy", draw.values(shape, kind, strides["dy"])), operands, strides, null)


def reference(problem):
    arrays = [problem.arrays[name].values for name in ("a", "b")]
    return {"y": Expected(np.concatenate(arrays, problem.scalars["concat_dim"]))}


def reference_backward(problem):
    operands = np.split(problem.arrays["dy"].values, [problem.scalars["split_offset"]], problem.scalars["concat_dim"])
    named = dict(zip(("da", "db"), operands))
    return {name: Expected(entry) for name, entry in named.items() if name not in problem.null}


CONCATS = {  # shape, axis, split, layouts of the whole and the operands
    "one": ((2,), 0, 1, {}),
    "first_empty": ((3, 5, 7), 1, 0, {}),
    "second_empty": ((3, 5, 7), 1, 5, {}),
    "plain": ((3, 5, 7), 1, 2, {}),
    "outer": ((30, 64), 0, 7, {}),
    "inner": ((9, 130), 1, 64, {}),
    "odd_inner": ((9, 131), 1, 33, {}),
    "long": ((40000,), 0, 17001, {}),
    "rank8": ((2, 1, 3, 2, 1, 4, 2, 3), 5, 3, {}),
    "permuted": ((6, 10, 14), 2, 5, {"whole": PERMUTED}),
    "permuted_entries": ((6, 10, 14), 0, 5, {"first": PERMUTED, "second": {"order": (1, 2, 0)}}),
    "flipped": ((6, 10, 14), 1, 4, {"whole": {"flip": (0, 1)}, "first": {"flip": (2,)}}),
    "gaps": ((18, 33), 1, 11, {"whole": {"gap": 2, "pad": 3}, "second": {"gap": 3}}),
    "large": ((37, 19, 130), 1, 8, {}),
}


def makers(make, names):
    def maker(shape, axis, split, layouts):
        own = {name: layouts[word] for name, word in zip(names, ("whole", "first", "second")) if word in layouts}
        return lambda draw: make(draw, shape, axis, split, **own)

    return {name: maker(*given) for name, given in CONCATS.items()}


def bad_calls(whole, operands, outputs):
    arrays, first = (whole, *operands), operands[0]
    bad = [
        Bad("negative", 2, r"output_numel is -2", {"output_numel": -2}, can=2),
        Bad("count_wrong", 2, r"output_numel is 17\b", {"output_numel": 17}, can=2),
        Bad("rank_negative", 2, r"rank is -1", {"rank": -1}, can=2),
        Bad("rank_9", 2, r"rank is 9", {"rank": 9}, can=2),
        Bad("null_shape", 2, r"output_shape is NULL", host={"output_shape": None}, can=2),
        Bad("extent_negative", 2, r"output_shape\[2\] is -7", host={"output_shape": (3, 5, -7)}, can=2),
        Bad("axis_negative", 2, r"concat_dim is -1", {"concat_dim": -1}, can=2),
        Bad("axis_3", 2, r"concat_dim is 3", {"concat_dim": 3}, can=2),
        Bad("split_negative", 2, r"split_offset is -1", {"split_offset": -1}, can=2),
        Bad("split_far", 2, r"split_offset is 6", {"split_offset": 6}, can=2),
        Bad(
            "empty_axis",
            2,
            r"concat_dim is 7",
            {"output_numel": 0, "concat_dim": 7},
            {"output_shape": (3, 0, 7)},
            can=2,
        ),
        *(Bad(f"null_stride_{a}", 2, rf"stride_{a} is NULL", host={f"stride_{a}": None}, can=2) for a in arrays),
        *(
            Bad(f"far_{a}", 2, rf"stride_{a}\[0\] is {2**61}", host={f"stride_{a}": (2**61, 7, 1)}, can=2)
            for a in arrays
        ),
        *(Bad(f"still_{a}", 2, rf"stride_{a}\[0\] is 0", host={f"stride_{a}": (0, 7, 1)}, can=2) for a in outputs),
        *(Bad(f"odd_{a}", 1, rf"{a} is 0x[0-9a-f]+", shift={a: 1}) for a in arrays),
        Bad(
            "same",
            2,
            rf"{outputs[0]} overlaps|{first} overlaps|{whole} overlaps",
            alias={outputs[0]: whole if outputs[0] != whole else first},
        ),
    ]
    return tuple(bad)


CASES = (
    Case(
        row="concat2_{T}",
        problems=makers(concat, ("y", "a", "b"))
        | {
            "special": lambda d: concat(d, (7, 9), 1, 4, kind="special"),
            "broadcast": lambda d: concat(d, (9, 11), 0, 4, a={"broadcast": (0,)}, b={"broadcast": (1,)}),
            "null_empty": lambda d: concat(d, (9, 11), 0, 0, null=("a",)),
        },
        reference=reference,
        tolerance={"y": "exact"},
        plain="plain",
        large="large",
        brief=MOVE_BRIEF,
        full=of_each_width,
        bad=(
            *bad_calls("y", ("a", "b"), ("y",)),
            *(Bad(f"null_{a}", 2, rf"{a} is NULL", null=(a,)) for a in ("a", "b", "y")),
        ),
        idle=(Idle("count_0", {"output_numel": 0}, {"output_shape": (3, 5, 0)}),),
    ),
    Case(
        row="concat2_backward_{T}",
        problems=makers(concat_backward, ("dy", "da", "db"))
        | {
            "special": lambda d: concat_backward(d, (7, 9), 1, 4, kind="special"),
            "first_alone": lambda d: concat_backward(d, (7, 9), 1, 4, null=("db",)),
            "second_alone": lambda d: concat_backward(d, (7, 9), 1, 4, null=("da",)),
            "none": lambda d: concat_backward(d, (7, 9), 1, 4, null=("da", "db")),
        },
        reference=reference_backward,
        tolerance={"da": "exact", "db": "exact"},
        plain="plain",
        large="large",
        brief=MOVE_BRIEF,
        full=of_each_width,
        bad=(*bad_calls("dy", ("da", "db"), ("da", "db")), Bad("null_dy", 2, r"dy is NULL", null=("dy",))),
        idle=(Idle("count_0", {"output_numel": 0}, {"output_shape": (3, 5, 0)}),),
    ),
)
