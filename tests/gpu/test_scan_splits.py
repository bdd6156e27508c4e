# SPDX-License-Identifier: Apache-2.0
"""Scans of few long rows without a workspace, split into parts whose partial sums are stored in the output
(core/scan/scan_splits.cuh)."""

import pytest

from cases import CASES, Draw
from cases.scan import backward, cumsum_backward, forward, with_indices
from harness import OPS, launch
from harness.outcomes import check_outcome
from tolerances import check_bits

BOTH = {"x": {"flip": (0, 1)}, "y": {"flip": (0, 1)}}
GAPS = {"x": {"gap": 1}, "y": {"gap": 2}}
PADDED = {"x": {"pad": 16}, "y": {"pad": 32}}


def check(library, op, make, shape, axis, **options):
    row, slots = OPS[op]
    problem = make(Draw(slots, f"{op} {shape} {axis}"), shape, axis, **options)
    check_outcome(library, CASES[row.name], op, problem, launch(library, op, problem), None)


def shapes(rows, tail):
    """Tiles have 4,096 elements, in 16 bits 8,192; of strided rows 128, or 256. Rows of 16 tiles are the first to be
    split."""
    yield (rows, 20 * 8192 + tail), 1
    yield (20 * 256 + tail, rows), 0


@pytest.mark.parametrize("options", [{}, {"reverse": True}, BOTH, GAPS, PADDED, {"kind": "infinite"}],
                         ids=["dense", "back", "flipped", "gaps", "padded", "infinite"])  # fmt: skip
@pytest.mark.parametrize(("rows", "tail"), [(1, 0), (3, 77)])
@pytest.mark.parametrize("op", ["scan_cumsum_f32", "scan_cumsum_bf16"])
def test_layouts(library, op, rows, tail, options):
    for shape, axis in shapes(rows, tail):
        check(library, op, forward, shape, axis, **options)


def test_more_rows_than_lanes(library):
    check(library, "scan_cumsum_f32", forward, (20 * 128 + 1, 40), 0)


@pytest.mark.parametrize(
    "op",
    ["scan_cumsum_f64", "scan_exclusive_cumsum_f32", "scan_cumprod_f16", "scan_log_cumsum_exp_f32", "scan_cumsum_i32",
     "scan_exclusive_cumsum_i64", "scan_cummax_f32", "scan_cummin_bf16"],
)  # fmt: skip
def test_scans(library, op):
    for shape, axis in shapes(2, 5):
        check(library, op, forward, shape, axis)


@pytest.mark.parametrize("op", ["scan_cummax_indices_bf16", "scan_cummin_indices_f64"])
def test_indices(library, op):
    for shape, axis in shapes(2, 5):
        check(library, op, with_indices, shape, axis)


def test_gradient_of_sums(library):
    for shape, axis in shapes(2, 5):
        check(library, "scan_cumsum_backward_bf16", cumsum_backward, shape, axis)


@pytest.mark.parametrize("op", ["scan_log_cumsum_exp_backward_f32", "scan_cumprod_backward_f32"])
def test_gradients(library, op):
    check(library, op, backward, (20 * 256 + 5, 2), 0)


@pytest.mark.parametrize("length", [16 * 4096, 80 * 4096 + 7])
def test_lengths(library, length):
    """The shortest row that is split; 7 elements after whole parts make no part of their own."""
    check(library, "scan_cumsum_f32", forward, (1, length), 1)


@pytest.mark.parametrize("rows", [1, 5])
@pytest.mark.parametrize("op", ["scan_cumsum_f32", "scan_cumsum_bf16", "scan_log_cumsum_exp_f32"])
def test_in_place(library, op, rows):
    """In place a row is scanned by one block: the bits are those of many."""
    _, slots = OPS[op]
    for shape, axis in shapes(rows, 9):
        problem = forward(Draw(slots, f"in place {op} {shape}"), shape, axis)
        apart, over = launch(library, op, problem), launch(library, op, problem, alias={"y": "x"})
        check_bits(op, over.bits["y"], apart.bits["y"], apart.dtypes["y"])
