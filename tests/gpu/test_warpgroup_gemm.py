# SPDX-License-Identifier: Apache-2.0
"""Warpgroup GEMM (native/gemm/sm90/matmul_sm90a.cu), on the chips that have it: every layout, epilogue steps, gates,
batches, grouped rows and grouped K, 8-bit operands. The problems are large and aligned; M, N and K are not whole tiles.
"""

import dataclasses

import numpy as np
import pytest
from cuda.bindings import runtime
from gpu_tools import prepare, right_on_two_streams

from cases import CASES, Draw
from cases.gemm.epilogue import OPTIONAL, WITHOUT_Z, epilogue, gated, without
from cases.gemm.gemm import RowTraits, batched, product
from cases.gemm.grouped import grouped
from cases.gemm.scaled import OF_B, scaled
from harness import OPS, cuda_check

UNSUPPORTED = 3
OWN, WARPGROUPS = 1, 4  # values of the parameter backend: this library's own kernels, and warpgroup kernels only
EXTENTS = {  # tiles are 128 x 256 and 128 x 128; K is within and beyond a stage; no extent is a multiple of a tile's
    "wide": (1064, 4136, 136), "narrow": (1000, 1208, 72), "large_k": (520, 2056, 1096), "tall": (8200, 72, 64),
}  # fmt: skip
MATRICES = ("a", "b", "c", "r", "z", "d")  # matrices of a batch of one, whose batch strides are 0


def with_epilogue(layout, *, null=(), activation=0, batch=1, gap=8):
    def make(draw, extents):
        m, n, k = extents
        shared = MATRICES if batch == 1 else ("b",)
        p = epilogue(draw, m, n, k, batch, layout=layout, activation=activation, gap=gap, null=null, shared=shared)
        if batch > 1:
            p = moved(p, batch)
        p.scalars["backend"] = OWN
        return p

    return make


def moved(p, batch):
    """Matrices of a batch whose batch strides are multiples of 16 elements."""
    for name in MATRICES:
        array = p.arrays[name]
        if array.strides[0]:
            array.strides = (-(-array.strides[0] // 16) * 16, *array.strides[1:])
            p.scalars[f"stride_{name}"] = array.strides[0]
    assert p.scalars["batch"] == batch
    return p


def with_gate(layout, null=WITHOUT_Z):
    def make(draw, extents):
        m, n, k = extents
        p = gated(draw, m, n // 2 * 2, k, layout=layout, gap=8, null=null)
        p.scalars["backend"] = OWN
        return p

    return make


def grouped_gradients(layout):
    """Gradients of grouped rows, between NaN rows of no group."""

    def make(draw, extents):
        p = grouped(draw, *extents, 11, layout=layout, gap=8, kind="inside", backward=True)
        first, *_, last = p.arrays["offsets"].values
        for name in ("dd", "a"):
            rows = p.arrays[name].values.copy()
            rows[:first] = rows[last:] = np.nan
            p.arrays[name].values = rows
        return p

    return make


def eight_bit(draw, extents, bias, alpha=2.0**-10):
    m, n, k = (-(-e // 16) * 16 if i else e for i, e in enumerate(extents))
    return product(draw, m, n, k, traits=RowTraits("rcr"), gaps=(16, 32, 0, 16), coeffs=(alpha, 0.5), bias=bias)


FORMS = {}
for layout, text in enumerate(("rrr", "rcr", "crr", "ccr")):
    FORMS |= {
        f"{text}_alone": ("gemm_epilogue_{T}", with_epilogue(layout, null=OPTIONAL)),
        f"{text}_bias_relu": ("gemm_epilogue_{T}", with_epilogue(layout, null=without("bias"), activation=1)),
        f"{text}_residual": ("gemm_epilogue_{T}", with_epilogue(layout, null=without("bias", "r"), activation=2)),
        f"{text}_no_scales": (
            "gemm_epilogue_{T}",
            with_epilogue(layout, null=("row_bias", "row_scale", "column_scale"), activation=3),
        ),
        f"{text}_every_step": ("gemm_epilogue_{T}", with_epilogue(layout, activation=4)),
        f"{text}_f32_results": (
            "gemm_epilogue_{T}_f32",
            with_epilogue(layout, null=without("c"), activation=3),
        ),
        f"{text}_gated": ("gemm_gated_{T}", with_gate(layout)),
        f"{text}_gated_saved": ("gemm_gated_{T}", with_gate(layout, ())),
    }
FORMS |= {
    "batch": ("gemm_epilogue_{T}", lambda d, _: with_epilogue(1, batch=9)(d, (264, 392, 136))),
    "groups": ("grouped_gemm_{T}", lambda d, e: grouped(d, *e, 37, layout=1, gap=8)),
    "grouped_k_rrr": ("grouped_gemm_backward_{T}", grouped_gradients(0)),
    "grouped_k_rcr": ("grouped_gemm_backward_{T}", grouped_gradients(1)),
    "groups_inside": (
        "grouped_gemm_{T}",
        lambda d, e: grouped(d, *e, 11, gap=8, kind="inside", coeffs=(1, 0.5)),
    ),
}
CALLS = [
    (name.replace("{T}", dtype), form, extents)
    for form, (name, _) in FORMS.items()
    for dtype, several in (("bf16", EXTENTS), ("f16", ("narrow",)))
    for extents in several
    if name.replace("{T}", dtype) in OPS
]
DENSE_BYTES = ("gemm_dense_i8", "gemm_dense_u8", "gemm_dense_fp8")
BYTES = [op for op in OPS if op.startswith("gemm_") and "_rcr_" in op and ("_s8_" in op or "_u8_" in op)]


@pytest.mark.parametrize(("op", "form", "extents"), CALLS)
def test_gemm(library, op, form, extents):
    right_on_two_streams(library, op, FORMS[form][1](Draw(OPS[op][1], f"{op} {form}"), EXTENTS[extents]))


@pytest.mark.parametrize("extents", ["wide", "narrow"])
@pytest.mark.parametrize("op", BYTES)
def test_bytes(library, op, extents):
    draw = Draw(OPS[op][1], op)
    right_on_two_streams(library, op, eight_bit(draw, EXTENTS[extents], draw.other if "bias" in op else ""))


@pytest.mark.parametrize("extents", EXTENTS)
@pytest.mark.parametrize("op", [op for op in OPS if op.startswith("gemm_fp8_") and "_rcr_" in op])
def test_fp8(library, op, extents):
    problem = eight_bit(Draw(OPS[op][1], op), EXTENTS[extents], "f32" if "bias" in op else "", alpha=0.25)
    right_on_two_streams(library, op, problem, truncated(op))


@pytest.mark.parametrize("layout", [0, 2, 3], ids=["rrr", "crr", "ccr"])
@pytest.mark.parametrize(
    "op", [op for op in OPS if op.startswith(("gemm_dense_i8", "gemm_dense_u8", "gemm_dense_fp8"))]
)
def test_transposed_operands(library, op, layout):
    """A workspace serves to transpose operands that are not K-major."""
    draw = Draw(OPS[op][1], f"{op} {layout}")
    problem = batched(
        draw, 1000, 1208, 200, 2, layout=layout, dense=True, sums=op.endswith("i32"), gap=8, apart=32,
    )  # fmt: skip
    right_on_two_streams(library, op, problem, truncated(op) if "fp8" in op else None, "full")


@pytest.mark.parametrize("op", [op for op in ("gemm_s8_rrr_sm80", "gemm_fp8_e4m3_rrr_sm89") if op in OPS])
def test_row_major_b(library, op):
    draw = Draw(OPS[op][1], op)
    problem = product(draw, 1064, 2064, 168, traits=RowTraits("rrr"), gaps=(8, 5, 0, 3), coeffs=(2.0**-6, 0.5), bias="")
    right_on_two_streams(library, op, problem, truncated(op) if "fp8" in op else None, "full")


@pytest.mark.parametrize("op", [op for op in OPS if op.startswith("gemm_dense_") and op.endswith("8_i32")])
def test_integer_sums(library, op):
    right_on_two_streams(
        library,
        op,
        batched(Draw(OPS[op][1], op), 1064, 2064, 160, 2, layout=1, dense=True, sums=True, gap=16, apart=32),
    )


def truncated(op):
    return dataclasses.replace(CASES[OPS[op][0].name], tolerance={"d": "truncated"})


def run_on_warpgroups(library, op, problem, case=None):
    """Runs on the warpgroup kernels alone, which other chips do not have."""
    problem.scalars["backend"] = WARPGROUPS
    attribute = runtime.cudaDeviceAttr.cudaDevAttrComputeCapabilityMajor
    if cuda_check(runtime.cudaDeviceGetAttribute(attribute, cuda_check(runtime.cudaGetDevice()))) == 9:
        right_on_two_streams(library, op, problem, case)
    else:
        assert prepare(library, op, problem, None).run() == UNSUPPORTED


SCALED = [op for op in OPS if op.startswith("gemm_scaled_fp8")]


def large_scaled(op, scaling, beta, extents, layout=1):
    m, n, k = extents
    gap = 16 + -k % 16
    draw = Draw(OPS[op][1], f"{op} {scaling}")
    made = scaled(
        draw,
        m,
        n,
        k,
        layout=layout,
        scaling=scaling,
        gaps=(gap, gap + 16, 8),
        coeffs=(0.75, beta),
        **OF_B.get(OPS[op][0].name, {}),
    )
    return made, truncated(op)


TF32 = {
    "alone": {"null": OPTIONAL},
    "every_step": {"activation": 4},
    "relu": {"null": without("bias"), "activation": 1},
}


@pytest.mark.parametrize("extents", EXTENTS)
@pytest.mark.parametrize("form", TF32)
def test_tf32(library, form, extents):
    op = "gemm_epilogue_tf32"
    run_on_warpgroups(library, op, with_epilogue(1, **TF32[form])(Draw(OPS[op][1], f"{op} {form}"), EXTENTS[extents]))


@pytest.mark.parametrize("extents", EXTENTS)
@pytest.mark.parametrize("beta", [0.0, -1.5], ids=["alone", "added"])
@pytest.mark.parametrize("scaling", [0, 1, 2], ids=["matrices", "rows", "blocks"])
@pytest.mark.parametrize("op", SCALED)
def test_scaled(library, op, scaling, beta, extents):
    run_on_warpgroups(library, op, *large_scaled(op, scaling, beta, EXTENTS[extents]))


@pytest.mark.parametrize("has_bias", [False, True])
@pytest.mark.parametrize("workspace", [None, "full"])
@pytest.mark.parametrize("scaling", [0, 1], ids=["matrices", "rows"])
@pytest.mark.parametrize("op", [op for op in SCALED if "e4m3" in op])
def test_scaled_by_choice(library, op, scaling, workspace, has_bias):
    """cuBLASLt serves all of these except for f32 results with a bias."""
    problem, case = large_scaled(op, scaling, -1.5, (1040, 1200, 528))
    if not has_bias:
        problem = dataclasses.replace(problem, null=("bias",))
    right_on_two_streams(library, op, problem, case, workspace)


@pytest.mark.parametrize("layout", [0, 2, 3], ids=["rrr", "crr", "ccr"])
@pytest.mark.parametrize("scaling", [0, 1, 2], ids=["matrices", "rows", "blocks"])
@pytest.mark.parametrize("op", [op for op in SCALED if "f16" in op])
def test_scaled_transposed(library, op, scaling, layout):
    """Copies along k, which cuBLASLt multiplies unless scales are by blocks."""
    right_on_two_streams(library, op, *large_scaled(op, scaling, -1.5, (1040, 1200, 528), layout), "full")


@pytest.mark.parametrize("extents", EXTENTS)
def test_3xtf32(library, extents):
    m, n, k = EXTENTS[extents]
    op = "gemm_dense_f32_3xtf32"
    draw = Draw(OPS[op][1], f"{op} {extents}")
    problem = batched(draw, m, n, k, 2, dense=True, coeffs=(0.75, -1.5), gap=8, apart=16)
    right_on_two_streams(library, op, problem)
