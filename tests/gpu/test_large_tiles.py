# SPDX-License-Identifier: Apache-2.0
"""GEMM of so many tiles that blocks take those of 128 x 128 (native/gemm/tiled/matmul_mma.cuh).

M, N and K are no multiples of a tile's, while rows begin at multiples of 16 bytes and are loaded as vectors.
"""

import dataclasses

import pytest
from gpu_tools import check, prepare

from cases import CASES, Draw
from cases.gemm.epilogue import epilogue, gated
from cases.gemm.grouped import grouped
from cases.gemm.scaled import MATRICES, scaled
from harness import OPS

SIZE, GAP, OWN = (1537, 1665, 65), 7, 1  # OWN: this library's kernels
WIDE = 15  # the gap for 8-bit operands
LAYOUTS = {"rrr": 0, "rcr": 1, "crr": 2, "ccr": 3}
MAKERS = {
    "gemm_epilogue_bf16": lambda d, layout: epilogue(d, *SIZE, layout=layout, gap=GAP, activation=3),
    "gemm_epilogue_f16": lambda d, layout: epilogue(d, *SIZE, layout=layout, gap=GAP),
    "gemm_epilogue_tf32": lambda d, layout: epilogue(d, *SIZE, layout=layout, gap=GAP),
    "gemm_gated_bf16": lambda d, layout: gated(d, *SIZE, layout=layout, gap=GAP),
    "grouped_gemm_bf16": lambda d, layout: grouped(d, *SIZE, 3, layout=layout, gap=GAP, kind="inside"),
    "gemm_scaled_fp8e4m3_bf16": lambda d, layout: scaled(
        d, *SIZE, layout=layout, scaling=MATRICES, gaps=(WIDE, WIDE, GAP)
    ),
    "gemm_scaled_fp8e5m2_fp8e4m3_bf16": lambda d, layout: scaled(
        d, *SIZE, layout=layout, scaling=MATRICES, gaps=(WIDE, WIDE, GAP), of_b="fp8e4m3"
    ),
}  # fmt: skip


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("op", MAKERS)
def test_large_tiles(library, op, layout):
    if op.startswith("grouped") and layout[0] == "c":
        layout = "rrr"  # grouped GEMM has no column-major A
    row, slots = OPS[op]
    problem = MAKERS[op](Draw(slots, f"{op} of large tiles"), LAYOUTS[layout])
    if "backend" in problem.scalars:
        problem.scalars["backend"] = OWN
    call = prepare(library, op, problem, "full")
    case = CASES[row.name]
    if op.startswith("gemm_scaled"):
        case = dataclasses.replace(case, tolerance={"d": "truncated"})  # warpgroup kernels, where the chip has them
    check(library, case, op, problem, call, "full", call.run())
