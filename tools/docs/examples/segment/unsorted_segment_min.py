# %% Function
import numpy as np

import baracuda as bk

x = np.arange(10, dtype=np.float32).reshape(5, 2)
print(bk.unsorted_segment_min(x, np.array([2, 0, 1, -1, 0]), 3))

# %% Plan
x = bk.upload(np.arange(10, dtype=np.float32).reshape(5, 2))
ids = bk.upload(np.array([2, 0, 1, -1, 0], dtype=np.int32))  # in any order; -1 is no segment
output = bk.empty((3, 2), bk.f32)
plan = bk.UnsortedSegmentMinPlan.select(None, bk.UnsortedSegmentMinDescriptor(5, 2, 3, element=bk.f32))
plan.run(None, bk.workspace(plan), bk.UnsortedSegmentMinArgs(input=x, segment_ids=ids, output=output))
print(bk.download(output))

# %% Plan of the gradient: unsorted_segment_min_backward_f32
d_input = bk.empty((5, 2), bk.f32)
back = bk.UnsortedSegmentMinBackwardPlan.select(None, bk.UnsortedSegmentMinBackwardDescriptor(5, 2, 3, element=bk.f32))
args = bk.UnsortedSegmentMinBackwardArgs(d_output=output, input=x, segment_ids=ids, d_input=d_input)
back.run(None, bk.workspace(back), args)
print(bk.download(d_input))
