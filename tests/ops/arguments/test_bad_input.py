# SPDX-License-Identifier: Apache-2.0
"""Bad arguments give a status and a text that names the argument, and write nothing; empty problems give 0."""

import dataclasses
import re
import threading

import numpy as np

from cases import CASES, Draw
from cases.signs import never_negative
from harness import (
    OPS,
    ROWS,
    Launch,
    can_implement,
    is_seen,
    itemsize,
    last_error,
    launch,
    workspace_size,
)
from naming import Tries, each_row

MARKER = "alibi_f32: batch is -77, must be >= 0"


def leave_marker(library):
    """Causes a failure of another op, whose text a success must not replace."""
    null = library.ffi.NULL
    assert library.function("alibi_f32", "can_implement")(-77, 1, 1, 1, null, null, null) == 2
    assert last_error(library) == MARKER


def changed(base, change):
    """A problem with the scalars and host arrays of a Bad or Idle. What is NULL stays so, unless a Bad shifts it."""
    kept = (name for name in base.null if name not in getattr(change, "shift", ()))
    return dataclasses.replace(
        base,
        scalars=base.scalars | change.scalars,
        host=base.host | change.host,
        null=(*kept, *change.null),
    )


class Bases(dict):
    """The problems that the bad calls of an instance vary, each built once."""

    def __init__(self, case, slots):
        super().__init__()
        self._case, self._slots = case, slots

    def __missing__(self, name):
        self[name] = self._case.problems[name or self._case.plain](Draw(self._slots, name or self._case.plain))
        return self[name]


def check_text(op, text, pattern):
    assert text.startswith(f"{op}: "), text
    assert re.match(pattern, text.removeprefix(f"{op}: ")), f"{text!r} does not match {pattern!r}"


def short_workspaces(library, op, problem):
    """Workspace sizes that are too short; none where the op needs no workspace for this problem."""
    needed = workspace_size(library, op, problem)
    return sorted({1, needed // 2, needed - 1}) if needed > 1 else []


def check_run(library, op, problem, bad):
    if any(nbytes % itemsize(problem.arrays[name].dtype) == 0 for name, nbytes in bad.shift.items()):
        return
    for workspace in short_workspaces(library, op, problem) if bad.short else [None]:
        leave_marker(library)
        outcome = launch(library, op, problem, shift=bad.shift, alias=bad.alias, workspace=workspace)
        assert outcome.status == bad.status, f"{outcome.status}, not {bad.status}: {outcome.text!r}"
        check_text(op, outcome.text, bad.text)
        if outcome.status in (2, 3) and not bad.can:
            assert not is_seen(op, outcome.text), f"can_implement takes it: {outcome.text}"


def check_can_implement(library, op, problem, bad):
    leave_marker(library)
    status, text = can_implement(library, op, problem)
    assert status == bad.can, f"can_implement: {status}, not {bad.can}: {text!r}"
    if status:
        check_text(op, text, bad.text if status == bad.status and not bad.null else "")
    else:
        assert last_error(library) == MARKER


@each_row(OPS)
def test_refuses(library, op):
    row, slots = OPS[op]
    case = CASES[row.name]
    bases = Bases(case, slots)
    with Tries() as tries:
        for bad in case.bad_of(op, slots):
            problem = changed(bases[bad.of], bad)
            with tries(bad.name):
                check_can_implement(library, op, problem, bad)
                check_run(library, op, problem, bad)


def check_idle(library, op, problem, idle):
    for null in (tuple(problem.arrays), ()):
        leave_marker(library)
        prepared = Launch(library, op, problem, null=null, shift={} if null else dict.fromkeys(problem.arrays, 1))
        assert prepared.run() == 0, last_error(library)
        assert last_error(library) == MARKER
        for name, buffer in prepared.given.items():
            buffer.check(f"{op}: {name}", written=False)
    assert can_implement(library, op, problem) == (0, "")
    assert workspace_size(library, op, problem) == 0


@each_row(OPS)
def test_nothing_to_do(library, op):
    """An empty problem gives 0 before any pointer is checked, and writes nothing where there are pointers."""
    row, slots = OPS[op]
    case = CASES[row.name]
    bases = Bases(case, slots)
    with Tries() as tries:
        for idle in case.idle:
            with tries(idle.name):
                check_idle(library, op, changed(bases[""], idle), idle)


@each_row([op for op, (row, _) in OPS.items() if "rank0" in CASES[row.name].problems])
def test_rank_0_needs_no_host_arrays(library, op):
    row, slots = OPS[op]
    case = CASES[row.name]
    given, none = (case.problems["rank0"](Draw(slots, "rank0")) for _ in range(2))
    none.host = dict.fromkeys(none.host)
    assert can_implement(library, op, none) == (0, "")
    outcomes = [launch(library, op, problem, workspace="full") for problem in (given, none)]
    for outcome in outcomes:
        assert outcome.status == 0, outcome.text
    for name, bits in outcomes[0].bits.items():
        np.testing.assert_array_equal(outcomes[1].bits[name], bits)


def test_every_row_with_host_arrays_is_tried_at_rank_0():
    """A row with host arrays is tried at rank 0, or refuses it: matrices and windows by their rank, axes by their
    index."""
    for name, row in ROWS.items():
        of_axis = row.family == "reduce" or any(p.role == "axis" or p.name == "norm_axes_mask" for p in row.problem)
        if (
            any(p.role == "rank" for p in row.problem)
            and any(p.direction == "host" for p in row.problem)
            and not of_axis
        ):
            refused = any(bad.name == "rank_0" and bad.can == 2 for bad in CASES[name].bad)
            assert refused or "rank0" in CASES[name].problems, name


@each_row([op for op, (row, _) in OPS.items() if row.workspace])
def test_workspace_size_of_a_bad_problem_is_zero(library, op):
    row, slots = OPS[op]
    case = CASES[row.name]
    bases = Bases(case, slots)
    told = {p.name for p in row.size_params}  # the others, such as a bad pitch, are not told
    for bad in case.bad_of(op, slots):
        if bad.can and told >= {*bad.scalars, *bad.host}:
            problem = changed(bases[bad.of], bad)
            named = {*re.findall(r"\w+", can_implement(library, op, problem)[1])} & {p.name for p in row.params}
            if named and named <= told:  # a backend may refuse a pitch, which the size is not told
                assert workspace_size(library, op, problem) == 0
            check_text(op, last_error(library), "")


@each_row(OPS)
def test_any_workspace_is_welcome(library, op):
    """A pointer without bytes counts as no workspace; excess bytes are fine; a success keeps the last error text."""
    row, slots = OPS[op]
    case = CASES[row.name]
    leave_marker(library)
    problem = case.problems[case.plain](Draw(slots, case.plain))
    needed = workspace_size(library, op, problem)
    fewer = (None, 0) if not row.workspace.startswith("needed: ") or needed == 0 else ()
    for nbytes in (*fewer, needed + 17):
        outcome = launch(library, op, problem, workspace=nbytes, workspace_offset=3)
        assert outcome.status == 0, outcome.text
    assert last_error(library) == MARKER


def test_texts_belong_to_their_thread(library):
    leave_marker(library)
    seen = []

    def other():
        seen.append(last_error(library))
        library.function("segment_sum_f32", "can_implement")(-5, 1, 1, *[library.ffi.NULL] * 3)
        seen.append(last_error(library))

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert seen[0] == ""
    check_text("segment_sum_f32", seen[1], "n is -5")
    assert last_error(library) == MARKER


def test_every_argument_of_every_row_is_tried():
    """Cases try each required pointer as NULL, each pointer misaligned, each host array as NULL, extents negative."""
    for name, row in ROWS.items():
        bad = CASES[name].bad
        nulls, shifts = {a for b in bad for a in b.null}, {a for b in bad for a in b.shift}
        hosts = {a for b in bad for a, entries in b.host.items() if entries is None}
        negative = {a for b in bad for a, value in b.scalars.items() if value < 0}
        unread = {"y"} if name.startswith(("reduce_prod_backward", "reduce_{F}_backward_{T} mom")) else set()
        unread |= {"workspace"} if name.startswith("int4_marlin") else set()  # it has no elements
        of_bytes = {"fp8e4m3", "fp8e5m2", "i8", "u8", "bool"}  # which no address misaligns
        bytewise = {p.name for p in row.pointers if of_bytes.issuperset(row.slots.get(p.dtype, (p.dtype,)))}
        listed = {f"{p.name}[1]": p.direction.endswith("?") for p in row.lists}
        assert nulls >= {p.name for p in row.lists} | {entry for entry, may_be in listed.items() if not may_be}, name
        unread |= set(listed)
        assert shifts >= set(listed), name
        assert shifts | unread | bytewise == {p.name for p in row.pointers} | set(listed), name
        assert nulls | unread >= {p.name for p in row.pointers if p.is_required}, name
        unused = {"stride_mask"} if name == "sdpa_{T}_strided" else set()
        assert hosts | unused == {p.name for p in row.problem if p.direction == "host"}, name
        assert negative >= {p.name for p in row.problem if never_negative(row, p)}, name
