# SPDX-License-Identifier: Apache-2.0
"""GEMM that is large enough for cuBLASLt (native/gemm/cublaslt/matmul_cublaslt.cuh), with it or without."""

import pytest
from gpu_tools import right_on_two_streams

import baracuda as bk
from baracuda._library import vendor
from cases import CASES, Draw
from cases.gemm.epilogue import OPTIONAL, epilogue, without
from cases.gemm.gemm import LAYOUTS, RowTraits, product
from harness import OPS

NAMES = (
    "gemm_bf16_rcr_sm80", "gemm_f16_rrr_sm80", "gemm_f64_rrr_sm80", "gemm_f32_simt_rcr_sm80", "gemm_f32_simt_rrr_sm80",
    "gemm_bias_bf16_rrr_sm80", "gemm_bias_f64_rcr_sm80", "gemm_bias_relu_bf16_rcr_sm80", "gemm_bias_relu_f16_rrr_sm80",
    "gemm_bias_relu_f32_simt_rcr_sm80", "gemm_bias_gelu_bf16_rcr_sm80", "gemm_bias_silu_f16_rrr_sm80",
    "gemm_bias_gelu_f32_simt_rrr_sm80", "gemm_bias_silu_f64_rcr_sm80",
)  # fmt: skip


@pytest.fixture(autouse=True)
def cublaslt(library):
    try:
        vendor.preload(library, "cublasLt")
    except bk.UnsupportedError:
        return  # its absence costs speed only


def large(op, values, gaps):
    row, slots = OPS[op]
    kind = RowTraits("rcr" if "_rcr" in op else "rrr")
    draw = Draw(slots, f"{op} for cuBLASLt")
    bias = draw.dtype if "_bias" in op else ""
    return CASES[row.name], product(
        draw, 640, 520, 512, traits=kind, gaps=gaps, coeffs=(0.75, -1.5), bias=bias, values=values
    )


@pytest.mark.parametrize("workspace", [None, "full"])
@pytest.mark.parametrize(
    ("values", "gaps"), [("normal", (8, 16, 8, 24)), ("normal", (1, 3, 2, 5)), ("special", (0,) * 4)]
)
@pytest.mark.parametrize("op", [op for op in NAMES if op in OPS])
def test_gemm(library, op, values, gaps, workspace):
    """Results are right and bitwise equal on another stream; GEMM with odd gaps is not for cuBLASLt."""
    case, problem = large(op, values, gaps)
    right_on_two_streams(library, op, problem, case, workspace)


TF32_FORMS = {"alone": OPTIONAL, "bias": without("bias"), "every_step": ()}


@pytest.mark.parametrize("layout", range(4), ids=LAYOUTS)
@pytest.mark.parametrize("form", TF32_FORMS)
def test_rounded_operands(library, form, layout):
    """TF32 GEMM, whose operands are rounded first; rows begin at multiples of 16 bytes, and end between them."""
    op = "gemm_epilogue_tf32"
    draw, single = Draw(OPS[op][1], f"{op} {form}"), ("a", "b", "c", "r", "z", "d")
    problem = epilogue(draw, 2050, 2118, 70, layout=layout, gap=2, null=TF32_FORMS[form], shared=single)
    right_on_two_streams(library, op, problem, workspace="full")
