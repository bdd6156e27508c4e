# %% Function
import numpy as np

import baracuda as bk

updates, index = np.array([[0.5, 2], [3, 1]], np.float32), np.array([[4, 0], [4, 1]])
print(bk.put_add(index, updates, 6))

# %% Plan
updates, index = bk.upload(updates), bk.upload(index)
out = bk.upload(np.full((2, 3), 10, np.float32))  # what is added to
plan = bk.PutAddPlan.select(None, bk.PutAddDescriptor((2, 2), (2, 3), element=bk.f32))
plan.run(None, bk.workspace(plan), bk.PutAddArgs(updates=updates, index=index, out=out))
print(bk.download(out))
