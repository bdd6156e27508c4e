# %% Function
import numpy as np

import baracuda as bk

print(*bk.unique(np.array([2, 2, 1, 2], np.float32), return_counts=True))

# %% Plan
x, values, scratch = bk.upload(np.array([[2, 2, 1, 2]], np.float32)), bk.zeros((1, 4), bk.f32), bk.empty((1, 4), bk.f32)
indices, counts, counter = bk.empty((1, 4), bk.i32), bk.empty((1, 4), bk.i32), bk.empty((1,), bk.i32)
plan = bk.UniquePlan.select(None, bk.UniqueDescriptor(1, 4, 4, element=bk.f32))
args = bk.UniqueArgs(
    input=x, sorted_scratch=scratch, sorted_idx_scratch=indices, values=values, counts=counts, counter=counter
)
plan.run(None, bk.workspace(plan), args)
print(bk.download(values), bk.download(counts), bk.download(counter))
