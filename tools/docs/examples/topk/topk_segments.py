# %% Function
import numpy as np

import baracuda as bk

x = np.array([3, 1, 4, 1, 5, 9, 2, 6], dtype=np.float32)
print(bk.topk_segments(x, np.array([0, 2, 8]), 2))  # of elements 0 and 1, and of 2 to 7

# %% Plan
x = bk.upload(np.array([3, 1, 4, 1, 5, 9, 2, 6], dtype=np.float32))
offsets = bk.upload(np.array([0, 2, 8], dtype=np.int32))
values, indices = bk.empty((2, 2), bk.f32), bk.empty((2, 2), bk.i32)
plan = bk.TopkSegmentsPlan.select(None, bk.TopkSegmentsDescriptor(8, 2, 2, element=bk.f32))
plan.run(None, bk.workspace(plan), bk.TopkSegmentsArgs(input=x, offsets=offsets, values=values, indices=indices))
print(bk.download(values), bk.download(indices))
