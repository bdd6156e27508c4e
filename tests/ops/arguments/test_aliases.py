# SPDX-License-Identifier: Apache-2.0
"""Results written over inputs, in ways that the case table's drivers cannot express."""

import dataclasses
import math

import numpy as np
import pytest

import tolerances
from cases import CASES, Array, Draw
from harness import OPS, ROWS, Launch, itemsize, launch
from naming import each_row


def ops(row):
    return [op for op, (r, _) in OPS.items() if r.name == row]


@each_row(ops("gated_{F}_{T}"))
def test_gated_on_its_first_half(library, op):
    """y may alias x with equal strides: the second half stays as it is."""
    row, slots = OPS[op]
    for name in ("large", "padded", "flipped", "permuted_in"):
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


@each_row(ops("gated_{F}_backward_{T}"))
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
@each_row(ops("prelu_backward_{T}") + ops("prelu_backward_{T}_strided"))
def test_prelu_backward_in_place(library, op, source):
    """dx may be written over an input where dweight is not wanted."""
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


def overlapping(library, op, problem, output, other, shift):
    """A launch whose output pointer is `shift` elements of its own behind that of another operand."""
    prepared = Launch(library, op, problem)
    moved = prepared.buffers[other].pointer + shift * itemsize(problem.arrays[output].dtype)
    row, _ = OPS[op]
    prepared.arguments[[p.name for p in row.params].index(output)] = library.ffi.cast("void*", moved)
    return prepared


def dense(problem, name):
    """Whether the operand's elements lie without gaps."""
    shape, strides = problem.arrays[name].shape, problem.arrays[name].strides
    if strides is None or problem.arrays[name].dtype in ("s4", "u4"):
        return True
    reach = sum(abs(s) * (e - 1) for e, s in zip(shape, strides)) + 1
    return reach == math.prod(e for e, s in zip(shape, strides) if s)


# The first op of a row with each element width: overlap does not depend on the function.
FIRST = {(row.name, tuple(slots[s] for s in row.slots)): op for op, (row, slots) in reversed(OPS.items())}


@pytest.mark.parametrize("name", ROWS)
def test_an_output_that_overlaps_is_refused(library, name):
    """Overlaps of some bytes at either end, and outputs with one address, are refused, and nothing is written."""
    tried = 0
    for op in [op for (row, _), op in FIRST.items() if row == name][:: 1 if len(ROWS[name].slots) < 2 else 23]:
        row, slots = OPS[op]
        problem = CASES[name].problems[CASES[name].plain](Draw(slots, "overlap"))
        problem.null = ()  # operands are compared whatever an op does with them
        outputs = [p.name for p in row.pointers if p.is_output]
        pairs = [(o, p.name) for o in outputs for p in row.pointers if p.name != o]
        for output, other in pairs:
            shapes = [p.shape for p in row.pointers if p.name in (output, other)]
            is_apart = row.family != "linalg"  # whose matrices of the plain problem are dense
            gaps = any("twice" in s or (" at " in s and is_apart) for s in shapes)
            if gaps or not (dense(problem, output) and dense(problem, other)):
                continue
            if 0 in (*problem.arrays[output].shape, *problem.arrays[other].shape):
                continue
            for shift, first in ((1, other), (-1, output)):
                count, size = math.prod(problem.arrays[first].shape), itemsize(problem.arrays[first].dtype)
                if count < 3 or count * size <= itemsize(problem.arrays[output].dtype):
                    continue  # it ends where the second begins
                prepared = overlapping(library, op, problem, output, other, shift)
                status = prepared.run()
                assert status == 2, f"{op}: {output} lies {shift} elements behind {other}"
                tried += 1
                outcome = prepared.outcome(status)
                assert output in outcome.text.replace(":", " ").split(), outcome.text
    # Strides are scalars; info has a number for each of a few matrices.
    apart = all(" at " in p.shape or p.name == "info" for p in ROWS[name].pointers if p.is_output)
    of_a_part = name.startswith(("gated", "trace", "reduce", "contiguize", "pad_constant_b", "flash_sdpa_sm89"))
    assert tried or len(ROWS[name].pointers) == 1 or apart or of_a_part or "actstrided" in name


INTERLEAVED = ("cast_f32_f32_strided", "cast_i64_i64_strided", "unary_neg_f32_strided", "where_backward_f16_strided")


@each_row(INTERLEAVED)
def test_views_that_interleave_pass(library, op):
    """Operands may be the even and the odd elements of one array."""
    row, slots = OPS[op]
    problem = CASES[row.name].problems["plain"](Draw(slots, "interleaved"))
    names = [p.name for p in row.pointers if p.dtype_of(slots) == slots["T"]]
    source, output = ("dy", "da") if "dy" in names else names
    for name in (source, output):
        strides = tuple(2 * s for s in problem.host[f"stride_{name}"])
        problem.host[f"stride_{name}"] = problem.arrays[name].strides = strides
    apart = launch(library, op, problem)
    prepared = overlapping(library, op, problem, output, source, 1)
    before = prepared.buffers[source].bits()
    assert prepared.run() == 0
    prepared.memory.synchronize()
    np.testing.assert_array_equal(prepared.buffers[source].bits(), before)
    assert apart.status == 0


@each_row(["segment_sum_backward_f32", "repeat_f32", "embedding_bag_f32", "affine_grid_2d_f64"])
def test_gathered_rows_may_not_alias(library, op):
    """Gathered rows may not alias even an input of their size."""
    row, slots = OPS[op]
    problems = CASES[row.name].problems
    problem = problems["same" if "same" in problems else CASES[row.name].plain](Draw(slots, "place"))
    outcome = launch(library, op, problem, alias={row.pointers[-1].name: row.pointers[0].name})
    assert outcome.status == 2
    assert f"{row.pointers[-1].name} overlaps {row.pointers[0].name}" in outcome.text
