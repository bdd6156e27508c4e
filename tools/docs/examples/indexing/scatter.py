# %% Function
import numpy as np

import baracuda as bk

updates = np.array([[1, 2], [3, 4]], dtype=np.float32)
index = np.array([[3, 0], [1, 1]])
print(bk.scatter(index, updates, 4))  # of two updates of a cell the last one stays

# %% Plan
updates = bk.upload(np.array([[1, 2], [3, 4]], dtype=np.float32))
index = bk.upload(np.array([[3, 0], [1, 1]], dtype=np.int32))
out = bk.zeros((2, 4), bk.f32)
descriptor = bk.ScatterDescriptor((2, 2), scatter_dim=1, out_dim_size=4, element=bk.f32)
plan = bk.ScatterPlan.select(None, descriptor, bk.PlanPreference(deterministic=True))
plan.run(None, bk.workspace(plan), bk.ScatterArgs(updates=updates, index=index, out=out))
print(bk.download(out))
