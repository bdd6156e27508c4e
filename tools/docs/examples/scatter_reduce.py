# %% Function
import numpy as np

import baracuda as bk

updates = np.array([[0.5, 2, 3], [1, 0.25, 4]], np.float32)
index = np.array([[2, 0, 0], [1, 1, 3]])
print(bk.scatter_reduce(updates, index, 4, reduce="mean"))
out = np.full((2, 4), 1.5, np.float32)
print(bk.scatter_reduce(updates, index, 4, reduce="amax", include_self=True, out=out))

# %% Plan
updates, index = bk.upload(updates), bk.upload(index)
out = bk.upload(np.full((2, 4), 10, np.float32))
of = bk.ScatterReduceDescriptor((2, 3), 1, 4, bk.ScatterReduction.PROD, include_self=True, element=bk.f32)
plan = bk.ScatterReducePlan.select(None, of)
plan.run(None, bk.workspace(plan), bk.ScatterReduceArgs(updates=updates, index=index, out=out))
print(bk.download(out))
