# SPDX-License-Identifier: Apache-2.0
"""Every table is covered: functions have entries in the oracle, rows have cases and benchmark problems."""

import pytest

from baracuda._library.op_table import ops, rows
from cases import CASES
from harness import ROWS
from tools.bench import problems
from tools.bench.elementwise import entry_of, function_of
from tools.oracle import UNARY
from tools.oracle.numerics import is_float

pytestmark = pytest.mark.unsanitized("no library is called")

WITH_ENTRIES = ("unary", "binary", "ternary", "gated")
LERP = "binary_lerp"  # its weight is no operand: tests/cases/elementwise/lerp.py has its formula


def functions():
    """Yields (row, function) of every row that applies one, with a dtype that tells floats from integers."""
    for op in {(op.row.name, op.function): op for op in ops().values()}.values():
        name = op.row.name
        if name.split("_")[0] in WITH_ENTRIES and not name.startswith(LERP):
            yield name, function_of(name, op.function), op.dtypes[0]


def lacking(row, function, dtype):
    """The missing parts of the entry; empty if there are none."""
    entry, kind = entry_of(row, function), row.split("_")[0]
    if not entry:
        return "has no entry in tools/oracle/functions: add one to the module of its header"
    if kind == "gated" or hasattr(entry, "holds"):
        return ""
    if not is_float(dtype) and kind != "ternary":
        return "" if entry.integer else "has an entry without `integer`"
    if "_backward" in row:
        gradient = entry.has_gradient if kind == "unary" else entry.backward
        return "" if gradient else "has an entry without its gradient, `slope` or `backward`"
    takes = any(p.name == "p0" for p in ROWS[row].params)
    if not entry.forward:
        return "has an entry without `forward`"
    return "has an entry without `parameters`" if takes and not entry.parameters else ""


def test_every_function_has_an_entry():
    found = [
        f"{function} of [{row}] {lacking(row, function, t)}"
        for row, function, t in functions()
        if lacking(row, function, t)
    ]
    assert not found, "\n".join(found)


def test_every_entry_is_of_a_function():
    known = {(name.split("_")[0], function) for name, function, _ in functions()}
    left = [name for name in UNARY if ("unary", name) not in known]
    assert not left, f"oracle/functions has entries that no row applies: {left}"


def test_every_row_has_a_case():
    missing = [row.name for row in rows() if row.name not in CASES]
    assert not missing, f"rows without a Case in tests/cases: {missing}"
    assert set(CASES) == {row.name for row in rows()}


@pytest.mark.parametrize("backend", ["cpu", "cuda"])
def test_every_row_has_a_benchmark(backend):
    known = problems.measured(backend) | set(problems.UNMEASURED)
    missing = [row.name for row in rows() if row.name not in known]
    assert not missing, f"rows without a problem in tools/bench/problems, or a reason in UNMEASURED: {missing}"
    assert all(problems.UNMEASURED.values()), "a row that is not measured needs a reason"


@pytest.mark.parametrize("backend", ["cpu", "cuda"])
def test_benchmark_problems_are_told_apart(backend):
    names = [(bench.name, dtype) for bench in problems.benches(backend) for dtype in bench.dtypes]
    assert len(names) == len(set(names))
