# SPDX-License-Identifier: Apache-2.0
"""Plans that check indices: the result of `check` after a run."""

import numpy as np
import pytest

import baracuda as bk

CHECKS = bk.PlanPreference(check_indices=True)


def segment_sum(ids, *, segments=4, preference=CHECKS, index=np.int32):
    """A plan that has run, and its result."""
    ids = np.array(ids, index)
    of = bk.SegmentSumDescriptor(len(ids), 3, segments, element=bk.f32)
    plan = bk.SegmentSumPlan.select(None, of, preference)
    output = bk.empty((segments, 3))
    args = bk.SegmentSumArgs(bk.upload(np.ones((len(ids), 3), np.float32)), bk.upload(ids), output)
    plan.run(None, bk.workspace(plan, args), args)
    bk.synchronize()
    return plan, bk.download(output)


@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_good_indices_pass(index):
    plan, output = segment_sum([0, 0, 1, 3], index=index)
    plan.check()
    np.testing.assert_array_equal(output[:, 0], [2, 1, 0, 1])
    plain, same = segment_sum([0, 0, 1, 3], index=index, preference=None)
    np.testing.assert_array_equal(output, same)
    assert 32 <= plan.workspace_size - plain.workspace_size < 64


def test_the_first_that_is_out_of_range():
    plan, output = segment_sum([0, 1, 1, 7, 9])
    with pytest.raises(
        bk.IndexOutOfRangeError, match=r"segment_sum: segment_ids\[3\] is 7, must be in \[0, 4\)"
    ) as caught:
        plan.check()
    error = caught.value
    assert isinstance(error, (bk.BaracudaError, IndexError))
    assert isinstance(error, IndexError)
    assert (error.operand, error.position, error.value) == ("segment_ids", (3,), 7)
    np.testing.assert_array_equal(output[:, 0], [1, 2, 0, 0])  # the op has run, and has skipped what it always skips


def test_the_first_that_is_out_of_order():
    plan, _ = segment_sum([0, 2, 3, 1, 0])
    with pytest.raises(bk.IndexOutOfRangeError, match=r"segment_ids\[3\] is 1, must not be below the one before it"):
        plan.check()


def test_each_operand_and_its_sentinels():
    """Offsets of a bag are sorted and may equal the end, and the padding index is no fault."""
    mode = bk.EmbeddingBagMode.SUM
    for indices, offsets, fault in (
        ([0, 4, -1, 2], [0, 1, 4], None),
        ([0, 5, -1, 2], [0, 1, 4], ("indices", (1,), 5)),
        ([0, -2, -1, 2], [0, 1, 4], ("indices", (1,), -2)),
        ([0, 1, 1, 2], [0, 3, 2], ("offsets", (2,), 2)),
        ([0, 1, 1, 2], [0, 3, 5], ("offsets", (2,), 5)),
    ):
        of = bk.EmbeddingBagDescriptor(5, 3, 3, 4, mode, -1, element=bk.f32)
        plan = bk.EmbeddingBagPlan.select(None, of, CHECKS)
        arrays = [bk.upload(np.array(values, np.int32)) for values in (indices, offsets)]
        args = bk.EmbeddingBagArgs(bk.upload(np.ones((5, 3), np.float32)), *arrays, bk.empty((3, 3)))
        plan.run(None, bk.workspace(plan, args), args)
        bk.synchronize()
        if fault is None:
            plan.check()
            continue
        with pytest.raises(bk.IndexOutOfRangeError) as caught:
            plan.check()
        assert (caught.value.operand, caught.value.position, caught.value.value) == fault


def test_what_was_launched_last_counts():
    of = bk.SegmentSumDescriptor(3, 2, 4, element=bk.f32)
    plan = bk.SegmentSumPlan.select(None, of, CHECKS)
    plan.check()  # nothing has run
    good, bad = (
        bk.SegmentSumArgs(bk.zeros((3, 2)), bk.upload(np.array(ids, np.int32)), bk.empty((4, 2)))
        for ids in ([0, 1, 2], [0, 1, 4])
    )
    spaces = [bk.workspace(plan), bk.workspace(plan)]
    launch = plan.bind(None, spaces[1], bad)
    for _ in range(2):
        plan.run(None, spaces[0], good)
        bk.synchronize()
        plan.check()
        launch()
        bk.synchronize()
        with pytest.raises(IndexError, match=r"segment_ids\[2\] is 4"):
            plan.check()


def test_any_address_of_the_workspace():
    of = bk.SegmentSumDescriptor(3, 2, 4, element=bk.f32)
    plan = bk.SegmentSumPlan.select(None, of, CHECKS)
    space = bk.empty(plan.workspace_size + 9, bk.u8)
    args = bk.SegmentSumArgs(bk.zeros((3, 2)), bk.upload(np.array([0, 9, 9], np.int32)), bk.empty((4, 2)))
    for shift in range(9):
        plan.run(None, (space.ptr + shift, plan.workspace_size), args)
        bk.synchronize()
        with pytest.raises(IndexError, match=r"segment_ids\[1\] is 9"):
            plan.check()


def test_uncheckable_ops():
    of = bk.SegmentSumDescriptor(3, 2, 4, element=bk.f32)
    args = bk.SegmentSumArgs(bk.zeros((3, 2)), bk.zeros(3, bk.i32), bk.empty((4, 2)))
    with pytest.raises(bk.InvalidProblemError, match=r"segment_sum: preference\.check_indices is False"):
        bk.SegmentSumPlan.select(None, of).check()
    plan = bk.SegmentSumPlan.select(None, of, CHECKS)
    with pytest.raises(bk.WorkspaceTooSmallError, match="workspace has 0 bytes, needs 39 for the report"):
        plan.run(None, None, args)
    with pytest.raises(bk.UnsupportedError, match="checked indices need"):
        bk.SegmentSumPlan.select(None, of, bk.PlanPreference(max_workspace_bytes=16, check_indices=True))
    with pytest.raises(bk.InvalidProblemError, match=r"preference\.check_indices is 1, must be a bool"):
        bk.SegmentSumPlan.select(None, of, bk.PlanPreference(check_indices=1))


def test_an_op_without_indices_needs_nothing():
    plan = bk.AlibiPlan.select(None, bk.AlibiDescriptor(1, 1, 2, 2, element=bk.f32), CHECKS)
    assert plan.workspace_size == 0
    plan.run(None, None, bk.AlibiArgs(bk.zeros((1, 1, 2, 2)), bk.zeros(1), bk.empty((1, 1, 2, 2))))
    plan.check()


@pytest.mark.parametrize(("element", "dtype"), [(bk.f32, np.float32), (bk.c64, np.complex128)])
def test_a_window_that_starts_on_the_device(element, dtype):
    """Rows outside of the destination are dropped and the start is reported: 2 rows in 4 may start at 0 to 2."""
    of = bk.WriteSliceFromDescriptor((4, 6), (2, 2), ((0, 2), (2, 4)), 0, element=element)
    plan = bk.WriteSliceFromPlan.select(None, of, CHECKS)
    for start, written in ((0, 4), (2, 4), (3, 2), (-1, 2)):
        dest = bk.upload(np.zeros((4, 6), dtype))
        args = bk.WriteSliceFromArgs(dest, bk.upload(np.ones((2, 2), dtype)), bk.upload(np.array([start])))
        plan.run(None, bk.workspace(plan, args), args)
        bk.synchronize()
        assert np.count_nonzero(bk.download(dest)) == written
        if start in (0, 2):
            plan.check()
            continue
        with pytest.raises(bk.IndexOutOfRangeError, match=rf"start\[0\] is {start}, must be in \[0, 3\)"):
            plan.check()
