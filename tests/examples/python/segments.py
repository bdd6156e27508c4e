"""Sums rows by segment, ids in any order, with the workspace that the op asks for; then a call that fails."""

import numpy as np

import baracuda as bk

x = bk.upload(np.arange(1, 13, dtype=np.float32).reshape(6, 2))
ids = bk.upload(np.array([2, 0, 3, 2, 0, 2], np.int32))
y = bk.empty((4, 2), bk.f32)
problem = bk.UnsortedSegmentSumDescriptor(num_inputs=6, embedding_dim=2, num_segments=4, element=bk.f32)
plan = bk.UnsortedSegmentSumPlan.select(None, problem)
args = bk.UnsortedSegmentSumArgs(input=x, segment_ids=ids, output=y)
plan.run(None, bk.workspace(plan, args), args)  # on the per-thread default stream
for row in bk.download(y):
    print(f"{row[0]:g} {row[1]:g}")

try:
    bk.UnsortedSegmentSumPlan.select(None, bk.UnsortedSegmentSumDescriptor(-6, 2, 4, element=bk.f32))
except bk.InvalidProblemError as error:
    print(f"invalid problem: {error}")
