# %% Function
import numpy as np

import baracuda as bk

x = np.arange(10, dtype=np.float32).reshape(5, 2)
print(bk.segment_sum(x, np.array([0, 0, 2, 2, 2]), 3))

# %% Plan
x = bk.upload(np.arange(10, dtype=np.float32).reshape(5, 2))
ids = bk.upload(np.array([0, 0, 2, 2, 2], dtype=np.int32))  # they must not decrease
output = bk.empty((3, 2), bk.f32)
plan = bk.SegmentSumPlan.select(None, bk.SegmentSumDescriptor(5, 2, 3, element=bk.f32))
plan.run(None, bk.workspace(plan), bk.SegmentSumArgs(input=x, segment_ids=ids, output=output))
print(bk.download(output))

# %% Plan of the gradient: segment_sum_backward_f32
d_input = bk.empty((5, 2), bk.f32)
back = bk.SegmentSumBackwardPlan.select(None, bk.SegmentSumBackwardDescriptor(5, 2, 3, element=bk.f32))
back.run(None, None, bk.SegmentSumBackwardArgs(d_output=output, segment_ids=ids, d_input=d_input))
print(bk.download(d_input))
