# SPDX-License-Identifier: Apache-2.0
"""Args are generated from the rows of the op table, and descriptors without fields of their own from the descriptors
that they derive from: they behave like hand-written classes."""

import copy
import dataclasses
import inspect
import pickle
import sys
import typing

import pytest

import baracuda as bk
from baracuda import segment
from baracuda._call.args_class import _merge_orders
from baracuda.loss import elementwise
from baracuda.operands import Args
from fakes import PLANS, example_args, example_plan

ARGS = {name: getattr(bk, f"{name}Args") for name in PLANS}


@pytest.mark.parametrize("name", PLANS)
def test_args_are_classes_of_their_module(name):
    args, plan = ARGS[name], getattr(bk, f"{name}Plan")
    assert args is plan.args_type and args.__bases__ == (Args,) and args.__module__ == plan.__module__
    assert getattr(sys.modules[args.__module__], args.__qualname__) is args
    assert pickle.loads(pickle.dumps(args)) is args is copy.deepcopy(args)
    assert list(inspect.signature(args).parameters) == [field.name for field in dataclasses.fields(args)]
    assert typing.get_type_hints(args).keys() >= set(args.__match_args__)
    assert inspect.getdoc(args)


@pytest.mark.parametrize("name", PLANS)
def test_args_are_frozen_and_slotted(name):
    args = example_args(name)
    field = dataclasses.fields(args)[0].name
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(args, field, None)
    assert not hasattr(args, "__dict__") and args != example_args(name)
    assert all(getattr(copy.copy(args), each.name) is getattr(args, each.name) for each in dataclasses.fields(args))


@pytest.mark.parametrize("name", PLANS)
def test_what_has_no_default_is_needed_or_said_to_be_given(name):
    """An operand with a default may be NULL in C, unless the plan says that it is optional."""
    plan = example_plan(name)
    for field in dataclasses.fields(plan.args_type):
        params = [param for form in plan._forms if (param := form.parameter(field.name) or form.lists.get(field.name))]
        source = plan.fields.get(field.name)
        if field.default is dataclasses.MISSING and source != "given":
            assert all(param.is_required or param.is_list for param in params)
        assert not (field.default is None and source == "given")


def fields(args):
    return " ".join(field.name + "?" * (field.default is None) for field in dataclasses.fields(args))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("SegmentSum", "input segment_ids output"), ("Rope", "x y positions?"), ("RopeStarts", "x y starts"),
        ("BinaryBackward", "dy a? b? da? db?"), ("UnaryBackward", "dy x? y? dx?"), ("Affine", "x y"),
        ("AddRMSNorm", "x residual gamma y sum? rms?"), ("ConcatManyBackward", "dy outputs"),
        ("CrossEntropy", "input target? soft_target? out?"), ("GatherRows", "table idx dest"),
        ("Gemm", "a b d c? bias? row_bias? row_scale? column_scale? residual? z?"), ("IntGemm", "a b d c? bias?"),
    ],
)  # fmt: skip
def test_fields_are_in_the_order_of_operands(name, expected):
    assert fields(ARGS[name]) == expected


def test_lists_are_named():
    assert ARGS["ConcatMany"].lists == ("inputs",) and ARGS["ConcatManyBackward"].lists == ("outputs",)


def test_orders_are_merged():
    assert _merge_orders(["dx", "day"]) == list("dxay")
    assert _merge_orders(["abd", "acd", "e"]) == list("abcde")


def test_a_plan_without_a_row_is_refused():
    with pytest.raises(TypeError, match=r"LostPlan: the op table has no row lost_\{kind\}_\{T\}"):

        class LostPlan(bk.UnaryPlan):
            __slots__ = ()
            op = "lost_{kind}_{T}"


@pytest.mark.parametrize("name", PLANS)
def test_descriptors_are_classes_of_their_module(name):
    descriptor, plan = getattr(bk, f"{name}Descriptor"), getattr(bk, f"{name}Plan")
    assert descriptor is plan.descriptor_type is plan.descriptor_base
    assert descriptor.__qualname__ == f"{name}Descriptor" and descriptor.__module__ == plan.__module__
    assert getattr(sys.modules[descriptor.__module__], descriptor.__qualname__) is descriptor
    assert pickle.loads(pickle.dumps(descriptor)) is descriptor
    assert typing.get_type_hints(descriptor).keys() >= {field.name for field in dataclasses.fields(descriptor)}
    assert inspect.getdoc(descriptor)


@pytest.mark.parametrize(
    ("name", "base"),
    [
        ("Mse", elementwise.LossDescriptor), ("MseBackward", "Mse"), ("BceTargetBackward", elementwise.LossDescriptor),
        ("KlDivBatchTargetBackward", "KlDivBatch"), ("WeightedMultiMarginBackward", "MultiMargin"),
        ("SegmentSum", segment.SegmentDescriptor), ("PutAdd", "Put"), ("CountReduce", "BoolReduce"),
    ],
)  # fmt: skip
def test_descriptors_derive_from_the_family_or_the_base(name, base):
    made, base = getattr(bk, f"{name}Descriptor"), getattr(bk, f"{base}Descriptor") if isinstance(base, str) else base
    assert made.__bases__ == (base,) and dataclasses.fields(made) == dataclasses.fields(base)
    assert made.__dict__.keys() >= {"__init__", "__eq__"} and inspect.getdoc(made)


def test_derived_descriptors_share_documentation():
    assert inspect.getdoc(bk.PermuteBackwardDescriptor) == bk.PermuteDescriptor.__doc__
    assert inspect.getdoc(bk.HuberBackwardDescriptor).startswith("HuberBackwardDescriptor(input_shape")


def test_bases_of_families_have_no_descriptor():
    for base in (elementwise.LossPlan, segment._SegmentPlan, bk.Plan):
        assert not hasattr(base, "descriptor_type") and not hasattr(base, "args_type")


def test_derived_descriptors_are_equal_by_fields_and_type():
    of = {"input_shape": (3,), "reduction": bk.LossReduction.SUM, "element": bk.f32}
    backward = bk.MseBackwardDescriptor(**of)
    assert isinstance(backward, bk.MseDescriptor) and backward != bk.MseDescriptor(**of)
    assert backward == pickle.loads(pickle.dumps(backward)) == copy.deepcopy(backward) == backward.validated()
    assert repr(backward).startswith("MseBackwardDescriptor(")
    with pytest.raises(TypeError, match=r"MseBackwardDescriptor\.__init__\(\) missing"):
        bk.MseBackwardDescriptor()
    with pytest.raises(dataclasses.FrozenInstanceError):
        backward.input_shape = (4,)
