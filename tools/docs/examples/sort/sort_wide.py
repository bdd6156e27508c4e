# %% Plan
import numpy as np

import baracuda as bk

x = bk.upload(np.array([[3, 1, 2, 1], [5, 8, 5, 0]], dtype=np.float32))
values, indices = bk.empty((2, 4), bk.f32), bk.empty((2, 4), bk.i64)
plan = bk.SortWidePlan.select(None, bk.SortWideDescriptor(2, 4, descending=True, element=bk.f32))
plan.run(None, bk.workspace(plan), bk.SortWideArgs(input=x, values=values, indices=indices))
print(bk.download(values))
print(bk.download(indices))
