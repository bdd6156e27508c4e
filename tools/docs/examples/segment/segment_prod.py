# %% Function
import numpy as np

import baracuda as bk

x = np.arange(10, dtype=np.float32).reshape(5, 2)
print(bk.segment_prod(x, np.array([0, 0, 2, 2, 2]), 3))

# %% Plan
x = bk.upload(np.arange(10, dtype=np.float32).reshape(5, 2))
ids = bk.upload(np.array([0, 0, 2, 2, 2], dtype=np.int32))  # they must not decrease
output = bk.empty((3, 2), bk.f32)
plan = bk.SegmentProdPlan.select(None, bk.SegmentProdDescriptor(5, 2, 3, element=bk.f32))
plan.run(None, bk.workspace(plan), bk.SegmentProdArgs(input=x, segment_ids=ids, output=output))
print(bk.download(output))

# %% Plan of the gradient: segment_prod_backward_f32
d_input = bk.empty((5, 2), bk.f32)
back = bk.SegmentProdBackwardPlan.select(None, bk.SegmentProdBackwardDescriptor(5, 2, 3, element=bk.f32))
args = bk.SegmentProdBackwardArgs(d_output=output, input=x, output=output, segment_ids=ids, d_input=d_input)
back.run(None, None, args)
print(bk.download(d_input))
