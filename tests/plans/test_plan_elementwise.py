# SPDX-License-Identifier: Apache-2.0
"""Elementwise plans: which symbol they choose, what they pass to it, what they guarantee. No kernel runs."""

import numpy as np
import pytest

import baracuda as bk
from baracuda._library import op_table
from baracuda.elementwise import unary
from fakes import SHAPE, apart, launch, plan_of, raw
from naming import describe
from tools.oracle import UNARY

FLOATS = (bk.f32, bk.f16, bk.bf16, bk.f64)
INTEGERS = (bk.i8, bk.u8, bk.i16, bk.u16, bk.i32, bk.u32, bk.i64, bk.u64)
Unary, Binary, Ternary, Gated = bk.UnaryKind, bk.BinaryKind, bk.TernaryKind, bk.GatedActivationKind


# --- routing ----------------------------------------------------------------------------------------------------------


def test_dense_views_take_the_plain_symbol():
    plan = plan_of("Unary", Unary.GELU, SHAPE)
    x, y = apart(2)
    assert launch(plan, x, y) == ("unary_gelu_f32", {"numel": 12, "x": x.ptr, "y": y.ptr})
    one = plan_of("Unary", Unary.GELU, (1, 4))
    assert launch(one, raw((1, 4), strides=(0, 1)), raw((1, 4), address=2 << 20))[0] == "unary_gelu_f32"
    scalar = plan_of("Unary", Unary.GELU, ())
    assert launch(scalar, raw(()), raw((), address=2 << 20))[1]["numel"] == 1


@pytest.mark.parametrize(
    ("x", "strides"),
    [
        (raw((3, 1)), [1, 0]), (raw((1, 4)), [0, 1]), (raw((1, 1)), [0, 0]), (raw(SHAPE, strides=(1, 3)), [1, 3]),
        (raw(SHAPE, strides=(-4, 1)), [-4, 1]), (raw(SHAPE, strides=(0, 0)), [0, 0]),
    ],
    ids=describe,
)  # fmt: skip
def test_other_views_take_the_strided_symbol(x, strides):
    y = raw(SHAPE, address=2 << 20)
    op, args = launch(plan_of("Unary", Unary.GELU, SHAPE), x, y)
    assert op == "unary_gelu_f32_strided"
    assert (args["numel"], args["rank"], args["shape"]) == (12, 2, [3, 4])
    assert (args["stride_x"], args["stride_y"], args["x"], args["y"]) == (strides, [4, 1], x.ptr, y.ptr)


def test_rank_0_has_host_arrays():
    op, args = launch(plan_of("Where", ()), raw((), bk.u32), *apart(3, ())[1:], raw((), address=9 << 20))
    assert op == "where_u32cond_f32"
    assert args["numel"] == 1


@pytest.mark.parametrize("kind", [kind for kind in Unary if kind not in unary._ELSEWHERE])
def test_saved_operand(kind):
    """The op table says which operand a gradient reads."""
    row = next(row for row in op_table.rows() if row.pattern == "unary_{F}_backward_{T}")
    name = kind.name.lower()
    if name not in row.functions:
        with pytest.raises(bk.UnsupportedError, match=f"kind is {kind.name}: no such op"):
            plan_of("UnaryBackward", kind, SHAPE)
        return
    saves_nothing = row.reads.get(name) == {"dx": ()}
    plan = plan_of("UnaryBackward", kind, SHAPE)
    dy, x, y, dx = apart(4)
    saved, other = ("y", "x") if UNARY[name].saves == "y" else ("x", "y")
    both = {"x": x, "y": y}
    for given in (both, {saved: both[saved]}):
        op, args = launch(plan, dy, dx=dx, **given)
        assert (op, args["dy"], args["saved"], args["dx"]) == (
            f"unary_{name}_backward_f32", dy.ptr, both[saved].ptr, dx.ptr,
        )  # fmt: skip
    for given in ({}, {other: both[other]}):
        if saves_nothing:
            assert launch(plan, dy, dx=dx, **given)[1]["saved"] == 0
        else:
            with pytest.raises(bk.InvalidProblemError, match=f"unary_{name}_backward: {saved} is None"):
                launch(plan, dy, dx=dx, **given)
    with pytest.raises(bk.InvalidProblemError, match="dx is None"):
        launch(plan, dy, x, y)


def test_an_operand_that_is_not_read_does_not_decide():
    plan = plan_of("UnaryBackward", Unary.TANH, SHAPE)
    dy, y, dx = apart(3)
    assert launch(plan, dy, raw(SHAPE, strides=(8, 2), address=9 << 20), y, dx)[0] == "unary_tanh_backward_f32"


@pytest.mark.parametrize(
    ("kind", "params", "expected"),
    [
        (Unary.ELU, 0.5, {"p0": 0.5}), (Unary.ELU, (0.5, 0), {"p0": 0.5}), (Unary.POWI, 3, {"p0": 3}),
        (Unary.POWI, (2**53 + 1, 0.0), {"p0": 2**53 + 1}), (Unary.POWI, -2.0, {"p0": -2}),
        (Unary.POWI, np.int64(4), {"p0": 4}), (Unary.POWF, 0.1, {"p0": 0.1}),
        (Unary.POWF, (np.float32(0.5),), {"p0": 0.5}),
        (Unary.HARDTANH, (-2, 2.5), {"p0": -2.0, "p1": 2.5}), (Unary.SELU, [1.5, 0], {"p0": 1.5, "p1": 0.0}),
    ],
    ids=describe,
)  # fmt: skip
def test_params(kind, params, expected):
    for suffix, count in (("", 2), ("Backward", 3)):
        plan = plan_of(f"UnaryParam{suffix}", kind, SHAPE, params)
        op, args = launch(plan, *apart(count))
        assert op == f"unary_{kind.name.lower()}_param{'_backward' if suffix else ''}_f32"
        got = {name: value for name, value in args.items() if name.startswith("p")}
        assert got == expected
        assert [type(value) for value in got.values()] == [type(value) for value in expected.values()]


@pytest.mark.parametrize(
    ("kind", "params", "text"),
    [
        (Unary.POWI, 2.5, r"params\[0\] is 2.5, must be an integer"), (Unary.POWI, 2**63, r"params\[0\] is .* <= "),
        (Unary.POWI, float("nan"), r"params\[0\] is nan"),
        (Unary.HARDTANH, 1, r"params is \(1,\), must be 2 numbers \(p0, p1\)"),
        (Unary.HARDTANH, (1, 2, 3), "must be 2 numbers"), (Unary.ELU, (1, 2), "a second one must be 0"),
        (Unary.ELU, (), "params"), (Unary.ELU, "1", "params"), (Unary.ELU, None, "params"), (Unary.ELU, True, "params"),
        (Unary.ELU, (1j,), r"params\[0\]"), (Unary.ELU, 10**400, "params"),
    ],
    ids=describe,
)  # fmt: skip
def test_bad_params(kind, params, text):
    with pytest.raises(bk.InvalidProblemError, match=f"unary_{kind.name.lower()}_param: .*{text}"):
        plan_of("UnaryParam", kind, SHAPE, params)


def test_elu_without_params_has_alpha_1():
    assert launch(plan_of("Unary", Unary.ELU, SHAPE), *apart(2))[1]["p0"] == 1.0
    assert launch(plan_of("Unary", Unary.ELU, SHAPE), *apart(2, strides=(8, 2)))[1]["p0"] == 1.0


@pytest.mark.parametrize(
    ("name", "kind", "text"),
    [
        ("Unary", Unary.POWI, "POWI is served by UnaryParamPlan"), ("Unary", Unary.THRESHOLD, "UnaryParamPlan"),
        ("UnaryBackward", Unary.POWF, "UnaryParamPlan"), ("Unary", Unary.PRELU, "PReluPlan"),
        ("Unary", Unary.CAST, "CastPlan"), ("Unary", Unary.AFFINE, "AffinePlan"),
        ("Binary", Binary.LERP, "BinaryParamPlan"),
        ("Binary", Binary.EQ, "BinaryCmpPlan"), ("Binary", Binary.LE, "BinaryCmpPlan"),
        ("BinaryBackward", Binary.LERP, "BinaryParamPlan"), ("Ternary", Ternary.WHERE, "WherePlan"),
        ("TernaryBackward", Ternary.WHERE, "WhereBackwardPlan"),
        ("BinaryBackward", Binary.NEXTAFTER, "kind is NEXTAFTER"),
        ("BinaryBackward", Binary.BITWISE_AND, "kind is BITWISE_AND: no such op"),
        ("UnaryBackward", Unary.POPCOUNT, "kind is POPCOUNT: no such op"),
    ],
)  # fmt: skip
def test_kinds_of_other_plans(name, kind, text):
    with pytest.raises(bk.UnsupportedError, match=text):
        plan_of(name, kind, SHAPE)


@pytest.mark.parametrize(
    ("name", "fields", "element", "text"),
    [
        ("Unary", (Unary.GELU, SHAPE), bk.i32, "element is i32, must be one of f16, bf16, f32, f64"),
        ("Unary", (Unary.POPCOUNT, SHAPE), bk.f32, "element is f32, must be one of i8, u8"),
        ("Unary", (Unary.LOGICAL_NOT, SHAPE), bk.u8, "element is u8, must be one of bool"),
        ("Binary", (Binary.HYPOT, SHAPE), bk.u16, "element is u16"),
        ("Binary", (Binary.ADD, SHAPE), bk.f32_strict, "element"),
        ("BinaryCmp", (0, SHAPE), bk.e5m2, "element is fp8e5m2"),
        ("BinaryBackward", (Binary.MUL, SHAPE), bk.i64, "element is i64"),
        ("Ternary", (Ternary.FMA, SHAPE), bk.i32, "element is i32"), ("Where", (SHAPE,), bk.c64, "element is c64"),
        ("Fill", (SHAPE, 1), bk.s4, "element is s4"), ("Affine", (SHAPE, 1), bk.bool_, "element is bool"),
        ("PRelu", (SHAPE, 0), bk.i32, "element is i32"), ("GatedActivation", (0, (2,), 0), bk.i8, "element is i8"),
        ("Cast", (5, bk.s4), bk.f32, "f32 to s4 is served by CastSubBytePlan"),
        ("Cast", (5, bk.c64), bk.f32, "output_element is c64"),
        ("Cast", (5, bk.f32), bk.b1, "element is b1"), ("Cast", (5, bk.f32_strict), bk.f32, "output_element"),
    ],
)  # fmt: skip
def test_elements(name, fields, element, text):
    with pytest.raises(bk.UnsupportedError, match=text):
        plan_of(name, *fields, element=element)


@pytest.mark.parametrize(
    ("name", "fields", "options", "text"),
    [
        ("Unary", (Unary.GELU, (3, -1)), {}, r"unary_gelu: shape\[1\] is -1"),
        ("Unary", ("gelu", SHAPE), {}, "kind is 'gelu'"),
        ("Unary", (Unary.GELU, 3), {}, "shape is 3"), ("Ternary", (Ternary.ADDCMUL, SHAPE, "1"), {}, "scale is '1'"),
        ("Ternary", (Ternary.ADDCMUL, SHAPE, True), {}, "scale is True"), ("Fill", (-3, 1), {}, "shape is -3"),
        ("Fill", (3, "x"), {}, "value is 'x'"),
        ("Fill", (3, 1.5), {"element": bk.i32}, "value is 1.5, must be an integer"),
        ("Fill", (3, 256), {"element": bk.u8}, "value is 256, must be <= 255"),
        ("Fill", (3, -1), {"element": bk.u64}, "value is -1"),
        ("Fill", (3, 2), {"element": bk.bool_}, "value is 2, must be a bool, 0 or 1"),
        ("Fill", (3, True), {}, "value is True"),
        ("Fill", (3, 1.0), {"element": bk.bool_}, "value is 1.0"), ("Affine", (3, 1j), {}, "scale is 1j"),
        ("Affine", (3, 1, 0.5), {"element": bk.i16}, "offset is 0.5, must be an integer"),
        ("Affine", (3, 200), {"element": bk.i8}, "scale is 200, must be <= 127"),
        ("Affine", (3, 1, None), {}, "offset is None"),
        ("Cast", (3, "float3"), {}, "output_element"),
        ("CastSubByte", (3, bk.u4), {}, r"shape is \(3,\), of 3 elements; must be even"),
        ("GatedActivation", (0, (), 0), {}, r"input_shape is \(\)"),
        ("GatedActivation", (0, (3, 4), 0), {}, "must be even along axis 0"),
        ("GatedActivation", (0, (3, 4), 2), {}, "split_dim is 2, must be <= 1"),
        ("GatedActivation", (0, (4,), -1), {}, "split_dim is -1"),
        ("GatedActivation", (0, (4,), "0"), {}, "split_dim is '0'"), ("PRelu", (SHAPE, 2), {}, "channel_axis is 2"),
        ("PRelu", ((), 0), {}, "channel_axis is 0"), ("PRelu", (SHAPE, 0.5), {}, "channel_axis is 0.5"),
    ],
)  # fmt: skip
def test_bad_descriptors(name, fields, options, text):
    with pytest.raises((bk.InvalidProblemError, bk.UnsupportedError), match=text):
        plan_of(name, *fields, **options)


def test_rank_9_and_overflow():
    with pytest.raises(bk.UnsupportedError, match="of rank 9"):
        plan_of("Unary", Unary.NEG, (1,) * 9)
    with pytest.raises(bk.InvalidProblemError, match=r"below 2\^63"):
        plan_of("Unary", Unary.NEG, (2**31 - 1,) * 3)


# --- single families --------------------------------------------------------------------------------------------------


def test_affine_in_place():
    x, y = apart(2)
    plan = plan_of("Affine", SHAPE, 2, 0.5)
    assert launch(plan, x, y) == ("affine_f32", {"numel": 12, "x": x.ptr, "y": y.ptr, "a": 2.0, "b": 0.5})
    in_place = ("affine_inplace_f32", {"numel": 12, "scale": 2.0, "offset": 0.5, "y": y.ptr})
    assert launch(plan, y, y) == launch(plan, None, y) == in_place
    column = raw(SHAPE, strides=(1, 3))
    op, args = launch(plan, column, column)
    assert (op, args["stride_y"], args["scale"]) == ("affine_inplace_f32_strided", [1, 3], 2.0)


@pytest.mark.parametrize(
    ("element", "value", "bits"),
    [
        (bk.f32, 2, 2.0), (bk.f64, 0.1, 0.1), (bk.f16, 1.5, 0x3E00), (bk.bf16, -1, 0xBF80),
        (bk.bf16, float("inf"), 0x7F80),
        (bk.bf16, 1 + 2.0**-8 + 2.0**-40, 0x3F81), (bk.e4m3fn, 1e9, 0x7E), (bk.e5m2, -np.inf, 0xFB), (bk.u8, 255, 255),
        (bk.i64, -(2**63), -(2**63)), (bk.u64, 2**64 - 1, 2**64 - 1), (bk.bool_, True, 1), (bk.bool_, 0, 0),
        (bk.i8, np.int8(-3), -3),
    ],
)  # fmt: skip
def test_fill_values(element, value, bits):
    assert launch(plan_of("Fill", 12, value, element=element), raw((12,), element))[1]["value"] == bits
    strided = raw(SHAPE, element, strides=(8, 2))
    op, args = launch(plan_of("Fill", SHAPE, value, element=element), strided)
    assert (op, args["rank"], args["stride_y"], args["value"]) == (f"fill_{element.symbol}_strided", 2, [8, 2], bits)


def test_gated_offsets():
    plan = plan_of("GatedActivation", Gated.SWIGLU, (2, 6, 5), 1)
    assert plan.descriptor.shape == (2, 3, 5)
    x, y = raw((2, 6, 5)), raw((2, 3, 5), address=9 << 20)
    op, args = launch(plan, x, y)
    assert op == "gated_swiglu_f32"
    assert args == {
        "output_numel": 30, "rank": 3, "output_shape": [2, 3, 5], "split_dim": 1, "x_half_offset": 15,
        "stride_x": [30, 5, 1], "stride_y": [15, 5, 1], "x": x.ptr, "y": y.ptr,
    }  # fmt: skip
    backwards = raw((2, 6, 5), strides=(1, -2, 12))
    assert launch(plan, backwards, y)[1]["x_half_offset"] == -6
    first_half = raw((2, 3, 5), strides=(30, 5, 1))
    assert launch(plan, x, first_half)[1]["y"] == x.ptr
    with pytest.raises(bk.InvalidProblemError, match="y overlaps x"):
        launch(plan, x, raw((2, 3, 5)))
    grad = plan_of("GatedActivationBackward", Gated.GLU, (2, 6, 5), 1)
    dx = raw((2, 6, 5), strides=(60, 10, 2), address=20 << 20)
    args = launch(grad, x, y, dx)[1]
    assert (args["x_half_offset"], args["dx_half_offset"], args["stride_dx"]) == (15, 30, [60, 10, 2])


def test_prelu_weights():
    x, y = raw((2, 3, 4)), raw((2, 3, 4), address=9 << 20)
    for axis, shape, expected in (
        (1, (3,), (4, 3, 0)),
        (2, (4,), (1, 4, 0)),
        (0, (2,), (12, 2, 0)),
        (-1, (1,), (1, 1, 1)),
    ):
        plan, weight = plan_of("PRelu", (2, 3, 4), axis), raw(shape, address=8 << 20)
        args = launch(plan, x, weight, y)[1]
        assert (args["channel_stride"], args["channel_extent"], args["scalar_weight"]) == expected
        op, args = launch(plan, raw((2, 3, 1)), raw(shape, strides=(2,), address=8 << 20), y)
        steps = [0, 0, 0]
        if axis >= 0:
            steps[axis] = 2
        assert (op, args["stride_x"], args["stride_weight"]) == ("prelu_f32_strided", [3, 1, 0], steps)
        with pytest.raises(bk.InvalidProblemError, match=r"weight has shape \(7,\), expected weight_shape"):
            launch(plan, x, raw((7,)), y)


def test_packed_operands():
    plan = plan_of("CastSubByte", 6, bk.s4, element=bk.f32)
    op, args = launch(plan, raw((6,)), raw((6,), bk.s4, 9 << 20))
    assert (op, args["numel"]) == ("cast_f32_s4", 6)
    with pytest.raises(bk.BufferTooSmallError):
        launch(plan, raw((6,)), raw((6,), bk.s4, 9 << 20, length=5))
    with pytest.raises(bk.UnsupportedError, match=r"x has strides \(2,\) for shape \(6,\), must be contiguous"):
        launch(plan, raw((6,), strides=(2,)), raw((6,), bk.s4, 9 << 20))
    assert (
        launch(plan_of("CastSubByte", 6, bk.e4m3fn), raw((6,)), raw((6,), bk.e4m3fn, 9 << 20))[0] == "cast_f32_fp8e4m3"
    )


# --- what plans say about themselves ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "fields", "element", "precision", "accumulator"),
    [
        ("Unary", (Unary.GELU, SHAPE), bk.f16, bk.MathPrecision.F32, bk.f32),
        ("Unary", (Unary.GELU, SHAPE), bk.f64, bk.MathPrecision.F64, bk.f64),
        ("Unary", (Unary.NEG, SHAPE), bk.i8, bk.MathPrecision.INT8, bk.i8),
        ("Binary", (Binary.MUL, SHAPE), bk.u64, bk.MathPrecision.INTEGER, bk.u64),
        ("Unary", (Unary.LOGICAL_NOT, SHAPE), bk.bool_, bk.MathPrecision.BINARY, bk.bool_),
        ("Cast", (SHAPE, bk.f64), bk.i32, bk.MathPrecision.F64, bk.f64),
        ("Cast", (SHAPE, bk.i16), bk.bf16, bk.MathPrecision.F32, bk.f32),
        ("Cast", (SHAPE, bk.i16), bk.u64, bk.MathPrecision.INTEGER, bk.i16),
        ("BinaryBackward", (Binary.MUL, SHAPE), bk.bf16, bk.MathPrecision.F32, bk.f32),
    ],
)  # fmt: skip
def test_guarantees(name, fields, element, precision, accumulator):
    plan = plan_of(name, *fields, element=element)
    assert plan.precision_guarantee == bk.PrecisionGuarantee(precision, accumulator, True, True, True)
    assert plan.sku.precision_guarantee == plan.precision_guarantee
    descriptor = plan.descriptor
    same = type(plan).select(None, descriptor, bk.PlanPreference(deterministic=True), library=plan.library)
    assert same.precision_guarantee.deterministic


@pytest.mark.parametrize(
    ("name", "fields", "category", "kind"),
    [
        ("Unary", (Unary.GELU, SHAPE), bk.OpCategory.UNARY_ELEMENTWISE, 101),
        ("UnaryBackward", (Unary.GELU, SHAPE), bk.OpCategory.UNARY_ELEMENTWISE, 101),
        ("UnaryParam", (Unary.POWI, SHAPE, 2), bk.OpCategory.UNARY_ELEMENTWISE, 121),
        ("BinaryCmp", (bk.BinaryCmpKind.LE, SHAPE), bk.OpCategory.BINARY_ELEMENTWISE, 5),
        ("Binary", (Binary.REMAINDER, SHAPE), bk.OpCategory.BINARY_ELEMENTWISE, 6),
        ("Ternary", (Ternary.ADDCDIV, SHAPE), bk.OpCategory.TERNARY_ELEMENTWISE, 3),
        ("Where", (SHAPE,), bk.OpCategory.TERNARY_ELEMENTWISE, 4),
        ("Cast", (SHAPE, bk.f16), bk.OpCategory.UNARY_ELEMENTWISE, 130),
        ("Affine", (SHAPE, 1), bk.OpCategory.UNARY_ELEMENTWISE, 131),
        ("PRelu", (SHAPE, 0), bk.OpCategory.UNARY_ELEMENTWISE, 120),
        ("Fill", (SHAPE, 1), bk.OpCategory.SHAPE_LAYOUT, 7),
        ("GatedActivation", (3, (2,), 0), bk.OpCategory.GATED_ACTIVATION, 3),
    ],
)  # fmt: skip
def test_skus(name, fields, category, kind):
    sku = plan_of(name, *fields).sku
    assert (sku.category, sku.op, sku.element) == (category, kind, bk.f32)
    assert sku.aux_element is (bk.f16 if name == "Cast" else None)


def test_names_are_lazy_and_complete():
    """Every public class of a family's module is found in the package."""
    for name in bk.__all__:
        assert getattr(bk, name) is not None
    assert set(bk.__all__) <= set(dir(bk))
    assert not {"sys", "Any", "importlib"} & set(dir(bk))
    for plan in [bk.Plan, *_subclasses(bk.Plan)]:
        if hasattr(plan, "args_type") and not plan.__name__.startswith("_"):
            for cls in (plan, plan.args_type, plan.descriptor_type):
                assert getattr(bk, cls.__name__) is cls
    with pytest.raises(AttributeError, match="no attribute 'FrobnicatePlan'"):
        _ = bk.FrobnicatePlan


def _subclasses(cls):
    return [each for child in cls.__subclasses__() for each in (child, *_subclasses(child))]
