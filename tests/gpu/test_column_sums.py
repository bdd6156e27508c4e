# SPDX-License-Identifier: Apache-2.0
"""Scattered sums of strided fibers in shared memory, without a workspace (core/scatter/scatter_column_sums.cuh)."""

import pytest

from cases import CASES, Draw
from cases.indexing.sums import added
from cases.model import strides_for
from harness import OPS, launch
from harness.outcomes import check_outcome

BATCH = 512  # updates of a fiber per batch; shorter fibers have another kernel
SHAPES = {
    "short_batch": ((2 * BATCH + 77, 1028), 0, 300),  # the last batch is short, too
    "one_target": ((BATCH, 1024), 0, 1),
    "in_tiles": ((2 * BATCH, 600), 0, 7700),  # more targets than shared memory holds
    "blocks": ((3, BATCH + 1, 345), 1, 600),
}


def check(library, op, shape, axis, extent, spread, **options):
    row, slots = OPS[op]
    draw = Draw(slots, f"{op} {shape} {spread}")
    problem = added(draw, row.name, shape, axis, extent, spread, **options)
    check_outcome(library, CASES[row.name], op, problem, launch(library, op, problem), None)


@pytest.mark.parametrize("spread", ["uniform", "hot", "giant", "mixed"])
@pytest.mark.parametrize(("shape", "axis", "extent"), SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("op", ["scatter_add_f32", "scatter_add_i64idx_bf16"])
def test_spreads(library, op, shape, axis, extent, spread):
    check(library, op, shape, axis, extent, spread)


@pytest.mark.parametrize(
    "op", ["scatter_add_f16", "scatter_add_f64", "scatter_add_i32", "scatter_add_i64", "gather_backward_i64idx_f32"]
)
def test_dtypes(library, op):
    check(library, op, (BATCH + 3, 1100), 0, 411, "hot")


def test_infinities_and_nan(library):
    check(library, "scatter_add_f32", (BATCH, 1100), 0, 1000, "mixed", kind="special")


def test_gaps(library):
    shape, extent = (BATCH + 9, 1030), 300
    updates = strides_for(shape, pad=5)
    check(library, "scatter_add_f32", shape, 0, extent, "hot", updates=updates, out=strides_for((extent, 1030), pad=3))
