# %% Function
import numpy as np

import baracuda as bk

updates = np.array([[0.5, 2, 3], [1, 0.25, 4]], np.float32)
index = np.array([[2, 0, 0], [1, 1, 3]])
print(bk.scatter_add(index, updates, 4))

# %% Plan
updates, index = bk.upload(updates), bk.upload(index)
out = bk.upload(np.full((2, 4), 10, np.float32))  # what is added to
of = bk.ScatterAddDescriptor((2, 3), scatter_dim=1, out_dim_size=4, element=bk.f32)
plan = bk.ScatterAddPlan.select(None, of)
plan.run(None, bk.workspace(plan), bk.ScatterAddArgs(updates=updates, index=index, out=out))
print(bk.download(out))
