# %% Function
import numpy as np

import baracuda as bk

x = np.array([[3, 1, 2, 1], [5, 8, 5, 0]], dtype=np.float32)
print(bk.sort(x))
print(bk.sort(x, axis=0, descending=True))

# %% Plan
x = bk.upload(np.array([[3, 1, 2, 1], [5, 8, 5, 0]], dtype=np.float32))
y = bk.empty((2, 4), bk.f32)
plan = bk.SortValuesAxisPlan.select(None, bk.SortValuesAxisDescriptor((2, 4), sort_axis=1, element=bk.f32))
plan.run(None, bk.workspace(plan), bk.SortValuesAxisArgs(x=x, y=y))
print(bk.download(y))
