# %% Function
import numpy as np

import baracuda as bk

x = np.arange(10, dtype=np.float32).reshape(5, 2)
print(bk.unsorted_segment_sum(x, np.array([2, 0, 2, -1, 0]), 3))

# %% Plan
x = bk.upload(np.arange(10, dtype=np.float32).reshape(5, 2))
ids = bk.upload(np.array([2, 0, 2, -1, 0], dtype=np.int32))  # in any order; -1 is no segment
output = bk.empty((3, 2), bk.f32)
plan = bk.UnsortedSegmentSumPlan.select(None, bk.UnsortedSegmentSumDescriptor(5, 2, 3, element=bk.f32))
plan.run(None, bk.workspace(plan), bk.UnsortedSegmentSumArgs(input=x, segment_ids=ids, output=output))
print(bk.download(output))

# %% Plan of the gradient: unsorted_segment_sum_backward_f32
d_input = bk.empty((5, 2), bk.f32)
back = bk.UnsortedSegmentSumBackwardPlan.select(None, bk.UnsortedSegmentSumBackwardDescriptor(5, 2, 3, element=bk.f32))
back.run(None, None, bk.UnsortedSegmentSumBackwardArgs(d_output=output, segment_ids=ids, d_input=d_input))
print(bk.download(d_input))
