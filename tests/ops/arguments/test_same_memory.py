# SPDX-License-Identifier: Apache-2.0
"""An output that shares the address of another operand: status 2 with nothing written, unless the row's `in_place`
allows it.

Calls that `in_place` allows are compared with calls on separate arrays: test_in_place of test_ops.py.
"""

import dataclasses
import functools
import math

from cases import CASES, Draw
from harness import OPS, Launch, itemsize
from naming import each_row

# The first op of a row with each choice of dtypes: which aliases are allowed does not depend on the function.
FIRST = {(row.name, tuple(slots[s] for s in row.slots)): op for op, (row, slots) in reversed(OPS.items())}
MOST_ELEMENTS = 100_000


def has_gaps(array):
    if array.strides is None or 0 in array.shape:
        return False
    reach = sum(abs(s) * (e - 1) for e, s in zip(array.shape, array.strides)) + 1
    return reach > math.prod(e for e, s in zip(array.shape, array.strides) if s)


@functools.cache
def problem_names(name):
    """The plain problem, and the first one in which each operand has gaps."""
    case, slots = CASES[name], next(slots for row, slots in OPS.values() if row.name == name)
    chosen, without = [case.plain], None
    for label, make in case.problems.items():
        problem = make(Draw(slots, label))
        if problem.longest > MOST_ELEMENTS:
            continue
        if without is None:
            without = {*problem.arrays}
        if found := {x for x in without & {*problem.arrays} - {*problem.null} if has_gaps(problem.arrays[x])}:
            chosen.append(label)
            without -= found
    return tuple(dict.fromkeys(chosen))


def with_strides(problem, name, strides):
    """The problem with other strides for one of its operands."""
    arrays = problem.arrays | {name: dataclasses.replace(problem.arrays[name], strides=strides)}
    ending, scalars = f"_stride_{name}", dict(problem.scalars)
    for key in problem.scalars:  # some ops also take the stride along one axis as a scalar
        if key.endswith(ending):
            scalars[key] = strides[scalars[f"{key.removesuffix(ending)}_axis"]]
    host = problem.host | {f"stride_{name}": strides}
    return dataclasses.replace(problem, host=host, arrays=arrays, scalars=scalars)


def variants(problem, output, other):
    """Yields the problem; where both operands have strides, also with those of `other` for both, dense or not, and with
    twice those of `other` for the output."""
    yield problem
    strides = [problem.host.get(f"stride_{name}") for name in (output, other)]
    first, second = problem.arrays[output], problem.arrays[other]
    if first.shape != second.shape or not all(strides) or second.strides is None:
        return
    steps = strides[1]
    if tuple(steps) != tuple(second.strides) or any(s == 0 and e > 1 for s, e in zip(steps, first.shape)):
        return
    twice = tuple(2 * s for s in steps)
    yield with_strides(problem, output, steps)
    yield with_strides(problem, output, twice)
    yield with_strides(with_strides(problem, output, twice), other, twice)


def has_one_layout(problem, output, other):
    first, second = problem.arrays[output], problem.arrays[other]
    if first.shape != second.shape or itemsize(first.dtype) != itemsize(second.dtype):
        return False
    steps = [a.strides and [s for s, e in zip(a.strides, a.shape) if e > 1] for a in (first, second)]
    return steps[0] == steps[1]


def check_pair(library, op, problem, output, other):
    """Whether the pair was tried."""
    row, _ = OPS[op]
    given = [problem.arrays[name] for name in (output, other)]
    is_unread = other == "c" and problem.scalars.get("beta") == 0
    if any(0 in array.shape for array in given) or {output, other} & {*problem.null} or is_unread:
        return False
    if other in row.in_place.get(output, ()) and has_one_layout(problem, output, other):
        return True
    prepared = Launch(library, op, problem)
    longer = max(output, other, key=lambda name: prepared.buffers[name].image.size)
    names = [p.name for p in row.params]
    for name in (output, other):
        prepared.arguments[names.index(name)] = library.ffi.cast("void*", prepared.buffers[longer].pointer)
    status = prepared.run()
    label = (
        f"{output} {given[0].shape} {given[0].strides} at the address of {other} {given[1].shape} {given[1].strides}"
    )
    # An op that reads a window of its operand may or may not touch what lies between the window's elements.
    if status == 0 and any(" at " in p.shape for p in row.params if p.name in (output, other)):
        return True
    assert status == 2, f"{label}: status {status}"
    text = prepared.outcome(status).text
    assert {output, other} <= set(text.removeprefix(f"{op}: ").replace(":", " ").split()), f"{label}: {text}"
    return True


@each_row(FIRST.values())
def test_an_output_at_the_address_of_an_operand(library, op):
    row, slots = OPS[op]
    outputs = [p.name for p in row.pointers if p.is_output]
    pairs = {(out, p.name) for out in outputs for p in row.pointers if p.name != out}
    tried = set()
    for label in problem_names(row.name):
        base = CASES[row.name].problems[label](Draw(slots, label))
        for output, other in pairs:
            if {output, other} <= {*base.arrays}:
                for problem in variants(base, output, other):
                    if check_pair(library, op, problem, output, other):
                        tried.add((output, other))
    assert tried or not pairs
