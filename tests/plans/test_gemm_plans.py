# SPDX-License-Identifier: Apache-2.0
"""GEMM plans: every layout and epilogue computes what it says, from row-major operands."""

import itertools

import ml_dtypes
import numpy as np
import pytest

import baracuda as bk
from baracuda._library.op_table import ops
from cases.gemm.gemm import ACTIVATIONS
from fakes import FakeLibrary, example_args, example_descriptor, example_plan, launch, raw
from plan_tools import odd, values_of

M, N, K = 5, 6, 7
TOLERANCE = {bk.f16: 4e-3, bk.bf16: 3e-2, bk.f32: 2e-3, bk.f32_strict: 1e-5, bk.f64: 1e-12}
NAMES = {kind: kind.name[5:].lower() for kind in bk.EpilogueKind if kind.activation is not None}
OF_INTEGERS = [kind for kind in bk.EpilogueKind if kind is not bk.EpilogueKind.BIAS_GELU_TANH]


def activated(epilogue, z):
    return ACTIVATIONS[NAMES.get(epilogue, "")](z)


def matrix(values, dtype, gap=0):
    """A row-major matrix whose rows are `gap` elements apart."""
    wide = np.concatenate([values, np.full((*values.shape[:-1], gap), 3)], -1)
    memory = bk.upload(np.ascontiguousarray(wide).ravel(), dtype)
    strides = bk.contiguous_stride(wide.shape)
    return bk.TensorRef(memory.ptr, values.shape, dtype, strides, memory.length, device=memory.device, owner=memory)


def stored(b, layout):
    return np.swapaxes(b, -1, -2) if layout.name[1] == "C" else b


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
        want = activated(epilogue, z)
        bound = TOLERANCE[element]
        np.testing.assert_allclose(values_of(d), want, rtol=bound, atol=bound)
        assert (plan.sku.layout, plan.sku.epilogue) == (layout, epilogue)


@pytest.mark.parametrize("element", [bk.s8, bk.u8], ids=str)
def test_integer_gemm(rng, library, element):
    a, b = rng.integers(0, 9, (M, K)), rng.integers(0, 9, (K, N))
    for layout, epilogue, of_bias in itertools.product(bk.LayoutSku, OF_INTEGERS, (bk.f32, bk.i32)):
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
        first = a if layout.a_by_rows else np.swapaxes(a, -1, -2)
        descriptor = bk.DenseGemmDescriptor(M, N, K, 3, layout, element=element)
        plan = bk.DenseGemmPlan.select(None, descriptor, library=library)
        d = bk.empty((3, M, N), element)
        plan.run(None, None, bk.DenseGemmArgs(matrix(first, element, 2), matrix(stored(b, layout), element, 1), d))
        np.testing.assert_allclose(values_of(d), a @ b, rtol=TOLERANCE[element], atol=TOLERANCE[element])
        assert plan.sku.layout == {"RRR": bk.LayoutSku.RRR, "RCR": bk.LayoutSku.RCR}.get(layout.name)
    one = matrix(b[:1], element)  # shared by the whole batch
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
        none = bk.DenseGemvDescriptor(N, K, 1, m=0, element=element)
        nothing = bk.empty((1, 0, N), element)
        plan = bk.DenseGemvPlan.select(None, none, library=library)
        plan.run(None, None, bk.DenseGemvArgs(bk.empty((1, 0, K), element), matrix(b[:1], element, 2), nothing))
    if element is bk.f16:
        plan = bk.BatchedGemmPlan.select(None, bk.BatchedGemmDescriptor(M, N, K, 3, element=element), library=library)
        d = bk.empty((3, M, N), element)
        b_by_columns = matrix(np.swapaxes(b, -1, -2), element, 3)
        plan.run(None, None, bk.BatchedGemmArgs(matrix(a, element, 1), b_by_columns, d))
        np.testing.assert_allclose(values_of(d), a @ b, rtol=4e-3, atol=4e-3)


def test_pitches_and_strides():
    """The pitch of a single row is ignored and passed as that of a dense matrix."""
    a, b, d = raw((2, 3, 5), strides=(40, 9, 1)), raw((2, 5, 4), address=2 << 20), raw((2, 3, 4), address=3 << 20)
    plan = example_plan("DenseGemm")
    _, given = launch(plan, a, b, d)
    assert [given[name] for name in ("lda", "stride_a", "ldb", "stride_b", "ldd", "stride_d")] == [9, 40, 4, 20, 4, 12]
    row = bk.DenseGemmPlan.select(
        None, bk.DenseGemmDescriptor(1, 4, 5, 1, bk.DenseLayout.RRR, element=bk.f32), library=FakeLibrary()
    )
    views = raw((1, 1, 5), strides=(7, -3, 1)), raw((1, 5, 4), address=2 << 20), raw((1, 1, 4), address=3 << 20)
    assert launch(row, *views)[1]["lda"] == 5


def test_refusals():
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
    with pytest.raises(
        bk.UnsupportedError, match="prefer_backend is CUBLAS: products of f32 have kernels of this libr"
    ):
        example_plan("Gemm", preference=bk.PlanPreference(prefer_backend=bk.BackendKind.CUBLAS))
    with pytest.raises(
        bk.UnsupportedError, match=r"prefer_backend is CUTLASS: .* kernels of this library and cuBLASLt"
    ):
        example_plan("DenseGemm", preference=bk.PlanPreference(prefer_backend=bk.BackendKind.CUTLASS))
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


@pytest.mark.parametrize("element", [bk.e4m3fn, bk.e5m2], ids=str)
def test_fp8_gemm(rng, library, element):
    a, b, bias = rng.integers(-2, 3, (M, K)), rng.integers(-2, 3, (K, N)), rng.integers(-9, 10, N) / 4
    for layout, epilogue in itertools.product(bk.LayoutSku, OF_INTEGERS):
        descriptor = bk.Fp8GemmDescriptor(M, N, K, layout, epilogue, 0.5, element=element)
        plan = bk.Fp8GemmPlan.select(None, descriptor, library=library)
        d = bk.zeros((M, N), element)
        args = bk.Fp8GemmArgs(
            a=matrix(a.astype(float), element, 2), b=matrix(stored(b.astype(float), layout), element, 1), d=d,
            bias=bk.upload(bias, bk.f32) if epilogue.requires_bias else None,
        )  # fmt: skip
        plan.run(None, None, args)
        z = ACTIVATIONS[NAMES.get(epilogue, "")](0.5 * (a @ b) + (bias if epilogue.requires_bias else 0))
        np.testing.assert_allclose(values_of(d), z, rtol=0.13, atol=0.02)
        assert plan.precision_guarantee.accumulator is bk.f32


OF_SCALED = [(bk.e4m3fn, bk.e4m3fn), (bk.e5m2, bk.e5m2), (bk.e5m2, bk.e4m3fn), (bk.s8, bk.s8)]


@pytest.mark.parametrize(("element", "b_element"), OF_SCALED, ids=str)
def test_scaled_gemm(rng, library, element, b_element):
    m, n, k = 5, 130, 200
    a, b = rng.integers(-2, 3, (m, k)).astype(float), rng.integers(-2, 3, (k, n)).astype(float)
    for layout, scaling, output in itertools.product(bk.DenseLayout, bk.ScalingKind, (bk.f32, bk.bf16)):
        descriptor = bk.ScaledGemmDescriptor(m, n, k, layout, scaling, output, 0.5, element=element)
        a_scale, b_scale = (rng.uniform(0.5, 2, s) for s in (descriptor.a_scale_shape, descriptor.b_scale_shape))
        of_a, of_b = a_scale, b_scale
        if scaling is bk.ScalingKind.ROWS:
            of_a = a_scale[:, None]
        elif scaling is bk.ScalingKind.BLOCKS:
            of_a = np.repeat(a_scale, 128, 1)[:, :k]
            of_b = np.repeat(np.repeat(b_scale, 128, 0), 128, 1)[:n, :k].T
        plan = bk.ScaledGemmPlan.select(None, descriptor, library=library)
        d = bk.empty((m, n), output)
        args = bk.ScaledGemmArgs(
            a=matrix(a if layout.a_by_rows else a.T, element, 2),
            b=matrix(b if layout.b_by_rows else b.T, b_element, 1), d=d,
            a_scale=bk.upload(a_scale, bk.f32), b_scale=bk.upload(b_scale, bk.f32),
        )  # fmt: skip
        plan.run(None, bk.workspace(plan, args), args)
        want, bound = 0.5 * (a * of_a) @ (b * of_b), 2e-5 if output is bk.f32 else 1e-2
        np.testing.assert_allclose(values_of(d), want, rtol=bound, atol=20 * bound)
        assert (plan.sku.aux_element, plan.precision_guarantee.accumulator) == (output, bk.f32)
    with pytest.raises(bk.UnsupportedError, match="output_element is f64, must be bf16, f16 or f32"):
        bk.ScaledGemmDescriptor(m, n, k, layout, scaling, bk.f64, element=element).validated()


@pytest.mark.parametrize("k", [1, 3, 40, 256])
@pytest.mark.parametrize("count", [7, 16, 256])
def test_scaled_gemm_of_every_code(library, count, k):
    """The product of each pair of codes of e5m2 and e4m3, each in a sum with zeros."""
    codes = np.arange(256, dtype=np.uint8)
    rows, at = np.roll(codes, -120)[:count], k // 2  # infinities and NaN are among few rows, too
    a, b = np.zeros((count, k), np.uint8), np.zeros((256, k), np.uint8)
    a[:, at], b[:, at] = rows, codes
    descriptor = bk.ScaledGemmDescriptor(
        count, 256, k, bk.DenseLayout.RCR, bk.ScalingKind.TENSOR, bk.f32, element=bk.e5m2
    )
    plan = bk.ScaledGemmPlan.select(None, descriptor, library=library)
    args = bk.ScaledGemmArgs(
        a=bk.upload(a, bk.u8).view(bk.e5m2), b=bk.upload(b, bk.u8).view(bk.e4m3fn), d=bk.empty((count, 256), bk.f32),
        a_scale=None, b_scale=None,
    )  # fmt: skip
    plan.run(None, bk.workspace(plan, args), args)
    x, y = (each.view(dtype).astype(np.float64) for each, dtype in (
        (rows, ml_dtypes.float8_e5m2), (codes, ml_dtypes.float8_e4m3fn),
    ))  # fmt: skip
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(values_of(args.d), np.outer(x, y))


def test_scaled_gemm_of_other_pairs(library):
    plan = bk.ScaledGemmPlan.select(
        None, bk.ScaledGemmDescriptor(2, 2, 2, 1, 0, bk.f32, element=bk.e4m3fn), library=library
    )
    a, b = bk.zeros((2, 2), bk.e4m3fn), bk.zeros((2, 2), bk.e5m2)
    with pytest.raises(bk.InvalidProblemError, match="b has dtype fp8e5m2"):
        plan.run(None, None, bk.ScaledGemmArgs(a=a, b=b, d=bk.zeros((2, 2)), a_scale=None, b_scale=None))


def bytes_of(values, bits):
    """Packs values along the last axis."""
    parts = (values & ((1 << bits) - 1)).reshape(values.shape[0], -1, 8 // bits)
    return bk.upload((parts << (np.arange(8 // bits) * bits)).sum(-1).astype(np.uint8))


@pytest.mark.parametrize("element", [bk.s4, bk.u4], ids=str)
def test_nibble_gemm(rng, library, element):
    m, n, k = 3, 6, 8
    low, high = (-8, 7) if element is bk.s4 else (0, 15)
    a, b = rng.integers(low, high, (m, k), endpoint=True), rng.integers(low, high, (k, n), endpoint=True)
    for layout, epilogue, of_bias in itertools.product(bk.LayoutSku, OF_INTEGERS, (bk.f32, bk.i32)):
        bias = rng.integers(-5, 5, n)
        descriptor = bk.Int4GemmDescriptor(m, n, k, layout, epilogue, of_bias, 1 / 32, element=element)
        plan = bk.Int4GemmPlan.select(None, descriptor, library=library)
        d = bk.zeros((m, n // 2), bk.u8)
        has_bias = epilogue.requires_bias
        args = bk.Int4GemmArgs(
            a=bytes_of(a, 4), b=bytes_of(stored(b, layout), 4), d=d, bias=bk.upload(bias, of_bias) if has_bias else None
        )
        plan.run(None, None, args)
        z = ACTIVATIONS[NAMES.get(epilogue, "")]((a @ b) / 32 + (bias if has_bias else 0))
        got = (values_of(d).astype(int)[..., None] >> np.array([0, 4]) & 15).reshape(m, n)
        got = (got ^ 8) - 8 if element is bk.s4 else got
        assert np.abs(got - np.clip(np.rint(z), low, high)).max() <= (1 if epilogue in NAMES else 0)


def test_bit_gemm(rng, library):
    a, b = rng.integers(0, 2, (3, 24)), rng.integers(0, 2, (24, 16))
    for layout in bk.LayoutSku:
        plan = bk.BinGemmPlan.select(None, bk.BinGemmDescriptor(3, 16, 24, layout, element=bk.ElementKind.BIN))
        d = bk.zeros((3, 16), bk.i32)
        plan.run(None, None, bk.BinGemmArgs(a=bytes_of(a, 1), b=bytes_of(stored(b, layout), 1), d=d))
        assert (values_of(d) == (a[:, :, None] != b).sum(1)).all()
        assert plan.sku.layout is layout
    with pytest.raises(bk.UnsupportedError, match="k is 12, must be a multiple of 8"):
        bk.BinGemmPlan.select(None, bk.BinGemmDescriptor(3, 16, 12, bk.LayoutSku.RCR, element=bk.ElementKind.BIN))


def test_stored_weights(rng, library):
    """Equal weights give equal results in every layout, which tests/cases/gemm/weights.py defines."""
    x = bk.upload(odd(rng, (20, 128), -2, 2, 8), bk.f16)
    total = values_of(x).sum(1, keepdims=True)
    plan = bk.GemmSparse24Plan.select(None, bk.GemmSparse24Descriptor(20, 5, 128, element=bk.f16), library=library)
    y = bk.empty((20, 5), bk.f16)
    kept = bk.upload(np.ones((5, 64)), bk.f16)
    assert (plan.sku.layout, plan.sku.epilogue) == (bk.LayoutSku.RCR, bk.EpilogueKind.IDENTITY)
    args = bk.GemmSparse24Args(kept, bk.upload(np.full((5, 16), 0x4444), bk.u16), x, y)  # the first two of every four
    plan.run(None, bk.workspace(plan, args), args)
    of_two = values_of(x).reshape(20, 32, 4)[..., :2].sum((1, 2))[:, None]
    np.testing.assert_allclose(values_of(y), np.broadcast_to(of_two, (20, 5)), atol=0.05)
    fives = bk.upload(np.full((8, 128), 0x55555555), bk.i32)
    plan = bk.Int4MarlinGemmPlan.select(None, bk.Int4MarlinGemmDescriptor(20, 64, 128, element=bk.f16), library=library)
    d = bk.empty((20, 64), bk.f16)
    plan.run(None, None, bk.Int4MarlinGemmArgs(x, fives, bk.upload(np.full((1, 64), 0.5), bk.f16), d))
    np.testing.assert_allclose(values_of(d), np.broadcast_to(-1.5 * total, (20, 64)), atol=0.05)
    weights, scales = bk.upload(np.full((64, 16), 0x55555555), bk.i32), bk.upload(np.full((64, 8), 0.5), bk.f16)
    zeros = bk.upload(np.full((64, 1), 0x33333333), bk.i32)
    awq = bk.Int4AwqGemmDescriptor(20, 128, 64, split_k_iters=4, element=bk.f16)
    bk.Int4AwqGemmPlan.select(None, awq, library=library).run(
        None, None, bk.Int4AwqGemmArgs(x, weights, scales, zeros, d)
    )
    np.testing.assert_allclose(values_of(d), np.broadcast_to(total, (20, 64)), atol=0.05)
    dense = bk.empty((64, 128), bk.f16)
    plan = bk.Int4AwqDequantizePlan.select(None, bk.Int4AwqDequantizeDescriptor(64, 128, element=bk.f16))
    plan.run(None, None, bk.Int4AwqDequantizeArgs(weights, scales, zeros, dense))
    assert (values_of(dense) == 1).all()


class Asked(FakeLibrary):
    """A fake whose cuBLASLt serves the named backends alone."""

    def __init__(self, *backends, **options):
        super().__init__(**options)
        self.backends = backends

    def function(self, op, kind="run"):
        call = super().function(op, kind)
        if kind != "can_implement" or not op.startswith(("gemm_epilogue", "gemm_gated")):
            return call
        index = [p.name for p in ops()[op].row.params if p.name in ops()[op].row.check].index("backend")
        return lambda *args: call(*args) or (0 if args[index] in (0, 1, *self.backends) else 3)


def test_backend_of_sparse_weights():
    """2:4 sparse weights have the backend of the dense GEMM on the inflated weights, except for skinny problems."""
    of, kinds = bk.GemmSparse24Descriptor(512, 256, 512, element=bk.bf16), bk.BackendKind

    def backend(library, **options):
        plan = bk.GemmSparse24Plan.select(None, of, bk.PlanPreference(**options), library=library)
        assert (plan.sku.layout, plan.sku.epilogue) == (bk.LayoutSku.RCR, bk.EpilogueKind.IDENTITY)
        return plan.sku.backend

    assert backend(Asked(2, 3)) is kinds.CUBLAS
    assert backend(Asked(2)) is kinds.BESPOKE
    assert backend(Asked(2, 3, size=0)) is kinds.BESPOKE
    assert backend(Asked(2, 3, backend="cpu")) is kinds.BESPOKE
    inflate = bk.GemmSparse24InflateDescriptor(256, 512, element=bk.bf16)
    sku = bk.GemmSparse24InflatePlan.select(None, inflate, library=Asked(2, 3)).sku
    assert (sku.backend, sku.layout, sku.epilogue) == (kinds.BESPOKE, None, None)


PLAIN = bk.GemmDescriptor(512, 512, 512, bk.LayoutSku.RCR, bk.EpilogueKind.BIAS_SILU, element=bk.bf16)
BACKENDS = {
    bk.GemmPlan: PLAIN,
    bk.DenseGemmPlan: bk.DenseGemmDescriptor(512, 512, 512, 2, bk.DenseLayout.CRR, element=bk.f32),
    bk.BatchedGemmPlan: bk.BatchedGemmDescriptor(512, 512, 512, 2, element=bk.f16),
    bk.GatedGemmPlan: bk.GatedGemmDescriptor(
        512, 512, 512, bk.LayoutSku.RCR, bk.ActivationKind.GELU_TANH, element=bk.f64
    ),
}


@pytest.mark.parametrize("plan_type", BACKENDS, ids=lambda plan_type: plan_type.__name__)
def test_backends(plan_type):
    """The library says whose kernels compute a problem; a preference is passed on, and one that cannot be met is an
    error."""
    of, kinds = BACKENDS[plan_type], bk.BackendKind

    def plan(library, backend=None, most=1 << 40):
        preference = bk.PlanPreference(prefer_backend=backend, max_workspace_bytes=most)
        return plan_type.select(None, of, preference, library=library)

    assert plan(Asked(2, 3)).sku.backend is kinds.CUBLAS
    assert plan(Asked(2)).sku.backend is kinds.BESPOKE
    assert plan(Asked(2, 3, backend="cpu")).sku.backend is kinds.BESPOKE
    assert plan(Asked(2), kinds.CUBLAS).sku.backend is kinds.CUBLAS
    assert plan(Asked(2, 3), kinds.BESPOKE).sku.backend is kinds.BESPOKE
    if plan_type in (bk.GemmPlan, bk.GatedGemmPlan):  # their partial sums would need the workspace
        assert plan(Asked(2, 3), most=10).sku.backend is kinds.BESPOKE
    with pytest.raises(bk.UnsupportedError, match="the text"):
        plan(Asked(), kinds.CUBLAS)
    for backend, number in ((kinds.BESPOKE, 1), (kinds.CUBLAS, 2)):
        library = Asked(2)
        chosen = plan(library, backend)
        args = {
            o.name: raw(o.extents, o.dtypes[0], (k + 1) << 24) for k, o in enumerate(chosen.operands) if o.name in "abd"
        }
        args |= {f"b{k}": raw((512, 512), bk.f64, k << 30) for k in (1, 2)} if plan_type is bk.GatedGemmPlan else {}
        chosen.run(None, None, chosen.args_type(**args))
        op, given = library.launched()
        assert op.startswith(plan_type.general.partition("{")[0])
        assert given["backend"] == number


@pytest.mark.parametrize("element", [bk.f32, bk.f32_strict, bk.f64, bk.bf16], ids=str)
def test_every_step(rng, library, element):
    """Scales, biases, C, the saved z and the residual, on matrices with gaps."""
    dtype = bk.f32 if element is bk.f32_strict else element
    of_scale = bk.f64 if element is bk.f64 else bk.f32
    a, b, c, r = (odd(rng, shape, -2, 2, 8) for shape in ((M, K), (K, N), (M, N), (M, N)))
    bias, row_bias, row_scale, column_scale = (odd(rng, (size,), -2, 2, 8) for size in (N, M, M, N))
    for layout, epilogue in itertools.product(bk.LayoutSku, (bk.EpilogueKind.BIAS, bk.EpilogueKind.BIAS_GELU_TANH)):
        outputs = (None, bk.f32) if element is bk.bf16 else (None,)
        for output in outputs:
            result = output or dtype
            of = bk.GemmDescriptor(M, N, K, layout, epilogue, 0.25, 0.5, output, element=element)
            plan = bk.GemmPlan.select(None, of, library=library)
            d, z = matrix(np.zeros((M, N)), result, 3), matrix(np.zeros((M, N)), result, 1)
            args = bk.GemmArgs(
                a=matrix(a, dtype, 1), b=matrix(stored(b, layout), dtype, 2), d=d, c=matrix(c, result, 3), z=z,
                bias=bk.upload(bias, dtype), row_bias=bk.upload(row_bias, dtype), residual=matrix(r, result, 5),
                row_scale=bk.upload(row_scale, of_scale), column_scale=bk.upload(column_scale, of_scale),
            )  # fmt: skip
            plan.run(None, bk.workspace(plan, args), args)
            want = 0.25 * row_scale[:, None] * column_scale * (a @ b) + 0.5 * c + bias + row_bias[:, None]
            bound = TOLERANCE[element]
            np.testing.assert_allclose(values_of(z), want, rtol=bound, atol=4 * bound)
            np.testing.assert_allclose(values_of(d), activated(epilogue, want) + r, rtol=bound, atol=4 * bound)


@pytest.mark.parametrize("element", [bk.f32, bk.f64, bk.f16], ids=str)
def test_gated(rng, library, element):
    a, b1, b2 = odd(rng, (M, K), -2, 2, 8), odd(rng, (K, N), -2, 2, 8), odd(rng, (K, N), -2, 2, 8)
    for layout, activation in itertools.product(bk.LayoutSku, bk.ActivationKind):
        of = bk.GatedGemmDescriptor(M, N, K, layout, activation, 0.5, element=element)
        plan = bk.GatedGemmPlan.select(None, of, library=library)
        d, z2 = matrix(np.zeros((M, N)), element, 3), matrix(np.zeros((M, N)), element)
        plan.run(None, None, bk.GatedGemmArgs(
            a=matrix(a, element), b1=matrix(stored(b1, layout), element), b2=matrix(stored(b2, layout), element), d=d,
            z2=z2,
        ))  # fmt: skip
        want = activated(bk.EpilogueKind(activation + 2), 0.5 * a @ b1) * (0.5 * a @ b2)
        bound = TOLERANCE[element]
        np.testing.assert_allclose(values_of(d), want, rtol=bound, atol=bound)
        np.testing.assert_allclose(values_of(z2), 0.5 * a @ b2, rtol=bound, atol=bound)


def test_dense_gemm_variants(rng, library):
    """Integer sums in i32, f32 by 3xTF32, and a residual where the dense op has none."""
    a, b = rng.integers(-128, 128, (2, M, K)), rng.integers(-128, 128, (2, K, N))
    of = (M, N, K, 2, bk.DenseLayout.RCR)
    plan = bk.DenseSumsGemmPlan.select(None, bk.DenseSumsGemmDescriptor(*of, element=bk.s8), library=library)
    d = bk.empty((2, M, N), bk.i32)
    plan.run(None, None, bk.DenseSumsGemmArgs(matrix(a, bk.s8), matrix(np.swapaxes(b, 1, 2), bk.s8), d))
    np.testing.assert_array_equal(values_of(d), a @ b)
    assert plan.precision_guarantee.accumulator is bk.i32
    with pytest.raises(bk.UnsupportedError, match="alpha is not 1"):
        bk.DenseSumsGemmPlan.select(None, bk.DenseSumsGemmDescriptor(*of, 2.0, element=bk.s8), library=library)
    a, b, r = odd(rng, (2, M, K), -2, 2, 8), odd(rng, (2, K, N), -2, 2, 8), odd(rng, (2, M, N), -2, 2, 8)
    views, d = (matrix(a, bk.f32), matrix(np.swapaxes(b, 1, 2), bk.f32)), bk.empty((2, M, N), bk.f32)
    plan = bk.DenseGemm3xTf32Plan.select(None, bk.DenseGemm3xTf32Descriptor(*of, element=bk.f32), library=library)
    plan.run(None, None, bk.DenseGemm3xTf32Args(*views, d))
    np.testing.assert_allclose(values_of(d), a @ b, rtol=1e-5, atol=1e-5)
    plan = bk.DenseGemmPlan.select(None, bk.DenseGemmDescriptor(*of, element=bk.f32), library=library)
    plan.run(None, None, bk.DenseGemmArgs(*views, d, residual=matrix(r, bk.f32, 2)))
    np.testing.assert_allclose(values_of(d), a @ b + r, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("plan_type", ["Gemm", "GatedGemm", "BatchedGemm", "DenseGemm", "ScaledGemm"])
def test_batch_invariance(plan_type):
    """The preference passes C's number of batch-invariant kernels, and the guarantee says that they have it."""
    library = Asked(2, 3, 5)
    plan = example_plan(plan_type, library, preference=bk.PlanPreference(batch_invariant=True))
    assert plan.numbers["backend"] == 5
    assert plan.sku.backend is bk.BackendKind.BESPOKE
    assert plan.precision_guarantee.batch_invariant
    assert not example_plan(plan_type, library).precision_guarantee.batch_invariant
    plan.run(None, None, example_args(plan_type))
    op, given = library.launched()
    assert ops()[op].row.batch_invariant == "preference"
    assert given["backend"] == 5


def test_batch_invariance_of_other_products():
    preference = bk.PlanPreference(batch_invariant=True)
    assert example_plan("IntGemm", preference=preference).precision_guarantee.batch_invariant  # sums are exact
    for plan_type in ("DenseGemmBackward", "DenseGemm3xTf32", "DenseGemv", "GroupedGemm"):
        with pytest.raises(bk.UnsupportedError, match="no batch-invariant kernel exists"):
            example_plan(plan_type, preference=preference)
    cublas = bk.PlanPreference(batch_invariant=True, prefer_backend=bk.BackendKind.CUBLAS)
    with pytest.raises(bk.UnsupportedError, match="prefer_backend is CUBLAS, which is not batch-invariant"):
        example_plan("DenseGemm", preference=cublas)
