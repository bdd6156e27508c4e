# SPDX-License-Identifier: Apache-2.0
"""A gradient that is summed over an axis of extent 0 has elements though its op has none: they become +0."""

import pytest

from cases import CASES, Draw
from harness import OPS, Launch, can_implement, last_error
from naming import each_row

SUMS = [op for op, (row, _) in OPS.items() if row.workspace and "sum_one" in CASES[row.name].problems]
FLAT = [op for op, (row, _) in OPS.items() if row.name == "prelu_backward_{T}"]


def check_zeroed(library, op, problem, zeroed):
    """Only the output `zeroed` is written, and it needs no other array; without it nothing is written."""
    others = tuple(name for name in problem.arrays if name != zeroed)
    row, _ = OPS[op]
    is_optional = not next(p for p in row.pointers if p.name == zeroed).is_required
    for null in ((), others, (zeroed,)):
        prepared = Launch(library, op, problem, null=null)
        status = prepared.run()
        if zeroed in null and not is_optional:
            assert status == 2
            assert f"{zeroed} is NULL" in last_error(library)
        else:
            assert status == 0, last_error(library)
        prepared.memory.synchronize()
        for name, buffer in prepared.given.items():
            buffer.check(f"{op}: {name}", written=name == zeroed)
        if zeroed not in null:
            assert not prepared.buffers[zeroed].bits().any()
    check_refused(library, op, problem, 1, f"{zeroed} is 0x", shift={zeroed: 1})


def check_refused(library, op, problem, status, text, **options):
    """The call is refused and nothing is written."""
    prepared = Launch(library, op, problem, **options)
    assert prepared.run() == status, last_error(library)
    assert text in last_error(library)
    prepared.outcome(status)


def empty_sum(op):
    """The problem "sum_one" without its only row, and the name of the output that becomes 0."""
    row, slots = OPS[op]
    problem = CASES[row.name].problems["sum_one"](Draw(slots, "empty"))
    (zeroed,) = [p.name for p in row.pointers if p.is_output and problem.arrays[p.name].strides[0] == 0]
    problem.scalars["numel"], problem.host["shape"] = 0, (0, 7)
    return problem, zeroed


@each_row(SUMS)
def test_strided(library, op):
    problem, zeroed = empty_sum(op)
    check_zeroed(library, op, problem, zeroed)


@each_row(SUMS)
def test_checks_are_those_of_any_problem(library, op):
    """Reach, NULL strides, a misaligned or second output are checked before anything is set to 0."""
    row, _ = OPS[op]
    for array in (p.name for p in row.pointers):
        stride = f"stride_{array}"
        for entries, text in (((0, 2**60), f"{stride}[1] is {2**60}"), ((2**63 - 1, 1), f"{stride}[0] is {2**63 - 1}"),
                              (None, f"{stride} is NULL")):  # fmt: skip
            problem, _ = empty_sum(op)
            problem.host[stride] = entries
            assert can_implement(library, op, problem)[0] == 2
            check_refused(library, op, problem, 2, text)
    problem, zeroed = empty_sum(op)
    for other in (p.name for p in row.pointers if p.is_output and p.name != zeroed):
        problem.arrays[other].strides = problem.host[f"stride_{other}"] = problem.host[f"stride_{zeroed}"]
        check_refused(library, op, problem, 1, f"{other} is 0x", shift={other: 1})
        check_refused(library, op, problem, 2, "are both 0x", alias={other: zeroed})


@each_row(SUMS)
def test_backwards(library, op):
    """A stride of -1 is as good as any other."""
    problem, zeroed = empty_sum(op)
    problem.arrays[zeroed].strides = problem.host[f"stride_{zeroed}"] = (0, -1)
    check_zeroed(library, op, problem, zeroed)


@pytest.mark.parametrize("scalar", [0, 1])
@each_row(FLAT)
def test_flat(library, op, scalar):
    row, slots = OPS[op]
    problem = CASES[row.name].problems["scalar7" if scalar else "plain"](Draw(slots, "empty"))
    problem.scalars["numel"] = 0
    check_zeroed(library, op, problem, "dweight")
