# %% Plan
import numpy as np

import baracuda as bk

keys = bk.upload(np.array([[3, 1, 2, 1]], dtype=np.float32))
values = bk.upload(np.array([[10, 11, 12, 13]], dtype=np.int32))
sorted_keys, sorted_values = bk.empty((1, 4), bk.f32), bk.empty((1, 4), bk.i32)
plan = bk.SortByKeyPlan.select(None, bk.SortByKeyDescriptor(1, 4, bk.i32, element=bk.f32))
args = bk.SortByKeyArgs(keys=keys, values=values, sorted_keys=sorted_keys, sorted_values=sorted_values)
plan.run(None, bk.workspace(plan), args)
print(bk.download(sorted_keys), bk.download(sorted_values))
