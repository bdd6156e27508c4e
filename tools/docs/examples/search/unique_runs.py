# %% Function
import numpy as np

import baracuda as bk

print(*bk.unique_runs(np.array([2, 2, 1, 2], np.float32)))

# %% Plan
x, values = bk.upload(np.array([[2], [2], [1], [2]], np.float32)), bk.zeros((4, 1), bk.f32)
first, inverse, counts, counter = (bk.zeros((count,), bk.i64) for count in (4, 4, 4, 1))
plan = bk.UniqueRunsPlan.select(None, bk.UniqueRunsDescriptor(4, 1, 4, equal_nan=True, element=bk.f32))
args = bk.UniqueRunsArgs(x=x, order=None, values=values, first=first, inverse=inverse, counts=counts, counter=counter)
plan.run(None, bk.workspace(plan), args)
print(bk.download(values).ravel(), bk.download(inverse), bk.download(counter))
