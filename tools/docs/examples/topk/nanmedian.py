# %% Function
import numpy as np

import baracuda as bk

x = np.array([[3, 1, np.nan, 1, 5], [9, 2, 6, np.nan, 3]], dtype=np.float32)
print(bk.nanmedian(x, axis=1))

# %% Plan
x = bk.upload(np.array([[3, 1, np.nan, 1, 5], [9, 2, 6, np.nan, 3]], dtype=np.float32))
values, indices = bk.empty((2, 1), bk.f32), bk.empty((2, 1), bk.i64)
plan = bk.NanmedianPlan.select(None, bk.NanmedianDescriptor((2, 5), 1, element=bk.f32))
plan.run(None, bk.workspace(plan), bk.NanmedianArgs(input=x, values=values, indices=indices))
print(bk.download(values), bk.download(indices))
