# SPDX-License-Identifier: Apache-2.0
"""concat of any number of tensors, and its gradient."""

import itertools
import math
import re

import numpy as np

from ..model import Bad, Case, Expected, Idle, Problem, strides_for
from .repeat import MOVE_BRIEF, PERMUTED, of_each_width

AXIS = "concat_dim"


def problem_of(draw, name, whole, list_name, shape, axis, extents, layouts, kind="normal", null=()):
    """`whole` is the input of the gradient; the list is the input of concat."""
    is_forward = name == "concat"
    shapes = [tuple(extent if d == axis else e for d, e in enumerate(shape)) for extent in extents]
    layout = strides_for(shape, **layouts.get("whole", {}))
    strides = [
        strides_for(entry_shape, **layouts.get(k, layouts.get("entries", {}))) for k, entry_shape in enumerate(shapes)
    ]
    scalars = {"output_numel": math.prod(shape), "rank": len(shape), AXIS: axis, "n": len(extents)}
    host = {
        "output_shape": tuple(shape),
        "extents": tuple(extents),
        f"stride_{whole}": layout,
        f"stride_{list_name}": tuple(itertools.chain(*strides)),
    }
    entries = {
        f"{list_name}[{k}]": draw.values(entry_shape, kind, own) if is_forward else draw.output(entry_shape, own)
        for k, (entry_shape, own) in enumerate(zip(shapes, strides))
    }
    arrays = {whole: draw.output(shape, layout) if is_forward else draw.values(shape, kind, layout)} | entries
    return Problem(scalars, arrays, host, null)


def reference(problem):
    entries = [problem.arrays[f"inputs[{k}]"].values for k in range(problem.scalars["n"])]
    return {"y": Expected(np.concatenate(entries, problem.scalars[AXIS]))}


def reference_backward(problem):
    ends = np.cumsum(problem.host["extents"])[:-1]
    entries = np.split(problem.arrays["dy"].values, ends, problem.scalars[AXIS])
    named = {f"outputs[{k}]": entry for k, entry in enumerate(entries)}
    return {name: Expected(entry) for name, entry in named.items() if name not in problem.null}


MIXED = [1 + k * 7 % 5 for k in range(150)]
CONCATS = {  # shape, axis, extents, layouts of the whole, of all entries, or of one
    "one": ((2,), 0, (2,), {}),
    "plain": ((3, 6, 7), 1, (2, 3, 1), {}),
    "with_empty": ((3, 6, 7), 1, (0, 2, 0, 4, 0), {}),
    "outer": ((30, 64), 0, (7, 9, 14), {}),
    "inner": ((9, 192), 1, (64, 32, 96), {}),
    "odd_inner": ((9, 131), 1, (33, 97, 1), {}),
    "stacked_last": ((300, 70), 1, (1,) * 70, {}),
    "stacked_vectors": ((333, 64), 1, (1,) * 64, {}),
    "short_rows": ((5, 30, 24), 2, (3,) * 8, {}),
    "short_rows_gaps": ((150, 32), 1, (2,) * 16, {"whole": {"pad": 16}}),
    "stacked_first": ((70, 300), 0, (1,) * 70, {}),
    "many": ((4, sum(MIXED)), 1, MIXED, {}),
    "long": ((40000,), 0, (17001, 1, 20000, 2998), {}),
    "rank8": ((2, 1, 3, 2, 1, 4, 2, 3), 5, (1, 2, 1), {}),
    "permuted": ((6, 10, 14), 2, (5, 4, 5), {"whole": PERMUTED}),
    "permuted_entries": ((6, 10, 14), 0, (1, 3, 2), {0: PERMUTED, 2: {"order": (1, 2, 0)}}),
    "flipped": ((6, 10, 14), 1, (4, 6), {"whole": {"flip": (0, 1)}, 0: {"flip": (2,)}}),
    "gaps": ((18, 33), 1, (11, 20, 2), {"whole": {"gap": 2, "pad": 3}, 1: {"gap": 3}}),
    "padded_rows": ((18, 64), 1, (16, 48), {"whole": {"pad": 16}, "entries": {"pad": 4}}),
    "large": ((37, 19, 130), 1, (8, 1, 10), {}),
}


def makers(*names):
    def maker(given):
        return lambda draw: problem_of(draw, *names, *given)

    return {name: maker(given) for name, given in CONCATS.items()}


def bad_calls(whole, list_name, output):
    """Bad calls of the plain problem; each entry has three strides."""
    strides, entry = f"stride_{list_name}", f"{list_name}[1]"
    far = (14, 7, 1, 21, 7, 1, 2**61, 7, 1)
    bad = [
        Bad("negative", 2, r"output_numel is -2", {"output_numel": -2}, can=2),
        Bad("count_wrong", 2, r"output_numel is 17\b", {"output_numel": 17}, can=2),
        Bad("rank_negative", 2, r"rank is -1", {"rank": -1}, can=2),
        Bad("rank_9", 2, r"rank is 9", {"rank": 9}, can=2),
        Bad("null_shape", 2, r"output_shape is NULL", host={"output_shape": None}, can=2),
        Bad("extent_negative", 2, r"output_shape\[2\] is -7", host={"output_shape": (3, 6, -7)}, can=2),
        Bad("axis_negative", 2, r"concat_dim is -1", {AXIS: -1}, can=2),
        Bad("axis_3", 2, r"concat_dim is 3", {AXIS: 3}, can=2),
        Bad("n_negative", 2, r"n is -1", {"n": -1}, can=2),
        Bad("n_less", 2, r"extents has a sum of 5, must be output_shape\[1\], 6", {"n": 2}, can=2),
        Bad("none", 2, r"extents has a sum of 0, must be output_shape\[1\], 6", {"n": 0}, can=2),
        Bad("null_extents", 2, r"extents is NULL", host={"extents": None}, can=2),
        Bad("part_negative", 2, r"extents\[2\] is -1", host={"extents": (2, 5, -1)}, can=2),
        Bad("null_stride_whole", 2, rf"stride_{whole} is NULL", host={f"stride_{whole}": None}, can=2),
        Bad("null_strides", 2, rf"{strides} is NULL", host={strides: None}, can=2),
        Bad("far_whole", 2, rf"stride_{whole}\[0\] is {2**61}", host={f"stride_{whole}": (2**61, 7, 1)}, can=2),
        Bad("far_part", 2, rf"{strides}\[2\]\[0\] is {2**61}: {list_name}\[2\] would", host={strides: far}, can=2),
        Bad("null_list", 2, rf"{list_name} is NULL", null=(list_name,)),
        Bad("null_whole", 2, rf"{whole} is NULL", null=(whole,)),
        Bad("odd_whole", 1, rf"{whole} is 0x[0-9a-f]+", shift={whole: 1}),
        Bad("odd_part", 1, rf"{list_name}\[1\] is 0x[0-9a-f]+", shift={entry: 1}),
        Bad(
            "same",
            2,
            rf"{re.escape(output)} overlaps|{list_name}\[1\] overlaps",
            alias={output: whole if output != whole else entry},
        ),
    ]
    return tuple(bad)


IDLE = (Idle("count_0", {"output_numel": 0}, {"output_shape": (3, 6, 0)}),)
FORWARD, BACKWARD = ("concat", "y", "inputs"), ("concat_backward", "dy", "outputs")

CASES = (
    Case(
        row="concat_{T}",
        problems=makers(*FORWARD)
        | {
            "special": lambda d: problem_of(d, *FORWARD, (7, 9), 1, (4, 2, 3), {}, "special"),
            "broadcast": lambda d: problem_of(
                d, *FORWARD, (9, 11), 0, (4, 5), {0: {"broadcast": (0,)}, 1: {"broadcast": (1,)}}
            ),
            "null_empty": lambda d: problem_of(d, *FORWARD, (9, 11), 0, (0, 9), {}, null=("inputs[0]",)),
        },
        reference=reference,
        tolerance={"y": "exact"},
        plain="plain",
        large="large",
        brief=MOVE_BRIEF,
        full=of_each_width,
        bad=(
            *bad_calls("y", "inputs", "y"),
            Bad("still", 2, r"stride_y\[0\] is 0", host={"stride_y": (0, 7, 1)}, can=2),
            Bad("null_part", 2, r"inputs\[1\] is NULL", null=("inputs[1]",)),
        ),
        idle=IDLE,
    ),
    Case(
        row="concat_backward_{T}",
        problems=makers(*BACKWARD)
        | {
            "special": lambda d: problem_of(d, *BACKWARD, (7, 9), 1, (4, 2, 3), {}, "special"),
            "some": lambda d: problem_of(d, *BACKWARD, (7, 9), 1, (4, 2, 3), {}, null=("outputs[0]", "outputs[2]")),
            "none": lambda d: problem_of(d, *BACKWARD, (7, 9), 1, (4, 5), {}, null=("outputs[0]", "outputs[1]")),
        },
        reference=reference_backward,
        tolerance=dict.fromkeys([f"outputs[{k}]" for k in range(len(MIXED))], "exact"),
        plain="plain",
        large="large",
        brief=MOVE_BRIEF,
        full=of_each_width,
        bad=(
            *bad_calls("dy", "outputs", "outputs[0]"),
            Bad(
                "still",
                2,
                r"stride_outputs\[0\]\[0\] is 0",
                host={"stride_outputs": (0, 7, 1, 21, 7, 1, 7, 7, 1)},
                can=2,
            ),
            Bad("twice", 2, r"outputs\[1\] overlaps outputs\[0\]", alias={"outputs[1]": "outputs[0]"}),
        ),
        idle=IDLE,
    ),
)
