# %% Function
import numpy as np

import baracuda as bk

x = np.array([[3, 1, 2, 1], [5, 8, 5, 0]], dtype=np.float32)
y, indices = bk.sort_with_indices(x)
print(y)
print(indices)

# %% Plan
x = bk.upload(np.array([[3, 1, 2, 1], [5, 8, 5, 0]], dtype=np.float32))
y, indices = bk.empty((2, 4), bk.f32), bk.empty((2, 4), bk.i64)
plan = bk.SortAxisPlan.select(None, bk.SortAxisDescriptor((2, 4), sort_axis=1, element=bk.f32))
plan.run(None, bk.workspace(plan), bk.SortAxisArgs(x=x, y=y, indices=indices))
print(bk.download(y))
print(bk.download(indices))
