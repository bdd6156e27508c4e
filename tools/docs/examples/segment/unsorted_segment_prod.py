# %% Function
import numpy as np

import baracuda as bk

x = np.arange(10, dtype=np.float32).reshape(5, 2)
print(bk.unsorted_segment_prod(x, np.array([2, 0, 2, -1, 0]), 3))

# %% Plan
x = bk.upload(np.arange(10, dtype=np.float32).reshape(5, 2))
ids = bk.upload(np.array([2, 0, 2, -1, 0], dtype=np.int32))  # in any order; -1 is no segment
output = bk.empty((3, 2), bk.f32)
plan = bk.UnsortedSegmentProdPlan.select(None, bk.UnsortedSegmentProdDescriptor(5, 2, 3, element=bk.f32))
plan.run(None, bk.workspace(plan), bk.UnsortedSegmentProdArgs(input=x, segment_ids=ids, output=output))
print(bk.download(output))

# %% Plan of the gradient: unsorted_segment_prod_backward_f32
d_input = bk.empty((5, 2), bk.f32)
wanted = bk.UnsortedSegmentProdBackwardDescriptor(5, 2, 3, element=bk.f32)
back = bk.UnsortedSegmentProdBackwardPlan.select(None, wanted)
args = bk.UnsortedSegmentProdBackwardArgs(d_output=output, input=x, output=output, segment_ids=ids, d_input=d_input)
back.run(None, bk.workspace(back), args)
print(bk.download(d_input))
