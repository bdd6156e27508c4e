# SPDX-License-Identifier: Apache-2.0
"""GEMM without a workspace, in which each thread takes a slab of rows: the results equal those of one thread."""

import pytest

import tolerances
from cases import CASES, Draw
from cases.gemm.gemm import LAYOUTS, batched
from harness import OPS, launch
from harness.outcomes import check_outcome

# Slabs that pack into rows of D that are still unwritten, and ones too small for that; of whole blocks, and of one row
# more.
EXTENTS = [(512, 170, 200), (385, 97, 33), (391, 192, 260)]


@pytest.mark.parametrize("gap", [0, 3], ids=["dense", "gaps"])
@pytest.mark.parametrize("extents", EXTENTS, ids=str)
@pytest.mark.parametrize("dtype", ["f32", "bf16", "f64"])
def test_slabs(library, set_threads, dtype, extents, gap):
    op = f"gemm_dense_{dtype}"
    row, slots = OPS[op]
    case = CASES[row.name]
    for layout in range(len(LAYOUTS)):
        problem = batched(
            Draw(slots, "slabs"), *extents, 2, layout=layout, gap=gap, apart=5, dense=True, coeffs=(1.0, 0.0)
        )
        expected = case.reference(problem)
        found = []
        for threads in (1, 2, 3):
            set_threads(threads)
            found.append(launch(library, op, problem))
            check_outcome(library, case, op, problem, found[-1], None, expected)
        for outcome in found[1:]:
            label = f"{op}, {LAYOUTS[layout]}: slabs"
            tolerances.check_bits(label, outcome.bits["d"], found[0].bits["d"], outcome.dtypes["d"])
