"""Results on top of inputs that the case table's drivers cannot express."""

import dataclasses
import math

import pytest

import tolerances
from cases import CASES, Array, Draw
from harness import OPS, Launch, launch


def ops(row):
    return [op for op, (r, _) in OPS.items() if r.name == row]


@pytest.mark.parametrize("op", ops("gated_{F}_{T}"))
def test_gated_on_its_first_half(library, op):
    """y may be x of equal strides: the second half stays as it is."""
    row, slots = OPS[op]
    for name in ("large", "padded", "flipped", "turned_in"):
        problem = CASES[row.name].problems[name](Draw(slots, name))
        strides = problem.host["stride_x"]
        problem = dataclasses.replace(problem, host=problem.host | {"stride_y": strides})
        problem.arrays["y"] = Array(slots["T"], problem.arrays["y"].shape, None, strides)
        apart = launch(library, op, problem).bits["y"]
        prepared = Launch(library, op, problem, alias={"y": "x"})
        before = prepared.buffers["x"].bits()
        outcome = prepared.outcome(prepared.run())
        assert outcome.status == 0, outcome.text
        first, second = outcome.bits["y"]
        tolerances.check_bits(f"{op}: {name}", first, apart, slots["T"])
        tolerances.check_bits(f"{op}: {name}, second half", second, before[1], slots["T"])


@pytest.mark.parametrize("op", ops("gated_{F}_backward_{T}"))
def test_gated_backward_on_x(library, op):
    row, slots = OPS[op]
    for name in ("large", "padded", "flipped", "apart"):
        problem = CASES[row.name].problems[name](Draw(slots, name))
        problem.host["stride_dx"] = problem.host["stride_x"]
        problem.scalars["dx_half_offset"] = problem.scalars["x_half_offset"]
        problem.arrays["dx"].strides = problem.arrays["x"].strides
        apart = launch(library, op, problem).bits["dx"]
        outcome = launch(library, op, problem, alias={"dx": "x"})
        assert outcome.status == 0, outcome.text
        tolerances.check_bits(f"{op}: {name}", outcome.bits["dx"], apart, slots["T"])


@pytest.mark.parametrize("source", ["dy", "x"])
@pytest.mark.parametrize("op", ops("prelu_backward_{T}") + ops("prelu_backward_{T}_strided"))
def test_prelu_backward_in_place(library, op, source):
    """Where no dweight is wanted."""
    row, slots = OPS[op]
    for name in (CASES[row.name].plain, CASES[row.name].large):
        problem = CASES[row.name].problems[name](Draw(slots, name))
        problem.null = ("dweight",)
        if "stride_dx" in problem.host:
            problem.host["stride_dx"] = problem.host[f"stride_{source}"]
            problem.arrays["dx"].strides = problem.arrays[source].strides
        apart = launch(library, op, problem).bits["dx"]
        outcome = launch(library, op, problem, alias={"dx": source})
        assert outcome.status == 0, outcome.text
        assert math.prod(apart.shape) == problem.scalars["numel"]
        tolerances.check_bits(f"{op}: {name}", outcome.bits["dx"], apart, slots["T"])
