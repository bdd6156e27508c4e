# SPDX-License-Identifier: Apache-2.0
"""Scans of few long rows, whose tiles are staged in shared memory (core/scan/scan_staged.cuh), with a partial last
tile."""

import pytest

from cases import CASES, Draw
from cases.scan import forward
from harness import OPS, launch, width
from harness.outcomes import check_outcome

TILES, VECTORS = 264, (10, 8)  # with fewer tiles another kernel runs; 16-byte vectors per thread, by axis
BOTH = {"x": {"flip": (0, 1)}, "y": {"flip": (0, 1)}}
GAPS = {"x": {"gap": 1}, "y": {"gap": 2}}
PADDED = {"x": {"pad": 16}, "y": {"pad": 32}}


def check(library, op, axis, rows, tail, options):
    row, slots = OPS[op]
    draw = Draw(slots, f"{op} {axis} {rows} {tail}")
    groups, threads = (rows, 256) if axis == 1 else (-(-rows // 32), 8)
    tile = threads * VECTORS[axis] * (16 // width(draw.dtype))
    length = max(2, -(-TILES // groups)) * tile + tail
    problem = forward(draw, (rows, length) if axis == 1 else (length, rows), axis, **options)
    outcome = launch(library, op, problem, workspace="full")
    check_outcome(library, CASES[row.name], op, problem, outcome, "full")


@pytest.mark.parametrize("options", [{}, {"reverse": True}, BOTH, GAPS, PADDED, {"kind": "infinite"}],
                         ids=["dense", "back", "flipped", "gaps", "padded", "infinite"])  # fmt: skip
@pytest.mark.parametrize(("axis", "rows", "tail"), [(1, 1, 0), (1, 3, 77), (0, 32, 3), (0, 40, 0)])
@pytest.mark.parametrize("op", ["scan_cumsum_f32", "scan_cumsum_bf16"])
def test_layouts(library, op, axis, rows, tail, options):
    check(library, op, axis, rows, tail, options)


@pytest.mark.parametrize(("axis", "rows"), [(1, 1), (0, 64)])
@pytest.mark.parametrize(
    "op",
    ["scan_cumsum_f64", "scan_exclusive_cumsum_f32", "scan_cumprod_f16", "scan_log_cumsum_exp_f32", "scan_cumsum_i32",
     "scan_exclusive_cumsum_i64"],
)  # fmt: skip
def test_scans(library, op, axis, rows):
    check(library, op, axis, rows, 5, {})


@pytest.mark.parametrize("op", ["scan_cummax_f32", "scan_cummin_bf16"])
@pytest.mark.parametrize(("axis", "rows"), [(1, 200), (0, 256)])
def test_extrema(library, op, axis, rows):
    check(library, op, axis, rows, 5, {"kind": "infinite"})
