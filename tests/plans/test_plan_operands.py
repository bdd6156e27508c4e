# SPDX-License-Identifier: Apache-2.0
"""The checks of a plan on its operands, and the arguments that it passes to C."""

import dataclasses
import gc
import re

import numpy as np
import pytest

import baracuda as bk
from baracuda._arrays import capsules
from fakes import (
    LERP,
    PLANS,
    FakeLibrary,
    addresses,
    backward_args,
    bag_args,
    bag_descriptor,
    example_args,
    example_descriptor,
    example_plan,
    launch,
    lerp_plan,
    plan_of,
    raw,
    view_of,
)

BAD_OPERANDS = [
    ("weight", raw((10, 5)), bk.InvalidProblemError,
     r"weight has shape \(10, 5\), expected \(num_embeddings, embedding_dim\) = \(10, 4\)"),
    ("weight", raw((40,)), bk.InvalidProblemError, r"weight has shape \(40,\)"),
    ("weight", raw((10, 4), bk.f64), bk.InvalidProblemError, "weight has dtype f64, expected f32"),
    ("weight", raw((10, 4), strides=(8, 1)), bk.UnsupportedError, r"weight has strides \(8, 1\).*contiguous"),
    ("weight", raw((10, 4), address=0), bk.InvalidProblemError, "weight is NULL"),
    ("weight", raw((10, 4), address=4098), bk.MisalignedOperandError, "weight is at 0x1002"),
    ("weight", raw((10, 4), length=39), bk.BufferTooSmallError, "weight with shape .* elements 0 to 39 .* of 39"),
    ("weight", raw((10, 4), length=41, offset=2), bk.BufferTooSmallError, ".* elements 2 to 41"),
    ("weight", None, bk.InvalidProblemError, "weight is None"),
    ("indices", raw((8,), bk.i32), bk.InvalidProblemError,
     r"indices has shape \(8,\), expected \(total_indices,\) = \(7,\)"),
    ("indices", raw((7,), bk.f32), bk.InvalidProblemError, "indices has dtype f32, expected i32 or i64"),
    ("offsets", raw((3,), bk.u8), bk.InvalidProblemError, "offsets has dtype u8, expected i32"),
    ("output", raw((3, 4), address=4 << 20, readonly=True), bk.InvalidProblemError, "output is read-only"),
    ("output", raw((3, 4), address=(1 << 20) + 144), bk.InvalidProblemError, "output overlaps weight"),
    ("output", raw((3, 4), address=1 << 20), bk.InvalidProblemError, "output overlaps weight"),
    ("output", raw((3, 4), address=2 << 20), bk.InvalidProblemError, "output overlaps indices"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "view", "error", "text"), BAD_OPERANDS)
def test_bad_operands(name, view, error, text):
    plan = bk.EmbeddingBagPlan.select(None, bag_descriptor(), library=FakeLibrary())
    args = bag_args(**{name: view})
    for call in (plan.can_implement, lambda a: plan.run(None, None, a), lambda a: plan.bind(None, None, a)):
        with pytest.raises(error, match=f"embedding_bag: {text}") as caught:
            call(args)
        assert caught.value.symbol == "embedding_bag"
    assert not plan.library.calls


def test_operands_side_by_side():
    plan = bk.EmbeddingBagPlan.select(None, bag_descriptor(), library=FakeLibrary())
    plan.run(None, None, bag_args(output=raw((3, 4), address=(1 << 20) + 160)))
    assert len(plan.library.calls) == 1


def test_buffer_errors_carry_sizes():
    plan = bk.RepeatPlan.select(None, bk.RepeatDescriptor((3, 4), (1, 1), element=bk.f32), library=FakeLibrary())
    y = raw((3, 4), address=8 << 20)
    for view, needed, got in [
        (raw((3, 4), strides=(10, 1), length=23), 24, 23),
        (raw((3, 4), strides=(10, 2), length=26), 27, 26),
        (raw((3, 4), strides=(-10, 1), length=100), 120, 100),
        (raw((3, 4), strides=(-10, 1), length=100, offset=19), 101, 100),
    ]:
        with pytest.raises(bk.BufferTooSmallError, match="repeat: x with shape") as caught:
            plan.run(None, None, bk.RepeatArgs(view, y))
        assert (caught.value.needed, caught.value.got) == (needed, got)
    for view in (
        raw((3, 4), strides=(10, 1), length=24),
        raw((3, 4), strides=(0, 0), length=1),
        raw((3, 4), strides=(-10, 1), length=24, offset=20),
    ):
        plan.run(None, None, bk.RepeatArgs(view, y))


def test_reach_beyond_63_bits():
    plan = bk.RepeatPlan.select(None, bk.RepeatDescriptor((3, 4), (1, 1), element=bk.f32), library=FakeLibrary())
    with pytest.raises(bk.InvalidProblemError, match=r"more than 2\^63 bytes"):
        plan.run(None, None, bk.RepeatArgs(raw((3, 4), strides=(2**62, 1)), raw((3, 4), address=8 << 20)))


@pytest.mark.parametrize("strides", [(0, 1), (1, 0), (1, 1), (4, 4), (3, 1)])
def test_output_cells_must_be_distinct(strides):
    plan = lerp_plan((3, 4), library=FakeLibrary())
    with pytest.raises(bk.InvalidProblemError, match=r"binary_lerp_param: y has strides .* its cells overlap"):
        plan.run(
            None, None, bk.BinaryParamArgs(raw((3, 4)), raw((3, 4)), raw((3, 4), address=8 << 20, strides=strides))
        )


def test_overlap_is_exact_for_strided_views():
    plan = lerp_plan((4,), library=FakeLibrary())
    even, odd = raw((4,), strides=(2,)), raw((4,), strides=(2,), address=(1 << 20) + 4)
    plan.run(None, None, bk.BinaryParamArgs(even, even, odd))
    with pytest.raises(bk.InvalidProblemError, match="y overlaps a"):
        plan.run(None, None, bk.BinaryParamArgs(even, odd, raw((4,), strides=(3,))))
    plan = lerp_plan((4, 4), library=FakeLibrary())
    left, right = raw((4, 4), strides=(8, 1)), raw((4, 4), strides=(8, 1), address=(1 << 20) + 16)
    plan.run(None, None, bk.BinaryParamArgs(left, left, right))


def test_allowed_aliases():
    plan, a, b = lerp_plan((4, 4), library=FakeLibrary()), raw((4, 4)), raw((4, 4), address=8 << 20)
    for y in (a, b):
        plan.run(None, None, bk.BinaryParamArgs(a, b, y))
    with pytest.raises(bk.InvalidProblemError, match="y overlaps a, must be identical with it or apart"):
        plan.run(None, None, bk.BinaryParamArgs(a, b, raw((4, 4), strides=(1, 4))))
    with pytest.raises(bk.InvalidProblemError, match="y overlaps a"):
        plan.run(None, None, bk.BinaryParamArgs(raw((1, 4)), b, a))
    descriptor = bk.BinaryParamBackwardDescriptor(LERP, (4, 4), 0.5, element=bk.f32)
    backward = bk.BinaryParamBackwardPlan.select(None, descriptor, library=FakeLibrary())
    backward.run(None, None, bk.BinaryParamBackwardArgs(a, a, b))
    backward.run(None, None, bk.BinaryParamBackwardArgs(a, b, a))
    with pytest.raises(bk.InvalidProblemError, match=r"da overlaps db|db overlaps da"):
        backward.run(None, None, bk.BinaryParamBackwardArgs(a, b, b))


def test_host_memory_is_no_device_memory():
    for backend, device in (("cuda", "cpu"), ("cpu", "cuda")):
        plan = bk.EmbeddingBagPlan.select(None, bag_descriptor(), library=FakeLibrary(backend))
        with pytest.raises(bk.InvalidProblemError, match=f"weight is in {device} memory, the library is a {backend}"):
            plan.run(None, None, bag_args(weight=raw((10, 4), device=device)))
        with pytest.raises(bk.InvalidProblemError, match=f"workspace is in {device} memory"):
            plan.run(None, raw((8,), bk.u8, 9 << 20, device=device), bag_args())


def test_arguments_of_wrong_types():
    plan = bk.EmbeddingBagPlan.select(None, bag_descriptor(), library=FakeLibrary())
    for args in (None, {}, backward_args(), object()):
        for call in (plan.can_implement, lambda a: plan.run(None, None, a), lambda a: plan.bind(None, None, a)):
            with pytest.raises(bk.InvalidProblemError, match="embedding_bag: args is of type"):
                call(args)
    with pytest.raises(bk.InvalidProblemError, match="EmbeddingBagArgs: weight is of type list"):
        bag_args(weight=[1.0])


def test_symbol_and_argument_order():
    library = FakeLibrary()
    plan = bk.EmbeddingBagPlan.select(None, bag_descriptor(mode=1), library=library)
    plan.run(77, None, bag_args(indices=raw((7,), bk.i64, 2 << 20)))
    op, kind, args = library.calls[-1]
    assert (op, kind) == ("embedding_bag_i64idx_f32", "run")
    assert args[:6] == (7, 10, 4, 3, 1, -(2**31))
    assert addresses(library, args[6:10]) == [1 << 20, 2 << 20, 3 << 20, 4 << 20]
    assert (args[10] == library.ffi.NULL, args[11], addresses(library, args[12:])) == (True, 0, [77])
    plan = bk.EmbeddingBagPlan.select(None, bag_descriptor(padding_idx=5, element=bk.f32), library=library)
    plan.can_implement(bag_args())
    op, kind, args = library.calls[-1]
    assert (op, kind, args[5], len(args)) == ("embedding_bag_f32", "can_implement", 5, 10)


def test_strides_reach_c():
    library = FakeLibrary()
    plan = lerp_plan((3, 4), library=library)
    plan.run(None, None, bk.BinaryParamArgs(raw((3, 4)), raw((3, 1)), raw((3, 4), address=8 << 20)))
    op, _, args = library.calls[-1]
    assert (op, args[0], args[1], list(args[2])) == ("binary_lerp_param_f32_strided", 12, 2, [3, 4])
    assert [list(array) for array in args[3:6]] == [[4, 1], [1, 0], [4, 1]]
    assert args[9] == 0.25
    plan.run(None, None, bk.BinaryParamArgs(raw((3, 4)), raw((3, 4)), raw((3, 4), address=8 << 20)))
    op, _, args = library.calls[-1]
    assert (op, args[0], args[4]) == ("binary_lerp_param_f32", 12, 0.25)


def test_optional_operands_are_null():
    library = FakeLibrary()
    plan = bk.AlibiBackwardPlan.select(None, bk.AlibiBackwardDescriptor(1, 2, 3, 4, element=bk.bf16), library=library)
    plan.run(None, None, bk.AlibiBackwardArgs(dy=raw((1, 2, 3, 4), bk.bf16), dslopes=raw((2,), bk.bf16, 8 << 20)))
    op, _, args = library.calls[-1]
    assert op == "alibi_backward_bf16"
    assert addresses(library, args[4:7]) == [1 << 20, 0, 8 << 20]


# --- what is written must not be lost ---------------------------------------------------------------------------------


def outputs():
    """Yields (plan, its output operand) for every output of every plan."""
    return [(name, operand) for name in PLANS for operand in example_plan(name).operands if operand.output]


class CopiedByDlpack:
    """Exports a copy of itself and says so: flag 2 of a DLPack tensor."""

    def __init__(self, array):
        self.array = array

    def __dlpack_device__(self):
        return (1, 0)

    def __dlpack__(self, **options):
        capsule = self.array.copy().__dlpack__(max_version=(1, 0))
        pointer = capsules._get_pointer(capsule, b"dltensor_versioned")
        capsules.ctypes.cast(pointer, capsules.ctypes.POINTER(capsules.Versioned)).contents.flags |= 2
        return capsule


@pytest.mark.parametrize(("name", "operand"), outputs(), ids=lambda value: getattr(value, "name", value))
def test_read_only_and_temporary_outputs(name, operand):
    plan = example_plan(name, FakeLibrary("cpu"))
    wanted = view_of(example_args(name), operand.name)
    if wanted.dtype.bits < 8:
        return
    array = np.zeros(wanted.shape, wanted.dtype.numpy_dtype)
    fixed = array.copy()
    fixed.flags.writeable = False
    tries = [fixed, np.broadcast_to(array, array.shape)]
    if wanted.dtype not in (bk.bf16, bk.e4m3fn, bk.e5m2):
        tries.append(CopiedByDlpack(array))
    for output in tries:
        with pytest.raises(bk.InvalidProblemError, match=f"{re.escape(operand.name)} is read-only or a temporary copy"):
            plan.run(None, None, example_args(name, **{operand.name: output}))
    assert all(kind != "run" for _, kind, _ in plan.library.calls)


def test_numpy_scalars():
    """Input scalars are values that are kept alive; an output scalar would be an unseen copy."""
    one, zero = np.float32(1), np.float32(0)
    view = bk.tensor(one)
    assert (view.shape, view.dtype, view.readonly, view.device) == ((), bk.f32, True, "cpu")
    assert view.owner.ctypes.data == view.ptr
    library = FakeLibrary("cpu")
    plan = bk.UnaryPlan.select(None, bk.UnaryDescriptor(bk.UnaryKind.NEG, (), element=bk.f32), library=library)
    plan.run(None, None, bk.UnaryArgs(one, np.zeros((), np.float32)))
    for scalar in (zero, np.zeros(3, np.float32)[0]):
        with pytest.raises(bk.InvalidProblemError, match="y is read-only or a temporary copy, but an output"):
            plan.run(None, None, bk.UnaryArgs(one, scalar))
    with pytest.raises(bk.InvalidProblemError, match="workspace is read-only"):
        plan.run(None, np.uint8(0), bk.UnaryArgs(one, np.zeros((), np.float32)))


def test_masked_arrays_are_no_arrays():
    """Masked arrays are refused, since their mask would be lost."""
    with pytest.raises(bk.UnsupportedError, match="masked array"):
        bk.tensor(np.ma.masked_array([1.0, 2.0], [True, False]))


def test_an_interface_that_makes_a_temporary_is_kept_alive():
    class Temporary:
        @property
        def __array_interface__(self):
            array = np.arange(4, dtype=np.float32)
            return array.__array_interface__ | {"held": array}

    view = bk.tensor(Temporary())
    gc.collect()
    assert bk.download(view, library=FakeLibrary("cpu")).tolist() == [0, 1, 2, 3]


# --- large axes -------------------------------------------------------------------------------------------------------

LONG = 2**31 + 5


@pytest.mark.parametrize("shape", [(LONG,), (2, LONG), (LONG, 1)])
def test_axes_of_more_than_31_bits(shape):
    """C takes contiguous operands by their element count, and strided ones axis by axis in 32 bits."""
    plan = plan_of("Binary", bk.BinaryKind.ADD, shape)
    numel = LONG * shape[0] if shape[0] == 2 else LONG
    a, b, y = (raw(shape, address=(k + 1) << 36) for k in range(3))
    op, given = launch(plan, a, b, y)
    assert (op, given["numel"]) == ("binary_add_f32", numel)
    strided = raw(shape, address=1 << 36, strides=[2 * s for s in a.strides])
    for view in (strided, raw((1,) * len(shape), address=1 << 36)):
        with pytest.raises(bk.UnsupportedError, match="axes of more than 2147483647 elements are served only where"):
            launch(plan, view, b, y)


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("Fill", (LONG, 1.0)), ("Affine", (LONG, 2.0)), ("Cast", ((LONG,), bk.f16)), ("Where", ((LONG,),)),
        ("Unary", (bk.UnaryKind.NEG, (LONG,))), ("PRelu", ((LONG,), -1)), ("PRelu", ((3, LONG), 0)),
        ("BinaryBackward", (bk.BinaryKind.ADD, (LONG,))), ("Ternary", (bk.TernaryKind.FMA, (LONG,))),
    ],
)  # fmt: skip
def test_long_problems_pass_the_library(library, name, fields):
    """can_implement of C agrees with Python; no memory is read."""
    plan = plan_of(name, *fields, library=library)
    views = {
        operand.name: raw(operand.extents, operand.dtypes[0], (k + 1) << 40) for k, operand in enumerate(plan.operands)
    }
    plan.can_implement(plan.args_type(**views))


@pytest.mark.parametrize(
    ("name", "fields", "text"),
    [
        ("PRelu", ((LONG,), 0), "at most 2147483647 channels"), ("Repeat", ((LONG,), (1,)), "input_shape"),
        ("GatedActivation", (bk.GatedActivationKind.GLU, (LONG + 1,), 0), "input_shape"),
        ("SegmentSum", (LONG, 4, 4), "num_inputs"), ("Unary", (bk.UnaryKind.NEG, (2**63,)), "shape"),
        ("Unary", (bk.UnaryKind.NEG, (2**62, 4)), "below 2\\^63"), ("Fill", (2**63, 1.0), "shape"),
    ],
)  # fmt: skip
def test_axes_beyond_the_limits_of_c(name, fields, text):
    with pytest.raises(bk.InvalidProblemError, match=text):
        plan_of(name, *fields)


# --- documentation ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PLANS)
def test_args_say_what_is_added_to(name):
    """Outputs are overwritten; an output that C reads first is named in the help of its Args."""
    plan = getattr(bk, f"{name}Plan")
    added = {out for form in example_plan(name)._forms for out in form.row.accumulates.split()}
    for operand in added:
        assert f"{operand} is added to" in plan.args_type.__doc__
    assert ("added to" in (plan.args_type.__doc__ or "")) == bool(added)


def test_f32_strict_is_named():
    for name in ("Unary", "SegmentSum", "Alibi"):
        descriptor = dataclasses.replace(example_descriptor(name), element=bk.f32_strict)
        with pytest.raises(bk.UnsupportedError, match=r"element is f32_strict, must be one of .*f32"):
            getattr(bk, f"{name}Plan").select(None, descriptor, library=FakeLibrary())
    with pytest.raises(bk.UnsupportedError, match="output_element is f32_strict, must be one of"):
        plan_of("Cast", (3,), bk.f32_strict)
    with pytest.raises(bk.InvalidProblemError, match="x has dtype f32_strict, expected f32"):
        launch(plan_of("Unary", bk.UnaryKind.NEG, (3,)), raw((3,), bk.f32_strict), raw((3,), address=2 << 20))
    assert bk.f32_strict.token == "f32"
