# %% Function
import numpy as np

import baracuda as bk

x = np.array([[3, 1, 2, 1], [5, 8, 5, 0]], dtype=np.float32)
print(bk.argsort(x))
print(bk.argsort(x, axis=0, descending=True))

# %% Plan
x = bk.upload(np.array([[3, 1, 2, 1], [5, 8, 5, 0]], dtype=np.float32))
indices = bk.empty((2, 4), bk.i64)
plan = bk.ArgsortAxisPlan.select(None, bk.ArgsortAxisDescriptor((2, 4), sort_axis=1, element=bk.f32))
plan.run(None, bk.workspace(plan), bk.ArgsortAxisArgs(x=x, indices=indices))
print(bk.download(indices))
