# %% Function
import numpy as np

import baracuda as bk

x = np.arange(10, dtype=np.float32).reshape(5, 2)
print(bk.segment_max(x, np.array([0, 0, 1, 2, 2]), 3))

# %% Plan
x = bk.upload(np.arange(10, dtype=np.float32).reshape(5, 2))
ids = bk.upload(np.array([0, 0, 1, 2, 2], dtype=np.int32))  # they must not decrease
output = bk.empty((3, 2), bk.f32)
plan = bk.SegmentMaxPlan.select(None, bk.SegmentMaxDescriptor(5, 2, 3, element=bk.f32))
plan.run(None, bk.workspace(plan), bk.SegmentMaxArgs(input=x, segment_ids=ids, output=output))
print(bk.download(output))

# %% Plan of the gradient: segment_max_backward_f32
d_input = bk.empty((5, 2), bk.f32)
back = bk.SegmentMaxBackwardPlan.select(None, bk.SegmentMaxBackwardDescriptor(5, 2, 3, element=bk.f32))
args = bk.SegmentMaxBackwardArgs(d_output=output, input=x, segment_ids=ids, d_input=d_input)
back.run(None, bk.workspace(back), args)
print(bk.download(d_input))
