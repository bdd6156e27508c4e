# SPDX-License-Identifier: Apache-2.0
"""A workspace size never decreases as an extent grows: a workspace for the largest problem serves all."""

import dataclasses
import math
import re

from cases import CASES, Draw
from harness import OPS, can_implement, workspace_size
from naming import each_row

COUNTS = ("numel", "upd_numel", "out_numel", "output_numel", "input_numel")
CHOICES = {"gate_width"}  # 1, or d_k: gates of channels, whose chunks are shorter
FACTORS = (1, 2, 3, 5, 8, 13, 16, 17, 33, 64, 65, 127, 129, 255, 256, 257, 600, 1000, 1025, 4097, 30_011, 70_001)


def extents_of(row):
    """Scalars that are extents of operands, and the host arrays of extents. The taps of a filter are none of them: the
    more there are, the fewer results.
    """
    words = {word for p in row.pointers for word in re.findall(r"\w+", p.shape)}
    words -= CHOICES | {tap for p in row.pointers if "filter" in p.name for tap in re.findall(r"\w+", p.shape)[2:]}
    scalars = [p.name for p in row.problem if p.dtype in ("i32", "i64") and p.direction != "host" and p.name in words]
    arrays = [p.name for p in row.problem if p.direction == "host" and p.name.endswith("shape")]
    return [name for name in scalars if name not in COUNTS or not arrays], arrays


def grown(problem, row, name, factor):
    scalars, host = dict(problem.scalars), dict(problem.host)
    if name in scalars:
        scalars[name] = scalars[name] * factor
        pitches = [p.name for p in row.problem if p.direction != "host" and re.match(r"ld|(row_)?stride_", p.name)]
        dilations = {p.name for p in row.problem if "dilation" in p.name}  # beside the steps of windows
        pitches = [pitch for pitch in pitches if pitch.replace("stride", "dilation") not in dilations]
        scalars |= {pitch: max(scalars[pitch], scalars[name]) * 4 for pitch in pitches}
        return dataclasses.replace(problem, scalars=scalars)
    # The outermost axis grows, since its strides hold for any extent.
    before = math.prod(host[name])
    host[name] = (host[name][0] * factor, *host[name][1:])
    for count in COUNTS:
        if scalars.get(count) == before:
            scalars[count] = before * factor
    return dataclasses.replace(problem, scalars=scalars, host=host)


def fits(row, problem):
    """Whether C accepts the arguments."""
    arguments = problem.scalars | {name: max(entries, default=0) for name, entries in problem.host.items() if entries}
    return all(arguments.get(p.name, 0) < 2**31 for p in row.problem if p.dtype == "i32")


@each_row([op for op, (row, _) in OPS.items() if row.workspace])
def test_the_size_never_falls(library, op):
    row, slots = OPS[op]
    case = CASES[row.name]
    scalars, arrays = extents_of(row)
    for problem_name in {case.plain, case.large_of(slots)}:
        problem = case.problems[problem_name](Draw(slots, problem_name))
        for name in [*scalars, *(array for array in arrays if problem.host[array])]:
            largest, at = 0, None
            for factor in FACTORS:
                larger = grown(problem, row, name, factor)
                if not fits(row, larger) or can_implement(library, op, larger)[0]:
                    continue
                size = workspace_size(library, op, larger)
                assert size >= largest, f"{problem_name}: {size} bytes for {name} times {factor}, {largest} times {at}"
                largest, at = size, factor
