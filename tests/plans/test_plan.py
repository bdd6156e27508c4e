# SPDX-License-Identifier: Apache-2.0
"""Plans: results against NumPy in float64, descriptors, and launches."""

import dataclasses
import gc
import itertools
import threading
import weakref

import numpy as np
import pytest

import baracuda as bk
from fakes import LERP, SUM, FakeLibrary, addresses, backward_args, backward_plan, bag_args, bag_descriptor, lerp_plan
from naming import describe

# --- results ----------------------------------------------------------------------------------------------------------


def run(plan, args, *outputs):
    plan.run(None, bk.workspace(plan), args)
    bk.synchronize()
    return [bk.download(output).astype(np.float64) for output in outputs]


@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("mode", bk.EmbeddingBagMode)
@pytest.mark.parametrize("deterministic", [False, True])
def test_embedding_bag(rng, index, mode, deterministic):
    weight, dout = rng.integers(-8, 9, (10, 4)), rng.integers(-8, 9, (3, 4))
    indices, offsets, ends = np.array([1, 9, 2, 2, 5, 1, 0], index), np.array([0, 2, 6], np.int32), (2, 6, 7)
    shape = {
        "num_embeddings": 10, "embedding_dim": 4, "num_bags": 3, "total_indices": 7, "mode": mode, "padding_idx": 5,
        "element": bk.f64,
    }  # fmt: skip
    output, dweight = bk.empty((3, 4), bk.f64), bk.zeros((10, 4), bk.f64)
    expected, expected_backward = np.zeros((3, 4)), np.zeros((10, 4))
    for bag, (start, end) in enumerate(zip(offsets, ends)):
        kept = [k for k in indices[start:end] if k != 5]
        scale = len(kept) if mode else 1
        expected[bag] = weight[kept].sum(0) / scale
        np.add.at(expected_backward, kept, dout[bag] / scale)
    arrays = {"indices": bk.upload(indices), "offsets": bk.upload(offsets)}
    preference = bk.PlanPreference(deterministic=deterministic)
    plan = bk.EmbeddingBagPlan.select(None, bk.EmbeddingBagDescriptor(**shape), preference)
    args = bk.EmbeddingBagArgs(weight=bk.upload(weight, bk.f64), output=output, **arrays)
    plan.can_implement(args)
    np.testing.assert_allclose(run(plan, args, output)[0], expected, rtol=1e-14)
    plan = bk.EmbeddingBagBackwardPlan.select(None, bk.EmbeddingBagBackwardDescriptor(**shape), preference)
    args = bk.EmbeddingBagBackwardArgs(dout=bk.upload(dout, bk.f64), dweight=dweight, **arrays)
    plan.can_implement(args)
    np.testing.assert_allclose(run(plan, args, dweight)[0], expected_backward, rtol=1e-14)


@pytest.mark.parametrize("kind", ["SegmentSum", "UnsortedSegmentSum"])
@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_segment_sum(rng, kind, index):
    x, ids = rng.integers(-8, 9, (6, 5)), np.array([0, 0, 2, 2, 2, 7], index)
    if kind == "UnsortedSegmentSum":
        ids = ids[::-1].copy()
    output, d_input, d_output = bk.empty((4, 5)), bk.empty((6, 5)), rng.integers(-8, 9, (4, 5))
    expected = np.zeros((4, 5))
    np.add.at(expected, ids[ids < 4], x[ids < 4])
    plan = getattr(bk, f"{kind}Plan").select(None, getattr(bk, f"{kind}Descriptor")(6, 5, 4, element=bk.f32))
    args = getattr(bk, f"{kind}Args")(input=bk.upload(x, bk.f32), segment_ids=bk.upload(ids), output=output)
    assert (run(plan, args, output)[0] == expected).all()
    descriptor = getattr(bk, f"{kind}BackwardDescriptor")(6, 5, 4, element=bk.f32)
    plan = getattr(bk, f"{kind}BackwardPlan").select(None, descriptor)
    args = getattr(bk, f"{kind}BackwardArgs")(
        d_output=bk.upload(d_output, bk.f32), segment_ids=bk.upload(ids), d_input=d_input
    )
    assert (run(plan, args, d_input)[0] == np.where((ids < 4)[:, None], d_output[ids % 4], 0)).all()


def test_alibi(rng):
    scores, slopes = rng.integers(-8, 9, (2, 3, 4, 5)), np.array([1, 0.5, 0.25])
    distance = np.arange(5)[None, :] - np.arange(4)[:, None]
    out = bk.empty(scores.shape)
    plan = bk.AlibiPlan.select(None, bk.AlibiDescriptor(2, 3, 4, 5, element=bk.f32))
    args = bk.AlibiArgs(bk.upload(scores, bk.f32), bk.upload(slopes, bk.f32), out)
    assert (run(plan, args, out)[0] == scores + slopes[:, None, None] * distance).all()
    dscores, dslopes = bk.empty(scores.shape), bk.empty((3,))
    plan = bk.AlibiBackwardPlan.select(None, bk.AlibiBackwardDescriptor(2, 3, 4, 5, element=bk.f32))
    dy = bk.upload(scores, bk.f32)
    got = run(plan, bk.AlibiBackwardArgs(dy, dscores, dslopes), dscores, dslopes)
    assert (got[0] == scores).all()
    assert (got[1] == (scores * distance).sum((0, 2, 3))).all()
    bk.clear(dslopes)
    assert (run(plan, bk.AlibiBackwardArgs(dy, None, dslopes), dslopes)[0] == got[1]).all()
    with pytest.raises(bk.InvalidProblemError, match="alibi_backward: dscores and dslopes are both None"):
        plan.run(None, None, bk.AlibiBackwardArgs(dy))


def test_repeat(rng):
    x = rng.integers(-8, 9, (2, 3, 4))
    y, dx = bk.empty((4, 3, 12)), bk.empty((2, 3, 4))
    plan = bk.RepeatPlan.select(None, bk.RepeatDescriptor((2, 3, 4), (2, 1, 3), element=bk.f32))
    base = bk.upload(x, bk.f32)
    flipped = bk.TensorRef(base.ptr + 12 * 4, (2, 3, 4), bk.f32, (-12, 4, 1), 24, offset=12, owner=base)
    assert (run(plan, bk.RepeatArgs(flipped, y), y)[0] == np.tile(x[::-1], (2, 1, 3))).all()
    plan = bk.RepeatBackwardPlan.select(None, bk.RepeatBackwardDescriptor((2, 3, 4), (2, 1, 3), element=bk.f32))
    assert (run(plan, bk.RepeatBackwardArgs(y, dx), dx)[0] == 6 * x[::-1]).all()
    scalar = bk.RepeatPlan.select(None, bk.RepeatDescriptor((), (), element=bk.f32))
    out = bk.empty(())
    assert run(scalar, bk.RepeatArgs(bk.upload(3.0, bk.f32), out), out)[0] == 3


def test_lerp_plain_strided_and_broadcast(rng):
    a, b = rng.integers(-8, 9, (3, 4)), rng.integers(-8, 9, (3, 4))
    plan, y = lerp_plan((3, 4)), bk.empty((3, 4))
    da, db = bk.upload(a, bk.f32), bk.upload(b, bk.f32)
    assert (run(plan, bk.BinaryParamArgs(da, db, y), y)[0] == a + 0.25 * (b - a)).all()
    row = bk.TensorRef(db.ptr, (1, 4), bk.f32, owner=db)
    assert (run(plan, bk.BinaryParamArgs(da, row, y), y)[0] == a + 0.25 * (b[:1] - a)).all()
    columns = bk.TensorRef(y.ptr, (4, 3), bk.f32, (1, 4), owner=y)
    backward = bk.BinaryParamBackwardDescriptor(LERP, (4, 3), (0.25, 0), element=bk.f32)
    plan, first, second = bk.BinaryParamBackwardPlan.select(None, backward), bk.empty((4, 3)), bk.empty((4, 3))
    bk.upload(a, out=y)
    got = run(plan, bk.BinaryParamBackwardArgs(columns, first, second), first, second)
    assert (got[0] == 0.75 * a.T).all()
    assert (got[1] == 0.25 * a.T).all()


EMPTY_PROBLEMS = {
    "bag without indices": (
        bk.EmbeddingBagPlan, bk.EmbeddingBagDescriptor(10, 4, 3, 0, SUM, element=bk.f32),
        {"weight": (10, 4), "indices": (0,), "offsets": (3,), "output": (3, 4)},
    ),
    "bag backward without indices": (
        bk.EmbeddingBagBackwardPlan, bk.EmbeddingBagBackwardDescriptor(10, 4, 3, 0, SUM, element=bk.f32),
        {"dout": (3, 4), "indices": (0,), "offsets": (3,), "dweight": (10, 4)},
    ),
    "segment sum of nothing": (
        bk.SegmentSumPlan, bk.SegmentSumDescriptor(0, 4, 3, element=bk.f32),
        {"input": (0, 4), "segment_ids": (0,), "output": (3, 4)},
    ),
    "segment sum backward without segments": (
        bk.SegmentSumBackwardPlan, bk.SegmentSumBackwardDescriptor(5, 4, 0, element=bk.f32),
        {"d_output": (0, 4), "segment_ids": (5,), "d_input": (5, 4)},
    ),
    "alibi without keys": (
        bk.AlibiPlan, bk.AlibiDescriptor(2, 3, 4, 0, element=bk.f32),
        {"scores": (2, 3, 4, 0), "slopes": (3,), "out": (2, 3, 4, 0)},
    ),
    "empty repeat": (
        bk.RepeatPlan, bk.RepeatDescriptor((2, 0), (1, 2), element=bk.f32), {"x": (2, 0), "y": (2, 0)},
    ),
    "empty lerp": (
        bk.BinaryParamPlan, bk.BinaryParamDescriptor(LERP, (0,), 0.5, element=bk.f32),
        {"a": (0,), "b": (0,), "y": (0,)},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", EMPTY_PROBLEMS)
def test_empty_problems_are_well_formed(name):
    """Operands without elements may lie at address 0; outputs with elements become 0."""
    plan_type, descriptor, shapes = EMPTY_PROBLEMS[name]
    plan = plan_type.select(None, descriptor)
    views = {}
    for operand, shape in shapes.items():
        dtype = bk.i32 if operand in ("indices", "offsets", "segment_ids") else bk.f32
        views[operand] = bk.zeros(shape, dtype) if np.prod(shape) else bk.TensorRef(0, shape, dtype)
    output = views[operand]
    if output.numel and operand != "dweight":
        bk.upload(np.ones(output.shape), out=output)
    args = plan_type.args_type(**views)
    plan.can_implement(args)
    plan.run(None, None, args)
    bk.synchronize()
    if output.numel:
        assert not bk.download(output).any()


# --- descriptors ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("field", ["num_embeddings", "embedding_dim", "num_bags", "total_indices"])
@pytest.mark.parametrize("value", [-1, 2**31, 2**70, "4", 4.0, True, None, np.float32(4), [4]], ids=describe)
def test_bad_extents(field, value):
    with pytest.raises(bk.InvalidProblemError, match=f"embedding_bag: {field} is ") as caught:
        bk.EmbeddingBagPlan.select(None, bag_descriptor(**{field: value}))
    assert caught.value.symbol == "embedding_bag"
    assert caught.value.status == bk.Status.INVALID_PROBLEM


@pytest.mark.parametrize(
    ("field", "value", "error"),
    [
        ("mode", 2, bk.InvalidProblemError),
        ("mode", "sum", bk.InvalidProblemError),
        ("mode", None, bk.InvalidProblemError),
        ("padding_idx", 1.0, bk.InvalidProblemError),
        ("padding_idx", True, bk.InvalidProblemError),
        ("padding_idx", 2**63, bk.InvalidProblemError),
        ("element", None, bk.InvalidProblemError),
        ("element", 2, bk.InvalidProblemError),
        ("element", "float3", bk.UnsupportedError),
        ("element", bk.i32, bk.UnsupportedError),
        ("element", bk.s4, bk.UnsupportedError),
        ("element", bk.f32_strict, bk.UnsupportedError),
    ],
    ids=describe,
)
def test_bad_fields(field, value, error):
    with pytest.raises(error, match=f"(^|embedding_bag: ){field} is "):
        bk.EmbeddingBagPlan.select(None, bag_descriptor(**{field: value}))


def test_descriptor_is_taken_in_its_exact_types():
    plan = bk.EmbeddingBagPlan.select(None, bag_descriptor(num_bags=np.int8(3), mode=1, element=np.float32))
    assert plan.descriptor == bag_descriptor(mode=bk.EmbeddingBagMode.MEAN)
    assert type(plan.descriptor.num_bags) is int
    with pytest.raises(dataclasses.FrozenInstanceError):
        plan.descriptor.num_bags = 5


def test_product_overflow():
    huge = 2**31 - 1
    with pytest.raises(bk.InvalidProblemError, match=r"alibi: scores has .* below 2\^63"):
        bk.AlibiPlan.select(None, bk.AlibiDescriptor(huge, huge, huge, huge, element=bk.f32))
    with pytest.raises(bk.InvalidProblemError, match=r"below 2\^63"):
        bk.RepeatPlan.select(None, bk.RepeatDescriptor((huge,) * 8, (1,) * 8, element=bk.f16))


@pytest.mark.parametrize(
    ("shape", "repeats", "error"),
    [
        ((2, 3), (1,), bk.InvalidProblemError),
        ((2, -3), (1, 1), bk.InvalidProblemError),
        ((2, 3), (1, 0), bk.InvalidProblemError),
        ((2**30,), (2,), bk.InvalidProblemError),
        ("23", (1, 1), bk.InvalidProblemError),
        (5, 1, bk.InvalidProblemError),
        ((2.0,), (1,), bk.InvalidProblemError),
        (np.array(5), (1,), bk.InvalidProblemError),
        ((2, 3), itertools.count(1), bk.InvalidProblemError),
        (None, len, bk.InvalidProblemError),
        ((1,) * 9, (1,) * 9, bk.UnsupportedError),
    ],
)
def test_bad_repeats(shape, repeats, error):
    with pytest.raises(error, match=r"repeat: (input_shape|repeats|output_shape)"):
        bk.RepeatPlan.select(None, bk.RepeatDescriptor(shape, repeats, element=bk.f32))


@pytest.mark.parametrize("params", ["0.5", None, (), (1, 2), True, ("a",), 1j, 10**400, b"1"], ids=describe)
def test_bad_params(params):
    with pytest.raises(bk.InvalidProblemError, match="binary_lerp_param: params"):
        lerp_plan((3,), weight=params)


@pytest.mark.parametrize("params", [0.5, 1, (0.5,), [0.5, 0], np.float32(0.5), np.array([0.5]), 1e300])
def test_good_params(params):
    assert len(lerp_plan((3,), weight=params).parameters) == 1


def test_unsupported_kind():
    for kind in (bk.BinaryKind.ADD, bk.BinaryKind.EQ):
        with pytest.raises(
            bk.UnsupportedError, match=rf"binary_{kind.name.lower()}_param: kind is {kind.name}: no such op"
        ):
            bk.BinaryParamPlan.select(None, bk.BinaryParamDescriptor(kind, (3,), 0.5, element=bk.f32))


@pytest.mark.parametrize("descriptor", [None, "x", bk.AlibiDescriptor(1, 1, 1, 1, element=bk.f32)], ids=describe)
def test_wrong_descriptor(descriptor):
    with pytest.raises(bk.InvalidProblemError, match="EmbeddingBagPlan: descriptor is of type"):
        bk.EmbeddingBagPlan.select(None, descriptor)


@pytest.mark.parametrize(
    "preference",
    [
        "fast", 5, bk.PlanPreference(max_workspace_bytes=-1), bk.PlanPreference(max_workspace_bytes="1"),
        bk.PlanPreference(deterministic=1), bk.PlanPreference(prefer_backend="cublas"),
    ],
    ids=describe,
)  # fmt: skip
def test_wrong_preference(preference):
    with pytest.raises(bk.InvalidProblemError, match="preference"):
        bk.EmbeddingBagPlan.select(None, bag_descriptor(), preference)


def test_library_and_backend():
    fake = FakeLibrary("cuda")
    assert bk.EmbeddingBagPlan.select(None, bag_descriptor(), library=fake, backend="cuda").library is fake
    with pytest.raises(bk.InvalidProblemError, match="backend is 'cpu', but the library is a cuda library"):
        bk.EmbeddingBagPlan.select(None, bag_descriptor(), library=fake, backend="cpu")
    with pytest.raises(bk.InvalidProblemError, match="library is 'x'"):
        bk.EmbeddingBagPlan.select(None, bag_descriptor(), library="x")
    backend = bk.default_library().backend
    assert bk.EmbeddingBagPlan.select(None, bag_descriptor(), backend=backend).library is bk.default_library()


# --- launches ---------------------------------------------------------------------------------------------------------


def test_repeated_runs_are_checked_once(monkeypatch):
    checked = []
    original = bk.Plan._operand_call
    monkeypatch.setattr(bk.Plan, "_operand_call", lambda self, args: checked.append(args) or original(self, args))
    plan, args = bk.EmbeddingBagPlan.select(None, bag_descriptor(), library=FakeLibrary()), bag_args()
    for _ in range(3):
        plan.run(None, None, args)
    assert len(checked) == 1
    plan.run(2**40, None, args)
    plan.run(int(str(2**40)), None, args)
    plan.run(None, None, bag_args())  # equal to the first args
    assert len(checked) == 1
    plan.run(None, (9 << 20, 8), args)
    assert len(checked) == 2
    bk.EmbeddingBagPlan.select(None, bag_descriptor(), library=FakeLibrary()).run(None, (9 << 20, 8), args)
    assert len(checked) == 3
    assert len(plan.library.calls) == 7


def test_mutable_workspaces_are_checked_every_time(monkeypatch):
    plan, args = backward_plan(FakeLibrary("cpu"), deterministic=True), backward_args()
    buffer = np.zeros(1000, np.uint8)
    plan.run(None, buffer, args)
    assert not hasattr(args, "_bound")
    assert plan.library.calls[-1][2][11] == 1000


def test_stream_reaches_c():
    plan, args = bk.EmbeddingBagPlan.select(None, bag_descriptor(), library=FakeLibrary()), bag_args()
    for stream, handle in [(None, 0), (5, 5), (6, 6), (None, 0)]:
        plan.run(stream, None, args)
        assert addresses(plan.library, plan.library.calls[-1][2][12:]) == [handle]
    with pytest.raises(bk.InvalidProblemError, match="embedding_bag: stream is 'x'"):
        plan.run("x", None, args)


def test_status_of_a_launch_is_raised():
    plan, args = bk.EmbeddingBagPlan.select(None, bag_descriptor(), library=FakeLibrary()), bag_args()
    launch = plan.bind(None, None, args)
    plan.run(None, None, args)
    plan.library.status = 5
    for call in (launch, lambda: plan.run(None, None, args), lambda: plan.can_implement(args)):
        with pytest.raises(bk.InternalError, match="the text") as caught:
            call()
        assert caught.value.symbol.startswith("baracuda_kernels_embedding_bag_f32_")
    plan.library.status = 9
    with pytest.raises(bk.UnknownStatusError):
        launch()


def test_bound_launch_keeps_its_operands(rng):
    a, b, y = (bk.upload(rng.standard_normal(16), bk.f32) for _ in range(3))
    expected = bk.download(a) + np.float32(0.5) * (bk.download(b) - bk.download(a))
    watcher = weakref.ref(a)
    launch = lerp_plan((16,), weight=0.5).bind(None, None, bk.BinaryParamArgs(a, b, y))
    del a
    gc.collect()
    launch()
    bk.synchronize()
    np.testing.assert_allclose(bk.download(y), expected, rtol=1e-6, atol=1e-6)
    assert watcher() is not None
    del launch
    gc.collect()
    assert watcher() is None


def test_a_run_makes_no_reference_cycle(rng):
    """Memory is released with the last reference, not by the garbage collector."""
    plan, a, b, y = lerp_plan((16,)), *(bk.zeros((16,)) for _ in range(3))
    args = bk.BinaryParamArgs(a, b, y)
    plan.run(None, None, args)
    watcher = weakref.ref(a)
    gc.disable()
    try:
        del a, args
        assert watcher() is None
    finally:
        gc.enable()


def test_plans_are_shared_between_threads(rng):
    plan, failures = lerp_plan((1000,), weight=0.5), []

    def work(seed):
        local = np.random.default_rng(seed)
        for _ in range(20):
            a, b = local.integers(-8, 9, (2, 1000))
            y = bk.empty((1000,))
            args = bk.BinaryParamArgs(bk.upload(a, bk.f32), bk.upload(b, bk.f32), y)
            for _ in range(3):
                plan.run(None, None, args)
            if not (bk.download(y) == (a + b) / 2).all():
                failures.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


@pytest.mark.parametrize("name", ["descriptor", "preference", "library", "operands", "parameters", "workspace_size"])
def test_plans_are_read_only(name):
    plan = bk.FillPlan.select(None, bk.FillDescriptor((3,), 1.0, element=bk.f32))
    before = getattr(plan, name)
    with pytest.raises(AttributeError, match=f"FillPlan.{name} is read-only: select another plan"):
        setattr(plan, name, None)
    assert getattr(plan, name) is before
