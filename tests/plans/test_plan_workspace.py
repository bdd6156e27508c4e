# SPDX-License-Identifier: Apache-2.0
"""Workspace policy, guarantees and SKUs."""

import pytest

import baracuda as bk
from baracuda._library import machine_code
from baracuda._library.op_table import ops
from fakes import (
    LERP,
    PLANS,
    FakeLibrary,
    addresses,
    backward_args,
    backward_plan,
    example_args,
    example_plan,
    lerp_plan,
    raw,
    view_of,
)


@pytest.mark.parametrize("element", [bk.f32, bk.f64])
def test_atomics_are_the_default_of_f32_and_f64(element):
    plan = backward_plan(FakeLibrary(), element)
    guarantee = plan.precision_guarantee
    assert plan.workspace_size == 0
    assert (guarantee.deterministic, guarantee.bit_stable_on_same_hardware, guarantee.accumulator) == (
        False,
        False,
        element,
    )
    plan.run(None, raw((5000,), bk.u8, 9 << 20), backward_args(element))
    assert plan.library.calls[-1][2][11] == 0  # a workspace that the plan did not ask for would change the algorithm


@pytest.mark.parametrize("element", [bk.f16, bk.bf16, bk.f32, bk.f64])
def test_deterministic_takes_the_workspace(element):
    plan = backward_plan(FakeLibrary(size=1000), element, deterministic=True)
    guarantee = plan.precision_guarantee
    assert plan.workspace_size == 1000
    assert guarantee.deterministic
    assert guarantee.bit_stable_on_same_hardware
    assert guarantee.accumulator is (bk.f64 if element is bk.f64 else bk.f32)
    args = backward_args(element)
    for workspace, got in [(None, 0), (raw((999,), bk.u8, 9 << 20), 999), ((9 << 20, 10), 10), ((9 << 20, 0), 0)]:
        for call in (plan.run, plan.bind):
            with pytest.raises(bk.WorkspaceTooSmallError, match=f"workspace has {got} bytes, needs 1000") as caught:
                call(None, workspace, args)
            assert (caught.value.needed, caught.value.got, caught.value.status) == (1000, got, 4)
    for workspace, size in [(raw((250,), bk.f32, 9 << 20), 1000), ((9 << 20, 5000), 5000)]:
        plan.run(None, workspace, args)
        assert addresses(plan.library, plan.library.calls[-1][2][10:11]) == [9 << 20]
        assert plan.library.calls[-1][2][11] == size


@pytest.mark.parametrize("element", [bk.f16, bk.bf16])
def test_halves_take_the_workspace_unless_it_is_capped(element):
    assert backward_plan(FakeLibrary(), element).workspace_size == 1000
    assert backward_plan(FakeLibrary(), element).precision_guarantee.deterministic
    capped = backward_plan(FakeLibrary(), element, max_workspace_bytes=999)
    assert capped.workspace_size == 0
    assert not capped.precision_guarantee.deterministic
    assert capped.precision_guarantee.accumulator is element
    capped.run(None, None, backward_args(element))


def test_deterministic_and_capped_is_unsupported():
    with pytest.raises(bk.UnsupportedError, match=r"embedding_bag_backward: .* needs 1000 workspace bytes"):
        backward_plan(FakeLibrary(), deterministic=True, max_workspace_bytes=999)


def test_batch_invariance_implies_determinism():
    plan = backward_plan(FakeLibrary(), batch_invariant=True)
    assert plan.workspace_size == 1000
    assert plan.precision_guarantee.deterministic
    assert plan.precision_guarantee.batch_invariant
    assert not backward_plan(FakeLibrary()).precision_guarantee.batch_invariant
    with pytest.raises(bk.UnsupportedError, match=r"embedding_bag_backward: .* needs 1000 workspace bytes"):
        backward_plan(FakeLibrary(), batch_invariant=True, max_workspace_bytes=999)


def test_no_batch_invariant_kernel_is_unsupported():
    of = bk.GroupedGemmDescriptor(4, 3, 2, 1, bk.DenseLayout.RRR, element=bk.f32)
    plan = bk.GroupedGemmPlan.select(None, of, library=FakeLibrary())
    assert plan.precision_guarantee.deterministic
    assert not plan.precision_guarantee.batch_invariant
    with pytest.raises(bk.UnsupportedError, match="no batch-invariant kernel exists"):
        bk.GroupedGemmPlan.select(None, of, bk.PlanPreference(batch_invariant=True), library=FakeLibrary())


@pytest.mark.parametrize(
    "plan_type",
    ["FlashDecoding", "BatchPagedDecode", "BatchPagedDecodeFp8", "BatchPagedDecodeQuantized", "BatchPagedPrefill",
     "BatchRaggedPrefill"],
)  # fmt: skip
def test_batch_invariance_of_attention(plan_type):
    """C hears of the preference. A GPU needs the workspace; a CPU does not."""
    plan = example_plan(plan_type, preference=bk.PlanPreference(batch_invariant=True))
    assert plan.numbers["is_batch_invariant"] == 1
    assert plan.workspace_size == 1000
    assert plan.precision_guarantee.batch_invariant
    other = example_plan(plan_type)
    assert other.numbers["is_batch_invariant"] == 0
    assert not other.precision_guarantee.batch_invariant
    capped = bk.PlanPreference(batch_invariant=True, max_workspace_bytes=999)
    with pytest.raises(bk.UnsupportedError, match="the batch-invariant kernel needs 1000 workspace bytes"):
        example_plan(plan_type, preference=capped)
    assert example_plan(plan_type, FakeLibrary("cpu"), capped).workspace_size == 0


def test_everything_is_deterministic_on_the_cpu():
    guarantee = backward_plan(FakeLibrary("cpu")).precision_guarantee
    assert guarantee.deterministic
    assert guarantee.bit_stable_on_same_hardware


def test_workspace_for_speed_may_be_left_out():
    library = FakeLibrary()
    descriptor = bk.SegmentSumDescriptor(6, 5, 4, element=bk.f32)
    args = bk.SegmentSumArgs(raw((6, 5)), raw((6,), bk.i32, 2 << 20), raw((4, 5), address=3 << 20))
    plan = bk.SegmentSumPlan.select(None, descriptor, library=library)
    assert plan.workspace_size == 1000
    assert plan.precision_guarantee.deterministic
    plan.run(None, None, args)
    assert library.calls[-1][2][7] == 0
    plan.run(None, (9 << 20, 1000), args)
    assert library.calls[-1][2][7] == 1000
    with pytest.raises(bk.WorkspaceTooSmallError):
        plan.run(None, (9 << 20, 999), args)
    capped = bk.SegmentSumPlan.select(None, descriptor, bk.PlanPreference(max_workspace_bytes=10), library=library)
    assert capped.workspace_size == 0
    assert bk.workspace(capped) is None


def test_workspace_that_depends_on_strides():
    """The size query of repeat_backward assumes contiguous strides; a launch may need more, and its error says so."""
    library = FakeLibrary(size=1000)
    descriptor = bk.RepeatBackwardDescriptor((3, 4), (2, 2), element=bk.f32)
    plan = bk.RepeatBackwardPlan.select(None, descriptor, library=library)
    args = bk.RepeatBackwardArgs(raw((6, 8), strides=(16, 2)), raw((3, 4), address=8 << 20))
    library.size = 2000
    assert plan.workspace_size_for(args) == 2000
    with pytest.raises(bk.WorkspaceTooSmallError, match="workspace has 1000 bytes, needs 2000"):
        plan.run(None, (9 << 20, 1000), args)
    plan.run(None, (9 << 20, 2000), args)
    assert library.calls[-1][2][-2] == 2000


def test_bad_workspaces():
    plan, args = backward_plan(FakeLibrary(), deterministic=True), backward_args()
    for workspace, text in [
        ("x", "workspace is of type str"),
        ((1, 2, 3), "must be \\(address, bytes\\)"), ((-1, 2000), "workspace address"),
        ((9 << 20, "2000"), "workspace bytes"), ((0, 2000), "workspace is NULL"), (5, "workspace is of type int"),
        (raw((2000,), bk.u8, 1 << 20), "workspace overlaps dout"),
        (raw((2000,), bk.u8, 9 << 20, readonly=True), "workspace is read-only"),
    ]:  # fmt: skip
        with pytest.raises(bk.InvalidProblemError, match=rf"embedding_bag_backward: .*{text}"):
            plan.run(None, workspace, args)
    with pytest.raises(bk.UnsupportedError, match="contiguous"):
        plan.run(None, raw((2000,), bk.u8, 9 << 20, strides=(2,)), args)
    with pytest.raises(bk.BufferTooSmallError):
        plan.run(None, raw((2000,), bk.u8, 9 << 20, length=1999), args)


def test_sku():
    plan = backward_plan(FakeLibrary("cuda"), bk.f16)
    sku = plan.sku
    assert (sku.category, sku.op) == (bk.OpCategory.EMBEDDING, bk.EmbeddingKind.EMBEDDING_BAG_SUM_BACKWARD)
    assert (sku.element, sku.aux_element, sku.backend) == (bk.f16, bk.i32, bk.BackendKind.BESPOKE)
    assert sku.precision_guarantee == plan.precision_guarantee
    assert hash(sku) == hash(backward_plan(FakeLibrary("cuda"), bk.f16).sku)
    assert lerp_plan((3,)).sku.op == LERP


@pytest.mark.parametrize(
    ("device", "archs", "expected"),
    [
        ((9, 0), ["sm_80", "sm_86", "sm_89", "sm_90"], bk.ArchSku.SM90),
        ((9, 0), ["sm_90", "sm_90a"], bk.ArchSku.SM90A),
        ((10, 0), ["sm_90", "sm_90a"], bk.ArchSku.SM90), ((8, 7), ["sm_80", "sm_86", "sm_90"], bk.ArchSku.SM86),
        ((12, 1), ["sm_80"], bk.ArchSku.SM80), ((8, 0), ["sm_90"], None), ((7, 5), ["sm_80"], None),
        (None, ["sm_90"], None), ((9, 0), [], None),
    ],
)  # fmt: skip
def test_the_code_that_a_gpu_runs(monkeypatch, device, archs, expected):
    monkeypatch.setattr(machine_code, "capability", lambda: device)
    library = FakeLibrary("cuda")
    library.build_info["archs"] = archs
    assert backward_plan(library).sku.arch is expected


@pytest.mark.parametrize(("isa", "token"), [("baseline", "cpu"), ("avx2", "avx2"), ("avx512", "avx512"), (None, "cpu")])
def test_the_code_that_a_processor_runs(isa, token):
    library = FakeLibrary("cpu")
    library.build_info |= {} if isa is None else {"isa": isa}
    assert backward_plan(library).sku.arch.token == f"cpu:{token}"


def test_the_sku_names_what_this_machine_runs(library):
    arch = lerp_plan((3,)).sku.arch
    if library.backend == "cpu":
        assert arch.name.lower() == library.build_info.get("isa", "baseline").replace("baseline", "cpu")
    else:
        major, minor = machine_code.capability()
        built = {f"sm_{arch.name.lower().removeprefix('sm')}"} & set(library.build_info["archs"])
        assert built
        assert arch.name.startswith(f"SM{major}{minor}") or f"sm_{major}{minor}" not in library.build_info["archs"]


def summed_args(name):
    """Arguments whose gradients are sums along the first axis, where the plan has such gradients."""
    plain, operands = example_args(name), example_plan(name).operands
    views = {operand.name: view_of(plain, operand.name) for operand in operands if operand.output and operand.broadcast}
    ones = {n: raw((1, *view.shape[1:]), view.dtype, view.ptr) for n, view in views.items()}
    return example_args(name, **ones)


@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize("name", PLANS)
def test_a_workspace_that_is_too_short_is_an_error(name, deterministic):
    """Every plan that takes a workspace refuses a short one, for contiguous and for summed operands."""
    plan = example_plan(name, preference=bk.PlanPreference(deterministic=deterministic))
    takes = 0
    for args in (example_args(name), summed_args(name)):
        needed = plan.workspace_size_for(args)
        assert needed in (0, 1000)
        takes += needed
        launches = len(plan.library.calls)
        for got in (1, 8, 999) if needed else ():
            for call in (plan.run, plan.bind):
                with pytest.raises(bk.WorkspaceTooSmallError, match=f"workspace has {got} bytes, needs 1000") as caught:
                    call(None, (1 << 30, got), args)
                assert (caught.value.needed, caught.value.got, caught.value.status) == (1000, got, 4)
        assert all(kind != "run" for _, kind, _ in plan.library.calls[launches:])
        plan.run(None, (1 << 30, needed or 8), args)
        row = ops()[plan.library.calls[-1][0]].row
        assert row.is_bare or plan.library.calls[-1][2][-2] == needed
    assert bool(takes) == bool(row.workspace and (row.deterministic == "yes" or deterministic))


def test_a_short_workspace_on_the_library(library):
    """8 bytes are refused by Python and ignored by C, for a sum that first groups 4096 rows by segment."""
    plan = bk.UnsortedSegmentSumPlan.select(None, bk.UnsortedSegmentSumDescriptor(4096, 8, 5, element=bk.bf16))
    x, ids = bk.zeros((4096, 8), bk.bf16), bk.zeros((4096,), bk.i32)
    args = bk.UnsortedSegmentSumArgs(x, ids, bk.empty((5, 8), bk.bf16))
    with pytest.raises(bk.WorkspaceTooSmallError) as caught:
        plan.run(None, bk.empty((8,), bk.u8), args)
    assert (caught.value.needed, caught.value.got) == (plan.workspace_size_for(args), 8)
    op, call = plan._operand_call(args)
    scratch, null = bk.empty((8,), bk.u8), library.ffi.NULL
    assert library.function(op.name)(*call, scratch.pointer, 8, null) == 0
    plan.run(None, bk.workspace(plan, args), args)
    descriptor = bk.BinaryBackwardDescriptor(bk.BinaryKind.ADD, (4096, 8), element=bk.f32)
    whole, sums = bk.BinaryBackwardPlan.select(None, descriptor), bk.zeros((4096, 8))
    assert whole.workspace_size_for(bk.BinaryBackwardArgs(sums, da=bk.zeros((4096, 8)))) == 0
    whole.run(None, bk.empty((8,), bk.u8), bk.BinaryBackwardArgs(sums, da=bk.zeros((4096, 8))))  # none is taken
    whole.run(None, bk.empty((0,), bk.u8), bk.BinaryBackwardArgs(sums, db=bk.zeros((1, 8))))  # empty is none


# --- gradients that are sums ------------------------------------------------------------------------------------------

SUMMED = {
    "BinaryBackward": ((bk.BinaryKind.MUL,), ()), "BinaryParamBackward": ((LERP,), (0.5,)),
    "TernaryBackward": ((bk.TernaryKind.FMA,), ()), "WhereBackward": ((), ()),
}  # fmt: skip


def summing_plan(name, library=None, shape=(4096, 8), **shapes):
    before, after = SUMMED[name]
    descriptor = getattr(bk, f"{name}Descriptor")(*before, shape, *after, element=bk.f32, **shapes)
    return getattr(bk, f"{name}Plan").select(None, descriptor, library=library)


@pytest.mark.parametrize("name", SUMMED)
def test_descriptors_tell_which_gradients_are_sums(library, name):
    """workspace_size is exactly what a launch on such operands takes."""
    operands = [field.removesuffix("_shape") for field in summing_plan(name).descriptor.__dict__ if "_shape" in field]
    assert operands in (["a", "b"], ["a", "b", "c"])
    assert summing_plan(name).workspace_size == 0
    for summed in operands:
        for extents in ((1, 8), (4096, 1), (1, 1)):
            plan = summing_plan(name, **{f"{summed}_shape": extents})
            views = {
                operand.name: bk.zeros(operand.exact or operand.extents, operand.dtypes[0]) for operand in plan.operands
            }
            args = plan.args_type(**views)
            assert plan.workspace_size == plan.workspace_size_for(args)
            assert bk.workspace(plan) is None or bk.workspace(plan).nbytes == plan.workspace_size
            plan.run(None, bk.workspace(plan), args)
    assert (summing_plan(name, a_shape=(1, 8)).workspace_size > 0) == (library.backend == "cuda")
    assert summing_plan(name, a_shape=(4096, 8)).workspace_size == 0


@pytest.mark.parametrize("name", SUMMED)
def test_operands_have_the_shapes_that_the_descriptor_says(name):
    plan = summing_plan(name, FakeLibrary(), shape=(3, 4), a_shape=(1, 4))
    views = {o.name: raw(o.exact or o.extents, o.dtypes[0], (k + 1) << 20) for k, o in enumerate(plan.operands)}
    plan.run(None, (1 << 30, 1000), plan.args_type(**views))
    assert plan.library.launched()[1]["stride_da"] == [0, 1]
    for operand in ("a", "da") if "a" in views else ("da",):
        for shape in ((3, 4), (1, 1), (4,)):
            wrong = raw(shape, address=9 << 20)
            with pytest.raises(bk.InvalidProblemError, match=rf"{operand} has shape .*, expected a_shape = \(1, 4\)"):
                plan.run(None, None, plan.args_type(**views | {operand: wrong}))


@pytest.mark.parametrize(
    ("shape", "text"),
    [
        ((2, 4), r"a_shape is \(2, 4\), must broadcast to shape \(3, 4\)"),
        ((4,), r"a_shape is \(4,\), must broadcast to shape"),
        ((3, -1), r"a_shape\[1\] is -1"), ("34", "a_shape is '34'"), (3, "a_shape is 3"),
    ],
)  # fmt: skip
def test_shapes_that_do_not_broadcast(shape, text):
    with pytest.raises(bk.InvalidProblemError, match=f"binary_mul_backward: {text}"):
        summing_plan("BinaryBackward", FakeLibrary(), shape=(3, 4), a_shape=shape)
