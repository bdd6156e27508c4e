# SPDX-License-Identifier: Apache-2.0
"""The CPU's bf16 dot-product instructions flush subnormal products: where there may be some the library avoids them."""

import pytest

from cases import CASES, Draw
from cases.gemm.gemm import LAYOUTS, batched
from harness import OPS, launch
from harness.outcomes import check_outcome

OP = "gemm_dense_bf16"
SMALL = 2.0**-66  # products of two such operands are subnormal in f32
# GEMM in blocks, and skinny GEMM by rows and by columns; K within a vector, beyond it, and of several thousand.
EXTENTS = [(24, 17, 40), (1, 40, 96), (3, 20, 70), (7, 33, 200), (30, 2, 64), (5, 16, 9000)]


@pytest.mark.parametrize("extents", EXTENTS, ids=str)
@pytest.mark.parametrize("layout", range(4), ids=LAYOUTS)
def test_tiny_products(library, layout, extents):
    """The first row and column are small; the last ones are, too, except for a zero and a normal number."""
    row, slots = OPS[OP]
    problem = batched(
        Draw(slots, "tiny"), *extents, 1, layout=layout, steps=(0, 0, 0, 0), dense=True, coeffs=(1.0, 0.0)
    )
    for name, by_columns in (("a", LAYOUTS[layout][0] == "c"), ("b", LAYOUTS[layout][1] == "r")):
        values = problem.arrays[name].values.copy()
        vectors = values[0].T if by_columns else values[0]
        vectors[0] *= SMALL
        vectors[-1, :-1] *= SMALL
        vectors[-1, 0] = 0
        problem.arrays[name].values = values
    case = CASES[row.name]
    check_outcome(library, case, OP, problem, launch(library, OP, problem), None, case.reference(problem))
