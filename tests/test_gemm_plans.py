"""Plans of products of matrices: every layout and epilogue computes what it says, from operands that lie by rows."""

import itertools

import numpy as np
import pytest

import baracuda as bk
from cases.gemm import ACTIVATIONS
from fakes import FakeLibrary, example_args, example_descriptor, example_plan, launch, raw
from placement import odd, values_of

M, N, K = 5, 6, 7
TOLERANCE = {bk.f16: 4e-3, bk.bf16: 3e-2, bk.f32: 2e-3, bk.f32_strict: 1e-5, bk.f64: 1e-12}
NAMES = {bk.EpilogueKind.BIAS_RELU: "relu", bk.EpilogueKind.BIAS_GELU: "gelu", bk.EpilogueKind.BIAS_SILU: "silu"}


def matrix(values, dtype, gap=0):
    """By rows, `gap` elements apart."""
    wide = np.concatenate([values, np.full((*values.shape[:-1], gap), 3)], -1)
    memory = bk.upload(np.ascontiguousarray(wide).ravel(), dtype)
    strides = bk.contiguous_stride(wide.shape)
    return bk.TensorRef(memory.ptr, values.shape, dtype, strides, memory.length, device=memory.device, owner=memory)


def stored(b, layout):
    return np.swapaxes(b, -1, -2) if layout.name == "RCR" else b


@pytest.mark.parametrize("element", TOLERANCE, ids=str)
def test_gemm(rng, library, element):
    dtype = bk.f32 if element is bk.f32_strict else element
    a, b, c = odd(rng, (M, K), -2, 2, 8), odd(rng, (K, N), -2, 2, 8), odd(rng, (M, N), -2, 2, 8)
    bias = odd(rng, (N,), -2, 2, 8)
    for layout, epilogue, beta, gap in itertools.product(bk.LayoutSku, bk.EpilogueKind, (0.0, 0.5), (0, 3)):
        descriptor = bk.GemmDescriptor(M, N, K, layout, epilogue, 0.25, beta, element=element)
        plan = bk.GemmPlan.select(None, descriptor, library=library)
        d = matrix(np.full((M, N), np.nan), dtype, gap)
        args = bk.GemmArgs(
            a=matrix(a, dtype, gap), b=matrix(stored(b, layout), dtype, gap), d=d, c=matrix(c, dtype, gap),
            bias=bk.upload(bias, dtype) if epilogue.requires_bias else None,
        )  # fmt: skip
        plan.run(None, bk.workspace(plan, args), args)
        z = 0.25 * a @ b + beta * c + (bias if epilogue.requires_bias else 0)
        want = ACTIVATIONS[NAMES.get(epilogue, "")](z)
        bound = TOLERANCE[element]
        np.testing.assert_allclose(values_of(d), want, rtol=bound, atol=bound)
        assert (plan.sku.layout, plan.sku.epilogue) == (layout, epilogue)


@pytest.mark.parametrize("element", [bk.s8, bk.u8], ids=str)
def test_products_of_integers(rng, library, element):
    a, b = rng.integers(0, 9, (M, K)), rng.integers(0, 9, (K, N))
    for layout, epilogue, of_bias in itertools.product(bk.LayoutSku, bk.EpilogueKind, (bk.f32, bk.i32)):
        bias = rng.integers(-9, 9, N)
        descriptor = bk.IntGemmDescriptor(M, N, K, layout, epilogue, of_bias, 0.25, element=element)
        plan = bk.IntGemmPlan.select(None, descriptor, library=library)
        d = bk.zeros((M, N), element)
        has_bias = epilogue.requires_bias
        args = bk.IntGemmArgs(
            a=matrix(a, element, 2), b=matrix(stored(b, layout), element, 1), d=d,
            bias=bk.upload(bias, of_bias) if has_bias else None,
        )  # fmt: skip
        plan.run(None, None, args)
        z = ACTIVATIONS[NAMES.get(epilogue, "")](0.25 * (a @ b) + (bias if has_bias else 0))
        low, high = element.integer_range
        assert np.abs(values_of(d) - np.clip(np.rint(z), low, high)).max() <= (1 if epilogue in NAMES else 0)
        assert plan.sku.aux_element is (of_bias if has_bias else None)
        assert plan.precision_guarantee.accumulator is bk.i32


@pytest.mark.parametrize("element", [bk.f32, bk.f64, bk.f16], ids=str)
def test_batches(rng, library, element):
    a, b = odd(rng, (3, M, K), -2, 2, 8), odd(rng, (3, K, N), -2, 2, 8)
    for layout in bk.DenseLayout:
        first = np.swapaxes(a, -1, -2) if layout is bk.DenseLayout.CRR else a
        descriptor = bk.DenseGemmDescriptor(M, N, K, 3, layout, element=element)
        plan = bk.DenseGemmPlan.select(None, descriptor, library=library)
        d = bk.empty((3, M, N), element)
        plan.run(None, None, bk.DenseGemmArgs(matrix(first, element, 2), matrix(stored(b, layout), element, 1), d))
        np.testing.assert_allclose(values_of(d), a @ b, rtol=TOLERANCE[element], atol=TOLERANCE[element])
        assert plan.sku.layout == {"RRR": bk.LayoutSku.RRR, "RCR": bk.LayoutSku.RCR, "CRR": None}[layout.name]
    one = matrix(b[:1], element)  # of the whole batch
    plan = bk.DenseGemmPlan.select(
        None, bk.DenseGemmDescriptor(M, N, K, 3, bk.DenseLayout.RRR, element=element), library=library
    )
    plan.run(None, None, bk.DenseGemmArgs(matrix(a, element), one, d))
    np.testing.assert_allclose(values_of(d), a @ b[:1], rtol=TOLERANCE[element], atol=TOLERANCE[element])
    if element is not bk.f64:
        plan = bk.DenseGemvPlan.select(None, bk.DenseGemvDescriptor(N, K, 3, element=element), library=library)
        d = bk.empty((3, 1, N), element)
        plan.run(None, None, bk.DenseGemvArgs(matrix(a[:, :1], element), matrix(b, element, 2), d))
        np.testing.assert_allclose(values_of(d), a[:, :1] @ b, rtol=TOLERANCE[element], atol=TOLERANCE[element])
    if element is bk.f16:
        plan = bk.BatchedGemmPlan.select(None, bk.BatchedGemmDescriptor(M, N, K, 3, element=element), library=library)
        d = bk.empty((3, M, N), element)
        b_by_columns = matrix(np.swapaxes(b, -1, -2), element, 3)
        plan.run(None, None, bk.BatchedGemmArgs(matrix(a, element, 1), b_by_columns, d))
        np.testing.assert_allclose(values_of(d), a @ b, rtol=4e-3, atol=4e-3)


def test_pitches_and_strides():
    """Of one row the pitch says nothing, and is that of a dense matrix."""
    a, b, d = raw((2, 3, 5), strides=(40, 9, 1)), raw((2, 5, 4), address=2 << 20), raw((2, 3, 4), address=3 << 20)
    plan = example_plan("DenseGemm")
    _, given = launch(plan, a, b, d)
    assert [given[name] for name in ("lda", "stride_a", "ldb", "stride_b", "ldd", "stride_d")] == [9, 40, 4, 20, 4, 12]
    row = bk.DenseGemmPlan.select(
        None, bk.DenseGemmDescriptor(1, 4, 5, 1, bk.DenseLayout.RRR, element=bk.f32), library=FakeLibrary()
    )
    views = raw((1, 1, 5), strides=(7, -3, 1)), raw((1, 5, 4), address=2 << 20), raw((1, 1, 4), address=3 << 20)
    assert launch(row, *views)[1]["lda"] == 5


def test_what_is_refused():
    plan, args = example_plan("Gemm"), example_args("Gemm")
    columns = raw((3, 5), strides=(1, 3))
    for change, error, text in (
        ({"a": columns}, bk.UnsupportedError, r"a has strides \(1, 3\) for shape \(3, 5\), must lie by rows"),
        ({"a": raw((3, 5), strides=(4, 1))}, bk.UnsupportedError, "must lie by rows"),
        ({"a": raw((1, 5))}, bk.InvalidProblemError, r"a has shape \(1, 5\), expected \(3, 5\)"),
        ({"bias": raw((3,))}, bk.InvalidProblemError, r"bias has shape \(3,\)"),
    ):
        views = {name: getattr(args, name) for name in args.__dataclass_fields__}
        with pytest.raises(error, match=text):
            plan.run(None, None, bk.GemmArgs(**views | change))
    with pytest.raises(bk.UnsupportedError, match="prefer_backend is CUBLAS"):
        example_plan("Gemm", preference=bk.PlanPreference(prefer_backend=bk.BackendKind.CUBLAS))
    own = example_plan("Gemm", preference=bk.PlanPreference(prefer_backend=bk.BackendKind.BESPOKE))
    assert own.sku.backend is bk.BackendKind.BESPOKE
    assert own.precision_guarantee.math_precision is bk.MathPrecision.TF32
    descriptor = bk.IntGemmDescriptor(3, 4, 5, bk.LayoutSku.RCR, bk.EpilogueKind.BIAS, bk.f16, element=bk.s8)
    with pytest.raises(bk.UnsupportedError, match="output_element is f16, must be f32 or i32"):
        bk.IntGemmPlan.select(None, descriptor, library=FakeLibrary())
    plain = bk.GemmDescriptor(3, 4, 5, bk.LayoutSku.RCR, bk.EpilogueKind.IDENTITY, element=bk.f32)
    with pytest.raises(bk.InvalidProblemError, match="bias is given, but the epilogue is IDENTITY"):
        bk.GemmPlan.select(None, plain, library=FakeLibrary()).run(None, None, args)
    assert example_descriptor("Gemm").validated() == example_descriptor("Gemm")
