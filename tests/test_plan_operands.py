"""What a plan checks about its operands, and what it hands to C."""

import pytest

import baracuda as bk
from fakes import LERP, FakeLibrary, addresses, backward_args, bag_args, bag_descriptor, lerp_plan, raw

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
    ("offsets", raw((3,), bk.i64), bk.InvalidProblemError, "offsets has dtype i64, expected i32"),
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


def test_arguments_that_are_none_at_all():
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
