"""A gradient that is summed over an axis of extent 0 has cells though its op has no elements: they become +0."""

import pytest

from cases import CASES, Draw
from harness import OPS, Launch, last_error

SUMS = [op for op, (row, _) in OPS.items() if row.workspace and "sum_one" in CASES[row.name].problems]
FLAT = [op for op, (row, _) in OPS.items() if row.name == "prelu_backward_{T}"]


def check_zeroed(library, op, problem, zeroed):
    """Of the outputs `zeroed` alone is written, and needs no other array; without it nothing is."""
    others = tuple(name for name in problem.arrays if name != zeroed)
    for null in ((), others, (zeroed,)):
        prepared = Launch(library, op, problem, null=null)
        assert prepared.run() == 0, last_error(library)
        prepared.memory.synchronize()
        for name, buffer in prepared.buffers.items():
            if buffer is not None:
                buffer.check(f"{op}: {name}", written=name == zeroed)
        if zeroed not in null:
            assert not prepared.buffers[zeroed].bits().any()
    prepared = Launch(library, op, problem, shift={zeroed: 1})
    assert prepared.run() == 1
    assert f"{zeroed} is 0x" in last_error(library)


@pytest.mark.parametrize("op", SUMS)
def test_strided(library, op):
    """The problem "sum_one" without its only row."""
    row, slots = OPS[op]
    problem = CASES[row.name].problems["sum_one"](Draw(slots, "empty"))
    (zeroed,) = [p.name for p in row.pointers if p.is_output and problem.arrays[p.name].strides[0] == 0]
    problem.scalars["numel"], problem.host["shape"] = 0, (0, 7)
    check_zeroed(library, op, problem, zeroed)


@pytest.mark.parametrize("scalar", [0, 1])
@pytest.mark.parametrize("op", FLAT)
def test_flat(library, op, scalar):
    row, slots = OPS[op]
    problem = CASES[row.name].problems["scalar7" if scalar else "plain"](Draw(slots, "empty"))
    problem.scalars["numel"] = 0
    check_zeroed(library, op, problem, "dweight")
