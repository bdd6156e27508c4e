# SPDX-License-Identifier: Apache-2.0
"""Dense problems so large that each thread takes several vectors, with and without a tail."""

import pytest

from cases import CASES, Draw
from harness import OPS, launch, width
from harness.outcomes import check_outcome

# The least vectors for which a launch does so (core/pointwise/pointwise_cuda.cuh): whole blocks and a part of one.
VECTORS = 2**17 + 6 * 128 + 77

UNARY = ("unary_neg_f32", "unary_gelu_bf16", "unary_tanh_f16", "unary_sqrt_f64", "unary_neg_i8", "unary_powf_bf16")
BINARY = ("binary_add_f32", "binary_mul_bf16", "binary_pow_f16", "binary_add_i8", "binary_cmp_lt_f32")
BACKWARD = ("unary_gelu_tanh_backward_f32", "binary_mul_backward_f16", "binary_hypot_backward_f32")
OTHER = ("ternary_fma_f32", "ternary_addcmul_backward_f32", "where_f32", "cast_f32_bf16", "cast_u8_f32", "fill_f32",
         "fill_u8", "affine_bf16", "binary_lerp_f32", "binary_lerp_backward_f16")  # fmt: skip


@pytest.mark.parametrize("tail", [0, 1])
@pytest.mark.parametrize("op", [*UNARY, *BINARY, *BACKWARD, *OTHER])
def test_many_vectors(library, op, tail):
    row, slots = OPS[op]
    case = CASES[row.name]
    make = case.problems[case.plain]
    widest = max(width(array.dtype) for array in make(Draw(slots, 0)).arrays.values())
    problem = make(Draw(slots, tail), n=16 // widest * VECTORS + tail)
    check_outcome(library, case, op, problem, launch(library, op, problem), None)
