"""C level: bad arguments give a status and a text that names the argument, nothing is written; empty ones give 0."""

import dataclasses
import re
import threading

import pytest

from cases import CASES, Draw
from harness import OPS, ROWS, Launch, can_implement, last_error, launch, workspace_size

MARKER = "alibi_f32: batch is -77, must be >= 0"


def leave_marker(library):
    """A failure of another op, whose text a success must leave alone."""
    null = library.ffi.NULL
    assert library.function("alibi_f32", "can_implement")(-77, 1, 1, 1, null, null, null) == 2
    assert last_error(library) == MARKER


def changed(case, slots, change):
    """The case's plain problem with the scalars and host arrays of a Bad or Idle, and arrays of its own."""
    problem = case.problems[case.plain](Draw(slots, case.plain))
    return dataclasses.replace(
        problem,
        scalars=problem.scalars | change.scalars,
        host=problem.host | change.host,
        null=getattr(change, "null", ()),
    )


def calls(kind):
    made = []
    for row, case in CASES.items():
        for op, slots in ROWS[row].instances():
            for change in getattr(case, kind):
                made.append(pytest.param(case, op, slots, change, id=f"{op}-{change.name}"))
    return made


def check_text(op, text, pattern):
    assert text.startswith(f"{op}: "), text
    assert re.match(pattern, text.removeprefix(f"{op}: ")), f"{text!r} does not match {pattern!r}"


def short_workspaces(library, op, problem):
    """Sizes that are too short: none where the op needs no workspace for this problem."""
    needed = workspace_size(library, op, problem)
    return sorted({1, needed // 2, needed - 1}) if needed > 1 else []


@pytest.mark.parametrize(("case", "op", "slots", "bad"), calls("bad"))
def test_run_refuses(library, case, op, slots, bad):
    problem = changed(case, slots, bad)
    for workspace in short_workspaces(library, op, problem) if bad.short else [None]:
        leave_marker(library)
        outcome = launch(library, op, problem, shift=bad.shift, alias=bad.alias, workspace=workspace)
        assert outcome.status == bad.status, f"{outcome.status}, not {bad.status}: {outcome.text!r}"
        check_text(op, outcome.text, bad.text)


@pytest.mark.parametrize(("case", "op", "slots", "bad"), calls("bad"))
def test_can_implement_answers(library, case, op, slots, bad):
    leave_marker(library)
    status, text = can_implement(library, op, changed(case, slots, bad))
    assert status == bad.can
    if status:
        check_text(op, text, bad.text if status == bad.status and not bad.null else "")
    else:
        assert last_error(library) == MARKER


@pytest.mark.parametrize(("case", "op", "slots", "idle"), calls("idle"))
def test_nothing_to_do(library, case, op, slots, idle):
    """0 before any pointer is looked at, and nothing written where there are pointers."""
    problem = changed(case, slots, idle)
    for null in (tuple(problem.arrays), ()):
        leave_marker(library)
        prepared = Launch(library, op, problem, null=null, shift={} if null else dict.fromkeys(problem.arrays, 1))
        assert prepared.run() == 0, last_error(library)
        assert last_error(library) == MARKER
        for name, buffer in prepared.buffers.items():
            if buffer is not None:
                buffer.check(f"{op}: {name}", written=False)
    assert can_implement(library, op, problem)[0] == idle.can
    if not idle.can and None not in problem.host.values():
        assert workspace_size(library, op, problem) == 0


@pytest.mark.parametrize("op", [op for op, (row, _) in OPS.items() if row.workspace])
def test_workspace_size_of_a_bad_problem_is_zero(library, op):
    row, slots = OPS[op]
    case = CASES[row.name]
    for bad in case.bad:
        if bad.can:
            assert workspace_size(library, op, changed(case, slots, bad)) == 0
            check_text(op, last_error(library), "")


@pytest.mark.parametrize("op", OPS)
def test_a_good_problem_passes(library, op):
    """can_implement says 0 for what run computes, and a success leaves the last text alone."""
    row, slots = OPS[op]
    case = CASES[row.name]
    leave_marker(library)
    for name, make in case.problems.items():
        status, text = can_implement(library, op, make(Draw(slots, name)))
        assert status == 0, f"{name}: {text}"
    problem = case.problems[case.plain](Draw(slots, case.plain))
    assert launch(library, op, problem).status == 0
    assert last_error(library) == MARKER


@pytest.mark.parametrize("op", OPS)
def test_any_workspace_is_welcome(library, op):
    """A pointer without bytes is no workspace; more bytes than asked for are fine."""
    row, slots = OPS[op]
    case = CASES[row.name]
    problem = case.problems[case.plain](Draw(slots, case.plain))
    for nbytes in (0, workspace_size(library, op, problem) + 17):
        outcome = launch(library, op, problem, workspace=nbytes, workspace_offset=3)
        assert outcome.status == 0, outcome.text


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
    """Each required pointer as NULL, each pointer misaligned, each host array as NULL, each extent negative."""
    for name, row in ROWS.items():
        bad = CASES[name].bad
        nulls, shifts = {a for b in bad for a in b.null}, {a for b in bad for a in b.shift}
        hosts = {a for b in bad for a, entries in b.host.items() if entries is None}
        negative = {a for b in bad for a, value in b.scalars.items() if value < 0}
        assert shifts == {p.name for p in row.pointers}, name
        assert nulls >= {p.name for p in row.pointers if p.is_required}, name
        assert hosts == {p.name for p in row.problem if p.direction == "host"}, name
        extents = {p.name for p in row.problem if not p.direction and p.dtype != "f32" and p.name != "padding_idx"}
        assert negative >= extents, name
