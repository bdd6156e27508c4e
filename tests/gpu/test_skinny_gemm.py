# SPDX-License-Identifier: Apache-2.0
"""Skinny GEMM with so many columns that blocks read whole rows of B (native/gemm/skinny/matmul_skinny.cuh)."""

import pytest
from gpu_tools import right_on_two_streams

from cases import Draw
from cases.gemm.gemm import batched
from harness import OPS

LAYOUTS = {0: "rrr", 1: "rcr", 2: "crr", 3: "ccr"}
COLUMNS = {"vectors": 132 * 64 + 24, "odd": 132 * 64 + 7}


@pytest.mark.parametrize("columns", COLUMNS)
@pytest.mark.parametrize("m", [1, 3, 8])
@pytest.mark.parametrize("layout", LAYOUTS, ids=LAYOUTS.values())
@pytest.mark.parametrize("op", ["gemm_dense_f32", "gemm_dense_f16", "gemm_dense_bf16"])
def test_gemm(library, op, layout, m, columns):
    draw = Draw(OPS[op][1], f"{op} {layout} {m} {columns}")
    right_on_two_streams(library, op, batched(draw, m, COLUMNS[columns], 300, 2, layout=layout, dense=True, gap=8))
